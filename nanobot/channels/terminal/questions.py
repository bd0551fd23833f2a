"""A question above the line being typed, as lines: of a call to the owner, of the model to the person."""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from nanobot.bus.events import ApprovalAsked, QuestionAsked
from nanobot.utils.text import one_line, strip_unsafe
from nanobot.utils.translation import _

#: Lines of a text in question that are shown, and characters of each.
_LINES, _WIDTH = 1_000, 4_000
#: Rows of a picker that are shown at a time.
_ROWS = 8
Style = Literal["title", "fact", "chosen", "added", "removed", "shown", "keys"]
#: The answer that each key gives to a question about a call; a question of the model is answered by number.
CHOICES: Mapping[str, str] = {
    **dict.fromkeys("y1", "once"),
    **dict.fromkeys("a2", "always"),
    **dict.fromkeys("n3", "no"),
    "e": "edit",
}
KEYS = (*CHOICES, *"456789")


class QuestionLine(Struct, frozen=True):
    """One line of a question, and what it is. One that is a `row` of a list is cut at the edge of the screen."""

    text: str
    style: Style = "fact"
    row: bool = False


def asked_lines(question: ApprovalAsked | QuestionAsked, chosen: int = 0, words: str = "") -> Iterator[QuestionLine]:
    """What is asked, whole. A picker shows what holds `words`, around the row `chosen`, from 1."""
    if isinstance(question, ApprovalAsked):
        yield from _facts(question)
        return
    said = [line for text in question.question.splitlines() if (line := one_line(text))]
    yield from (QuestionLine(line, "title") for line in said)
    if question.picker:
        yield from _rows(question, chosen, words)
        return
    yield from (QuestionLine(f"{number} {one_line(choice)}") for number, choice in enumerate(question.choices, 1))


def fitting(question: QuestionAsked, words: str) -> list[tuple[int, str]]:
    """The choices of a picker that hold all of these words, each with its number from 1 on."""
    rows = [(number, one_line(choice)) for number, choice in enumerate(question.choices, 1)]
    return [row for row in rows if all(word in f"{row[0]} {row[1]}".casefold() for word in words.casefold().split())]


def _rows(question: QuestionAsked, chosen: int, words: str) -> Iterator[QuestionLine]:
    """The rows of a picker around the one that is come to."""
    known = fitting(question, words)
    at = next((place for place, row in enumerate(known) if row[0] == chosen), 0)
    first = min(max(at - _ROWS // 2, 0), max(len(known) - _ROWS, 0))
    for number, text in known[first : first + _ROWS]:
        here = number == chosen
        yield QuestionLine(f"{'❯' if here else ' '} {number} {text}", "chosen" if here else "fact", row=True)
    if not known:
        yield QuestionLine(_("Nothing here holds: {words}", words=one_line(words)))


def _facts(question: ApprovalAsked) -> Iterator[QuestionLine]:
    yield QuestionLine(one_line(question.title), "title")
    for line in question.detail.splitlines():
        yield QuestionLine(one_line(line))
    lines = question.shown.splitlines()
    for line in lines[:_LINES]:
        text = strip_unsafe(line[:_WIDTH].expandtabs(4)).rstrip()
        if len(line) > _WIDTH:
            text += " " + _("… {count:,} more characters", count=len(line) - _WIDTH)
        sign = text[2:3]  # after the two blanks that set it in
        style: Style = "added" if sign == "+" else "removed" if sign == "-" else "shown"
        yield QuestionLine(text, style)
    if len(lines) > _LINES:
        count, more = len(lines) - _LINES, _("… {count:,} more lines", count=len(lines) - _LINES)
        told = _("… {count:,} more lines; e shows all of it", count=count) if question.file else more
        yield QuestionLine(f"  {told}", "title")
