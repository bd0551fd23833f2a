"""A terminal to look at: a program on a pseudo-terminal, its screen and scrollback (pyte).

::

    with PseudoTerminal(["nanobot", "agent"], env=env) as terminal:
        await terminal.until("❯")
        await terminal.answers("hello\\r", "the answer")
        assert terminal.text().count("MARK-1") == 1
"""

import asyncio
import codecs
import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import pyte

from tests.fakes import forks

Wanted = str | re.Pattern[str] | Callable[[], bool]
_NANOBOT = (sys.executable, "-m", "nanobot")


class PseudoTerminal:
    """80 columns and 24 rows, unless said otherwise. Every wait is bounded by `timeout` seconds.

    Waits leave the event loop free, on which the servers of a test answer. nanobot is forked, see tests/fakes/forks.py,
    unless it is to start `cold`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        columns: int = 80,
        rows: int = 24,
        timeout: float = 120.0,
        cold: bool = False,
    ) -> None:
        self.timeout = timeout
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)
        self.raw = ""
        self.child = Child(command, env, cwd, (rows, columns), cold=cold)

    def press(self, text: str) -> None:
        """Press keys. Enter is `\\r`, Ctrl-C `\\x03`, Ctrl-D `\\x04`."""
        self.child.send(text)

    def paste(self, text: str) -> None:
        """Paste as a terminal does for a program that asked for marks around pastes."""
        self.child.send(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        """Resize as a terminal does: blank lines below the cursor go first. pyte takes all from the top, under the
        cursor, where a program that is drawing would find other lines than it left."""
        self.child.setwinsize(rows, columns)
        y, x = self.screen.cursor.y, self.screen.cursor.x
        if (blank := min(self.screen.lines - rows, self.screen.lines - 1 - y)) > 0:
            self.screen.cursor_position()
            self.screen.insert_lines(blank)
            self.screen.cursor_position(y + 1, x + 1)
        self.screen.resize(rows, columns)

    async def until(self, wanted: Wanted) -> None:
        """Read until the scrollback and the screen show `wanted`. Raises `TimeoutError` with the picture."""
        await asyncio.to_thread(self._until, wanted)

    async def answers(self, keys: str, wanted: Wanted) -> None:
        """Press keys, and read until the scrollback and the screen show `wanted`."""
        self.press(keys)
        await self.until(wanted)

    async def wait(self) -> int:
        """Read to the end; the exit code, or the negative number of the signal that ended the program."""
        return await asyncio.to_thread(self._wait)

    async def leave(self) -> None:
        """Press Ctrl-D, and see the program end well."""
        self.press("\x04")
        assert await self.wait() == 0, self.text()

    def _until(self, wanted: Wanted) -> None:
        end = time.monotonic() + self.timeout
        while not self._shows(wanted):
            if time.monotonic() > end:
                raise TimeoutError(f"{wanted!r} did not appear in\n{self.text()}")
            if not self._read(0.2) and not self._shows(wanted):
                raise EOFError(f"the program ended before {wanted!r} appeared in\n{self.text()}")

    def _wait(self) -> int:
        end = time.monotonic() + self.timeout
        while self._read(0.2):
            if time.monotonic() > end:
                raise TimeoutError(f"the program did not end:\n{self.text()}")
        return self.child.wait()  # the end of its output comes before its own

    def lines(self) -> list[str]:
        """Scrollback and screen, top to bottom, without trailing blanks."""
        past = ["".join(line[column].data for column in range(self.screen.columns)) for line in self.screen.history.top]
        return [line.rstrip() for line in (*past, *self.screen.display)]

    def text(self) -> str:
        return "\n".join(self.lines()).rstrip()

    def _shows(self, wanted: Wanted) -> bool:
        if callable(wanted):
            return wanted()
        return wanted in self.text() if isinstance(wanted, str) else bool(wanted.search(self.text()))

    def _read(self, timeout: float) -> bool:
        data = self.child.read(timeout)
        if data is None:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.child.close()


class Child:
    """A program on a pseudo-terminal of its own."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path | None, size: tuple[int, int], *, cold: bool
    ) -> None:
        self._ours, theirs = os.openpty()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._told: BinaryIO | None = None
        self.setwinsize(*size)
        streams = (theirs, theirs, theirs)
        if not cold and tuple(command[:3]) == _NANOBOT and forks.forkable(env):
            self._told = os.fdopen(forks.fork(command[3:], env, streams, folder=cwd, terminal=True), "rb")
            self.pid = forks.started(self._told.readline())
        else:
            stdin, stdout, stderr = streams
            self._process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - it asks the kernel alone
            )
            self.pid = self._process.pid
        os.close(theirs)
        self.code: int | None = None

    def setwinsize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self._ours, (rows, columns))  # its foreground hears of it

    def send(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self._ours, data) :]

    def read(self, seconds: float) -> str | None:
        """What has come, after so many seconds at most; None at the end."""
        if not select.select([self._ours], [], [], seconds)[0]:
            return ""
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # Linux says so that nobody has the other side open
            return None
        return self._decoder.decode(data) if data else None

    def hang_up(self) -> None:
        """Close the window: nobody reads or types any more, and the kernel tells the program."""
        os.close(self._ours)
        self._ours = -1

    def kill(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        if self.code is None:
            self.code = int(self._told.read()) if self._told else self._process.wait()
        return self.code

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.code is None:
            with suppress(ProcessLookupError):
                self.kill(signal.SIGKILL)
            self.wait()
        if self._ours >= 0:
            os.close(self._ours)
        if self._told:
            self._told.close()
