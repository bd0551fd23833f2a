"""A terminal to look at: a program on a pseudo-terminal (pexpect), its screen and scrollback (pyte).

::

    with PseudoTerminal(["nanobot", "agent"], env=env) as terminal:
        await terminal.until("❯")
        terminal.press("hello\\r")
        await terminal.until("the answer")
        assert terminal.text().count("MARK-1") == 1
"""

import asyncio
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pexpect
import pyte

Wanted = str | re.Pattern[str] | Callable[[], bool]


class PseudoTerminal:
    """80 columns and 24 rows, unless said otherwise. Every wait is bounded by `timeout` seconds.

    Waits leave the event loop free, on which the servers of a test answer.
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
    ) -> None:
        self.timeout = timeout
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)
        self.raw = ""
        self.child = pexpect.spawn(
            command[0],
            list(command[1:]),
            env=dict(env),
            cwd=str(cwd) if cwd else None,
            dimensions=(rows, columns),
            encoding="utf-8",
            codec_errors="replace",
            timeout=timeout,
        )
        self.child.delaybeforesend = None

    def press(self, text: str) -> None:
        """Press keys. Enter is `\\r`, Ctrl-C `\\x03`, Ctrl-D `\\x04`."""
        self.child.send(text)

    def paste(self, text: str) -> None:
        """Paste as a terminal does for a program that asked for marks around pastes."""
        self.child.send(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        self.child.setwinsize(rows, columns)
        self.screen.resize(rows, columns)

    async def until(self, wanted: Wanted) -> None:
        """Read until the scrollback and the screen show `wanted`. Raises `TimeoutError` with the picture."""
        await asyncio.to_thread(self._until, wanted)

    async def wait(self) -> int:
        """Read to the end; the exit code, or the negative number of the signal that ended the program."""
        return await asyncio.to_thread(self._wait)

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
        self.child.wait()  # the end of its output comes before its own
        self.child.close()
        return self.child.exitstatus if self.child.exitstatus is not None else -(self.child.signalstatus or 0)

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
        try:
            data = self.child.read_nonblocking(65_536, timeout)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.child.isalive():  # pexpect's own close gives a slow machine a tenth of a second
            self.child.kill(signal.SIGKILL)
            self.child.wait()
        self.child.close()
