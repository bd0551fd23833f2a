"""What does judging the budget cost before each request to a model?

    python -m benchmarks.budget

Fills a SQLite file with a month of spending, 200 people with two models in each quarter of an hour of each day, and
judges and counts requests on it: CPU in microseconds, the median of nine rounds of 2,000. Reading the spending again,
which happens every five seconds at most and only while models are asked, is timed beside it. The last line is the
summary. Exit code 0: judging and counting take at most 100 microseconds together. 1: more.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from nanobot.bus.events import Address, InboundMessage, Sender  # noqa: E402 - found by the line above
from nanobot.config.schema import BudgetConfig, Config, PersonBudgetConfig  # noqa: E402
from nanobot.messages import AssistantMessage, Usage  # noqa: E402
from nanobot.money.budget import Budget  # noqa: E402
from nanobot.providers.base import ProviderInfo  # noqa: E402
from nanobot.session.ledger import Ledger  # noqa: E402
from nanobot.session.sqlite import SqliteDatabase  # noqa: E402

BAR = 100.0  # microseconds
ROUNDS, CALLS = 9, 2_000
PEOPLE, DAYS, MODELS = 200, 30, ("gpt-6.1-sol", "gpt-6.1-terra")
MODEL = ProviderInfo("openai", MODELS[0])
ASKED = InboundMessage(Address("telegram", "7"), Sender("7", role="user"), "hi", direct=True)


async def fill(ledger: Ledger, clock: list[datetime], last: datetime) -> int:
    """A month of spending that ends with `last`; how many rows that is."""
    usage, rows = Usage(input=1_000, output=50, cost=0.000_01, requests=1), 0
    for person in range(PEOPLE):
        session = await ledger.sessions.start(f"telegram:{person}")
        for day in range(DAYS):
            clock[0] = last - timedelta(days=day, minutes=15 * (person % 40))
            spent = tuple(AssistantMessage((), model=model, usage=usage, person=session.key) for model in MODELS)
            await ledger.sessions.append(session.id, spent)
            rows += len(spent)
    return rows


async def each(call: Callable[[], Coroutine[None, None, object]], calls: int = CALLS) -> float:
    """Microseconds of CPU of one call."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(calls):
            await call()
        found.append((time.process_time() - begun) / calls * 1e6)
    return statistics.median(found)


async def measure(path: Path) -> tuple[float, float, float, int]:
    """Microseconds of a judgement, of a count, and of reading the spending; and the rows that are read."""
    last = datetime.now(UTC).replace(month=1, day=DAYS, hour=20, minute=0, second=0, microsecond=0)
    clock = [last]
    ledger = Ledger(SqliteDatabase(path), clock=lambda: clock[0])
    rows = await fill(ledger, clock, last)
    limits = BudgetConfig(20.0, 200.0, PersonBudgetConfig(5.0, 50.0))
    budget = Budget(Config(budget=limits), ledger, lambda: last.replace(hour=0))

    async def count() -> Usage:
        return budget.charge(ASKED, MODEL, MODEL.model, Usage(input=1, output=1))

    async def read() -> None:
        fresh = Budget(Config(budget=limits), ledger, lambda: last.replace(hour=0))
        await fresh.refresh()

    judged = await each(lambda: budget.judge(ASKED, MODEL))
    counted, reading = await each(count), await each(read, 10)
    await ledger.aclose()
    return judged, counted, reading, rows


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="nanobot-budget-") as folder:
        judged, counted, reading, rows = asyncio.run(measure(Path(folder) / "n.db"))
    print(
        f"a request: {judged:.1f} µs of CPU judged and {counted:.1f} µs counted, bar {BAR:g} µs together; "
        f"reading a month of {rows:,} rows: {reading / 1_000:.1f} ms"
    )
    return 0 if judged + counted <= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
