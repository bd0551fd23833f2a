"""What many turns leave behind in memory, how a long chat slows its turns, and how long the first answer takes.

    python benchmarks/growth.py [--turns 1000] [--chats 50] [--long 460] [--starts 9]

Each turn is a question, a tool call whose result has 1 MB, and an answer, through the whole loop, bus and SQLite store,
with a model that costs nothing; the chats take turns. The memory is the resident set in MB after one turn of every chat
against that after all of them: at most 15 MB more. A long chat has results of 500 characters; the median CPU of
its last 60 turns is at most 1.2 times that of 60 early ones, once its history fills the window that a request
carries. The first answer is that of a gateway that has rested for 2 s: its CPU from the message until all that comes
after it is done too, against the eight that follow, each in a chat of its own: at most 1.2 times, the medians of all
starts. All threads of the gateway run on one core. The last line is the summary; exit code 1 where a bar is missed.
"""

import argparse
import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from loguru import logger  # noqa: E402 - the project is found by the line above when run as a file
from msgspec import Struct  # noqa: E402

from benchmarks.gateway import FIRST_USER, running  # noqa: E402
from nanobot.agent.chats.services import AgentServices  # noqa: E402
from nanobot.agent.context import ContextBuilder  # noqa: E402
from nanobot.agent.loop import AgentLoop  # noqa: E402
from nanobot.agent.tools.base import Tool, ToolContext  # noqa: E402
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender  # noqa: E402
from nanobot.command.builtin import builtin_router  # noqa: E402
from nanobot.providers.base import Request  # noqa: E402
from nanobot.providers.scripted import Call, ScriptedProvider, Step  # noqa: E402
from nanobot.results import ToolResult  # noqa: E402
from nanobot.security.policy import Access  # noqa: E402
from nanobot.session.sqlite import SqliteDatabase  # noqa: E402
from nanobot.session.store import SessionStore  # noqa: E402

MEMORY_BAR = 15.0  # MB
TURN_BAR = FIRST_BAR = 1.2
LATER = 8  # answers of a gateway after its first
SOME = 60  # turns of which the median is taken
PAGE = "a line of a large result\n" * 40_000


class LookArgs(Struct):
    size: int


class LookTool(Tool[LookArgs]):
    name = "look"
    description = "Gives a text."
    Arguments = LookArgs
    access: Access = "public"

    async def run(self, args: LookArgs, context: ToolContext) -> ToolResult:  # noqa: ARG002
        return ToolResult(f"{time.monotonic_ns()} {PAGE[: args.size]}")


class Talk:
    """An agent with a store in `folder`, whose every turn looks at `size` characters."""

    def __init__(self, folder: Path, size: int) -> None:
        self.size, self._steps = size, 0
        self.provider = ScriptedProvider(after=self._play)
        self.store = SessionStore(SqliteDatabase(folder / f"{size}.db"))
        services = AgentServices(
            MessageBus(), self.store, self.provider, ContextBuilder(folder), builtin_router(), {"look": LookTool}
        )
        self._loop = AgentLoop(services)

    def _play(self, _: Request) -> Step:
        self._steps += 1
        return Call("look", {"size": self.size}) if self._steps % 2 else "That is what it says."

    async def turn(self, chat: int) -> float:
        """Seconds of CPU."""
        before = time.process_time()
        message = InboundMessage(Address("bench", str(chat)), Sender("1", role="owner"), "What does it say?")
        finished = await self._loop.process(message)
        assert finished.outcome == "completed", finished
        self.provider.requests.clear()
        return time.process_time() - before

    async def aclose(self) -> None:
        await self._loop.aclose()
        await self.store.aclose()


def resident() -> float:
    """MB of this process that are in memory."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


async def left_behind(turns: int, chats: int, folder: Path) -> float:
    """MB that `turns` turns have left, beyond what one turn of every chat takes."""
    talk = Talk(folder, len(PAGE))
    for chat in range(chats):
        await talk.turn(chat)
    before = resident()
    for number in range(turns - chats):
        await talk.turn(number % chats)
    left = resident() - before
    await talk.aclose()
    return left


async def slowed(turns: int, folder: Path) -> float:
    """How many times as long as early turns of a chat its last ones take."""
    talk = Talk(folder, 500)
    times = [await talk.turn(0) for _ in range(turns)]
    await talk.aclose()
    return statistics.median(times[-SOME:]) / statistics.median(times[SOME : 2 * SOME])


def on_one_core(process: int) -> None:
    """Have every thread of a process run on the last core that it may use."""
    for task in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(task.name), {max(os.sched_getaffinity(process))})


async def answers() -> list[float]:
    """Seconds of CPU that the first answer of a gateway takes, and those after it."""
    async with running(1 + LATER) as gateway:
        on_one_core(gateway.process.pid)
        await asyncio.sleep(2)  # what is loaded beside the loop is there
        times = []
        for number in range(1 + LATER):
            person = gateway.telegram.user(f"U{number}", FIRST_USER + number)
            before = gateway.precise
            person.say("a question")
            chat = person.chat
            await gateway.telegram.until(
                lambda chat=chat: any("Done." in line for line in gateway.telegram.visible(chat)),  # type: ignore[misc]
                timeout=30,
            )
            await asyncio.sleep(0.2)  # what comes after the answer is done
            times.append(gateway.precise - before)
    return times


async def first_answer(starts: int) -> float:
    """How many times the CPU of later answers of a gateway its first one takes."""
    begun = [await answers() for _ in range(starts)]
    first, *later = [statistics.median(times[number] for times in begun) for number in range(1 + LATER)]
    return first / statistics.median(later)


async def measure(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as name:
        left = await left_behind(options.turns, options.chats, Path(name))
        ratio = await slowed(options.long, Path(name))
    first = await first_answer(options.starts)
    good = left <= MEMORY_BAR and ratio <= TURN_BAR and first <= FIRST_BAR
    print(
        f"growth {'ok' if good else 'MISSED'}: {left:+.1f} MB after {options.turns} turns of {options.chats} chats, "
        f"turn {options.long} of a chat {ratio:.2f} x turn {2 * SOME}, first answer {first:.2f} x later ones"
    )
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--chats", type=int, default=50)
    parser.add_argument("--long", type=int, default=460)
    parser.add_argument("--starts", type=int, default=9)
    logger.remove()
    return asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
