"""A disk without room."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def without_room(size: int) -> Iterator[None]:
    """No file grows beyond `size` bytes, as on a disk without room: the kernel refuses the write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
