"""The one way out of a sandbox: a proxy on a Unix socket that connects to the hosts that were granted, and to no other.

It takes CONNECT and plain HTTP (RFC 9110, section 9.3.6; RFC 9112, section 3.2.2). A host is judged by the names that
were granted, then by the guard of all addresses that anybody names: one look-up, each answer judged, the connection to
the very address that was judged. Where the configuration or the environment names a proxy for the web, public hosts
are reached through that, after the same judgement; it looks their names up itself. What is inside a tunnel is not
looked at.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from nanobot.config.proxy import UnusableProxy, through
from nanobot.errors import FetchError
from nanobot.security.network import Exceptions, Target, judge_url
from nanobot.utils.connections import Stream, certificates, login, through_proxy, to_proxy
from nanobot.web.client import Guard

#: Bytes of the head of a request, and of what is read at once.
_HEAD_BYTES, _CHUNK = 65_536, 65_536
_HEAD_SECONDS, _CONNECT_SECONDS, _IDLE_SECONDS = 20.0, 10.0, 120.0
#: Connections of one command at a time, and hosts that are kept as refused.
_CONNECTIONS, _NOTED = 64, 50
#: One of the two sides went away, or said nothing for too long.
_ENDED = (OSError, TimeoutError, httpx.NetworkError, httpx.TimeoutException)
#: Ports that a host without one is granted for.
_WEB_PORTS = (80, 443)
#: What a client says to a proxy alone, and what is said anew.
_OWN_HEADERS = frozenset({"proxy-connection", "proxy-authorization", "connection", "keep-alive", "host"})


class Wanted(Struct, frozen=True):
    """What a client asks for: the target, and what its server is sent first; nothing where a tunnel is wanted.

    `path` is what of the first line of `head` a proxy wants as the whole address.
    """

    target: Target
    head: bytes = b""
    path: str = ""


class HostProxy:
    """Judges and carries the connections of one command. `refused` are the hosts that it asked for in vain.

    `hosts` are names, `.example.org` for every name below it, addresses and nets; with `:port` for another port than
    those of the web. One that is none of these raises `ValueError`; None stands for every host that the guard lets
    through. `find_proxy` gives the proxy for an address, None for none, and raises `UnusableProxy`.
    """

    def __init__(
        self, guard: Guard, hosts: Iterable[str] | None, find_proxy: Callable[[str], str | None] = lambda _: None
    ) -> None:
        self.refused: list[str] = []
        self._guard = guard
        self._find_proxy = find_proxy
        self._hosts = tuple(hosts or ())
        self._all = hosts is None
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
            await self._close(server)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        """The address on loopback, for programs that know no sockets of Unix, until the end of the block."""
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0, limit=_HEAD_BYTES)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            await self._close(server)

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

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
        proxy = None
        try:
            wanted = _read(head, self._guard.exceptions)
            self._judge(wanted.target)
            proxy = await self._proxy_for(wanted.target)
            stream, first = await self._connect(wanted, proxy)
        except FetchError as error:
            await _answer(writer, "403 Forbidden", str(error))
            return
        except (*_ENDED, httpx.ProxyError, httpx.ProtocolError) as error:
            reason = f": {error}" if proxy and str(error) else ""
            # English: a program in the sandbox reads it
            await _answer(writer, "502 Bad Gateway", f"The host did not answer{through(proxy)}{reason}.")
            return
        try:
            if first:
                await stream.write(first, _IDLE_SECONDS)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _carry(reader, writer, stream)
        finally:
            stream.close()

    async def _proxy_for(self, target: Target) -> str | None:
        """The proxy that a public host is reached through. Raises `FetchError` where it may not be reached at all."""
        try:
            proxy = self._find_proxy(target.url)
        except UnusableProxy as error:
            # English: a program in the sandbox reads it
            raise FetchError("network", f"{error}, or set tools.web.proxy.") from None
        return proxy if proxy and await self._guard.is_public(target.url, proxied=True) else None

    async def _connect(self, wanted: Wanted, proxy: str | None) -> tuple[Stream, bytes]:
        """The way to a host that was judged, and what is to be written to it first. Raises as httpx does."""
        host, port = wanted.target.host, wanted.target.port
        if proxy is None:
            return await self._guard.connect(host, port, _CONNECT_SECONDS), wanted.head
        async with asyncio.timeout(2 * _CONNECT_SECONDS):
            if proxy.startswith("socks") or not wanted.head:
                return await through_proxy(proxy, host, port, certificates, _CONNECT_SECONDS), wanted.head
            method, _, rest = wanted.head.partition(b" ")
            own = "".join(f"{name}: {value}\r\n" for name, value in login(urlsplit(proxy)).items()).encode("latin-1")
            line, _, headers = rest.removeprefix(wanted.path.encode()).partition(b"\r\n")
            whole = wanted.target.url.partition("#")[0].encode("latin-1")
            stream = await to_proxy(proxy, certificates, _CONNECT_SECONDS)
            return stream, b"%s %s%s\r\n%s%s" % (method, whole, line, own, headers)

    def _judge(self, target: Target) -> None:
        """Raises `FetchError` where the host was not granted."""
        if self._all:
            return
        named = target.host if target.port in _WEB_PORTS else f"{target.host}:{target.port}"
        for names, ports in self._granted:
            literal = target.address is not None and names.covers_ip(target.address)
            if target.port in ports and (literal or names.covers_name(target.host)):
                return
        if named not in self.refused and len(self.refused) < _NOTED:
            self.refused.append(named)
        reached = ", ".join(self._hosts) or "no host"
        # English: a program in the sandbox reads it
        raise FetchError("denied", f"{named} was not granted to this command, which may reach {reached}.")


def _grant(entry: str) -> tuple[Exceptions, tuple[int, ...]]:
    """What one entry grants: names or addresses, and the ports there."""
    name, _, port = entry.rpartition(":")
    if port.isdecimal() and name and ":" not in name:
        return Exceptions.parse((name,)), (int(port),)
    return Exceptions.parse((entry,)), _WEB_PORTS


# English: a program in the sandbox reads it
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
    return Wanted(target, "\r\n".join(lines).encode("latin-1"), path)


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"{text}\n".encode()
    # English: a program in the sandbox reads it
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
    async with asyncio.timeout(_HEAD_SECONDS):
        await writer.drain()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream) -> None:
    """Both ways, until the server has ended, or nothing came for a while."""

    async def upwards() -> None:
        while data := await reader.read(_CHUNK):
            await stream.write(data, _IDLE_SECONDS)

    async def downwards(sending: asyncio.Task[None]) -> None:
        while data := await stream.read(_IDLE_SECONDS):
            writer.write(data)
            async with asyncio.timeout(_IDLE_SECONDS):
                await writer.drain()
        sending.cancel()

    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(downwards(tasks.create_task(upwards())))
    except* _ENDED:
        pass
