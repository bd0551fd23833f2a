"""How recent results must be: a word or a range of days, turned into each engine's own way to say it."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

WORDS = {"day": 1, "week": 7, "month": 31, "year": 366}
_RANGE = re.compile(r"(\d{4}-\d{2}-\d{2})\s*(?:\.\.|to)\s*(\d{4}-\d{2}-\d{2})\Z")


@dataclass(frozen=True, slots=True)
class Span:
    """`word` is day, week, month, year or empty for an explicit range; `start` and `end` are days, both included."""

    word: str
    start: date
    end: date


def parse(given: str, today: date | None = None) -> Span | None:
    """The span meant, None for an empty text. Raises ValueError with a sentence for anything else."""
    given = given.strip().lower()
    if not given:
        return None
    today = today or datetime.now(UTC).date()
    if given in WORDS:
        return Span(given, today - timedelta(days=WORDS[given]), today)
    found = _RANGE.match(given)
    if found is None:
        raise ValueError("freshness is day, week, month, year or a range such as 2026-01-01..2026-01-31")
    try:
        start, end = date.fromisoformat(found[1]), date.fromisoformat(found[2])
    except ValueError:
        raise ValueError(f"freshness names a day that does not exist: {given}") from None
    return Span("", min(start, end), max(start, end))
