"""An MCP server over streamable HTTP on loopback, as the protocol's revision of 2025-06-18 describes it.

It answers requests as JSON or as an event stream, with or without a session id, and keeps what it was asked. It fails
the ways servers fail: `login` refuses, `hang` names a method that stays silent, `status` answers all with it,
`forget_sessions` knows nobody any more.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.fakes.http_server import HttpServer, Request, Responder, Served

Answer = Callable[[dict[str, object]], dict[str, object]]


def text(words: str, *, failed: bool = False) -> dict[str, object]:
    """A tool's result that is one text."""
    return {"content": [{"type": "text", "text": words}], **({"isError": True} if failed else {})}


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool: its name, the schema of its arguments, what it answers."""

    name: str
    properties: Mapping[str, object] = field(default_factory=lambda: {"query": {"type": "string"}})
    required: Sequence[str] = ()
    answer: Answer = lambda arguments: text(f"answer to {json.dumps(arguments)}")
    description: str = "A tool."
    reads: bool = False
    once: bool = False

    def listed(self) -> dict[str, object]:
        schema = {"type": "object", "properties": dict(self.properties), "required": list(self.required)}
        once = {"idempotentHint": False} if self.once else {}
        hints = {"annotations": {"readOnlyHint": True, **once}} if self.reads else {}
        return {"name": self.name, "description": self.description, "inputSchema": schema, **hints}


@dataclass(slots=True)
class McpServer(Served):
    """`url` is the address to configure. `events`: answer as a stream; `sessions`: hand out an id and want it.

    `delay` is in seconds, between what a tool does and its answer; `refusal` is what it says of what it does not have.
    What `gates` names, a method or a tool, is answered once its event is set.
    """

    tools: Sequence[ServedTool] = (ServedTool("search"),)
    events: bool = False
    sessions: bool = False
    login: str = ""
    page_size: int = 100
    hang: str = ""
    status: int = 0
    delay: float = 0.0
    refusal: str = "no such method"
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    calls: list[dict[str, object]] = field(default_factory=list)
    _sessions: list[str] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)
    server: HttpServer = field(init=False)

    def __post_init__(self) -> None:
        self.server = HttpServer(self._serve)

    @property
    def url(self) -> str:
        return f"{self.server.url}/mcp"

    @property
    def requests(self) -> list[Request]:
        return self.server.requests

    def asked(self, method: str) -> list[dict[str, object]]:
        """The JSON-RPC messages of one method."""
        posted = (request.json() for request in self.requests if request.method == "POST")
        return [message for message in posted if message.get("method") == method]

    def forget_sessions(self) -> None:
        """Know no session any more, as after a restart."""
        self._known.clear()

    async def _serve(self, request: Request, responder: Responder) -> None:
        if self.login and request.headers.get("authorization") != self.login:
            await responder.json({"error": "unauthorized"}, 401)
        elif request.method == "DELETE":
            self._known.discard(request.headers.get("mcp-session-id", ""))
            await responder.send(200)
        elif request.method != "POST":
            await responder.send(405)
        else:
            await self._posted(request, responder)

    async def _posted(self, request: Request, responder: Responder) -> None:
        message = request.json()
        method = str(message.get("method", ""))
        if method == self.hang:
            await responder.hang()
        elif self.status:
            await responder.send(self.status, "no")
        elif self.sessions and method != "initialize" and request.headers.get("mcp-session-id") not in self._known:
            await responder.send(404, "no such session")
        elif "id" not in message:
            await responder.send(202)
        else:
            await self._answer(message, method, responder)

    async def _answer(self, message: dict[str, object], method: str, responder: Responder) -> None:
        reply: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
        said = message.get("params")
        params = said if isinstance(said, dict) else {}
        for name in {method, str(params.get("name"))} & self.gates.keys():
            await self.gates[name].wait()
        result = self._result(method, params)
        reply |= {"result": result} if result is not None else {"error": {"code": -32601, "message": self.refusal}}
        headers = []
        if method == "tools/call":
            await asyncio.sleep(self.delay)
        if method == "initialize" and self.sessions:
            self._sessions.append(f"session-{len(self._sessions) + 1}")
            self._known.add(self._sessions[-1])
            headers = [("Mcp-Session-Id", self._sessions[-1])]
        if not self.events:
            await responder.json(reply, headers=headers)
            return
        noise = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "busy"}}
        frames = "".join(f"event: message\ndata: {json.dumps(one)}\n\n" for one in (noise, reply))
        await responder.send(200, frames, headers=headers, content_type="text/event-stream")

    def _result(self, method: str, params: dict[str, object]) -> dict[str, object] | None:
        if method == "initialize":
            return {
                "protocolVersion": params.get("protocolVersion"),
                "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            }
        if method == "tools/list":
            start = int(str(params.get("cursor") or 0))
            end = start + self.page_size
            page: dict[str, object] = {"tools": [tool.listed() for tool in self.tools[start:end]]}
            return page if end >= len(self.tools) else {**page, "nextCursor": str(end)}
        if method == "tools/call":
            self.calls.append(params)
            tool = next((tool for tool in self.tools if tool.name == params["name"]), None)
            arguments = params.get("arguments")
            return tool.answer(arguments if isinstance(arguments, dict) else {}) if tool else None
        return None
