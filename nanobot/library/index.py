"""The index of all text at hand: passages in one SQLite file, found by their words (FTS5), in any language.

The words are those of `utils.ranking`: folded, stemmed, and pairs of characters where a script has no blanks. The file
holds nothing that cannot be read again elsewhere, so one that is damaged or of another layout is made anew. Several
processes may use it at once.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from nanobot.errors import StoreError
from nanobot.library.parts import (
    PART_ROW,
    Document,
    DocumentPart,
    FoundPart,
    Kind,
    Scope,
    document_of,
    key_of,
    packed,
    scope_word,
    unpacked,
    words_of,
)
from nanobot.library.scoring import CANDIDATES, best
from nanobot.providers.lookup.question import understand
from nanobot.utils.host import write_ahead
from nanobot.utils.ranking import terms
from nanobot.utils.translation import _

T = TypeVar("T")

#: PRAGMA user_version; one that differs means that the file is made anew. It changes with the tables, and with
#: `utils.ranking.terms`, for words are taken out of the index by counting them again.
LAYOUT = 3
#: Seconds that a process waits for another one that writes.
BUSY_SECONDS = 30.0
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_TABLES = """
CREATE TABLE document (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL,
  state TEXT NOT NULL, problem TEXT NOT NULL, UNIQUE (kind, owner, name)
);
CREATE TABLE part (
  id INTEGER PRIMARY KEY, document INTEGER NOT NULL, place TEXT NOT NULL, at TEXT NOT NULL, outside INTEGER NOT NULL,
  text BLOB NOT NULL
);
CREATE INDEX part_by_document ON part (document);
CREATE TABLE progress (name TEXT PRIMARY KEY, seen TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE word USING fts5 (
  words, content = '', detail = none, columnsize = 0, tokenize = "ascii tokenchars '.,!^'"
);
CREATE VIRTUAL TABLE seen_in USING fts5vocab (word, 'row')
"""


class LibraryIndex:
    """One file, or memory where `path` is None. Every method waits for the disk, and may be called by any thread.

    Raises `StoreError` where even a new file cannot be used, as on a full disk.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._inode = 0
        self._db: sqlite3.Connection | None = None
        self._run(lambda _db: None)  # it can be used

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def put(self, document: Document, parts: Iterable[DocumentPart]) -> None:
        """Take a document in, in the place of what was known of it."""
        counted = [(part, words_of(document, part)) for part in parts]

        def work(db: sqlite3.Connection) -> None:
            _clear(db, document)
            _add(db, document, counted)

        self._run(work, write=True)

    def follow(
        self, name: str, seen: str, now: str, additions: Iterable[tuple[Document, Sequence[DocumentPart]]]
    ) -> bool:
        """Add to documents what came since `seen`, which `now` takes the place of as the progress under this name.

        False, and nothing is added, where another process was faster.
        """
        counted = [(one, [(part, words_of(one, part)) for part in parts]) for one, parts in additions]

        def work(db: sqlite3.Connection) -> bool:
            if _progress(db, name) != seen:
                return False
            for document, parts in counted:
                _add(db, document, parts)
            db.execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (name, now))
            return True

        return self._run(work, write=True)

    def progress(self, name: str) -> str:
        """How far `follow` has come under this name; empty at first."""
        return self._run(lambda db: _progress(db, name))

    def drop(self, documents: Iterable[Document]) -> None:
        """Forget documents with everything in them."""
        gone = list(documents)

        def work(db: sqlite3.Connection) -> None:
            for document in gone:
                _clear(db, document)
                db.execute("DELETE FROM document WHERE kind = ? AND owner = ? AND name = ?", key_of(document))

        if gone:
            self._run(work, write=True)

    def erase(self, sessions: Iterable[str]) -> None:
        """Forget conversations, so that none of their words stays in the file, and how far they were taken in."""
        names = list(sessions)

        def work(db: sqlite3.Connection) -> None:
            for name in names:
                query = "SELECT kind, owner, name, title, state, problem FROM document WHERE kind = 'talk' AND name = ?"
                for row in db.execute(query, (name,)).fetchall():
                    _clear(db, document_of(row))
                db.execute("DELETE FROM document WHERE kind = 'talk' AND name = ?", (name,))
                db.execute("DELETE FROM progress WHERE name = ?", (f"session {name}",))
            db.execute("INSERT INTO word (word) VALUES ('optimize')")  # the words of what was deleted go from the lists

        self._run(work, write=True)
        with self._lock:
            self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def documents(self, kind: Kind, owner: str | None = None) -> tuple[Document, ...]:
        """What is known of a kind, of one owner or of all, by name."""
        query = "SELECT kind, owner, name, title, state, problem FROM document WHERE kind = ?"
        query += " ORDER BY name" if owner is None else " AND owner = ? ORDER BY name"
        values = (kind,) if owner is None else (kind, owner)
        return self._run(lambda db: tuple(document_of(row) for row in db.execute(query, values)))

    def rows(self, kind: Kind, owner: str, wanted: Callable[[DocumentPart], bool]) -> tuple[int, ...]:
        """The passages of a kind and an owner that are `wanted`, for `remove`."""
        query = (
            "SELECT part.id, text, place, at, outside FROM part JOIN document ON document.id = part.document "
            "WHERE kind = ? AND owner = ?"
        )

        def work(db: sqlite3.Connection) -> tuple[int, ...]:
            found = db.execute(query, (kind, owner))
            return tuple(row for row, text, *rest in found if wanted(DocumentPart(unpacked(text), *rest)))

        return self._run(work)

    def remove(self, rows: Iterable[int]) -> None:
        """Forget single passages. One that was added anew meanwhile has another number."""
        gone = list(rows)

        def work(db: sqlite3.Connection) -> None:
            for row in gone:
                found = db.execute(PART_ROW, (row,)).fetchone()
                if found is not None:
                    *document, place, _, _, text = found
                    _clear_part(db, row, document_of(document), place, text)

        if gone:
            self._run(work, write=True)

    def is_full(self, free: int, most: int) -> str:
        """Why nothing more is to be taken in: less than `free` bytes are left on its disk, or it has `most` bytes;
        empty where there is room."""
        if self._path is None:
            return ""
        disk = os.statvfs(self._path.parent)
        if disk.f_bavail * disk.f_frsize < free:
            place = self._path.parent
            return _("Less than {size:,} MB are free on the disk of {path}.", size=free // 1_000_000, path=place)
        if self._path.stat().st_size > most:
            return _("The index takes more than {size:,} MB; take a folder out of the library.", size=most // 1_000_000)
        return ""

    def count(self, kind: Kind) -> int:
        """The passages of a kind."""
        query = "SELECT count(*) FROM part JOIN document ON document.id = part.document WHERE kind = ?"
        return self._run(lambda db: int(db.execute(query, (kind,)).fetchone()[0]))

    def search(
        self, query: str, scopes: Iterable[Scope], *, limit: int = 5, whole: bool = False, among: int = CANDIDATES
    ) -> tuple[FoundPart, ...]:
        """The passages in these scopes that answer `query` best, best first; there is no search without scopes.

        Of a question only the words that tell its subject are looked for, or all of them as a `whole`. So many
        passages with these words are read, `among` which the best are chosen.
        """
        holders = [scope_word(*one) for one in scopes]
        subject = "" if whole else " ".join(topic for topic, _ in understand(query).topics)
        asked = terms(subject or query)
        if not holders or not asked:
            return ()
        return self._run(lambda db: best(db, asked, holders, limit, among))

    def _run(self, work: Callable[[sqlite3.Connection], T], *, write: bool = False) -> T:
        """One transaction; in a new file where this one is damaged or was deleted."""
        with self._lock, _told(self._path):
            try:
                return _within(self._connected(), work, write=write)
            except sqlite3.DatabaseError as error:
                if self._path is None or not _is_damage(error):
                    raise
            self._let_go()
            discard(self._path)
            return _within(self._connected(), work, write=write)

    def _connected(self) -> sqlite3.Connection:
        """The connection to the file that is there now, with our tables."""
        if self._db is not None and (self._path is None or _inode(self._path) == self._inode):
            return self._db
        self._let_go()
        if self._path is not None:
            self._path.touch(mode=0o600)  # private chats are read by their owner alone; files beside it get its mode
            self._inode = _inode(self._path)
        place = self._path or ":memory:"
        db = sqlite3.connect(place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._db = _prepared(db)
        except sqlite3.Error:
            db.close()
            raise
        weakref.finalize(self, db.close)
        return db

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


@contextmanager
def _told(path: Path | None) -> Iterator[None]:
    """What goes wrong with the file, in a sentence."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            _(
                "The index {path} cannot be used: {why}. It holds nothing that cannot be read again; look for room and "
                "rights there.",
                path=path,
                why=error,
            )
        ) from error


def _within(db: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], *, write: bool) -> T:
    db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        done = work(db)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return done


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    """The connection to a file that has our tables; those of another layout go."""
    write_ahead(db, BUSY_SECONDS)
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("PRAGMA secure_delete = ON")  # what was forgotten does not stay in the file

    def work(db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA user_version").fetchone()[0] == LAYOUT:
            return
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%'").fetchall():
            db.execute(f"DROP TABLE {name}")
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            db.execute(f"DROP TABLE {name}")
        for statement in _TABLES.split(";\n"):
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {LAYOUT}")

    if db.execute("PRAGMA user_version").fetchone()[0] != LAYOUT:
        _within(db, work, write=True)
    return db


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def discard(path: Path) -> None:
    """Delete the file of an index that is damaged; the next one who opens it makes it anew."""
    for name in ("", "-wal", "-shm"):
        Path(f"{path}{name}").unlink(missing_ok=True)


def _progress(db: sqlite3.Connection, name: str) -> str:
    found = db.execute("SELECT seen FROM progress WHERE name = ?", (name,)).fetchone()
    return str(found[0]) if found else ""


def _clear(db: sqlite3.Connection, document: Document) -> None:
    """Take the passages of a document out. FTS5 wants the very words that were put in."""
    query = "SELECT id, title FROM document WHERE kind = ? AND owner = ? AND name = ?"
    known = db.execute(query, key_of(document)).fetchone()
    if known is None:
        return
    was = replace(document, title=str(known[1]))
    rows = db.execute("SELECT id, place, text FROM part WHERE document = ?", (known[0],)).fetchall()
    for row, place, text in rows:
        _clear_part(db, row, was, place, text)


def _clear_part(db: sqlite3.Connection, row: int, document: Document, place: str, text: bytes) -> None:
    words = words_of(document, DocumentPart(unpacked(text), place))
    db.execute("INSERT INTO word (word, rowid, words) VALUES ('delete', ?, ?)", (row, words))
    db.execute("DELETE FROM part WHERE id = ?", (row,))


def _add(db: sqlite3.Connection, document: Document, counted: Iterable[tuple[DocumentPart, str]]) -> None:
    change = (
        "INSERT INTO document (kind, owner, name, title, state, problem) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET title = excluded.title, state = excluded.state, problem = excluded.problem "
        "RETURNING id"
    )
    ((at,),) = db.execute(change, (*key_of(document), document.title, document.state, document.problem)).fetchall()
    insert = "INSERT INTO part (document, place, at, outside, text) VALUES (?, ?, ?, ?, ?)"
    for part, words in counted:
        row = db.execute(insert, (at, part.place, part.at, part.outside, packed(part.text))).lastrowid
        db.execute("INSERT INTO word (rowid, words) VALUES (?, ?)", (row, words))
