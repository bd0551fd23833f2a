"""Proxies on loopback: an HTTP proxy that answers for the whole web, and two that lead to one server."""

import asyncio
import contextlib
import struct
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from tests.fakes.http_server import Listening, Request
from tests.fakes.website import Answer, Script, Website


class WebProxy(Website):
    """An HTTP proxy behind which every host serves `pages` by whole URL; others answer 404. `asked` keeps the URLs.

    With its address as the configured proxy and a resolver that gives public addresses, a test reads public sites
    without leaving loopback.
    """

    @property
    def asked(self) -> list[str]:
        return [request.target for request in self.server.requests]

    def page_of(self, request: Request) -> Answer | Sequence[Answer] | Script | None:
        parts = urlsplit(request.target)
        bare = f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"
        return self.pages.get(request.target) or self.pages.get(bare)


class SocksProxy(Listening):
    """A SOCKS5 proxy (RFC 1928) without login. Whatever host is asked for, it connects to `target` on loopback.

    `asked` keeps host and port of every request, as the client named them.
    """

    def __init__(self, target: int) -> None:
        super().__init__()
        self.target = target
        self.asked: list[tuple[str, int]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x00")
        _, _, _, kind = await reader.readexactly(4)
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            host = ".".join(str(byte) for byte in await reader.readexactly(4 if kind == 1 else 16))
        (port,) = struct.unpack(">H", await reader.readexactly(2))
        self.asked.append((host, port))
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        writer.write(b"\x05\x00\x00\x01" + bytes(4) + b"\0\0")
        try:
            await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))
        finally:
            there_writer.close()


class TunnelProxy(Listening):
    """An HTTP proxy that speaks CONNECT and plain HTTP and leads to `target` on loopback, whatever host is asked for.

    It wants the header `login` where there is one, and keeps the first lines of what it carried in `asked`.
    """

    def __init__(self, target: int, login: str = "") -> None:
        super().__init__()
        self.target = target
        self.login = login
        self.asked: list[str] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.read(1)
        if not head.isalpha():  # no request of HTTP: a greeting of SOCKS, say, after which nothing more would come
            return
        head += await reader.readuntil(b"\r\n\r\n")
        if self.login and f"Proxy-Authorization: {self.login}\r\n".encode() not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        self.asked.append(head.partition(b"\r\n")[0].decode())
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        if head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            there_writer.write(head)
        try:
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(pump(reader, there_writer), pump(there_reader, writer))
        finally:
            there_writer.close()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        with contextlib.suppress(OSError):
            writer.write_eof()
