"""Completion in a shell: the script that the program prints, in bash."""

import asyncio
import os
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
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    done = subprocess.run(
        [sys.executable, "-m", "nanobot", "completion", "bash"],
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        timeout=120,
        check=True,
    )
    assert not (folder / ".nanobot").exists()
    (folder / "bash").write_bytes(done.stdout)
    return folder / "bash"


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
    (["completion", ""], ["bash"]),
    (["help", "quick"], ["quickstart"]),
    (["--config", "x"], []),
    (["onboard", "--telegram-t"], ["--telegram-token-env"]),
)
async def test_bash_offers_what_can_follow(script: Path, words: list[str], offered: list[str]) -> None:
    found = await completed(script, *words)
    assert [one for one in found if not one.startswith("-") or words[-1].startswith("-")] == offered


async def test_bash_offers_every_command_and_the_options_of_a_message(script: Path) -> None:
    found = await completed(script, "")
    assert {"agent", "gateway", "onboard", "doctor", "--continue", "--model", "--version"} <= set(found)
