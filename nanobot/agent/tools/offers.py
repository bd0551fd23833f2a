"""What a model may ask of the tools of ours, and tools that are offered before they are imported.

Most questions need no tool or one, and importing those that search and read takes a third of a start.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Literal

from msgspec import Meta, Struct

from nanobot.agent.tools.base import ToolContext, ToolLike, schema_of
from nanobot.config.schema import WebFetchConfig, WebSearchConfig
from nanobot.errors import FetchError
from nanobot.providers.base import ToolSpec
from nanobot.results import SourceBook, ToolResult
from nanobot.security.policy import Access
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.web.urls import with_scheme

_NUMBER = re.compile(r"#([0-9]{1,6})|\[([0-9]{1,6})\]")


class DocsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=500, description="What to look up, in a few words.")]


class WebFetchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=1, description="The page: an http(s) URL, or #n for result n of a search.")] = (
        ""
    )
    urls: Annotated[tuple[str, ...], Meta(min_length=1, description="Up to 20 pages at once, instead of url.")] = ()
    prompt: Annotated[str, Meta(description="What to find out: alone with its URLs in it, or beside url or urls.")] = ""
    format: Annotated[Literal["markdown", "text", "html"], Meta(description="How to give an HTML page.")] = "markdown"
    max_chars: Annotated[
        Annotated[int, Meta(ge=100, le=1_000_000)] | None, Meta(description="Most characters to return.")
    ] = None
    offset: Annotated[int, Meta(ge=0, description="Character to start at, to read on in a long page.")] = 0
    find: Annotated[str, Meta(max_length=300, description="Give only the places of the page that speak of this.")] = ""
    section: Annotated[
        str,
        Meta(max_length=300, description="Give only the section under this heading; of JSON, the part at this path."),
    ] = ""
    raw: Annotated[bool, Meta(description="With format=html: keep scripts and styles.")] = False
    fresh: Annotated[bool, Meta(description="Load the page again, even if it was read a moment ago.")] = False


class WebSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="What to search for.")]
    limit: Annotated[int, Meta(ge=1, le=20, description="Number of results.")] = 5
    include_content: Annotated[bool, Meta(description="Also return page text. Costs many tokens.")] = False
    freshness: Annotated[str, Meta(description="day, week, month, year or YYYY-MM-DD..YYYY-MM-DD.")] = ""
    include_domains: Annotated[tuple[str, ...], Meta(description="Only these sites.")] = ()
    exclude_domains: Annotated[tuple[str, ...], Meta(description="Not these sites.")] = ()
    country: Annotated[str, Meta(description="Two-letter country code such as DE.")] = ""
    language: Annotated[str, Meta(description="Language code such as de or zh.")] = ""
    fresh: Annotated[bool, Meta(description="Ask again, even if this turn did so already.")] = False


class Offer(Struct, frozen=True):
    """What is known of a tool before it is imported: its arguments, its other names, and what it does."""

    arguments: type[Struct]
    aliases: tuple[str, ...] = ()
    access: Access = "public"


OFFERS: Mapping[str, Offer] = {
    "nanobot_docs": Offer(DocsArguments),
    "web_fetch": Offer(WebFetchArguments, ("FetchURL", "fetch_url", "webfetch", "WebFetch", "fetch")),
    "web_search": Offer(
        WebSearchArguments,
        ("SearchWeb", "search_web", "google_web_search", "websearch", "webSearch", "WebSearch"),
    ),
}

DOCS_DESCRIPTION = (
    "Search nanobot's own documentation: set-up, configuration keys, models and providers, Telegram, the terminal, "
    "commands, tools, security. Use it for every question about nanobot itself, and before you change its settings."
)


def fetch_description(config: WebFetchConfig, templates: PromptTemplates) -> str:
    """What a model is told of `web_fetch` with these settings."""
    return templates.render("tools/web_fetch.md", max_chars=config.max_chars)


def search_description(config: WebSearchConfig, templates: PromptTemplates, *, fetch: bool) -> str:
    """What a model is told of `web_search` with these settings; `fetch`: `web_fetch` can be called."""
    today = datetime.now(UTC).date().isoformat()
    values = {"max_results": config.max_results, "content_budget": config.content_budget, "date": today, "fetch": fetch}
    return templates.render("tools/web_search.md", **values)


class DeferredTool(ToolLike):
    """A tool that imports and makes the real one when it is called, or asked about a call.

    `description` and the `defaults` of arguments are those of the settings in force.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ToolLike],
        description: str,
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        self._offer = OFFERS[name]
        self._spec = ToolSpec(name, description, schema_of(self._offer.arguments, defaults or {}))
        self._make = make

    @cached_property
    def tool(self) -> ToolLike:
        return self._make()

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._offer.aliases

    @property
    def access(self) -> Access:
        return self._offer.access

    @property
    def exclusive(self) -> bool:
        return self.tool.exclusive

    @property
    def lock(self) -> str:
        return self.tool.lock

    @property
    def idempotent(self) -> bool:
        return self.tool.idempotent

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        return self.tool.addresses(arguments, context)

    def asks(self, url: str) -> bool:
        return self.tool.asks(url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        return self.tool.needs_no_network(arguments, context)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        return await self.tool.call(arguments, context)


def named(url: str, sources: SourceBook) -> str:
    """The URL of a page: itself (`www.` is read over https), or for `#2` and `[2]` that of source 2 of this turn.

    Raises `FetchError` where no source has the number.
    """
    match = _NUMBER.fullmatch(url)
    if match is None:
        return with_scheme(url)
    try:
        return sources[int(match[1] or match[2])].url
    except KeyError:
        known = len(sources.all)
        have = f"results #1 to #{known} are known" if known else "nothing was found in this turn yet"
        raise FetchError("invalid_input", f"There is no result {url}: {have}. Search first or give a URL.") from None


def with_addresses(tool_name: str, arguments: Mapping[str, object], sources: SourceBook) -> dict[str, object]:
    """The arguments of a call with the numbers of pages replaced by their URLs, for people and for counting lookups.

    What stands for nothing stays as it is, and so do the arguments of every tool but `web_fetch`.
    """
    if tool_name != "web_fetch":
        return dict(arguments)

    def known(value: object) -> object:
        if isinstance(value, list):
            return [known(one) for one in value]
        try:
            return named(value.strip(), sources) if isinstance(value, str) else value
        except FetchError:
            return value

    return {key: value if key in ("find", "section", "prompt") else known(value) for key, value in arguments.items()}
