"""The back ends by name: what each needs, which ones a search may use, and how one is made from the configuration.

No engine is imported before it is asked.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from nanobot.config.proxy import Proxies
from nanobot.config.schema_web import SearchProviderConfig, WebSearchConfig
from nanobot.errors import SkipTool
from nanobot.utils.secrecy import Reticent
from nanobot.utils.text import sendable
from nanobot.utils.translation import N_, Later, _
from nanobot.web.client import trusted_client
from nanobot.web.search.base import LibraryCall, McpCall, SearchBackend
from nanobot.web.search.chain import ChainLink
from nanobot.web.service import ClientFactory, ServiceAccess
from nanobot.web.usage import RequestBudget

DUCKDUCKGO = "duckduckgo"


class CatalogEntry(Struct, frozen=True):
    """One back end.

    `key_env` and `url_env` are the variables read where the configuration says nothing. `needs` names what it cannot do
    without, and `keyless` tells that a few searches work with no key, at most `keyless_per_day`. `pace` is the least
    seconds between requests; `content_seconds` is what a search for page text may take, where that is more than a
    search's share.
    """

    key_env: str = ""
    url_env: str = ""
    needs: tuple[str, ...] = ("key",)
    keyless: bool = False
    keyless_per_day: int | None = None
    pace: float = 0.0
    content_seconds: float = 0.0


#: Seconds between two requests that come without a key.
KEYLESS_PACE = 0.5
#: Every back end; `auto` takes the first usable one in this order, DuckDuckGo last.
CATALOG: Mapping[str, CatalogEntry] = {
    "brave": CatalogEntry("BRAVE_API_KEY", pace=0.1),
    "tavily": CatalogEntry("TAVILY_API_KEY", keyless=True),
    "exa": CatalogEntry("EXA_API_KEY", keyless=True, keyless_per_day=50, pace=0.1),
    "kagi": CatalogEntry("KAGI_API_KEY"),
    "jina": CatalogEntry("JINA_API_KEY"),
    "searxng": CatalogEntry("SEARXNG_API_KEY", "SEARXNG_BASE_URL", needs=("url",)),
    "perplexity": CatalogEntry("PERPLEXITY_API_KEY"),
    "firecrawl": CatalogEntry("FIRECRAWL_API_KEY", keyless=True),
    "parallel": CatalogEntry("PARALLEL_API_KEY", keyless=True),
    "serper": CatalogEntry("SERPER_API_KEY"),
    "bocha": CatalogEntry("BOCHA_API_KEY"),
    "kimi": CatalogEntry("KIMI_SEARCH_API_KEY", "KIMI_SEARCH_BASE_URL", needs=("url", "key"), content_seconds=180.0),
    DUCKDUCKGO: CatalogEntry(needs=(), pace=0.5),
}
#: How keys of these services begin: tells whose key stands beside `provider: auto`.
_KEY_MARKS = {"tvly-": "tavily", "jina_": "jina", "pplx-": "perplexity", "fc-": "firecrawl", "BSA": "brave"}


class Catalog(Reticent, frozen=True):
    """The back ends as this configuration and this environment reach them.

    `clients` and `ddgs` are the seams to the network, the second one to a search of the ddgs library. `plugins` make
    engines of plug-ins, `plugin:<name>`, which are asked before all others.
    """

    unprinted = ("env", "proxy")

    settings: WebSearchConfig
    env: Mapping[str, str]
    proxy: str | None = None
    clients: ClientFactory = trusted_client
    ddgs: LibraryCall | None = None
    mcp: McpCall | None = None
    plugins: Mapping[str, Callable[[], SearchBackend]] = field(default_factory=dict)

    def first(self) -> str:
        """The back end to ask first. Raises `SkipTool` where no usable back end remains.

        A named one where it has what it needs; else the first usable one of `fallback`, or DuckDuckGo where that is not
        given. `auto`: the first configured one, else DuckDuckGo.
        """
        name = self.settings.provider
        if name == "auto":
            return next((known for known in CATALOG if self.configured(known)), DUCKDUCKGO)
        lacking = self.missing(name)
        if not lacking:
            return name
        rest = self._fallback()
        if self.settings.fallback is None:
            return DUCKDUCKGO
        if not rest:
            raise SkipTool(
                Later(
                    N_("web_search is off: {service} lacks {lacking}, and no other back end is allowed to step in"),
                    service=name,
                    lacking=lacking,
                )
            )
        return rest[0]

    def order(self) -> tuple[str, ...]:
        """Every back end to ask, in order, each once. Raises `SkipTool` like `first`."""
        return tuple(dict.fromkeys((*self.plugins, self.first(), *self._fallback())))

    def _fallback(self) -> tuple[str, ...]:
        given = self.settings.fallback
        if given is None:
            configured = [name for name in CATALOG if name != DUCKDUCKGO and self.configured(name)]
            keyless = [name for name, entry in CATALOG.items() if entry.keyless]
            return (*configured, DUCKDUCKGO, *(name for name in keyless if name not in configured))
        return tuple(name for name in given if self._usable(name))

    def _usable(self, name: str) -> bool:
        mcp = name.startswith("mcp:")
        return self.mcp is not None if mcp else self.configured(name) or CATALOG[name].keyless

    def configured(self, name: str) -> bool:
        """True where everything that the back end needs is there."""
        return not self.missing(name)

    def missing(self, name: str) -> str:
        """What a back end lacks, as words for a person that `told` translates; empty where it lacks nothing."""
        entry, access = CATALOG[name], self.access(name)
        lacks = []
        if "url" in entry.needs and not access.base_url:
            lacks.append(Later(N_("an address (tools.web.search.baseUrl or {variable})"), variable=entry.url_env))
        own_server = entry.keyless and access.base_url
        if "key" in entry.needs and not access.api_key and not own_server:
            lacks.append(Later(N_("a key (tools.web.search.apiKey or {variable})"), variable=entry.key_env))
        if len(lacks) > 1:
            return Later(N_("{first} and {second}"), first=lacks[0], second=lacks[1])
        return lacks[0] if lacks else ""

    def access(self, name: str) -> ServiceAccess:
        """How a back end is reached: by its own section, then the common keys, then the environment."""
        entry, own = CATALOG[name], self._own(name)
        settings = self.settings
        key, url = own.api_key, own.base_url
        if settings.provider == name or self._owner_of_common_key() == name:
            key = key or settings.api_key
        if settings.provider == name or (settings.provider == "auto" and name == "searxng"):
            url = url or settings.base_url
        key = key or self.env.get(entry.key_env, "").strip()
        problem = ""
        if not sendable(key):
            problem = _(
                "No request can carry its key (tools.web.search or {variable}). Copy it again, in one piece",
                variable=entry.key_env,
            )
        return ServiceAccess(
            api_key=key,
            base_url=url or self.env.get(entry.url_env, "").strip(),
            headers=own.headers,
            override_auth=own.override_auth,
            proxies=Proxies(own.proxy) if own.proxy else Proxies(self.proxy, self.env),
            problem=problem,
            call_id_header=own.tool_call_id_header,
        )

    def link(self, name: str) -> ChainLink:
        """The back end of that name with its own deadline, pace and budget."""
        if name.startswith("mcp:"):
            return ChainLink(name, lambda: self._make(name, ServiceAccess()))
        if name in self.plugins:
            return ChainLink(name, self.plugins[name])
        entry, own, access = CATALOG[name], self._own(name), self.access(name)
        free = entry.keyless and not access.api_key and not access.base_url
        days = [most for most in (own.budget_per_day, entry.keyless_per_day if free else None) if most is not None]
        return ChainLink(
            name,
            lambda: self._make(name, access),
            own.timeout,
            KEYLESS_PACE if free else entry.pace,
            RequestBudget(min(days, default=None), own.budget_per_month),
            private=name in ("searxng", self.settings.provider),
            content_seconds=entry.content_seconds,
        )

    def _make(self, name: str, access: ServiceAccess) -> SearchBackend:
        if name.startswith("mcp:"):
            from nanobot.web.search.mcp import McpBackend

            return McpBackend(name, self.mcp)
        if name == DUCKDUCKGO:
            from nanobot.web.search.duckduckgo import DuckDuckGoBackend, in_child

            return DuckDuckGoBackend(name, access, engines=self.settings.ddgs_backend, library=self.ddgs or in_child)
        from nanobot.web.search.engines import ENGINES

        return ENGINES[name](name, access, self.clients)

    def _own(self, name: str) -> SearchProviderConfig:
        return self.settings.providers.get(name) or SearchProviderConfig()

    def _owner_of_common_key(self) -> str:
        key = self.settings.api_key
        if self.settings.provider != "auto" or not key:
            return ""
        return next((name for mark, name in _KEY_MARKS.items() if key.startswith(mark)), "brave")
