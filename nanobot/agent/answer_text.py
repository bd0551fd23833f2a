"""The text of one step on its way to a person: what has a mark or an address is held until its sentence is judged."""

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.agent.tools.base import Ask
from nanobot.agent.turn import Turn
from nanobot.bus.events import Notice
from nanobot.errors import ProviderError
from nanobot.messages import Citation, UserMessage
from nanobot.utils.marks import find_marks
from nanobot.utils.translation import _, _n

if TYPE_CHECKING:
    from nanobot.agent.citations.answer import MarkedAnswer

#: Seconds that judging one piece of an answer may take.
CHECK_SECONDS = 10.0
#: Files whose marks are checked when they are written, their most bytes, and how many of the wrong marks are named.
_REPORTS, _REPORT_BYTES, _WRONG = frozenset({".md", ".txt", ".markdown"}), 400_000, 20
#: Where a mark or an address begins, or may begin with what has come so far.
_BEGINS = re.compile(r"!?\[|!\Z|【|https?://|h(?:t(?:t(?:p(?:s?:?/?)?)?)?)?\Z", re.IGNORECASE)
#: The same where content from outside may have written the answer: an address without a scheme could carry words away,
#: so that the last word of a sentence waits for what follows it.
_BEGINS_UNDER_TAINT = re.compile(
    _BEGINS.pattern + r"|(?<![\w@./-])(?:[\w-]+\.)+(?:[^\W\d_]{2,}(?::\d+)?[/?]|[\w-]*\Z)", re.IGNORECASE
)
#: Where a sentence has ended, so that all its marks are known.
_ENDS = re.compile(r"\n|(?<!\d[.])(?<=[.!?])[\"”’)*_]*\s|[。！？]")


class AnswerText:
    """`raw` is what the model has said, `shown` what a person may see of it: the same with its marks judged.

    `failed` tells that the marks could not be judged; they are shown as they are.
    """

    def __init__(self, turn: Turn) -> None:
        self.raw = ""
        self.shown = ""
        self.failed = False
        self._turn = turn
        self._begins = _BEGINS_UNDER_TAINT if turn.taint else _BEGINS
        self._held = 0  # where in `raw` the part begins that is held back
        self._looked = 0  # how far the held part has no end
        self._marked: MarkedAnswer | None = None

    @property
    def citations(self) -> tuple[Citation, ...]:
        return tuple(self._marked.citations) if self._marked is not None else ()

    async def feed(self, piece: str) -> str:
        """Take the next piece of the answer and give what may be shown now."""
        self.raw += piece
        shown = ""
        while begin := self._begins.search(self.raw, self._held):
            shown += self.raw[self._held : begin.start()]
            self._held = begin.start()
            end = _ENDS.search(self.raw, max(begin.end(), self._looked))
            if end is None:
                self._looked = max(begin.end(), len(self.raw) - 4)
                break
            shown += await self._judged(end.end())
        else:
            shown += self.raw[self._held :]
            self._held = len(self.raw)
        self.shown += shown
        return shown

    async def end(self) -> str:
        """The answer is complete: what is left of it."""
        shown = await self._judged(len(self.raw)) if self._held < len(self.raw) else ""
        self.shown += shown
        return shown

    async def _judged(self, end: int) -> str:
        held, self._held = self._held, end
        if self.failed:
            return self._unjudged(held, end)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await asyncio.to_thread(self._judge, self.raw[:end], held)
        except (TimeoutError, ValueError, LookupError, ArithmeticError, RecursionError):
            self.failed = True
            return self._unjudged(held, end)

    def _unjudged(self, start: int, end: int) -> str:
        """A part whose addresses nobody has looked at: where one may carry words away, it is no link."""
        text = self.raw[start:end]
        return text.replace("://", ": //") if self._turn.taint else text

    def _judge(self, whole: str, start: int) -> str:
        if self._marked is None:
            # An answer without marks and addresses needs none of it.
            from nanobot.agent.citations.answer import MarkedAnswer

            turn = self._turn
            people = [one.text for one in turn.messages if isinstance(one, UserMessage) and one.kind != "notice"]
            self._marked = MarkedAnswer(
                turn.sources, turn.addresses.__contains__, "\n".join(people), tainted=bool(turn.taint)
            )
        return self._marked.mark(whole, start)


def unlinked(turn: Turn, text: str) -> str:
    """What a tool says in a chat: beside content from outside, an address that nobody has named is text."""
    if not turn.taint:
        return text
    from nanobot.agent.citations.answer import MarkedAnswer

    return MarkedAnswer(turn.sources, turn.addresses.__contains__, text, tainted=True).mark(text, 0)


async def checked(turn: Turn, text: AnswerText, answer: str) -> AnswerText:
    """An answer with its marks judged: `text`, which was streamed, unless the answer is another."""
    if text.raw.strip() != answer.strip():
        text = AnswerText(turn)
        await text.feed(answer)
        await text.end()
    if text.failed:
        await turn.emit(Notice(_("The citations of this answer could not be checked."), "warning"))
    return text


async def report_checked(turn: Turn, path: Path) -> str:
    """What the model is told of the marks of a text that it has written; empty where it has none.

    The person is told with the answer what is still wrong at the end of the turn.
    """
    turn.reports.pop(path.name, None)
    try:
        text = await asyncio.to_thread(_read_report, path)
        if not text or not find_marks(text):
            return ""
        from nanobot.agent.citations.answer import check_report

        async with asyncio.timeout(CHECK_SECONDS):
            count, wrong = await asyncio.to_thread(check_report, text, turn.sources)
    except (OSError, TimeoutError, ValueError, LookupError, ArithmeticError, RecursionError):
        turn.reports[path.name] = _("The citations of {file} could not be checked.", file=path.name)
        return turn.reports[path.name]
    if not wrong:
        return f"Citations: {count} held against their sources, which carry them."  # English: a model reads it
    turn.reports[path.name] = _n(
        "{file}: {number} of its citations is not carried by what was read.",
        "{file}: {number} of its citations are not carried by what was read.",
        len(wrong),
        file=path.name,
    )
    shown = "\n".join(f"- {line}" for line in wrong[:_WRONG])
    # English: a model reads it
    return f"Citations: {count} held against their sources. Mend these before you send the file:\n{shown}"


def _read_report(path: Path) -> str:
    """A text with marks; empty for what is too long or no text for people."""
    fits = path.suffix.casefold() in _REPORTS and path.stat().st_size <= _REPORT_BYTES
    return path.read_text(encoding="utf-8", errors="replace") if fits else ""


async def mended(turn: Turn, answer: AnswerText, ask: Ask) -> AnswerText:
    """The answer with the marks that its sources do not carry mended by the model, asked once; the same where that is
    no better or cannot be."""
    from nanobot.agent.citations.answer import REPAIR, repair_prompt

    try:
        text = await ask(REPAIR, await asyncio.to_thread(repair_prompt, answer.raw, answer.citations, turn.sources))
    except ProviderError:
        return answer
    other = await checked(turn, answer, text)
    better = sum(bool(one.missing) for one in other.citations) < sum(bool(one.missing) for one in answer.citations)
    if not better or not len(answer.raw) / 3 < len(text) < 3 * len(answer.raw):
        return answer
    turn.cite(other.citations, text)
    return other
