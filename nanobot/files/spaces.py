"""Whose files are whose: the owner's workspace and roots, and a folder of their own for all who were granted one."""

import threading
from pathlib import Path

from msgspec import Struct

from nanobot.config.paths import PEOPLE, folder_name
from nanobot.errors import PathError
from nanobot.files.store import FileStore
from nanobot.messages import Role
from nanobot.security.paths import Root, Roots

_NOBODY = "Files belong to the owner and to those whom the owner grants them."
_READ_ALONG = "Files are read and changed where nobody else reads along, and this is a group. Ask in a direct chat."


class FileUser(Struct, frozen=True):
    """Who works with files: the role and rights of the turn, and `key`, such as `telegram:42`. `direct`: no group."""

    role: Role
    key: str
    direct: bool = True
    granted: bool = False


class FileSpaces:
    """The files of everybody. `home` is nanobot's own, which nobody sees; versions and trash are kept there.

    The first of `roots` is the workspace; all of them are the owner's. `forbidden` is what else nobody sees, `person`
    the folder of who runs nanobot, with their keys in it. `outside` is a folder whose files are of others.
    """

    def __init__(
        self,
        roots: tuple[Root, ...],
        home: Path,
        forbidden: tuple[Path, ...],
        person: Path,
        outside: Path | None = None,
    ) -> None:
        self._roots = roots
        self._outside = outside
        self._home = home
        self._forbidden = (home, *forbidden)
        self._person = person
        self._stores: dict[str, FileStore] = {}
        self._lock = threading.Lock()

    def of(self, person: FileUser) -> FileStore:
        """The files of a person. Raises `PathError` for those who have none, and in groups."""
        if not person.direct:
            raise PathError(_READ_ALONG)
        if person.role == "owner":
            return self._store("")
        if person.role == "user" and person.granted:
            return self._store(person.key)
        raise PathError(_NOBODY)

    def foreign_below(self, folder: Path) -> frozenset[str]:
        """The files below a folder that hold content from outside, whoever has them."""
        return self._store("").foreign_below(folder)

    def prune(self) -> None:
        """Let go of old versions and trash."""
        self._store("").end_lost()
        self._store("").prune()

    def close(self) -> None:
        for store in self._stores.values():
            store.close()

    def _store(self, key: str) -> FileStore:
        with self._lock:
            if key not in self._stores:
                roots = self._of_user(key) if key else self._of_owner()
                self._stores[key] = FileStore(roots, self._home / "files", self._outside)
            return self._stores[key]

    def _of_owner(self) -> Roots:
        return Roots(self._roots, self._forbidden, self._person)

    def _of_user(self, key: str) -> Roots:
        folder = self._roots[0].path / PEOPLE / folder_name(key)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise PathError(f"The folder of this person cannot be made: {error.strerror or error}.") from None
        return Roots((Root(folder, writable=True),), self._forbidden, self._person)
