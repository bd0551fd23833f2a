"""What does a change of a file cost besides the system calls that it takes?

    python -m benchmarks.file_tools [--turns 60] [--lines 400]

`--turns` turns that each edit three files of `--lines` lines, through the whole loop with a session on the disk, a
model that costs nothing, the judge, versions and receipts; beside it, in the same run, the bare system calls: read the
file, write a new one, flush both it and its folder to the disk, take its name. What is compared is CPU time of the
process, user and system. The last line is the summary. Exit code 0: a call costs at most 5 ms more than the bare
system calls. 1: more.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from loguru import logger

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # so that it also runs as a file

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.files.change import EditFileTool
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender
from nanobot.command.builtin import builtin_router
from nanobot.files.spaces import FileSpaces
from nanobot.providers.base import Capabilities, Request
from nanobot.providers.scripted import Call, ScriptedProvider, Step
from nanobot.security.paths import Root
from nanobot.session.sqlite import SqliteDatabase
from nanobot.session.store import SessionStore

BAR_MS = 5.0
RUNS = 3
FILES = ("a.py", "b.py", "notes/c.md")


def text_of_number(number: int, lines: int) -> str:
    return "".join(f"line {at} of a file\n" for at in range(lines)) + f"changed {number} times\n"


def furnish(folder: Path, lines: int) -> None:
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of_number(0, lines), encoding="utf-8")


def bare(folder: Path, calls: int) -> float:
    """CPU in milliseconds of one change by system calls alone."""
    before = time.process_time()
    for number in range(calls):
        path = folder / FILES[number % 3]
        data = path.read_bytes().replace(b"changed", b"changed")
        spare = path.with_suffix(".new")
        with spare.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        spare.replace(path)
        at = os.open(path.parent, os.O_RDONLY)
        os.fsync(at)
        os.close(at)
    return (time.process_time() - before) / calls * 1_000


async def turns(folder: Path, count: int) -> float:
    """CPU in milliseconds of one call of a turn that edits three files."""

    def play(_: Request) -> Step:
        times, done = divmod(len(provider.requests) - 1, 4)
        if done == 3:
            return "done"
        edit = {"old": f"changed {times} times", "new": f"changed {times + 1} times"}
        return Call("edit_file", {"path": FILES[done], "edits": [edit]})

    provider = ScriptedProvider(after=play, capabilities=Capabilities(window=10_000_000))
    spaces = FileSpaces((Root(folder / "work", writable=True),), folder / "home", (), folder)
    store = SessionStore(SqliteDatabase(folder / "sessions.db"))
    builder = ContextBuilder(folder / "work")
    tools = {"edit_file": lambda: EditFileTool(spaces)}
    services = AgentServices(MessageBus(), store, provider, builder, builtin_router(), tools)
    loop = AgentLoop(services, limits=TurnLimits(max_tokens=10**12))
    person = Sender("1", role="owner")
    before = time.process_time()
    for number in range(count):
        finished = await loop.process(InboundMessage(Address("bench", str(number)), person, "go", direct=True))
        assert len(finished.receipts) == 3, finished
    used = time.process_time() - before
    spaces.close()
    await store.aclose()
    return used / count / 3 * 1_000


def once(count: int, lines: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="nanobot-files-") as place:
        for name in ("bare", "work"):
            furnish(Path(place, name), lines)
        return bare(Path(place, "bare"), 3 * count), asyncio.run(turns(Path(place), count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--lines", type=int, default=400)
    options = parser.parse_args()
    logger.remove()
    runs = [once(options.turns, options.lines) for _ in range(RUNS)]
    for alone, whole in runs:
        print(f"bare {alone:.2f} ms, call {whole:.2f} ms of CPU")
    more = statistics.median(whole - alone for alone, whole in runs)
    print(f"a change of a file: {more:.2f} ms of CPU more than its system calls; bar {BAR_MS:.0f} ms")
    return 0 if more <= BAR_MS else 1


if __name__ == "__main__":
    sys.exit(main())
