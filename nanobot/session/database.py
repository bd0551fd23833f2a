"""The one SQLite file of an installation: its layout, its migrations, one thread that writes and one that reads."""

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from nanobot.errors import StoreError

#: `nano` in ASCII: marks the file as ours (PRAGMA application_id).
APPLICATION_ID = 0x6E616E6F
BUSY_SECONDS = 5.0
#: Bytes: a disk with less room than this counts as full.
_ROOM = 1_000_000
#: Works that share one transaction at most.
MOST_TOGETHER = 64

_SESSIONS = """
CREATE TABLE session (
  id TEXT PRIMARY KEY, key TEXT NOT NULL, title TEXT NOT NULL, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
);
CREATE INDEX session_by_key ON session (key, updated_at);
CREATE TABLE current (key TEXT PRIMARY KEY, session_id TEXT NOT NULL REFERENCES session (id));
CREATE TABLE record (
  session_id TEXT NOT NULL REFERENCES session (id), seq INTEGER NOT NULL,
  kind TEXT NOT NULL, role TEXT NOT NULL, size INTEGER NOT NULL, turn TEXT NOT NULL, at TEXT NOT NULL,
  message TEXT NOT NULL
);
CREATE UNIQUE INDEX record_by_place ON record (session_id, seq);
CREATE INDEX record_by_size ON record (session_id, seq, role, size);
CREATE INDEX record_by_kind ON record (session_id, kind);
CREATE TRIGGER record_is_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_is_fixed BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
"""
_LEDGER = """
CREATE TABLE inbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, id TEXT NOT NULL, payload TEXT NOT NULL,
  key TEXT NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL,
  UNIQUE (channel, id)
);
CREATE INDEX inbox_by_state ON inbox (channel, state, seq);
CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, turn TEXT NOT NULL, part INTEGER NOT NULL, channel TEXT NOT NULL,
  chat TEXT NOT NULL, thread TEXT NOT NULL, payload TEXT NOT NULL, not_before TEXT NOT NULL, state TEXT NOT NULL,
  attempts INTEGER NOT NULL, message_id TEXT NOT NULL, reason TEXT NOT NULL, at TEXT NOT NULL,
  UNIQUE (turn, part)
);
CREATE INDEX outbox_by_state ON outbox (channel, state, seq);
CREATE TABLE note (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""
_LEASES = """
ALTER TABLE inbox ADD COLUMN batch INTEGER NOT NULL DEFAULT 0;
CREATE TABLE fired (job TEXT NOT NULL, due TEXT NOT NULL, PRIMARY KEY (job, due)) WITHOUT ROWID;
CREATE TABLE lease (name TEXT PRIMARY KEY, holder TEXT NOT NULL, until TEXT NOT NULL) WITHOUT ROWID;
"""
#: The id in the JSON of a user's message; a damaged one has none.
REQUEST = "CASE WHEN json_valid(message) THEN json_extract(message, '$.id') END"
_REQUESTS = f"""
CREATE INDEX record_by_turn ON record (turn);
CREATE INDEX record_by_request ON record ({REQUEST}) WHERE role = 'user';
"""
#: `answers` is what each answer of a model cost, and when it was kept. A `quarter` is a quarter of an hour, such as
#: 2026-11-21T12:45: a midnight is the begin of one in every zone.
_TOTALS = """
CREATE VIEW answers AS
SELECT session_id, at, coalesce(json_extract(message, '$.usage.input'), 0) AS input,
  coalesce(json_extract(message, '$.usage.output'), 0) AS output,
  coalesce(json_extract(message, '$.usage.cached'), 0) AS cached,
  coalesce(json_extract(message, '$.usage.cache_write'), 0) AS cache_write,
  coalesce(json_extract(message, '$.usage.reasoning'), 0) AS reasoning,
  coalesce(json_extract(message, '$.usage.cost'), 0) AS cost,
  coalesce(json_extract(message, '$.usage.requests'), 0) AS requests
FROM record WHERE role = 'assistant' AND json_valid(message);
ALTER TABLE session ADD COLUMN messages INTEGER NOT NULL DEFAULT 0;
UPDATE session SET messages = (SELECT count(*) FROM record WHERE session_id = session.id AND kind = 'message');
DROP INDEX record_by_kind;
CREATE INDEX record_that_hides ON record (session_id, seq, kind) WHERE kind IN ('compaction', 'reset');
CREATE INDEX record_by_time ON record (at) WHERE role = 'assistant';
CREATE TABLE spending (
  session_id TEXT NOT NULL REFERENCES session (id), quarter TEXT NOT NULL, input INTEGER NOT NULL,
  output INTEGER NOT NULL, cached INTEGER NOT NULL, cache_write INTEGER NOT NULL, reasoning INTEGER NOT NULL,
  cost REAL NOT NULL, requests INTEGER NOT NULL, PRIMARY KEY (session_id, quarter)
) WITHOUT ROWID;
CREATE INDEX spending_by_time ON spending (quarter);
INSERT INTO spending
  SELECT session_id, substr(at, 1, 14) || printf('%02d', substr(at, 15, 2) / 15 * 15) AS quarter, sum(input),
  sum(output), sum(cached), sum(cache_write), sum(reasoning), sum(cost), sum(requests)
  FROM answers GROUP BY session_id, quarter;
CREATE TABLE cut (
  session_id TEXT NOT NULL REFERENCES session (id), size INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (session_id, size)
) WITHOUT ROWID;
"""
#: Step n leads from layout n to n + 1; each runs inside one transaction. A change of the layout adds a step.
STEPS: tuple[str, ...] = (_SESSIONS, _LEDGER, _LEASES, _REQUESTS, _TOTALS)
#: PRAGMA user_version of a file after all steps.
VERSION = len(STEPS)
T = TypeVar("T")


class _Job(Struct, frozen=True):
    """`done` is a future of the loop that waits; nobody may wait any more when the work is over."""

    work: Callable[[sqlite3.Connection], None]
    durable: bool
    done: "asyncio.Future[None]"

    def end(self, error: BaseException | None = None) -> None:
        """Wake who waits, in as few steps of its loop as there can be: it may be about to send a message."""
        with suppress(RuntimeError):  # that loop is closed
            self.done.get_loop().call_soon_threadsafe(self._end, error)

    def _end(self, error: BaseException | None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)


class Database:
    """The file `path`, made on first use; its folder must exist or be creatable.

    Work runs on one thread, in the order of the calls, and to its end even when its caller is cancelled. A file that is
    damaged, empty, foreign or of a newer nanobot raises `StoreError` and is left as it is; so does every work after the
    file was deleted or replaced, because what is written then is kept nowhere.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="database")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="database-reader")
        self._connection: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._opened: os.stat_result | None = None
        self._synced = False
        self._jobs: deque[_Job] = deque()

    async def run(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        """Run `work` in one transaction. `durable` waits until the change is on the disk, also if power fails now.

        Works that wait at the same time share a transaction and its way to the disk; when one of them fails, each runs
        again in a transaction of its own. So `work` touches nothing but the database.
        """
        made: list[T] = []

        def keep(db: sqlite3.Connection) -> None:
            made[:] = [work(db)]

        job = _Job(keep, durable, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._thread.submit(self._drain)
        await job.done  # a cancelled caller takes back no write that is queued
        return made[0]

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a long `work` that only reads beside the others, on what was committed before this call."""
        if self._connection is None:
            await self.run(lambda _: None)
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._read, work)

    async def aclose(self) -> None:
        loop = asyncio.get_running_loop()
        closing = [loop.run_in_executor(thread, self._close, thread) for thread in (self._reading, self._thread)]
        await asyncio.shield(asyncio.gather(*closing))

    def _drain(self) -> None:
        """Do what waits. Every job brings a call of this; most of them find that an earlier one has done the work."""
        jobs = [self._jobs.popleft() for _ in range(min(len(self._jobs), MOST_TOGETHER))]
        if len(jobs) > 1 and self._together(jobs):
            return
        for job in jobs:
            try:
                self._do((job,))
            except BaseException as error:  # noqa: BLE001 - handed to who waits for it
                job.end(error)
            else:
                job.end()

    def _together(self, jobs: Sequence["_Job"]) -> bool:
        try:
            self._do(jobs)
        except Exception:  # noqa: BLE001 - rolled back as a whole; each job meets its own error when it runs alone
            return False
        for job in jobs:
            job.end()
        return True

    def _do(self, jobs: Sequence["_Job"]) -> None:
        durable = any(job.durable for job in jobs)
        with self._explained():
            if self._connection is None:
                self._connection = _open(self.path)
                self._opened = self.path.stat()
                self._synced = False
            if durable != self._synced:
                # NORMAL survives the death of the process; only FULL survives that of the machine.
                self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._synced = durable
            with self._connection as db:  # commits, or rolls back
                for job in jobs:
                    job.work(db)
            self._still_there()

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._explained():
            self._still_there()
            if self._reader is None:
                place = f"{self.path.absolute().as_uri()}?mode=ro"
                self._reader = sqlite3.connect(place, timeout=BUSY_SECONDS, uri=True, check_same_thread=False)
            return work(self._reader)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say of a failure which file it is and what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"The sessions in {self.path} cannot be used: {error}. Nothing was overwritten. {self._advice()}"
            ) from error

    def _advice(self) -> str:
        """What to do about a file that cannot be used; a full disk is no reason to give up what is in it."""
        with suppress(OSError):
            if shutil.disk_usage(self.path.parent).free < _ROOM:
                return "The disk is full: free some room, then try again."
        return "Check the disk, or move the file away to start with an empty one."

    def _still_there(self) -> None:
        """After every work, because a commit into a file that has no name any more is none."""
        try:
            if self._opened is not None and os.path.samestat(self._opened, self.path.stat()):
                return
            gone = FileNotFoundError(f"{self.path} was replaced by another file")
        except FileNotFoundError:
            gone = FileNotFoundError(f"{self.path} was deleted")
        raise StoreError(
            f"{gone} while nanobot was running. Nothing is accepted until that very file is back in its place. Or "
            "start nanobot again: then it uses what is there, and without a file it begins anew, with no owner and no "
            "conversations."
        ) from gone

    def _close(self, thread: ThreadPoolExecutor) -> None:
        """Close the connection of this thread, and the thread."""
        if thread is self._reading and self._reader is not None:
            self._reader.close()
            self._reader = None
        if thread is self._thread and self._connection is not None:
            self._connection.close()
            self._connection = None
        thread.shutdown(wait=False)


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = path.with_name(f"{path.name}-wal")
    if not path.exists():
        if log.exists() and log.stat().st_size:
            raise StoreError(
                f"{path} is missing, but {log.name} is there, which holds the last changes to it. Nothing was changed. "
                f"Put the file back in its place, or move {log.name} away to begin anew, with no owner and no "
                "conversations."
            )
        _make(path)
    elif not path.stat().st_size:
        raise StoreError(
            f"{path} is empty (0 bytes): it was cut off, as by a full disk or a copy that broke. Nothing was changed. "
            "Put a backup in its place, or delete it to begin anew, with no owner and no conversations."
        )
    return _connect(path)


def _make(path: Path) -> None:
    """A new file stands at its place when it is whole; one that another process has put there meanwhile stays."""
    file, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)  # readable by its owner alone
    os.close(file)
    made = Path(name)
    try:
        with closing(sqlite3.connect(made)) as db:
            _migrate(db)  # without a log beside it, so that the file itself is whole and synced
        try:
            os.link(made, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            made.rename(path)
    finally:
        made.unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    # The files beside it get the mode of this one; private chats are read by their owner alone.
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        _prepare(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Check what the file is before anything is written; make or migrate the layout step by step."""
    version = _number(db, "PRAGMA user_version")
    mark = _number(db, "PRAGMA application_id")
    empty = _number(db, "SELECT count(*) FROM sqlite_master") == 0
    if not empty and mark != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program. Nothing was changed. Name another file.")
    if version > VERSION:
        raise StoreError(
            f"{path} was written by a newer nanobot (layout {version}, this one knows {VERSION}). "
            "Nothing was changed. Update nanobot, or name another file."
        )
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA foreign_keys = ON")
    if version < VERSION:
        _migrate(db)


def _migrate(db: sqlite3.Connection) -> None:
    """All missing steps in one transaction. Another process may have made them meanwhile: the version decides again."""
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in range(_number(db, "PRAGMA user_version"), VERSION):
            for statement in _statements(STEPS[step]):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {VERSION}")
        db.commit()
    except BaseException:
        db.rollback()
        raise


def _statements(script: str) -> list[str]:
    """The statements of a script; a trigger's body has semicolons of its own."""
    found, rest = [], ""
    for line in script.splitlines():
        rest += line + "\n"
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return [statement for statement in found if statement.strip()]


def _number(db: sqlite3.Connection, query: str) -> int:
    return int(db.execute(query).fetchone()[0])
