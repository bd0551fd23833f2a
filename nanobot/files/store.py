"""Files of people as the model reads and changes them: whole or not at all, with every version kept, nothing deleted.

Before a file is changed, what it held is put under the home, so that `/undo` can bring it back; what is deleted goes to
the trash there. `files.db` holds which change of which chat is which version, and which files came from outside.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import sqlite3
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from nanobot.errors import MissingFile, PathError, StoreError
from nanobot.files.edits import Change, compare
from nanobot.security.paths import ResolvedPath, Roots
from nanobot.utils.processes import is_alive

#: Bytes of one file that is read or written as a whole, and of all versions that are kept.
MAX_FILE, MAX_KEPT = 20_000_000, 500_000_000
#: Where the whole of a long output of a command is put, below the workspace, and its bytes; a command that writes more
#: is ended.
OUTPUT_FOLDER, MAX_OUTPUT = ".output", 50_000_000
#: Seconds to wait for somebody else who changes a file, and between two looks.
_PATIENCE, _LOOK = 10.0, 0.005
#: Days for which versions and trash are kept.
KEPT_DAYS = 60
_LAYOUT = """
CREATE TABLE IF NOT EXISTS changes (
  id INTEGER PRIMARY KEY, session TEXT NOT NULL, path TEXT NOT NULL, before TEXT, after TEXT, trash TEXT,
  labels TEXT NOT NULL DEFAULT '[]', at REAL NOT NULL, undone INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS changes_of_session ON changes (session, id);
CREATE TABLE IF NOT EXISTS origins (path TEXT PRIMARY KEY, labels TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commands (
  id INTEGER PRIMARY KEY, process INTEGER NOT NULL, token TEXT NOT NULL, roots TEXT NOT NULL, at REAL NOT NULL);
"""


#: How far the clock of files may be behind, in seconds, and files below a root that are looked at one by one.
_CLOCK_STEP, _MOST_FILES = 0.05, 200_000
_FROM_COMMAND = ("output of a command",)
#: Tells this process from an earlier one with the same number.
_TOKEN = secrets.token_hex(8)


#: From what a file holds, None where there is none, to what it is to hold.
Make = Callable[[bytes | None], bytes]


class FileStore:
    """Reads and writes below `roots`, and keeps versions in `folder`. What lies in the folder `outside` is of others.

    Its methods wait for the disk, so they are run in a thread.
    """

    def __init__(self, roots: Roots, folder: Path, outside: Path | None = None) -> None:
        self.roots = roots
        self._outside = outside
        self._folder = folder
        self._lock = threading.RLock()
        self._database: sqlite3.Connection | None = None

    # Reading

    def read(self, place: ResolvedPath, limit: int = MAX_FILE) -> bytes:
        """The bytes of a file. Raises `PathError` where it is longer than `limit` or cannot be read."""
        with os.fdopen(self.roots.open(place), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(limit + 1)
        if len(data) > limit:
            raise PathError(f"{place.shown} is too large: {size:,} bytes, where {limit:,} can be read at once.")
        return data

    def origin(self, place: ResolvedPath) -> tuple[str, ...]:
        """Where the content of a file came from outside, as labels; empty for files of the person.

        A file that somebody has changed since is taken for as foreign as before: text can be moved around in it. What
        takes that away is to undo the change that brought it, or to delete the file and write it anew.
        """
        if self._outside is not None and place.path.is_relative_to(self._outside):
            return (f"folder {self._outside.name}",)
        found = self._rows(*_of((place.path, *place.path.parents), "labels"))
        return _labels(found) or (_FROM_COMMAND if self._is_being_written(place.path) else ())

    def foreign_below(self, folder: Path) -> frozenset[str]:
        """The files below a folder that hold content from outside, as absolute paths."""
        start = f"{folder}".rstrip("/") + "/"
        rows = self._rows("SELECT path FROM origins WHERE path >= ? AND path < ?", start, f"{start[:-1]}0")
        found = {path for (path,) in (*rows, *self._rows(*_of((folder, *folder.parents), "path")))}
        for began, root in self._commands():
            if root.is_relative_to(folder) or folder.is_relative_to(root):
                found |= set(map(str, _changed(max(folder, root, key=lambda one: len(one.parts)), began)))
        outside = self._outside
        if outside is not None and (outside.is_relative_to(folder) or folder.is_relative_to(outside)):
            for at, folders, files in os.walk(max(outside, folder, key=lambda one: len(one.parts))):
                found |= {os.path.join(at, name) for name in (*folders, *files)}  # noqa: PTH118 - fast
        return frozenset(found)

    def trust(self, name: str) -> str:
        """Take what is said of a file's origin away, as the person has read it, and say so; without a name, list all
        files that hold content from outside. Raises `PathError`."""
        if not name:
            found = [path for one in self.roots.roots for path in sorted(self.foreign_below(one.path))]
            listed = "\n".join(f"- `{self.roots.place(path, follow=False).shown}`" for path in found)
            return f"Content from outside:\n\n{listed}" if found else "No file counts as content from outside."
        place = self.roots.place(name)
        if not self.origin(place):
            return f"{place.shown} does not count as content from outside."
        with self._transaction() as database:
            database.execute("DELETE FROM origins WHERE path = ?", (str(place.path),))
        return f"{place.shown} counts as yours now. What is written to it beside content from outside marks it again."

    def mark(self, paths: Iterable[Path], labels: tuple[str, ...]) -> None:
        """Note that these files hold content from outside."""
        with self._transaction() as database:
            for path in paths:
                _mark(database, path, labels)

    # Commands

    def begin(self, at: float = 0.0) -> int:
        """From now on, until `end`, what changes below the roots counts as content from outside, also where this
        process dies: a command that such content has reached is about to run, or has begun at `at`. Its number."""
        roots = [str(one.path) for one in self.roots.roots if one.writable]
        row = (os.getpid(), _TOKEN, _json(tuple(roots)), (at or time.time()) - _CLOCK_STEP)
        with self._transaction() as database:
            done = database.execute("INSERT INTO commands (process, token, roots, at) VALUES (?, ?, ?, ?)", row)
            return done.lastrowid or 0

    def end(self, number: int, moved: Iterable[Path] = ()) -> None:
        """Keep the marks of what has changed since `begin`, and of the files that were `moved`."""
        for roots, at in self._rows("SELECT roots, at FROM commands WHERE id = ?", number):
            found = [path for root in _labels(((roots,),)) for path in _changed(Path(root), float(at))]
            self.mark([*found, *moved], _FROM_COMMAND)
        self.drop(number)

    def drop(self, number: int) -> None:
        """Forget a `begin` after which nothing has run."""
        with self._transaction() as database:
            database.execute("DELETE FROM commands WHERE id = ?", (number,))

    def end_lost(self) -> None:
        """Do so for the commands of processes that died."""
        for number, process, token in self._rows("SELECT id, process, token FROM commands"):
            if token != _TOKEN and (int(process) == os.getpid() or not is_alive(int(process))):
                self.end(int(number))

    def identities(self) -> frozenset[tuple[int, int]]:
        """Which files hold content from outside, however they will be called."""
        found = set()
        for (path,) in self._rows("SELECT path FROM origins"):
            with contextlib.suppress(OSError):
                status = Path(path).lstat()
                found.add((status.st_dev, status.st_ino))
        return frozenset(found)

    def named_anew(self, known: frozenset[tuple[int, int]]) -> list[Path]:
        """The files of these identities that are not marked where they lie now."""
        if not known:
            return []
        marked = {path for (path,) in self._rows("SELECT path FROM origins")}
        found = []
        for root in self.roots.roots:
            for path, status in _files(root.path) if root.writable else ():
                if status is not None and (status.st_dev, status.st_ino) in known and str(path) not in marked:
                    found.append(path)
        return found

    def _commands(self) -> list[tuple[float, Path]]:
        """Since when which folders are written by commands that run now."""
        rows = self._rows("SELECT at, roots FROM commands")
        return [(float(at), Path(root)) for at, roots in rows for root in _labels(((roots,),))]

    def _is_being_written(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            changed = path.lstat().st_ctime
            return any(changed >= at and path.is_relative_to(root) for at, root in self._commands())
        return False

    # Changing

    def preview(self, place: ResolvedPath, make: Make) -> Change:
        """What a change would do. Raises what `make` raises."""
        before = self._content(place)
        return compare(place.shown, before, make(before))

    def change(self, place: ResolvedPath, make: Make, *, session: str, taint: tuple[str, ...] = ()) -> Change:
        """Put what `make` makes of a file (None: there is none) in its place, whole or not at all.

        The version before is kept for `session`. `taint` names the content from outside that stood in the conversation;
        the file is then foreign as well. Raises `PathError`, and what `make` raises.
        """
        with self._alone():
            before = self._content(place)
            data = make(before)
            if len(data) > MAX_FILE:
                raise PathError(f"{place.shown}: {len(data):,} bytes are too many, a file may have {MAX_FILE:,}.")
            change = compare(place.shown, before, data)
            if before == data:
                return change
            number = self._note(session, place, before, data, taint)
            try:
                self._replace(place, data)
            except BaseException:
                self._forget(number)
                raise
            return change

    def held(self, place: ResolvedPath, most: int = 20_000) -> tuple[tuple[str, ...], ...]:
        """What lies in a folder, as parts below it, at most so many; empty for a file. Raises `PathError`."""
        if place.path.is_symlink() or not place.path.is_dir():
            return ()
        found: list[tuple[str, ...]] = []
        for folder, folders, files in os.walk(place.path):
            below = Path(folder).relative_to(place.path).parts
            found += [(*below, name) for name in (*folders, *files)]
            if len(found) >= most:
                break
        return tuple(found)

    def delete(self, place: ResolvedPath, *, session: str) -> str:
        """Move a file or a folder to the trash and say so. Raises `PathError`."""
        with self._alone():
            name = f"{int(time.time())}-{secrets.token_hex(4)}"
            trash = self._folder / "trash" / name
            trash.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.roots.parent(place) as (folder, inner):
                if not _exists(folder, inner):
                    raise MissingFile(f"{place.shown} does not exist.")
                number = self._note_trash(session, place, name)
                try:
                    _move_out(folder, inner, trash, place.shown)
                except BaseException:
                    self._forget(number)
                    raise
        return f"moved {place.shown} to the trash"

    def undo(self, session: str) -> str:
        """Bring back what the last change of this chat changed, and say so. Raises `PathError`.

        What somebody else has changed since stays as it is, and the next undo goes on with the change before.
        """
        with self._alone():
            rows = self._rows(
                "SELECT id, path, before, after, trash, labels FROM changes WHERE session = ? AND undone = 0"
                " ORDER BY id DESC LIMIT 1",
                session,
            )
            if not rows:
                return "There is nothing to undo: nanobot has changed no file in this chat, or all of it is undone."
            number, path, before, after, trash, labels = rows[0]
            with self._transaction() as database:  # where it cannot be brought back, the next undo goes on before it
                database.execute("UPDATE changes SET undone = 1 WHERE id = ?", (number,))
            try:
                place = self.roots.place(path, write=True, follow=False)
                known = _labels(((labels,),))
                said = self._bring_back(place, trash) if trash else self._revert(place, before, after, known)
            except OSError as error:
                raise PathError(f"{path} could not be brought back: {error.strerror or error}.") from None
            if not trash and self._holds(place, before):
                with self._transaction() as database:
                    _mark(database, place.path, known)
            return said

    def _holds(self, place: ResolvedPath, digest: str | None) -> bool:
        content = self._content(place)
        return (None if content is None else _digest(content)) == digest

    def _bring_back(self, place: ResolvedPath, trash: str) -> str:
        source = self._folder / "trash" / trash
        if not os.path.lexists(source):
            return f"{place.shown} is no longer in the trash, where it is kept for {KEPT_DAYS} days."
        with self.roots.parent(place, create=True) as (folder, inner):
            if _exists(folder, inner):
                return f"{place.shown} is there again, so what was deleted stays in {source}."
            _move_in(source, folder, inner, place.shown)
        return f"{place.shown} is back from the trash."

    def _revert(self, place: ResolvedPath, before: str | None, after: str | None, labels: tuple[str, ...] = ()) -> str:
        content = self._content(place)
        now = None if content is None else _digest(content)
        if now == before:
            return f"{place.shown} is already as it was before."
        version = self._version(before) if before else None
        if version is not None and not version.exists():
            return f"What {place.shown} was before is no longer kept."
        kept = version.read_bytes() if version is not None else b""
        if now != after:
            if before is None:
                return f"{place.shown} was changed by somebody else since, so it stays as it is."
            spare = place.path.with_name(f"{place.path.name}.before-{before[:8]}")
            self._replace(self.roots.place(str(spare), write=True, follow=False), kept)
            if labels:
                self.mark((spare,), labels)
            return f"{place.shown} was changed by somebody else since. What stood there before is in {spare.name}."
        if before is None:
            with self.roots.parent(place) as (folder, inner):
                os.unlink(inner, dir_fd=folder)
            return f"{place.shown} is gone again: it was new."
        self._replace(place, kept)
        return f"{place.shown} is again as it was before."

    # What lies below

    def _content(self, place: ResolvedPath) -> bytes | None:
        """The bytes of a file, None where there is none."""
        return self.read(place) if os.path.lexists(place.path) else None

    def _replace(self, place: ResolvedPath, data: bytes) -> None:
        """Write beside the file, then take its name: readers meet the old one or the new one, also after a crash."""
        with self.roots.parent(place, create=True) as (folder, name):
            mode = 0o644
            if _exists(folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if not stat.S_ISREG(status.st_mode):
                    raise PathError(f"{place.shown} is no ordinary file, so it is not written.")
                mode = stat.S_IMODE(status.st_mode)
            spare = f".{name[:100]}.{secrets.token_hex(4)}.new"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            try:
                with os.fdopen(os.open(spare, flags, mode, dir_fd=folder), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                    os.fchmod(file.fileno(), mode)
                os.replace(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(spare, dir_fd=folder)
                raise PathError(f"{place.shown} could not be written: {error.strerror or error}.") from None

    def _version(self, digest: str) -> Path:
        return self._folder / "versions" / digest[:2] / digest

    def _note(
        self, session: str, place: ResolvedPath, before: bytes | None, data: bytes, taint: tuple[str, ...]
    ) -> int:
        """Keep what stood there, then say in the database what is about to be done, and where it comes from."""
        kept = None if before is None else _digest(before)
        with self._transaction() as database:  # nobody prunes meanwhile
            if before is not None and kept is not None:
                self._keep(self._version(kept), before, place.shown)
            known = self.origin(place)
            labels = tuple(dict.fromkeys((*(known if before is not None else ()), *taint)))
            row = (session, str(place.path), kept, _digest(data), _json(known), time.time())
            done = database.execute(
                "INSERT INTO changes (session, path, before, after, labels, at) VALUES (?, ?, ?, ?, ?, ?)", row
            )
            if labels != known:
                _mark(database, place.path, labels)
            return done.lastrowid or 0

    def _note_trash(self, session: str, place: ResolvedPath, name: str) -> int:
        with self._transaction() as database:
            row = (session, str(place.path), name, time.time())
            done = database.execute("INSERT INTO changes (session, path, trash, at) VALUES (?, ?, ?, ?)", row)
            return done.lastrowid or 0

    def _keep(self, version: Path, data: bytes, shown: str) -> None:
        try:
            if version.exists():
                os.utime(version)
                return
            version.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            spare = version.with_suffix(f".{secrets.token_hex(4)}")
            with os.fdopen(os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            spare.replace(version)
        except OSError as error:
            why = error.strerror or error
            raise PathError(f"{shown} was not changed: what it holds now could not be kept ({why}).") from None

    def _forget(self, number: int) -> None:
        with self._transaction() as database:
            database.execute("DELETE FROM changes WHERE id = ?", (number,))

    def prune(self, *, now: float | None = None) -> None:
        """Let go of versions and trash that are older than `KEPT_DAYS`, and of the oldest where they are too many."""
        if not (self._folder / "files.db").exists():
            return
        limit = (now or time.time()) - KEPT_DAYS * 86_400
        with self._transaction() as database:  # as long as it lasts no version is added, in no process
            old = database.execute("SELECT trash FROM changes WHERE at < ? AND trash IS NOT NULL", (limit,)).fetchall()
            for (name,) in old:
                _remove(self._folder / "trash" / name)
            database.execute("DELETE FROM changes WHERE at < ?", (limit,))
            used = {one for (one,) in database.execute("SELECT before FROM changes WHERE before IS NOT NULL")}
            found = [path for path in (self._folder / "versions").glob("*/*") if path.is_file()]
            room = MAX_KEPT
            for path in sorted(found, key=lambda one: one.stat().st_mtime, reverse=True):
                room -= path.stat().st_size
                if room < 0 or path.name not in used:
                    path.unlink(missing_ok=True)

    def _rows(self, sql: str, *values: object) -> list[tuple[str, ...]]:
        with self._lock:
            if self._database is None and not (self._folder / "files.db").exists():
                return []  # what was never changed leaves no trace
            with self._told():
                return self._open().execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds every other one off, also those of other processes."""
        with self._lock, self._told():
            database = self._open()
            with database:
                database.execute("BEGIN IMMEDIATE")
                yield database

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else changes a file between its reading and its writing, neither here nor in another process.

        Raises `PathError` where somebody does for `_PATIENCE` seconds.
        """
        with self._lock:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                lock = os.open(self._folder / "files.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StoreError(f"{self._folder} cannot be written: {error.strerror or error}.") from error
            try:
                _take(lock)
                yield
            finally:
                os.close(lock)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(f"{self._folder / 'files.db'} cannot be read or written: {error}.") from error

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._folder / "files.db"
            try:
                database = sqlite3.connect(path, check_same_thread=False, timeout=10)
                weakref.finalize(self, database.close)  # where nobody closes it
                path.chmod(0o600)
                database.execute("PRAGMA journal_mode=WAL")
                database.executescript(_LAYOUT)
            except (sqlite3.Error, OSError) as error:
                raise StoreError(f"{path} cannot be opened: {error}.") from error
            self._database = database
        return self._database

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None


def _json(labels: tuple[str, ...]) -> str:
    return msgspec.json.encode(labels).decode()


def _labels(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    return msgspec.json.decode(rows[0][0], type=tuple[str, ...]) if rows else ()


def _mark(database: sqlite3.Connection, path: Path, labels: tuple[str, ...]) -> None:
    """Note where what a file holds comes from; nothing, where it is the person's."""
    database.execute("DELETE FROM origins WHERE path = ?", (str(path),))
    if labels:
        database.execute("INSERT INTO origins VALUES (?, ?)", (str(path), _json(labels)))


def _of(paths: Sequence[Path], column: str) -> tuple[str, ...]:
    """The query for what is marked of these paths, the deepest first, and its values."""
    marks = ", ".join("?" * len(paths))
    return (f"SELECT {column} FROM origins WHERE path IN ({marks}) ORDER BY length(path) DESC", *map(str, paths))  # noqa: S608


def _changed(folder: Path, began: float) -> Iterator[Path]:
    """The files below a folder that have changed since; the folder itself where they are too many to be looked at."""
    for path, status in _files(folder):
        if status is None or (status.st_ctime >= began and stat.S_ISREG(status.st_mode)):
            yield path


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result | None]]:
    """The files below a folder; it itself without more where they are too many."""
    left = _MOST_FILES
    for at, _, names in os.walk(folder):
        left -= len(names)
        if left < 0:
            yield folder, None
            return
        for name in names:
            with contextlib.suppress(OSError):
                yield Path(at, name), os.lstat(os.path.join(at, name))  # noqa: PTH118 - fast


def _take(lock: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise PathError("Another nanobot changes files all the time. Try again later.") from None
            time.sleep(_LOOK)
        else:
            return


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _move_out(folder: int, name: str, target: Path, shown: str) -> None:
    """Move what is called `name` in an open folder to a place of ours, also on another disk."""
    try:
        try:
            os.rename(name, target, src_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(_named(folder) / name, target)
    except OSError as error:
        raise PathError(f"{shown} could not be moved to the trash: {error.strerror or error}.") from None


def _move_in(source: Path, folder: int, name: str, shown: str) -> None:
    try:
        try:
            os.rename(source, name, dst_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(source, _named(folder) / name)
    except OSError as error:
        raise PathError(f"{shown} could not be brought back: {error.strerror or error}.") from None


def _named(folder: int) -> Path:
    """A path to an open folder, which no link can take the place of."""
    return next(path for path in (Path(f"/proc/self/fd/{folder}"), Path(f"/dev/fd/{folder}")) if path.is_dir())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
