"""Completion in shells: the script that the program prints, in the shells that are here."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables import table

BASH = """\
source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_nanobot
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the script for each shell."""
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [sys.executable, "-m", "nanobot", "completion", shell],
            capture_output=True,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            timeout=120,
            check=True,
        )
        (folder / shell).write_bytes(done.stdout)
    assert not (folder / ".nanobot").exists()
    return folder


async def completed(script: Path, *words: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        "bash", "--norc", "-c", BASH, "bash", str(script), "nanobot", *words, stdout=-1, stderr=-1
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert err == b""
    return sorted(out.decode().split())


@table(
    "words offered",
    (["g"], ["gateway"]),
    (["mcp", ""], ["add", "list", "login", "remove", "test"]),
    (["mcp", "add", "--s"], ["--sse"]),
    (["gateway", "--role", ""], ["all", "poller", "worker"]),
    (["gateway", "--debug", "--role", "w"], ["worker"]),
    (["--color", "a"], ["always", "auto"]),
    (["completion", ""], ["bash", "fish", "zsh"]),
    (["help", "quick"], ["quickstart"]),
    (["--config", "x"], []),
    (["onboard", "--telegram-t"], ["--telegram-token-env"]),
)
async def test_bash_offers_what_can_follow(scripts: Path, words: list[str], offered: list[str]) -> None:
    found = await completed(scripts / "bash", *words)
    assert [one for one in found if not one.startswith("-") or words[-1].startswith("-")] == offered


async def test_bash_offers_every_command_and_the_options_of_a_message(scripts: Path) -> None:
    found = await completed(scripts / "bash", "")
    assert {"agent", "gateway", "onboard", "doctor", "--continue", "--model", "--version"} <= set(found)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_read_their_script(scripts: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    done = subprocess.run([shell, "-n", str(scripts / shell)], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
