"""Locks that end with the process that holds them, so that one thing is done by one process."""

import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from types import TracebackType

from nanobot.errors import StoreError


class FileLock:
    """A context manager on a file. Entering raises `StoreError` with `taken`, in which `{pid}` is the holder's number.

    The file stays afterwards: deleting it would let somebody lock a file that is no longer there.
    """

    def __init__(self, path: Path, taken: str) -> None:
        self._path = path
        self._taken = taken
        self._file: int | None = None

    def __enter__(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreError(f"The lock {self._path} cannot be made: {error.strerror}.") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(file, 20).decode("ascii", "replace").strip()
            os.close(file)
            raise StoreError(self._taken.format(pid=holder or "unknown")) from error
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        self._file = file

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def token_lock(token: str, folder: Path | None = None) -> FileLock:
    """One poller per bot token for every home of one user; the token itself is in no file name."""
    place = folder or Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"nanobot-{os.getuid()}"
    digest = hashlib.sha256(token.encode()).hexdigest()[:16]
    taken = (
        "Another nanobot on this machine (process {pid}) already answers this bot. Stop it first, or give this "
        "one a bot of its own."
    )
    return FileLock(place / f"bot-{digest}.lock", taken)


def home_lock(home: Path) -> FileLock:
    """One gateway per home."""
    taken = f"A gateway is running already with {home} (process {{pid}}). Stop it first, or name another NANOBOT_HOME."
    return FileLock(home / "gateway.lock", taken)
