"""The clipboard, both ways; and what was shown last: an answer to be copied, results of tools to be unfolded."""

import asyncio
import base64
import os
import shutil
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from nanobot.agent.tools.media import keep_media
from nanobot.bus.events import Event, ToolFinished, TurnFinished
from nanobot.channels.terminal.blocks import PARSER
from nanobot.channels.view import TurnView
from nanobot.errors import UsageError
from nanobot.utils.processes import run_program
from nanobot.utils.text import one_line, printable
from nanobot.utils.translation import N_, _
from nanobot.web.fetch.content import image_info

#: Most bytes of a text for the clipboard: what terminals take in one OSC 52 (xterm's and tmux's bounds are near it).
MOST_COPIED = 74_000
#: Results that can be unfolded, and lines of one that are printed.
_RESULTS, _LINES = 30, 400


#: Largest picture that is taken from the clipboard, in bytes, and seconds for the program that hands it out.
_LARGEST, _SECONDS = 50_000_000, 5.0
#: Programs that hand out the picture in the clipboard, by the variable that tells that they work here; macOS has none.
_READERS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--no-newline", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("", ("pngpaste", "-")),
)
_NO_PICTURE = N_("There is no picture in the clipboard. Name a file with @ instead, or paste its path.")
_NO_READER = N_(
    "No program here hands out pictures of the clipboard: install wl-clipboard (Wayland), xclip (X11) or pngpaste "
    "(macOS), or name a file with @."
)


class ShownLately:
    """The last answer and results of tools in one terminal."""

    def __init__(self) -> None:
        self._answer = ""
        self._results: deque[tuple[str, str]] = deque(maxlen=_RESULTS)
        self._place = 0  # how many results were unfolded since the last one came

    def note(self, event: Event, view: TurnView) -> None:
        """Take an event in, and what the turn looks like after it."""
        if isinstance(event, ToolFinished):
            hint = next((one.text for one in reversed(view.hints) if one.call_id == event.call.id), event.call.name)
            self._results.append((one_line(hint), event.result.text))
            self._place = 0
        elif isinstance(event, TurnFinished) and event.text.strip():
            self._answer = event.text

    def unfold(self) -> tuple[str, str]:
        """A result that was one line, as its hint and its text: the last one, then each before it.

        Raises `UsageError` where there is none.
        """
        if not self._results:
            raise UsageError(_("No tool has given a result here yet."))
        self._place = min(self._place + 1, len(self._results))
        hint, text = self._results[-self._place]
        lines = printable(text).splitlines()
        more = [_("… {count:,} more lines", count=len(lines) - _LINES)] if len(lines) > _LINES else []
        return hint, "\n".join([*lines[:_LINES], *more]) or _("(nothing)")

    def to_copy(self, wanted: str) -> tuple[str, str]:
        """What is said of `/copy WANTED`, and what it copies: the last answer, or with `code` its last block of code.

        Raises `UsageError` where there is none.
        """
        word = wanted.strip().casefold()
        if not self._answer:
            raise UsageError(_("There is no answer to copy yet."))
        if not word:
            return _("The last answer is copied."), self._answer
        if word != "code":
            raise UsageError(_("`/copy` copies the last answer, `/copy code` its last block of code."))
        blocks = [token.content for token in PARSER.parse(self._answer) if token.type in ("fence", "code_block")]
        if not blocks:
            raise UsageError(_("The last answer has no blocks of code."))
        return _("Its last block of code is copied."), blocks[-1].removesuffix("\n")


def copying(text: str) -> str:
    """The sequence by which a terminal puts a text into the clipboard (OSC 52). Raises `UsageError` for a long one."""
    data = text.encode(errors="replace")
    if len(data) > MOST_COPIED:
        raise UsageError(
            _(
                "That is {size:,} bytes, and terminals take {most:,}. Use /export for all of it.",
                size=len(data),
                most=MOST_COPIED,
            )
        )
    return f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"


async def pasted_picture(folder: Path) -> Path:
    """The picture in the clipboard as a file in `folder`. Raises `UsageError` where there is none."""
    known = [
        words for variable, words in _READERS if (not variable or os.environ.get(variable)) and shutil.which(words[0])
    ]
    if not known:
        raise UsageError(_(_NO_READER))
    for words in known:
        try:
            data = (await run_program(words, _SECONDS)).out
        except (OSError, TimeoutError):
            continue
        info = image_info(data[:64])
        if info is not None and len(data) <= _LARGEST:
            return Path((await asyncio.to_thread(keep_media, folder / "typed", data, info.mime)).path)
    raise UsageError(_(_NO_PICTURE))
