"""What a gateway with watches and jobs costs while nothing happens, in real time.

    python -m benchmarks.idle [--minutes 20]

A real site of 20 hosts on loopback is got to know by 200 watches first (one simulated hour). Then `nanobot gateway`
runs as a process of its own with these watches, which look each hour, and with 20 jobs that are due another day.
Figures are the processor time of the gateway and of all that it starts as a share of the time, and the requests to the
site, to the Bot API and to the model. Exit code 1 where a bar is missed: 1 % of a core, no request to a model, no
message.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.gateway import FIRST_USER, Gateway, running
from benchmarks.watches import HOSTS, QUIET, WATCHES, Day, serve
from nanobot.schedule.due import cron
from nanobot.schedule.job import ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase

JOBS, BAR = 20, 0.01
_TICKS = os.sysconf("SC_CLK_TCK")


def used(pid: int) -> float:
    """Processor seconds of a process, of those that it has started, and of those of them that have ended."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    except OSError:  # it has ended meanwhile
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(used(int(child)) for child in children)


async def add_jobs(database: Path, person: str) -> None:
    """Tasks of another month beside the watches."""
    ledger, at = Ledger(SqliteDatabase(database)), datetime.now(UTC)
    when = cron(f"0 8 1 {at.month % 12 + 1} *")
    for number in range(JOBS):
        job = ScheduledJob(kind="ask", text=f"look {number}", when=when, zone="UTC", person=person, chat=person)
        await JobStore(ledger).add(job, at)
    await ledger.aclose()


async def wait(gateway: Gateway, minutes: float) -> tuple[float, float]:
    """Processor seconds and seconds of a time in which nobody does anything."""
    await asyncio.sleep(5)  # its start is not what is measured
    before, begun = used(gateway.process.pid), time.monotonic()
    end = begun + minutes * 60
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 60.0))
        now = used(gateway.process.pid) - before
        print(f"{(time.monotonic() - begun) / 60:.0f} min: {now:.2f} s of CPU", flush=True)
    return used(gateway.process.pid) - before, time.monotonic() - begun


async def measure(minutes: float, port: int, hosts: list[str], folder: Path) -> bool:
    person = f"telegram:{FIRST_USER}"
    day = Day(folder, port, hosts, begin=datetime.now(UTC) - timedelta(hours=1), person=person)
    await day.run(QUIET, 1)
    await add_jobs(folder / "n.db", person)
    first = await day.said(0)
    settings: dict[str, object] = {"tools": {"ssrfWhitelist": ["127.0.0.0/8"]}}
    async with running(1, store=folder / "n.db", settings=settings) as gateway:
        cpu, seconds = await wait(gateway, minutes)
        calls = Counter(call.method for call in gateway.telegram.calls)
        asked, memory = len(gateway.model.requests), gateway.memory
    share, messages = cpu / seconds, calls["sendMessage"]
    print(f"{seconds / 60:.1f} minutes, {WATCHES} watches, {JOBS} jobs: {cpu:.2f} s of CPU, {memory:.0f} MB")
    print(f"site, answers by status and most at once of a host: {first} before, {await day.said(0)} after")
    print(f"Bot API: {dict(calls)}; requests to the model: {asked}")
    good = share <= BAR and not asked and not messages
    told = f"{share:.3%} of one core (bar {BAR:.0%}), {asked} requests to a model, {messages} messages"
    print(f"idle {'ok' if good else 'MISSED'}: {told}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    minutes = parser.parse_args().minutes
    hosts = [f"127.0.0.{number}" for number in range(1, HOSTS + 1)]
    ready: multiprocessing.Queue[int] = multiprocessing.Queue()
    site = multiprocessing.Process(target=serve, args=(ready, hosts), daemon=True)
    site.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return 0 if asyncio.run(measure(minutes, ready.get(), hosts, Path(folder))) else 1
    finally:
        site.terminate()


if __name__ == "__main__":
    sys.exit(main())
