"""The seam to search engines: a query in, hits and what is left of the quota out; how a model reads the hits."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from msgspec import Struct, field

from nanobot.utils.text import shares, shorten

#: How much of a hit a model is shown.
Detail = Literal["brief", "normal", "full"]
Filter = Literal["time", "days", "country", "language"]
QuotaWindow = Literal["second", "minute", "hour", "day", "month", "plan"]
QuotaSource = Literal["endpoint", "header", "body", "local"]
_SPANS = {"day": 1, "week": 7, "month": 31, "year": 366}
_RANGE = r"(\d{4}-\d{2}-\d{2})\s*(?:\.\.|to)\s*(\d{4}-\d{2}-\d{2})\Z"
# English: a model reads it
EMPTY_HINT = "Try fewer words, another language, or a search without site: and time limits."
_INDENT = "   "
#: Characters of a snippet in a brief list.
BRIEF = 100


class TimeSpan(Struct, frozen=True):
    """`word` is day, week, month, year or empty for a range of days; `start` and `end` are days, both included."""

    word: str
    start: date
    end: date


def parse_span(given: str) -> TimeSpan | None:
    """How recent results must be, None for an empty text. Raises ValueError with a sentence for anything else."""
    given = given.strip().lower()
    if not given:
        return None
    today = datetime.now(UTC).date()
    if given in _SPANS:
        return TimeSpan(given, today - timedelta(days=_SPANS[given]), today)
    found = re.match(_RANGE, given)
    if found is None:
        # English: a model reads it
        raise ValueError("freshness is day, week, month, year or a range such as 2026-01-01..2026-01-31")
    try:
        start, end = date.fromisoformat(found[1]), date.fromisoformat(found[2])
    except ValueError:
        # English: a model reads it
        raise ValueError(f"freshness names a day that does not exist: {given}") from None
    return TimeSpan("", min(start, end), max(start, end))


class SearchQuery(Struct, frozen=True):
    """What is asked. `limit` is 1 to 20; `freshness` is day, week, month, year, `YYYY-MM-DD..YYYY-MM-DD` or empty.

    `country` is an ISO 3166 code, `language` an ISO 639 code, both may be empty. `include_content` asks for page text
    where the API has it. `call_id` is the tool call's id, for services that trace it.
    """

    query: str
    limit: int = 5
    freshness: str = ""
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    country: str = ""
    language: str = ""
    include_content: bool = False
    call_id: str = ""

    @property
    def span(self) -> TimeSpan | None:
        return parse_span(self.freshness)

    @property
    def word(self) -> str:
        """The word for the time; empty for a range of days and where any time will do."""
        return self.span.word if self.span else ""

    @property
    def days(self) -> tuple[str, str]:
        """The first and the last day of a range, as `YYYY-MM-DD`; both empty where the query names none."""
        span = self.span
        return (span.start.isoformat(), span.end.isoformat()) if span and not span.word else ("", "")

    @property
    def with_sites(self) -> str:
        """The words with the domain filters as `site:` operators, for engines that have no other way."""
        include = " OR ".join(f"site:{domain}" for domain in self.include_domains)
        exclude = " ".join(f"-site:{domain}" for domain in self.exclude_domains)
        if len(self.include_domains) > 1:
            include = f"({include})"
        return " ".join(part for part in (self.query, include, exclude) if part)


def lacking(query: SearchQuery, *filters: Filter) -> tuple[str, ...]:
    """Those of `filters` that `query` asks for, in words for people. `days` is a range of days, `time` any span."""
    # English: a model reads it
    asked: dict[Filter, str] = {
        "time": "time" if query.span else "",
        "days": "a range of days" if query.days[0] else "",
        "country": f"country ({query.country})" if query.country else "",
        "language": f"language ({query.language})" if query.language else "",
    }
    return tuple(asked[name] for name in filters if asked[name])


class SearchHit(Struct, frozen=True):
    """One hit. `url` is never empty; `published` is an ISO date or empty; `position` counts from 1."""

    title: str
    url: str
    snippet: str = ""
    content: str = ""
    published: str = ""
    site: str = ""
    score: float | None = None
    position: int = 0
    icon: str = ""
    mime: str = ""


class Quota(Struct, frozen=True):
    """What a back end says of its allowance, in requests or credits (`unit`). None where it does not say.

    `breakdown` splits what was used, such as search and extract.
    """

    used: float | None = None
    limit: float | None = None
    remaining: float | None = None
    resets_at: datetime | None = None
    window: QuotaWindow = "month"
    source: QuotaSource = "local"
    unit: str = "requests"
    breakdown: Mapping[str, float] = field(default_factory=dict)


class SearchReply(Struct, frozen=True):
    """The hits of one back end. `notices` are lines for the person (a fallback, a filter that was not possible).

    `cost` is what the answer cost, by unit; `uncertain` tells that an empty list may be a check against robots.
    """

    provider: str
    hits: tuple[SearchHit, ...] = ()
    quota: tuple[Quota, ...] = ()
    notices: tuple[str, ...] = ()
    dropped: int = 0
    cost: Mapping[str, float] = field(default_factory=dict)
    uncertain: bool = False


class SearchBackend:
    """One search engine. Raises `SearchError` and nothing else (besides cancellation)."""

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """Ask once. `timeout` is in seconds and bounds the whole call."""
        raise NotImplementedError

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        """The filters of `query` that this back end cannot apply, in words for people."""
        raise NotImplementedError

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:  # noqa: ARG002 - most back ends have none
        """What the back end says of its allowance; empty where it has no such endpoint."""
        return ()

    async def aclose(self) -> None:
        """Give its connections back."""


#: (server, tool, the arguments made from the names of the tool's parameters, timeout in seconds) → its answer.
#: Raises `SearchError` only.
McpCall = Callable[[str, str, Callable[[frozenset[str]], Mapping[str, object]], float], Awaitable[str]]
#: One search of the ddgs library, `{"proxy", "timeout", "call"}`, to `{"hits": […]}` or `{"error", "message"}` with the
#: kind of its exception.
LibraryCall = Callable[[Mapping[str, object]], Awaitable[object]]


class NumberedHit(Struct, frozen=True):
    """A hit under the number by which it may be cited."""

    number: int
    hit: SearchHit


# English: a model reads it
def hits_text(
    query: str,
    hits: Sequence[NumberedHit],
    *,
    budget: int,
    notices: Sequence[str] = (),
    detail: Detail = "normal",
    fetch: bool = True,
) -> str:
    """`Results for: query`, then each hit with its address and snippet; page text under the hit it belongs to.

    All page texts together take at most `budget` characters, shared so that short ones stay whole. `fetch`: web_fetch
    can be called.
    """
    tail = [f"Note: {notice}" for notice in notices]
    if not hits:
        return "\n".join([f"No results for: {query}", "", EMPTY_HINT, *tail])
    lines = [f"Results for: {query}", ""]
    hint = "; web_fetch reads the whole page" if fetch else ""
    room = shares([len(item.hit.content) for item in hits], budget)
    for item, share in zip(hits, room, strict=True):
        lines += _entry(item, share, detail, hint)
    return "\n".join([*lines, *([""] if tail else []), *tail])


def _entry(item: NumberedHit, share: int, detail: Detail, hint: str) -> list[str]:
    hit = item.hit
    lines = [f"{item.number}. {hit.title}", f"{_INDENT}{hit.url}"]
    facts = [hit.published, hit.site] if detail != "brief" else []
    if detail == "full":
        facts += [f"score {hit.score:.2f}" if hit.score is not None else "", hit.mime]
    known = " · ".join(part for part in facts if part)
    words = shorten(hit.snippet, BRIEF) if detail == "brief" else hit.snippet
    snippet = f"{words} ({known})" if words and known else words or known
    if snippet:
        lines.append(f"{_INDENT}{snippet}")
    if hit.content:
        lines += [f"{_INDENT}{line}".rstrip() for line in hit.content[:share].splitlines()]
        if share < len(hit.content):
            lines.append(f"{_INDENT}[{share} of {len(hit.content)} characters{hint}]")
    return lines
