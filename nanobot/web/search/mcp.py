"""Search tools of MCP servers: those that answer without a key, and those that a person lists in `fallback`.

A server is asked with the little of MCP that one call needs: JSON-RPC in one POST, answered as JSON or as an event
stream. What a search tool prints for models is read as hits.
"""

import re
import uuid
from collections.abc import Mapping
from typing import ClassVar

from msgspec.structs import replace

from nanobot.errors import SearchError, SearchErrorKind
from nanobot.jsonval import at, obj, parse, text
from nanobot.utils.translation import _
from nanobot.web.search.api import ApiBackend
from nanobot.web.search.base import McpCall, SearchBackend, SearchQuery, SearchReply, lacking
from nanobot.web.search.payload import address, bad_payload, number, plain, read_hits
from nanobot.web.service import Ask

_QUERIES = ("query", "q", "objective", "search_query", "text")
_LISTS = ("search_queries", "queries")
_COUNTS = ("numResults", "num_results", "max_results", "limit", "count")
_LIMITED = ("rate limit", "too many", "free mcp", "quota")
_LABEL = r"(title|url|link|published(?: date)?|date|author|text|highlights|summary|content|snippet):\s*"
_LINK = r"\[([^\]\n]{1,300})\]\((https?://[^\s)]+)\)"
_BARE = r"https?://[^\s<>\"')\]]+"
#: Characters of page text that serve as a snippet.
SNIPPET = 300


class ToolBackend(ApiBackend):
    """An engine with a search `tool` on an MCP server, asked over HTTP without a session; its schema is read at first
    use. One with a `keyless_url` has that server there, and at `host` an API that is asked where there is a key."""

    keyless_url: ClassVar[str] = ""
    tool: ClassVar[str]
    _parameters: frozenset[str] | None = None

    @property
    def _by_api(self) -> bool:
        return bool(self.keyless_url and self.access.api_key)

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return super().lacks(query) if self._by_api else lacking(query, "time", "country", "language")

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if self._by_api:
            return await super().search(query, timeout=timeout)
        if self._parameters is None:
            listed = await self._call("tools/list", {}, timeout)
            self._parameters = self._parameters_in(listed.get("tools"))
        asked = arguments_for(query, self._parameters)
        result = await self._call("tools/call", {"name": self.tool, "arguments": asked}, timeout)
        return reply_in(_said(result), query, self.name)

    async def _call(self, method: str, params: Mapping[str, object], timeout: float) -> dict[str, object]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
        login = self.login() if self.access.api_key else {}
        headers = {"Accept": "application/json, text/event-stream", **login}
        url = self.access.base_url or self.keyless_url or self.host
        data, _headers = await self.json(Ask(url, body, headers=headers), timeout=timeout)
        messages = map(obj, data if isinstance(data, list) else [data])  # notifications stand between
        message = next((one for one in messages if "method" not in one and one.keys() & {"result", "error"}), None)
        if message is None:
            raise bad_payload(_("The MCP server"), data)
        error = message.get("error")
        if error is not None:
            words = plain(at(error, "message")) or _("no reason given")
            raise SearchError(
                _kind(words, number(at(error, "code"))), _("The MCP server refused: {why}", why=words[:200])
            )
        return obj(message.get("result"))

    def _parameters_in(self, tools: object) -> frozenset[str]:
        for tool in tools if isinstance(tools, list) else []:
            if obj(tool).get("name") == self.tool:
                return frozenset(obj(at(tool, "inputSchema", "properties")))
        raise SearchError(
            "unavailable", _("{service} offers no {tool} without a key any more", service=self.label, tool=self.tool)
        )


class Parallel(ToolBackend):
    """Excerpts made for agents, from its public MCP server; a key raises what it gives."""

    label = "Parallel"
    host = "https://search.parallel.ai/mcp"
    tool = "web_search"


def arguments_for(query: SearchQuery, parameters: frozenset[str]) -> dict[str, object]:
    """The query under the names that a tool's schema has for it; filters travel in its words."""
    asked = next((name for name in _QUERIES if name in parameters), "query")
    made: dict[str, object] = {asked: query.with_sites}
    made |= {name: [query.with_sites] for name in _LISTS if name in parameters}
    made |= {name: query.limit for name in _COUNTS if name in parameters}
    # A new one each time: which searches belong together is nobody else's business.
    return made | ({"session_id": uuid.uuid4().hex} if "session_id" in parameters else {})


def _said(result: Mapping[str, object]) -> str:
    """The text of a tool's result. Raises `SearchError` where the tool says that it failed."""
    content = result.get("content")
    if not isinstance(content, list):
        raise bad_payload(_("The MCP server"), result)
    words = "\n".join(text(at(item, "text")) for item in content if at(item, "type") == "text")
    if result.get("isError"):
        said = plain(words)[:200] or _("no reason given")
        raise SearchError(_kind(said, None), _("The MCP server's search failed: {why}", why=said))
    return words


def _kind(words: str, code: float | None) -> SearchErrorKind:
    if code == 429 or any(mark in words.lower() for mark in _LIMITED):
        return "rate_limited"
    return "bad_request" if code == -32602 else "unavailable"


class McpBackend(SearchBackend):
    """A tool `mcp:<server>/<tool>` that the agent's own MCP client calls, to which the connection belongs."""

    def __init__(self, name: str, call: McpCall | None) -> None:
        self._name = name
        self._call = call
        self._server, _slash, self._tool = name.removeprefix("mcp:").partition("/")

    async def search(self, query: SearchQuery, *, timeout: float) -> SearchReply:
        if self._call is None:
            raise SearchError("not_configured", _("{name}: no MCP server is configured", name=self._name))
        words = await self._call(self._server, self._tool, lambda known: arguments_for(query, known), timeout)
        return reply_in(words, query, self._name)

    def lacks(self, query: SearchQuery) -> tuple[str, ...]:
        return lacking(query, "time", "country", "language")


def reply_in(words: str, query: SearchQuery, name: str) -> SearchReply:
    """The hits in JSON, in blocks that begin with `Title:`, or at least the links. Page text is kept where wanted."""
    words = words.strip()
    items = _list_in(words)
    if items is None:
        blocks = [_labelled(block) for block in re.split(r"(?m)^(?=Title:\s)", words)]
        items = [block for block in blocks if address(block.get("url") or block.get("link"))] or _links(words)
    hits, dropped = read_hits(items, name)
    hits = tuple(replace(hit, snippet=hit.snippet[:SNIPPET]) for hit in hits[: query.limit])
    shown = hits if query.include_content else tuple(replace(hit, content="") for hit in hits)
    return SearchReply(name, shown, dropped=dropped)


def _list_in(words: str) -> list[object] | None:
    """The list that is the JSON or its `results`; None where it is no such JSON."""
    data = parse(words) if words.startswith(("{", "[")) else None
    found = data if isinstance(data, list) else at(data, "results")
    return found if isinstance(found, list) else None


def _labelled(block: str) -> dict[str, str]:
    """The parts of a hit by their labels; lines after a label without one of their own belong to it."""
    parts: dict[str, str] = {}
    label = ""
    for line in block.strip().removesuffix("---").splitlines():
        found = re.match(_LABEL, line, re.IGNORECASE) if label not in {"text", "content"} else None
        if found:
            label = found[1].lower()
        parts[label] = f"{parts[label]}\n{line}" if label in parts else line[found.end() :] if found else line
    return parts


def _links(words: str) -> list[object]:
    named = {url: title for title, url in re.findall(_LINK, words)}
    bare = {url.rstrip(".,;:"): "" for url in re.findall(_BARE, words)}
    return [{"title": title, "url": url} for url, title in {**bare, **named}.items()]
