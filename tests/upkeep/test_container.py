"""The container of docs/docker: its steps name what is there, and the gateway runs under what the compose file says."""

import asyncio
import json
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from nanobot.cli.habits import parse
from tests.channels.telegram.gateway import OWNER, furnished
from tests.fakes.llm_server import Reply

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
