"""Questions above the line being typed: of a call to the owner, of the model to the person.

Pure: events and keys in, lines and answers out. One question is shown at a time, and a newer one waits until it is
over. A key counts as an answer only where nobody is typing: on an empty line, and half a second after the last key and
after the question appeared.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from nanobot.bus.events import ApprovalAsked, QuestionAsked
from nanobot.utils.text import squeeze, strip_unsafe
from nanobot.utils.translation import N_, _

#: Lines of a text in question that are shown, and characters of each.
_LINES, _WIDTH = 1_000, 4_000
#: Rows of a picker that are shown at a time.
_ROWS = 8
#: Seconds without a key after which one counts as an answer.
PAUSE = 0.5
Style = Literal["title", "fact", "chosen", "added", "removed", "shown", "keys"]
#: The answer that each key gives to a question about a call; a question of the model is answered by number.
_CHOICES: Mapping[str, str] = {
    **dict.fromkeys("y1", "once"),
    **dict.fromkeys("a2", "always"),
    **dict.fromkeys("n3", "no"),
    "e": "edit",
}
KEYS = (*_CHOICES, *"456789")
_TOLD: Mapping[str, str] = {
    "once": N_("y once"),
    "always": N_("a always"),
    "no": N_("n no"),
    "edit": N_("e edit"),
}


class QuestionLine(Struct, frozen=True):
    """One line of a question, and what it is. One that is a `row` of a list is cut at the edge of the screen."""

    text: str
    style: Style = "fact"
    row: bool = False


class PersonAnswer(Struct, frozen=True):
    """An answer to the question `id`: a `choice`, with why not or what is to be done instead as its `text`; or the
    `number` of an answer to the model; or that a picker is `left`."""

    id: str
    choice: str = ""
    text: str = ""
    number: int = 0
    left: bool = False


class TerminalQuestions:
    """The open questions of one terminal. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: list[ApprovalAsked | QuestionAsked] = []
        self._shown_since = self._quiet_since = 0.0
        self.mode: Literal["keys", "reason", "edit"] = "keys"
        self._chosen = 0  # the answer that the arrow keys have come to, from 1 on
        self._filter = ""  # what was typed to narrow down a picker

    @property
    def current(self) -> ApprovalAsked | QuestionAsked | None:
        """The question that is shown."""
        return self._open[0] if self._open else None

    @property
    def ready(self) -> bool:
        """Whether a key counts as an answer now; the line being typed is empty then."""
        return self._seen and self.mode == "keys" and self._clock() - self._quiet_since >= PAUSE

    @property
    def _seen(self) -> bool:
        """Whether the question has been there long enough to be what somebody answers."""
        return bool(self._open) and self._clock() - self._shown_since >= PAUSE

    @property
    def picking(self) -> bool:
        """Whether one of many things is being chosen: a picker was asked for, so its keys count at once."""
        return isinstance(self.current, QuestionAsked) and self.current.picker

    @property
    def chooses(self) -> bool:
        """Whether the arrow keys count: as every key, and at once when they have begun to."""
        chosen = self._seen and self._chosen > 0
        return isinstance(self.current, QuestionAsked) and (chosen or self.ready)

    def ask(self, event: ApprovalAsked | QuestionAsked) -> bool:
        """Take a question in; True where it is shown at once."""
        if any(one.id == event.id for one in self._open):  # another page of it, which a terminal has none of
            return False
        self._open.append(event)
        return len(self._open) == 1 and self._begin()

    def close(self, key: str = "") -> bool:
        """A question is over, all of them without a `key`; True where another one is shown now."""
        before = self.current
        self._open = [one for one in self._open if key and one.id != key]
        if self.current is None:
            self.mode = "keys"
        return self.current is not None and self.current is not before and self._begin()

    def touched(self) -> None:
        """A key was pressed."""
        self._quiet_since = self._clock()

    def back(self) -> bool:
        """Leave the reason or the text that is being written; False where none is."""
        was, self.mode = self.mode, "keys"
        self.touched()
        return was != "keys"

    def means(self, key: str) -> bool:
        """Whether a key is an answer to the question that is shown, where it counts."""
        question = self.current
        if isinstance(question, QuestionAsked):
            return not question.picker and key.isdecimal() and 1 <= int(key) <= len(question.choices)
        return question is not None and _CHOICES.get(key, "") in question.choices

    def move(self, step: int) -> None:
        """Go up or down among the answers of the question that is shown, if it has any."""
        question = self.current
        if isinstance(question, QuestionAsked) and question.picker:
            fitting = [number for number, _ in self._fitting(question)]
            at = fitting.index(self._chosen) + step if self._chosen in fitting else 0
            if fitting:  # by one it goes round, by more to the end
                self._chosen = fitting[at % len(fitting) if abs(step) == 1 else min(max(at, 0), len(fitting) - 1)]
            return
        if not isinstance(question, QuestionAsked) or not self.chooses:
            return
        count = len(question.choices)
        self._chosen = (self._chosen + step - 1) % count + 1 if self._chosen else 1 if step > 0 else count

    def pick(self) -> PersonAnswer | None:
        """The answer that the arrow keys have come to; None where they were not used, or where nothing fits."""
        question = self.current
        if isinstance(question, QuestionAsked) and question.picker:
            return PersonAnswer(question.id, number=self._chosen) if self._chosen else None
        return self.press(str(self._chosen)) if self._chosen else None

    def narrow(self, text: str) -> None:
        """Show of a picker what holds all of these words; its first one is come to."""
        question = self.current
        if isinstance(question, QuestionAsked) and question.picker and text != self._filter:
            self._filter = text
            fitting = self._fitting(question)
            if all(number != self._chosen for number, _ in fitting):
                self._chosen = fitting[0][0] if fitting else 0

    def leave(self) -> PersonAnswer | None:
        """Leave a picker without an answer; None where none is shown."""
        return PersonAnswer(self.current.id, left=True) if self.current is not None and self.picking else None

    def press(self, key: str) -> PersonAnswer | None:
        """What a key answers; None where a reason or a text is to follow, or where the key means nothing here."""
        question = self.current
        if question is None or not self.means(key):
            return None
        if isinstance(question, QuestionAsked):
            return PersonAnswer(question.id, number=int(key))
        if (choice := _CHOICES[key]) in ("no", "edit"):
            self.mode = "reason" if choice == "no" else "edit"
            return None
        return PersonAnswer(question.id, choice)

    def written(self, text: str) -> PersonAnswer | None:
        """What a line answers that was entered for a reason or a text; None where neither is being written."""
        question, mode = self.current, self.mode
        if question is None or mode == "keys" or (mode == "edit" and not text.strip()):
            return None
        self.mode = "keys"
        return PersonAnswer(question.id, "no" if mode == "reason" else "edit", text)

    def numbered(self, line: str) -> PersonAnswer | None:
        """What a whole line answers that is the number of an answer to the model."""
        asked, number = isinstance(self.current, QuestionAsked), line.strip()
        question = self.current
        if isinstance(question, QuestionAsked) and question.picker:
            if not (number.isascii() and number.isdecimal() and int(number) <= len(question.choices)):
                return None
            return PersonAnswer(question.id, number=int(number)) if int(number) else self.leave()
        return self.press(number) if asked and self._seen and number.isascii() else None

    def worded(self, line: str) -> PersonAnswer | None:
        """What a whole line answers where there are no keys: `y`, `a`, `n because …`, `e other text`, a number.

        A file is written anew in an editor, which `e` alone opens: then `mode` is `edit`.
        """
        question = self.current
        if not isinstance(question, ApprovalAsked):
            return self.numbered(line)
        word, _, rest = line.strip().partition(" ")
        choice = _CHOICES.get(word.casefold(), "")
        alone = rest and (choice in ("once", "always") or (choice == "edit" and question.file))
        if not self.ready or choice not in question.choices or alone:
            return None
        if choice == "edit" and question.file:
            return self.press("e")
        return PersonAnswer(question.id, choice, rest)

    def lines(self) -> tuple[QuestionLine, ...]:
        """The question that is shown, whole; none where nothing is asked."""
        return tuple(self._lines(self.current)) if self.current is not None else ()

    def _begin(self) -> bool:
        self.mode, self._chosen, self._filter = "keys", int(self.picking), ""
        self._shown_since = self._clock()
        self.touched()
        return True

    def _lines(self, question: ApprovalAsked | QuestionAsked) -> Iterator[QuestionLine]:
        if isinstance(question, QuestionAsked):
            said = [line for text in question.question.splitlines() if (line := _one_line(text))]
            yield from (QuestionLine(line, "title") for line in said)
            if question.picker:
                yield from self._rows(question)
                yield QuestionLine(self._keys(question), "keys")
                return
            for number, choice in enumerate(question.choices, 1):
                style: Style = "chosen" if number == self._chosen else "fact"
                mark = "❯ " if number == self._chosen else "  " if self._chosen else ""
                yield QuestionLine(f"{mark}{number} {_one_line(choice)}", style)
        else:
            yield from self._facts(question)
        yield QuestionLine(self._keys(question), "keys")

    def _fitting(self, question: QuestionAsked) -> list[tuple[int, str]]:
        """The choices of a picker that hold all that was typed, each with its number from 1 on."""
        words = self._filter.casefold().split()
        rows = [(number, _one_line(choice)) for number, choice in enumerate(question.choices, 1)]
        return [row for row in rows if all(word in f"{row[0]} {row[1]}".casefold() for word in words)]

    def _rows(self, question: QuestionAsked) -> Iterator[QuestionLine]:
        """The rows of a picker around the one that is come to."""
        fitting = self._fitting(question)
        at = next((place for place, row in enumerate(fitting) if row[0] == self._chosen), 0)
        first = min(max(at - _ROWS // 2, 0), max(len(fitting) - _ROWS, 0))
        for number, text in fitting[first : first + _ROWS]:
            here = number == self._chosen
            yield QuestionLine(f"{'❯' if here else ' '} {number} {text}", "chosen" if here else "fact", row=True)
        if not fitting:
            yield QuestionLine(_("Nothing here holds: {words}", words=_one_line(self._filter)))

    def _facts(self, question: ApprovalAsked) -> Iterator[QuestionLine]:
        yield QuestionLine(_one_line(question.title), "title")
        for line in question.detail.splitlines():
            yield QuestionLine(_one_line(line))
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

    def _keys(self, question: ApprovalAsked | QuestionAsked) -> str:
        if self.mode == "reason":
            return _("No. Why? Enter sends what you write to the model; Ctrl-C goes back.")
        if self.mode == "edit" and isinstance(question, ApprovalAsked) and question.file:
            file = _one_line(question.file)
            return _("{file} is open in your editor; what you save is judged anew.", file=file)
        if self.mode == "edit":
            return _("Change it below; Enter takes it, to be judged anew. Ctrl-C goes back.")
        more = " · " + _("{count} more wait", count=len(self._open) - 1) if len(self._open) > 1 else ""
        if isinstance(question, QuestionAsked) and question.picker:
            count = _("{part} of {all}", part=len(self._fitting(question)), all=len(question.choices))
            return count + " · " + _("↑↓ and Enter choose · type to find · Esc leaves") + more
        if isinstance(question, QuestionAsked):
            told = _("1 to {last} or ↑↓ and Enter answers, or write something else", last=len(question.choices))
        else:
            told = " · ".join(_(_TOLD[one]) for one in question.choices if one in _TOLD)
        return f"{told}{more}" if self.ready else f"…{more}"


def _one_line(text: str) -> str:
    return squeeze(strip_unsafe(text))
