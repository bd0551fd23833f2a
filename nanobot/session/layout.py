"""The tables of a SQLite file: their layout, its migrations, and what is refused before anything is written."""

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from nanobot.errors import StoreError
from nanobot.utils.host import given_name, write_ahead
from nanobot.utils.translation import _

#: `nano` in ASCII: marks the file as ours (PRAGMA application_id).
APPLICATION_ID = 0x6E616E6F
BUSY_SECONDS = 5.0

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
#: From here on the tables and the statements are those that PostgreSQL has too, where a row knows its `worker`.
_SHARED = """
ALTER TABLE inbox ADD COLUMN worker TEXT NOT NULL DEFAULT '';
ALTER TABLE outbox ADD COLUMN worker TEXT NOT NULL DEFAULT '';
UPDATE outbox SET not_before = '1970-01-01T00:00:00.000000+00:00' WHERE not_before = '';
CREATE INDEX outbox_open ON outbox (channel, chat, seq) WHERE state IN ('new', 'sending', 'unknown');
DROP INDEX record_by_time;
DROP VIEW answers;
DROP TABLE fired;
"""
#: A compaction leaves what was said from the record `kept` on as it was; 0: it hides all before it.
_KEPT = "ALTER TABLE record ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;"
#: Spending by model, person and cause. What was spent before is of an unknown model and cause; in a chat of their own,
#: and in the terminal, there is one person alone. What had no cost then had none that was known.
_SPENDING = """
CREATE TABLE spent (
  session_id TEXT NOT NULL REFERENCES session (id), quarter TEXT NOT NULL, model TEXT NOT NULL, person TEXT NOT NULL,
  cause TEXT NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL, cached INTEGER NOT NULL,
  cache_write INTEGER NOT NULL, reasoning INTEGER NOT NULL, cost REAL NOT NULL, requests INTEGER NOT NULL,
  unpriced INTEGER NOT NULL, PRIMARY KEY (session_id, quarter, model, person, cause)
) WITHOUT ROWID;
INSERT INTO spent
  SELECT session_id, quarter, '', CASE WHEN key = 'terminal:local' THEN key WHEN key GLOB 'telegram:[0-9]*'
    THEN 'telegram:' || substr(key, 10, instr(substr(key, 10) || ':', ':') - 1) ELSE '' END,
  '', input, output, cached, cache_write, reasoning, cost, requests, CASE WHEN cost > 0 THEN 0 ELSE input + output END
  FROM spending JOIN session ON session.id = spending.session_id;
DROP TABLE spending;
ALTER TABLE spent RENAME TO spending;
CREATE INDEX spending_by_time ON spending (quarter);
"""
#: The schedule: what is to be done, and which due times were served.
_SCHEDULE = """
CREATE TABLE job (
  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, body TEXT NOT NULL, rule TEXT NOT NULL,
  zone TEXT NOT NULL, person TEXT NOT NULL,
  chat TEXT NOT NULL, direct INTEGER NOT NULL, missed TEXT NOT NULL, quiet TEXT NOT NULL, paused INTEGER NOT NULL,
  origin TEXT NOT NULL, due TEXT NOT NULL, at TEXT NOT NULL, last TEXT NOT NULL, result TEXT NOT NULL,
  failures INTEGER NOT NULL
);
CREATE INDEX job_by_time ON job (at) WHERE paused = 0;
CREATE TABLE fired (job INTEGER NOT NULL, due TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (job, due)) WITHOUT ROWID;
"""
#: Watches: what was last seen (`calm`: looks since then at which nothing had changed), what was told, and what
#: briefings have told to whom.
_WATCHES = """
CREATE TABLE watch (job INTEGER NOT NULL PRIMARY KEY, state TEXT NOT NULL, calm INTEGER NOT NULL);
CREATE TABLE watch_told (job INTEGER NOT NULL, due TEXT NOT NULL, at TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (job, due));
CREATE TABLE briefed (person TEXT NOT NULL, mark TEXT NOT NULL, turn TEXT NOT NULL, at TEXT NOT NULL,
  PRIMARY KEY (person, mark));
"""
#: A session that one question has made (`once`), and sessions that are being deleted, whose records may go.
_SINGLE = """
ALTER TABLE session ADD COLUMN once INTEGER NOT NULL DEFAULT 0;
CREATE TABLE going (session_id TEXT PRIMARY KEY) WITHOUT ROWID;
DROP TRIGGER record_is_kept;
CREATE TRIGGER record_is_kept BEFORE DELETE ON record
  WHEN NOT EXISTS (SELECT 1 FROM going WHERE session_id = OLD.session_id)
  BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
"""
#: Step n leads from layout n to n + 1; each runs inside one transaction. A change of the layout adds a step.
STEPS: tuple[str, ...] = (
    _SESSIONS,
    _LEDGER,
    _LEASES,
    _REQUESTS,
    _TOTALS,
    _SHARED,
    _KEPT,
    _SPENDING,
    _SCHEDULE,
    _WATCHES,
    _SINGLE,
)
#: PRAGMA user_version of a file after all steps.
VERSION = len(STEPS)


def open_file(path: Path) -> sqlite3.Connection:
    """A connection to the file, made where there is none. Raises `StoreError` for a file that must not be touched."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = path.with_name(f"{path.name}-wal")
    if not path.exists():
        if log.exists() and log.stat().st_size:
            raise StoreError(
                _(
                    "{path} is missing, but {log} is there, which holds the last changes to it. Nothing was changed. "
                    "Put the file back in its place, or move {log} away to begin anew, with no owner and no "
                    "conversations.",
                    path=path,
                    log=log.name,
                )
            )
        _make(path)
    elif not path.stat().st_size:
        raise StoreError(
            _(
                "{path} is empty (0 bytes): it was cut off, as by a full disk or a copy that broke. Nothing was "
                "changed. Put a backup in its place, or delete it to begin anew, with no owner and no conversations.",
                path=path,
            )
        )
    return _connect(path)


def settle_copy(path: Path) -> int:
    """Give up what was on its way when this copy was made, for the original has sent and answered it since.

    How much it was.
    Raises `StoreError` and `sqlite3.Error`; nobody else may use the file.
    """
    reason = _("the conversations were put back from a backup")
    with closing(open_file(path)) as db, db:
        sent = "UPDATE outbox SET state = 'failed', reason = ? WHERE state IN ('draft', 'new', 'sending', 'unknown')"
        asked = "UPDATE inbox SET state = 'dead', reason = ? WHERE state IN ('new', 'waiting', 'claimed')"
        return sum(db.execute(one, (reason,)).rowcount for one in (sent, asked))


def _make(path: Path) -> None:
    """A new file stands at its place when it is whole; one that another process has put there meanwhile stays."""
    file, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)  # readable by its owner alone
    os.close(file)
    made = Path(name)
    try:
        with closing(sqlite3.connect(made)) as db:
            migrate(db)  # without a log beside it, so that the file itself is whole and synced
        given_name(made, path)
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
        raise StoreError(
            _("{path} is a database of another program. Nothing was changed. Name another file.", path=path)
        )
    if version > VERSION:
        raise StoreError(
            _(
                "{path} was written by a newer nanobot (layout {version}, this one knows {known}). "
                "Nothing was changed. Update nanobot, or name another file.",
                path=path,
                version=version,
                known=VERSION,
            )
        )
    write_ahead(db, BUSY_SECONDS)
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA secure_delete = ON")  # what was deleted does not stay in the file
    if version < VERSION:
        migrate(db)


def migrate(db: sqlite3.Connection) -> None:
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
