"""A web site on loopback whose pages a test writes down, with the names that lead to it."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import httpx
import pytest

from nanobot.security.network import HOME
from nanobot.utils.connections import Stream
from nanobot.web.client import SystemNetwork
from tests.fakes.http_server import HttpServer, Request, Responder, Served


@dataclass(frozen=True, slots=True)
class Answer:
    """What one path answers. `delay` is in seconds before the first byte."""

    body: bytes | str = b""
    type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    delay: float = 0.0


Script = Callable[[Request, Responder], Awaitable[None]]


def redirect(location: str, status: int = 302) -> Answer:
    return Answer(status=status, headers=(("Location", location),))


@dataclass(slots=True)
class Website(Served):
    """Serves `pages` by path: an `Answer`, a list of answers used one after the other, or a script on the wire.

    Unknown paths answer 404.
    """

    pages: Mapping[str, Answer | Sequence[Answer] | Script]
    host: str = "127.0.0.1"
    server: HttpServer = field(init=False)
    _served: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = HttpServer(self._answer, self.host)

    @property
    def paths(self) -> list[str]:
        """The path of every request so far."""
        return [request.path for request in self.server.requests]

    def page_of(self, request: Request) -> Answer | Sequence[Answer] | Script | None:
        return self.pages.get(request.path)

    async def _answer(self, request: Request, responder: Responder) -> None:
        page = self.page_of(request) or Answer("<p>There is no such page.</p>", status=404)
        if isinstance(page, Answer):
            answer = page
        elif isinstance(page, Sequence):
            number = self._served.get(request.path, 0)
            self._served[request.path] = number + 1
            answer = page[min(number, len(page) - 1)]
        else:
            await page(request, responder)
            return
        if answer.delay:
            await asyncio.sleep(answer.delay)
        await responder.send(answer.status, answer.body, headers=answer.headers, content_type=answer.type)


def private_address() -> str:
    """An address of this machine in a home or office network; what is sent to it stays in the machine.

    Skips the test where there is none.
    """
    for family, far in ((socket.AF_INET, "10.255.255.255"), (socket.AF_INET6, "fdff::1")):
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as unsent:
            unsent.connect((far, 1))  # chooses the address to send from and sends nothing
            own = str(unsent.getsockname()[0])
            if HOME.covers_ip(ipaddress.ip_address(own)):
                return own
    pytest.skip("this machine has no address in a home or office network")


class Names(SystemNetwork):
    """A small network: `answers` by name, a list of lists to give each look-up its own. `asked` keeps the look-ups.

    Every address but those of `dead` is this machine; `reached` keeps the connections.
    """

    def __init__(
        self, answers: Mapping[str, Sequence[str] | Sequence[Sequence[str]]], *, dead: Sequence[str] = ()
    ) -> None:
        self._answers = answers
        self._dead = dead
        self.asked: list[str] = []
        self.reached: list[str] = []

    async def connect(self, address: str, port: int, timeout: float | None) -> Stream:
        if address in self._dead:
            raise httpx.ConnectError("nobody answers")
        self.reached.append(address)
        return await super().connect("127.0.0.1", port, timeout)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        number = self.asked.count(host)
        self.asked.append(host)
        found = self._answers.get(host)
        if not found:
            raise OSError(-2, "Name or service not known")
        answers = [answer for answer in found if isinstance(answer, str)]
        if answers:
            return answers
        turns = [answer for answer in found if not isinstance(answer, str)]
        return list(turns[min(number, len(turns) - 1)])
