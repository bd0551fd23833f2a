"""One MCP server over streamable HTTP, through the official SDK: the only module that imports it.

A connection lives in a task of its own, because the SDK wants to be closed where it was opened. It is opened at the
first need and again after it broke. The server may only offer tools: its resources and prompts are not read, and what
it asks of us (to sample, for roots, for input) is refused.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import TypeVar

import httpx2
from jsonschema import Draft202012Validator, ValidationError, validators
from jsonschema.exceptions import UnknownType
from jsonschema.protocols import Validator
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    Implementation,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)
from msgspec import Struct, field

from nanobot import __version__
from nanobot.config.proxy import UnusableProxy
from nanobot.errors import NanobotError
from nanobot.results import ToolErrorKind
from nanobot.security.network import no_cookies
from nanobot.utils.text import shorten, squeeze
from nanobot.web.client import PRODUCT_USER_AGENT

#: Seconds to open a connection; shaking hands is part of the call, as some servers start with the first request.
CONNECT_SECONDS = 10.0
#: Seconds to close one.
CLOSE_SECONDS = 2.0
#: Most pages of tools that are read, and most tools of one server.
MAX_PAGES = 20
MAX_TOOLS = 200
#: Most bytes of one answer, most objects and lists in it, and most characters of it that go on. An answer is parsed on
#: the event loop, and what that takes grows with its parts more than with its bytes.
MAX_ANSWER, MAX_PARTS, MAX_TEXT = 4_000_000, 20_000, 400_000
#: What of a schema is judged here; each looks at one value once.
_JUDGED = (
    *("type", "required", "properties", "items", "enum", "const", "minItems", "maxItems"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"),
)
T = TypeVar("T")
#: The proxy on the way to a URL. Raises `UnusableProxy`.
FindProxy = Callable[[str], str | None]
_TERMINATED = "session terminated"
_BROKEN = (
    UnusableProxy,
    MCPError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    OSError,
    RuntimeError,
    ValueError,  # an answer that the SDK cannot read
    ExceptionGroup,
)


class RemoteTool(Struct, frozen=True):
    """A tool as its server lists it. `schema` is the JSON Schema of its arguments.

    `idempotent`: the server declares that it only reads, or that a second call changes nothing more; `read_only`: that
    it only reads.
    """

    name: str
    description: str = ""
    schema: Mapping[str, object] = field(default_factory=dict)
    idempotent: bool = False
    read_only: bool = False


class Said(Struct, frozen=True):
    """What a tool answered; `failed` where the tool itself says that it failed."""

    text: str
    failed: bool = False


class McpFailure(NanobotError):
    """A server could not be asked. `session_lost`: it has forgotten us, and the call was not run."""

    def __init__(self, kind: ToolErrorKind, message: str, *, session_lost: bool = False) -> None:
        super().__init__(message)
        self.kind: ToolErrorKind = kind
        self.session_lost = session_lost


class _Trouble(Struct):
    """What went wrong with one request: the HTTP status that was a refusal, and what its answer had too much of."""

    status: int = 0
    excess: str = ""


#: That of the request which is sent or answered; the SDK serves each in the context of whoever made it.
_TROUBLE: ContextVar[_Trouble] = ContextVar("trouble of an MCP request")


async def _note(response: httpx2.Response) -> None:
    """Bound an answer before it is read, and keep its status where it is a refusal."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("its answer is packed, though it was asked for plain ones")
    trouble = _TROUBLE.get()
    if isinstance(response.stream, httpx2.AsyncByteStream):
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _Bounded(response.stream, trouble, events=events)
    if response.status_code >= 400 and response.request.method == "POST":
        trouble.status = response.status_code


class _Live(Struct):
    """An open connection. `broken` is why it ended, `trouble` what went wrong in the handshake."""

    ready: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    session: ClientSession | None = None
    broken: BaseException | None = None
    trouble: _Trouble = field(default_factory=_Trouble)
    task: asyncio.Task[None] | None = None

    @property
    def usable(self) -> bool:
        return self.session is not None and self.task is not None and not self.task.done()


class SdkConnection:
    """A server that can be asked for its tools and told to run one. Every failure is a `McpFailure`.

    `server` is its name in sentences; `headers` may hold a login.
    """

    def __init__(self, server: str, url: str, headers: Mapping[str, str], proxy: FindProxy) -> None:
        self._server = server
        self._url = url
        self._headers = headers
        self._proxy = proxy
        self._live: _Live | None = None
        self._opening = asyncio.Lock()

    async def tools(self, *, timeout: float) -> tuple[RemoteTool, ...]:
        """All tools, page by page. `timeout` is in seconds."""
        found: list[RemoteTool] = []
        try:
            async with asyncio.timeout(timeout):
                live, session = await self._session()
                cursor: str | None = None
                for _ in range(MAX_PAGES):
                    page = await self._guarded(live, session.list_tools(params=_cursor(cursor)))
                    found += map(_remote_tool, page.tools)
                    cursor = page.next_cursor
                    if not cursor or len(found) >= MAX_TOOLS:
                        break
        except TimeoutError:
            raise McpFailure("timeout", f"{self._server} did not list its tools within {timeout:.3g} s") from None
        return tuple(found[:MAX_TOOLS])

    async def call(self, tool: str, arguments: Mapping[str, object], *, timeout: float) -> Said:
        """Run a tool. A session that the server has forgotten is opened anew, once: such a call was never run."""
        try:
            async with asyncio.timeout(timeout):
                for trial in (1, 2):
                    live, session = await self._session()
                    try:
                        result = await self._guarded(live, session.call_tool(tool, dict(arguments)))
                    except McpFailure as failure:
                        if not failure.session_lost or trial == 2:
                            raise
                        await self._drop(live)
                        continue
                    return _said(result)
        except TimeoutError:
            raise McpFailure("timeout", f"{self._server} did not answer within {timeout:.3g} s") from None
        raise McpFailure("service", f"{self._server} forgets its sessions at once")

    async def aclose(self) -> None:
        if self._live is not None:
            await self._drop(self._live)

    async def _session(self) -> tuple[_Live, ClientSession]:
        async with self._opening:
            if self._live is not None and not self._live.usable:
                await self._drop(self._live)
            if self._live is None:
                live = self._live = _Live()
                live.task = asyncio.create_task(self._run(live), name=f"mcp {self._server}")
                try:
                    await live.ready.wait()
                except asyncio.CancelledError:
                    await self._drop(live)
                    raise
            live = self._live
            if live.session is None:
                failure = self._failure(live, live.trouble, live.broken)
                await self._drop(live)
                raise failure
            return live, live.session

    async def _run(self, live: _Live) -> None:
        """Hold the connection until it is stopped or breaks."""
        _TROUBLE.set(live.trouble)
        try:
            async with (
                httpx2.AsyncClient(
                    headers={"User-Agent": PRODUCT_USER_AGENT, **self._headers, "Accept-Encoding": "identity"},
                    proxy=self._proxy(self._url),
                    cookies=no_cookies(),
                    timeout=httpx2.Timeout(CONNECT_SECONDS, read=300.0),
                    trust_env=False,
                    event_hooks={"response": [_note]},
                ) as client,
                streamable_http_client(self._url, http_client=client) as (read, write),
                _LenientSession(
                    read, write, client_info=Implementation(name="nanobot", version=__version__)
                ) as session,
            ):
                await session.initialize()
                live.session = session
                live.ready.set()
                await live.stop.wait()
        except _BROKEN as error:
            live.broken = error
        finally:
            live.ready.set()

    async def _drop(self, live: _Live) -> None:
        if self._live is live:
            self._live = None
        live.stop.set()
        task = live.task
        if task is None:
            return
        if live.session is None:
            task.cancel()  # it is still shaking hands
        await asyncio.wait({task}, timeout=CLOSE_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_SECONDS)

    async def _guarded(self, live: _Live, asking: Awaitable[T]) -> T:
        """What `asking` gives; its failures as one kind of `McpFailure`."""
        trouble = _Trouble()
        token = _TROUBLE.set(trouble)
        try:
            return await asking
        except _BROKEN as error:
            closed = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED and not trouble.excess
            if closed and live.task is not None:
                await asyncio.wait({live.task}, timeout=CLOSE_SECONDS)  # it knows the reason once it has ended
            raise self._failure(live, trouble, error) from None
        finally:
            _TROUBLE.reset(token)

    def _failure(self, live: _Live, trouble: _Trouble, error: BaseException | None) -> McpFailure:
        """What a failure means, from what went wrong with the request and the SDK's own error."""
        status, server = trouble.status, self._server
        words = shorten(squeeze(str(error or "")), 200)
        if trouble.excess:
            return McpFailure("service", f"{server}: {trouble.excess}; ask it for less")
        if status in (401, 403):
            return McpFailure("auth", f"{server} refused the login (status {status}); check its headers")
        if status == 404 or _TERMINATED in words.lower():
            lost = live.session is not None
            meaning = "forgot the session" if lost else "is not there (status 404); check its url"
            return McpFailure("service", f"{server} {meaning}", session_lost=lost)
        if status == 429:
            return McpFailure("rate_limited", f"{server} asks for a pause (status 429)")
        if status >= 400:
            return McpFailure("service", f"{server} answered with status {status}")
        if isinstance(error, MCPError) and live.usable:
            return McpFailure("service", f"{server} refused the call: {words}")
        cause = live.broken or error
        reason = shorten(squeeze(str(_first(cause)) or type(cause).__name__), 120) if cause else "the connection ended"
        return McpFailure("network", f"{server} is down: {reason}")


def problem(schema: Mapping[str, object], arguments: Mapping[str, object]) -> str:
    """What is wrong with `arguments` by a tool's schema, empty where nothing is. A broken schema forbids nothing.

    Only what is judged in one walk counts. Patterns, references and alternatives of a stranger could take for ever;
    they are left to the server.
    """
    try:
        found = sorted(_Plain(schema).iter_errors(dict(arguments)), key=str)
    except (UnknownType, RecursionError, TypeError, ValueError, AttributeError):
        return ""
    return "; ".join(map(_words, found[:5]))


def _additional(
    validator: Validator, wanted: object, given: object, schema: Mapping[str, object]
) -> Iterator[ValidationError]:
    """No other names than those listed, where no pattern names further ones."""
    if wanted is False and isinstance(given, dict) and "patternProperties" not in schema:
        listed = schema.get("properties", {})
        known = listed if isinstance(listed, dict) else {}
        for name in given:
            if name not in known:
                yield ValidationError(f"{name!r} is not known; known are {', '.join(known)}")
    del validator


_Plain = validators.create(
    meta_schema={},
    validators={
        **{name: Draft202012Validator.VALIDATORS[name] for name in _JUDGED},
        "additionalProperties": _additional,
    },
    type_checker=Draft202012Validator.TYPE_CHECKER,
)


class _LenientSession(ClientSession):
    """A session that takes results as they are: a server's schema of its own results proves nothing to us."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        del name, result


class _Bounded(httpx2.AsyncByteStream):
    """The body of one answer, up to `MAX_ANSWER` bytes and `MAX_PARTS`; of events, up to that in each."""

    def __init__(self, inner: httpx2.AsyncByteStream, trouble: _Trouble, *, events: bool) -> None:
        self._inner = inner
        self._trouble = trouble
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = parts = 0
        async for block in self._inner:
            ends = max(block.rfind(b"\n\n"), block.rfind(b"\r\n\r\n")) if self._events else -1
            before, after = (block, b"") if ends < 0 else (block[:ends], block[ends:])
            size, parts = size + len(before), parts + _parts(before)
            if size > MAX_ANSWER or parts > MAX_PARTS:
                most = f"{MAX_ANSWER // 1_000_000} MB" if size > MAX_ANSWER else f"{MAX_PARTS:,} objects and lists"
                self._trouble.excess = f"its answer has more than {most}"
                # With these the SDK fails the one request; any other error ends the connection, or asks once more.
                raise (httpx2.SSEError if self._events else httpx2.StreamError)(self._trouble.excess)
            if ends >= 0:
                size, parts = len(after), _parts(after)
            yield block

    async def aclose(self) -> None:
        await self._inner.aclose()


def _parts(block: bytes) -> int:
    """How many objects and lists begin here; those of JSON inside a text have their quotes escaped and do not count."""
    return sum(block.count(mark) - block.count(mark + b"\\") for mark in (b"{", b"["))


def _words(error: ValidationError) -> str:
    place = ".".join(str(part) for part in error.absolute_path)
    return shorten(f"{place}: {error.message}" if place else error.message, 200)


def _first(error: BaseException) -> BaseException:
    """The cause inside a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _remote_tool(tool: Tool) -> RemoteTool:
    hints = tool.annotations
    reads = hints is not None and bool(hints.read_only_hint)
    said = hints.idempotent_hint if hints is not None else None  # a plain no is believed before anything else
    again = reads if said is None else said
    return RemoteTool(tool.name, tool.description or "", tool.input_schema, again, reads)


def _cursor(cursor: str | None) -> PaginatedRequestParams | None:
    return PaginatedRequestParams(cursor=cursor) if cursor else None


def _said(result: CallToolResult) -> Said:
    """The result as text: what cannot be read is named."""
    parts = []
    for item in result.content:
        match item:
            case TextContent(text=text):
                parts.append(text)
            case ImageContent() | AudioContent():
                parts.append(f"[{item.type}, {item.mime_type}: not shown]")
            case ResourceLink():
                parts.append(f"{item.title or item.name}: {item.uri}")
            case EmbeddedResource():
                parts.append(item.resource.text if isinstance(item.resource, TextResourceContents) else "[a file]")
    if not any(part.strip() for part in parts) and result.structured_content:
        parts = [json.dumps(result.structured_content, ensure_ascii=False, indent=2)]
    text = "\n\n".join(parts)
    cut = "" if len(text) <= MAX_TEXT else f"\n[Cut: {len(text) - MAX_TEXT} more characters.]"
    return Said(text[:MAX_TEXT] + cut, bool(result.is_error))
