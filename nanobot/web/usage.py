"""What was asked of each search back end, per day and month, what it last said of its allowance, and how lookups went.

One small SQLite file that every process of this home shares; the figures outlive a restart.
Beside it, `lookups.jsonl` has a line for every lookup, with the host alone: no address, no words, no key.
Where the file cannot be used, the figures are kept in memory and a warning is logged: counting never breaks a search.
"""

import json
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TypeVar

import msgspec
from loguru import logger
from msgspec import Struct
from msgspec.structs import asdict, replace

from nanobot.utils.host import write_ahead
from nanobot.utils.searchusage import LookupCount, SearchUsageInfo
from nanobot.utils.translation import _
from nanobot.web.search.base import Quota

#: Seconds to wait for another process that writes.
BUSY_SECONDS = 0.25
_LARGEST_LOG = 5_000_000
#: The windows of allowances, the narrowest first.
_WIDTH = {"second": 0, "minute": 1, "hour": 2, "day": 3, "month": 4, "plan": 5}
T = TypeVar("T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS asked (provider TEXT, day TEXT, requests INTEGER NOT NULL, PRIMARY KEY (provider, day));
CREATE TABLE IF NOT EXISTS spent (provider TEXT, day TEXT, unit TEXT, amount REAL NOT NULL,
                                  PRIMARY KEY (provider, day, unit));
CREATE TABLE IF NOT EXISTS lookups (day TEXT, tool TEXT, step TEXT, host TEXT,
                                    made INTEGER NOT NULL, failed INTEGER NOT NULL, seconds REAL NOT NULL,
                                    PRIMARY KEY (day, tool, step, host));
CREATE TABLE IF NOT EXISTS told (provider TEXT PRIMARY KEY, at TEXT NOT NULL, quotas TEXT NOT NULL);
"""


class RequestBudget(Struct, frozen=True):
    """Most requests in one day and in one month; None for no limit, 0 for none at all."""

    per_day: int | None = None
    per_month: int | None = None

    def refusal(self, day: int, month: int) -> str:
        """Why one more request is too many, empty where it is not."""
        if self.per_day is not None and day >= self.per_day:
            return _("its budget of {number} requests a day is used up", number=self.per_day)
        if self.per_month is not None and month >= self.per_month:
            return _("its budget of {number} requests a month is used up", number=self.per_month)
        return ""


NO_BUDGET = RequestBudget()


class Lookup(Struct, frozen=True):
    """One step of a lookup: the tool, who was asked (a back end, this machine, a reader), the host, how it went."""

    tool: str
    step: str
    host: str = ""
    failure: str = ""
    seconds: float = 0.0


def _now() -> datetime:
    return datetime.now(UTC)


class UsageLedger:
    """Counts requests and keeps allowances by days of `zone`. `path` None keeps all in memory. Safe in all threads."""

    def __init__(self, path: Path | None = None, now: Callable[[], datetime] = _now, zone: tzinfo = UTC) -> None:
        self._zone = zone
        self._path = path
        self._now = now
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    def reserve(self, provider: str, budget: RequestBudget = NO_BUDGET) -> str:
        """Count one request that is about to be sent; where `budget` forbids it, count nothing and say why."""
        day = self._day()
        return self._run(lambda db: _reserve(db, provider, day, budget), "")

    def spend(self, provider: str, costs: Mapping[str, float]) -> None:
        """Add what one answer cost, by unit such as USD or tokens."""
        day = self._day()
        rows = [(provider, day, unit, amount) for unit, amount in costs.items()]
        add = (
            "INSERT INTO spent VALUES (?, ?, ?, ?) "
            "ON CONFLICT (provider, day, unit) DO UPDATE SET amount = amount + excluded.amount"
        )
        self._run(lambda db: db.executemany(add, rows), None)

    def keep(self, provider: str, told: Sequence[Quota]) -> None:
        """Keep what a back end said of its allowance, with the time."""
        row = (provider, self._now().isoformat(), msgspec.json.encode(tuple(told)).decode())
        self._run(lambda db: db.execute("INSERT OR REPLACE INTO told VALUES (?, ?, ?)", row), None)

    def note(self, *lookups: Lookup) -> None:
        """Count what was looked up, and write a line about each; what is older than a month is forgotten."""
        day, month_ago = self._day(), (self._now() - timedelta(days=31)).date().isoformat()
        rows = [(day, one.tool, one.step, one.host, int(bool(one.failure)), one.seconds) for one in lookups]
        add = (
            "INSERT INTO lookups VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT (day, tool, step, host) DO UPDATE "
            "SET made = made + 1, failed = failed + excluded.failed, seconds = seconds + excluded.seconds"
        )
        with self._guard:
            self._run(lambda db: db.executemany(add, rows), None)
            self._run(lambda db: db.execute("DELETE FROM lookups WHERE day < ?", (month_ago,)), None)
            self._log(lookups)

    def lookups(self) -> tuple[LookupCount, ...]:
        """Today's lookups by tool, step and host, the most frequent first."""
        asked = "SELECT tool, step, host, made, failed, seconds FROM lookups WHERE day = ? ORDER BY made DESC, host"
        return self._run(lambda db: tuple(LookupCount(*row) for row in db.execute(asked, (self._day(),))), ())

    def _log(self, lookups: Sequence[Lookup]) -> None:
        """Append to the log, which is begun anew at 5 MB with one older file beside it."""
        if self._path is None:
            return
        log, at = self._path.with_name("lookups.jsonl"), self._now().isoformat(timespec="milliseconds")
        lines = "".join(json.dumps({"at": at, **asdict(one)}) + "\n" for one in lookups)
        try:
            if log.exists() and log.stat().st_size > _LARGEST_LOG:
                log.replace(log.with_name("lookups.jsonl.1"))
            log.touch(mode=0o600)
            with log.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            logger.warning("the log of lookups cannot be written: {}", error)

    def asked(self) -> tuple[str, ...]:
        """The back ends that were asked this month or have told of an allowance."""
        query = "SELECT provider FROM asked WHERE day LIKE ? UNION SELECT provider FROM told ORDER BY 1"
        month = f"{self._day()[:7]}%"
        return self._run(lambda db: tuple(str(row[0]) for row in db.execute(query, (month,))), ())

    def seen(self, provider: str, budget: RequestBudget = NO_BUDGET, *, error: str = "") -> SearchUsageInfo:
        """The widest allowance that a back end told, what it charged where it told none, and what was counted here.

        `error` says why it could not be asked just now.
        """
        day = self._day()
        info = SearchUsageInfo(
            provider,
            error=error[:120],
            local_count=0,
            local_today=0,
            budget_per_day=budget.per_day,
            budget_per_month=budget.per_month,
        )
        return self._run(lambda db: _seen(db, info, day), info)

    def close(self) -> None:
        with self._guard:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _day(self) -> str:
        return self._now().astimezone(self._zone).date().isoformat()

    def _run(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """`work` in one transaction; a file that fails is left for memory, once."""
        with self._guard:
            for _try in range(2):
                try:
                    if self._connection is None:
                        self._connection = _open(self._path)
                        weakref.finalize(self, self._connection.close)  # what is kept in memory ends with its ledger
                    with self._connection as db:
                        db.execute("BEGIN IMMEDIATE")
                        return work(db)
                except (sqlite3.Error, OSError) as error:
                    logger.warning("search usage is kept in memory only, {} cannot be used: {}", self._path, error)
                    if self._connection is not None:
                        self._connection.close()
                    self._path, self._connection = None, None
        return otherwise


def _open(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(
        path or ":memory:", timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        write_ahead(connection, BUSY_SECONDS)
        connection.executescript(f"PRAGMA synchronous = NORMAL; {_SCHEMA}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _requests(db: sqlite3.Connection, provider: str, day: str) -> int:
    """Requests of a day (`YYYY-MM-DD`), or of a month where `day` is cut to `YYYY-MM`."""
    asked = "SELECT COALESCE(SUM(requests), 0) FROM asked WHERE provider = ? AND day LIKE ?"
    with closing(db.execute(asked, (provider, f"{day}%"))) as rows:
        return int(rows.fetchone()[0])


def _reserve(db: sqlite3.Connection, provider: str, day: str, budget: RequestBudget) -> str:
    refusal = budget.refusal(_requests(db, provider, day), _requests(db, provider, day[:7]))
    if not refusal:
        db.execute(
            "INSERT INTO asked VALUES (?, ?, 1) ON CONFLICT (provider, day) DO UPDATE SET requests = requests + 1",
            (provider, day),
        )
    return refusal


def _seen(db: sqlite3.Connection, info: SearchUsageInfo, day: str) -> SearchUsageInfo:
    """`info` with the figures of its back end."""
    name, month = info.provider, day[:7]
    info = replace(info, local_count=_requests(db, name, month), local_today=_requests(db, name, day))
    for at, told in db.execute("SELECT at, quotas FROM told WHERE provider = ?", (name,)):
        with suppress(ValueError):  # of JSON, its shape or a time: a row of another version says nothing
            quota = max(msgspec.json.decode(told, type=tuple[Quota, ...]), key=lambda each: _WIDTH[each.window])
            reset = quota.resets_at.date().isoformat() if quota.resets_at else ""
            same = {name: value for name, value in asdict(quota).items() if name != "resets_at"}
            return replace(info, **same, reset_date=reset, seen_at=datetime.fromisoformat(at))
    costs = "SELECT SUM(amount), unit FROM spent WHERE provider = ? AND day LIKE ? GROUP BY unit ORDER BY unit DESC"
    spent = db.execute(costs, (name, f"{month}%")).fetchone()
    return info if spent is None else replace(info, used=float(spent[0]), unit=str(spent[1]), source="body")
