"""Locks that end with the process that holds them, so that one thing is done by one process."""

import fcntl
import hashlib
import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from nanobot.errors import StoreError
from nanobot.utils.processes import is_alive
from nanobot.utils.translation import N_, _

_IN_USE = "in-use.lock"
_NOT_MADE = N_("The lock {path} cannot be made: {why}.")
#: Seconds between looks at a lock that is shared, and how many: the last who shares it has it alone as it goes.
_LOOK, _LOOKS = 0.01, 50


class FileLock:
    """A context manager on a file. Entering raises `StoreError`: `taken` with its `values` and the `holder`.

    The file goes with the lock; whoever has opened it meanwhile sees that it is gone, and makes a new one. One that is
    `shared` keeps out only those that want it for themselves.
    """

    def __init__(self, path: Path, taken: str = "", *, shared: bool = False, **values: object) -> None:
        self._path = path
        self._taken, self._values = taken, values
        self._way = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._file: int | None = None

    def take(self) -> str:
        """Lock it; empty where that is done, else who has it. Raises `StoreError` where the file cannot be made."""
        looks = _LOOKS if self._way == fcntl.LOCK_SH else 1
        while True:
            try:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as error:
                raise StoreError(_(_NOT_MADE, path=self._path, why=error.strerror)) from error
            try:
                fcntl.flock(file, self._way | fcntl.LOCK_NB)
            except OSError as error:
                holder = os.read(file, 20).decode("ascii", "replace").partition("\n")[0].strip()
                os.close(file)
                if not isinstance(error, BlockingIOError):  # as on a disk without locks
                    raise StoreError(_(_NOT_MADE, path=self._path, why=error.strerror)) from error
                if looks := looks - 1:
                    time.sleep(_LOOK)
                    continue
                return _("process {number}", number=holder) if holder else _("process unknown")
            if self._stands(file):
                break
            os.close(file)
        with suppress(OSError):  # a disk without room: the number is for people, the lock holds without it
            os.ftruncate(file, 0)
            os.write(file, str(os.getpid()).encode())
        self._file = file
        return ""

    @property
    def held(self) -> bool:
        """Whether a living process seems to hold it. The lock is not touched: whoever takes it meanwhile gets it."""
        with suppress(OSError, UnicodeDecodeError):
            # What older versions have noted of themselves follows.
            holder = self._path.read_text(encoding="utf-8").partition("\n")[0].strip()
            return holder.isdecimal() and is_alive(int(holder))
        return False

    def release(self) -> None:
        """Give it back, if it is held."""
        if self._file is not None:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails where others share it, who need the file
                self._path.unlink()
            os.close(self._file)
            self._file = None

    def _stands(self, file: int) -> bool:
        """Whether the open file is still the one at the path: its last holder may have taken it away meanwhile."""
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            return False

    def __enter__(self) -> None:
        holder = self.take()
        if holder:
            raise StoreError(_(self._taken, holder=holder, **self._values))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def session_lock(store: Path, session_id: str) -> FileLock:
    """One turn at a time in a session of the file `store`, in whichever process."""
    return FileLock(Path(f"{store}-turns/{session_id}"))


def token_lock(token: str, folder: Path | None = None) -> FileLock:
    """One poller per bot token for every home of one user; the token itself is in no file name."""
    place = folder or _runtime()
    digest = hashlib.sha256(token.encode()).hexdigest()[:16]
    taken = N_(
        "Another nanobot on this machine ({holder}) already answers this bot. Stop it first, or give this "
        "one a bot of its own."
    )
    return FileLock(place / f"bot-{digest}.lock", taken)


def _runtime() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"nanobot-{os.getuid()}"


def terminal_jobs_lock(home: Path) -> FileLock:
    """One process of a home does the jobs that report to the terminal."""
    taken = N_("Somebody talks in a terminal with {home} ({holder}). Leave that with /quit first.")
    return FileLock(home / "terminal-jobs.lock", taken, home=home)


def home_lock(home: Path) -> FileLock:
    """One gateway per home."""
    taken = N_("A gateway is running already with {home} ({holder}). Stop it first, or name another NANOBOT_HOME.")
    return FileLock(home / "gateway.lock", taken, home=home)


def home_use_lock(home: Path) -> FileLock:
    """Shared by all that answer in a home without its gateway, so that nothing is restored under them."""
    taken = N_("A backup is being put into the place of {home} ({holder}). Try again when that is done.")
    return FileLock(home / _IN_USE, taken, shared=True, home=home)


def restore_lock(home: Path) -> FileLock:
    """One restore in a home, and nobody who is being answered there meanwhile."""
    taken = N_("Something is being answered or restored in {home} ({holder}). Try again when that has ended.")
    return FileLock(home / _IN_USE, taken, home=home)
