"""One MCP server through the official SDK, by whichever way it is reached.

A connection lives in a task of its own, because the SDK wants to be closed where it was opened. It is opened at the
first need and again after it broke. What the server asks of us (to sample, for roots, for input) is refused.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    Implementation,
    PaginatedRequestParams,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
    ToolListChangedNotification,
)
from msgspec import Struct, field

from nanobot import __version__
from nanobot.agent.tools.mcp.transport import TROUBLE, RequestTrouble
from nanobot.config.proxy import UnusableProxy
from nanobot.errors import NanobotError, innermost
from nanobot.results import ToolErrorKind
from nanobot.session.pins import ServerOffer
from nanobot.utils.text import shorten, squeeze

#: Seconds to close a connection: a program may leave by itself, then it is asked to, then it is killed.
CLOSE_SECONDS = 4.0
#: Calls in a row without any answer after which a connection is opened anew.
SILENT_CALLS = 2
#: Most pages of a list that are read, and most tools, resources or prompts of one server.
MAX_PAGES = 20
MAX_LISTED = 200
#: Most characters of an answer that go on, and most files in it.
MAX_TEXT, MAX_FILES = 400_000, 10
T = TypeVar("T")
#: Opens the way to a server: what comes in, and what goes out. It is told whom to tell why the way has ended.
OpenStreams = Callable[[Callable[[str], None]], AbstractAsyncContextManager[tuple[object, object]]]
_TERMINATED = "session terminated"
_BROKEN = (
    UnusableProxy,
    MCPError,
    httpx2.HTTPError,
    httpx2.InvalidURL,
    OSError,
    RuntimeError,
    ValueError,  # an answer that the SDK cannot read
    OAuthFlowError,
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


class RemoteFile(Struct, frozen=True):
    """A picture, a sound or another file in an answer; `mime` is what the server says of it."""

    data: bytes
    mime: str


class Said(Struct, frozen=True):
    """What a server answered; `failed` where a tool itself says that it failed."""

    text: str
    failed: bool = False
    files: tuple[RemoteFile, ...] = ()


class McpFailure(NanobotError):
    """A server could not be asked. `session_lost`: it has forgotten us, and the call was not run."""

    def __init__(self, kind: ToolErrorKind, message: str, *, session_lost: bool = False) -> None:
        super().__init__(message)
        self.kind: ToolErrorKind = kind
        self.session_lost = session_lost


class _Live(Struct):
    """An open connection. `broken` is why it ended, `lost` the same as told by a way of our own, `trouble` what went
    wrong in the handshake."""

    ready: asyncio.Event = field(default_factory=asyncio.Event)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    session: ClientSession | None = None
    broken: BaseException | None = None
    lost: str = ""
    trouble: RequestTrouble = field(default_factory=RequestTrouble)
    task: asyncio.Task[None] | None = None

    @property
    def usable(self) -> bool:
        return self.session is not None and self.task is not None and not self.task.done() and not self.stop.is_set()

    def lose(self, reason: str) -> None:
        self.lost = self.lost or reason
        self.stop.set()


class SdkConnection:
    """A server that can be asked for its tools and told to run one. Every failure is a `McpFailure`.

    `server` is its name in sentences; `changed` is called when the server says that its tools are others now.
    """

    def __init__(self, server: str, streams: OpenStreams, changed: Callable[[], None] = lambda: None) -> None:
        self._server = server
        self._streams = streams
        self._changed = changed
        self._live: _Live | None = None
        self._opening = asyncio.Lock()
        self._silent = self._asked = 0
        self.trouble = ""  # why the last request failed, where that was the server

    async def tools(self, *, timeout: float) -> tuple[RemoteTool, ...]:
        """All tools, page by page. `timeout` is in seconds."""

        async def ask(session: ClientSession) -> list[RemoteTool]:
            found: list[RemoteTool] = []
            cursor: str | None = None
            for _ in range(MAX_PAGES):
                page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                found += map(_remote_tool, page.tools)
                cursor = page.next_cursor
                if not cursor or len(found) >= MAX_LISTED:
                    break
            return found

        return tuple((await self._ask(ask, timeout))[:MAX_LISTED])

    async def call(self, tool: str, arguments: Mapping[str, object], *, timeout: float) -> Said:
        """Run a tool."""
        result = await self._ask(lambda session: session.call_tool(tool, dict(arguments)), timeout)
        return await asyncio.to_thread(_said, result)  # writing out what is large takes its time

    async def resources(self, *, timeout: float) -> tuple[ServerOffer, ...]:
        """What the server has to read, and how the rest of it is named."""

        async def ask(session: ClientSession) -> list[ServerOffer]:
            listed = (await session.list_resources()).resources
            named = (await session.list_resource_templates()).resource_templates
            found = [ServerOffer(one.uri, one.title or one.name, one.description or "") for one in listed]
            found += [ServerOffer(one.uri_template, one.title or one.name, one.description or "") for one in named]
            return found

        return tuple((await self._ask(ask, timeout))[:MAX_LISTED])

    async def read(self, uri: str, *, timeout: float) -> Said:
        """One resource."""
        found = await self._ask(lambda session: session.read_resource(uri), timeout)
        text, files = _contents(found.contents)
        return Said(text, files=files)

    async def prompts(self, *, timeout: float) -> tuple[ServerOffer, ...]:
        listed = await self._ask(lambda session: session.list_prompts(), timeout)
        offers = []
        for one in listed.prompts[:MAX_LISTED]:
            arguments = tuple(f"{arg.name}{'' if arg.required else '?'}" for arg in one.arguments or ())
            offers.append(ServerOffer(one.name, one.title or "", one.description or "", arguments))
        return tuple(offers)

    async def prompt(self, name: str, arguments: Mapping[str, str], *, timeout: float) -> str:
        """The text of a prompt, whoever is to say which part of it."""
        found = await self._ask(lambda session: session.get_prompt(name, dict(arguments)), timeout)
        return _contents([message.content for message in found.messages])[0]

    async def aclose(self) -> None:
        if self._live is not None:
            await self._drop(self._live)

    async def _ask(self, asking: Callable[[ClientSession], Awaitable[T]], timeout: float) -> T:
        """What the server answers within `timeout` seconds.

        A session that the server has forgotten is opened anew, once: such a request was never run.
        """
        self.trouble = ""
        self._asked += 1
        try:
            async with asyncio.timeout(timeout):
                try:
                    answer = await self._once(asking)
                except McpFailure as failure:
                    if not failure.session_lost:
                        raise
                    answer = await self._once(asking)
        except TimeoutError:
            self._silent += 1
            if self._live is not None and self._silent >= SILENT_CALLS and self._asked == 1:  # nobody else waits for it
                self._silent = 0
                self._live.lose("it has stopped answering")
            self.trouble = f"{self._server} did not answer within {timeout:.3g} s"
            raise McpFailure("timeout", self.trouble) from None
        except McpFailure as failure:
            self.trouble = str(failure) if failure.kind in ("network", "auth") else ""
            raise
        finally:
            self._asked -= 1
        self._silent = 0
        return answer

    async def _once(self, asking: Callable[[ClientSession], Awaitable[T]]) -> T:
        """What the server answers; its failures as one kind of `McpFailure`."""
        live, session = await self._session()
        trouble = RequestTrouble()
        token = TROUBLE.set(trouble)
        try:
            return await asking(session)
        except _BROKEN as error:
            if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
                live.lose(shorten(squeeze(str(error)), 120))
            failure = self._failure(live, trouble, error)
        finally:
            TROUBLE.reset(token)
        if failure.session_lost:
            await self._drop(live)
        raise failure

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
        TROUBLE.set(live.trouble)
        try:
            async with (
                self._streams(live.lose) as (read, write),
                _LenientSession(
                    read,  # type: ignore[arg-type]  # the SDK keeps the names of its kinds of streams to itself
                    write,  # type: ignore[arg-type]
                    client_info=Implementation(name="nanobot", version=__version__),
                    message_handler=self._hear,
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

    async def _hear(self, message: object) -> None:
        """What a server tells unasked; one thing of it is of use."""
        if isinstance(message, ToolListChangedNotification):
            self._changed()

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

    def _failure(self, live: _Live, trouble: RequestTrouble, error: BaseException | None) -> McpFailure:
        """What a failure means, from what went wrong with the request and the SDK's own error."""
        status, server = trouble.status, self._server
        words = shorten(squeeze(str(error or "")), 200)
        ended = live.broken or error
        cause = innermost(ended) if ended is not None else None
        if trouble.login or isinstance(cause, OAuthFlowError):
            why = shorten(squeeze(trouble.login or str(cause)), 160)
            return McpFailure("auth", f"{server} could not be logged in to: {why}; `/mcp login` or `nanobot mcp login`")
        if status in (401, 403):
            advice = "check its headers, or log in with `nanobot mcp login` or `/mcp login`"
            return McpFailure("auth", f"{server} refused the login (status {status}); {advice}")
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
        reason = shorten(squeeze(str(cause) or type(cause).__name__), 120) if cause else "the connection ended"
        return McpFailure("network", f"{server} is down: {live.lost or reason}")


class _LenientSession(ClientSession):
    """A session that takes results as they are: a server's schema of its own results proves nothing to us."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        del name, result


def _remote_tool(tool: Tool) -> RemoteTool:
    hints = tool.annotations
    reads = hints is not None and bool(hints.read_only_hint)
    said = hints.idempotent_hint if hints is not None else None  # a plain no is believed before anything else
    again = reads if said is None else said
    return RemoteTool(tool.name, tool.description or "", tool.input_schema, again, reads)


def _said(result: CallToolResult) -> Said:
    """The result as text, with its pictures and other files."""
    text, files = _contents(result.content)
    if not text.strip() and not files and result.structured_content:
        text = _cut(json.dumps(result.structured_content, ensure_ascii=False, indent=2))
    return Said(text, bool(result.is_error), files)


def _contents(items: Sequence[object]) -> tuple[str, tuple[RemoteFile, ...]]:
    """What pieces of content say, and their files; what cannot be read is named."""
    parts: list[str] = []
    files: list[RemoteFile] = []

    def keep(data: str, mime: str, what: str) -> None:
        try:
            found = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            found = b""
        if found and len(files) < MAX_FILES:
            files.append(RemoteFile(found, mime))
        else:
            parts.append(f"[{what}, {mime}: {'left out' if found else 'not readable'}]")

    for item in items:
        match item:
            case TextContent(text=text) | TextResourceContents(text=text):
                parts.append(text)
            case ImageContent() | AudioContent():
                keep(item.data, item.mime_type, item.type)
            case ResourceLink():
                parts.append(f"{item.title or item.name}: {item.uri}")
            case EmbeddedResource(resource=TextResourceContents(text=text)):
                parts.append(text)
            case EmbeddedResource(resource=BlobResourceContents() as blob) | (BlobResourceContents() as blob):
                keep(blob.blob, blob.mime_type or "application/octet-stream", "file")
    return _cut("\n\n".join(parts)), tuple(files)


def _cut(text: str) -> str:
    cut = "" if len(text) <= MAX_TEXT else f"\n[Cut: {len(text) - MAX_TEXT} more characters.]"
    return text[:MAX_TEXT] + cut
