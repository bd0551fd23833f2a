"""Which files hold content from outside, and where it came from; also what commands write while they run."""

import contextlib
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from nanobot.files.database import FilesDatabase, as_json, from_json
from nanobot.files.tree import Files, changed, tree
from nanobot.security.paths import ResolvedPath, Roots
from nanobot.utils.host import walk
from nanobot.utils.processes import is_alive
from nanobot.utils.translation import N_, _

#: How far the clock of files may be behind, in seconds.
_CLOCK_STEP = 0.05
FROM_COMMAND = (N_("output of a command"),)
#: Tells this process from an earlier one with the same number.
_TOKEN = secrets.token_hex(8)


class Origins:
    """Where the files in `roots` came from. What lies in the folder `outside` is of others. Waits for the disk."""

    def __init__(self, roots: Roots, database: FilesDatabase, outside: Path | None) -> None:
        self._roots = roots
        self._database = database
        self._outside = outside

    def of(self, place: ResolvedPath) -> tuple[str, ...]:
        """Where the content of a file came from outside, as labels; empty for files of the person.

        A file that somebody has changed since is taken for as foreign as before: text can be moved around in it. What
        takes that away is to undo the change that brought it, or to delete the file and write it anew.
        """
        if self._outside is not None and place.path.is_relative_to(self._outside):
            return (f"folder {self._outside.name}",)
        found = self._database.rows(*_of((place.path, *place.path.parents), "labels"))
        return from_json(found[0][0]) if found else FROM_COMMAND if self._is_being_written(place.path) else ()

    def below(self, folder: Path) -> frozenset[str]:
        """The files below a folder that hold content from outside, as absolute paths."""
        start = f"{folder}".rstrip("/") + "/"
        rows = self._database.rows("SELECT path FROM origins WHERE path >= ? AND path < ?", start, f"{start[:-1]}0")
        found = {path for (path,) in (*rows, *self._database.rows(*_of((folder, *folder.parents), "path")))}
        for began, root in self._commands():
            if root.is_relative_to(folder) or folder.is_relative_to(root):
                found |= set(map(str, changed(max(folder, root, key=lambda one: len(one.parts)), began)))
        outside = self._outside
        if outside is not None and (outside.is_relative_to(folder) or folder.is_relative_to(outside)):
            for at, folders, files in walk(max(outside, folder, key=lambda one: len(one.parts))):
                found |= {os.path.join(at, name) for name in (*folders, *files)}  # noqa: PTH118 - fast
        return frozenset(found)

    def trust(self, name: str) -> str:
        """Take what is said of a file's origin away, as the person has read it, and say so; without a name, list all
        files that hold content from outside. Raises `PathError`."""
        if not name:
            found = [path for one in self._roots.roots for path in sorted(self.below(one.path))]
            listed = "\n".join(f"- `{self._roots.place(Path(path), follow=False).shown}`" for path in found)
            if not found:
                return _("No file counts as content from outside.")
            return _("Content from outside:") + f"\n\n{listed}"
        place = self._roots.place(name)
        if not self.of(place):
            return _("{path} does not count as content from outside.", path=place.shown)
        with self._database.transaction() as database:
            database.execute("DELETE FROM origins WHERE path = ?", (str(place.path),))
        return _(
            "{path} counts as yours now. What is written to it beside content from outside marks it again.",
            path=place.shown,
        )

    def mark(self, paths: Iterable[Path], labels: tuple[str, ...]) -> None:
        """Note that these files hold content from outside."""
        with self._database.transaction() as database:
            for path in paths:
                mark(database, path, labels)

    def marks(self) -> dict[str, tuple[str, ...]]:
        """All files that are marked, with their labels."""
        return {path: from_json(labels) for path, labels in self._database.rows("SELECT path, labels FROM origins")}

    # Commands

    def begin(self, at: float = 0.0) -> int:
        """From now on, until `end`, what changes below the roots counts as content from outside, also where this
        process dies: a command that such content has reached is about to run, or has begun at `at`. Its number."""
        roots = [str(one.path) for one in self._roots.roots if one.writable]
        row = (os.getpid(), _TOKEN, as_json(tuple(roots)), (at or time.time()) - _CLOCK_STEP)
        with self._database.transaction() as database:
            done = database.execute("INSERT INTO commands (process, token, roots, at) VALUES (?, ?, ?, ?)", row)
            return done.lastrowid or 0

    def end(self, number: int, known: frozenset[tuple[int, int]] = frozenset(), files: Files | None = None) -> None:
        """Keep the marks of what has changed since `begin`, and of what was marked then, as `identities`, and lies
        elsewhere now. `files` are all of the roots as they are now, where somebody has looked already."""
        for roots, at in self._database.rows("SELECT roots, at FROM commands WHERE id = ?", number):
            for root in map(Path, from_json(roots)):
                found = tree(root) if files is None else files
                if found is None:
                    self.mark((root,), FROM_COMMAND)
                    continue
                marked = self.marks()
                fresh = [path for path, one in found.items() if one.st_ctime >= float(at) and stat.S_ISREG(one.st_mode)]
                moved = [path for path, one in found.items() if (one.st_dev, one.st_ino) in known] if known else []
                self.mark(map(Path, (*fresh, *(one for one in moved if one not in marked))), FROM_COMMAND)
                if files is not None:
                    break  # they are those of all roots
        self.drop(number)

    def drop(self, number: int) -> None:
        """Forget a `begin` after which nothing has run."""
        with self._database.transaction() as database:
            database.execute("DELETE FROM commands WHERE id = ?", (number,))
            database.execute("DELETE FROM steering WHERE command = ?", (number,))

    def lost(self) -> list[int]:
        """The commands whose process has died, by their numbers."""
        rows = self._database.rows("SELECT id, process, token FROM commands")
        return [
            int(number)
            for number, process, token in rows
            if token != _TOKEN and (int(process) == os.getpid() or not is_alive(int(process)))
        ]

    def identities(self) -> frozenset[tuple[int, int]]:
        """Which files hold content from outside, however they will be called."""
        found = set()
        for (path,) in self._database.rows("SELECT path FROM origins"):
            with contextlib.suppress(OSError):
                status = Path(path).lstat()
                found.add((status.st_dev, status.st_ino))
        return frozenset(found)

    def _commands(self) -> list[tuple[float, Path]]:
        """Since when which folders are written by commands that run now."""
        rows = self._database.rows("SELECT at, roots FROM commands")
        return [(float(at), Path(root)) for at, roots in rows for root in from_json(roots)]

    def _is_being_written(self, path: Path) -> bool:
        with contextlib.suppress(OSError):
            changed_at = path.lstat().st_ctime
            return any(changed_at >= at and path.is_relative_to(root) for at, root in self._commands())
        return False


def mark(database: sqlite3.Connection, path: Path, labels: tuple[str, ...]) -> None:
    """Note where what a file holds comes from; nothing, where it is the person's."""
    database.execute("DELETE FROM origins WHERE path = ?", (str(path),))
    if labels:
        database.execute("INSERT INTO origins VALUES (?, ?)", (str(path), as_json(labels)))


def _of(paths: Sequence[Path], column: str) -> tuple[str, ...]:
    """The query for what is marked of these paths, the deepest first, and its values."""
    marks = ", ".join("?" * len(paths))
    return (f"SELECT {column} FROM origins WHERE path IN ({marks}) ORDER BY length(path) DESC", *map(str, paths))  # noqa: S608
