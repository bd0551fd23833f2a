"""`systemctl --user` and `loginctl` as far as a service needs them: reads the unit, runs its command, ends it.

As a program it is one of both, by the name that it is called with; `service_manager` puts them into a folder for
PATH. What is started has only the variables of the unit and of its file, as under the real one, and those named in
FAKE_KEEPS.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def service_manager(folder: Path, notify: Path) -> Iterator[Path]:
    """The two programs in a new folder, meanwhile; whoever they start tells `notify`, a socket of datagrams, how it is,
    and is killed at the end where nobody has stopped it."""
    folder.mkdir()
    for name in ("systemctl", "loginctl"):
        program = folder / name
        words = shlex.join([sys.executable, __file__, name, str(folder), str(notify)])
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
    try:
        yield folder
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((folder / "pid").read_text(encoding="ascii")), signal.SIGKILL)


def directives(unit: Path) -> dict[str, str]:
    """The last value of each directive of a unit."""
    lines = (line.partition("=") for line in unit.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    return {name: value for name, sign, value in lines if sign}


def _start(unit: Path, folder: Path, notify: str) -> None:
    found = directives(unit)
    lines = Path(found["EnvironmentFile"].removeprefix("-")).read_text(encoding="utf-8").splitlines()
    env = dict(word.split("=", 1) for line in (found["Environment"], *lines) for word in shlex.split(line))
    env |= {"NOTIFY_SOCKET": notify, "WATCHDOG_USEC": "400000", "XDG_RUNTIME_DIR": str(folder)}
    env |= {name: os.environ[name] for name in os.environ.get("FAKE_KEEPS", "").split()}
    log = (folder / "journal").open("ab")
    words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(found["ExecStart"])]
    process = subprocess.Popen(words, env=env, cwd=found["WorkingDirectory"], stdout=log, stderr=log, stdin=-3)
    (folder / "pid").write_text(str(process.pid), encoding="ascii")


def main(name: str, place: str, notify: str, *words: str) -> int:
    folder = Path(place)
    with (folder / "calls").open("a", encoding="utf-8") as calls:
        calls.write(f"{name} {' '.join(words)}\n")
    unit = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user" / words[-1]
    if "restart" in words:
        if (folder / "pid").exists():
            _stop(folder / "pid")
        _start(unit, folder, notify)
    elif "show" in words:
        print(0 if _lives(folder / "pid") else 3)  # the restarts of one that breaks off at its start
    elif "is-active" in words:
        return 0 if (folder / "pid").exists() else 3
    elif "disable" in words or "stop" in words:
        _stop(folder / "pid")
    return 0


def _lives(noted: Path) -> bool:
    """Whether what was started is still there; one that has ended waits as a zombie for who has taken it over."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{noted.read_text(encoding='ascii')}/stat").read_bytes().rpartition(b")")[2].split()[0]
        return state not in b"ZX"
    return False


def _stop(noted: Path) -> None:
    """End what was started, and wait for it as the real one does."""
    pid = int(noted.read_text(encoding="ascii"))
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, signal.SIGTERM)
        while _lives(noted):
            time.sleep(0.05)
    noted.unlink()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
