"""Every search engine's API on one loopback server, with their ways to fail; and an engine in the place of ddgs.

`SearchApis.base("brave")` is the `baseUrl` for an engine. Each checks the login and the request as its documentation
says and answers in its own shape. `fail("brave", "quota")` makes the next answers fail in that engine's own words.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from tests.fakes.http_server import HttpServer, Request, Responder, Served

Fault = Literal[
    "auth", "quota", "rate_limited", "bad_request", "blocked", "unavailable", "timeout", "network", "bad_payload"
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
KEY = "key-1234567890"


@dataclass(frozen=True, slots=True)
class Page:
    """One page that the engines know."""

    title: str
    url: str
    snippet: str = ""
    content: str = ""
    day: str = ""


PAGES = (
    Page("Python 3.14 <b>released</b>", "https://www.python.org/3.14", "The newest &amp; fastest", "Long text.", ""),
    Page("What is new", "https://docs.python.org/whatsnew", "Template strings", "Other text.", "2025-10-07"),
)


def _web(pages: Sequence[Page], title: str, snippet: str, day: str, content: str = "") -> list[dict[str, object]]:
    names = {title: "title", "url": "url", snippet: "snippet", day: "day", content: "content"}
    return [{key: value for key, name in names.items() if key and (value := getattr(page, name))} for page in pages]


def _brave(request: Request, pages: Sequence[Page]) -> object:
    if request.path.endswith("/llm/context"):
        items = [{"url": page.url, "title": page.title, "snippets": [page.content]} for page in pages]
        return {"grounding": {"generic": items}, "sources": {}}
    found: dict[str, object] = {"type": "search", "query": {"original": request.query["q"]}}
    if "query" not in request.query["result_filter"]:
        del found["query"]
    return {**found, "web": {"results": _web(pages, "title", "description", "page_age")}} if pages else found


def _tavily(request: Request, pages: Sequence[Page]) -> object:
    wants = bool(request.json().get("include_raw_content"))
    results = _web(pages, "title", "content", "published_date", "raw_content" if wants else "")
    return {"query": "q", "results": results, "request_id": "t-1", "usage": {"credits": 1}}


def _searxng(request: Request, pages: Sequence[Page]) -> object:
    return {"query": "q", "results": _web(pages, "title", "content", "publishedDate"), "unresponsive_engines": []}


def _jina(request: Request, pages: Sequence[Page]) -> object:
    wants = request.headers.get("x-respond-with") != "no-content"
    data = _web(pages, "title", "description", "date", "content" if wants else "")
    return {"code": 200, "status": 20000, "data": data, "meta": {"usage": {"tokens": 10000}}}


def _kagi(request: Request, pages: Sequence[Page]) -> object:
    if "/v0/" in request.path:
        items: list[dict[str, object]] = [{"t": 0, **item} for item in _web(pages, "title", "snippet", "published")]
        return {"meta": {"id": "k-0", "api_balance": 4.5}, "data": [*items, {"t": 1, "list": ["other"]}]}
    wants = "extract" in request.json()
    return {"meta": {"id": "k-1"}, "data": {"search": _web(pages, "title", "snippet", "time", "markdown" * wants)}}


def _mcp_tools(request: Request, name: str, *parameters: str) -> dict[str, object]:
    """The list of tools of an MCP server that has one."""
    known: dict[str, object] = {parameter: {} for parameter in parameters}
    tool = {"name": name, "inputSchema": {"type": "object", "properties": known}}
    return {"jsonrpc": "2.0", "id": request.json()["id"], "result": {"tools": [tool]}}


def _parallel(request: Request, pages: Sequence[Page]) -> object:
    """An MCP server alone: one tool, whose result is JSON as text."""
    call = request.json()
    if call["method"] == "tools/list":
        return _mcp_tools(request, "web_search", "objective", "search_queries")
    results: list[dict[str, object]] = [
        {"url": page.url, "title": page.title, "publish_date": page.day or None}
        | {"excerpts": [part for part in (page.snippet, page.content) if part]}
        for page in pages
    ]
    words = json.dumps({"search_id": "s-1", "results": results})
    return {"jsonrpc": "2.0", "id": call["id"], "result": {"content": [{"type": "text", "text": words}]}}


def _exa_tool(request: Request, pages: Sequence[Page]) -> object:
    """The keyless MCP server: one tool, whose result is text for models."""
    call = request.json()
    if call["method"] == "tools/list":
        return _mcp_tools(request, "web_search_exa", "query", "numResults")
    blocks = [
        f"Title: {page.title}\nURL: {page.url}\nPublished Date: {page.day}\nText: {page.snippet}\n{page.content}"
        for page in pages
    ]
    words = "\n\n---\n\n".join(blocks) or "No search results found. Please try a different query."
    return {"jsonrpc": "2.0", "id": call["id"], "result": {"content": [{"type": "text", "text": words}]}}


def _exa(request: Request, pages: Sequence[Page]) -> object:
    if "jsonrpc" in request.json():
        return _exa_tool(request, pages)
    contents = request.json()["contents"]
    wants = isinstance(contents, dict) and "text" in contents
    items = _web(pages, "title", "", "publishedDate", "text" if wants else "")
    marked = isinstance(contents, dict) and "highlights" in contents
    results = [item | {"highlights": [page.snippet] * marked} for item, page in zip(items, pages, strict=True)]
    return {"requestId": "e-1", "results": results, "costDollars": {"total": 0.005}}


def _perplexity(request: Request, pages: Sequence[Page]) -> object:
    return {"id": "p-1", "results": _web(pages, "title", "snippet", "date"), "server_time": None}


def _firecrawl(request: Request, pages: Sequence[Page]) -> object:
    wants = "scrapeOptions" in request.json()
    web = _web(pages, "title", "description", "date", "markdown" if wants else "")
    return {"success": True, "data": {"web": web}, "creditsUsed": 2}


def _serper(request: Request, pages: Sequence[Page]) -> object:
    organic = [{"title": page.title, "link": page.url, "snippet": page.snippet, "date": page.day} for page in pages]
    return {"searchParameters": {"q": "q"}, "organic": organic}


def _bocha(request: Request, pages: Sequence[Page]) -> object:
    value = _web(pages, "name", "snippet", "datePublished", "summary")
    for item, page in zip(value, pages, strict=True):
        item["name"] = page.title
    return {"code": 200, "msg": None, "data": {"webPages": {"value": value}}}


def _kimi(request: Request, pages: Sequence[Page]) -> object:
    wants = request.json()["enable_page_crawling"]
    items = _web(pages, "title", "snippet", "date", "content" if wants else "")
    return {"search_results": [{"site_name": "Python", **item} for item in items]}


@dataclass(frozen=True, slots=True)
class Api:
    """An engine: where it listens, how it wants the login, its answer, and its refusals where they are its own."""

    method: str
    path: str
    login: tuple[str, str]
    answer: Callable[[Request, Sequence[Page]], object]
    error: Callable[[str], object] = lambda words: {"error": words}
    quota: int = 402
    base: str = ""


BEARER = ("authorization", f"Bearer {KEY}")
APIS: Mapping[str, Api] = {
    "brave": Api("GET", "/res/v1/", ("x-subscription-token", KEY), _brave, lambda w: {"error": {"detail": w}}),
    "tavily": Api("POST", "/search", BEARER, _tavily, lambda w: {"detail": {"error": w}}, quota=432),
    "searxng": Api("GET", "/search", ("accept-language", "en,*;q=0.5"), _searxng),
    "jina": Api("GET", "/", BEARER, _jina, lambda w: {"code": 402, "status": 40203, "message": w}),
    "kagi": Api("POST", "/api/v1/search", BEARER, _kagi, lambda w: {"meta": {}, "error": [{"message": w}]}, quota=429),
    "exa": Api("POST", "/search", ("x-api-key", KEY), _exa),
    "perplexity": Api("POST", "/search", BEARER, _perplexity, lambda w: {"error": {"message": w}}),
    "firecrawl": Api("POST", "/v2/search", BEARER, _firecrawl, lambda w: {"success": False, "error": w}),
    "serper": Api("POST", "/search", ("x-api-key", KEY), _serper, lambda w: {"message": w}, quota=400),
    "bocha": Api("POST", "/v1/web-search", BEARER, _bocha, lambda w: {"code": "403", "message": w}, quota=403),
    "parallel": Api("POST", "", BEARER, _parallel, lambda w: {"error": {"message": w}}, base="/mcp"),
    "kimi": Api("POST", "", BEARER, _kimi, lambda w: {"error": {"message": w}}, base="/search"),
}
_STATUS: Mapping[Fault, int] = {
    "auth": 401,
    "rate_limited": 429,
    "bad_request": 422,
    "blocked": 451,
    "unavailable": 503,
}
_WORDS: Mapping[Fault, str] = {
    "auth": "invalid key",
    "quota": "usage limit exhausted, not enough credits",
    "rate_limited": "too many requests",
    "bad_request": "a parameter is wrong",
    "blocked": "this content is refused",
    "unavailable": "overloaded",
}


def _keyless(engine: str, request: Request) -> bool:
    """True for a call that the engine serves without a key."""
    bare = "authorization" not in request.headers
    return bare and (engine in ("firecrawl", "parallel") or request.headers.get("x-tavily-access-mode") == "keyless")


@dataclass(slots=True)
class SearchApis(Served):
    """All engines. `pages` is what they find; `headers` go with every good answer; `events` answers MCP as a stream.

    `old_kagi` is the status with which Kagi's v1 refuses a key, as it does keys of v0.
    """

    pages: Sequence[Page] = PAGES
    headers: tuple[tuple[str, str], ...] = ()
    failure_headers: tuple[tuple[str, str], ...] = ()
    events: bool = False
    old_kagi: int = 0
    raw: dict[str, tuple[int, object]] = field(default_factory=dict)
    _faults: dict[str, deque[Fault]] = field(default_factory=dict)
    _always: dict[str, Fault] = field(default_factory=dict)
    server: HttpServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = HttpServer(self._serve)

    def base(self, engine: str) -> str:
        """The address to configure for an engine."""
        return f"{self.server.url}/{engine}{APIS[engine].base}"

    def fail(self, engine: str, *faults: Fault) -> None:
        """The next answers of the engine fail, one after the other."""
        self._faults.setdefault(engine, deque()).extend(faults)

    def always(self, engine: str, fault: Fault) -> None:
        """Every answer of the engine fails."""
        self._always[engine] = fault

    def answer(self, engine: str, body: object, status: int = 200) -> None:
        """The engine answers with this body from now on."""
        self.raw[engine] = (status, body)

    def asked(self, engine: str) -> list[Request]:
        """The requests that came for an engine."""
        return [request for request in self.server.requests if request.path.split("/")[1] == engine]

    async def _serve(self, request: Request, responder: Responder) -> None:
        engine = request.path.split("/")[1]
        api = APIS[engine]
        queue = self._faults.get(engine)
        fault = queue.popleft() if queue else self._always.get(engine)
        if fault:
            await self._break(api, fault, responder)
        elif engine in self.raw:
            status, body = self.raw[engine]
            await responder.json(body, status, headers=self.headers)
        elif engine == "kagi" and self.old_kagi and "/v1/" in request.path:
            await responder.json({"meta": {}, "error": [{"message": "not here"}]}, self.old_kagi)
        elif engine == "kagi" and "/v0/" in request.path:
            allowed = request.headers.get("authorization") == f"Bot {KEY}"
            await responder.json(api.answer(request, self.pages) if allowed else {}, 200 if allowed else 401)
        elif engine == "exa" and b'"jsonrpc"' in request.body:
            await self._mcp(api.answer(request, self.pages), responder)
        elif request.headers.get(api.login[0]) != api.login[1] and not _keyless(engine, request):
            await responder.json(api.error("invalid key"), 401)
        elif request.method != api.method or api.path not in request.path:
            await responder.json(api.error(f"no such call: {request.method} {request.path}"), 404)
        elif engine == "parallel":
            await self._mcp(api.answer(request, self.pages), responder)
        else:
            await responder.json(api.answer(request, self.pages), headers=self.headers)

    async def _mcp(self, message: object, responder: Responder) -> None:
        if not self.events:
            await responder.json(message)
            return
        noise = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "searching"}}
        frames = f": hello\n\nevent: message\ndata:{json.dumps(noise)}\n\ndata: {json.dumps(message)}\n\n"
        await responder.send(200, frames, content_type="text/event-stream")

    async def _break(self, api: Api, fault: Fault, responder: Responder) -> None:
        if fault == "timeout":
            await responder.hang()
        elif fault == "network":
            await responder.abort()
        elif fault == "bad_payload":
            await responder.send(200, "<html><body>Bad gateway</body></html>", content_type="text/html")
        else:
            status = api.quota if fault == "quota" else _STATUS[fault]
            await responder.send(
                status,
                json.dumps(api.error(_WORDS[fault])),
                headers=self.failure_headers,
                content_type="application/json",
            )


@dataclass(slots=True)
class FakeDdgs:
    """Stands in for a search of the ddgs library in its process.

    `script` holds what the next searches do: a fault, `"hang"` (until `release` is set), or `"nothing"`; then `pages`
    are found. `most_at_once` is the highest number of searches seen at the same time, `calls` their arguments,
    `made` the proxy and the seconds of each.
    """

    pages: Sequence[Page] = PAGES
    script: deque[str] = field(default_factory=deque)
    always: str = ""
    pause: float = 0.0
    release: asyncio.Event = field(default_factory=asyncio.Event)
    calls: list[dict[str, object]] = field(default_factory=list)
    made: list[tuple[object, object]] = field(default_factory=list)
    most_at_once: int = 0
    running: int = 0

    async def __call__(self, order: Mapping[str, object]) -> object:
        call = order["call"]
        assert isinstance(call, dict)
        self.made.append((order["proxy"], order["timeout"]))
        self.calls.append(call)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        step = self.script.popleft() if self.script else self.always
        try:
            await asyncio.sleep(self.pause)
            if step == "hang":
                await self.release.wait()
            return self._answer(step)
        finally:
            self.running -= 1

    def _answer(self, step: str) -> object:
        failures = {
            "nothing": ("DDGSException", "No results found."),
            "timeout": ("TimeoutException", "operation timed out"),
            "rate_limited": ("RatelimitException", "too many requests"),
            "blocked": ("DDGSException", "ProtocolError: 202 anomaly"),
            "network": ("DDGSException", "ConnectError: dns error"),
            "wrapped": ("DDGSException", "DDGSException(\"ConnectError('send > client > no connections available')\")"),
        }
        if step in failures:
            return dict(zip(("error", "message"), failures[step], strict=True))
        if step == "bad_payload":
            return {"hits": [{"title": "no address"}]}
        return {"hits": [{"title": page.title, "href": page.url, "body": page.snippet} for page in self.pages]}
