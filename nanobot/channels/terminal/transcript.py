"""From events to what is printed once and what is live. Pure: no terminal, no clock.

`apply` gives the pieces that are finished; they are printed and never touched again. What is not finished is the live
part: the tail of the text and the running tools.
"""

from collections.abc import Mapping
from typing import Literal, assert_never

from msgspec import Struct
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
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.citations import sources_block
from nanobot.channels.terminal.blocks import MarkdownBlock, Splitter
from nanobot.channels.view import Hint, HintLine, TurnView, compaction_line, fold_hints, hint_text, retry_text
from nanobot.messages import StepRetried, TextDelta, ThinkingDelta
from nanobot.utils.text import one_line, printable
from nanobot.utils.translation import _

PieceKind = Literal["text", "said", "hint", "failed", "info", "warning", "error", "receipt", "diff", "sources", "asked"]
#: What a turn is that ends without an answer.
_ENDS: Mapping[Outcome, PieceKind] = {"cancelled": "info", "out_of_steps": "warning", "failed": "error"}
#: An escape sequence that a chunk cut in two is held back up to this many characters.
_LONGEST_ESCAPE = 64
#: Lines of a change that are shown, and characters of each.
_DIFF_LINES, _DIFF_WIDTH = 12, 160


class Piece(Struct, frozen=True):
    """Something finished. `text` pieces carry a Markdown `block`, all others plain text, one or more lines."""

    kind: PieceKind
    text: str = ""
    block: MarkdownBlock | None = None

    @property
    def joined(self) -> bool:
        return self.block is not None and self.block.joined


class Transcript:
    """The conversation of one surface, turn after turn."""

    def __init__(self) -> None:
        self.view = TurnView()
        self._splitter = Splitter()
        self._held = ""
        self._printed = False  # something of this step is finished
        self._replies: dict[str, str] = {}
        self._asked: dict[str, ApprovalAsked] = {}
        self._questions: dict[str, QuestionAsked] = {}
        self._answered: dict[str, tuple[ApprovalAsked, ApprovalClosed]] = {}  # by the id of the call
        self._asides: list[Piece] = []  # what must not cut the block that is being written

    @property
    def tail(self) -> str:
        """The text that is not finished yet."""
        return self._splitter.tail

    @property
    def live(self) -> tuple[str, ...]:
        """The running tools and a pending retry, one line each."""
        running = tuple(hint for hint in self.view.hints if hint.state == "running")
        lines = tuple(one_line(hint_text(line)) for line in fold_hints(running))
        if self.view.retry is not None:
            lines = (*lines, one_line(retry_text(self.view.retry)))
        return lines

    @property
    def waiting(self) -> tuple[str, ...]:
        """What is printed when the block that is being written ends, one line each."""
        return tuple(("❯ " if piece.kind == "said" else "") + one_line(piece.text) for piece in self._asides)

    def said(self, text: str) -> list[Piece]:
        """A person has sent `text`: it is printed between two blocks; a later reply to a command stands for itself."""
        self._replies.clear()
        return self._aside([Piece("said", printable(text).rstrip())]) if text else []

    def apply(self, event: Event) -> list[Piece]:  # noqa: C901 - one case per event
        """What `event` has finished, in the order of printing."""
        before, self.view = self.view, self.view.apply(event)
        match event:
            case TurnStarted():
                self._fresh()
                return []
            case StepStarted():
                pieces = self._flush()
                self._printed = False
                return pieces
            case TextDelta():
                return self._feed(event.text)
            case StepRetried():
                return self._retried(event)
            case ToolStarted():
                return self._flush()
            case ToolFinished():
                return [*self._flush(), self._tool_piece(event.call.id, event.call.name), *_diff(event.result.diff)]
            case ContextCompacted():
                return [*self._flush(), Piece("info", compaction_line(event))]
            case Notice():
                return self._aside([Piece(event.level, one_line(event.text))])
            case ApprovalAsked():
                self._asked[event.id] = event
                return self._flush()
            case ApprovalClosed():
                asked = self._asked.pop(event.id, None)
                if asked is not None:
                    self._answered[asked.call.id] = asked, event
                return []
            case CommandReply():
                return self._replied(event)
            case TurnFinished():
                return self._finished(event, before)
            case MessageSent():
                files = [Piece("info", _("file: {path}", path=printable(path))) for path in event.files]
                return [*self._flush(), *_blocks(f"{printable(event.text)}\n"), *files]
            case QuestionAsked():
                self._questions[event.id] = event
                return self._flush()
            case QuestionClosed():
                return _closed(self._questions.pop(event.id, None), event)
            case ThinkingDelta() | ToolProgress() | TodoChanged():
                return []
            case _:
                assert_never(event)

    def _fresh(self) -> None:
        self._splitter.drop()
        self._held = ""
        self._printed = False

    def _feed(self, text: str) -> list[Piece]:
        data = (self._held + text).replace("\r\n", "\n")
        escape = max(data.rfind("\x1b"), len(data) - 1 if data.endswith("\r") else -1)
        cut = escape >= 0 and len(data) - escape < _LONGEST_ESCAPE and "\n" not in data[escape:]
        data, self._held = (data[:escape], data[escape:]) if cut else (data, "")
        return self._texts(self._splitter.feed(printable(data)))

    def _texts(self, blocks: list[MarkdownBlock]) -> list[Piece]:
        self._printed = self._printed or bool(blocks)
        asides = self._released() if blocks or not self.tail.strip() else []
        return [*(Piece("text", block=block) for block in blocks), *asides]

    def _aside(self, pieces: list[Piece]) -> list[Piece]:
        """Something that is no part of the text: now, or when the block that is being written ends."""
        if self._held or self.tail.strip() or self._splitter.divided:
            self._asides += pieces
            return []
        return pieces

    def _released(self) -> list[Piece]:
        if self._splitter.divided:
            return []
        asides, self._asides = self._asides, []
        return asides

    def _flush(self) -> list[Piece]:
        held, self._held = self._held, ""
        return self._texts(self._splitter.feed(printable(held)) + self._splitter.end())

    def _retried(self, event: StepRetried) -> list[Piece]:
        printed = self._printed
        self._fresh()
        what = one_line(retry_text(event))
        void = Piece("warning", _("{what} Take no notice of the unfinished text above.", what=what))
        return [*self._released(), void] if printed else self._released()

    def _tool_piece(self, call_id: str, name: str) -> Piece:
        hint = next((hint for hint in reversed(self.view.hints) if hint.call_id == call_id), Hint("", name))
        line = fold_hints((hint,))[0]
        text = _answered(line, *self._answered.pop(call_id)) if call_id in self._answered else hint_text(line)
        return Piece("failed" if line.state == "failed" else "hint", one_line(text))

    def _replied(self, event: CommandReply) -> list[Piece]:
        text = printable(event.text)
        before = self._replies.get(event.key, "") if event.key else ""
        if event.key:
            self._replies[event.key] = text
        if before:
            known = set(before.splitlines())
            text = "\n".join(line for line in text.splitlines() if line.strip() and line not in known)
        pieces = _blocks(f"{text}\n")
        if self._splitter.divided:
            self._asides += pieces
            return []
        return pieces

    def _finished(self, event: TurnFinished, before: TurnView) -> list[Piece]:
        final, step = printable(event.text), printable(before.text)
        rest = remainder(final, step)
        if rest is None:
            rest = remainder(final, printable("".join(before.earlier)) + step)
        held, self._held = printable(self._held), ""
        pieces = self._texts(self._splitter.feed(held + (rest or "")) + self._splitter.end())
        pieces += [self._tool_piece(hint.call_id, "") for hint in before.hints if hint.state == "running"]
        if rest is None and final.strip():
            pieces += [Piece("info", _("The answer in its final form:")), *_blocks(final)]
        pieces += [Piece("receipt", one_line(receipt)) for receipt in event.receipts]
        sources = sources_block(replace(event, text=final))
        if sources and event.outcome != "cancelled":
            pieces.append(Piece("sources", sources))
        pieces += _outcome(event)
        self._fresh()
        return pieces


def _diff(text: str) -> list[Piece]:
    """What a call has changed, as far as it is seen at a glance."""
    lines = [printable(line)[:_DIFF_WIDTH] for line in text.splitlines() if not line.startswith("@@")]
    more = [_("… {count} more lines", count=len(lines) - _DIFF_LINES)] if len(lines) > _DIFF_LINES else []
    return [Piece("diff", "\n".join([*lines[:_DIFF_LINES], *more]))] if lines else []


def _blocks(text: str) -> list[Piece]:
    splitter = Splitter()
    return [Piece("text", block=block) for block in splitter.feed(text) + splitter.end()]


def remainder(final: str, shown: str) -> str | None:
    """What `final` says beyond `shown`, blanks aside; None where `shown` is not how `final` begins."""
    place = 0
    for sign in shown:
        if sign.isspace():
            continue
        while place < len(final) and final[place].isspace():
            place += 1
        if place >= len(final) or final[place] != sign:
            return None
        place += 1
    rest = final[place:]
    return rest if rest.strip() else ""


def _outcome(event: TurnFinished) -> list[Piece]:
    """How a turn ended that is no answer."""
    error = one_line(event.error)
    if event.outcome == "out_of_steps":
        error = error or _("The turn ended at its limit before the work was done.")
    return [Piece(_ENDS[event.outcome], error)] if error and event.outcome in _ENDS else []


def _answered(line: HintLine, asked: ApprovalAsked, closed: ApprovalClosed) -> str:
    """The one line that stays of a call that was asked about, such as `Approved: ran pytest (14 s)`."""
    act, done = asked.act or line.text, asked.done or asked.act or line.text
    if closed.choice in ("once", "always"):
        what = act if line.state == "failed" else done
        for_good = closed.choice == "always"
        said = _("Approved for good: {act}", act=what) if for_good else _("Approved: {act}", act=what)
        return hint_text(replace(line, text=said))
    why = closed.reason if closed.choice else _("no answer in time")
    return _("Not approved: {act} ({why})", act=act, why=why) if why else _("Not approved: {act}", act=act)


def _closed(asked: QuestionAsked | None, closed: QuestionClosed) -> list[Piece]:
    """What stays of a question of the model: its words, and the answer where it is no line that was written."""
    if asked is None or asked.picker:  # what a command does with a choice, it says itself
        return []
    chosen = _("Answered: {choice}", choice=one_line(closed.choice))
    answer = {"choice": chosen, "words": "", "nothing": _("Not answered.")}[closed.how]
    said = [line for text in asked.question.splitlines() if (line := one_line(text))]
    return [Piece("info", "\n".join(filter(None, [*said, answer])))]
