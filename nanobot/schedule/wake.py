"""Wakes the processes of one home that wait for the next due time, when another one has changed the schedule.

Each of them listens at a named pipe of its own; whoever changes something writes a byte into all of them. A pipe that
nobody listens at any more is taken away.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loguru import logger


class WakeUp:
    """The pipes in `folder`; None where the home is nobody else's, as that of a question that leaves no trace."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._told: list[Callable[[], None]] = []

    def ring(self) -> None:
        """Something was changed. Never raises: who was not woken looks again by itself, only later."""
        for tell in self._told:
            tell()
        if self._folder is None:
            return
        with suppress(OSError):
            for pipe in self._folder.iterdir():
                _write(pipe)

    @contextmanager
    def listening(self, tell: Callable[[], None]) -> Iterator[bool]:
        """Call `tell` at every change until this ends; False where others cannot reach this process."""
        self._told.append(tell)
        pipe = self._folder / str(os.getpid()) if self._folder is not None else None
        file = _opened(pipe) if pipe is not None else -1
        loop = asyncio.get_running_loop()

        def heard() -> None:
            with suppress(OSError):
                os.read(file, 4_096)
            tell()

        if file >= 0:
            loop.add_reader(file, heard)
        try:
            yield file >= 0
        finally:
            self._told.remove(tell)
            if file >= 0 and pipe is not None:
                loop.remove_reader(file)
                os.close(file)
                pipe.unlink(missing_ok=True)


def _write(pipe: Path) -> None:
    """Wake the process behind a pipe; one without a process goes."""
    try:
        file = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        pipe.unlink(missing_ok=True)
        return
    with suppress(OSError):  # it is full of such bytes already
        os.write(file, b"!")
    os.close(file)


def _opened(pipe: Path) -> int:
    """A pipe of this process, opened for both ways so that it never ends; -1 where there can be none."""
    try:
        pipe.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, 0o600)
        return os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        logger.warning("changes of the schedule by other processes are seen late: {}", error)
        return -1
