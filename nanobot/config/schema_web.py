"""What the configuration says of searching and reading the web; `schema.py` tells what is made from these classes."""

from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Meta, field

from nanobot.config.section import (
    ApiKey,
    Hidden,
    HostName,
    HttpUrl,
    KeyCommand,
    Kind,
    ProxyUrl,
    Seconds,
    Section,
    When,
    check_headers,
    check_proxy,
)
from nanobot.utils.text import nearest, shorten
from nanobot.utils.translation import _

SearchProviderName = Literal[
    "auto",
    "duckduckgo",
    "brave",
    "tavily",
    "searxng",
    "jina",
    "kagi",
    "exa",
    "perplexity",
    "firecrawl",
    "kimi",
    "serper",
    "bocha",
    "parallel",
]
SEARCH_PROVIDERS: tuple[str, ...] = get_args(SearchProviderName)
_OTHER_NAMES = {"": "auto", "ddg": "duckduckgo", "ddgs": "duckduckgo", "searx": "searxng"}
_OTHER_NAMES |= dict.fromkeys(("moonshot", "moonshot_search", "moonshotsearch", "service"), "kimi")


def provider_name(value: str) -> str:
    """A back end's name in its canonical form: lower case, without blanks, empty read as `auto`."""
    name = value.strip().lower()
    return _OTHER_NAMES.get(name, name)


def check_provider(value: str) -> str:
    """The canonical name of a real back end; `auto` is none."""
    known, name = SEARCH_PROVIDERS[1:], provider_name(value)
    if name not in known:
        near = nearest(name, known)
        told = _('"{name}" is no search back end.', name=shorten(name, 60))
        hint = _('Did you mean "{near}"?', near=near) if near else ""
        names = _("Known are {names}", names=", ".join(known))
        raise ValueError(" ".join(filter(None, (told, hint, names))))
    return name


def check_fallback(name: str) -> str:
    """The name of a back end, or of a tool of an MCP server."""
    server, mark, tool = name.removeprefix("mcp:").partition("/")
    if name.startswith("mcp:") and server and mark and tool:
        return name
    return check_provider(name)


BackEnd = Annotated[str, Kind(check_provider)]
Fallback = Annotated[str, Kind(check_fallback)]
Budget = Annotated[int, Meta(ge=0)]


class SearchProviderConfig(Section, frozen=True):
    """One search back end, so that several keys can stand side by side."""

    api_key: Annotated[ApiKey, "Key of this back end."] = ""
    api_key_command: KeyCommand = ()
    base_url: Annotated[HttpUrl, "Another address for this back end: your own server or a gateway."] = ""
    timeout: Annotated[Seconds | None, "Seconds this back end may take; null: its share of the total."] = None
    headers: Annotated[Hidden, "Extra request headers."] = field(default_factory=dict)
    override_auth: Annotated[bool, "Allow `headers` to replace Authorization, Host and Cookie."] = False
    proxy: Annotated[ProxyUrl | None, "Proxy for this back end instead of tools.web.proxy."] = None
    tool_call_id_header: Annotated[str, "Header that carries the tool call's id; empty: the usual one."] = ""
    budget_per_day: Annotated[Budget | None, "Most requests in one day; null: no limit."] = None
    budget_per_month: Annotated[Budget | None, "Most requests in one month; null: no limit."] = None

    def __post_init__(self) -> None:
        check_headers(self.headers, override_auth=self.override_auth)


class WebSearchConfig(Section, frozen=True):
    """How `web_search` searches. Works without any key: an empty section means DuckDuckGo."""

    taken: ClassVar[When] = "next turn"

    provider: Annotated[
        SearchProviderName,
        Kind(provider_name),
        "Back end that is asked first; `auto` takes the first one with a key, else DuckDuckGo.",
    ] = "auto"
    api_key: Annotated[ApiKey, "Key of the back end named by `provider`."] = ""
    api_key_command: KeyCommand = ()
    base_url: Annotated[HttpUrl, "Address of the back end named by `provider`; SearXNG needs it."] = ""
    max_results: Annotated[int, Meta(ge=1, le=20), "Results when the model asks for no number."] = 5
    timeout: Annotated[Seconds, "Seconds for the whole search, all back ends together."] = 30
    fallback: Annotated[
        tuple[Fallback, ...] | None,
        "Back ends asked next when one fails, in order, also `mcp:<server>/<tool>`; "
        "null: every configured one, DuckDuckGo, then the keyless services of Tavily, Exa, Firecrawl and Parallel; "
        "[]: none.",
    ] = None
    providers: Annotated[dict[BackEnd, SearchProviderConfig], "Keys and addresses of several back ends."] = field(
        default_factory=dict
    )
    detail: Annotated[
        Literal["brief", "normal", "full"],
        "How much of each hit the model sees: a line of the snippet, the snippet with date and site, "
        "or also score and type.",
    ] = "normal"
    content_budget: Annotated[
        int, Meta(ge=1_000, le=1_000_000), "Characters of page text that all hits of one search share."
    ] = 20_000
    lookup_repeats: Annotated[int, Meta(ge=1, le=20), "How often one turn may repeat the same lookup."] = 2
    ddgs_backend: Annotated[str, "Engine that the ddgs library asks; `auto` mixes several."] = "duckduckgo"


class FetchServiceConfig(Section, frozen=True):
    """A remote service that reads pages: `POST baseUrl {"url": …}`, answered with text. Off without a baseUrl."""

    taken: ClassVar[When] = "next turn"

    base_url: Annotated[HttpUrl, "Address of the service; empty: no service."] = ""
    api_key: Annotated[ApiKey, "Key, sent as `Authorization: Bearer`."] = ""
    api_key_command: KeyCommand = ()
    headers: Annotated[Hidden, "Extra request headers."] = field(default_factory=dict)
    tool_call_id_header: Annotated[str, "Header that carries the tool call's id; empty: the usual one."] = ""
    override_auth: Annotated[bool, "Allow `headers` to replace Authorization, Host and Cookie."] = False

    def __post_init__(self) -> None:
        check_headers(self.headers, override_auth=self.override_auth)


class FetchExtractConfig(Section, frozen=True):
    """What of a page is kept."""

    taken: ClassVar[When] = "next turn"

    comments: Annotated[bool, "Keep readers' comments."] = True
    tables: Annotated[bool, "Keep tables."] = True
    links: Annotated[
        Literal["keep", "text", "footnotes"], "Links: with their address, their text alone, or numbered at the end."
    ] = "keep"
    images: Annotated[bool, "Keep image addresses; the alternative text is always kept."] = False
    metadata: Annotated[bool, "Start with title, site, author and date where known."] = True


class WebFetchConfig(Section, frozen=True):
    """How `web_fetch` reads a page."""

    taken: ClassVar[When] = "next turn"

    enable: Annotated[bool, "Offer web_fetch to the model."] = True
    max_chars: Annotated[int, Meta(ge=100, le=1_000_000), "Characters of one page that the model gets."] = 50_000
    timeout: Annotated[Seconds, "Seconds for one page, all steps together."] = 30
    max_bytes: Annotated[int, Meta(ge=10_000, le=1_073_741_824), "Bytes read of one page, after decompression."] = (
        10_485_760
    )
    retries: Annotated[int, Meta(ge=0, le=5), "Further attempts after 408, 429, 5xx or a reset connection."] = 1
    concurrency: Annotated[int, Meta(ge=1, le=50), "Pages that are read at the same time."] = 5
    order: Annotated[
        Literal["local-first", "reader-first", "service-first"],
        "Who reads first: this machine, the remote reader, or the configured service.",
    ] = "local-first"
    native: Annotated[
        bool,
        "Let the model's own service read public pages first where a `prompt` asks about them (Anthropic, Gemini).",
    ] = False
    render: Annotated[
        Literal["text", "json"], "What the model sees of one page: a short header and text, or one JSON object."
    ] = "text"
    allow_private: Annotated[
        Literal["deny", "ask", "allow"], "Addresses of your own network: refuse, ask first, or read."
    ] = "deny"
    allow: Annotated[
        tuple[HostName, ...], "Hosts whose pages are read, each with all names below it; empty: all public ones."
    ] = ()
    deny: Annotated[
        tuple[HostName, ...], "Hosts that are never read, each with all names below it, whatever `allow` says."
    ] = ()
    fake_ip: Annotated[
        bool, "A proxy on this machine (Clash, mihomo) answers DNS with addresses in 198.18.0.0/15: read them."
    ] = False
    user_agent: Annotated[str, "User-Agent for pages; empty: that of a common browser."] = ""
    reader: Annotated[
        Literal["jina", "firecrawl", "none"],
        Kind(words={True: "jina", False: "none"}),
        "Remote reader for pages that need JavaScript; `none` keeps every address at home.",
    ] = "jina"
    reader_key: Annotated[ApiKey, "Key of the remote reader; jina works without."] = ""
    reader_url: Annotated[HttpUrl, "Another address for the remote reader."] = ""
    service: FetchServiceConfig = FetchServiceConfig()
    extract: FetchExtractConfig = FetchExtractConfig()


class WebToolsConfig(Section, frozen=True):
    """Searching and reading the web."""

    taken: ClassVar[When] = "next turn"

    enable: Annotated[bool, "Offer web_search and web_fetch to the model."] = True
    proxy: Annotated[
        Annotated[str, Kind(check_proxy, private="hidden", taken="next start")] | None,
        "Proxy for both tools; null: what HTTPS_PROXY, ALL_PROXY and NO_PROXY in the environment say.",
    ] = None
    privacy: Annotated[
        bool, "Use no remote reader and no remote reading service, and search with the named back end only."
    ] = False
    search: WebSearchConfig = WebSearchConfig()
    fetch: WebFetchConfig = WebFetchConfig()
