"""The tool `web_search`: one query to the back ends in their order, the hits as a numbered list."""

import asyncio
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime

from loguru import logger
from msgspec import Struct, convert
from msgspec.structs import asdict, replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import WebSearchArguments
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.errors import FetchError, SearchErrorKind
from nanobot.results import ToolErrorKind, ToolResult, error_result
from nanobot.security.network import ANY_HOST, Hosts
from nanobot.utils.text import fold, strip_unsafe
from nanobot.utils.translation import _, _n, sentences
from nanobot.web.cache import KeyLocks, PageStore
from nanobot.web.client import trusted_client
from nanobot.web.search.base import (
    LibraryCall,
    McpCall,
    NumberedHit,
    SearchBackend,
    SearchHit,
    SearchQuery,
    hits_text,
    parse_span,
)
from nanobot.web.search.catalog import DUCKDUCKGO, Catalog
from nanobot.web.search.chain import Attempt, ChainFailed, ChainReply, SearchChain
from nanobot.web.service import ClientFactory
from nanobot.web.urls import host_of
from nanobot.web.usage import Lookup, UsageLedger

_HOST = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)+\Z")
READERS = 5
#: (url, timeout in seconds) → the text of the page. Raises `FetchError` only.
PageReader = Callable[[str, float], Awaitable[str]]

_KINDS: dict[SearchErrorKind, ToolErrorKind] = {
    "auth": "auth",
    "quota": "quota",
    "rate_limited": "rate_limited",
    "bad_request": "service",
    "blocked": "blocked",
    "unavailable": "service",
    "timeout": "timeout",
    "network": "network",
    "bad_payload": "service",
    "not_configured": "service",
}


class WebSearchTool(OwnTool[WebSearchArguments], name="web_search"):
    """Searches with the configured back end and those that may step in.

    Raises `SkipTool` when no usable back end remains. `clients` and `ddgs` are the seams to the network;
    `read_page` reads the pages whose text an engine does not deliver, None where `web_fetch` is off; `mcp` calls the
    tools that `fallback` names; `fetch` names the hosts whose page text may be shown;
    `plugins` make the engines of plug-ins.
    """

    def __init__(
        self,
        config: WebSearchConfig,
        *,
        proxy: str | None = None,
        env: Mapping[str, str] | None = None,
        clients: ClientFactory = trusted_client,
        ddgs: LibraryCall | None = None,
        read_page: PageReader | None = None,
        ledger: UsageLedger | None = None,
        mcp: McpCall | None = None,
        fetch: WebFetchConfig | None = None,
        plugins: Mapping[str, Callable[[], SearchBackend]] | None = None,
    ) -> None:
        self._config = config
        self._catalog = Catalog(config, env or {}, proxy, clients, ddgs, mcp, plugins or {})
        self._read_page = read_page
        self._fetches = read_page is not None
        self._ledger = ledger or UsageLedger()
        self._hosts = Hosts.parse(fetch.allow, fetch.deny) if fetch is not None else ANY_HOST
        self._kept: PageStore[_Found] = PageStore()
        self._twins = KeyLocks()
        self._alone = asyncio.Lock()
        self.defaults = {"limit": config.max_results}
        #: The back end that is asked first; nothing else decides it.
        self._first = self._catalog.first()
        wanted = config.provider
        self._lacking = ""  # the notice that the configured one cannot be used, until it was told
        if wanted not in ("", "auto", self._first):
            self._lacking = f"{wanted} lacks {self._catalog.missing(wanted)}; using {self._first}"
            logger.warning("search back end {}", self._lacking)
        #: The back ends in the order in which they are asked, and what is left of their allowances.
        self.chain = SearchChain([self._catalog.link(name) for name in self._catalog.order()], ledger=self._ledger)

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:  # noqa: ARG002
        """The words of a search go to the engine, whatever address stands in them."""
        return ()

    async def aclose(self) -> None:
        await self.chain.aclose()

    def read(self, given: Mapping[str, object]) -> WebSearchArguments:
        """The arguments as engines take them."""
        lists = {name: _listed(given[name]) for name in ("include_domains", "exclude_domains") if name in given}
        args = super().read({**given, **lists})
        query = " ".join(unicodedata.normalize("NFKC", strip_unsafe(args.query)).split())
        if not query:
            raise ValueError("query: the query is empty")
        parse_span(args.freshness)
        country = re.split("[-_]", args.country.strip())[0]  # some models add a part of it, as in `US-CA`
        if country and not re.fullmatch("[A-Za-z]{2}", country):
            raise ValueError(f"country: only a code such as DE is understood (got {args.country!r:.100})")
        language = args.language.strip()
        if language and not re.fullmatch(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{2,4})?", language):
            raise ValueError(f"language: only a code such as de is understood (got {args.language!r:.100})")
        return replace(
            args,
            query=query,
            freshness=args.freshness.strip().lower(),
            include_domains=_hosts(args.include_domains),
            exclude_domains=_hosts(args.exclude_domains),
            country=country.upper(),
            language=language.replace("_", "-"),
        )

    async def run(self, args: WebSearchArguments, context: ToolContext) -> ToolResult:
        query = _query(args, context.call_id)
        key = _key(query, context)
        # The library of DuckDuckGo does not bear two calls at once.
        async with self._twins.hold(key), self._alone if self._first == DUCKDUCKGO else nullcontext():
            kept = None if args.fresh or not context.turn_id else self._kept.get(context.turn_id, key)
            try:
                found = kept or await self._ask(query, context)
            except ChainFailed as error:
                self._count(error.attempts)
                return _failed(error, fetch=self._fetches)
            if kept is None and context.turn_id:
                self._kept.put(context.turn_id, key, found, sum(len(hit.content) for hit in found.hits))
        result = self._result(query, found, context)
        return result if kept is None else replace(result, message=f"{result.message}, from this turn's own search")

    async def hits(self, words: str, limit: int, *, privacy: bool) -> tuple[SearchHit, ...]:
        """What is found now, for who watches a search. Raises `SearchError`."""
        try:
            return (await self._ask(SearchQuery(words, limit), ToolContext(privacy=privacy))).hits
        except ChainFailed as error:
            self._count(error.attempts)
            raise

    async def _ask(self, query: SearchQuery, context: ToolContext) -> "_Found":
        """What the back ends found. Raises `ChainFailed`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.timeout
        answered = await self.chain.search(query, timeout=self._config.timeout, private=context.privacy)
        self._count(answered.attempts)
        hits, left_out = _chosen(answered.reply.hits, query)
        hits = [hit if self._hosts.lets(hit.url) else replace(hit, content="") for hit in hits]
        if query.include_content:
            hits = await self._with_pages(hits, deadline - loop.time())
        return _Found(answered, tuple(hits), left_out + answered.reply.dropped)

    def _count(self, attempts: Sequence[Attempt]) -> None:
        asked = (one for one in attempts if not one.skipped)
        self._ledger.note(*(Lookup(self.name, one.provider, "", one.error or "", one.seconds) for one in asked))

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        """Waiting for a search that runs right now in the same words costs nothing."""
        args = self.meant(arguments)
        return args is not None and not args.fresh and self._twins.held(_key(_query(args), context))

    def _result(self, query: SearchQuery, found: "_Found", context: ToolContext) -> ToolResult:
        reply, hits = found.answered.reply, found.hits
        notices = [*filter(None, [self._lacking]), *reply.notices]
        self._lacking = ""
        if query.include_content and hits and not any(hit.content for hit in hits):
            notices.append("no page text came with these results" + ": read pages with web_fetch" * self._fetches)
        now = datetime.now(UTC)
        sources = [context.sources.add(hit.url, hit.title, retrieved_at=now, text=_said(hit)) for hit in hits]
        numbered = [NumberedHit(source.number, hit) for source, hit in zip(sources, hits, strict=True)]
        words = _n(
            "{number} result from {service}", "{number} results from {service}", len(hits), service=reply.provider
        )
        return ToolResult(
            hits_text(
                query.query,
                numbered,
                budget=self._config.content_budget,
                notices=notices,
                detail=self._config.detail,
                fetch=self._fetches,
            ),
            words,
            sources=tuple(sources),
            extras={
                "provider": reply.provider,
                "attempts": [asdict(attempt) for attempt in found.answered.attempts],
                "hits": len(hits),
                "dropped": found.dropped,
                "fallback": found.answered.fallback,
                "notices": notices,
                "items": [_extras_of(hit) for hit in hits],
            },
            untrusted=True,
        )

    async def _with_pages(self, hits: Sequence[SearchHit], seconds: float) -> list[SearchHit]:
        """The hits, those without page text read by ourselves as far as the time allows."""
        read_page = self._read_page
        if read_page is None or seconds <= 0:
            return list(hits)
        gate = asyncio.Semaphore(READERS)

        async def read(hit: SearchHit) -> SearchHit:
            if hit.content:
                return hit
            try:
                async with asyncio.timeout(seconds), gate:
                    return replace(hit, content=await read_page(hit.url, seconds))
            except (FetchError, TimeoutError):
                return hit

        return list(await asyncio.gather(*map(read, hits)))


class _Found(Struct, frozen=True):
    """The hits of one search as they are shown, who gave them, and how many were left out."""

    answered: ChainReply
    hits: tuple[SearchHit, ...]
    dropped: int


def _query(args: WebSearchArguments, call_id: str = "") -> SearchQuery:
    return convert({**asdict(args), "call_id": call_id}, SearchQuery)


def _listed(value: object) -> object:
    """A list, also from one text with commas, as models like to write it."""
    return [part for part in re.split(r"[,\s]+", value) if part] if isinstance(value, str) else value


def _hosts(sites: Sequence[str]) -> tuple[str, ...]:
    """The hosts that are meant by sites, each once. Raises ValueError for what is none."""
    hosts = [part.strip().lower().rpartition("://")[2].partition("/")[0] for part in sites]
    hosts = [host.removeprefix("*.").removeprefix("site:") for host in hosts]
    for host in hosts:
        if not _HOST.match(host.encode("idna").decode("ascii") if not host.isascii() else host):
            raise ValueError(f"{host!r} is no site; write it like example.org")
    return tuple(dict.fromkeys(hosts))


def _key(query: SearchQuery, context: ToolContext) -> tuple[str, ...]:
    """What makes two searches of a turn the same: all but the id of the call; the words in any case."""
    return context.turn_id, repr(replace(query, query=fold(query.query), call_id=""))


def _chosen(hits: Sequence[SearchHit], query: SearchQuery) -> tuple[list[SearchHit], int]:
    """Each page once, only from the sites asked for, at most `limit`; and how many the filters left out."""
    kept: dict[str, SearchHit] = {}
    left_out = 0
    for hit in hits:
        host = host_of(hit.url)
        wanted = not query.include_domains or _on(host, query.include_domains)
        if not wanted or _on(host, query.exclude_domains):
            left_out += 1
        else:
            kept.setdefault(hit.url, hit)
    chosen = list(kept.values())[: query.limit]
    return [replace(hit, position=position) for position, hit in enumerate(chosen, 1)], left_out


def _on(host: str, domains: Sequence[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _failed(error: ChainFailed, *, fetch: bool) -> ToolResult:
    wait, when = error.retry_after, ""
    if {attempt.error for attempt in error.attempts if attempt.error} == {"auth"}:
        when = _("It cannot work before its key or its settings are changed.")
    elif wait and wait >= 1:
        when = _("Search can be tried again in {seconds:.0f} s.", seconds=wait)
    failed = sentences(_("Web search failed: {reason}.", reason=error), when)
    # English: a model reads it
    other = "Read pages that you know with web_fetch, or say" if fetch else "Say"
    reason = f"{failed} {other} what you could not find."
    return error_result(
        _KINDS[error.kind],
        reason,
        message=failed,
        cause=sentences(_("{sentence}.", sentence=error), when),
        attempts=[asdict(attempt) for attempt in error.attempts],
        hits=0,
        retry_after=wait,
    )


def _extras_of(hit: SearchHit) -> dict[str, object]:
    """The figures of a hit that the text does not show."""
    known = {"score": hit.score, "icon": hit.icon, "mime": hit.mime}
    return {"url": hit.url, "position": hit.position, **{key: value for key, value in known.items() if value}}


def _said(hit: SearchHit) -> str:
    """All that a citation of the hit may rest on."""
    return "\n".join(part for part in (hit.title, hit.snippet, hit.published, hit.content) if part)
