"""What one question prints: an answer, one JSON object, or one JSON object per event."""

import codecs
import json
from collections.abc import Mapping
from typing import TextIO, assert_never

from nanobot.bus.events import (
    ApprovalAsked,
    ApprovalClosed,
    CommandReply,
    ContextCompacted,
    Event,
    MessageSent,
    Notice,
    QuestionAsked,
    QuestionClosed,
    StepStarted,
    TodoChanged,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.citations import with_sources
from nanobot.channels.view import TurnView, compaction_line, fold_hints, hint_text, retry_text, todo_lines
from nanobot.messages import Citation, StepRetried, TextDelta, ThinkingDelta
from nanobot.utils.text import one_line, strip_unsafe
from nanobot.utils.translation import _

#: Of the lines of `--stream-json`. It changes when a reader of the old lines would misread the new ones.
PROTOCOL = 1
_USAGE = ("input", "output", "cached", "reasoning", "requests", "cost", "unpriced")
_SOURCE = ("number", "title", "url", "read")


class Writer:
    """Takes the events of one turn and its end. `revisable`: it shows nothing of an answer before its end."""

    revisable = False

    def started(self, session: str, model: str) -> None:
        """The turn begins in this session."""

    def event(self, event: Event) -> None:
        raise NotImplementedError

    def tick(self, seconds: float) -> None:
        """Time has passed without an event."""

    def finished(self, result: TurnFinished, code: int) -> None:
        raise NotImplementedError


class TextWriter(Writer):
    """The answer alone on stdout, in the model's own Markdown; progress and problems on stderr."""

    revisable = True

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._view = TurnView()

    def event(self, event: Event) -> None:
        self._view = self._view.apply(event)
        line = progress_line(event, self._view)
        if line:
            self._stderr.write(f"{line}\n")
            self._stderr.flush()

    def finished(self, result: TurnFinished, code: int) -> None:  # noqa: ARG002 - the code is for machines
        text = strip_unsafe(with_sources(result)) if result.outcome != "cancelled" else ""
        if text.strip():
            self._stdout.write(text if text.endswith("\n") else f"{text}\n")
            self._stdout.flush()
        self._stderr.writelines(f"☑ {one_line(receipt)}\n" for receipt in result.receipts)
        problem = problem_line(result)
        if problem:
            self._stderr.write(f"nanobot: {problem}\n")
            self._stderr.flush()


class JsonWriter(Writer):
    """One object at the end, nothing before it."""

    revisable = True

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._session = ""
        self._view = TurnView()

    def started(self, session: str, model: str) -> None:
        self._session = session
        self._view = TurnView(model=model)

    def event(self, event: Event) -> None:
        self._view = self._view.apply(event)

    def finished(self, result: TurnFinished, code: int) -> None:
        view = self._view
        tools = [
            {"hint": hint.text, "ok": hint.state == "done", "seconds": round(hint.seconds, 3), "message": hint.message}
            for hint in view.hints
        ]
        notices = [{"level": notice.level, "text": notice.text} for notice in view.notices]
        body = {"session": self._session, **_result(result, code), "tools": tools, "notices": notices}
        _write(self._stdout, body)


class StreamJsonWriter(Writer):
    """`init`, then `text`, `tool_start`, `tool_end`, `notice`, at last `result`: one line each, sent at once."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._step = 0

    def started(self, session: str, model: str) -> None:
        self._line("init", session=session, model=model, protocol=PROTOCOL)

    def event(self, event: Event) -> None:  # noqa: C901 - one case per event
        match event:
            case TextDelta():
                self._line("text", text=event.text, step=self._step)
            case StepStarted():
                self._step = event.number
            case StepRetried():
                # every `text` line of this step is void
                self._line("notice", level="warning", text=event.reason, voids_step=self._step, wait=event.wait)
            case ToolStarted():
                self._line("tool_start", id=event.call.id, name=event.call.name, hint=event.hint)
            case ToolFinished():
                self._tool_end(event)
            case Notice():
                self._line("notice", level=event.level, text=event.text)
            case ContextCompacted():
                self._line("notice", level="info", text=compaction_line(event))
            case ApprovalAsked():
                self._line("notice", level="warning", text=f"{event.title}: {event.detail}")
            case CommandReply():
                self._line("text", text=event.text, command=event.command)
            case MessageSent():
                self._line("message", text=event.text, files=list(event.files))
            case TodoChanged():
                self._line("todo", items=[{"text": item.text, "state": item.state} for item in event.items])
            case QuestionAsked() | QuestionClosed():
                pass  # nobody is there to answer
            case TurnStarted() | ThinkingDelta() | ToolProgress() | ApprovalClosed() | TurnFinished():
                pass
            case _:
                assert_never(event)

    def finished(self, result: TurnFinished, code: int) -> None:
        self._line("result", **_result(result, code))

    def _tool_end(self, event: ToolFinished) -> None:
        self._line(
            "tool_end",
            id=event.call.id,
            name=event.call.name,
            ok=not event.result.is_error,
            error=event.result.error,
            message=event.result.message,
            seconds=round(event.seconds, 3),
        )

    def _line(self, kind: str, **fields: object) -> None:
        _write(self._stdout, {"type": kind, **fields})


def progress_line(event: Event, view: TurnView) -> str:
    """One line about an event for stderr, or nothing."""
    match event:
        case ToolFinished():
            hint = next((hint for hint in reversed(view.hints) if hint.call_id == event.call.id), None)
            mark = "-" if event.result.success else "!"
            return f"{mark} {one_line(hint_text(fold_hints((hint,))[0]))}" if hint else ""
        case Notice():
            return one_line(event.text)
        case MessageSent():
            return "\n".join(
                filter(None, [one_line(event.text), *(_("file: {path}", path=one_line(path)) for path in event.files)])
            )
        case TodoChanged():
            return "\n".join(todo_lines(event.items))
        case ContextCompacted():
            return compaction_line(event)
        case StepRetried():
            return one_line(retry_text(event))
        case ApprovalAsked():
            return one_line(f"{event.title}: {event.detail}")
        case _:
            return ""


def problem_line(result: TurnFinished) -> str:
    """What went wrong, in one line; empty for an answer."""
    if result.outcome == "completed":
        return ""
    limit = _("the turn ended at its limit before the work was done.")
    return one_line(result.error) or (limit if result.outcome == "out_of_steps" else _("stopped."))


def _result(result: TurnFinished, code: int) -> dict[str, object]:
    return {
        "ok": code == 0,
        "text": result.text,
        "outcome": result.outcome,
        "model": result.model,
        "usage": {name: getattr(result.usage, name) for name in _USAGE},
        "sources": [{name: getattr(source, name) for name in _SOURCE} for source in result.sources],
        "citations": [_citation(citation) for citation in result.citations],
        "receipts": list(result.receipts),
        "unbacked": list(result.unbacked),
        "steps": result.steps,
        "seconds": round(result.seconds, 3),
        "error": result.error,
        "temporary": result.temporary,
        "exit": code,
    }


def _citation(one: Citation) -> dict[str, object]:
    """A mark: the words it stands on, whether its source carries them, and the passage or what is missing."""
    return {
        "number": one.number,
        "url": one.url,
        "claim": one.claim,
        "supported": not one.missing,
        "passage": one.passage,
        "missing": one.missing,
    }


def _write(stream: TextIO, body: Mapping[str, object]) -> None:
    whole = codecs.lookup(stream.encoding or "utf-8").name == "utf-8"
    stream.write(json.dumps(_safe(body), ensure_ascii=not whole) + "\n")
    stream.flush()


def _safe(value: object) -> object:
    """The same value with nothing in its texts that could drive a terminal."""
    if isinstance(value, str):
        return strip_unsafe(value)
    if isinstance(value, Mapping):
        return {str(key): _safe(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_safe(item) for item in value]
    return value
