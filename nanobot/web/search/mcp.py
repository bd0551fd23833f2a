"""A search tool of an MCP server as a back end, where a person lists `mcp:<server>/<tool>` in `fallback`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from nanobot.errors import SearchError
from nanobot.web.search import listing
from nanobot.web.search.api import with_sites
from nanobot.web.search.base import Quota, SearchQuery, SearchReply, lacking

#: (server, tool, the arguments made from the names of the tool's parameters, timeout in seconds) → its answer.
#: Raises `SearchError` only.
McpCall = Callable[[str, str, Callable[[frozenset[str]], Mapping[str, object]], float], Awaitable[str]]
_QUERIES = ("query", "q", "objective", "search_query", "text")
_COUNTS = ("numResults", "num_results", "max_results", "limit", "count")


class McpBackend:
    """Asks one tool. Its parameters are those that the server tells; filters travel in the query."""

    def __init__(self, name: str, call: McpCall | None) -> None:
        self._name = name
        self._call = call
        self._server, _, self._tool = name.removeprefix("mcp:").partition("/")

    @property
    def name(self) -> str:
        return self._name

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if self._call is None:
            raise SearchError("not_configured", f"{self._name}: no MCP server is configured")

        def arguments(parameters: frozenset[str]) -> Mapping[str, object]:
            asked = next((name for name in _QUERIES if name in parameters), "query")
            made: dict[str, object] = {asked: with_sites(query)}
            return made | {name: query.limit for name in _COUNTS if name in parameters}

        words = await self._call(self._server, self._tool, arguments, timeout)
        hits = listing.read(words, self._name)
        if not query.include_content:
            hits = tuple(replace(hit, content="") for hit in hits)
        return SearchReply(self._name, hits)

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, "time", "country", "language")

    async def usage(self, *, timeout: float) -> tuple[Quota, ...]:
        """MCP has no word for an allowance."""
        del timeout
        return ()

    async def aclose(self) -> None:
        """The connection belongs to the MCP client."""
