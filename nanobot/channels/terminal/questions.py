"""Questions to the owner above the line being typed. Pure: events and keys in, lines and answers out.

One question is shown at a time, and a newer one waits until it is over. A key counts as an answer only where nobody is
typing: on an empty line, and half a second after the last key and after the question appeared.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from nanobot.bus.events import ApprovalAsked
from nanobot.utils.text import squeeze, strip_unsafe

#: Seconds without a key after which one counts as an answer.
PAUSE = 0.5
Style = Literal["title", "fact", "added", "removed", "shown", "keys"]
#: The answer that each key gives.
KEYS: Mapping[str, str] = {"y": "once", "1": "once", "a": "always", "2": "always", "n": "no", "3": "no", "e": "edit"}
_TOLD: Mapping[str, str] = {"once": "y once", "always": "a always", "no": "n no", "edit": "e edit"}


class QuestionLine(Struct, frozen=True):
    """One line of a question, and what it is."""

    text: str
    style: Style = "fact"


class OwnerAnswer(Struct, frozen=True):
    """An answer to the question `id`; `text` is why not, or what is to be done instead."""

    id: str
    choice: str
    text: str = ""


class OwnerQuestions:
    """The open questions of one terminal. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: list[ApprovalAsked] = []
        self._quiet_since = 0.0
        self.mode: Literal["keys", "reason", "edit"] = "keys"

    @property
    def current(self) -> ApprovalAsked | None:
        """The question that is shown."""
        return self._open[0] if self._open else None

    @property
    def ready(self) -> bool:
        """Whether a key counts as an answer now; the line being typed is empty then."""
        return bool(self._open) and self.mode == "keys" and self._clock() - self._quiet_since >= PAUSE

    def ask(self, event: ApprovalAsked) -> bool:
        """Take a question in; True where it is shown at once."""
        self._open.append(event)
        return len(self._open) == 1 and self._begin()

    def close(self, key: str = "") -> bool:
        """A question is over, all of them without a `key`; True where another one is shown now."""
        before = self.current
        self._open = [one for one in self._open if key and one.id != key]
        return self.current is not None and self.current is not before and self._begin()

    def touched(self) -> None:
        """A key was pressed."""
        self._quiet_since = self._clock()

    def back(self) -> bool:
        """Leave the reason or the text that is being written; False where none is."""
        was, self.mode = self.mode, "keys"
        self.touched()
        return was != "keys"

    def press(self, key: str) -> OwnerAnswer | None:
        """What a key answers; None where a reason or a text is to follow, or where the key means nothing here."""
        question, choice = self.current, KEYS.get(key, "")
        if question is None or choice not in question.choices:
            return None
        if choice in ("no", "edit"):
            self.mode = "reason" if choice == "no" else "edit"
            return None
        return OwnerAnswer(question.id, choice)

    def written(self, text: str) -> OwnerAnswer | None:
        """What a line answers that was entered for a reason or a text; None where neither is being written."""
        question, mode = self.current, self.mode
        if question is None or mode == "keys" or (mode == "edit" and not text.strip()):
            return None
        self.mode = "keys"
        return OwnerAnswer(question.id, "no" if mode == "reason" else "edit", text)

    def worded(self, line: str) -> OwnerAnswer | None:
        """What a whole line answers where there are no keys: `y`, `a`, `n because …`, `e other text`."""
        question = self.current
        word, _, rest = line.strip().partition(" ")
        choice = KEYS.get(word.casefold(), "")
        alone = choice in ("once", "always") and rest
        if question is None or not self.ready or choice not in question.choices or alone:
            return None
        return OwnerAnswer(question.id, choice, rest)

    def lines(self) -> tuple[QuestionLine, ...]:
        """The question that is shown, whole; none where nothing is asked."""
        return tuple(self._lines(self.current)) if self.current is not None else ()

    def _begin(self) -> bool:
        self.mode = "keys"
        self.touched()
        return True

    def _lines(self, question: ApprovalAsked) -> Iterator[QuestionLine]:
        yield QuestionLine(_one_line(question.title), "title")
        for line in question.detail.splitlines():
            yield QuestionLine(_one_line(line))
        for line in question.shown.splitlines():
            text = strip_unsafe(line.expandtabs(4)).rstrip()
            sign = text[2:3]  # after the two blanks that set it in
            style: Style = "added" if sign == "+" else "removed" if sign == "-" else "shown"
            yield QuestionLine(text, style)
        yield QuestionLine(self._keys(question), "keys")

    def _keys(self, question: ApprovalAsked) -> str:
        if self.mode == "reason":
            return "No. Why? Enter sends what you write to the model; Ctrl-C goes back."
        if self.mode == "edit":
            return "Change it below; Enter takes it, to be judged anew. Ctrl-C goes back."
        more = f" · {len(self._open) - 1} more wait" if len(self._open) > 1 else ""
        told = " · ".join(_TOLD[one] for one in question.choices if one in _TOLD)
        return f"{told}{more}" if self.ready else f"…{more}"


def _one_line(text: str) -> str:
    return squeeze(strip_unsafe(text))
