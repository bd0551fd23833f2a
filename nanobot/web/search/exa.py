"""Exa: neural and keyword search with a key, or a few searches a day without one through its public MCP server."""

from dataclasses import replace

from nanobot.errors import SearchError
from nanobot.web.search import freshness, jsonrpc, listing
from nanobot.web.search.api import ApiBackend, compact, with_sites
from nanobot.web.search.base import SearchQuery, SearchReply, lacking
from nanobot.web.search.http import Ask
from nanobot.web.search.payload import Fields, at, bad_payload, number, read_hits, record, text

_FIELDS = Fields(
    snippet=("snippet",), content=("text",), published=("publishedDate",), score=("score",), icon=("favicon",)
)


#: The server that answers without a key, and the tool that is asked there.
KEYLESS_URL = "https://mcp.exa.ai/mcp?tools=web_search_exa"
KEYLESS_TOOL = "web_search_exa"
#: How the number of results may be called; the server's own schema decides.
_COUNTS = ("numResults", "num_results", "limit", "count")


class ExaBackend(ApiBackend):
    """POST `/search`; highlights serve as snippets, and the cost of each search is told.

    Without a key the tool `web_search_exa` is called, whose schema the server tells once.
    """

    label = "Exa"
    host = "https://api.exa.ai"
    _parameters: frozenset[str] | None = None

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, *(("language",) if self._access.api_key else ("time", "country", "language")))

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if not self._access.api_key:
            return await self._keyless(query, timeout)
        headers = {"x-api-key": self._access.api_key}
        answer = await self._wire.json(Ask(self._url("/search"), self._body(query), headers=headers), timeout=timeout)
        if not isinstance(answer.data, dict) or not isinstance(answer.data.get("results"), list):
            raise bad_payload(self.label, answer.data)
        items: list[object] = [{**record(item), "snippet": _highlight(item)} for item in answer.data["results"]]
        hits, dropped = read_hits(items, _FIELDS, engine=self.label)
        cost = number(at(answer.data, "costDollars", "total"))
        return SearchReply(
            self.name,
            hits,
            request_id=text(answer.data.get("requestId")),
            dropped=dropped,
            extras={} if cost is None else {"cost": {"USD": cost}},
        )

    async def _keyless(self, query: SearchQuery, timeout: float) -> SearchReply:
        url = self._access.base_url or KEYLESS_URL
        if self._parameters is None:
            listed = await jsonrpc.call(self._wire, url, "tools/list", {}, timeout=timeout)
            self._parameters = _parameters(listed.get("tools"))
        arguments: dict[str, object] = {"query": with_sites(query)}
        arguments |= {name: self._limit(query) for name in _COUNTS if name in self._parameters}
        params = {"name": KEYLESS_TOOL, "arguments": arguments}
        result = await jsonrpc.call(self._wire, url, "tools/call", params, timeout=timeout)
        hits = listing.read(jsonrpc.content_text(result), self.label)
        if not query.include_content:
            hits = tuple(replace(hit, content="") for hit in hits)
        return SearchReply(self.name, hits)

    def _body(self, query: SearchQuery) -> dict[str, object]:
        span = freshness.parse(query.freshness)
        # Each kind of contents is charged per page, so one of the two.
        contents: dict[str, object] = {"text": True} if query.include_content else {"highlights": True}
        return compact(
            {
                "query": query.query,
                "type": "auto",
                "numResults": self._limit(query),
                "includeDomains": list(query.include_domains),
                # Never both; what is left over is filtered here.
                "excludeDomains": [] if query.include_domains else list(query.exclude_domains),
                "startPublishedDate": f"{span.start}T00:00:00.000Z" if span else None,
                "endPublishedDate": f"{span.end}T23:59:59.999Z" if span and not span.word else None,
                "userLocation": query.country.upper(),
                "contents": contents,
            }
        )


def _highlight(item: object) -> str:
    marks = record(item).get("highlights")
    if isinstance(marks, list) and marks:
        return " … ".join(text(mark) for mark in marks)
    return text(record(item).get("summary"))


def _parameters(tools: object) -> frozenset[str]:
    """The parameters of the search tool in a list of tools. Raises `SearchError` where it is not offered."""
    for tool in tools if isinstance(tools, list) else []:
        if record(tool).get("name") == KEYLESS_TOOL:
            return frozenset(record(at(tool, "inputSchema", "properties")))
    raise SearchError("unavailable", f"Exa offers no {KEYLESS_TOOL} without a key any more")
