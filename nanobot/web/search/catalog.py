"""The back ends by name: their classes, their environment variables, and how one is made from the configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import SecretStr

from nanobot.config.proxy import Proxies, UnusableProxy
from nanobot.utils.text import sendable
from nanobot.web.client import trusted_client
from nanobot.web.search.api import ApiBackend
from nanobot.web.search.base import Detail, SearchBackend
from nanobot.web.search.bocha import BochaBackend
from nanobot.web.search.brave import BraveBackend
from nanobot.web.search.chain import Link
from nanobot.web.search.duckduckgo import DuckDuckGoBackend, EngineFactory, make_engine
from nanobot.web.search.exa import ExaBackend
from nanobot.web.search.firecrawl import FirecrawlBackend
from nanobot.web.search.http import Access, ClientFactory
from nanobot.web.search.jina import JinaBackend
from nanobot.web.search.kagi import KagiBackend
from nanobot.web.search.kimi import KimiBackend
from nanobot.web.search.mcp import McpBackend, McpCall
from nanobot.web.search.perplexity import PerplexityBackend
from nanobot.web.search.searxng import SearxngBackend
from nanobot.web.search.serper import SerperBackend
from nanobot.web.search.tavily import TavilyBackend
from nanobot.web.search.worker import SHARED, Worker
from nanobot.web.usage.ledger import Budget

DUCKDUCKGO = "duckduckgo"


@dataclass(frozen=True, slots=True)
class Entry:
    """One back end.

    `key_env` and `url_env` are the variables read where the configuration says nothing. `needs` names what it cannot do
    without, and `keyless` tells that a few searches work with no key, at most `keyless_per_day` and
    `keyless_per_minute`, and `keyless_pace` seconds apart. `pace` is the least seconds between requests;
    `content_seconds` is what a search for page text may take, where that is more than a search's share.
    """

    make: type[ApiBackend] | None = None
    key_env: str = ""
    url_env: str = ""
    needs: tuple[str, ...] = ("key",)
    keyless: bool = False
    keyless_per_day: int | None = None
    keyless_per_minute: int = 0
    keyless_pace: float = 0.5
    pace: float = 0.0
    content_seconds: float = 0.0


#: Every back end; `auto` takes the first usable one in this order, DuckDuckGo last.
CATALOG: Mapping[str, Entry] = {
    "brave": Entry(BraveBackend, "BRAVE_API_KEY", pace=0.1),
    "tavily": Entry(TavilyBackend, "TAVILY_API_KEY", keyless=True),
    "exa": Entry(ExaBackend, "EXA_API_KEY", keyless=True, keyless_per_day=50, pace=0.1),
    "kagi": Entry(KagiBackend, "KAGI_API_KEY"),
    "jina": Entry(JinaBackend, "JINA_API_KEY"),
    "searxng": Entry(SearxngBackend, "SEARXNG_API_KEY", "SEARXNG_BASE_URL", needs=("url",)),
    "perplexity": Entry(PerplexityBackend, "PERPLEXITY_API_KEY"),
    "firecrawl": Entry(FirecrawlBackend, "FIRECRAWL_API_KEY", keyless=True, keyless_per_minute=10),
    "serper": Entry(SerperBackend, "SERPER_API_KEY"),
    "bocha": Entry(BochaBackend, "BOCHA_API_KEY"),
    "kimi": Entry(
        KimiBackend, "KIMI_SEARCH_API_KEY", "KIMI_SEARCH_BASE_URL", needs=("url", "key"), content_seconds=180.0
    ),
    DUCKDUCKGO: Entry(needs=(), pace=0.5),
}
#: How keys of these services begin: tells whose key stands beside `provider: auto`.
_KEY_MARKS = {"tvly-": "tavily", "jina_": "jina", "pplx-": "perplexity", "fc-": "firecrawl", "BSA": "brave"}


class ProviderSettings(Protocol):
    """One entry of `tools.web.search.providers`."""

    @property
    def api_key(self) -> SecretStr: ...
    @property
    def base_url(self) -> str: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def override_auth(self) -> bool: ...
    @property
    def proxy(self) -> str | None: ...
    @property
    def tool_call_id_header(self) -> str: ...
    @property
    def budget_per_day(self) -> int | None: ...
    @property
    def budget_per_month(self) -> int | None: ...


class SearchSettings(Protocol):
    """What this room reads of `tools.web.search`."""

    @property
    def provider(self) -> str: ...
    @property
    def api_key(self) -> SecretStr: ...
    @property
    def base_url(self) -> str: ...
    @property
    def max_results(self) -> int: ...
    @property
    def timeout(self) -> float: ...
    @property
    def fallback(self) -> tuple[str, ...] | None: ...
    @property
    def providers(self) -> Mapping[str, ProviderSettings]: ...
    @property
    def content_budget(self) -> int: ...
    @property
    def detail(self) -> Detail: ...
    @property
    def ddgs_backend(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Catalog:
    """The back ends as this configuration and this environment reach them."""

    settings: SearchSettings
    env: Mapping[str, str] = field(repr=False)
    proxy: str | None = field(default=None, repr=False)
    clients: ClientFactory = trusted_client
    ddgs: EngineFactory = make_engine
    worker: Worker = SHARED
    mcp: McpCall | None = None

    def access(self, name: str) -> Access:
        """How a back end is reached: by its own section, then the common keys, then the environment."""
        entry, own = CATALOG[name], self.settings.providers.get(name)
        named = self.settings.provider == name or self._owner_of_common_key() == name
        key = own.api_key.get_secret_value() if own else ""
        url = own.base_url if own else ""
        if named:
            key = key or self.settings.api_key.get_secret_value()
        if self.settings.provider == name or (self.settings.provider in ("", "auto") and name == "searxng"):
            url = url or self.settings.base_url
        key = key or self.env.get(entry.key_env, "").strip()
        url = url or self.env.get(entry.url_env, "").strip()
        proxy, problem = self._proxy(own, url or (entry.make.host if entry.make else ""))
        if not sendable(key):
            problem = f"No request can carry its key (tools.web.search or {entry.key_env}). Copy it again, in one piece"
        return Access(
            api_key=key,
            base_url=url,
            headers=own.headers if own else {},
            override_auth=own.override_auth if own else False,
            proxy=proxy,
            problem=problem,
            call_id_header=own.tool_call_id_header if own else "",
        )

    def configured(self, name: str) -> bool:
        """True where everything that the back end needs is there."""
        return not self.missing(name)

    def missing(self, name: str) -> str:
        """What a back end lacks, as words for a person; empty where it lacks nothing."""
        entry, access = CATALOG[name], self.access(name)
        lacks = []
        if "url" in entry.needs and not access.base_url:
            lacks.append(f"an address (tools.web.search.baseUrl or {entry.url_env})")
        own_server = entry.keyless and access.base_url
        if "key" in entry.needs and not access.api_key and not own_server:
            lacks.append(f"a key (tools.web.search.apiKey or {entry.key_env})")
        return " and ".join(lacks)

    def make(self, name: str) -> Link:
        """The back end of that name with its own deadline, pace and budget."""
        if name.startswith("mcp:"):
            return Link(McpBackend(name, self.mcp))
        entry, own, access = CATALOG[name], self.settings.providers.get(name), self.access(name)
        backend: SearchBackend
        if entry.make is None:
            backend = DuckDuckGoBackend(
                name, access, engines=self.settings.ddgs_backend, factory=self.ddgs, worker=self.worker
            )
        else:
            backend = entry.make(name, access, self.clients)
        free = entry.keyless and not access.api_key and not access.base_url
        per_day = own.budget_per_day if own else None
        if free and entry.keyless_per_day is not None:
            per_day = min(entry.keyless_per_day, per_day) if per_day is not None else entry.keyless_per_day
        return Link(
            backend,
            own.timeout if own else None,
            entry.keyless_pace if free else entry.pace,
            Budget(per_day, own.budget_per_month if own else None),
            private=name in ("searxng", self.settings.provider),
            per_minute=entry.keyless_per_minute if free else 0,
            content_seconds=entry.content_seconds,
        )

    def _owner_of_common_key(self) -> str:
        key = self.settings.api_key.get_secret_value()
        if self.settings.provider not in ("", "auto") or not key:
            return ""
        return next((name for mark, name in _KEY_MARKS.items() if key.startswith(mark)), "brave")

    def _proxy(self, own: ProviderSettings | None, url: str) -> tuple[str | None, str]:
        """The proxy to this address, and why it cannot be used."""
        if own and own.proxy:
            return own.proxy, ""
        try:
            return Proxies(self.proxy, self.env).of(url), ""
        except UnusableProxy as error:
            return None, f"{error}, or set tools.web.proxy"
