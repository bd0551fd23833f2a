"""DuckDuckGo through the ddgs library: needs no key and no account.

Facts about ddgs 9.16: `backend="auto"` mixes other engines in, so the engine is named; a proxy must be passed; an
engine that meets a bot check answers as one that found nothing; the timeout bounds one engine, not the call.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ddgs import DDGS
from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

from nanobot.errors import SearchError
from nanobot.utils.text import squeeze
from nanobot.web.search import freshness
from nanobot.web.search.api import with_sites
from nanobot.web.search.base import Quota, SearchQuery, SearchReply
from nanobot.web.search.payload import Fields, bad_payload, read_hits
from nanobot.web.search.worker import SHARED, Worker

ENGINE_SECONDS = 10
SECOND_OPINION = "brave,mojeek,yahoo"
_FIELDS = Fields(url=("href", "url"), snippet=("body",))
_EXPECTED = (DDGSException, OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError)


class Engine(Protocol):
    """The part of `ddgs.DDGS` that is used."""

    def text(
        self, query: str, *, region: str, safesearch: str, timelimit: str | None, max_results: int, backend: str
    ) -> Sequence[Mapping[str, object]]:
        """Hits with `title`, `href` and `body`. Raises `DDGSException` where there are none."""


EngineFactory = Callable[[str | None, int], Engine]


def make_engine(proxy: str | None, timeout: int) -> Engine:
    """A fresh engine: they hold state and are never shared."""
    engine: Engine = DDGS(proxy=proxy, timeout=timeout)
    return engine


class DuckDuckGoBackend:
    """Keyless search. `engines` names what ddgs asks, a comma list; `factory` makes the library's object."""

    def __init__(
        self,
        name: str = "duckduckgo",
        *,
        proxy: str | None = None,
        engines: str = "duckduckgo",
        factory: EngineFactory = make_engine,
        worker: Worker = SHARED,
    ) -> None:
        self._name = name
        self._proxy = proxy
        self._engines = engines or "duckduckgo"
        self._factory = factory
        self._worker = worker

    @property
    def name(self) -> str:
        return self._name

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """Ask the engine, and another one where it says that there is nothing, which may mean a bot check."""
        try:
            found, engines = await self._worker.run(
                lambda: self._ask(query, timeout), expected=_EXPECTED, timeout=timeout
            )
        except TimeoutError:
            raise SearchError("timeout", f"DuckDuckGo did not answer within {timeout:.3g} s") from None
        except _EXPECTED as error:
            raise _judged(error) from None
        if not isinstance(found, list):
            raise bad_payload("DuckDuckGo", found)
        hits, dropped = read_hits(found, _FIELDS, engine="DuckDuckGo")
        # An empty list may still be a bot check: the chain asks the next back end where there is one.
        extras: dict[str, object] = {"engines": engines} if hits else {"engines": engines, "uncertain": True}
        notices = (f"DuckDuckGo gave nothing; asked {engines} instead",) if hits and engines != self._engines else ()
        return SearchReply(self._name, hits[: query.limit], notices=notices, dropped=dropped, extras=extras)

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        del timeout
        return ()

    async def aclose(self) -> None:
        return None

    def _ask(self, query: SearchQuery, timeout: float) -> tuple[object, str]:
        seconds = max(1, min(ENGINE_SECONDS, int(timeout)))
        for engines in dict.fromkeys((self._engines, SECOND_OPINION)):
            try:
                found = self._factory(self._proxy, seconds).text(
                    with_sites(query),
                    region=_region(query, engines),
                    safesearch="moderate",
                    timelimit=_timelimit(query.freshness),
                    max_results=query.limit,
                    backend=engines,
                )
            except DDGSException as error:
                if "no results" not in str(error).lower():
                    raise
                found = []
            if found:
                return found, engines
        return [], self._engines


def _judged(error: Exception) -> SearchError:
    # The library chains its causes with " > "; the last one is the reason.
    words = squeeze(str(error)).rpartition(" > ")[2][:120] or type(error).__name__
    lowered = words.lower()
    if isinstance(error, TimeoutException | TimeoutError) or "timed out" in lowered or "timeout" in lowered:
        return SearchError("timeout", f"DuckDuckGo did not answer in time: {words}")
    if isinstance(error, RatelimitException) or "ratelimit" in lowered or "429" in lowered:
        return SearchError("rate_limited", f"DuckDuckGo asks for a pause: {words}", status=429)
    if re.search(r"\b(?:202|403|anomaly|captcha)\b", lowered):
        return SearchError("blocked", f"DuckDuckGo wants to see a person: {words}")
    if isinstance(error, DDGSException | OSError):
        return SearchError("network", f"DuckDuckGo cannot be reached: {words}")
    return SearchError("bad_payload", f"The answer of DuckDuckGo was not understood: {words}")


def _region(query: SearchQuery, engines: str) -> str:
    """Country and language as the engines write them; `wt-wt`, the whole world, is a word of DuckDuckGo alone."""
    if engines == "duckduckgo" and not query.country and not query.language:
        return "wt-wt"
    language = query.language.lower().partition("-")[0] or "en"
    return f"{query.country.lower() or 'us'}-{language}"


def _timelimit(given: str) -> str | None:
    span = freshness.parse(given)
    if span is None:
        return None
    return span.word[0] if span.word else f"{span.start}..{span.end}"
