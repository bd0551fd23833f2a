"""Which processes are below one: from /proc where there is one, else as `ps` lists them.

Imports nothing but the standard library's small modules, because it runs before every command.
"""

import contextlib
import os
from collections.abc import Iterable

_HAS_PROC = os.path.exists("/proc/self/stat")  # noqa: PTH110 - pathlib takes longer to import


def descendants(of: int, *, proc: bool = _HAS_PROC) -> list[int]:
    """Every process below one, nearest first.

    Those whose parent ended are below the nearest subreaper (prctl(2)); where the system has none they are not found.
    """
    children: dict[int, list[int]] = {}
    for process, parent in _from_proc() if proc else _from_ps():
        children.setdefault(parent, []).append(process)
    found = list(children.get(of, ()))
    for one in found:
        found += children.get(one, ())
    return found


def send(processes: Iterable[int], number: int) -> None:
    """Send a signal to those of these processes, or groups, that are there and ours."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def parent_of(process: int) -> int:
    """Raises `OSError` for a process that has ended."""
    with open(f"/proc/{process}/stat", "rb") as told:  # noqa: PTH123
        return int(told.read().rpartition(b")")[2].split()[1])


def processes_of_user() -> int:
    """What the limit of processes counts: every thread of this user on Linux (setrlimit(2)), else every process."""
    return _threads(os.getuid()) if _HAS_PROC else listed_processes(os.getuid())


def listed_processes(user: int) -> int:
    """How many processes of a user `ps` lists."""
    return len(_listed(f"-U{user}", "-opid="))


def _threads(user: int) -> int:
    count = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == user:
                count += os.stat(f"/proc/{entry.name}/task").st_nlink - 2  # noqa: PTH116
    return count


def _from_proc() -> Iterable[tuple[int, int]]:
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(OSError):
                yield int(name), parent_of(int(name))


def _from_ps() -> Iterable[tuple[int, int]]:
    return ((int(words[0]), int(words[1])) for words in _listed("-A", "-opid=", "-oppid=") if len(words) == 2)


def _listed(*options: str) -> list[list[str]]:
    """What `ps` (POSIX) lists, without itself."""
    import subprocess

    with subprocess.Popen(["/bin/ps", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as ps:  # noqa: S603 - options of ours
        lines = [line.split() for line in ps.communicate()[0].splitlines()]
    return [words for words in lines if words and words[0] != str(ps.pid)]
