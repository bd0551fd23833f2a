"""What tests start is mostly forked from a process that has imported everything: it says what a cold start says."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import Ran, program
from tests.fakes import forks
from tests.fakes.llm_server import LlmServer

#: Times, and the numbers of processes and sessions, which no two starts share.
NUMBERS = re.compile(r"[0-9a-f]*\d[0-9a-f.,]*")
#: At least one run of each command that needs neither a terminal nor a network, and ends.
COMMANDS = (
    *(
        "--version | --help | help | help telegram | agent -m hello --ephemeral | -m hello --json | nonsense --none"
    ).split(" | "),
    *("config", "config check", "config get agents.defaults.model", "config set agents.defaults.model other"),
    *(
        "people | permissions | sessions | sessions search heron | usage | skill list | library | schedule | watch"
    ).split(" | "),
    *("status", "soul", "mcp", "backup", "restore last", "import nowhere", "replay nowhere", "completion bash"),
)


async def test_a_start_that_is_forked_says_what_a_cold_one_says(tmp_path: Path) -> None:
    async with LlmServer(after="Hello.") as llm:

        async def said(folder: Path, words: str, *, cold: bool) -> Ran:
            folder.mkdir()
            ran = await program(folder, llm).run(*words.split(), cold=cold)
            out, err = (NUMBERS.sub("0", text.replace(str(folder), "")) for text in (ran.out, ran.err))
            return Ran(ran.code, out, err)

        for number, words in enumerate(COMMANDS):
            cold, forked = await asyncio.gather(
                said(tmp_path / f"cold-{number}", words, cold=True),
                said(tmp_path / f"fork-{number}", words, cold=False),
            )
            assert cold == forked, words
            assert cold.out + cold.err, words


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONUTF8", "LC_ALL"])
def test_a_start_with_variables_that_are_read_before_it_could_fork_is_cold(tmp_path: Path, name: str) -> None:
    env = {**program(tmp_path).env, "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}
    assert forks.forkable(env)
    assert not forks.forkable({**env, name: str(tmp_path)})


BROKEN = """
import asyncio, sys, warnings
from pathlib import Path
import pytest
from tests.fakes import forks

warnings.simplefilter("ignore")  # of what it would have printed nothing is read
forks.connected(Path(sys.argv[1]))
for _ in ("waits for it", "is too late"):
    with pytest.raises(pytest.fail.Exception) as failure:
        asyncio.run(forks.start(["--version"], {}))
    print(failure.value)
"""


def test_where_the_process_that_forks_ends_at_its_start_each_test_says_why(tmp_path: Path) -> None:
    room = tmp_path / "tests" / "fakes"
    room.mkdir(parents=True)
    for folder in (room.parent, room):
        (folder / "__init__.py").touch()
    (room / "forks.py").write_text("raise SystemExit('broken at its start')", encoding="utf-8")
    command = [sys.executable, "-c", BROKEN, str(tmp_path)]
    ran = subprocess.run(command, cwd=forks.ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (
        ran.stdout.split("\n\n")[:2] == ["the process that forks for the tests has ended: broken at its start"] * 2
    ), ran.stderr


async def test_ctrl_c_while_the_program_is_imported_ends_it_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "class Pressed:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'nanobot.cli.main':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Pressed)\n",
        encoding="utf-8",
    )
    nanobot = program(tmp_path)
    ran = await nanobot.run(
        "--version", env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"}, cold=True
    )
    assert (ran.code, ran.out, ran.err) == (-signal.SIGINT, "", "")
