"""What is too long for a request of a model, kept whole in a folder where `read_file` pages through it."""

import contextlib
import errno
import os
import secrets
import time
from typing import IO

from nanobot.files.inbox import put
from nanobot.files.store import FileStore
from nanobot.files.versions import OUTPUT_FOLDER

#: How many of them are kept.
OUTPUTS_KEPT = 20


def keep_output(store: FileStore, output: IO[bytes], labels: tuple[str, ...]) -> str:
    """Copy a long output to a file of its own; its path. The oldest such files go.

    `labels` name the content from outside that it may hold. Raises `OSError` and `PathError` where it cannot stand
    there, and leaves no part of it.
    """
    roots = store.roots
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}.txt"
    place = roots.place(f"{OUTPUT_FOLDER}/{name}", write=True)
    if not put(store, place, output, labels):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with roots.parent(place) as (folder, _inner):
        for old in sorted(one for one in os.listdir(folder) if one.endswith(".txt"))[:-OUTPUTS_KEPT]:  # noqa: PTH208
            with contextlib.suppress(OSError):
                os.unlink(old, dir_fd=folder)
    return place.shown
