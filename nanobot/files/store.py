"""Files of people as the model reads and changes them: whole or not at all, with every version kept, nothing deleted.

Before a file is changed, what it held is put under the home, so that `/undo` can bring it back; what is deleted goes to
the trash there.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from loguru import logger

from nanobot.errors import MissingFile, PathError
from nanobot.files.database import FilesDatabase, Step, note
from nanobot.files.edits import Change, compare
from nanobot.files.origins import Origins, mark
from nanobot.files.snapshots import MAX_ALL, SAVED, Snapshots
from nanobot.files.steering import Steering
from nanobot.files.undo import Undo
from nanobot.files.versions import Versions, digest_of, move_out, put, status_of
from nanobot.security.control_files import Kept
from nanobot.security.paths import ResolvedPath, Roots
from nanobot.utils.host import walk
from nanobot.utils.translation import _

#: Bytes of one file that is read or written as a whole.
MAX_FILE = 20_000_000

#: From what a file holds, None where there is none, to what it is to hold.
Make = Callable[[bytes | None], bytes]


class FileStore:
    """Reads and writes below `roots`, and keeps versions in `folder`. What lies in the folder `outside` is of others.

    `origins` tells which files came from outside, `snapshots` what commands change, and `steering` what steers while
    one of them runs. Its methods wait for the disk, so they are run in a thread.
    """

    def __init__(self, roots: Roots, folder: Path, outside: Path | None = None, snapshot_bytes: int = MAX_ALL) -> None:
        self.roots = roots
        self._database = FilesDatabase(folder)
        self._versions = Versions(self._database)
        self.origins = Origins(roots, self._database, outside)
        self.steering = Steering(self._database)
        self.snapshots = Snapshots(roots, self._database, self._versions, self.origins, snapshot_bytes)
        undo = Undo(roots, self._database, self._versions, self.origins, self.steering)
        #: Bringing back what this chat has changed: the last change, which there are since a time, and all of those.
        self.undo, self.changes_since, self.undo_since = undo.last, undo.since, undo.all_since
        #: A place for something in the trash (raises `OSError`), and letting go of what is too old or too much.
        self.new_trash, self.prune = self._versions.new_trash, self._versions.prune
        #: Nobody else changes a file meanwhile, neither here nor in another process.
        self.alone = self._database.alone
        self.close = self._database.close

    # Reading

    def read(self, place: ResolvedPath, limit: int = MAX_FILE) -> bytes:
        """The bytes of a file. Raises `PathError` where it is longer than `limit` or cannot be read."""
        with os.fdopen(self.roots.open(place), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(limit + 1)
        if len(data) > limit:
            raise PathError(
                _(
                    "{path} is too large: {size:,} bytes, where {most:,} can be read at once.",
                    path=place.shown,
                    size=size,
                    most=limit,
                )
            )
        return data

    def held(self, place: ResolvedPath, most: int = 20_000) -> tuple[tuple[str, ...], ...]:
        """What lies in a folder, as parts below it, at most so many; empty for a file. Raises `PathError`."""
        if place.path.is_symlink() or not place.path.is_dir():
            return ()
        found: list[tuple[str, ...]] = []
        for folder, folders, files in walk(place.path):
            below = Path(folder).relative_to(place.path).parts
            found += [(*below, name) for name in (*folders, *files)]
            if len(found) >= most:
                break
        return tuple(found)

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
        with self.alone():
            before = self._content(place)
            data = make(before)
            if len(data) > MAX_FILE:
                size = len(data)
                raise PathError(
                    _(
                        "{path}: {size:,} bytes are too many, a file may have {most:,}.",
                        path=place.shown,
                        size=size,
                        most=MAX_FILE,
                    )
                )
            change = compare(place.shown, before, data)
            if before == data:
                return change
            number = self._note(session, place, before, data, taint)
            try:
                mode = put(self.roots, place, data)
            except BaseException:
                self._forget(number)
                raise
            self.steering.approve(place.path, {place.path: Kept(stat.S_IFREG | mode, data)})
            return change

    def delete(self, place: ResolvedPath, *, session: str) -> str:
        """Move a file or a folder to the trash and say so. Raises `PathError`."""
        with self.alone():
            trash = self._versions.new_trash()
            with self.roots.parent(place) as (folder, inner):
                if (status := status_of(folder, inner)) is None:
                    raise MissingFile(_("{path} does not exist.", path=place.shown))
                labels = self.origins.marks().get(str(place.path), ())
                step = Step(str(place.path), status.st_mode, f"{SAVED}{trash.name}", None, labels)
                with self._database.transaction() as database:
                    number = note(database, session, step.path, (step,))
                try:
                    move_out(folder, inner, trash, place.shown)
                except BaseException:
                    self._forget(number)
                    raise
            self.steering.approve(place.path, {})
        return _("moved {path} to the trash", path=place.shown)

    def _content(self, place: ResolvedPath) -> bytes | None:
        """The bytes of a file, None where there is none."""
        return self.read(place) if os.path.lexists(place.path) else None

    def _note(
        self, session: str, place: ResolvedPath, before: bytes | None, data: bytes, taint: tuple[str, ...]
    ) -> int:
        """Keep what stood there, then say in the database what is about to be done, and where it comes from."""
        with self._database.transaction() as database:  # nobody prunes meanwhile
            try:
                kept = None if before is None else self._versions.keep(before)
            except OSError as error:
                why = error.strerror or error
                raise PathError(
                    _(
                        "{path} was not changed: what it holds now could not be kept ({why}).",
                        path=place.shown,
                        why=why,
                    )
                ) from None
            known = self.origins.of(place)
            labels = tuple(dict.fromkeys((*(known if before is not None else ()), *taint)))
            mode = None if before is None else place.path.lstat().st_mode
            step = Step(str(place.path), mode, kept, digest_of(data), known)
            if labels != known:
                mark(database, place.path, labels)
            return note(database, session, step.path, (step,))

    def _forget(self, number: int) -> None:
        with self._database.transaction() as database:
            database.execute("DELETE FROM changes WHERE id = ?", (number,))
            database.execute("DELETE FROM steps WHERE change = ?", (number,))

    def end_lost(self) -> None:
        """End the commands whose nanobot has died: what steers is put back, and what they wrote stays foreign."""
        for number in self.origins.lost():
            trash = self.new_trash()
            with self.alone():
                notes = self.steering.after_death(number, self._versions.read).put_back(trash)
            for told in notes:
                logger.warning("after a nanobot that died: {} What it held is in {}.", told.partition("\n")[0], trash)
            self.origins.end(number)
