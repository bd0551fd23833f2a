"""What people send: the names that it gets, where it is put, and for how long it stays."""

import contextlib
import hashlib
import os
import shutil
import stat
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from loguru import logger

from nanobot.errors import PathError
from nanobot.files.store import FileStore
from nanobot.security.paths import ResolvedPath, is_control
from nanobot.utils.host import walk
from nanobot.utils.text import squeeze
from nanobot.utils.translation import N_

#: Where what people send is put, in the folder of each.
INBOX = "inbox"
#: What is said of the origin of such files.
_SENT = (N_("file that was sent"),)
#: Signs of a name that stay besides letters and digits, and bytes that it may have.
_NAME_SIGNS, _NAME_BYTES = frozenset(" ._-+()"), 120
#: Days and bytes of what was sent to one person that stay.
KEPT_DAYS, KEPT_BYTES = 90, 1_000_000_000
#: Bytes of a file, and files, in which is looked for names of what was sent; and the endings of those files.
_MOST_TEXT, _MOST_FILES = 1_000_000, 5_000
_TEXTS = frozenset((".md", ".txt", ".org", ".rst", ".html", ".csv", ".json", ".yaml", ".yml", ".tex"))


def inbox_name(name: str) -> str:
    """A name of a file from that of a sender: no path, no option of a program, no sign of a shell, and none that
    steers the agent."""
    last = squeeze(unicodedata.normalize("NFC", name)).replace("\\", "/").rpartition("/")[2]
    plain = "".join(sign if sign.isalnum() or sign in _NAME_SIGNS else "_" for sign in last).strip(" -").rstrip(" .")
    stem, ending = Path(plain or "file").stem, Path(plain or "file").suffix
    ending = ending if len(ending.encode()) <= _NAME_BYTES // 4 else ""
    stem = stem.encode()[: _NAME_BYTES - len(ending.encode())].decode("utf-8", "ignore").rstrip(" .")
    found = f"{stem}{ending}" or "file"
    return f"sent-{found}" if is_control((found,)) else found


def put(store: FileStore, place: ResolvedPath, file: IO[bytes], labels: tuple[str, ...] = _SENT) -> bool:
    """Copy `file` to where nothing is yet, as one that came from outside where `labels` say so; False where something
    is. Leaves no part of it where that fails. Raises `PathError` and `OSError`."""
    with store.roots.parent(place, create=True) as (folder, name):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, 0o600, dir_fd=folder)
        except FileExistsError:
            return False
        try:
            with os.fdopen(descriptor, "wb") as target:
                if labels:
                    store.origins.mark((place.path,), labels)  # before a byte of it is there
                shutil.copyfileobj(file, target, 1_000_000)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
    return True


def holds(store: FileStore, place: ResolvedPath, digest: str) -> bool:
    """Whether a file with this digest is there."""
    try:
        with os.fdopen(store.roots.open(place), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except (PathError, OSError):  # a folder or a link has the name
        return False


def prune_inbox(folder: Path, now: float | None = None) -> None:
    """Delete what was sent to the person of a folder long ago, and the oldest of it where it is too much.

    What a text in their folder names stays, whatever its age. Raises nothing: what cannot be deleted is left.
    """
    at = time.time() if now is None else now
    sent = sorted(_sent(folder / INBOX), key=lambda one: one[1].st_mtime, reverse=True)
    whole, leaving = 0, []
    for path, status in sent:
        whole += status.st_size
        if whole > KEPT_BYTES or at - status.st_mtime > KEPT_DAYS * 86_400:
            leaving.append(path)
    named = _named(folder, {path.name for path in leaving}) if leaving else frozenset[str]()
    gone = 0
    for path in leaving:
        if path.name not in named:
            with contextlib.suppress(OSError):
                path.unlink()
                gone += 1
    if gone:
        logger.info("{} files that were sent are deleted from {}", gone, folder / INBOX)


def _sent(inbox: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The plain files of an inbox that is a folder, and no link to one."""
    with contextlib.suppress(OSError):
        if inbox.is_symlink():
            return
        for path in inbox.iterdir():
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path, status


def _named(folder: Path, names: set[str]) -> frozenset[str]:
    """Those of these names that a text of the folder holds; all of them where it has too many texts to tell."""
    found: set[str] = set()
    looked = 0
    for above, folders, files in walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".") and (Path(above) != folder or one != INBOX)]
        for name in files:
            path = Path(above) / name
            with contextlib.suppress(OSError):
                if path.suffix.lower() not in _TEXTS or path.is_symlink() or path.stat().st_size > _MOST_TEXT:
                    continue
                looked += 1
                if looked > _MOST_FILES:
                    return frozenset(names)
                text = path.read_text(encoding="utf-8", errors="replace")
                found |= {one for one in names if one in text}
    return frozenset(found)
