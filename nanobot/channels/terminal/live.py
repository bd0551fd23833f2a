"""What the bottom of the terminal shows while nothing of it is finished. Pure: a value in, lines of plain text out."""

from collections.abc import Sequence

from msgspec import Struct
from rich.cells import cell_len, chop_cells, set_cell_size

from nanobot.bus.events import ChatState
from nanobot.channels.terminal.questions import QuestionLine
from nanobot.channels.view import Phase, TurnView
from nanobot.utils.text import broken, duration, squeeze
from nanobot.utils.translation import N_, _

#: The live text takes at most this many lines, and never more than a third of the screen.
MOST_LINES = 6
#: Messages that wait and are shown.
_UNREAD_LINES = 3
_EXACT = frozenset({"added", "removed", "shown"})
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_WORDS: dict[Phase, str] = {
    "idle": "",
    "waiting": N_("thinking"),
    "thinking": N_("thinking"),
    "writing": N_("writing"),
    "tools": N_("working"),
    "approval": N_("waiting for your answer"),
    "retrying": N_("trying again"),
    "finished": "",
}


class Live(Struct, frozen=True):
    """`tail` is unfinished text, `todo` what the agent has to do, `tools` are running tools, `waiting` is printed when
    the unfinished text ends.

    `asked` is the question that waits for an answer. `unread` is what was typed and not read yet. `status` is the last
    line, which `flash` covers. `elapsed` are the seconds of the turn.
    """

    tail: str = ""
    tools: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    flash: str = ""
    busy: bool = False
    todo: tuple[str, ...] = ()
    asked: tuple[QuestionLine, ...] = ()
    unread: tuple[str, ...] = ()
    elapsed: float = 0.0


def question_lines(asked: Sequence[QuestionLine], columns: int, rows: int) -> list[QuestionLine]:
    """The question as it fits above the line being typed, wrapped by display width; its keys always stand there."""
    most = room_for(rows)
    lines = _wrapped(asked[:most], columns)
    if len(asked) <= most and len(lines) <= most:
        return lines
    keys = _wrapped(asked[-1:], columns)
    cut = QuestionLine(_("… the whole of it stands above"), "keys")
    return [*lines[: max(1, most - 1 - len(keys))], cut, *keys]


def question_fits(asked: Sequence[QuestionLine], columns: int, rows: int) -> bool:
    return len(asked) <= room_for(rows) and len(_wrapped(asked, columns)) <= room_for(rows)


def room_for(rows: int) -> int:
    """How many lines of the screen a question may take: what is typed and said stays in sight."""
    return max(4, rows - 7)


def _wrapped(asked: Sequence[QuestionLine], columns: int) -> list[QuestionLine]:
    width = max(columns - 1, 1)
    return [QuestionLine(part, line.style) for line in asked for part in _parts(line, width)]


def _parts(line: QuestionLine, width: int) -> list[str]:
    """A line as it fits: words stay whole where they can, what is shown of a text or a change stays as it is."""
    if line.row:
        return [clip(line.text, width)]
    if line.style in _EXACT:
        return chop_cells(line.text, width) or [""]
    return [piece for part in broken(line.text, width) for piece in chop_cells(part, width) or [""]]


def tail_lines(tail: str, columns: int, rows: int) -> list[str]:
    """The last lines of the unfinished text as they fit, wrapped by display width."""
    most = max(1, min(MOST_LINES, rows // 3))
    lines: list[str] = []
    for line in tail[-most * columns * 2 :].strip("\n").splitlines():
        lines += chop_cells(line.expandtabs(4), max(columns - 1, 1)) or [""]
    return lines[-most:]


def tool_lines(live: Live, columns: int) -> list[str]:
    """The list of what is to be done, at most four running tools, each with a turning mark, and at most four lines that
    wait."""
    mark = _spinner(live.elapsed)
    lines = [
        *(f"  {item}" for item in live.todo),
        *(f"  {mark} {tool}" for tool in live.tools[-4:]),
        *(f"  {line}" for line in live.waiting[-4:]),
    ]
    return [clip(line, columns - 1) for line in lines]


def unread_lines(unread: Sequence[str], columns: int) -> list[str]:
    """What waits, the last few of it, each in a line, and which keys take it back or send it now."""
    if not unread:
        return []
    count = len(unread) - _UNREAD_LINES
    more = [_("… {count} more wait", count=count)] if count > 0 else []
    keys = _("↑ takes it back, Ctrl-S sends it now")
    lines = [_("waits: {text}", text=squeeze(text)) for text in unread[-_UNREAD_LINES:]]
    return [clip(f"  {line}", columns - 1) for line in (*more, *lines, keys)]


def clip(text: str, columns: int) -> str:
    """`text` cut to a display width, with an ellipsis where something is missing."""
    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, max(columns - 1, 0)).rstrip() + "…"


def activity(view: TurnView, *, waiting: bool, elapsed: float) -> str:
    """`⠙ thinking 3 s` while a turn runs, else nothing."""
    if not view.running and not waiting:
        return ""
    words = _(_WORDS[view.phase] or _WORDS["thinking"])
    return f"{_spinner(elapsed)} {words} {duration(elapsed) if elapsed >= 1 else ''}".rstrip()


def _spinner(elapsed: float) -> str:
    """A mark that turns five times a second."""
    return _SPINNER[int(5 * elapsed) % len(_SPINNER)]


def tokens(count: int) -> str:
    """`950`, `1.2k`, `34k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    if count < 9_950:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.1f}M"


def summary(view: TurnView, state: ChatState, branch: str, place: str) -> tuple[str, ...]:
    """What answers and what it took: `gpt-x · 12% of 128k · $0.0021 · 3.1k in, 200 out · 4.2 s · main · ~/notes`.

    The share of the context is that of the last request, the cost that of the session, tokens and time those of the
    last turn.
    """
    usage = view.usage
    share, window = state.used / (state.window or 1), tokens(state.window)
    full = _("{share:.0%} of {window}", share=share, window=window) if state.used and state.window else ""
    taken = _("{input} in, {output} out", input=tokens(usage.input), output=tokens(usage.output))
    spent = f"${state.cost:.4f}" if state.cost else ""
    parts = (
        (view.model if view.running else "") or state.model,
        full,
        f"{spent}+?" if spent and state.unpriced else spent,
        taken if usage.input or usage.output else "",
        duration(view.seconds) if view.phase == "finished" and view.seconds >= 0.1 else "",
        branch,
        place,
    )
    return tuple(filter(None, parts))
