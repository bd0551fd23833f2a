"""What steers, as it is to be while a command runs that content from outside has reached.

Such a command may change nothing that steers, and what it changes is put back at its end. Meanwhile the owner may have
approved other changes, in whatever process: those stay; and until its end no prompt is made from what it wrote.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import cast

from nanobot.files.database import FilesDatabase
from nanobot.security.control_files import ControlFiles, Kept
from nanobot.utils.host import walk

_PUT = (
    "INSERT INTO steering (command, path, mode, digest, text) VALUES (?, ?, ?, ?, ?) ON CONFLICT (command, path)"
    " DO UPDATE SET mode = excluded.mode, digest = excluded.digest, text = excluded.text"
)


class Steering:
    """Notes of what steers in `database`, for each such command that runs. Its methods wait for the disk."""

    def __init__(self, database: FilesDatabase) -> None:
        self._database = database

    def begin(self, command: int, places: Iterable[Path], files: Mapping[Path, Kept]) -> None:
        """A command begins, by its number in `Origins`: `files` are all that lie at and below the `places` of what
        steers."""
        with self._database.transaction() as database:
            database.executemany(
                "INSERT OR IGNORE INTO steering (command, path, top) VALUES (?, ?, 1)",
                [(command, str(path)) for path in places],
            )
            database.executemany(
                _PUT, [(command, str(path), kept.mode, _digest(kept), None) for path, kept in files.items()]
            )

    def approve(self, place: Path, files: Mapping[Path, Kept]) -> None:
        """What the owner has let nanobot make of `place`: `files` are all that lies there now, none where it is gone.

        Called while nobody else changes files.
        """
        commands = self.watching(place)
        if not commands:
            return
        with self._database.transaction() as database:
            for command in commands:
                database.execute(
                    "UPDATE steering SET digest = '', text = NULL"
                    " WHERE command = ? AND (path = ? OR path > ? AND path < ?)",
                    (command, str(place), f"{place}/", f"{place}0"),
                )
                database.executemany(
                    _PUT, [(command, str(path), kept.mode, _digest(kept), kept.text) for path, kept in files.items()]
                )

    def wanted(self, command: int, before: Mapping[Path, Kept]) -> Mapping[Path, Kept]:
        """What steers as it is to be at the end of a command, which began with `before`."""
        if not self._database.rows("SELECT 1 FROM steering WHERE command = ? AND top = 1", command):
            return before  # the notes are lost
        found = {}
        sql = "SELECT path, mode, text FROM steering WHERE command = ? AND digest != ''"
        for name, mode, text in cast("list[tuple[str, int, bytes | None]]", self._database.rows(sql, command)):
            path = Path(name)
            if text is not None:
                found[path] = Kept(mode, text)
            elif path in before:
                found[path] = before[path]
        return found

    def after_death(self, command: int, read: Callable[[str], bytes | None]) -> ControlFiles:
        """The files that steer, to be put back as they are to be, after the process of a command has died. `read` gives
        what is kept of files by its digest; what is not kept stays as it is now."""
        sql = "SELECT path, top, mode, digest, text FROM steering WHERE command = ?"
        rows = cast("list[tuple[str, int, int, str, bytes | None]]", self._database.rows(sql, command))
        found = ControlFiles([Path(path) for path, top, *_ in rows if top])
        files = {}
        for name, _, mode, digest, text in rows:
            kept = text if text is not None or not stat.S_ISREG(mode) else read(digest)
            if digest and kept is None:
                kept = b"" if stat.S_ISDIR(mode) else None
            if digest and kept is not None:
                files[Path(name)] = Kept(mode, kept)
            elif digest and Path(name) in found.files:
                files[Path(name)] = found.files[Path(name)]
        found.expect(files)
        return found

    def doubted(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Those of these files that are not as they are to be while a command runs."""
        if not self._database.rows("SELECT 1 FROM steering LIMIT 1"):
            return frozenset()
        return frozenset(path for path in paths if self._is_doubted(path))

    def _is_doubted(self, path: Path) -> bool:
        watching = self._database.rows("SELECT command, path FROM steering WHERE top = 1")
        tops = [(command, top) for command, top in watching if path.is_relative_to(top)]
        above = [one for one in path.parents if any(one.is_relative_to(top) for _, top in tops)]
        if not tops or not os.path.lexists(path):
            return False
        try:
            kept = _kept(path)
        except OSError:
            return True
        found = [
            self._database.rows("SELECT digest FROM steering WHERE command = ? AND path = ?", command, str(path))
            for command, _ in tops
        ]
        if stat.S_ISDIR(kept.mode):
            return False  # its files are judged
        led = any(one.is_symlink() for one in above) or not stat.S_ISREG(kept.mode)
        return led or any(rows != [(_digest(kept),)] for rows in found)

    def watching(self, path: Path) -> list[int]:
        """The commands to which `path`, or something below it, is what steers."""
        rows = self._database.rows("SELECT command, path FROM steering WHERE top = 1")
        near = (int(number) for number, top in rows if path.is_relative_to(top) or Path(top).is_relative_to(path))
        return list(dict.fromkeys(near))


def kept_below(path: Path, shown: Path) -> dict[Path, Kept]:
    """What is at and below `path`, which no command can reach, as if it were at `shown`. Raises `OSError`."""
    found = {shown: _kept(path)}
    if stat.S_ISDIR(found[shown].mode):
        for at, folders, files in walk(path):
            for name in (*folders, *files):
                one = Path(at, name)
                found[shown / one.relative_to(path)] = _kept(one)
    return found


def _kept(path: Path) -> Kept:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        return Kept(mode, os.fsencode(path.readlink()))
    return Kept(mode, path.read_bytes() if stat.S_ISREG(mode) else b"")


def _digest(kept: Kept) -> str:
    return hashlib.sha256(kept.text).hexdigest()
