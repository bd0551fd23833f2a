"""Commands as processes: started under limits, watched, ended with all that they started; and the background.

A command writes into a file without a name instead of a pipe: nothing has to read along, what is left of a command
holds nothing open, and one that goes on after its call writes on.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Literal

from loguru import logger
from msgspec import Struct

from nanobot.agent.tools.base import Progress
from nanobot.files.versions import MAX_OUTPUT
from nanobot.security.process_tree import descendants, processes_of_user, send
from nanobot.security.sandbox import Lifeline
from nanobot.utils.processes import is_alive
from nanobot.utils.text import duration, one_line, shorten, squeeze, strip_unsafe
from nanobot.utils.translation import _, listed

Ended = Literal["", "time", "output", "processes", "stopped"]
#: Seconds between two looks at a command that runs, the first and the longest pause, and between two of its lines that
#: a person sees.
_FIRST_LOOK, _LOOK, _SHOW = 0.1, 0.5, 2.0
#: Seconds that a command and what it started get after SIGTERM, look by look, and after SIGKILL.
_GRACE = (0.2, 0.3, 1.5)
GONE_SECONDS = 1.8
#: Seconds after which nothing is left of a command that is ended.
END_SECONDS = sum(_GRACE) + 1.5 * GONE_SECONDS
_LINE_WIDTH = 60
_MOST = f"{MAX_OUTPUT // 1_000_000} MB"
#: Limits of one process, set where the command begins: data in kB, number of processes, no core files. Shells name the
#: second one differently.
_LIMITED = 'ulimit -c 0; ulimit -d "$1"; { ulimit -u "$2" || ulimit -p "$2"; } 2>/dev/null; shift 2; exec "$@"'


class CommandLimits(Struct, frozen=True):
    """What one command may use: wall time, `memory` in MB for each of its processes, and how many processes."""

    seconds: float
    memory: int
    processes: int


def limited(argv: Sequence[str], limits: CommandLimits, *, own_processes: bool) -> list[str]:
    """`argv` under `limits`. A sandbox with `own_processes` counts them alone, else those of the user count as well."""
    others = 0 if own_processes else processes_of_user()
    shell = ["/bin/sh", "-c", _LIMITED, "sh", str(limits.memory * 1_000), str(limits.processes + others)]
    return [*shell, *argv]


class RunningCommand:
    """A command that was started. `ended_by` says what ended it if it did not end by itself."""

    def __init__(
        self, process: asyncio.subprocess.Process, output: IO[bytes], limits: CommandLimits, lifeline: Lifeline
    ) -> None:
        self.process = process
        self.ended_by: Ended = ""
        self._output = output
        self._limits = limits
        self._lifeline = lifeline
        self._began = time.monotonic()
        self._seconds: float | None = None
        self._shown = 0.0
        self._was_cut = False

    @classmethod
    async def start(
        cls, argv: Sequence[str], cwd: Path, env: Mapping[str, str], limits: CommandLimits, lifeline: Lifeline
    ) -> "RunningCommand":
        """Start a whole command line, without input; it names `lifeline`, which is cut at its end. Raises `OSError`."""
        output = tempfile.TemporaryFile(prefix="nanobot-output-")  # noqa: SIM115 - lives as long as the command
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=dict(env),
                start_new_session=True,
                pass_fds=(lifeline.inside,),
            )
        except BaseException:
            output.close()
            raise
        lifeline.started()
        return cls(process, output, limits, lifeline)

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    @property
    def seconds(self) -> float:
        """How long it ran, or has run until now."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    @property
    def size(self) -> int:
        """How many bytes it has written."""
        return os.fstat(self._output.fileno()).st_size

    def read(self, offset: int, length: int) -> bytes:
        """A part of what it has written. Waits for the disk."""
        return os.pread(self._output.fileno(), length, offset)

    @property
    def outcome(self) -> str:
        """How it stands, in a few words, such as `exit 1, 14 s`."""
        took = duration(self.seconds)
        if self.running:
            return _("running since {time}", time=took)
        code = self.process.returncode or 0
        ends: Mapping[Ended, str] = {
            "": _("exit {code}", code=code) if code >= 0 else _("ended by {signal}", signal=_signal_name(-code)),
            "time": _("ended at its time limit of {time}", time=duration(self._limits.seconds)),
            "output": _("ended because it wrote more than {size}", size=_MOST),
            "processes": _("ended because it started more than {most} processes", most=self._limits.processes),
            "stopped": _("stopped"),
        }
        cut = [_("{size} of its output kept", size=_MOST)] if self._was_cut and self.ended_by != "output" else []
        return listed([ends[self.ended_by], took, *cut])

    async def wait(self, show: Progress | None = None) -> None:
        """Until it ends, or is ended for what it uses up; `show` gets a line of its output from time to time."""
        pause = _FIRST_LOOK
        while not await self._ended_within(pause):
            pause = min(2 * pause, _LOOK)
            over, line = await asyncio.to_thread(self._look)
            if over:
                await self.end(over)
            elif show is not None and line and self.seconds - self._shown >= _SHOW:
                self._shown = self.seconds
                await show(line)
        await asyncio.to_thread(self._cut)

    def _cut(self) -> None:
        """Keep no more of its output than was promised: a fast one writes far more before it is seen."""
        if self.size > MAX_OUTPUT:
            os.truncate(self._output.fileno(), MAX_OUTPUT)
            self._was_cut = True

    def _look(self) -> tuple[Ended, str]:
        """What it has used up, if anything, and the last line that it wrote."""
        size = self.size
        if self.seconds >= self._limits.seconds:
            return "time", ""
        if size > MAX_OUTPUT:
            return "output", ""
        # The system counts no processes of root.
        if os.getuid() == 0 and len(descendants(self.process.pid)) > self._limits.processes:
            return "processes", ""
        return "", last_line(self.read(max(0, size - 400), 400))

    async def end(self, why: Ended) -> None:
        """End it and all that it started, first by SIGTERM, soon after by SIGKILL. Nothing is left after 5 seconds.

        The launcher does that once the lifeline is cut, even if it has yet to begin; what does not follow is killed.
        """
        if self.running:
            self.ended_by = self.ended_by or why
            await self._end()

    async def _end(self) -> None:
        top, below = self.process.pid, set[int]()
        self._lifeline.cut()
        for pause in _GRACE:  # what starts just now is found by the next look
            below |= set(await asyncio.to_thread(descendants, top))
            if await self._ended_within(pause):
                break
        else:
            below |= set(await asyncio.to_thread(descendants, top))
            send((*below, -top), signal.SIGKILL)  # its group holds also what bubblewrap has only just begun
        ended = await self._ended_within(GONE_SECONDS)
        if not ended or not await asyncio.to_thread(_gone, below, GONE_SECONDS / 2):
            logger.error("of the processes {} of a command some do not end", [top, *below])

    async def _ended_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.process.wait()
        except TimeoutError:
            return False
        self._seconds = self.seconds
        self._lifeline.cut()
        return True

    def output(self) -> IO[bytes]:
        """All that it has written, from the beginning. Only for a command that has ended."""
        self._output.seek(0)
        return self._output

    def close(self) -> None:
        """Let go of its output."""
        self._output.close()
        self._lifeline.cut()


def _gone(processes: Iterable[int], seconds: float) -> bool:
    """Wait until none of these is left: the system takes a moment to end what a namespace held."""
    deadline = time.monotonic() + seconds
    while any(map(is_alive, processes)):
        if time.monotonic() > deadline:
            return False
        time.sleep(_FIRST_LOOK / 20)
    return True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def readable(data: bytes) -> str:
    """What a command wrote as text: without what steers a terminal, and of a line written over again its last state."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return strip_unsafe("\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")))


def last_line(data: bytes) -> str:
    """The last line that says something, for people; cut where it is long."""
    lines = [line for line in readable(data).splitlines() if line.strip()]
    return shorten(squeeze(lines[-1]), 2 * _LINE_WIDTH) if lines else ""


def brief(line: str) -> str:
    """A command line for people, on one line and cut where it is long."""
    return one_line(line, _LINE_WIDTH)
