"""A small HTTP/1.1 server on loopback whose answers a test scripts down to the byte.

The other fakes stand on it. A handler gets a `Request` and a `Responder`; with the responder it sends a whole answer, a
stream of chunks, raw bytes, a pause, or a reset.
"""

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. Header names are in lower case; `target` is the raw request target.

    A header that came twice has both values.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    def json(self) -> dict[str, object]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


class Reader(asyncio.StreamReader):
    """What a client sends, and whether it has gone: `ended` comes when it closes the connection or loses it."""

    def __init__(self) -> None:
        super().__init__(LIMIT)
        self.ended = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.ended.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.ended.set()


@dataclass(slots=True)
class Responder:
    """Writes the answer to one request. `closed` is set when the client goes away while the handler works."""

    writer: asyncio.StreamWriter
    keep_alive: bool = True
    started: bool = False
    chunked: bool = False
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(
        self,
        status: int = 200,
        body: bytes | str = b"",
        *,
        headers: Iterable[tuple[str, str]] = (),
        content_type: str = "",
    ) -> None:
        """A whole answer with its length."""
        data = body.encode() if isinstance(body, str) else body
        lines = [("Content-Length", str(len(data))), *headers]
        if content_type:
            lines.append(("Content-Type", content_type))
        await self.raw(self._head(status, lines) + data)

    async def json(self, value: object, status: int = 200, *, headers: Iterable[tuple[str, str]] = ()) -> None:
        await self.send(status, json.dumps(value), headers=headers, content_type="application/json")

    async def start(
        self, status: int = 200, *, headers: Iterable[tuple[str, str]] = (), content_type: str = ""
    ) -> None:
        """Begin a chunked answer; go on with `chunk` and close it with `end`."""
        lines = [("Transfer-Encoding", "chunked"), *headers]
        if content_type:
            lines.append(("Content-Type", content_type))
        self.chunked = True
        await self.raw(self._head(status, lines))

    async def chunk(self, data: bytes | str) -> None:
        data = data.encode() if isinstance(data, str) else data
        if data:
            await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def raw(self, data: bytes) -> None:
        """Bytes on the wire as they are."""
        self.started = True
        self.writer.write(data)
        await self.writer.drain()

    async def abort(self) -> None:
        """Reset the connection."""
        self.keep_alive = False
        self.started = True
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def hang(self, seconds: float = 30.0) -> None:
        """Say nothing until the client goes away or the time is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.closed.wait(), seconds)
        self.keep_alive = False
        self.started = True

    def close(self) -> None:
        """End the connection cleanly after what was written."""
        self.keep_alive = False
        self.started = True

    @staticmethod
    def _head(status: int, lines: Iterable[tuple[str, str]]) -> bytes:
        head = "".join(f"{name}: {value}\r\n" for name, value in lines)
        return f"HTTP/1.1 {status} Scripted\r\n{head}\r\n".encode("latin-1")


Handler = Callable[[Request, Responder], Awaitable[None]]


class Listening:
    """A server on a port of its own, whose connections end with it. `talk` serves one of them.

    `connections` counts what was accepted; `errors` keeps what broke, which is raised at the end.
    """

    tls: ssl.SSLContext | None = None

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.port = 0
        self.connections = 0
        self.open_connections = 0
        self.errors: list[BaseException] = []
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._gone = asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        def connection() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(Reader(), self._serve)

        self._server = await asyncio.get_running_loop().create_server(connection, self.host, 0, ssl=self.tls)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if kind is None and self.errors:
            raise self.errors[0]

    async def all_closed(self, timeout: float = 120.0) -> None:
        """Wait until no client is connected."""
        async with asyncio.timeout(timeout):
            while self.open_connections:
                self._gone.clear()
                await self._gone.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open_connections += 1
        try:
            await self.talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        except Exception as error:  # noqa: BLE001 - kept for the test, raised when the server closes
            self.errors.append(error)
        finally:
            try:
                writer.close()
                with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                    await writer.wait_closed()
            finally:  # counted as closed only when its socket is: whoever waits may ask at once whether it can be read
                self._tasks.discard(task)
                self.open_connections -= 1
                self._gone.set()


class HttpServer(Listening):
    """Serves `handler` on `host`. `requests` keeps every request."""

    def __init__(self, handler: Handler, host: str = "127.0.0.1") -> None:
        super().__init__(host)
        self.handler = handler
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        """The base URL without a slash at the end."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, Reader)
        while await self._one(reader, writer):
            pass

    async def _one(self, reader: Reader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers: dict[str, str] = {}
        for name, _, value in (line.partition(":") for line in lines):
            known = headers.get(name.strip().lower())
            headers[name.strip().lower()] = value.strip() if known is None else f"{known}, {value.strip()}"
        request = Request(method, target, headers, await self._body(reader, headers))
        self.requests.append(request)
        responder = Responder(writer, closed=reader.ended)
        await self.handler(request, responder)
        if not responder.started:
            await responder.send(500, "the scripted handler sent nothing")
        return responder.keep_alive and headers.get("connection", "").lower() != "close"

    @staticmethod
    async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int((await reader.readline()).split(b";")[0], 16):
                parts.append(await reader.readexactly(size))
                await reader.readexactly(2)
            await reader.readline()
            return b"".join(parts)
        return await reader.readexactly(int(headers.get("content-length", "0")))


class Served:
    """A fake whose `server` runs while it is entered."""

    server: HttpServer

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def url(self) -> str:
        return self.server.url

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.server.__aexit__(kind, error, trace)
