"""What was shown last: an answer to be copied, results of tools to be unfolded."""

import base64
from collections import deque

from nanobot.bus.events import Event, ToolFinished, TurnFinished
from nanobot.channels.terminal.blocks import PARSER
from nanobot.channels.view import TurnView
from nanobot.errors import UsageError
from nanobot.utils.text import one_line, printable
from nanobot.utils.translation import _

#: Most bytes of a text for the clipboard: what terminals take in one OSC 52 (xterm's and tmux's bounds are near it).
MOST_COPIED = 74_000
#: Results that can be unfolded, and lines of one that are printed.
_RESULTS, _LINES = 30, 400


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
