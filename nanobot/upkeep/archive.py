"""A backup: all of an installation that cannot be made anew, in one file that its owner alone may read."""

import io
import os
import shutil
import socket
import sqlite3
import stat
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.json import encode

from nanobot import __version__
from nanobot.config.paths import Paths
from nanobot.errors import StoreError, plain_reason
from nanobot.utils.host import given_name, walk
from nanobot.utils.translation import _

#: The first member, which says what the others are.
MANIFEST = "nanobot-backup.json"
FORMAT = 1
SUFFIX = ".tar.gz"
#: How backups are named that are made each night, by hand, and before an update.
NIGHTLY, BY_HAND, BEFORE_UPDATE = "nightly-", "nanobot-", "before-update-"
NAMES = (NIGHTLY, BY_HAND, BEFORE_UPDATE)
#: What lies directly in the home and is of this moment alone, or is made anew.
_PASSING = frozenset({"cache", "logs", "tasks", "backups", "gateway.json"})
_PASSING_ENDS = (".lock", ".sock", "-wal", "-shm", "-journal", ".db-turns", ".new")
_PASSING_BEGINS = (".restore", ".nanobot-", "index.db", "before-restore-")
_SQLITE = b"SQLite format 3\0"
#: Seconds after which a backup to which nobody writes any more was broken off: none may take so long.
_BROKEN_OFF = 86_400


class Manifest(Struct, frozen=True):
    """What a backup says of itself. `workspace` and `config` are empty where they lie in the home.

    `shared`: the conversations are in a database that many gateways share, and not in this file.
    """

    format: int
    version: str
    made: datetime
    host: str
    home: str
    workspace: str = ""
    config: str = ""
    shared: bool = False


class Backup(Struct, frozen=True):
    """A backup that was made: its file, how many files are in it, and which could not be read."""

    file: Path
    count: int
    size: int
    unread: tuple[str, ...] = ()


def make_backup(
    paths: Paths, target: Path, *, shared: bool = False, whole: bool = False, numbered: bool = False
) -> Backup:
    """Write a backup to a file that is not there yet; it stands there when it is whole and on the disk.

    `numbered`: where it is there, as of another backup of the same second, the name gets a number. Databases are copied
    as they are at one moment, also while they are in use. `whole`: one of ours that cannot be copied is an error; all
    else that cannot be read is left out, and told. Raises `StoreError`.
    """
    if target.exists() and not numbered:
        raise _taken(target)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _drop_broken_off(target.parent)
        number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        made = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                writer = _Writer(file, target, whole=whole)
                writer.write(paths, shared=shared)
                file.flush()
                os.fsync(file.fileno())
            size = made.stat().st_size
            target = _placed(made, target, numbered=numbered)
        finally:
            made.unlink(missing_ok=True)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            _(
                "No backup could be written to {target}: {error}. Free some room or name another place.",
                target=target,
                error=plain_reason(error),
            )
        ) from error
    return Backup(target, writer.count, size, tuple(writer.unread))


def _drop_broken_off(folder: Path) -> None:
    """Delete what is left in a folder of backups in the midst of which nanobot was killed."""
    for left in folder.glob(f".*{SUFFIX}.*"):
        with suppress(OSError):
            if left.name[1:].startswith(NAMES) and time.time() - left.stat().st_mtime > _BROKEN_OFF:
                left.unlink()


def _placed(made: Path, target: Path, *, numbered: bool) -> Path:
    """Give a file its name, or the next one that is free; a file that has it by now keeps it. Raises `StoreError`."""
    base = target.name.removesuffix(SUFFIX)
    more = (target.with_name(f"{base}-{number}{SUFFIX}") for number in range(2, 100))
    for name in (target, *more) if numbered else (target,):
        if given_name(made, name):
            return name
    raise _taken(target)


def _taken(target: Path) -> StoreError:
    return StoreError(_("{target} is there already. Name another file; a backup never replaces one.", target=target))


class _Writer:
    """Puts files into a compressed archive, but not this archive itself and the backups beside it."""

    def __init__(self, file: IO[bytes], target: Path, *, whole: bool) -> None:
        self._target = target
        self._whole = whole
        self._home = Path()
        self._archive = tarfile.open(fileobj=file, mode="w:gz", compresslevel=6, format=tarfile.PAX_FORMAT)  # noqa: SIM115
        self.count = 0
        self.unread: list[str] = []

    def write(self, paths: Paths, *, shared: bool) -> None:
        home = self._home = paths.home
        outside = not paths.workspace.is_relative_to(home)
        apart = not paths.config.is_relative_to(home) and paths.config.exists()
        manifest = Manifest(
            FORMAT,
            __version__,
            datetime.now(UTC),
            socket.gethostname(),
            str(home),
            str(paths.workspace) if outside else "",
            str(paths.config) if apart else "",
            shared,
        )
        with self._archive:
            self._bytes(MANIFEST, encode(manifest), 0o600)
            # A database names files that were written before it, so it goes first.
            found = [*_below(home, self.unread, passing=True)]
            databases = [one for one in found if _is_database(one, paths)]
            for path in (*databases, *(one for one in found if one not in databases)):
                follow = path == paths.config or _leads_out(path, home)
                self._add(path, f"home/{path.relative_to(home)}", copied=path in databases, follow=follow)
            if apart:
                self._add(paths.config, f"config/{paths.config.name}", copied=False, follow=True)
            for path in _below(paths.workspace, self.unread, passing=False) if outside else ():
                self._add(path, f"workspace/{path.relative_to(paths.workspace)}", copied=False)

    def _add(self, path: Path, name: str, *, copied: bool, follow: bool = False) -> None:
        if self._is_backup(path):
            return
        try:
            opened = self._opened(path, name, copied=copied, follow=follow)
        except FileNotFoundError:  # it went away meanwhile
            return
        except (OSError, sqlite3.DatabaseError) as error:
            if copied and self._whole and path.parent == self._home:
                raise
            self.unread.append(f"{path}: {_why(error)}")
            return
        match opened:
            case None:
                return
            case tarfile.TarInfo():
                self._archive.addfile(opened)
            case file:
                with file:
                    self._stream(path, file, name)
        self.count += 1

    def _opened(self, path: Path, name: str, *, copied: bool, follow: bool) -> IO[bytes] | tarfile.TarInfo | None:
        """A file that is read, or what stands for a link or an empty folder; None for a pipe or a socket, which hold
        nothing. Raises `OSError` and `sqlite3.Error` where it cannot be read."""
        mode = path.stat(follow_symlinks=follow and path.exists()).st_mode
        if stat.S_ISLNK(mode) or stat.S_ISDIR(mode):
            return self._archive.gettarinfo(path, name)
        if not stat.S_ISREG(mode):
            return None
        return _copy_of(path) if copied else path.open("rb")

    def _is_backup(self, path: Path) -> bool:
        """Whether a file is a backup in the folder that this one goes to: with those in it, each would be twice the
        size of the last."""
        named = path.name.startswith(NAMES) and path.name.endswith(SUFFIX)
        return (named or path.name.startswith(f".{self._target.name}.")) and path.parent.samefile(self._target.parent)

    def _stream(self, path: Path, file: IO[bytes], name: str) -> None:
        found, member = os.fstat(file.fileno()), tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = found.st_size, found.st_mtime, stat.S_IMODE(found.st_mode)
        reader = _Exactly(file, found.st_size)
        self._archive.addfile(member, reader)
        if reader.broken:
            self.unread.append(_("{path}: only in part: {broken}", path=path, broken=reader.broken))

    def _bytes(self, name: str, data: bytes, mode: int) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = len(data), mode
        self._archive.addfile(member, io.BytesIO(data))


def _copy_of(path: Path) -> IO[bytes]:
    """A database as it is at one moment, in a file without a name."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy.db")
        try:
            with (
                closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db,
                closing(sqlite3.connect(copy)) as to,
            ):
                db.execute("PRAGMA schema_version")  # what is locked for good is refused, where a backup waits for ever
                db.backup(to)
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith(("SQLITE_IOERR_SHM", "SQLITE_CANTOPEN")):
                raise
            # Even to read it needs a file beside it, and there is no room for one. So nobody has it open.
            shutil.copyfile(path, copy)
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}-wal", f"{copy}-wal")
            with closing(sqlite3.connect(copy)) as db:
                db.execute("PRAGMA wal_checkpoint")
        return copy.open("rb")


def _why(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error)


class _Exactly(io.RawIOBase):
    """So many bytes of a file, also where it becomes shorter meanwhile or its disk fails: the archive has said how many
    will come. `broken` is why not all of it could be read."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size
        self.broken = ""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        try:
            data = b"" if self.broken else self._file.read(wanted)
        except OSError as error:
            data, self.broken = b"", _why(error)
        self._left -= wanted
        return data + b"\0" * (wanted - len(data))


def _below(folder: Path, unread: list[str], *, passing: bool) -> Iterator[Path]:
    """The files, links and empty folders below a folder; `passing`: it is a home, parts of which are left out, and
    folders directly in it are ours also where a link leads to them."""
    for place, inner, files in walk(folder, onerror=lambda error: unread.append(f"{error.filename}: {_why(error)}")):
        here = Path(place)
        if passing and here == folder:
            inner[:] = [name for name in inner if not _passes(name)]
        links = [name for name in inner if (here / name).is_symlink()]
        for name in sorted((*files, *links)):
            if not (passing and here == folder):
                yield here / name
            elif name in links and _leads_out(here / name, folder):
                yield from _below(here / name, unread, passing=False)
            elif not _passes(name):
                yield here / name
        if not (files or inner) and here != folder:
            yield here


def _passes(name: str) -> bool:
    """Whether something that lies directly in the home is of this moment alone."""
    return name in _PASSING or name.startswith(_PASSING_BEGINS) or name.endswith(_PASSING_ENDS)


def _leads_out(path: Path, home: Path) -> bool:
    """Whether what lies directly in the home is a link to a place outside, such as on a larger disk: a backup holds
    what is there, for on another machine the link leads nowhere."""
    if path.parent != home or not path.is_symlink() or not path.exists():
        return False
    place, here = path.resolve(), home.resolve()
    return not (place.is_relative_to(here) or here.is_relative_to(place))


def _is_database(path: Path, paths: Paths) -> bool:
    """Whether a file of ours is a database; those of the person in the workspace are files like any other."""
    if path.is_relative_to(paths.workspace) or path.suffix != ".db":
        return False
    if path.is_symlink() and not _leads_out(path, paths.home):
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return path.parent == paths.home  # one of ours that cannot be read is missed, and no file like any other
