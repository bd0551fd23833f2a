"""What a schedule costs while nothing of it is due.

    python -m benchmarks.schedule [--seconds 60] [--jobs 200]

Runs `nanobot gateway` as a process of its own, with so many entries that are due another day and with none, and prints
the share of a core that each takes, as the kernel counts it. Exit code 1 where the bar is missed.
"""

import argparse
import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gateway import idle
from nanobot.schedule.due import cron
from nanobot.schedule.job import ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase

IDLE_BAR = 0.002  # share of one core


async def store_with(path: Path, jobs: int) -> Path:
    """A database with so many entries."""
    ledger, at = Ledger(SqliteDatabase(path)), datetime.now(UTC)
    when, person = cron(f"0 8 1 {at.month} *"), "telegram:1"
    for number in range(jobs):
        job = ScheduledJob(kind="ask", text=f"look {number}", when=when, zone="UTC", person=person, chat=person)
        await JobStore(ledger).add(job, at)
    await ledger.note("made")
    await ledger.aclose()
    return path


async def measure(seconds: float, jobs: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        shares = []
        for count in (0, jobs):
            _, share = await idle(seconds, await store_with(Path(folder) / f"{count}.db", count))
            shares.append(share)
            print(f"{count} entries: {share:.2%} of a core while nothing is due")
    met = shares[1] <= IDLE_BAR
    told = f"idle with {jobs} entries: {shares[1]:.2%} (bar {IDLE_BAR:.1%}), without {shares[0]:.2%}"
    print(f"{told}: {'met' if met else 'MISSED'}")
    return met


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=200)
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(measure(options.seconds, options.jobs)) else 1)
