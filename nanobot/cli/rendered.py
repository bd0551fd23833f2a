"""One question on a terminal: the answer appears block by block, rendered; tools and a spinner stand on stderr."""

from typing import TextIO

from nanobot.bus.events import Event, TurnFinished
from nanobot.channels.terminal.live import activity, clip
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.render import Printer
from nanobot.channels.terminal.transcript import Transcript
from nanobot.cli.output import Writer
from nanobot.utils.text import printable
from nanobot.utils.translation import _

_CLEAR = "\r\x1b[2K"


class RenderedWriter(Writer):
    """A `Writer` for people. `out` and `err` are the looks of the two streams."""

    def __init__(self, stdout: TextIO, stderr: TextIO, out: TextLook, err: TextLook) -> None:
        self._stdout, self._stderr = stdout, stderr
        self._out, self._err = out, err
        self._transcript = Transcript()
        self._printer = Printer()
        self._spinning = False

    def event(self, event: Event) -> None:
        for piece in self._transcript.apply(event):
            answer = piece.kind in {"text", "sources"}
            text = self._printer(piece, self._out if answer else self._err)
            self._still()
            stream = self._stdout if answer else self._stderr
            stream.write(text)
            stream.flush()

    def tick(self, seconds: float) -> None:
        if not self._err.ansi or not self._stderr.isatty():
            return
        running = self._transcript.live
        doing = activity(self._transcript.view, waiting=True, elapsed=seconds)
        line = printable(f"{doing} {running[-1]}" if running else doing)
        self._stderr.write(_CLEAR + clip(line, max(self._err.width - 1, 10)))
        self._stderr.flush()
        self._spinning = True

    def finished(self, result: TurnFinished, code: int) -> None:  # noqa: ARG002 - the code is for machines
        self._still()
        if result.outcome == "cancelled":
            self._stderr.write(printable(f"nanobot: {result.error or _('stopped.')}\n"))
            self._stderr.flush()

    def _still(self) -> None:
        if self._spinning:
            self._spinning = False
            self._stderr.write(_CLEAR)
            self._stderr.flush()
