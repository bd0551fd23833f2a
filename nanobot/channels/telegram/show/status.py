"""The status message of a turn: what is being done while it works, and in one line afterwards."""

from msgspec import Struct

from nanobot.channels.telegram.render.markdown import Entity, clean
from nanobot.channels.telegram.render.screen_messages import ScreenMessage, utf16_length
from nanobot.channels.view import HintLine, TurnView, fold_hints, hint_text, retry_text, todo_lines
from nanobot.utils.logs import scrub
from nanobot.utils.text import duration, shorten, squeeze
from nanobot.utils.translation import N_, _, _n

#: How many lines a status message shows, and how wide they are.
LINES = 8
WIDTH = 60
STOPPED = N_("⏹ stopped")
_MARKS = {"running": "▸", "done": "✓", "failed": "✗"}
_ANNOUNCEMENT = 300
_REASON = 150
#: A folded status still says everything, as far as a message can hold it.
_FOLDED_LINES = 40


class Look(Struct, frozen=True):
    """What a chat wants to see, by `command.settings.CHOICES`."""

    hints: str = "live"
    streaming: str = "edit"


def live(view: TurnView, stop: str, announced: str = "") -> ScreenMessage:
    """The last hints under what the model announced, with a Stop button."""
    lines = [*_todo(view), *_lines(view, LINES)]
    if view.retry is not None:
        lines.append(f"↻ {shorten(squeeze(clean(scrub(retry_text(view.retry)))), _REASON)}")
    if announced:
        lines = [shorten(squeeze(clean(announced)), _ANNOUNCEMENT), *lines]
    busy = _("thinking …") if view.phase == "thinking" else _("working …")
    return ScreenMessage("\n".join(lines) or busy, stop=stop, silent=True)


def folded(view: TurnView, seconds: float, *, keep: bool) -> ScreenMessage:
    """Its last form: `7 steps · 14 s` with the hints folded under it, or below it where they are to stay."""
    stopped = [_(STOPPED)] if view.outcome == "cancelled" else []
    head = " · ".join([*stopped, _n("{number} step", "{number} steps", len(view.hints)), duration(seconds)])
    text = "\n".join([head, *_todo(view), *_lines(view, LINES if keep else _FOLDED_LINES)])
    entities = () if keep else (Entity("expandable_blockquote", 0, utf16_length(text)),)
    return ScreenMessage(text, entities, silent=True)


def _todo(view: TurnView) -> list[str]:
    return [shorten(squeeze(clean(scrub(line))), WIDTH) for line in todo_lines(view.todo)]


def _lines(view: TurnView, limit: int) -> list[str]:
    lines = fold_hints(view.hints)
    earlier = [_("+{number} earlier", number=len(lines) - limit)] if len(lines) > limit else []
    return [*earlier, *(_line(one, over=not view.running) for one in lines[-limit:])]


def _line(line: HintLine, *, over: bool) -> str:
    """A hint in the words of every surface; one that never came to its end was cut off with the turn."""
    mark = "✗" if over and line.state == "running" else _MARKS[line.state]
    return f"{mark} {shorten(squeeze(clean(scrub(hint_text(line)))), WIDTH)}"
