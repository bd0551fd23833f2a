"""Commands of the owner around calls and turns: what they are told and can refuse, and what they cannot allow."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from nanobot.bus.events import TurnFinished
from nanobot.config.loader import load
from nanobot.errors import ConfigError
from nanobot.providers.scripted import Call
from tests.agent.test_files import home
from tests.tables import table

#: Writes down what it is told, then does as its arguments say: an exit code, a reason, seconds to take.
HOOK = """
import json, os, sys, time
told = json.load(sys.stdin)
with open(sys.argv[1], "a") as log:
    log.write(json.dumps({**told, "env": sorted(os.environ)}) + "\\n")
time.sleep(float(sys.argv[4]))
print(sys.argv[3], file=sys.stderr)
sys.exit(int(sys.argv[2]))
"""


def hook(folder: Path, code: int = 0, reason: str = "", *, wait: float = 0, **more: object) -> dict[str, object]:
    script = folder / "hook.py"
    script.write_text(HOOK)
    return {"command": [sys.executable, str(script), str(folder / "log"), str(code), reason, str(wait)], **more}


def told(folder: Path) -> list[dict[str, object]]:
    path = folder / "log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def turn(folder: Path, hooks: Mapping[str, object], *calls: Call) -> tuple[TurnFinished, str]:
    """A turn in which the model makes these calls, and what it was told of the last ones."""
    async with home(folder, {"hooks": hooks}, {"PATH": "/usr/bin:/bin", "SECRET_OF_MINE": "canary"}) as box:
        return await box.ask("go", *calls), box.results()


WRITE = Call("write_file", {"path": "a.txt", "content": "x"})


async def test_a_hook_refuses_a_call_that_was_allowed_and_says_why_and_another_tool_is_none_of_its_business(
    tmp_path: Path,
) -> None:
    hooks = {"beforeTool": [hook(tmp_path, 2, "not on a Sunday", tool="write_*")]}
    result, said = await turn(tmp_path, hooks, WRITE, Call("list_dir", {}))
    assert "not run: not on a Sunday. Find another way" in said
    assert result.receipts == ()
    assert not (tmp_path / ".nanobot/workspace/a.txt").exists()
    (one,) = told(tmp_path)
    assert (one["event"], one["tool"], one["arguments"]) == ("beforeTool", "write_file", WRITE.arguments)
    assert (one["person"], one["tainted"]) == ("terminal:1", False)
    assert "SECRET_OF_MINE" not in str(one["env"])


@table(
    "broken why",
    ({"code": 1}, "ended with code 1"),
    ({"code": 1, "reason": "boom"}, "boom"),
    ({"wait": 60, "timeout": 0.2}, "took longer than 0.2 s"),
    ({"command": ["/nowhere/at-all"]}, "cannot start"),
)
async def test_a_guard_that_is_broken_lets_nothing_run(tmp_path: Path, broken: dict[str, object], why: str) -> None:
    _, said = await turn(tmp_path, {"beforeTool": [{**hook(tmp_path), **_hook(tmp_path, broken)}]}, WRITE)
    assert why in said
    assert not (tmp_path / ".nanobot/workspace/a.txt").exists()


def _hook(folder: Path, broken: dict[str, object]) -> dict[str, object]:
    return broken if "command" in broken else hook(folder, **broken)  # type: ignore[arg-type]  # rows of the table


async def test_a_hook_sees_only_what_the_judge_has_allowed_and_is_told_what_came_of_it_and_of_the_end(
    tmp_path: Path,
) -> None:
    agreeing = hook(tmp_path)
    hooks = {"beforeTool": [agreeing], "afterTool": [agreeing], "turnEnd": [agreeing]}
    forbidden = Call("read_file", {"path": "../config.json"})
    result, said = await turn(tmp_path, hooks, forbidden, WRITE)
    assert "never shown" in said
    assert result.receipts == ("created a.txt (+1 −0)",)
    before, after, end = told(tmp_path)
    assert [one["event"] for one in (before, after, end)] == ["beforeTool", "afterTool", "turnEnd"]
    assert isinstance(after["result"], dict)
    assert after["result"]["receipt"] == "created a.txt (+1 −0)"
    assert (end["outcome"], end["answer"], end["receipts"]) == ("completed", "Done.", ["created a.txt (+1 −0)"])
    assert end["session"] == before["session"] != ""


async def test_keys_of_the_configuration_are_taken_out_of_what_a_hook_is_told(tmp_path: Path) -> None:
    (tmp_path / ".nanobot/workspace").mkdir(parents=True)
    await turn(tmp_path, {"turnEnd": [hook(tmp_path)], "beforeTool": [hook(tmp_path)]}, WRITE)
    assert "sk-canary-key-1" not in (tmp_path / "log").read_text()
    assert len(told(tmp_path)) == 2


def test_a_hook_without_a_command_is_refused_by_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"hooks": {"beforeTool": [{"tool": "exec"}]}}))
    with pytest.raises(ConfigError, match='needs a "command"'):
        load(path, env={})
