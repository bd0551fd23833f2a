"""How many answers a second 1, 2 and 4 workers give, what a turn costs the database, and a model of 100,000 chats.

    python benchmarks/cluster.py [--messages 120] [--skip-simulation]

It takes ten minutes, half of which it measures what all take that have nothing to do.

Starts a PostgreSQL of its own (or takes `NANOBOT_TEST_POSTGRES`), a poller and workers as processes, a Bot API server
and a model server that takes 2 seconds. Every worker answers two chats at a time, so that the model is the limit and
not the cores of a small machine, which the database, the servers and all gateways share. All messages come at once;
throughput is answers divided by the time from the first message to the last answer. Writes are what PostgreSQL counts
itself (`pg_stat_user_tables`, inserted, updated and deleted rows), WAL is the distance of its log positions.

The model of many chats is a simulation in steps of a second, with the pace that nanobot keeps (25 calls a second for
the bot, an edit every 1.5 s in a chat and every 3.5 s in a group) and the figures that were just measured. The last
line is the summary; exit code 1 where a bar is missed.
"""

import argparse
import asyncio
import contextlib
import math
import os
import random
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nanobot.channels.telegram.send.pacing import CALLS_PER_SECOND, GROUP_INTERVAL, INTERVAL  # noqa: E402 - found above
from tests.channels.telegram.gateway import Gateway  # noqa: E402
from tests.cluster.fleet import fleet  # noqa: E402
from tests.fakes.llm_server import LlmServer, Reply  # noqa: E402
from tests.fakes.postgres import TestServer, postgres_server  # noqa: E402
from tests.fakes.telegram_server import TelegramServer  # noqa: E402

MODEL_SECONDS, AT_ONCE = 2.0, 2
#: 2 and 4 workers against one; what a turn may write.
BARS = {2: 1.9, 4: 3.6}
MOST_WRITES = 40.0
FIRST_PERSON = 9_000
TICKS = os.sysconf("SC_CLK_TCK")
_WRITES = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables"
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_WAL = "SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"


@dataclass(frozen=True, slots=True)
class Run:
    """What one number of workers did; writes, commits, bytes of WAL and seconds of CPU are those of a turn.

    `memory` is MB of the largest worker; `idle` the share of a core that one takes while nothing happens, `looks` the
    transactions a second of all gateways then.
    """

    workers: int
    per_second: float
    writes: float
    commits: float
    wal: float
    cpu: float
    memory: float
    idle: float
    looks: float


def cpu_of(gateway: Gateway) -> float:
    fields = Path(f"/proc/{gateway.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_of(gateway: Gateway) -> float:
    status = Path(f"/proc/{gateway.process.pid}/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def counted(address: str) -> tuple[float, float, float]:
    with psycopg.connect(address, autocommit=True) as db:
        found = [db.execute(query).fetchone() for query in (_WRITES, _COMMITS, _WAL)]
    return tuple(float(row[0]) if row is not None else 0.0 for row in found)  # type: ignore[return-value] # three


async def measured(server: TestServer, workers: int, messages: int, at_once: int = AT_ONCE) -> Run:
    address = server.fresh()
    people = [FIRST_PERSON + number for number in range(messages + 4 * workers)]
    with tempfile.TemporaryDirectory() as folder:
        async with (
            TelegramServer() as telegram,
            LlmServer(after=Reply("Done.", delay=MODEL_SECONDS)) as model,
            fleet(Path(folder), telegram, model, address, people, at_once) as ships,
        ):
            await ships.run("poller")
            crew = [await ships.run("worker") for _ in range(workers)]
            warm, users = people[messages:], [telegram.user("U", number) for number in people[:messages]]
            for number in warm:
                telegram.user("W", number).say("warm up")
            await telegram.until(lambda: answered(telegram) >= len(warm), timeout=60)
            await asyncio.sleep(3)  # PostgreSQL counts with a delay
            before, cpu = counted(address), sum(map(cpu_of, crew))
            begin = time.monotonic()
            for user in users:
                user.say("hello")
            await telegram.until(lambda: answered(telegram) >= len(warm) + messages, timeout=600)
            seconds = time.monotonic() - begin
            cpu = sum(map(cpu_of, crew)) - cpu
            await asyncio.sleep(3)
            after, resting = counted(address), cpu_of(crew[0])
            await asyncio.sleep(seconds + 3)
            idle = [later - earlier for later, earlier in zip(counted(address), after, strict=True)]
            rest = (cpu_of(crew[0]) - resting) / (seconds + 3)
            spent = [late - early - none for late, early, none in zip(after, before, idle, strict=True)]
            memory = max(map(memory_of, crew))
    writes, commits, wal = (value / messages for value in spent)
    looks = idle[1] / (seconds + 3)
    return Run(workers, messages / seconds, writes, commits, wal, cpu / messages, memory, rest, looks)


def answered(telegram: TelegramServer) -> int:
    return sum(one.sender == "bot" and one.text == "Done." for chat in telegram.chats.values() for one in chat)


@dataclass(frozen=True, slots=True)
class Town:
    """The chats of the model, and how they talk. `daily` messages a chat; `peak` times the mean in the busiest hour."""

    chats: int = 100_000
    daily: float = 5.0
    peak: float = 3.0
    groups: float = 0.1
    turn_seconds: float = 12.0
    seconds: int = 3_600

    @property
    def rate(self) -> float:
        return self.chats * self.daily / 86_400 * self.peak


@dataclass(frozen=True, slots=True)
class Hour:
    """What the busiest hour comes to: delays of answers in seconds, edits that a turn gets and would like to have."""

    rate: float
    running: float
    late_p50: float
    late_p95: float
    edits: float
    wished: float
    calls: float


def simulate(town: Town, seed: int = 1) -> Hour:
    """Seconds of an hour: answers go first, the rest of the pace is for edits of running turns, oldest first."""
    dice = random.Random(seed)
    running: deque[tuple[float, float, float, int]] = deque()  # when it ends, next edit, pause, edits so far
    answers: deque[float] = deque()
    late: list[float] = []
    counts: list[int] = []
    wished = present = calls = 0.0
    for now in range(town.seconds):
        for _ in range(poisson(dice, town.rate)):
            pause = GROUP_INTERVAL if dice.random() < town.groups else INTERVAL
            length = dice.expovariate(1 / town.turn_seconds)
            wished += max(0.0, (length - 1.2) / pause)
            running.append((now + length, now + 1.2, pause, 0))
        room, still = CALLS_PER_SECOND, deque[tuple[float, float, float, int]]()
        present += len(running)
        for turn in running:
            if turn[0] <= now:
                answers.append(now)
                counts.append(turn[3])
            else:
                still.append(turn)
        while answers and room:
            late.append(now - answers.popleft())
            room, calls = room - 1, calls + 1
        running = deque()
        for end, due, pause, shown in sorted(still, key=lambda turn: turn[1]):
            if room and due <= now:
                running.append((end, max(due, now - pause) + pause, pause, shown + 1))
                room, calls = room - 1, calls + 1
            else:
                running.append((end, due, pause, shown))
    late.sort()
    turns = max(1, len(counts))
    p50, p95 = (late[int(len(late) * part)] if late else 0.0 for part in (0.5, 0.95))
    spread, mean = calls / town.seconds, present / town.seconds
    return Hour(town.rate, mean, p50, p95, sum(counts) / turns, wished / turns, spread)


def poisson(dice: random.Random, mean: float) -> int:
    count, product, limit = 0, dice.random(), math.exp(-mean)
    while product > limit:
        count, product = count + 1, product * dice.random()
    return count


def tell(town: Town, run: Run) -> None:
    hour = simulate(town)
    print(
        f"{town.chats:,} chats, {town.daily:g} messages a day: {hour.rate:.1f} turns/s at the peak, "
        f"{hour.running:.0f} run at once ({math.ceil(hour.running / 32)} workers of 32, "
        f"{hour.rate * run.cpu:.2f} cores), {hour.rate * run.writes:.0f} row writes/s, "
        f"{hour.rate * run.wal / 1024:.0f} KB/s of WAL, {hour.calls:.1f} calls/s; answers wait {hour.late_p50:.0f} s "
        f"(p50), {hour.late_p95:.0f} s (p95); {hour.edits:.1f} of {hour.wished:.1f} edits a turn"
    )


async def main() -> int:
    parser = argparse.ArgumentParser(description="Throughput of workers, and a model of many chats.")
    parser.add_argument("--messages", type=int, default=120)
    parser.add_argument("--skip-simulation", action="store_true")
    arguments = parser.parse_args()
    runs: list[Run] = []
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres_server(os.environ.get("NANOBOT_TEST_POSTGRES", "")))
        for workers in (1, 2, 4):
            run = await measured(server, workers, arguments.messages)
            runs.append(run)
            print(
                f"{workers} workers: {run.per_second:.2f} answers/s, a turn: {run.writes:.1f} row writes, "
                f"{run.commits:.1f} commits, {run.wal / 1024:.1f} KB of WAL, {run.cpu * 1000:.0f} ms of CPU; "
                f"{run.memory:.0f} MB a worker; idle: {run.idle:.1%} of a core, {run.looks:.0f} transactions/s"
            )
        full = await measured(server, 1, arguments.messages, 32)
        print(
            f"1 worker of 32 chats at a time: {full.per_second:.1f} answers/s, {full.cpu * 1000:.0f} ms of CPU a turn"
        )
    if not arguments.skip_simulation:
        for daily in (1.0, 5.0, 7.0):
            tell(Town(daily=daily), runs[0])
    grown = {run.workers: run.per_second / runs[0].per_second for run in runs}
    well = all(grown[workers] >= bar for workers, bar in BARS.items()) and runs[0].writes <= MOST_WRITES
    print(
        f"{'ok' if well else 'BELOW ITS BAR'}: 1, 2, 4 workers give "
        f"{', '.join(f'{run.per_second:.2f}' for run in runs)} answers/s "
        f"({grown[2]:.2f} and {grown[4]:.2f} times); {runs[0].writes:.1f} row writes a turn"
    )
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
