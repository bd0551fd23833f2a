"""An agent as the configuration describes it runs commands: offered or not, and what it tells of them."""

import sys
from pathlib import Path

import pytest

from nanobot.providers.scripted import Call
from nanobot.security.sandbox import Reason, choose
from tests.agent.test_files import home

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT TRIED: commands run on Linux only")


async def sandbox_works() -> None:
    found = await choose("auto")
    if isinstance(found, Reason):
        pytest.skip(f"NOT TRIED: {found.text}")


async def test_U73_no_command_runs_before_the_owner_has_chosen_it(tmp_path: Path) -> None:
    async with home(tmp_path) as box:
        await box.ask("run it", Call("exec", {"command": "touch there"}))
        assert "There is no tool named 'exec'" in box.results()
        assert not (box.workspace / "there").exists()
        assert box.bot.loop.registry.skipped["exec"] == 'tools.profile is "files"; commands belong to "full"'
        assert "commands belong to" in (await box.ask("/tools")).text
        assert "No commands are offered" in (await box.ask("/tasks")).text
    async with home(tmp_path, profile="full", exec={"enable": False}) as box:
        assert box.bot.loop.registry.skipped["exec"] == "tools.exec.enable is false"


async def test_a_command_runs_as_configured_and_its_work_in_the_background_is_seen_in_the_chat(tmp_path: Path) -> None:
    await sandbox_works()
    async with home(tmp_path, profile="full", exec={"memoryMb": 1_000}) as box:
        done = await box.ask("run it", Call("exec", {"command": "echo $((6 * 7)) > answer; cat answer"}))
        assert "exit 0" in box.results()
        assert "42" in box.results()
        assert len(done.receipts) == 1
        assert (box.workspace / "answer").read_text() == "42\n"
        secret = await box.ask("read it", Call("exec", {"command": f"cat {tmp_path}/.nanobot/config.json; env"}))
        assert "sk-canary" not in box.results()
        assert secret.outcome == "completed"
        begun = await box.ask("go on", Call("exec", {"command": "echo ready; sleep 600", "background": True}))
        assert begun.receipts == ("started echo ready; sleep 600 in the background (task 1)",)
        assert "`1` echo ready; sleep 600: running since" in (await box.ask("/tasks")).text
        assert "stopped" in (await box.ask("/tasks 1 stop")).text
        assert "stopped" in (await box.ask("/tasks")).text


async def test_a_command_without_a_sandbox_is_asked_for_and_here_nobody_can_be_asked(tmp_path: Path) -> None:
    async with home(tmp_path, profile="full", exec={"sandbox": "none"}) as box:
        await box.ask("run it", Call("exec", {"command": "touch there"}))
        assert "The call was not run" in box.results()
        assert not (box.workspace / "there").exists()
