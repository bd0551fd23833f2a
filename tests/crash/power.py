"""A disk that loses power: SQLite's files as they may be found again when only what was synced is sure.

Statements are run on a file of a recording VFS of apsw; every write, cut and sync is kept in order. `images` makes the
files that a loss of power after any of these leaves behind: what was synced is there; of what was not, nothing, all, a
beginning, some of it in any order, or a write torn at the border of a sector. That a file is gone is sure after the
next sync of any file: file systems with a journal keep the order of names.
"""

import contextlib
import functools
import itertools
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import apsw

SECTOR = 512
_SYNCHRONOUS = "PRAGMA synchronous ="
#: The state of a database: the rows of every table.
State = frozenset[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class Write:
    file: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Cut:
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    file: str


@dataclass(frozen=True, slots=True)
class Gone:
    file: str


Event = Write | Cut | Sync | Gone


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that returned after `events` events; `durable` promises that it is safe from then on."""

    events: int
    durable: bool
    state: State


@dataclass(slots=True)
class Recording:
    """What went to the disk, and the commits in between. File names are those of the database's folder."""

    name: str
    events: list[Event] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)


class _File(apsw.VFSFile):
    def __init__(self, recording: Recording, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._recording = recording
        self._file = Path(path).name

    def xWrite(self, data: bytes, offset: int) -> None:
        self._recording.events.append(Write(self._file, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._recording.events.append(Cut(self._file, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._recording.events.append(Sync(self._file))


class _Disk(apsw.VFS):
    def __init__(self, recording: Recording, name: str) -> None:
        super().__init__(name, "")
        self._recording = recording

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self._recording, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._recording.events.append(Gone(Path(filename).name))
        super().xDelete(filename, syncdir)


@contextlib.contextmanager
def traced() -> Iterator[list[str]]:
    """Every statement with its values that connections of `sqlite3` run which are opened meanwhile."""
    statements: list[str] = []

    def keep(statement: str) -> None:
        if not statement.startswith("--"):  # one of a trigger
            statements.append(statement)

    class Traced(sqlite3.Connection):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            self.set_trace_callback(keep)

    connect = sqlite3.connect
    sqlite3.connect = functools.partial(connect, factory=Traced)  # type: ignore[assignment]
    try:
        yield statements
    finally:
        sqlite3.connect = connect


_numbers = itertools.count()


def record(statements: Sequence[str], path: Path, *, weak: bool = False) -> Recording:
    """Run traced statements on a fresh file of a recording disk.

    `weak` asks for `synchronous = NORMAL` where the statements ask for FULL; what they promise stays.
    """
    recording = Recording(path.name)
    disk = f"recording-{next(_numbers)}"
    vfs = _Disk(recording, disk)
    db = apsw.Connection(str(path), vfs=disk)
    try:
        # Alone on its file, SQLite keeps the index of the log in memory; what goes to the disk is the same.
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        full = False
        for statement in statements:
            changes = statement.strip().upper() == "COMMIT" and db.in_transaction
            if statement.startswith(_SYNCHRONOUS):
                full = statement.endswith("FULL")
                db.execute(f"{_SYNCHRONOUS} NORMAL" if weak else statement)
            else:
                db.execute(statement).fetchall()
            if changes:
                recording.commits.append(Commit(len(recording.events), full, _state_of(db)))
    finally:
        db.close()
        vfs.unregister()
    return recording


def _state_of(db: apsw.Connection) -> State:
    tables = [str(row[0]) for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return frozenset((table, *row) for table in tables for row in db.execute(f'SELECT * FROM "{table}"'))


def images(recording: Recording, *, step: int = 1, guesses: int = 4) -> Iterator[tuple[int, dict[str, bytes]]]:
    """For every `step`th event the files that a loss of power right after it may leave, with the event's number."""
    chance = random.Random(7)
    safe: dict[str, bytearray] = {}
    loose: list[Event] = []
    for count, event in enumerate(recording.events, 1):
        if isinstance(event, Sync):
            loose = _synced(safe, loose, event.file)
        else:
            loose.append(event)
        if count % step:
            continue
        seen: set[tuple[tuple[str, bytes], ...]] = set()
        for kept in _choices(loose, chance, guesses):
            files = {name: bytearray(data) for name, data in safe.items()}
            for one in kept:
                _apply(files, one)
            found = {name: bytes(data) for name, data in files.items()}
            key = tuple(sorted(found.items()))
            if key not in seen:
                seen.add(key)
                yield count, found


def _synced(safe: dict[str, bytearray], loose: Sequence[Event], file: str) -> list[Event]:
    """Apply what a sync of `file` makes safe; what stays loose."""
    left: list[Event] = []
    for event in loose:
        if event.file != file and not isinstance(event, Gone):
            left.append(event)
            continue
        if isinstance(event, Gone):
            left = [one for one in left if one.file != event.file]
        _apply(safe, event)
    return left


def _choices(loose: Sequence[Event], chance: random.Random, guesses: int) -> Iterator[list[Event]]:
    """Ways in which writes that were not synced may have reached the disk."""
    yield []
    yield list(loose)
    for _ in range(guesses if len(loose) > 1 else 0):
        yield list(loose[: chance.randrange(1, len(loose))])
        yield [event for event in loose if chance.random() < 0.5]
    for place in range(max(0, len(loose) - 2), len(loose)):
        torn = loose[place]
        if isinstance(torn, Write) and len(torn.data) > 1:
            sectors = max(1, len(torn.data) // SECTOR)
            cut = chance.randrange(1, sectors) * SECTOR if sectors > 1 else len(torn.data) // 2
            yield [*loose[:place], Write(torn.file, torn.offset, torn.data[:cut])]
            yield [*loose[:place], Write(torn.file, torn.offset + cut, torn.data[cut:])]


def _apply(files: dict[str, bytearray], event: Event) -> None:
    if isinstance(event, Gone):
        files.pop(event.file, None)
        return
    data = files.setdefault(event.file, bytearray())
    if isinstance(event, Cut):
        del data[event.size :]
        data.extend(b"\0" * (event.size - len(data)))
    elif isinstance(event, Write):
        data.extend(b"\0" * (event.offset - len(data)))
        data[event.offset : event.offset + len(event.data)] = event.data


@dataclass(slots=True)
class Losses:
    """What became of images: how many were tried, and in how many a durable commit was missing or all was damaged."""

    images: int = 0
    lost: int = 0
    damaged: list[str] = field(default_factory=list)

    def __add__(self, other: "Losses") -> "Losses":
        return Losses(self.images + other.images, self.lost + other.lost, self.damaged + other.damaged)


def judge(recording: Recording, folder: Path, *, step: int = 1) -> Losses:
    """Open every image and compare it with the commits: at least the last durable one, at most the one under way."""
    found = Losses()
    for count, files in images(recording, step=step):
        for name, data in files.items():
            (folder / name).write_bytes(data)
        done = [place for place, one in enumerate(recording.commits) if one.events <= count]
        sure = [place for place in done if recording.commits[place].durable]
        first = sure[-1] if sure else -1
        allowed = [one.state for one in recording.commits[max(first, 0) : len(done) + 1]]
        found += _opened(folder / recording.name, count, allowed, empty=first < 0)
        for file in folder.iterdir():
            file.unlink()
    return found


def _opened(path: Path, count: int, allowed: Sequence[State], *, empty: bool) -> Losses:
    if not path.exists():
        return Losses(1, 0 if empty else 1)
    try:
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA synchronous = OFF")  # nothing is lost from now on
            verdict = str(db.execute("PRAGMA integrity_check").fetchone()[0])
            tables = [str(row[0]) for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            state = frozenset((table, *row) for table in tables for row in db.execute(f'SELECT * FROM "{table}"'))
    except sqlite3.DatabaseError as error:
        return Losses(1, 0, [f"after event {count}: {error}"])
    if verdict != "ok":
        return Losses(1, 0, [f"after event {count}: {verdict}"])
    return Losses(1, int(state not in allowed and not (empty and not state)))
