"""The files around one command: what they are before it, what it may not change, and what it has changed of them."""

import contextlib
import os
import tempfile
import time
from pathlib import Path

from nanobot.config.paths import PEOPLE
from nanobot.errors import NanobotError
from nanobot.files.snapshots import ChangedBy, Snapshot, Tally
from nanobot.files.store import FileStore
from nanobot.files.versions import remove_tree
from nanobot.security.control_files import ControlFiles, control_files
from nanobot.security.paths import WORKSPACE_CONTROL
from nanobot.utils.host import walk


class FilesAround:
    """The files of `store` before and after one command. Its methods wait for the disk.

    `tainted`: content from outside stands in the conversation; `foreign`: so it does, or the command can fetch some.
    A file in its reach that came from outside, or that another person has written, counts as both: it may be what is
    run. `home` is an empty folder of the command alone, `tally` what it has changed, after it.
    Raises `PathError` where too many files lie in the roots.
    """

    def __init__(self, store: FileStore, *, tainted: bool, foreign: bool) -> None:
        self.store = store
        self._tainted = tainted
        #: Whether what the command prints may be from outside: the conversation or a file in its reach is.
        self.foreign = foreign
        self._began = time.time()
        self._number = 0
        self._known: frozenset[tuple[int, int]] = frozenset()
        #: What usually holds keys, which a command is not shown beside content from outside.
        self.keys: tuple[Path, ...] = ()
        #: What a sandbox should keep as it is, whether it exists already or not.
        self.protected: tuple[Path, ...] = ()
        self._control = ControlFiles(())
        self._before = Snapshot(None)
        self.home = Path()
        self.tally = Tally()

    def prepare(self) -> None:
        """Before the command: note and keep what it may not change, and what it may. Raises `NanobotError` and
        `OSError`; it is to be dropped then."""
        store, reach = self.store, self._reaches()
        self.keys = store.roots.key_files() if self._tainted else ()
        self.foreign |= reach
        roots = [one.path for one in store.roots.roots if one.writable] if self._tainted or reach else []
        ours = [store.roots.workspace / name for name in WORKSPACE_CONTROL] if store.roots.workspace in roots else []
        self.protected = (*(path for root in roots for path in control_files(root)), *ours)
        if self.foreign:
            self._known, self._number = store.origins.identities(), store.origins.begin()
        with store.alone() if self.protected else contextlib.nullcontext():
            self._control = ControlFiles(self.protected)
            if self.protected and not self.too_many:
                store.steering.begin(self._number, self._control.places, self._control.files)
        self._before = store.snapshots.take()
        self.home = Path(os.path.realpath(tempfile.mkdtemp(prefix="nanobot-home-")))

    @property
    def too_many(self) -> bool:
        """Whether what steers is too much to be kept."""
        return self._control.too_many

    @property
    def whole(self) -> bool:
        """Whether all that the command could destroy can be brought back."""
        return self._before.whole

    def drop(self) -> None:
        """The command was not started."""
        if self._number:
            self.store.origins.drop(self._number)
        self._before.close()
        self._remove_home()

    def settle(self, told: ChangedBy) -> tuple[str, ...]:
        """After the command: put back what steers, mark what was written, and note what was changed, so that `/undo`
        takes it back; a sentence for what was put back."""
        store = self.store
        notes = self._put_back()
        self._remove_home()
        now = store.snapshots.files()
        if not self.foreign and self._reaches():  # what came meanwhile may have been copied
            self.foreign, self._number = True, store.origins.begin(self._began)
        if self.foreign:
            store.origins.end(self._number, self._known, now)
        try:
            self.tally = store.snapshots.record(self._before, now, told)
        except NanobotError as error:
            self.tally = Tally(unkept=str(error))
        self._before.close()
        return notes

    def _put_back(self) -> tuple[str, ...]:
        """What the owner has approved meanwhile stays, and nothing is approved while it is put back."""
        if not self.protected:
            return ()
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(NanobotError):  # it is put back also where somebody else holds the lock too long
                stack.enter_context(self.store.alone())
            with contextlib.suppress(NanobotError):
                self._control.expect(self.store.steering.wanted(self._number, self._control.files))
            with contextlib.suppress(OSError):
                return self._control.put_back(self.store.new_trash())
            return self._control.put_back()

    def _reaches(self) -> bool:
        """Whether a file in its reach came from outside, or belongs to another person."""
        others = (self.store.roots.workspace / PEOPLE).is_dir()
        return others or any(self.store.origins.below(one.path) for one in self.store.roots.roots)

    def _remove_home(self) -> None:
        if not self.home.name:
            return
        for at, folders, _ in walk(self.home):  # what the command has closed is opened for that
            for name in folders:
                with contextlib.suppress(OSError):
                    if not os.path.islink(os.path.join(at, name)):  # noqa: PTH114, PTH118 - fast
                        os.chmod(os.path.join(at, name), 0o700)  # noqa: PTH101, PTH118
        remove_tree(self.home)


def first_line(note: str) -> str:
    """What a note says, without the advice that follows for the model."""
    return note.partition("\n")[0].removesuffix(".")
