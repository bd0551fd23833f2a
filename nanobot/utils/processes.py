"""Running a program for its output, and ending it with everything that it started in turn."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

#: Seconds in which a killed program is gone; one that left its session may hold our pipe for longer.
GONE_SECONDS = 2.0
_PACKAGE = Path(__file__).parents[2]
_NEEDED = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "PYTHONWARNINGS", "SSL_CERT_FILE", "SSL_CERT_DIR")


class ProgramOutput(Struct, frozen=True):
    """How a program ended, and what it printed on its two streams."""

    code: int
    out: bytes
    error: bytes

    @property
    def last_words(self) -> str:
        """The last line that it said of an error."""
        return self.error.decode(errors="replace").strip().rpartition("\n")[2]


def is_alive(process: int) -> bool:
    """True where a process of this id exists, whoever it belongs to."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def own_module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command that runs the `main` of a module of nanobot in `bare_environment`.

    `-P`: no module of the folder that nanobot was started in is taken for one of Python's. `-S`: libraries are looked
    for where this process has them, which is said and not found out. `-m` would import more than a small module does.
    """
    program = f"from {name} import main; main()"  # English: Python reads it
    return (sys.executable, "-P", "-S", "-c", program, *arguments)


async def run_nanobot(arguments: Sequence[str], seconds: float, env: Mapping[str, str]) -> ProgramOutput:
    """Run a command of this very nanobot with these variables, as `run_program` does: with all libraries that a start
    by hand has, for plug-ins may need them."""
    command = (sys.executable, "-P", "-m", "nanobot", *arguments)
    return await run_program(command, seconds, {**env, "PYTHONPATH": str(_PACKAGE)})


def bare_environment() -> dict[str, str]:
    """What Python needs and no more: no key of the agent is in reach of a process that is given this."""
    libraries = [place for place in sys.path if place.endswith("-packages")]
    own = {"PYTHONPATH": os.pathsep.join([str(_PACKAGE), *libraries]), "PYTHONIOENCODING": "utf-8", "LANG": "C.UTF-8"}
    return own | {name: os.environ[name] for name in _NEEDED if name in os.environ}


async def run_program(
    command: Sequence[str], seconds: float, env: Mapping[str, str] | None = None, *, given: bytes | None = None
) -> ProgramOutput:
    """Run a program without a shell. `given` is its input, None: it has none; `env` are all of its variables, None:
    those of this process.

    Raises `TimeoutError` where it takes longer than `seconds`, and `OSError` or `ValueError` where it cannot start.
    Whatever it started is killed when it takes too long or is cancelled.
    """
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdin=nothing if given is None else pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
    )
    try:
        async with asyncio.timeout(seconds):
            out, error = await process.communicate(given)
    except (TimeoutError, asyncio.CancelledError):
        await _end_session(process)
        raise
    return ProgramOutput(process.returncode or 0, out, error)


async def _end_session(process: asyncio.subprocess.Process) -> None:
    """Kill a program that was started with `start_new_session`, and what is left of its session. Always returns soon.

    The program itself may have ended already: what it left behind can still hold its output open.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GONE_SECONDS):
            await process.wait()
