"""What a command destroys can be taken back: the files of the roots as they are before it, and what it changed of them.

Of each file the version that it has now is kept, and by its number, its size and its times is told whether it still
has it: the first command copies all, a later one what has changed since. A hard link would be cheaper and is no way:
what is written into a file is written into all of its names.
"""

import errno
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nanobot.files.database import FilesDatabase, Step, note
from nanobot.files.origins import Origins
from nanobot.files.tree import MOST_FILES, Files, identity, tree
from nanobot.files.versions import OUTPUT_FOLDER, Versions, digest_of
from nanobot.security.paths import Roots
from nanobot.utils.text import shorten
from nanobot.utils.translation import _, listed

#: Bytes of one file of which the content is kept, and of all together where nobody says.
MAX_ONE, MAX_ALL = 50_000_000, 500_000_000
#: Seconds that one command waits for files to be copied; the next one goes on where it ended.
MAX_SECONDS = 5.0
#: Seconds in which those are copied that a command has deleted and that were too large to be kept before.
_SAVE_SECONDS = 30.0
#: Files that are copied in one transaction, and seconds in which a change may leave no trace in the times of a file.
_BATCH, _TICK = 256, 0.02
#: Seconds for which the files that a verdict was about are those before the command.
_FRESH = 1.0
#: Files that are not kept and that are held open, and bytes of one that are copied at once.
_OPENED, _PIECE = 64, 1_000_000
#: Where such a file is, instead of a version: in the trash, or under another name, behind its number.
SAVED, MOVED = "trash:", "moved:"
#: Characters of a name in a receipt.
_NAME = 60

_Known = tuple[int, int, int, int, str]


class Snapshot(Struct, frozen=True):
    """The files before a command, None where they are too many. `kept` are their versions, `links` what links led to,
    `marks` those that were foreign, `lost` those whose content is not kept. `last` is the number of the last change by
    then. `opened` are descriptors of the largest that are lost, with which they outlive their names.
    """

    files: Files | None
    kept: Mapping[str, _Known] = {}
    links: Mapping[str, str] = {}
    marks: Mapping[str, tuple[str, ...]] = {}
    lost: frozenset[str] = frozenset()
    last: int = 0
    opened: dict[str, int] = {}

    def close(self) -> None:
        """Let go of the files that are open."""
        while self.opened:
            os.close(self.opened.popitem()[1])

    @property
    def whole(self) -> bool:
        """Whether all that is destroyed after it can be brought back."""
        return self.files is not None and not self.lost

    def held(self, path: str) -> str | None:
        """The version that a file had, or what a link led to; None where it is not kept."""
        if path in self.lost:
            return None
        return self.kept[path][-1] if path in self.kept else self.links.get(path)


_UNSEEN = -_FRESH, Snapshot(None)


class ChangedBy(Struct, frozen=True):
    """Who has changed files: a command `line` in the chat `session`, where `/undo` is for it. `shared`: others may
    have changed files as well, as while a command runs in the background."""

    session: str
    line: str
    shared: bool = False


class Tally(Struct, frozen=True):
    """How many files a command has made, changed and taken away, and which of the last two are not kept.

    `unkept` says why none of it can be taken back.
    """

    made: int = 0
    changed: int = 0
    gone: int = 0
    lost: tuple[str, ...] = ()
    unkept: str = ""

    @property
    def receipt(self) -> str:
        """In a few words for people, such as `+2 ~1 −0 files`; empty where there is nothing to tell."""
        if self.unkept:
            return _("its changes are not kept: {why}", why=self.unkept.rstrip(".。"))
        if not (self.made or self.changed or self.gone):
            return ""
        counted = _("+{made} ~{changed} −{gone} files", made=self.made, changed=self.changed, gone=self.gone)
        names = listed(shorten(one, _NAME) for one in self.lost[:2])
        if len(self.lost) > 2:
            names = _("{names} and {number} more", names=names, number=len(self.lost) - 2)
        return _("{files}; not kept: {names}", files=counted, names=names) if self.lost else counted


class Snapshots:
    """Takes them of the writable `roots`, of at most so many bytes. Its methods wait for the disk."""

    def __init__(
        self, roots: Roots, database: FilesDatabase, versions: Versions, origins: Origins, most: int = MAX_ALL
    ) -> None:
        self._roots = roots
        self._most = most
        self._database = database
        self._versions = versions
        self._origins = origins
        self._mirror: dict[str, _Known] | None = None
        self._seen = _UNSEEN
        self._lock = threading.Lock()

    def whole(self) -> bool:
        """Whether all that a command could destroy now is kept; what is not yet is kept first. Raises `StoreError`.

        What was seen is what `take` gives, where that follows at once.
        """
        with self._lock:
            seen = self._look()
            self._seen = (time.monotonic(), seen) if seen.whole else _UNSEEN
            return seen.whole

    def take(self) -> Snapshot:
        """The files as they are, with as much of what they hold as can be kept; it is to be closed.

        Raises `StoreError`.
        """
        with self._lock:
            at, seen = self._seen
            self._seen = _UNSEEN
            if time.monotonic() - at > _FRESH:
                seen = self._look()
            return replace(seen, opened=self._open(seen.files or {}, seen.lost))

    def _look(self) -> Snapshot:
        """All but what is open, kept as far as it can be."""
        files = self.files()
        last = int((self._database.rows("SELECT coalesce(max(id), 0) FROM changes") or [("0",)])[0][0])
        if files is None:
            return Snapshot(None, last=last)
        newest = max((one.st_ctime for one in files.values()), default=0.0)
        if 0 < (wait := newest + _TICK - time.time()) <= _TICK:
            time.sleep(wait)  # from now on a change leaves a trace in the times of each
        lost = self._keep(files)
        links = {path: _target(path) for path, status in files.items() if stat.S_ISLNK(status.st_mode)}
        return Snapshot(files, self._known().copy(), links, self._origins.marks(), lost, last)

    def _open(self, files: Files, lost: frozenset[str]) -> dict[str, int]:
        opened: dict[str, int] = {}
        forbidden = self._roots.forbidden_names() if lost else set()
        for path in sorted(lost, key=lambda one: -files[one].st_size)[:_OPENED]:
            status = files[path]
            if not self._roots.bars(status) and (status.st_dev, status.st_ino) not in forbidden:
                descriptor = open_found(path, status)
                if descriptor is not None:
                    opened[path] = descriptor
        return opened

    def files(self) -> Files | None:
        """What lies in the writable roots but what is forbidden there; None where it is too much."""
        without = frozenset(map(str, (*self._roots.forbidden, self._roots.workspace / OUTPUT_FOLDER)))
        found: dict[str, os.stat_result] = {}
        tops = [one.path for one in self._roots.roots if one.writable]
        for top in tops:
            if not any(top != one and top.is_relative_to(one) for one in tops):
                below = tree(top, without)
                if below is None:
                    return None
                found |= below
        return found

    def record(self, before: Snapshot, now: Files | None, by: ChangedBy) -> Tally:
        """Note what was changed from `before` to `now` as one change, and tell how much it is."""
        if before.files is None or now is None:
            return Tally(unkept=_("the folders hold more than {most:,} files", most=MOST_FILES))
        claimed = self._claimed(before.last)
        found = [one for one in _steps(before, now, shared=by.shared) if not _is_claimed(one.path, claimed)]
        steps = self._rescued(found, before, now)
        if steps:
            with self._database.transaction() as database:
                note(database, by.session, by.line, steps)
        made = [one for one in found if one.mode is None and not stat.S_ISDIR(now[one.path].st_mode)]
        old = [one for one in steps if one.mode is not None and not stat.S_ISDIR(one.mode)]
        return Tally(
            len(made),
            sum(one.after is not None for one in old),
            sum(one.after is None for one in old),
            tuple(self._roots.shown(Path(one.path)) for one in old if one.before is None),
        )

    def _rescued(self, steps: list[Step], before: Snapshot, now: Files) -> list[Step]:
        """The same, where a file that is not kept has another name now, or is open still though it has none."""
        fresh = {(now[one.path].st_dev, now[one.path].st_ino): one for one in steps if one.mode is None}
        made, trash, end = list[Step](), self._versions.new_trash(), time.monotonic() + _SAVE_SECONDS
        moved = set[str]()
        for step in steps:
            status = (before.files or {}).get(step.path)
            if status is None or step.path not in before.lost or step.before is not None:
                made.append(step)
                continue
            new = fresh.get((status.st_dev, status.st_ino))
            kept = None
            if new is not None and new.after and now[new.path].st_mtime_ns == status.st_mtime_ns:
                kept = f"{MOVED}{status.st_ino}:{new.path}"
                moved.add(new.path)
            elif step.path in before.opened:
                kept = self._saved(before.opened[step.path], status, trash / str(len(made)), end)
            made.append(replace(step, before=kept))
        return [one for one in made if one.mode is not None or one.path not in moved]

    def _saved(self, descriptor: int, status: os.stat_result, target: Path, end: float) -> str | None:
        """Copy a file that has no name any more to the trash; None where it has one, was changed, has no room, or takes
        too long."""
        now = os.fstat(descriptor)
        if now.st_nlink or (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
            return None
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if shutil.disk_usage(target.parent).free < now.st_blocks * 512 + self._most:
                return None
            with target.open("xb") as file:
                _copy(descriptor, file.fileno(), now.st_size, end)
        except OSError:
            target.unlink(missing_ok=True)
            return None
        return f"{SAVED}{target.parent.name}/{target.name}"

    def _claimed(self, last: int) -> frozenset[str]:
        """What others have noted since as changed by them, so that nobody takes it back twice."""
        rows = self._database.rows("SELECT path FROM steps WHERE change > ? AND after IS NOT ''", last)
        return frozenset(path for (path,) in rows)

    # Keeping

    def _known(self) -> dict[str, _Known]:
        if self._mirror is None:
            rows = self._database.rows("SELECT path, inode, size, written, changed, digest FROM mirror")
            self._mirror = {path: (int(a), int(b), int(c), int(d), digest) for path, a, b, c, d, digest in rows}
        return self._mirror

    def _keep(self, files: Files) -> frozenset[str]:
        """Keep what the files hold as far as it is not kept, the small ones first; those that are not."""
        known = self._known()
        plain = [(path, one) for path, one in files.items() if stat.S_ISREG(one.st_mode)]
        lost: list[str] = []
        if sum(map(_size, plain)) > min(MAX_ONE, self._most):  # else none of them is too much
            plain.sort(key=_size)
            sized = zip(plain, accumulate(map(_size, plain)), strict=True)
            lost = [path for (path, one), whole in sized if whole > self._most or one.st_size > MAX_ONE]
        left_out = frozenset(lost)
        fresh = [one for one in plain if not _is_kept(known.get(one[0]), one[1]) and one[0] not in left_out]
        tops = tuple(f"{one.path}/" for one in self._roots.roots if one.writable)
        self._forget([path for path in known if (path not in files or path in left_out) and path.startswith(tops)])
        fresh.sort(key=_size)
        deadline = time.monotonic() + MAX_SECONDS
        while fresh and time.monotonic() < deadline:
            batch, fresh = fresh[:_BATCH], fresh[_BATCH:]
            lost += self._copy(batch)
        return frozenset([*lost, *(path for path, _ in fresh)])

    def _copy(self, batch: list[tuple[str, os.stat_result]]) -> list[str]:
        """Keep some; those that could not be read or kept."""
        rows, lost, known = [], [], self._known()
        forbidden = self._roots.forbidden_names() if any(one.st_nlink > 1 for _, one in batch) else set()
        with self._database.transaction() as database:  # nobody prunes meanwhile
            for path, status in batch:
                barred = self._roots.bars(status) or (status.st_dev, status.st_ino) in forbidden
                data = None if barred else content(path, status)
                try:
                    digest = None if data is None else self._versions.keep(data, safely=False)
                except OSError:
                    digest = None
                if digest is None:
                    lost.append(path)
                else:
                    if path in known:
                        self._versions.touch(known[path][-1])
                    rows.append((path, *identity(status), digest))
            for row in rows:
                known[row[0]] = row[1:]
            database.executemany("INSERT OR REPLACE INTO mirror VALUES (?, ?, ?, ?, ?, ?)", rows)
        return lost

    def _forget(self, paths: list[str]) -> None:
        known = self._known()
        for path in paths:
            self._versions.touch(known.pop(path)[-1])
        if paths:
            with self._database.transaction() as database:
                database.executemany("DELETE FROM mirror WHERE path = ?", [(path,) for path in paths])


def _steps(before: Snapshot, now: Files, *, shared: bool) -> Iterator[Step]:
    for path, old in (before.files or {}).items():
        new = now.get(path)
        if new is not None and new.st_ctime_ns == old.st_ctime_ns and new.st_ino == old.st_ino:
            continue
        if new is None or _differs(path, old, new, before.held(path)):
            after = None if new is None else "" if shared else as_text(new)
            yield Step(path, old.st_mode, before.held(path), after, before.marks.get(path, ()))
    for path, new in now.items():
        if path not in (before.files or {}):
            yield Step(path, None, None, "" if shared else as_text(new))


def _differs(path: str, old: os.stat_result, new: os.stat_result, digest: str | None) -> bool:
    """Whether somebody would see a difference: new times alone are none."""
    if old.st_mode != new.st_mode:
        return True
    if stat.S_ISDIR(old.st_mode):
        return False
    if stat.S_ISLNK(new.st_mode):
        return _target(path) != digest
    if digest is None or old.st_size != new.st_size:
        return True
    data = content(path, new)
    return data is None or digest_of(data) != digest


def content(path: str, status: os.stat_result) -> bytes | None:
    """What a file holds that was found by a walk; None where another one is there now, or it cannot be read."""
    descriptor = open_found(path, status)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_ONE + 1)


def open_found(path: str, status: os.stat_result) -> int | None:
    """A descriptor of a file that was found by a walk; None where another one is there now, or it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    now = os.fstat(descriptor)
    if (now.st_dev, identity(now)) == (status.st_dev, identity(status)):
        return descriptor
    os.close(descriptor)
    return None


def _copy(source: int, target: int, size: int, end: float) -> None:
    """Copy what a file holds; what is a hole in it stays one. Raises `OSError`, also where it takes too long."""
    os.ftruncate(target, size)
    at = hole = 0
    while at < size and time.monotonic() < end:
        if at == hole:
            try:
                at = os.lseek(source, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole is left
                    return
                raise
            hole = os.lseek(source, at, os.SEEK_HOLE)
        at += os.pwrite(target, os.pread(source, min(hole - at, _PIECE), at), at)
    if at < size:
        raise TimeoutError


def as_text(status: os.stat_result) -> str:
    """What a later look compares to tell whether somebody has changed a file since; of a folder only that it is one."""
    return "folder" if stat.S_ISDIR(status.st_mode) else ":".join(map(str, (status.st_mode, *identity(status))))


def _is_kept(known: _Known | None, status: os.stat_result) -> bool:
    return (
        known is not None
        and known[3] == status.st_ctime_ns
        and known[0] == status.st_ino
        and known[1] == status.st_size
    )


def _is_claimed(path: str, claimed: frozenset[str]) -> bool:
    return bool(claimed) and (path in claimed or any(str(one) in claimed for one in Path(path).parents))


def _size(found: tuple[str, os.stat_result]) -> int:
    return found[1].st_size


def _target(path: str) -> str:
    """What a link leads to; empty where it is none any more."""
    try:
        return os.readlink(path)  # noqa: PTH115 - fast
    except OSError:
        return ""
