"""nanobot under strace, which kills it at a system call, or lets system calls fail."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

from tests.cli.harness import Program
from tests.fakes.crash.nursery import BOUND, Life, Nursery

STRACE = shutil.which("strace")
MISSING = "strace is not installed: nothing was killed at a system call and no system call failed"


def killing(call: str, at: int) -> str:
    """Die at the `at`th `call` of a thread."""
    return f"{call}:signal=KILL:when={at}"


def failing(call: str, error: str, first: int, last: int) -> str:
    """The calls from `first` to `last` of a thread fail."""
    return f"{call}:error={error}:when={first}..{last}"


async def start(nursery: Nursery, home: Program, *arguments: str, inject: str) -> Life:
    """Start the program with strace at its side from its first step on."""
    assert STRACE is not None, MISSING
    life = await nursery.start(home, *arguments, stopped=True)
    async with asyncio.timeout(BOUND):
        while _state(life.pid) != "T":  # only one that stands still can be woken
            await asyncio.sleep(0.005)
    call = inject.partition(":")[0]
    tracer = await asyncio.create_subprocess_exec(
        *(STRACE, "-f", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={inject}", "-p", str(life.pid)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert tracer.stderr is not None
    told = await asyncio.wait_for(tracer.stderr.readline(), BOUND)
    assert b"attached" in told, told
    task = asyncio.ensure_future(_follow(tracer))
    _TRACERS.add(task)
    task.add_done_callback(_TRACERS.discard)
    life.signal(signal.SIGCONT)
    return life


def _state(pid: int) -> str:
    """The letter of proc(5): `T` for a process that was stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


#: strace ends with the process that it traces.
_TRACERS: set["asyncio.Future[None]"] = set()


async def _follow(tracer: asyncio.subprocess.Process) -> None:
    await tracer.communicate()
