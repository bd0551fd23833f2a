"""DuckDuckGo through the ddgs library: needs no key and no account.

Facts about ddgs 9.16: `backend="auto"` mixes other engines in, so the engine is named; a proxy must be passed; an
engine that meets a bot check answers as one that found nothing; the timeout bounds one engine, not the call, and the
threads of the library hold a process back that wants to end. So each search runs in a process of its own.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ddgs.exceptions import DDGSException, RatelimitException, TimeoutException

from nanobot.errors import SearchError
from nanobot.utils.text import squeeze
from nanobot.web.search import freshness
from nanobot.web.search.api import with_sites
from nanobot.web.search.base import Filter, Quota, SearchQuery, SearchReply, lacking
from nanobot.web.search.http import Access
from nanobot.web.search.payload import Fields, bad_payload, read_hits, short_reason
from nanobot.web.search.worker import SHARED, Worker

ENGINE_SECONDS = 10
#: Seconds that the library may take beyond its own timeout before its process is killed.
GRACE_SECONDS = 3.0
_PACKAGE = Path(__file__).parents[3]
SECOND_OPINION = "brave,mojeek,yahoo"
_FIELDS = Fields(url=("href", "url"), snippet=("body",))
_EXPECTED = (DDGSException, OSError, ValueError, TypeError, LookupError, AttributeError, RuntimeError)


#: DuckDuckGo's own regions, country and language (its settings page as of 2026-11); another one counts as none.
REGIONS = tuple(
    "ar-es au-en at-de be-fr be-nl br-pt bg-bg ca-en ca-fr ct-ca cl-es cn-zh co-es hr-hr cz-cs dk-da ee-et fi-fi "
    "fr-fr de-de gr-el hk-tzh hu-hu in-en id-id id-en ie-en il-he it-it jp-jp kr-kr lv-lv lt-lt my-ms my-en mx-es "
    "nl-nl nz-en no-no pe-es ph-en ph-tl pl-pl pt-pt ro-ro ru-ru xa-ar sg-en sk-sk sl-sl za-en es-es se-sv ch-de "
    "ch-fr ch-it tw-tzh th-th tr-tr ua-uk uk-en us-en us-es ve-es vn-vi".split()
)
_COUNTRIES = {"gb": "uk", "si": "sl"}
_LANGUAGES = {"ja": "jp", "ko": "kr", "nb": "no", "nn": "no"}
#: Where a language without a country is looked for, if not in the first region that has it.
_HOMES = {
    "en": "us-en",
    "tzh": "tw-tzh",
    "es": "es-es",
    "pt": "pt-pt",
    "fr": "fr-fr",
    "de": "de-de",
    "nl": "nl-nl",
    "it": "it-it",
}
DIRECT = Access()


class Engine(Protocol):
    """The part of `ddgs.DDGS` that is used."""

    def text(
        self, query: str, *, region: str, safesearch: str, timelimit: str | None, max_results: int, backend: str
    ) -> Sequence[Mapping[str, object]]:
        """Hits with `title`, `href` and `body`. Raises `DDGSException` where there are none."""

    def close(self) -> None:
        """End a search that nobody waits for any more, from another thread."""


EngineFactory = Callable[[str | None, int], Engine]


class ChildEngine:
    """One search in a child process, killed where it takes too long. `timeout` is in seconds for one engine."""

    def __init__(self, proxy: str | None, timeout: int) -> None:
        self._proxy = proxy
        self._timeout = timeout
        self._guard = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._closed = False

    def text(
        self, query: str, *, region: str, safesearch: str, timelimit: str | None, max_results: int, backend: str
    ) -> Sequence[Mapping[str, object]]:
        call = {"query": query, "region": region, "safesearch": safesearch, "timelimit": timelimit}
        call_with = {**call, "max_results": max_results, "backend": backend}
        order = json.dumps({"proxy": self._proxy, "timeout": self._timeout, "call": call_with})
        with self._guard:
            if self._closed:
                raise TimeoutException("the search was given up")
            child = self._child = _start_child()
        killer = threading.Timer(self._timeout + GRACE_SECONDS, child.kill)
        killer.daemon = True
        killer.start()
        try:
            return _answer(child, order)
        finally:
            killer.cancel()
            child.kill()
            child.communicate()

    def close(self) -> None:
        with self._guard:
            self._closed = True
            if self._child is not None:
                self._child.kill()


def _start_child() -> "subprocess.Popen[str]":
    """It gets no environment but what Python needs: the keys of the agent stay here. `-P`: no module of the folder that
    nanobot was started in is taken for one of Python's."""
    env = {"PYTHONPATH": str(_PACKAGE), "PYTHONIOENCODING": "utf-8", "LANG": "C.UTF-8"}
    known = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "PYTHONWARNINGS", "SSL_CERT_FILE", "SSL_CERT_DIR")
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "nanobot.web.search.ddgs_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env | {name: os.environ[name] for name in known if name in os.environ},
        encoding="utf-8",
        start_new_session=True,
    )


def _answer(child: "subprocess.Popen[str]", order: str) -> Sequence[Mapping[str, object]]:
    """What the child found; its failure as the library's own exception."""
    if child.stdin is None or child.stdout is None:
        raise OSError("the search process has no pipes")
    child.stdin.write(order + "\n")
    child.stdin.flush()
    line = child.stdout.readline()
    if not line:
        raise TimeoutException("the search process was ended")
    answer: object = json.loads(line)
    if not isinstance(answer, dict):
        raise TypeError("the search process answered in an unknown form")
    if "error" in answer:
        failures = {"TimeoutException": TimeoutException, "RatelimitException": RatelimitException}
        raise failures.get(str(answer["error"]), DDGSException)(str(answer.get("message", "")))
    hits: object = answer.get("hits")
    return hits if isinstance(hits, list) else []


def make_engine(proxy: str | None, timeout: int) -> Engine:
    """A fresh engine: they hold state and are never shared."""
    return ChildEngine(proxy, timeout)


class DuckDuckGoBackend:
    """Keyless search. `engines` names what ddgs asks, a comma list; `factory` makes the library's object."""

    def __init__(
        self,
        name: str = "duckduckgo",
        access: Access = DIRECT,
        *,
        engines: str = "duckduckgo",
        factory: EngineFactory = make_engine,
        worker: Worker = SHARED,
    ) -> None:
        self._name = name
        self._access = access
        self._engines = engines or "duckduckgo"
        self._factory = factory
        self._worker = worker

    @property
    def name(self) -> str:
        return self._name

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        """Ask the engine, and another one where it says that there is nothing, which may mean a bot check."""
        if self._access.problem:
            raise SearchError("not_configured", f"DuckDuckGo was not asked. {self._access.problem}")
        engines_made: list[Engine] = []

        def give_up() -> None:
            for engine in engines_made:
                engine.close()

        try:
            found, engines = await self._worker.run(
                lambda: self._ask(query, timeout, engines_made), expected=_EXPECTED, timeout=timeout, give_up=give_up
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

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *_lost(query, self._engines))

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        del timeout
        return ()

    async def aclose(self) -> None:
        return None

    def _ask(self, query: SearchQuery, timeout: float, made: list[Engine]) -> tuple[object, str]:
        seconds = max(1, min(ENGINE_SECONDS, int(timeout)))
        for engines in dict.fromkeys((self._engines, SECOND_OPINION)):
            engine = self._factory(self._access.proxy, seconds)
            made.append(engine)
            try:
                found = engine.text(
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
        return SearchError("network", f"DuckDuckGo cannot be reached: {short_reason(words)}")
    return SearchError("bad_payload", f"The answer of DuckDuckGo was not understood: {words}")


def _codes(query: SearchQuery) -> tuple[str, str]:
    """Country and language in DuckDuckGo's spelling, either may be empty."""
    country, language = (code.lower().partition("-")[0] for code in (query.country, query.language))
    country, language = _COUNTRIES.get(country, country), _LANGUAGES.get(language, language)
    traditional = country in ("tw", "hk") or query.language.lower() in ("zh-tw", "zh-hk", "zh-hant")
    return country, "tzh" if language == "zh" and traditional else language


def _region(query: SearchQuery, engines: str) -> str:
    """Country and language as the engines write them; `wt-wt`, the whole world, is a word of DuckDuckGo alone."""
    if engines != "duckduckgo":
        country, language = (code.lower().partition("-")[0] for code in (query.country, query.language))
        return f"{country or 'us'}-{language or 'en'}"
    country, language = _codes(query)
    fitting = [one for one in REGIONS if one == f"{country}-{language}"]
    fitting += [one for one in REGIONS if country and one.startswith(f"{country}-")]
    fitting += [one for one in (_HOMES.get(language, ""), *REGIONS) if language and one.endswith(f"-{language}")]
    return fitting[0] if fitting else "wt-wt"


def _lost(query: SearchQuery, engines: str) -> tuple[Filter, ...]:
    """The filters of a query that its region does not carry."""
    if engines != "duckduckgo":
        return ()
    country, language = _region(query, engines).split("-")
    wanted = _codes(query)
    return (*(() if country == wanted[0] else ("country",)), *(() if language == wanted[1] else ("language",)))


def _timelimit(given: str) -> str | None:
    span = freshness.parse(given)
    if span is None:
        return None
    return span.word[0] if span.word else f"{span.start}..{span.end}"
