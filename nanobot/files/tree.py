"""All files below a folder as they are now: walked by descriptors of folders, so that no link leads out of it."""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from nanobot.security.paths import FOLDER

#: Most files below a root that are looked at one by one, and most folders above one of them.
MOST_FILES, _DEEPEST = 200_000, 100

#: What tells that a file is as it was: its number, bytes, and when it and what is known of it were changed, in ns.
Identity = tuple[int, int, int, int]
#: Everything below some folders, by its absolute path.
Files = Mapping[str, os.stat_result]


def identity(status: os.stat_result) -> Identity:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def tree(top: Path, without: frozenset[str] = frozenset()) -> dict[str, os.stat_result] | None:
    """Everything below `top` by its absolute path, but what lies at or below `without`; None where it is too much.

    What cannot be looked into is left out.
    """
    found: dict[str, os.stat_result] = {}
    with contextlib.suppress(OSError):
        descriptor = os.open(top, FOLDER)
        try:
            _fill(found, descriptor, f"{top}/" if top.parent != top else "/", without, 0)
        finally:
            os.close(descriptor)
    return None if len(found) > MOST_FILES else found


def _fill(found: dict[str, os.stat_result], folder: int, at: str, without: frozenset[str], depth: int) -> None:
    below: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            path = at + entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # gone meanwhile
            if path not in without:
                found[path] = status
                if stat.S_ISDIR(status.st_mode):
                    below.append(entry.name)
    for name in below:
        if len(found) > MOST_FILES or depth >= _DEEPEST:
            return
        with contextlib.suppress(OSError):
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                _fill(found, inner, f"{at}{name}/", without, depth + 1)
            finally:
                os.close(inner)


def changed(folder: Path, began: float) -> Iterator[Path]:
    """The files below a folder that have changed since; the folder itself where they are too many to be looked at."""
    found = tree(folder)
    if found is None:
        yield folder
        return
    for path, status in found.items():
        if status.st_ctime >= began and stat.S_ISREG(status.st_mode):
            yield Path(path)
