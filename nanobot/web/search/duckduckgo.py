"""DuckDuckGo through the ddgs library: needs no key and no account.

Facts about ddgs 9.16: `backend="auto"` mixes other engines in, so the engine is named; a proxy must be passed; an
engine that meets a bot check answers as one that found nothing; the timeout bounds one engine, not the call, and the
threads of the library hold a process back that wants to end. So each search runs in a process of its own, which is
killed where nobody waits for it any more; one at a time.
"""

import asyncio
import json
import os
import re
import weakref
from collections.abc import Mapping

from nanobot.config.proxy import UnusableProxy
from nanobot.errors import SearchError
from nanobot.jsonval import at, text
from nanobot.utils.processes import bare_environment, own_module, run_program
from nanobot.utils.text import squeeze
from nanobot.utils.translation import _
from nanobot.web.search.api import no_answer, not_asked
from nanobot.web.search.base import (
    Filter,
    LibraryCall,
    SearchBackend,
    SearchQuery,
    SearchReply,
    lacking,
)
from nanobot.web.search.codes import duckduckgo_codes, duckduckgo_region
from nanobot.web.search.payload import read_hits
from nanobot.web.service import ServiceAccess

_NAME = "DuckDuckGo"
ENGINE_SECONDS = 10
#: Seconds that the library may take beyond its own timeout before its process is killed.
GRACE_SECONDS = 3.0
# English: it is judged below
_TIMED_OUT = {"error": "TimeoutException", "message": "the search process was ended"}
DIRECT = ServiceAccess()

#: The library is never asked twice at once in an event loop, whoever asks.
_TURNS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = weakref.WeakKeyDictionary()


async def in_child(order: Mapping[str, object]) -> object:
    """The search in a process of its own, which ends with it. Raises OSError where none can be started."""
    seconds = (number if isinstance(number := order["timeout"], int) else 0) + GRACE_SECONDS
    command, given = own_module("nanobot.web.search.ddgs_child"), json.dumps({**order, "agent": os.getpid()}).encode()
    try:
        done = await run_program(command, seconds, bare_environment(), given=given)
        answer: object = json.loads(done.out)
    except (TimeoutError, ValueError):  # it took too long, or was ended
        return _TIMED_OUT
    return answer


class DuckDuckGoBackend(SearchBackend):
    """Keyless search. `engines` names what ddgs asks, a comma list; `library` does one search of ddgs."""

    def __init__(
        self,
        name: str = "duckduckgo",
        access: ServiceAccess = DIRECT,
        *,
        engines: str = "duckduckgo",
        library: LibraryCall = in_child,
    ) -> None:
        self._name = name
        self._access = access
        self._engines = engines or "duckduckgo"
        self._library = library

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """Ask the engine; that it finds nothing may mean a bot check."""
        if self._access.problem:
            raise not_asked(_NAME, self._access.problem)
        try:
            proxy = self._access.proxies.for_scheme("https")
        except UnusableProxy as error:
            raise no_answer(_NAME, "proxy unusable", str(error)) from None
        turn = _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        try:
            async with asyncio.timeout(timeout), turn:
                found = await self._ask(query, timeout, proxy)
        except TimeoutError:
            raise no_answer(_NAME, "timeout", _("within {seconds:.3g} s", seconds=timeout)) from None
        except OSError as error:
            raise SearchError("network", _("DuckDuckGo cannot be asked: {problem}", problem=error)) from None
        hits, dropped = read_hits(found, _NAME)
        return SearchReply(self._name, hits[: query.limit], dropped=dropped, uncertain=not hits)

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        """The filters that the region does not carry."""
        if self._engines != "duckduckgo":
            return ()
        region, wanted = duckduckgo_region(query).split("-"), duckduckgo_codes(query)
        names: tuple[Filter, Filter] = ("country", "language")
        return lacking(query, *(name for name, has, want in zip(names, region, wanted, strict=True) if has != want))

    async def _ask(self, query: SearchQuery, timeout: float, proxy: str | None) -> object:
        """What was found. Raises `SearchError`."""
        call = {
            "query": query.with_sites,
            "region": self._region(query),
            "safesearch": "moderate",
            "timelimit": query.word[:1] or "..".join(query.days) if query.span else None,
            "max_results": query.limit,
            "backend": self._engines,
        }
        seconds = max(1, min(ENGINE_SECONDS, int(timeout)))
        answer = await self._library({"proxy": proxy, "timeout": seconds, "call": call})
        failure, words = text(at(answer, "error")), text(at(answer, "message"))
        if failure == "DDGSException" and "no results" in words.lower():
            return []
        if failure:
            raise _judged(failure, words)
        return at(answer, "hits")

    def _region(self, query: SearchQuery) -> str:
        """Country and language as the engines write them; `wt-wt`, the whole world, is a word of DuckDuckGo alone."""
        if self._engines == "duckduckgo":
            return duckduckgo_region(query)
        country, language = (code.lower().partition("-")[0] for code in (query.country, query.language))
        return f"{country or 'us'}-{language or 'en'}"


def _judged(failure: str, words: str) -> SearchError:
    # The library chains its causes with " > ", one in the quotes of the other; the last one is the reason.
    words = squeeze(words).rpartition(" > ")[2][:120] or failure
    words = words if "(" in words else words.rstrip("'\")")
    lowered = words.lower()
    if failure in ("TimeoutException", "TimeoutError") or "timed out" in lowered or "timeout" in lowered:
        return SearchError("timeout", _("DuckDuckGo did not answer in time: {words}", words=words))
    if failure == "RatelimitException" or "ratelimit" in lowered or "429" in lowered:
        return SearchError("rate_limited", _("DuckDuckGo asks for a pause: {words}", words=words), status=429)
    if re.search(r"\b(?:202|403|anomaly|captcha)\b", lowered):
        return SearchError("blocked", _("DuckDuckGo wants to see a person: {words}", words=words))
    if failure in ("DDGSException", "OSError"):
        return no_answer(_NAME, "network", words)
    return SearchError("bad_payload", _("The answer of DuckDuckGo was not understood: {words}", words=words))
