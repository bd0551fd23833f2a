"""What the agent itself costs: CPU per tool iteration, and the time to the first request of a long session.

    python benchmarks/agent_overhead.py [--iterations 300] [--messages 5000] [--runs 7]

A tool iteration is one request, one call and its result through the whole loop, bus and SQLite store included, with a
model and a tool that cost nothing. The bar is 3 ms of CPU. A long session is opened by a process of its own, from its
start to its first request, against an empty session; the bar is twice the time. The summary line comes last; the exit
status is 1 below a bar.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender
from nanobot.command.builtin import builtin_router
from nanobot.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from nanobot.providers.base import Capabilities, Request
from nanobot.providers.scripted import Call, ScriptedProvider, Step
from nanobot.results import ToolResult
from nanobot.security.policy import Access
from nanobot.session.sqlite import SqliteDatabase
from nanobot.session.store import SessionStore

ITERATION_MS = 3.0
LONG_RATIO = 2.0
HERE = Address("bench", "me")


class NoteArgs(Struct):
    text: str


class NoteTool(Tool[NoteArgs]):
    name = "note"
    description = "Does nothing."
    Arguments = NoteArgs
    access: Access = "public"

    async def run(self, args: NoteArgs, context: ToolContext) -> ToolResult:  # noqa: ARG002
        return ToolResult(f"noted {args.text} " + "x" * 500)


def loop_over(provider: ScriptedProvider, database: Path, steps: int = 10) -> tuple[AgentLoop, SessionStore]:
    store = SessionStore(SqliteDatabase(database))
    services = AgentServices(
        MessageBus(), store, provider, ContextBuilder(database.parent), builtin_router(), {"note": NoteTool}
    )
    return AgentLoop(services, limits=TurnLimits(max_steps=steps, max_tokens=10**12)), store


async def ask(loop: AgentLoop) -> None:
    finished = await loop.process(InboundMessage(HERE, Sender("1", role="owner"), "go"))
    assert finished.outcome == "completed", finished


async def iterations(count: int, folder: Path) -> float:
    """CPU in milliseconds of one tool iteration."""

    def play(_: Request) -> Step:
        done = len(provider.requests)
        return Call("note", {"text": f"number {done}"}) if done % (count + 1) else "done"

    provider = ScriptedProvider(after=play, capabilities=Capabilities(window=1_000_000))
    loop, store = loop_over(provider, folder / "iterations.db", count + 2)
    before = time.process_time()
    await ask(loop)
    used = time.process_time() - before
    await store.aclose()
    assert len(provider.requests) == count + 1
    return used / count * 1_000


def conversation(count: int) -> Iterator[Message]:
    """`count` messages in turns of four: question, search, result, answer."""
    for number in range(count // 4):
        yield UserMessage((Text(f"What about number {number}?"),))
        yield AssistantMessage((ToolCall(f"c{number}", "note", json.dumps({"text": f"number {number}"})),), "tools")
        yield ToolMessage(f"c{number}", "note", (Text(f"noted number {number} " + "x" * 500),))
        yield AssistantMessage((Text(f"Number {number} is noted, and nothing else is known about it so far."),))


async def fill(database: Path, count: int) -> None:
    store = SessionStore(SqliteDatabase(database))
    session = await store.current(HERE.key)
    await store.append(session.id, tuple(conversation(count)))
    await store.aclose()


async def first_request(database: Path) -> None:
    """Open the session and ask; say how many messages the model was shown."""
    provider = ScriptedProvider(["done"])
    loop, store = loop_over(provider, database)
    await ask(loop)
    await store.aclose()
    print(len(provider.requests[0].messages))


def opened(database: Path) -> float:
    """Seconds of wall time from the start of a process to its first request."""
    before = time.perf_counter()
    command = [sys.executable, __file__, "--open", str(database)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return time.perf_counter() - before


def compare(messages: int, runs: int, folder: Path) -> tuple[float, float]:
    """Median seconds of the empty and of the long session, measured in turns."""
    empty, long = folder / "empty.db", folder / "long.db"
    asyncio.run(fill(empty, 0))
    asyncio.run(fill(long, messages))
    pairs = [(opened(_copy(empty, run)), opened(_copy(long, run))) for run in range(runs)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def _copy(database: Path, run: int) -> Path:
    target = database.with_name(f"{database.stem}-{run}.db")
    target.write_bytes(database.read_bytes())
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        asyncio.run(first_request(options.open))
        return 0
    with tempfile.TemporaryDirectory() as name:
        cost = asyncio.run(iterations(options.iterations, Path(name)))
        empty, long = compare(options.messages, options.runs, Path(name))
    ratio = long / empty
    print(f"empty session: {empty * 1_000:.0f} ms, {options.messages} messages: {long * 1_000:.0f} ms")
    good = cost <= ITERATION_MS and ratio <= LONG_RATIO
    print(
        f"{'pass' if good else 'FAIL'}: tool iteration {cost:.2f} ms CPU (bar {ITERATION_MS}), "
        f"{options.messages} messages open in {ratio:.2f} x the time of an empty session (bar {LONG_RATIO})"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
