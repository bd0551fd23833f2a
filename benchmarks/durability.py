"""What it costs that nothing is lost: per turn, in the store, at a start, and while nothing happens.

    python benchmarks/durability.py [--turns 200] [--stored 100000] [--runs 5] [--idle 15]

A durable turn is what a message on Telegram goes through: accepted, claimed, a question, a lookup and an answer, the
draft of the answer bound to its message, the end in one transaction, the answer leased and delivered. It runs in
alternation with the ledger in SQLite and with the one in memory, model and tool costing nothing; the difference is what
durability costs, at most 40 ms of wall time and 10 ms of CPU a turn. Growth is what the file has gained when such turns
are stored, and what stays of it after a week, when what is settled was forgotten. A start is the time from the command
to the first request to Telegram, and that of a question on the command line to its end, with 100,000 stored turns
against an empty store: at most 1.2 times. Idle is the CPU of a gateway with that store, at most 1 % of a core. The last
line is the summary; exit code 1 where a bar is missed.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from msgspec import Struct  # noqa: E402 - the project is found by the line above when run as a file

from benchmarks.gateway import FIRST_USER, idle, place, running  # noqa: E402
from nanobot.agent.chats.services import AgentServices  # noqa: E402
from nanobot.agent.context import ContextBuilder  # noqa: E402
from nanobot.agent.loop import AgentLoop  # noqa: E402
from nanobot.agent.tools.base import Tool, ToolContext  # noqa: E402
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender, TurnFinished  # noqa: E402
from nanobot.command.builtin import builtin_router  # noqa: E402
from nanobot.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, Usage, UserMessage  # noqa: E402
from nanobot.providers.base import Capabilities, Request  # noqa: E402
from nanobot.providers.scripted import Call, ScriptedProvider, Step  # noqa: E402
from nanobot.results import ToolResult  # noqa: E402
from nanobot.security.policy import Access  # noqa: E402
from nanobot.session.ledger import KEEP_DAYS, Ledger  # noqa: E402
from nanobot.session.rows import Arrival, Closing, OutboxItem  # noqa: E402
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase  # noqa: E402
from tests.fakes.llm_server import LlmServer, Reply  # noqa: E402

WALL_MS, CPU_MS = 40.0, 10.0
START_RATIO = 1.2
IDLE_SHARE = 0.01
CHANNEL = "telegram:1"
ANSWER = "The tower is 330 metres high, as the page of the city says. " * 5
FOUND = "A line of a page that was found, with what it says about the tower. " * 30
QUESTION = "How high is the tower, and who says so?"
#: Chats over which stored turns are spread; the busiest one is a user's own.
CHATS = 200


class LookArgs(Struct):
    query: str


class LookTool(Tool[LookArgs]):
    name = "look"
    description = "Finds the same thing again and again."
    Arguments = LookArgs
    access: Access = "public"

    idempotent = True

    async def run(self, args: LookArgs, context: ToolContext) -> ToolResult:  # noqa: ARG002
        return ToolResult(FOUND)


@dataclass(slots=True)
class Rig:
    """The agent over one ledger. `seconds` and `cpu` are of every turn so far."""

    ledger: Ledger
    loop: AgentLoop
    seconds: list[float]
    cpu: list[float]
    number: int = 0

    async def turn(self) -> None:
        """One message from its arrival to its delivery."""
        self.number += 1
        update = json.dumps({"update_id": self.number, "message": {"text": QUESTION, "chat": {"id": 7}, "date": 1}})
        cpu, wall = time.process_time(), time.perf_counter()
        (row,) = await self.ledger.accept(CHANNEL, (Arrival(str(self.number), update),))
        await self.ledger.claim((row.seq,))
        item = OutboxItem(row.turn, 0, CHANNEL, "7", json.dumps({"kind": "text", "text": ANSWER}))

        async def settle(_: InboundMessage, finished: TurnFinished | None, end: Closing | None) -> None:
            assert finished is not None
            assert finished.outcome == "completed", finished
            draft = await self.ledger.draft(item)
            assert draft is not None
            await self.ledger.bind(draft.seq, "1")
            await self.ledger.finish((row.seq,), (item,), end)

        address = Address("telegram", str(7 + self.number // 20))
        await self.loop.process(InboundMessage(address, Sender("7", role="owner"), QUESTION, id=row.turn), settle)
        for sent in await self.ledger.due(CHANNEL):
            await self.ledger.begin(sent.seq)
            await self.ledger.ack(sent.seq, "1")
        self.seconds.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)


def rig(ledger: Ledger, folder: Path) -> Rig:
    def play(request: Request) -> Step:
        return ANSWER if request.messages[-1].role == "tool" else Call("look", {"query": f"tower {len(played)}"})

    played: list[int] = []
    provider = ScriptedProvider(after=play, capabilities=Capabilities(window=200_000))
    services = AgentServices(
        MessageBus(), ledger.sessions, provider, ContextBuilder(folder), builtin_router(), {"look": LookTool}
    )
    return Rig(ledger, AgentLoop(services), [], [])


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds per turn: the median of SQLite's, of memory's, and of the differences; and bytes in the file."""

    wall: float
    memory_wall: float
    cpu: float
    memory_cpu: float
    stored: float
    kept: float

    @property
    def good(self) -> bool:
        return self.wall - self.memory_wall <= WALL_MS and self.cpu - self.memory_cpu <= CPU_MS


async def cost(turns: int, folder: Path) -> Cost:
    database = SqliteDatabase(folder / "turns.db")
    durable, fleeting = rig(Ledger(database), folder), rig(Ledger(MemoryDatabase()), folder)
    for one in (durable, fleeting) * 5:
        await one.turn()  # warm
    _shrink(folder / "turns.db")
    before = _size(folder / "turns.db")
    for one in (durable, fleeting):
        one.seconds.clear()
        one.cpu.clear()
    for _ in range(turns):
        await durable.turn()
        await fleeting.turn()
    _shrink(folder / "turns.db")
    stored = _size(folder / "turns.db") - before
    await Ledger(database, clock=lambda: datetime.now(UTC) + timedelta(days=KEEP_DAYS, seconds=1)).purge()
    _shrink(folder / "turns.db")
    kept = _size(folder / "turns.db") - before
    await durable.loop.aclose()
    await fleeting.loop.aclose()
    await database.aclose()
    wall, cpu = _per_turn(durable.seconds), statistics.mean(durable.cpu) * 1_000
    return Cost(
        wall,
        _per_turn(fleeting.seconds),
        cpu,
        statistics.mean(fleeting.cpu) * 1_000,
        stored / turns,
        kept / turns,
    )


def _per_turn(seconds: list[float]) -> float:
    return statistics.median(seconds) * 1_000


def _shrink(path: Path) -> None:
    """Bring the file to its true size."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _size(path: Path) -> int:
    return sum(one.stat().st_size for one in path.parent.glob(f"{path.name}*"))


def conversation(turns: int) -> Iterator[Message]:
    for number in range(turns):
        yield UserMessage((Text(f"{QUESTION} ({number})"),))
        call = ToolCall(f"c{number}", "look", json.dumps({"query": f"tower {number}"}))
        yield AssistantMessage((call,), "tools", usage=Usage(1_000, 50, requests=1))
        yield ToolMessage(call.id, "look", (Text(FOUND),))
        yield AssistantMessage((Text(ANSWER),), usage=Usage(1_500, 100, requests=1))


async def fill(path: Path, turns: int) -> None:
    """A store with that many turns; each with the rows of its message and its answer, as in the week it was made."""
    ledger = Ledger(SqliteDatabase(path))
    share = max(1, turns // CHATS)
    for chat in range(turns // share):
        key = Address("telegram", str(FIRST_USER + chat)).key if chat else Address("terminal", "local").key
        session = await ledger.sessions.current(key)
        await ledger.sessions.append(session.id, tuple(conversation(share)))
    at = datetime.now(UTC).isoformat(timespec="microseconds")
    update, payload = json.dumps({"message": QUESTION}), json.dumps({"text": ANSWER})

    await ledger.aclose()
    with closing(sqlite3.connect(path)) as db:
        db.executemany(
            "INSERT INTO inbox (channel, id, payload, key, state, attempts, reason, at) "
            "VALUES (?, ?, ?, '', 'done', 1, '', ?)",
            (("telegram:123456", str(-number), update, at) for number in range(turns)),
        )
        db.executemany(
            "INSERT INTO outbox (turn, part, channel, chat, thread, payload, not_before, state, attempts, message_id, "
            "reason, at) VALUES (?, 0, 'telegram:123456', '7', '', ?, ?, 'sent', 1, '5', '', ?)",
            ((f"old-{number}", payload, at, at) for number in range(turns)),
        )
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


async def gateway_start(store: Path) -> float:
    async with running(1, store=store) as gateway:
        return gateway.started


async def question(store: Path, folder: Path) -> float:
    """Seconds of one question on the command line, from its start to its end."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        async with LlmServer(after=Reply("Done.")) as model:
            place(store, Path(home))
            config = {
                "agents": {"defaults": {"provider": "bench", "model": "bench"}},
                "providers": {"bench": {"apiKey": "sk-bench-000000", "apiBase": f"{model.url}/v1"}},
            }
            path = Path(home) / "config.json"
            path.write_text(json.dumps(config), encoding="utf-8")
            path.chmod(0o600)
            env = {"PATH": os.environ["PATH"], "HOME": home, "NANOBOT_HOME": home, "PYTHONPATH": str(ROOT)}
            begun = time.perf_counter()
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "nanobot", "agent", "-m", "hi", env=env, stdout=subprocess.DEVNULL
            )
            assert await asyncio.wait_for(process.wait(), 60) == 0
            return time.perf_counter() - begun


async def starts(stored: int, runs: int, folder: Path) -> tuple[float, float, Path]:
    """How much longer a start of the gateway and a question take with a full store; and where that store is."""
    empty, full = folder / "empty.db", folder / "full.db"
    await fill(empty, 0)
    begun = time.perf_counter()
    await fill(full, stored)
    print(f"stored {stored} turns in {time.perf_counter() - begun:.0f} s: {_size(full) / 1e6:.0f} MB")
    gateway: list[tuple[float, float]] = []
    asked: list[tuple[float, float]] = []
    for _ in range(runs):
        gateway.append((await gateway_start(empty), await gateway_start(full)))
        asked.append((await question(empty, folder), await question(full, folder)))
    for name, pairs in (("gateway", gateway), ("question", asked)):
        print(f"{name}: {_middle(pairs, 0):.2f} s with an empty store, {_middle(pairs, 1):.2f} s with the full one")
    return _ratio(gateway), _ratio(asked), full


def _middle(pairs: list[tuple[float, float]], which: int) -> float:
    return statistics.median(pair[which] for pair in pairs)


def _ratio(pairs: list[tuple[float, float]]) -> float:
    return _middle(pairs, 1) / _middle(pairs, 0)


async def measure(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        turn = await cost(options.turns, folder)
        print(
            f"turn: {turn.wall:.1f} ms and {turn.cpu:.1f} ms of CPU in SQLite, "
            f"{turn.memory_wall:.1f} ms and {turn.memory_cpu:.1f} ms in memory "
            f"({turn.wall / turn.memory_wall:.1f} and {turn.cpu / turn.memory_cpu:.1f} times)"
        )
        print(f"growth: {turn.stored:.0f} bytes a turn, {turn.kept:.0f} after a week")
        gateway, asked, full = await starts(options.stored, options.runs, folder)
        _, share = await idle(options.idle, full)
    good = turn.good and gateway <= START_RATIO and asked <= START_RATIO and share <= IDLE_SHARE
    cost_of_it = f"{turn.wall - turn.memory_wall:.1f} ms and {turn.cpu - turn.memory_cpu:.1f} ms of CPU a turn"
    grade = "ok" if good else "MISSED"
    print(
        f"durability {grade}: {cost_of_it} (bars {WALL_MS:.0f} and {CPU_MS:.0f}), {turn.kept:.0f} bytes; "
        f"start with {options.stored} turns {gateway:.2f} and {asked:.2f} times (bar {START_RATIO}); idle {share:.2%}"
    )
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=200, help="turns over which the cost is taken")
    parser.add_argument("--stored", type=int, default=100_000, help="turns in the full store")
    parser.add_argument("--runs", type=int, default=5, help="starts with each store")
    parser.add_argument("--idle", type=float, default=15, help="seconds of waiting that are measured")
    return asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
