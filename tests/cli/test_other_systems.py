"""A start where something is not as usual: an old Python, a terminal without UTF-8, a home that cannot be written."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nanobot.__main__ as entry
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program
from tests.cli.newcomer import KEY, Services, dialogue
from tests.fakes.telegram_server import TOKEN

OLD = "import runpy, sys; sys.version_info = (3, 9, 1); runpy.run_module('nanobot', run_name='__main__')"


def test_a_python_that_is_too_old_says_which_one_is_needed(tmp_path: Path) -> None:
    """What an old one reads must be written for it: the package itself and its way in."""
    for path in (Path(entry.__file__), Path(entry.__file__).with_name("__init__.py")):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
    command = [sys.executable, "-c", OLD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nanobot needs Python 3.11 or later, and this is Python 3")
    assert len(done.stderr.splitlines()) == 1


async def test_a_terminal_without_utf_8_gets_the_link_and_is_told_of_the_code(tmp_path: Path) -> None:
    async with Services() as services:
        env = {**services.env(tmp_path), "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "nanobot", "onboard", *services.options, "--time-zone", "UTC"]
        with PseudoTerminal(command, env=env, columns=150, rows=60) as terminal:
            await dialogue(terminal, {"1 of 2": KEY, "2 of 2": TOKEN})
            await terminal.until("https://t.me/nano_test_bot?start=")
            await terminal.until("A code to scan needs a terminal with UTF-8; this one has ascii.")
            terminal.press("\x03")
            assert await terminal.wait() == 0
    assert "UnicodeEncodeError" not in terminal.raw


@pytest.mark.parametrize("words", [["onboard", "--yes"], ["-m", "hello"], ["status"]])
async def test_a_home_that_cannot_be_written_is_named_with_a_way_on(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ran = await Program(tmp_path / "file" / "home").run(*words, env={"HOME": str(tmp_path / "file")})
    assert ran.code == 2, ran.err
    assert f"{tmp_path / 'file'} is no folder. Choose another place with NANOBOT_HOME" in ran.err
    assert len(ran.err.splitlines()) == 1
