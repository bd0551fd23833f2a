"""What files held before, kept by what it is; the trash; and putting a file or taking it away, whole or not at all."""

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from pathlib import Path

from nanobot.errors import DiskError, PathError
from nanobot.files.database import FilesDatabase
from nanobot.security.paths import ResolvedPath, Roots
from nanobot.utils.translation import _

#: Where the whole of a long output of a command is put, below the workspace, and its bytes; a command that writes more
#: is ended.
OUTPUT_FOLDER, MAX_OUTPUT = ".output", 50_000_000
#: Bytes of all versions that are kept of changes; what is kept of the files as they are now comes on top.
MAX_KEPT = 500_000_000
#: Days for which versions and trash are kept.
KEPT_DAYS = 60
#: Seconds for which a version stays that nothing needs: a command that runs may have been begun with it.
_GRACE = 100_000


class Versions:
    """The versions and the trash in the folder of `database`."""

    def __init__(self, database: FilesDatabase) -> None:
        self._database = database
        self._folder = database.folder

    def path(self, digest: str) -> Path:
        return self._folder / "versions" / digest[:2] / digest

    def read(self, digest: str) -> bytes | None:
        """What a version holds; None where it is no longer kept, or not whole."""
        try:
            data = self.path(digest).read_bytes()
        except FileNotFoundError:
            return None
        return data if digest_of(data) == digest else None

    def keep(self, data: bytes, *, safely: bool = True) -> str:
        """Keep what a file holds; its digest. `safely`: also where the power fails at once. Raises `OSError`.

        Only in a transaction: then nobody prunes meanwhile.
        """
        digest = digest_of(data)
        version = self.path(digest)
        with contextlib.suppress(FileNotFoundError):
            if version.stat().st_size == len(data):
                os.utime(version)
                return digest
        version.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        spare = version.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            if safely:
                os.fsync(file.fileno())
        spare.replace(version)
        return digest

    def touch(self, digest: str) -> None:
        """Let a version stay for a while though nothing needs it any more."""
        with contextlib.suppress(OSError):
            os.utime(self.path(digest))

    def new_trash(self) -> Path:
        """A place for something in the trash. Raises `OSError`."""
        trash = self._folder / "trash" / f"{int(time.time())}-{secrets.token_hex(4)}"
        trash.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return trash

    def trash(self, name: str) -> Path:
        return self._folder / "trash" / name

    def prune(self, *, now: float | None = None) -> None:
        """Let go of versions and trash that are older than `KEPT_DAYS`, and of the oldest where they are too many."""
        if not (self._folder / "files.db").exists():
            return
        now = time.time() if now is None else now
        limit = now - KEPT_DAYS * 86_400
        with self._database.transaction() as database:  # as long as it lasts no version is added, in no process
            for path in (self._folder / "trash").glob("*-*"):
                if path.name.partition("-")[0] < f"{limit:.0f}":
                    _remove(path)
            database.execute("DELETE FROM steps WHERE change IN (SELECT id FROM changes WHERE at < ?)", (limit,))
            database.execute("DELETE FROM changes WHERE at < ?", (limit,))
            mirrored = {one for (one,) in database.execute("SELECT digest FROM mirror")}
            used = {one for (one,) in database.execute("SELECT before FROM steps")}
            found = [path for path in (self._folder / "versions").glob("*/*") if path.name not in mirrored]
            room = MAX_KEPT
            for path, status in sorted(((one, one.stat()) for one in found), key=lambda one: -one[1].st_mtime):
                room -= status.st_size
                if room < 0 or (path.name not in used and status.st_mtime < now - _GRACE):
                    path.unlink(missing_ok=True)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# Files in the roots


def put(roots: Roots, place: ResolvedPath, data: bytes, *, mode: int | None = None, safely: bool = True) -> int:
    """Write beside the file, then take its name: readers meet the old one or the new one, also after a crash.

    It keeps its mode unless another is given; which it has is returned. Raises `PathError`, `DiskError` where the disk
    refuses it.
    """
    with roots.parent(place, create=True) as (folder, name):
        if mode is None:
            mode = 0o644
            if (status := status_of(folder, name)) is not None:
                if not stat.S_ISREG(status.st_mode):
                    raise PathError(_("{path} is no ordinary file, so it is not written.", path=place.shown))
                mode = stat.S_IMODE(status.st_mode)
        spare = f".{name[:100]}.{secrets.token_hex(4)}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(spare, flags, mode, dir_fd=folder), "wb") as file:
                file.write(data)
                file.flush()
                if safely:
                    os.fsync(file.fileno())
                os.fchmod(file.fileno(), mode)
            os.replace(spare, name, src_dir_fd=folder, dst_dir_fd=folder)
            if safely:
                os.fsync(folder)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(spare, dir_fd=folder)
            why = error.strerror or error
            raise DiskError(_("{path} could not be written: {why}.", path=place.shown, why=why)) from None
    return mode


def status_of(folder: int, name: str) -> os.stat_result | None:
    """What is called `name` in an open folder, a link itself; None where nothing is."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def move_out(folder: int, name: str, target: Path, shown: str) -> None:
    """Move what is called `name` in an open folder to a place of ours, also on another disk. Raises `DiskError`."""
    try:
        try:
            os.rename(name, target, src_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(_named(folder) / name, target)
            os.sync()  # it is a copy, which may be of a whole folder
    except OSError as error:
        why = error.strerror or error
        raise DiskError(_("{path} could not be moved to the trash: {why}.", path=shown, why=why)) from None


def move_in(source: Path, folder: int, name: str, shown: str) -> None:
    """Move something of ours to a `name` in an open folder. Raises `DiskError`."""
    try:
        try:
            os.rename(source, name, dst_dir_fd=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(source, _named(folder) / name)
    except OSError as error:
        raise not_back(shown, error) from None


def not_back(shown: str, error: OSError) -> DiskError:
    """What is said where the disk does not let something be brought back."""
    return DiskError(_("{path} could not be brought back: {why}.", path=shown, why=error.strerror or error))


def _named(folder: int) -> Path:
    """A path to an open folder, which no link can take the place of."""
    return next(path for path in (Path(f"/proc/self/fd/{folder}"), Path(f"/dev/fd/{folder}")) if path.is_dir())


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def remove_tree(top: Path) -> None:
    """Remove what can be removed of a folder, also where others lie in it deeper than `shutil.rmtree` goes, than a path
    is long or than files may be open: those are brought up first."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(top, ignore_errors=True)
    folders = [top] if top.is_dir() else []
    for place in folders:
        with contextlib.suppress(OSError):
            inner = [one for one in place.iterdir() if one.is_dir() and not one.is_symlink()]
            folders += inner if place == top else [one.rename(tempfile.mkdtemp(dir=top)) for one in inner]
    if folders:
        shutil.rmtree(top, ignore_errors=True)
