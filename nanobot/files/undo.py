"""`/undo`: taking the last change of a chat back, of one file or all that a command has done.

What somebody else has changed since stays as it is. A change counts as undone when it is: where the disk refuses it,
the next try begins with it again.
"""

import os
import stat
from pathlib import Path

from msgspec import convert

from nanobot.errors import DiskError, MissingFile, PathError
from nanobot.files.database import FilesDatabase, Step, from_json
from nanobot.files.origins import Origins, mark
from nanobot.files.snapshots import MOVED, SAVED, as_text
from nanobot.files.steering import Steering, kept_below
from nanobot.files.versions import KEPT_DAYS, Versions, digest_of, move_in, move_out, not_back, put, status_of
from nanobot.security.control_files import Kept
from nanobot.security.paths import ResolvedPath, Roots
from nanobot.utils.translation import N_, _, _n, apart, sentences

#: Files that are told one by one of those that a command has left in a way that cannot be taken back.
_TOLD = 5


class Undo:
    """Takes changes back, while nobody else changes files. Its methods wait for the disk."""

    def __init__(
        self, roots: Roots, database: FilesDatabase, versions: Versions, origins: Origins, steering: Steering
    ) -> None:
        self._roots = roots
        self._database = database
        self._versions = versions
        self._origins = origins
        self._steering = steering

    def last(self, session: str) -> str:
        """Take back the last change of this chat that is not undone, and say so. Raises `PathError`.

        The next undo goes on with the change before; but where a `DiskError` is raised, with this one again.
        """
        with self._database.alone():
            return self._last(session)

    def _last(self, session: str) -> str:
        sql = "SELECT id, path FROM changes WHERE session = ? AND undone = 0 ORDER BY id DESC LIMIT 1"
        rows = self._database.rows(sql, session)
        if not rows:
            return _("There is nothing to undo: nanobot has changed no file in this chat, or all of it is undone.")
        number, about = rows[0]
        sql = "SELECT path, mode, before, after, labels FROM steps WHERE change = ?"
        found = self._database.rows(sql, number)
        steps = [convert((*row, from_json(labels)), Step) for *row, labels in found]
        try:
            alone = [one.path for one in steps] == [about]
            said = self._file(steps[0]) if alone else self._command(steps, about)
        except DiskError:
            raise
        except PathError:  # it will never be possible
            self._is_undone(number)
            raise
        except OSError as error:
            raise not_back(about, error) from None
        self._is_undone(number)
        return said

    def since(self, session: str, at: float) -> tuple[str, ...]:
        """The changes of this chat since a time (seconds since 1970) that are not undone, the newest first."""
        return tuple(line for line, _id in self._rows_since(session, at))

    def all_since(self, session: str, at: float) -> tuple[str, ...]:
        """Take back all of them, one after the other, and say so of each.

        Raises `DiskError` where the disk refuses one: those before it are taken back, and the next try goes on there.
        """
        said: list[str] = []
        with self._database.alone():
            for line, _id in self._rows_since(session, at):
                try:
                    said.append(self._last(session))
                except DiskError as error:
                    done = _("Taken back until then: {what}", what=apart(said)) if said else ""
                    raise DiskError(sentences(str(error), done)) from None
                except PathError as error:
                    said.append(f"{line}: {error}")
        return tuple(said)

    def _rows_since(self, session: str, at: float) -> list[tuple[str, ...]]:
        sql = "SELECT path, id FROM changes WHERE session = ? AND undone = 0 AND at >= ? ORDER BY id DESC"
        return self._database.rows(sql, session, at)

    def _is_undone(self, number: str) -> None:
        with self._database.transaction() as database:
            database.execute("UPDATE changes SET undone = 1 WHERE id = ?", (number,))

    def _file(self, step: Step) -> str:
        """Take the change of one file back, and say so."""
        problem = self._take_back(step, self._versions.new_trash())
        if problem:
            return problem
        self._finish([step])
        shown = self._roots.place(Path(step.path), follow=False).shown
        if step.mode is None:
            return _("{path} is gone again: it was new.", path=shown)
        if (step.before or "").startswith(SAVED):
            return _("{path} is back from the trash.", path=shown)
        return _("{path} is again as it was before.", path=shown)

    def _take_back(self, step: Step, trash: Path) -> str:
        """Make what stands at a path what it was before; why it stays, empty where that is done."""
        return self._unmake(step, trash) if step.mode is None else self._remake(step)

    def _is_as_left(self, step: Step, place: ResolvedPath, status: os.stat_result) -> bool:
        """Whether what stands there is what the change has made of it."""
        if step.by_content and stat.S_ISREG(status.st_mode):
            return self._now(place) == step.after
        return as_text(status) == step.after

    def _now(self, place: ResolvedPath) -> str | None:
        """The digest of what a file holds, None where there is none."""
        try:
            with os.fdopen(self._roots.open(place), "rb") as file:
                return digest_of(file.read())
        except MissingFile:
            return None

    def _command(self, steps: list[Step], line: str) -> str:
        """Take back all that a command did, and say so; what is done is done also where the rest cannot be."""
        new = [one for one in sorted(steps, key=_path, reverse=True) if one.mode is None]  # a folder last
        old = [one for one in sorted(steps, key=_path) if one.mode is not None]  # a folder first
        done, left, refused = list[Step](), list[str](), list[str]()
        trash = self._versions.new_trash()
        for step in (*new, *old):
            try:
                problem = self._take_back(step, trash)
            except (DiskError, OSError) as error:
                refused.append(f"{error}" if isinstance(error, DiskError) else f"{step.path}: {error.strerror}.")
                continue
            except PathError as error:
                problem = str(error)
            left += [problem] if problem else []
            done += [] if problem else [step]
        for step in new:  # what was moved out of a new folder has left it by now
            if step.is_folder:
                self._unmake(step, trash)
        self._finish(done)
        files = [one for one in done if not one.is_folder]
        back = sum(one.mode is not None for one in files)
        told = _files_told(back, len(files) - back)
        if refused:
            again = _(
                "{number} could not be brought back, and /undo tries it again: {why}",
                number=len(refused),
                why=refused[0],
            )
            raise DiskError(sentences(told, again))
        more = [_("And {number} more are not as before.", number=len(left) - _TOLD)] if len(left) > _TOLD else []
        return "\n".join([_("`{command}` is undone: {files}", command=line, files=told), *left[:_TOLD], *more])

    def _finish(self, done: list[Step]) -> None:
        """What is done once for all files that are back: the modes of folders, and which are foreign."""
        for step in reversed(done):
            if step.is_folder and step.mode is not None:
                place = self._roots.place(Path(step.path), write=True, follow=False)
                with self._roots.parent(place) as (folder, name):
                    os.chmod(name, stat.S_IMODE(step.mode), dir_fd=folder)
        marked = self._origins.marks()
        with self._database.transaction() as database:
            for step in done:
                new_folder = step.mode is None and step.is_folder  # which may hold other files by now
                if not new_folder and marked.get(step.path, ()) != step.labels:
                    mark(database, Path(step.path), step.labels)
        os.sync()  # of thousands of files not each by itself

    def _unmake(self, step: Step, trash: Path) -> str:
        """Take away what was new; why it stays, empty where it is gone."""
        place = self._roots.place(Path(step.path), write=True, follow=False)
        try:
            with self._roots.parent(place) as (folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if step.after == "folder" and stat.S_ISDIR(status.st_mode):
                    try:
                        os.rmdir(name, dir_fd=folder)
                    except OSError:
                        return ""  # something else is in it by now
                elif not self._is_as_left(step, place, status):
                    return _("{path} may have been changed by somebody else since, so it stays.", path=place.shown)
                else:
                    target = trash / place.path.relative_to("/")
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    move_out(folder, name, target, place.shown)
        except (FileNotFoundError, MissingFile):
            return ""
        self._steering.approve(place.path, {})
        return ""

    def _remake(self, step: Step) -> str:
        """Bring back what was there before; why it cannot be, empty where it is back."""
        place = self._roots.place(Path(step.path), write=True, follow=False)
        mode, saved = step.mode or 0, (step.before or "").startswith(SAVED)
        with self._roots.parent(place, create=True) as (folder, name):
            if there := (status := status_of(folder, name)) is not None:
                if step.is_folder and stat.S_ISDIR(status.st_mode) and not saved:
                    os.chmod(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=folder)
                    return ""
                if not self._is_as_left(step, place, status):
                    return self._beside(place, step)
                if stat.S_ISDIR(status.st_mode):
                    os.rmdir(name, dir_fd=folder)
                elif stat.S_ISLNK(status.st_mode) or not stat.S_ISREG(mode):
                    os.unlink(name, dir_fd=folder)
            if saved:
                return self._bring_back(place, folder, step)
            if step.is_folder:
                os.mkdir(name, stat.S_IMODE(mode) | stat.S_IRWXU, dir_fd=folder)
                return ""
            if step.before is None:
                return _("{path} was not kept, so it cannot be brought back.", path=place.shown)
            if stat.S_ISLNK(mode):
                os.symlink(step.before, name, dir_fd=folder)
                return ""
            if step.before.startswith(MOVED):
                return self._move_back(place, *step.before.removeprefix(MOVED).split(":", 1))
        data = self._versions.read(step.before)
        if data is None:
            return _("What {path} was before is no longer kept.", path=place.shown)
        known = None if step.by_content and there else stat.S_IMODE(mode)  # somebody may have given it another one
        mode = put(self._roots, place, data, mode=known, safely=False)
        self._steering.approve(place.path, {place.path: Kept(stat.S_IFREG | mode, data)})
        return ""

    def _bring_back(self, place: ResolvedPath, folder: int, step: Step) -> str:
        """Take something out of the trash."""
        source = self._versions.trash((step.before or "").removeprefix(SAVED))
        if not os.path.lexists(source):
            gone = N_("{path} is no longer in the trash, where it is kept for {days} days.")
            return _(gone, path=place.shown, days=KEPT_DAYS)
        mode = stat.S_IMODE(step.mode or 0)
        if mode and stat.S_ISREG(source.lstat().st_mode):
            source.chmod(mode)
        files = kept_below(source, place.path) if self._steering.watching(place.path) else {}
        move_in(source, folder, place.path.name, place.shown)
        self._steering.approve(place.path, files)
        return ""

    def _move_back(self, place: ResolvedPath, inode: str, path: str) -> str:
        """Give a file that was too large to be kept the name that it had."""
        there = self._roots.place(Path(path), write=True, follow=False)
        with self._roots.parent(there) as (source, name), self._roots.parent(place) as (target, wanted):
            status = status_of(source, name)
            if status is None or str(status.st_ino) != inode:
                return _(
                    "{path}, which was {before}, may have been changed by somebody else since.",
                    path=there.shown,
                    before=place.shown,
                )
            os.rename(name, wanted, src_dir_fd=source, dst_dir_fd=target)
        return ""

    def _beside(self, place: ResolvedPath, step: Step) -> str:
        """What stood there, put beside what somebody else has made of it since."""
        if step.before and step.before.startswith(SAVED):
            trash = self._versions.trash(step.before.removeprefix(SAVED))
            return _("{path} is there again, so what was deleted stays in {trash}.", path=place.shown, trash=trash)
        plain = step.before and stat.S_ISREG(step.mode or 0) and not step.before.startswith(MOVED)
        data = self._versions.read(step.before) if step.before and plain else None
        if data is None or step.before is None:
            return _("{path} may have been changed by somebody else since, so it stays as it is.", path=place.shown)
        if self._now(place) == step.before:
            return ""
        spare = place.path.with_name(f"{place.path.name}.before-{step.before[:8]}")
        put(self._roots, self._roots.place(spare, write=True, follow=False), data)
        if step.labels:
            self._origins.mark((spare,), step.labels)
        return _(
            "{path} may have been changed by somebody else since. What was there before is in {spare}.",
            path=place.shown,
            spare=spare.name,
        )


def _files_told(back: int, fresh: int) -> str:
    """How many files are as before, and how many new ones are in the trash."""
    restored = _n("{number:,} file is as before", "{number:,} files are as before", back)
    removed = _n("{number:,} new file is in the trash", "{number:,} new files are in the trash", fresh)
    if back and fresh:
        return _("{restored}, {removed}.", restored=restored, removed=removed)
    return _("{files}.", files=removed if fresh else restored)


def _path(step: Step) -> str:
    return step.path
