"""The one way out of a sandbox: a proxy on a Unix socket that connects to the hosts that were granted, and to no other.

It takes CONNECT and plain HTTP (RFC 9110, section 9.3.6; RFC 9112, section 3.2.2). A host is judged by the names that
were granted, then by the guard of all addresses that anybody names: one look-up, each answer judged, the connection to
the very address that was judged. What is inside a tunnel is not looked at.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from urllib.parse import urlsplit

import httpcore
from msgspec import Struct

from nanobot.errors import FetchError
from nanobot.security.network import Exceptions, Target, judge_url
from nanobot.web.client import Guard

#: Bytes of the head of a request, and of what is read at once.
_HEAD_BYTES, _CHUNK = 65_536, 65_536
_HEAD_SECONDS, _CONNECT_SECONDS, _IDLE_SECONDS = 20.0, 10.0, 120.0
#: Connections of one command at a time, and hosts that are kept as refused.
_CONNECTIONS, _NOTED = 64, 50
#: One of the two sides went away, or said nothing for too long.
_ENDED = (OSError, TimeoutError, httpcore.NetworkError, httpcore.TimeoutException)
#: Ports that a host without one is granted for.
_WEB_PORTS = (80, 443)
#: What a client says to a proxy alone, and what is said anew.
_OWN_HEADERS = frozenset({"proxy-connection", "proxy-authorization", "connection", "keep-alive", "host"})


class Wanted(Struct, frozen=True):
    """What a client asks for: the target, and what its server is sent first; nothing where a tunnel is wanted."""

    target: Target
    head: bytes = b""


class HostProxy:
    """Judges and carries the connections of one command. `refused` are the hosts that it asked for in vain.

    `hosts` are names, `.example.org` for every name below it, addresses and nets; with `:port` for another port than
    those of the web. One that is none of these raises `ValueError`.
    """

    def __init__(self, guard: Guard, hosts: Iterable[str]) -> None:
        self.refused: list[str] = []
        self._guard = guard
        self._hosts = tuple(hosts)
        self._granted = tuple(map(_grant, self._hosts))
        self._work: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Path]:
        """The Unix socket, readable by this user alone, until the end of the block; then no connection is left."""
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="nanobot-proxy-"))
        server = await asyncio.start_unix_server(self._handle, folder / "proxy", limit=_HEAD_BYTES)
        try:
            yield folder / "proxy"
        finally:
            server.close()
            for task in self._work:
                task.cancel()
            await asyncio.gather(*self._work, return_exceptions=True)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._work) >= _CONNECTIONS:
            writer.close()
            return
        self._work.add(task)
        try:
            await self._serve(reader, writer)
        except (*_ENDED, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._work.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            wanted = _read(head, self._guard.exceptions)
            self._judge(wanted.target)
            stream = await self._guard.connect(wanted.target.host, wanted.target.port, _CONNECT_SECONDS)
        except FetchError as error:
            await _answer(writer, "403 Forbidden", str(error))
            return
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            await _answer(writer, "502 Bad Gateway", "The host did not answer.")
            return
        try:
            if wanted.head:
                await stream.write(wanted.head, _IDLE_SECONDS)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _carry(reader, writer, stream)
        finally:
            await stream.aclose()

    def _judge(self, target: Target) -> None:
        """Raises `FetchError` where the host was not granted."""
        named = target.host if target.port in _WEB_PORTS else f"{target.host}:{target.port}"
        for names, ports in self._granted:
            literal = target.address is not None and names.covers_ip(target.address)
            if target.port in ports and (literal or names.covers_name(target.host)):
                return
        if named not in self.refused and len(self.refused) < _NOTED:
            self.refused.append(named)
        reached = ", ".join(self._hosts) or "no host"
        raise FetchError("denied", f"{named} was not granted to this command, which may reach {reached}.")


def _grant(entry: str) -> tuple[Exceptions, tuple[int, ...]]:
    """What one entry grants: names or addresses, and the ports there."""
    name, _, port = entry.rpartition(":")
    if port.isdecimal() and name and ":" not in name:
        return Exceptions.parse((name,)), (int(port),)
    return Exceptions.parse((entry,)), _WEB_PORTS


def _read(head: bytes, exceptions: Exceptions) -> Wanted:
    """What the head of a request asks for. Raises `FetchError`."""
    line, *headers = head.decode("latin-1").split("\r\n")
    method, _, rest = line.partition(" ")
    address, _, version = rest.rpartition(" ")
    if not version.startswith("HTTP/1."):
        raise FetchError("invalid_input", "Only HTTP/1.0 and HTTP/1.1 are spoken here")
    if method == "CONNECT":
        return Wanted(judge_url(f"https://{address}/", exceptions))
    target = judge_url(address, exceptions)
    if target.scheme != "http":
        raise FetchError("invalid_input", "A tunnel (CONNECT) is needed for https")
    parts = urlsplit(target.url)
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    kept = [one for one in headers if one and one.partition(":")[0].strip().lower() not in _OWN_HEADERS]
    lines = [f"{method} {path} {version}", f"Host: {parts.netloc}", "Connection: close", *kept, "", ""]
    return Wanted(target, "\r\n".join(lines).encode("latin-1"))


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    async with asyncio.timeout(_HEAD_SECONDS):
        await writer.drain()


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: httpcore.AsyncNetworkStream
) -> None:
    """Both ways, until the server has ended, or nothing came for a while."""

    async def upwards() -> None:
        while data := await reader.read(_CHUNK):
            await stream.write(data, _IDLE_SECONDS)

    async def downwards(sending: asyncio.Task[None]) -> None:
        while data := await stream.read(_CHUNK, _IDLE_SECONDS):
            writer.write(data)
            async with asyncio.timeout(_IDLE_SECONDS):
                await writer.drain()
        sending.cancel()

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(downwards(tasks.create_task(upwards())))
    except* _ENDED:
        pass
