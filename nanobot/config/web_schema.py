"""The keys under `tools.web`: searching and reading."""

from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from nanobot.config.section import ApiKey, HttpUrl, ProxyUrl, Seconds, Section, check_headers
from nanobot.utils.text import nearest, shorten

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
#: Engines of other programs of the family: their settings load and are left out.
ENGINES_NOT_YET = frozenset({"olostep", "volcengine", "keenable"})
_OTHER_NAMES = {"": "auto", "ddg": "duckduckgo", "ddgs": "duckduckgo", "searx": "searxng"}
_OTHER_NAMES |= dict.fromkeys(("moonshot", "moonshot_search", "moonshotsearch", "service"), "kimi")


def provider_name(value: object) -> object:
    """A back end's name in its canonical form: lower case, without blanks, empty read as `auto`."""
    if not isinstance(value, str):
        return value
    name = value.strip().lower()
    return _OTHER_NAMES.get(name, name)


def check_provider(name: str) -> str:
    """The name of a real back end; `auto` is none."""
    known = SEARCH_PROVIDERS[1:]
    if name not in known:
        near = nearest(name, known)
        hint = f' Did you mean "{near}"?' if near else ""
        raise ValueError(f'"{shorten(name, 60)}" is no search back end.{hint} Known are {", ".join(known)}')
    return name


def check_fallback(name: str) -> str:
    """The name of a back end, or of a tool of an MCP server."""
    server, mark, tool = name.removeprefix("mcp:").partition("/")
    if name.startswith("mcp:") and server and mark and tool:
        return name
    known = provider_name(name)
    return check_provider(known if isinstance(known, str) else name)


BackEnd = Annotated[str, BeforeValidator(provider_name), AfterValidator(check_provider)]
Fallback = Annotated[str, AfterValidator(check_fallback)]


class SearchProviderConfig(Section):
    """One search back end, so that several keys can stand side by side."""

    api_key: ApiKey = Field(SecretStr(""), description="Key of this back end.")
    api_key_command: tuple[str, ...] = Field(
        (), description="Command (a list of words, run without a shell, 5 s) that prints the key."
    )
    base_url: HttpUrl = Field("", description="Another address for this back end: your own server or a gateway.")
    timeout: Seconds | None = Field(None, description="Seconds this back end may take; null: its share of the total.")
    headers: dict[str, str] = Field({}, description="Extra request headers.", repr=False)
    override_auth: bool = Field(False, description="Allow `headers` to replace Authorization, Host and Cookie.")
    proxy: ProxyUrl | None = Field(None, description="Proxy for this back end instead of tools.web.proxy.", repr=False)
    tool_call_id_header: str = Field("", description="Header that carries the tool call's id; empty: the usual one.")
    budget_per_day: int | None = Field(None, ge=0, description="Most requests in one day; null: no limit.")
    budget_per_month: int | None = Field(None, ge=0, description="Most requests in one month; null: no limit.")

    @model_validator(mode="after")
    def _headers_are_safe(self) -> Self:
        check_headers(self.headers, override_auth=self.override_auth, where="headers")
        return self


class WebSearchConfig(Section):
    """How `web_search` searches. Works without any key: an empty section means DuckDuckGo."""

    provider: Annotated[SearchProviderName, BeforeValidator(provider_name)] = Field(
        "auto", description="Back end that is asked first; `auto` takes the first one with a key, else DuckDuckGo."
    )
    api_key: ApiKey = Field(SecretStr(""), description="Key of the back end named by `provider`.")
    api_key_command: tuple[str, ...] = Field(
        (), description="Command (a list of words, run without a shell, 5 s) that prints the key."
    )
    base_url: HttpUrl = Field("", description="Address of the back end named by `provider`; SearXNG needs it.")
    max_results: int = Field(5, ge=1, le=20, description="Results when the model asks for no number.")
    timeout: Seconds = Field(30, description="Seconds for the whole search, all back ends together.")
    fallback: tuple[Fallback, ...] | None = Field(
        None,
        description="Back ends asked next when one fails, in order, also `mcp:<server>/<tool>`; "
        "null: every configured one, DuckDuckGo, then the keyless services of Tavily, Exa, Firecrawl and Parallel; "
        "[]: none.",
    )
    providers: dict[BackEnd, SearchProviderConfig] = Field({}, description="Keys and addresses of several back ends.")
    detail: Literal["brief", "normal", "full"] = Field(
        "normal",
        description="How much of each hit the model sees: a line of the snippet, the snippet with date and site, "
        "or also score, type and the engine's own answer.",
    )
    content_budget: int = Field(
        20_000, ge=1_000, le=1_000_000, description="Characters of page text that all hits of one search share."
    )
    lookup_repeats: int = Field(2, ge=1, le=20, description="How often one turn may repeat the same lookup.")
    ddgs_backend: str = Field("duckduckgo", description="Engine that the ddgs library asks; `auto` mixes several.")


class FetchServiceConfig(Section):
    """A remote service that reads pages: `POST baseUrl {"url": …}`, answered with text. Off without a baseUrl."""

    base_url: HttpUrl = Field("", description="Address of the service; empty: no service.")
    api_key: ApiKey = Field(SecretStr(""), description="Key, sent as `Authorization: Bearer`.")
    api_key_command: tuple[str, ...] = Field(
        (), description="Command (a list of words, run without a shell, 5 s) that prints the key."
    )
    headers: dict[str, str] = Field({}, description="Extra request headers.", repr=False)
    tool_call_id_header: str = Field("", description="Header that carries the tool call's id; empty: the usual one.")
    override_auth: bool = Field(False, description="Allow `headers` to replace Authorization, Host and Cookie.")

    @model_validator(mode="after")
    def _headers_are_safe(self) -> Self:
        check_headers(self.headers, override_auth=self.override_auth, where="headers")
        return self


class FetchExtractConfig(Section):
    """What of a page is kept."""

    comments: bool = Field(True, description="Keep readers' comments.")
    tables: bool = Field(True, description="Keep tables.")
    links: Literal["keep", "text", "footnotes"] = Field(
        "keep", description="Links: with their address, their text alone, or numbered at the end."
    )
    images: bool = Field(False, description="Keep image addresses; the alternative text is always kept.")
    metadata: bool = Field(True, description="Start with title, site, author and date where known.")


class WebFetchConfig(Section):
    """How `web_fetch` reads a page."""

    enable: bool = Field(True, description="Offer web_fetch to the model.")
    max_chars: int = Field(50_000, ge=100, le=1_000_000, description="Characters of one page that the model gets.")
    timeout: Seconds = Field(30, description="Seconds for one page, all steps together.")
    max_bytes: int = Field(
        10_485_760, ge=10_000, le=1_073_741_824, description="Bytes read of one page, after decompression."
    )
    retries: int = Field(1, ge=0, le=5, description="Further attempts after 408, 429, 5xx or a reset connection.")
    concurrency: int = Field(5, ge=1, le=50, description="Pages that are read at the same time.")
    order: Literal["local-first", "reader-first", "service-first"] = Field(
        "local-first",
        description="Who reads first: this machine, the remote reader, or the configured service.",
    )
    native: bool = Field(
        False,
        description="Let the model's own service read public pages first where a `prompt` asks about them "
        "(Anthropic, Gemini, OpenAI).",
    )
    render: Literal["text", "json"] = Field(
        "text", description="What the model sees: a short header and text, or one JSON object."
    )
    allow_private: Literal["deny", "ask", "allow"] = Field(
        "deny", description="Addresses of your own network: refuse, ask first, or read."
    )
    fake_ip: bool = Field(
        False,
        description="A proxy on this machine (Clash, mihomo) answers DNS with addresses in 198.18.0.0/15: read them.",
    )
    user_agent: str = Field("", description="User-Agent for pages; empty: that of a common browser.")
    reader: Literal["jina", "firecrawl", "none"] = Field(
        "jina", description="Remote reader for pages that need JavaScript; `none` keeps every address at home."
    )
    reader_key: ApiKey = Field(SecretStr(""), description="Key of the remote reader; jina works without.")
    reader_url: HttpUrl = Field("", description="Another address for the remote reader.")
    service: FetchServiceConfig = Field(FetchServiceConfig(), description="A remote service that reads pages.")
    extract: FetchExtractConfig = Field(FetchExtractConfig(), description="What of a page is kept.")


class WebToolsConfig(Section):
    """Searching and reading the web."""

    enable: bool = Field(True, description="Offer web_search and web_fetch to the model.")
    proxy: ProxyUrl | None = Field(
        None,
        description="Proxy for both tools; null: what HTTPS_PROXY, ALL_PROXY and NO_PROXY in the environment say.",
        repr=False,
    )
    privacy: bool = Field(
        False,
        description="Use no remote reader and no remote reading service, and search with the named back end only.",
    )
    search: WebSearchConfig = Field(WebSearchConfig(), description="How web_search searches.")
    fetch: WebFetchConfig = Field(WebFetchConfig(), description="How web_fetch reads.")
