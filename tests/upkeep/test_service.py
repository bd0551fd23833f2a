"""The gateway as a service: installed and taken away by the shipped program, and run in a container."""

import asyncio
import json
import plistlib
import re
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from nanobot.cli.habits import parse
from nanobot.errors import UsageError
from nanobot.upkeep.service import Service, environment_text, needed
from tests.channels.telegram.gateway import OWNER, configured, furnished
from tests.fakes.llm_server import Reply
from tests.fakes.service_manager import directives
from tests.fakes.telegram_server import TOKEN, TelegramServer

ANALYZE = shutil.which("systemd-analyze")


async def listen(listening: socket.socket, told: list[str]) -> None:
    """Keep what a service tells its manager, as it comes."""
    while True:
        told.append((await asyncio.get_running_loop().sock_recv(listening, 1_000)).decode())


async def test_one_command_makes_the_gateway_a_service_and_another_takes_it_away(tmp_path: Path, tools: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.setblocking(False)
        listening.bind(str(tmp_path / "notify"))
        told: list[str] = []
        hearing = asyncio.create_task(listen(listening, told))
        async with furnished(tmp_path, Reply("Good morning."), token="${BOT_TOKEN}") as (telegram, _, _, at):
            env = {
                "PATH": f"{tools}:{at.env['PATH']}",
                "BOT_TOKEN": TOKEN,
                "ANTHROPIC_API_KEY": "",
                "OTHER": "kept out",
            }
            done = await at.run("gateway", "--install", env=env)
            assert done.code == 0, (at.home / "gateway.json").read_text(encoding="utf-8") + done.err
            ada = telegram.user("Ada", OWNER)
            await ada.asks("hi", "Good morning.")
            await telegram.until(lambda: {"READY=1", "WATCHDOG=1"} <= {*told})
            unit = tmp_path / ".config" / "systemd" / "user" / "nanobot.service"
            modes = [one.stat().st_mode & 0o777 for one in (unit, at.home / "environment")]
            kept = (at.home / "environment").read_text(encoding="utf-8")
            gone = await at.run("gateway", "--uninstall", env=env)
            again = await at.run("gateway", "--uninstall", env=env)
            await telegram.until(lambda: "STOPPING=1" in told)
            hearing.cancel()
    assert (done.code, "It runs and answers as @" in done.out) == (0, True), done.out + done.err
    assert "Variables that it needs" in done.out
    assert f"BOT_TOKEN={TOKEN}" in kept
    assert "OTHER" not in kept
    assert modes == [0o600, 0o600]
    assert "loginctl enable-linger" in (tools / "calls").read_text(encoding="utf-8")
    assert (gone.code, unit.exists(), "stopped and taken away" in gone.out) == (0, False, True)
    assert (again.code, again.out) == (0, "No service is set up here.\n")


async def test_without_a_service_manager_it_is_said_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    async with TelegramServer() as telegram:
        at = configured(tmp_path, telegram, None)
        nobody = await at.run("gateway", "--install", env={"PATH": str(tmp_path)})
        shown = await at.run("gateway", "--install", "--dry-run", env={"OPENAI_API_KEY": "sk-not-to-be-shown"})
    assert (nobody.code, "neither a systemd of your user nor launchd" in nobody.err) == (2, True)
    assert "Type=notify" in shown.out
    assert "OPENAI_API_KEY" in shown.out
    assert "sk-not-to-be-shown" not in shown.out
    assert not (tmp_path / ".config").exists()
    assert not (at.home / "environment").exists()


@pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is not installed: no unit was verified")
async def test_the_unit_is_one_that_systemd_takes_also_where_paths_hold_blanks_and_signs(tmp_path: Path) -> None:
    for place in ("home", "a home with 50% $blanks"):
        home = tmp_path / place
        home.mkdir()
        service = Service(("/bin/sh", "-c", 'echo "%h" $HOME', str(home)), home, home / "running.md")
        unit = tmp_path / "nanobot.service"
        unit.write_text(service.unit(), encoding="utf-8")
        done = await asyncio.create_subprocess_exec(
            *(str(ANALYZE), "verify", "--user", "--man=no", "--recursive-errors=no", str(unit)),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        said = (await done.communicate())[0].decode()
        assert "nanobot.service" not in said, said  # what else it says is of other units of this machine
        found = directives(unit)
        assert (found["Restart"], found["RestartPreventExitStatus"], found["UMask"]) == ("always", "2", "0077")


@pytest.mark.parametrize("name", ["a\nExecStartPre=/bin/evil", "a\\", "a ", "a\udcff", "a\x1b[31m"])
def test_a_home_whose_name_would_write_further_lines_into_a_unit_is_refused(tmp_path: Path, name: str) -> None:
    service = Service(("python", "-m", "nanobot"), tmp_path / name, tmp_path)
    with pytest.raises(UsageError, match="Give that folder another name"):
        service.unit()
    with pytest.raises(UsageError, match="Give that folder another name"):
        service.agent({})


def test_the_agent_of_launchd_runs_at_login_and_again_and_holds_the_variables(tmp_path: Path) -> None:
    made = plistlib.loads(Service(("python", "-m", "nanobot"), tmp_path, tmp_path).agent({"KEY": "k"}))
    assert (made["RunAtLoad"], made["KeepAlive"], made["ProgramArguments"]) == (True, True, ["python", "-m", "nanobot"])
    assert made["EnvironmentVariables"] == {"KEY": "k", "NANOBOT_HOME": str(tmp_path)}


def test_a_service_gets_the_keys_that_are_known_or_named_and_no_others() -> None:
    env = {
        "TZ": "two\nlines",
        "LANG": "no\udcfftext",
        "LC_ALL": "\x1b[31m",
        "A_KEY": "1",
        "NAMED": "it's",
        "https_proxy": "http://p",
        "AWS_SECRET": "no",
        "EMPTY": "",
    }
    found = needed(env, ["A_KEY", "EMPTY", "MISSING"], '{"token": "${env:NAMED:-x}"}')
    assert found == {"A_KEY": "1", "NAMED": "it's", "https_proxy": "http://p"}
    assert environment_text({"NAMED": "it's"}) == "NAMED='it'\"'\"'s'\n"


ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "docker"
BWRAP = shutil.which("bwrap")


def steps() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and what follows them."""
    text = re.sub(r"\\\n\s*", "", (FOLDER / "Dockerfile").read_text(encoding="utf-8"))
    lines = (line.partition(" ") for line in text.splitlines() if line and not line.startswith("#"))
    return [(name, rest.strip()) for name, _, rest in lines]


def test_the_image_copies_what_is_there_runs_as_nobody_special_and_its_commands_are_ours() -> None:
    found = steps()
    for source in (word for name, rest in found if name == "COPY" for word in rest.split()[:-1]):
        assert (ROOT / source).exists(), source
    copied = {word for name, rest in found if name == "COPY" for word in rest.split()[:-1]}
    built = re.findall(r'"(\w+)"', re.findall(r"only-include = (\[.*\])", (ROOT / "pyproject.toml").read_text())[0])
    assert {*built, "pyproject.toml", "README.md", "LICENSE"} <= copied  # all that a wheel is made of
    said = dict(found)
    names = [name for name, _ in found]
    assert names.index("USER") < names.index("ENTRYPOINT")
    assert (said["USER"], json.loads(said["ENTRYPOINT"])) == ("nanobot", ["nanobot"])
    assert parse(json.loads(said["CMD"])).command == "gateway"
    check = json.loads(said["HEALTHCHECK"].partition("CMD ")[2])
    assert (check[0], parse(check[1:]).healthy) == ("nanobot", True)


def test_the_compose_file_takes_away_what_the_gateway_does_not_need() -> None:
    text = (FOLDER / "compose.yaml").read_text(encoding="utf-8")
    wanted = ("read_only: true", "cap_drop:\n      - ALL", "no-new-privileges:true", "stop_grace_period: 90s", ":/data")
    assert [one for one in wanted if one not in text] == []
    assert "ports:" not in text
    assert "privileged: true" not in text


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap is not installed: the gateway was not tried in a container")
async def test_the_gateway_answers_without_rights_on_a_read_only_root_and_its_health_is_told(tmp_path: Path) -> None:
    async with furnished(tmp_path, Reply("From the box.")) as (telegram, _, _, at):
        box = [str(BWRAP), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-user", "--unshare-pid"]
        box += [*"--uid 1000 --gid 1000 --cap-drop ALL --tmpfs /tmp --bind".split(), str(at.home), "/mnt"]
        box += ["--ro-bind", str(ROOT), str(ROOT), "--ro-bind", sys.prefix, sys.prefix, "--chdir", "/mnt"]
        env = {"NANOBOT_HOME": "/mnt", "HOME": "/home", "LANG": "C.UTF-8", "PATH": at.env["PATH"]}
        for name, value in env.items():
            box += ["--setenv", name, value]
        probe = await asyncio.create_subprocess_exec(*box, "true")
        if await probe.wait():
            pytest.skip("bubblewrap cannot make a container here: the gateway was not tried in one")
        program = [sys.executable, "-m", "nanobot"]
        gateway = await asyncio.create_subprocess_exec(*box, "--die-with-parent", *program, "gateway", cwd=ROOT)
        try:
            ada = telegram.user("Ada", OWNER)
            await ada.asks("hi", "From the box.")
            told = await asyncio.create_subprocess_exec(
                *box, *program, "status", "--healthy", cwd=ROOT, stdout=asyncio.subprocess.PIPE
            )
            said = (await told.communicate())[0].decode()
        finally:
            gateway.send_signal(signal.SIGKILL)
            await gateway.wait()
    assert (told.returncode, said.startswith("process ")) == (0, True), said
