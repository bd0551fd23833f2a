"""What this machine and this installation give: the files that travel with the package, folders of any depth, files of
SQLite, the zone of the clock, whether a process still lives, and that all terminals are one place."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from nanobot.utils.translation import _

if TYPE_CHECKING:
    import sqlite3

_PACKAGE = Path(__file__).resolve().parent.parent
_LOCALTIME = Path("/etc/localtime")
_PROCESSES = Path("/proc")
#: Seconds between two looks at a file that somebody else writes.
_PAUSE = 0.01
_FAULTS = (ZoneInfoNotFoundError, ValueError, OSError)


@cache
def shipped(name: str) -> Path:
    """The folder `templates` or `docs`: inside the package in a wheel, beside it in a checkout or an editable install.

    Raises `FileNotFoundError` where an installation lacks it.
    """
    for folder in (_PACKAGE / name, _PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    # English: an OSError, for whoever reports the installation
    raise FileNotFoundError(f"{name} is missing from {_PACKAGE}; install nanobot again")


def typed_path(text: str) -> Path:
    """The path that a person has typed, with `~` and `~anna` for their folders; as it is where nobody is called so."""
    with suppress(RuntimeError):
        return Path(text).expanduser()
    return Path(text)


def given_name(made: Path, place: Path) -> bool:
    """Give a finished file beside a place the name of that place; False where somebody has it by now. Raises
    `OSError`."""
    try:
        os.link(made, place)
    except FileExistsError:
        return False
    except OSError:  # a disk without links
        if os.path.lexists(place):
            return False
        made.rename(place)
    return True


def held_advice(error: Exception) -> str:
    """What to do about a file of SQLite that is whole and cannot be used now; empty for another error."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith("SQLITE_BUSY"):
        return _("Another program keeps it to itself, such as a backup or an editor of databases: end that one first.")
    if name.startswith("SQLITE_READONLY") or isinstance(error, PermissionError):
        return _("It may not be written: see to the rights of the file, its folder and its disk.")
    return ""


def walk(top: Path, onerror: Callable[[OSError], object] | None = None) -> Iterator[tuple[str, list[str], list[str]]]:
    """`os.walk` from the top down, which before Python 3.12 raises `RecursionError` below a thousand folders."""
    left = [os.fspath(top)]
    while left:
        for place, inner, files in os.walk(left.pop(), onerror=onerror):
            yield place, inner, files
            below = (os.path.join(place, name) for name in reversed(inner))  # noqa: PTH118 - fast
            left += (one for one in below if not os.path.islink(one))  # noqa: PTH114
            break


def write_ahead(db: "sqlite3.Connection", seconds: float) -> None:
    """Have changes of this file written to a log beside it, so that reading goes on while something is written.

    SQLite makes that of a new file only while nobody else has a transaction there, and refuses it at once, whatever the
    connection's own limit is: two processes may begin in the same moment. So it is asked again for `seconds`.
    Raises `sqlite3.Error`.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL").close()
        except Exception as error:
            if getattr(error, "sqlite_errorname", "") != "SQLITE_BUSY" or time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        else:
            return


def zone_of(name: str = "", env: Mapping[str, str] | None = None, localtime: Path = _LOCALTIME) -> tzinfo:
    """The zone of that IANA name; for an empty one that of the system: TZ, else what `localtime` is; UTC at last.

    `localtime` is the file that Linux and macOS keep the zone in, a link into the database of zones or a copy
    (localtime(5)).
    """
    known = name or (os.environ if env is None else env).get("TZ", "").removeprefix(":")
    if not known and localtime.is_symlink():
        known = str(localtime.resolve()).rpartition("zoneinfo/")[2]
    try:
        if known and not known.startswith("/"):
            return ZoneInfo(known)
        with Path(known or localtime).open("rb") as file:
            return ZoneInfo.from_file(file)
    except _FAULTS:
        return UTC


def midnight_in(zone: tzinfo) -> datetime:
    """When the day began in a zone."""
    return datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0)


#: Days on which nanobot has run, until things are deleted for their age.
SETTLED_DAYS = 8
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def settled(home: Path, at: datetime) -> datetime:
    """The time by which the age of things is judged that are deleted for it: the eighth last day on which nanobot ran.

    So a clock that is ahead for some days deletes nothing. The days are kept in the home; it is long ago as long as
    there are fewer, or where they cannot be kept.
    """
    file, today = home / "days", f"{at.astimezone(UTC):%Y-%m-%d}"
    try:
        known = file.read_text(encoding="ascii").split() if file.exists() else []
        days = [*sorted(one for one in known if one < today)[1 - SETTLED_DAYS :], today]
        if days != known:
            file.touch(mode=0o600)
            file.write_text("\n".join(days), encoding="ascii")
        return datetime.fromisoformat(f"{days[-SETTLED_DAYS]}T00:00+00:00")
    except (OSError, ValueError, IndexError):
        return _LONG_AGO


def process_identity(pid: int) -> str:
    """What tells a running process from a later one with its number: its namespace of numbers, and when it started.

    Empty for a process that has ended, and on systems without `/proc` (proc_pid_stat(5)).
    """
    try:
        namespace = (_PROCESSES / "self" / "ns" / "pid").readlink()
        # The name of the program stands in parentheses and may hold blanks: the state is the first word behind it.
        told = (_PROCESSES / str(pid) / "stat").read_bytes().rpartition(b")")[2]
    except OSError:
        return ""
    state, *others = told.decode().split()
    return "" if state in {"Z", "X"} else f"{namespace} {others[18]}"


def has_ended(pid: int, identity: str) -> bool:
    """True where the process that had this `process_identity` surely runs no more; False where nobody can tell."""
    here = process_identity(os.getpid()).partition(" ")[0]
    return bool(here) and identity.startswith(f"{here} ") and process_identity(pid) != identity
