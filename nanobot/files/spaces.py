"""Whose files are whose: the owner's workspace and roots, and a folder of their own for all who were granted one."""

import contextlib
import hashlib
import stat
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from nanobot.config.paths import PEOPLE, folder_name
from nanobot.errors import PathError
from nanobot.files.inbox import INBOX, holds, inbox_name, prune_inbox, put
from nanobot.files.snapshots import MAX_ALL
from nanobot.files.store import FileStore
from nanobot.messages import Role
from nanobot.security.paths import Root, Roots
from nanobot.utils.host import settled
from nanobot.utils.translation import N_, _

#: Bytes of a file elsewhere on the machine that is copied because somebody names it.
_COPIED = 100_000_000
_NOBODY = N_("Files belong to the owner and to those whom the owner grants them.")
_READ_ALONG = N_("Files are read and changed where nobody else reads along, and this is a group. Ask in a direct chat.")


class FileUser(Struct, frozen=True):
    """Who works with files: the role and rights of the turn, and `key`, such as `telegram:42`. `direct`: no group."""

    role: Role
    key: str
    direct: bool = True
    granted: bool = False


_OWNER = FileUser("owner", "")


class FileSpaces:
    """The files of everybody. `home` is nanobot's own, which nobody sees; versions and trash are kept there.

    The first of `roots` is the workspace; all of them are the owner's. `forbidden` is what else nobody sees, `person`
    the folder of who runs nanobot, with their keys in it. `outside` is a folder whose files are of others. Before a
    command at most `snapshot_bytes` of files are kept.
    """

    def __init__(
        self,
        roots: tuple[Root, ...],
        home: Path,
        forbidden: tuple[Path, ...],
        person: Path,
        outside: Path | None = None,
        *,
        snapshot_bytes: int = MAX_ALL,
    ) -> None:
        self._snapshot_bytes = snapshot_bytes
        self._roots = roots
        self._outside = outside
        self._home = home
        self._forbidden = (home, *forbidden)
        self._person = person
        self._stores: dict[str, FileStore] = {}
        self._lock = threading.Lock()

    def of(self, person: FileUser, *, own: bool = False) -> FileStore:
        """The files of a person. Raises `PathError` for those who have none, and in groups."""
        if not self.may(person, own=own):
            raise PathError(_(_NOBODY if person.direct else _READ_ALONG))
        return self._store("" if person.role == "owner" else person.key)

    def may(self, person: FileUser, *, own: bool = False) -> bool:
        """Whether a person has files here; `own`: for what they do by themselves, without a model, for which nobody
        needs a grant."""
        return person.direct and (person.role == "owner" or (person.role == "user" and (own or person.granted)))

    def receive(self, person: FileUser, source: Path, name: str) -> str:
        """Copy a file that somebody sent into the inbox of a person, as content from outside; its path there.

        `name` is theirs, of which a harmless one is made. What came before under the same name stays, and the same
        file is there once. Raises `PathError`, `StoreError` and `OSError`.
        """
        store, plain = self.of(person), inbox_name(name)
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            stem, ending = Path(plain).stem, Path(plain).suffix
            for wanted in (plain, f"{stem}-{digest[:8]}{ending}"):
                file.seek(0)
                place = store.roots.place(f"{INBOX}/{wanted}", write=True, follow=False)
                if put(store, place, file) or holds(store, place, digest):
                    return place.shown
        raise PathError(_("There are other files in {folder} that are called {name}.", folder=INBOX, name=plain))

    def locate(self, path: Path, *, copy: bool) -> str:
        """The path of a file of this machine among those of the owner, to whose inbox it is copied if `copy` where it
        is not there; empty for what holds keys or is nanobot's own. Raises what `receive` raises."""
        roots = self._store("").roots
        with contextlib.suppress(PathError):  # a name with hidden signs is shown as one that leads nowhere
            place = roots.place(str(path))
            if roots.place(place.shown).path.exists():
                return place.shown
        if not copy or roots.forbids(path):
            return ""
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # a pipe or a device may never end
            raise PathError(_("{path} is no file. Name one that holds text, a picture or a document.", path=path))
        if (size := found.st_size) > _COPIED:
            raise PathError(
                _(
                    "It has {size:,} bytes, and {most:,} are copied. tools.files.roots can add its folder.",
                    size=size,
                    most=_COPIED,
                )
            )
        return self.receive(_OWNER, path, path.name)

    def foreign_below(self, folder: Path) -> frozenset[str]:
        """The files below a folder that hold content from outside, whoever has them."""
        return self._store("").origins.below(folder)

    def doubted(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Those of these files, whoever has them, that a command which runs may have written."""
        return self._store("").steering.doubted(paths)

    def prune(self) -> None:
        """Let go of old versions and trash, and of what was sent long ago, or of too much of it."""
        at = settled(self._home, datetime.now(UTC)).timestamp()
        self._store("").end_lost()
        self._store("").prune(now=at)
        workspace = self._roots[0].path
        for folder in (workspace, *(one for one in (workspace / PEOPLE).glob("*") if not one.is_symlink())):
            prune_inbox(folder, at)

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _store(self, key: str) -> FileStore:
        with self._lock:
            if key not in self._stores:
                roots = self._of_user(key) if key else Roots(self._roots, self._forbidden, self._person)
                self._stores[key] = FileStore(roots, self._home / "files", self._outside, self._snapshot_bytes)
            return self._stores[key]

    def _of_user(self, key: str) -> Roots:
        folder = self._roots[0].path / PEOPLE / folder_name(key)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise PathError(_("The folder of this person cannot be made: {why}.", why=why)) from None
        return Roots((Root(folder, writable=True),), self._forbidden, self._person)
