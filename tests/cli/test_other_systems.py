"""A start where something is not as usual: an old Python, a terminal without UTF-8, a home that cannot be written."""

import ast
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nanobot.__main__ as entry
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, program
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("sessions show caf\udce9", "There is no session 'caf\\udce9' here."),
        ("replay ~nobody-here/turn.jsonl", "~nobody-here/turn.jsonl"),
        ("restore ~nobody-here/all.tar.gz", "There is no backup ~nobody-here/all.tar.gz."),
        ("skill check ~nobody-here/skill", "There is no skill '~nobody-here/skill'."),
        ("skill check /" + "n" * 300, "this name is too long: /nnn"),
        ("library add /" + "n" * 300, "this name is too long: /nnn"),
        ("status --workspace /" + "n" * 300, "this name is too long: /nnn"),
        ("status --workspace {loop}", "is no folder"),
    ],
)
async def test_words_that_name_no_file_or_session_get_one_sentence(tmp_path: Path, words: str, said: str) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    got = await program(tmp_path, None).run(*words.format(loop=loop).split())
    assert (got.code, got.out, got.err.count("\n")) == (2, "", 1), got
    assert said in got.err


@pytest.mark.parametrize("words", ["schedule", "library list", "-m hello"])
def test_a_start_in_a_folder_that_was_deleted_says_so(tmp_path: Path, words: str) -> None:
    at = program(tmp_path, None)
    (tmp_path / "gone").mkdir()
    start = ["sh", "-c", 'rmdir "$PWD"; exec "$0" -m nanobot "$@"', sys.executable, *words.split()]
    env = {**at.env, "PYTHONPATH": str(Path(entry.__file__).parents[1])}
    done = subprocess.run(
        start, cwd=tmp_path / "gone", env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert "the folder that you are in was deleted" in done.stderr


def test_a_workspace_that_may_not_be_read_gets_one_sentence(tmp_path: Path) -> None:
    bare = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if bare and shutil.which(bare[0]) is None:
        pytest.skip("every file can be read here: setpriv is missing")
    at, shut = program(tmp_path, None), tmp_path / "shut"
    shut.mkdir(mode=0)
    start = [*bare, sys.executable, "-m", "nanobot", "sessions", "--workspace", str(shut), "list"]
    done = subprocess.run(start, env=at.env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert f"{shut} cannot be read: Permission denied." in done.stderr


async def test_a_new_skill_is_described_by_what_of_its_words_is_text(tmp_path: Path) -> None:
    nanobot = program(tmp_path, None)
    assert (await nanobot.run("skill", "new", "coffee", "Makes a caf\udce9 au lait.")).code == 0
    assert "Makes a caf au lait." in (await nanobot.run("skill", "show", "coffee")).out


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


COMMANDS = [("gateway",), ("-m", "hello", "--model", "lookup"), ("status",)]
COMMANDS += [("schedule",), ("watch",), ("library", "status"), ("skill", "list"), ("usage",)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_that_may_only_be_read_gets_a_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    home = program(tmp_path, None)
    for folder in ("media", "cache", "logs", "workspace"):
        (home.home / folder).mkdir(exist_ok=True)
    ask = home.command(*command)
    if os.getuid() == 0:  # whom no mode keeps out
        place = shlex.quote(str(home.home))
        mount = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
        if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
            pytest.skip("this machine lets no test mount anything")
        ask = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *ask]
    else:
        home.home.chmod(0o500)
    try:
        done = subprocess.run(ask, env=home.env, capture_output=True, text=True, timeout=120, check=False)
    finally:
        home.home.chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert "cannot be made or written" in done.stderr
    assert "NANOBOT_HOME" in done.stderr
    assert "something inside broke" not in done.stderr
