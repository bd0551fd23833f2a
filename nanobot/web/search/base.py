"""The seam to search engines: a query in, hits and what is left of the quota out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from nanobot.web.search import freshness

#: How much of a hit a model is shown.
Detail = Literal["brief", "normal", "full"]
Filter = Literal["time", "days", "country", "language"]
QuotaWindow = Literal["second", "minute", "hour", "day", "month", "plan"]
QuotaSource = Literal["endpoint", "header", "body", "local"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
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


def lacking(query: SearchQuery, *filters: Filter) -> tuple[str, ...]:
    """Those of `filters` that `query` asks for, in words for people. `days` is a range of days, `time` any span."""
    span = freshness.parse(query.freshness)
    asked: dict[Filter, str] = {
        "time": "time" if span else "",
        "days": "a range of days" if span and not span.word else "",
        "country": f"country ({query.country})" if query.country else "",
        "language": f"language ({query.language})" if query.language else "",
    }
    return tuple(asked[name] for name in filters if asked[name])


@dataclass(frozen=True, slots=True)
class SearchHit:
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


@dataclass(frozen=True, slots=True)
class Quota:
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


@dataclass(frozen=True, slots=True)
class SearchReply:
    """The hits of one back end. `notices` are lines for the person (a fallback, a filter that was not possible)."""

    provider: str
    hits: tuple[SearchHit, ...] = ()
    answer: str = ""
    quota: tuple[Quota, ...] = ()
    notices: tuple[str, ...] = ()
    request_id: str = ""
    dropped: int = 0
    extras: dict[str, object] = field(default_factory=dict)


class SearchBackend(Protocol):
    """One search engine. Raises `SearchError` and nothing else (besides cancellation)."""

    @property
    def name(self) -> str: ...

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """Ask once. `timeout` is in seconds and bounds the whole call."""

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        """The filters of `query` that this back end cannot apply, in words for people."""

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """What the back end says of its allowance; empty where it has no such endpoint."""

    async def aclose(self) -> None: ...
