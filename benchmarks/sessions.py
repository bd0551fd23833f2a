"""How the store's answers get slower as conversations get longer.

    python benchmarks/sessions.py [--small 1000] [--large 100000]

Fills a SQLite file with one conversation of `small` and one of `large` messages, reopens each, and times every question
that a turn or /status asks: the median of nine, after the first one, which moves the kept cut of a long conversation.
The bar of each is the time in the large file, at most twice that in the small one (or one millisecond); and all that
/status asks, at most 50 ms. The last line is the summary; exit code 1 where a bar is missed.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nanobot.messages import AssistantMessage, Message, Text, Usage, UserMessage  # noqa: E402 - found by the line above
from nanobot.session.sqlite import SqliteDatabase  # noqa: E402
from nanobot.session.store import SessionStore  # noqa: E402

GROWTH_BAR = 2.0
STATUS_BAR = 50.0  # ms
LEAST = 1.0  # ms: less than this is quick, whatever it is a multiple of
WINDOW = 100_000  # characters of a conversation that a turn carries
KEY = "telegram:7"


def _turn(number: int) -> tuple[Message, Message]:
    said = UserMessage((Text(f"question {number} about the tide at noon"),))
    return said, AssistantMessage(
        (Text(f"answer {number}: high at twelve"),), usage=Usage(900, 40, cost=0.01, requests=1)
    )


async def _fill(path: Path, messages: int) -> None:
    store = SessionStore(SqliteDatabase(path))
    session = await store.start(KEY)
    for begin in range(0, messages // 2, 500):
        turns = range(begin, min(begin + 500, messages // 2))
        await store.append(session.id, tuple(one for number in turns for one in _turn(number)))
    await store.aclose()


async def _times(path: Path) -> dict[str, float]:
    """Milliseconds of each question."""
    store = SessionStore(SqliteDatabase(path))
    session = await store.current(KEY)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

    async def status() -> None:
        await store.current(KEY)
        await store.history(session.id, size=1)
        await store.spent(session=session.id)
        for since in (today, today - timedelta(days=6)):
            await store.spent(since, key=KEY)
            await store.spent(since)

    asked: dict[str, Callable[[], Awaitable[object]]] = {
        "current": lambda: store.current(KEY),
        "history": lambda: store.history(session.id, size=WINDOW),
        "append": lambda: store.append(session.id, _turn(0)),
        "spent": lambda: store.spent(today),
        "transcript, 500 records": lambda: store.transcript(session.id, limit=500),
        "list": lambda: store.list(KEY),
        "status": status,
    }
    found = {}
    for name, ask in asked.items():
        await ask()
        found[name] = statistics.median([await _timed(ask) for _ in range(9)])
    await store.aclose()
    return found


async def _timed(ask: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await ask()
    return (time.perf_counter() - begin) * 1_000


async def _measure(small: int, large: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{count}.db" for count in (small, large)]
        for path, count in zip(paths, (small, large), strict=True):
            await _fill(path, count)
        few, many = [await _times(path) for path in paths]
    good = many["status"] <= STATUS_BAR
    for name, ms in many.items():
        ok = ms <= max(GROWTH_BAR * few[name], LEAST)
        good = good and ok
        print(f"{name:24} {few[name]:7.2f} ms {ms:7.2f} ms  {ms / few[name]:5.1f} x{'' if ok else '  MISSED'}")
    worst = max(ms / few[name] for name, ms in many.items())
    print(f"sessions: {small:,} to {large:,} messages, worst growth {worst:.1f} x, status {many['status']:.1f} ms")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=1_000)
    parser.add_argument("--large", type=int, default=100_000)
    options = parser.parse_args()
    return 0 if asyncio.run(_measure(options.small, options.large)) else 1


if __name__ == "__main__":
    sys.exit(main())
