"""The one fold from events to a picture. Every surface paints a `TurnView`; none keeps a reading of its own."""

from collections.abc import Mapping, Sequence
from typing import Literal, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.bus.events import (
    ApprovalAsked,
    ApprovalClosed,
    CommandReply,
    ContextCompacted,
    Event,
    MessageSent,
    Notice,
    Outcome,
    QuestionAsked,
    QuestionClosed,
    StepStarted,
    TodoChanged,
    TodoItem,
    TodoState,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from nanobot.messages import StepRetried, TextDelta, ThinkingDelta, Usage
from nanobot.utils.text import duration
from nanobot.utils.translation import _, _n, listed

Phase = Literal["idle", "waiting", "thinking", "writing", "tools", "approval", "retrying", "finished"]


#: Lines of a list that are shown at once.
_TODO_LINES = 10
_TODO_MARKS: Mapping[TodoState, str] = {"open": "☐", "doing": "▶", "done": "☑"}


class Hint(Struct, frozen=True):
    """One tool call for people. `seconds` is its wall time once it is over; `progress` its last line until then.

    `message` is told where the call failed, in whole or in part (`partial`). `question` is the id of what the owner is
    asked about it; `changed` are the lines that it added to a file and took away, such as `+12 −3`.
    """

    call_id: str
    text: str
    state: Literal["running", "done", "failed"] = "running"
    seconds: float = 0.0
    progress: str = ""
    message: str = ""
    partial: bool = False
    question: str = ""
    changed: str = ""


class HintLine(Struct, frozen=True):
    """Neighbouring hints of one wording and state as one line. `seconds` is the longest of them; one that changed a
    file is a line for itself."""

    text: str
    state: Literal["running", "done", "failed"]
    count: int
    seconds: float
    detail: str = ""
    changed: str = ""


class TurnView(Struct, frozen=True):
    """What one turn looks like now.

    `text` is what the current step has written, after the end the whole answer; `earlier` holds the texts of the steps
    before it, such as an announcement before a search. A retried step takes its own `text` back and nothing else.
    `unasked` is the phase before a question, which a command may ask while no turn runs.
    """

    phase: Phase = "idle"
    unasked: Phase = "idle"
    model: str = ""
    text: str = ""
    earlier: tuple[str, ...] = ()
    hints: tuple[Hint, ...] = ()
    todo: tuple[TodoItem, ...] = ()
    notices: tuple[Notice, ...] = ()
    retry: StepRetried | None = None
    usage: Usage = field(default_factory=Usage)
    outcome: Outcome | None = None
    seconds: float = 0.0

    @property
    def running(self) -> bool:
        return self.phase not in {"idle", "finished"}

    def _after_question(self) -> Phase:
        """What goes on once a question is closed: a turn, or nothing where none runs."""
        if self.phase != "approval":
            return self.phase
        return "tools" if self.unasked not in {"idle", "finished"} else self.unasked

    def apply(self, event: Event) -> "TurnView":  # noqa: C901 - one case per event
        """The picture after `event`. The view itself never changes."""
        match event:
            case TurnStarted():
                return TurnView(phase="waiting", model=event.model)
            case StepStarted():
                earlier = (*self.earlier, self.text) if self.text.strip() else self.earlier
                return replace(self, phase="waiting", text="", earlier=earlier, retry=None)
            case StepRetried():
                return replace(self, phase="retrying", text="", retry=event)
            case TextDelta():
                return replace(self, phase="writing", text=self.text + event.text, retry=None)
            case ThinkingDelta():
                return replace(self, phase="thinking", retry=None)
            case ToolStarted():
                return replace(self, phase="tools", hints=(*self.hints, Hint(event.call.id, event.hint)))
            case ToolProgress():
                hints = (replace(one, progress=event.text) if _runs(one, event.call_id) else one for one in self.hints)
                return replace(self, hints=tuple(hints))
            case ToolFinished():
                return self._tool_finished(event)
            case ApprovalAsked():
                return replace(self, phase="approval", hints=self._asked(event.call.id, "", event.id))
            case ApprovalClosed():
                phase: Phase = "approval" if any(one.question not in ("", event.id) for one in self.hints) else "tools"
                return replace(self, phase=phase, hints=self._asked("", event.id, ""))
            case QuestionAsked():
                return replace(self, phase="approval", unasked=self.phase)
            case QuestionClosed():
                return replace(self, phase=self._after_question())
            case TodoChanged():
                return replace(self, todo=event.items)
            case ContextCompacted():
                return replace(self, notices=(*self.notices, Notice(compaction_line(event))))
            case Notice():
                return replace(self, notices=(*self.notices, event))
            case CommandReply() | MessageSent():
                return self
            case TurnFinished():
                return self._finished(event)
            case _:
                assert_never(event)

    def _asked(self, call_id: str, before: str, question: str) -> tuple[Hint, ...]:
        """The hints where the running call of this id, or the one with the question `before`, now has `question`."""
        return tuple(
            replace(one, question=question) if (before and one.question == before) or _runs(one, call_id) else one
            for one in self.hints
        )

    def _tool_finished(self, event: ToolFinished) -> "TurnView":
        call, result, hints = event.call, event.result, list(self.hints)
        place = next((place for place, hint in enumerate(hints) if _runs(hint, call.id)), len(hints))
        text = hints[place].text if place < len(hints) else call.name
        state: Literal["done", "failed"] = "failed" if result.is_error else "done"
        done = Hint(call.id, text, state, event.seconds, "", result.message, result.partial, changed=result.changed)
        hints[place : place + 1] = [done]
        busy = any(hint.state == "running" for hint in hints)
        return replace(self, phase="tools" if busy else "waiting", hints=tuple(hints))

    def _finished(self, event: TurnFinished) -> "TurnView":
        """The end. A call that still runs then is never heard of again: it counts as stopped, and as not run where its
        question had no answer."""
        hints = tuple(_ended(hint) if hint.state == "running" else hint for hint in self.hints)
        return replace(
            self,
            phase="finished",
            hints=hints,
            model=event.model or self.model,
            text=event.text,
            usage=event.usage,
            outcome=event.outcome,
            seconds=event.seconds,
            retry=None,
        )


def _ended(hint: Hint) -> Hint:
    return replace(
        hint, state="failed", progress="", message=_("not run") if hint.question else _("stopped"), question=""
    )


def _runs(hint: Hint, call_id: str) -> bool:
    return hint.call_id == call_id and hint.state == "running"


def fold_hints(hints: tuple[Hint, ...]) -> tuple[HintLine, ...]:
    """Neighbouring hints with the same wording and state become one line with a count."""
    lines: list[HintLine] = []
    for hint in hints:
        told = hint.state == "failed" or hint.partial
        detail = hint.progress if hint.state == "running" else hint.message if told else ""
        last = lines[-1] if lines else None
        alike = last and (last.text, last.state) == (hint.text, hint.state)
        if last and alike and not (last.changed or hint.changed):
            longest = max(last.seconds, hint.seconds)
            lines[-1] = replace(last, count=last.count + 1, seconds=longest, detail=detail or last.detail)
        else:
            lines.append(HintLine(hint.text, hint.state, 1, hint.seconds, detail, hint.changed))
    return tuple(lines)


def hint_text(line: HintLine) -> str:
    """A hint line in words, such as `fetch example.com × 3 (1.2 s)` or `fetch example.com: HTTP 404`."""
    text = line.text if line.count == 1 else f"{line.text} × {line.count}"
    if line.state == "running":
        return _("{line}: {detail}", line=text, detail=line.detail) if line.detail else text
    took = duration(line.seconds) if line.seconds >= 0.1 else ""
    noted = listed(filter(None, (line.changed, took)))
    text = _("{line} ({noted})", line=text, noted=noted) if noted else text
    return _("{line}: {detail}", line=text, detail=line.detail) if line.detail else text


def todo_lines(items: Sequence[TodoItem]) -> tuple[str, ...]:
    """A list as lines such as `☑ read the report`; of a long one those around what is being done."""
    first = next((place for place, item in enumerate(items) if item.state != "done"), len(items))
    start = max(0, min(first - _TODO_LINES // 2, len(items) - _TODO_LINES))
    return tuple(f"{_TODO_MARKS[item.state]} {item.text}" for item in items[start : start + _TODO_LINES])


def retry_text(event: StepRetried) -> str:
    """Why a step is asked for again, and when, such as `HTTP 500: overloaded; asking again in 4 s.`"""
    reason = event.reason.rstrip(".") or _("The request failed")
    if event.wait >= 1:
        return _("{reason}; asking again in {seconds:.0f} s.", reason=reason, seconds=event.wait)
    return _("{reason}; asking again.", reason=reason)


def compaction_line(event: ContextCompacted) -> str:
    before, after = event.before, event.after
    if not event.summary:
        return _(
            "The conversation was shortened from about {before:,} to {after:,} tokens.", before=before, after=after
        )
    if not event.turns:
        return _(
            "The earlier conversation was summed up (from about {before:,} to {after:,} tokens). "
            "Nothing is deleted; /undo takes it back.",
            before=before,
            after=after,
        )
    return _n(
        "The earlier conversation was summed up (from about {before:,} to {after:,} tokens; the last turn stays as it "
        "was). Nothing is deleted; /undo takes it back.",
        "The earlier conversation was summed up (from about {before:,} to {after:,} tokens; the last {number} turns "
        "stay as they were). Nothing is deleted; /undo takes it back.",
        event.turns,
        before=before,
        after=after,
    )
