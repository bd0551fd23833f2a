"""The questions above the line being typed: shown from their events on, answered with keys, a line or an editor.

One is shown at a time, and a newer one waits until it is over. A key counts as an answer only where nobody is typing:
on an empty line, and half a second after the last key and after the question appeared.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Literal

from nanobot.bus.events import (
    ApprovalAsked,
    ApprovalClosed,
    Event,
    QuestionAsked,
    QuestionClosed,
    TurnFinished,
)
from nanobot.channels.base import ApproveCall, ChooseCall, TerminalAgent
from nanobot.channels.terminal.questions import CHOICES, QuestionLine, asked_lines, fitting
from nanobot.channels.terminal.surface import Surface
from nanobot.channels.terminal.transcript import Piece
from nanobot.errors import UsageError
from nanobot.utils.text import one_line
from nanobot.utils.translation import N_, _

#: Seconds without a key after which one counts as an answer.
PAUSE = 0.5
_TOLD: Mapping[str, str] = {
    "once": N_("y once"),
    "always": N_("a always"),
    "no": N_("n no"),
    "edit": N_("e edit"),
}
Given = ApproveCall | ChooseCall


class QuestionPrompt:
    """The open questions of one conversation, and what the person makes of them.

    `draw` draws the live part, which holds the question; `do` does something behind what was entered before, and tells
    what went wrong.
    """

    def __init__(
        self,
        agent: TerminalAgent,
        surface: Surface,
        draw: Callable[[], None],
        do: Callable[[Callable[[], Awaitable[None]]], None],
    ) -> None:
        self._agent = agent
        self._surface = surface
        self._draw = draw
        self._do = do
        self._open: list[ApprovalAsked | QuestionAsked] = []
        self._shown_since = self._quiet_since = 0.0
        self._mode: Literal["keys", "reason", "edit"] = "keys"
        self._chosen = 0  # the row of a picker that the arrow keys have come to, from 1 on
        self._words = ""  # what was typed to narrow down a picker

    def see(self, event: Event) -> tuple[Piece, ...]:
        """Show the oldest open question; the one that is shown stays until it is over.

        What does not fit above the line being typed is given back, to be printed.
        """
        before = self._current
        match event:
            case ApprovalAsked() | QuestionAsked():
                if all(one.id != event.id for one in self._open):  # else another page of it; a terminal has no pages
                    self._open.append(event)
            case ApprovalClosed() | QuestionClosed():
                self._open = [one for one in self._open if one.id != event.id]
            case TurnFinished():
                self._open.clear()
            case _:
                return ()
        pieces: tuple[Piece, ...] = ()
        if self._current is None:
            self._mode = "keys"
        elif self._current is not before:
            pieces = self._begin()
        self._draw_again()
        return pieces

    def lines(self) -> tuple[QuestionLine, ...]:
        """The question that is shown, whole, and the keys that count; none where nothing is asked."""
        asked = self._current
        if asked is None:
            return ()
        return (*asked_lines(asked, self._chosen, self._words), QuestionLine(self._keys(asked), "keys"))

    def takes(self, key: str) -> bool:
        """Whether a key on the empty line answers the question that is shown."""
        return self._ready and self._means(key)

    def touched(self) -> None:
        """A key was pressed: the next one counts as an answer after a pause."""
        self._quiet_since = time.monotonic()
        self._draw_again()

    @property
    def picking(self) -> bool:
        """Whether a picker is shown: it was asked for, so the arrow keys and Enter count at once, and what is typed
        narrows it down."""
        return self._picker is not None

    def typed(self, text: str) -> None:
        """The line being typed has changed: a picker shows what holds all of its words, and comes to the first one."""
        picker = self._picker
        if picker is None or text == self._words:
            return
        self._words = text
        known = fitting(picker, text)
        if all(number != self._chosen for number, _ in known):
            self._chosen = known[0][0] if known else 0
        self._draw_again()

    def move(self, step: int) -> None:
        """Go up or down in a picker."""
        if (picker := self._picker) is not None:
            known = [number for number, _ in fitting(picker, self._words)]
            at = known.index(self._chosen) + step if self._chosen in known else 0
            if known:  # by one it goes round, by more to the end
                self._chosen = known[at % len(known) if abs(step) == 1 else min(max(at, 0), len(known) - 1)]
        self._draw_again()

    def pick(self) -> bool:
        """Enter in a picker: True where the arrow keys have come to a choice."""
        picker = self._picker
        return self._give(ChooseCall(picker.id, self._chosen) if picker is not None and self._chosen else None)

    def leave(self) -> bool:
        """Leave a picker without an answer; False where none is shown."""
        return self._give(ChooseCall(self._picker.id, 0) if self._picker is not None else None)

    def back(self) -> bool:
        """Leave the reason or the text that is being written; False where none is."""
        was, self._mode = self._mode, "keys"
        self.touched()
        return was != "keys"

    def answer_key(self, key: str) -> None:
        """A key was pressed on the empty line for the question that is shown."""
        if not self._give(self._press(key)):
            self._draw_again()

    def answer_line(self, text: str) -> bool:
        """A line was entered; True where it is the reason of a no, or what is to be done instead."""
        question, mode = self._current, self._mode
        if question is None or mode == "keys" or (mode == "edit" and not text.strip()):
            return False
        self._mode = "keys"
        return self._give(ApproveCall(question.id, "no" if mode == "reason" else "edit", text))

    def answer_number(self, text: str) -> bool:
        """A line was entered; True where it is the number of an answer to the model."""
        number = text.strip()
        if not (number.isascii() and number.isdecimal()):
            return False
        if (picker := self._picker) is not None:
            return int(number) <= len(picker.choices) and self._give(ChooseCall(picker.id, int(number)))
        return isinstance(self._current, QuestionAsked) and self._seen and self._give(self._press(number))

    def answer_words(self, text: str) -> bool:
        """A line was entered where there are no keys: `y`, `a`, `n because …`, `e other text`, a number.

        True where it answers the question that is shown. A file is written anew in an editor, which `e` alone opens.
        """
        question = self._current
        if not isinstance(question, ApprovalAsked):
            if self.answer_number(text):
                return True
            if not self.picking or not text.strip():
                return False
            self.typed(text)
            return True
        word, _, rest = text.strip().partition(" ")
        choice = CHOICES.get(word.casefold(), "")
        in_editor = choice == "edit" and bool(question.file)
        alone = rest and (choice in ("once", "always") or in_editor)
        if not self._ready or choice not in question.choices or alone:
            return False
        if in_editor:
            self._begin_edit(question)
            return True
        return self._give(ApproveCall(question.id, choice, rest))

    @property
    def _current(self) -> ApprovalAsked | QuestionAsked | None:
        """The question that is shown."""
        return self._open[0] if self._open else None

    @property
    def _picker(self) -> QuestionAsked | None:
        """The question that is shown where one of many things is being chosen."""
        current = self._current
        return current if isinstance(current, QuestionAsked) and current.picker else None

    @property
    def _seen(self) -> bool:
        """Whether the question has been there long enough to be what somebody answers."""
        return bool(self._open) and time.monotonic() - self._shown_since >= PAUSE

    @property
    def _ready(self) -> bool:
        """Whether a key counts as an answer now; the line being typed is empty then."""
        return self._seen and self._mode == "keys" and time.monotonic() - self._quiet_since >= PAUSE

    def _begin(self) -> tuple[Piece, ...]:
        """Another question is shown now."""
        self._mode, self._chosen, self._words = "keys", int(self.picking), ""
        self._shown_since = self._quiet_since = time.monotonic()
        self._surface.ring(_("A question waits for your answer."))
        lines = self.lines()
        if self.picking or self._surface.fits(lines):
            return ()
        return tuple(Piece("asked", line.text) for line in lines[:-1])

    def _means(self, key: str) -> bool:
        """Whether a key is an answer to the question that is shown, where it counts."""
        question = self._current
        if isinstance(question, QuestionAsked):
            return not question.picker and key.isdecimal() and 1 <= int(key) <= len(question.choices)
        return question is not None and CHOICES.get(key, "") in question.choices

    def _press(self, key: str) -> Given | None:
        """What a key answers; None where a reason or a text is to follow, or where the key means nothing here."""
        question = self._current
        if question is None or not self._means(key):
            return None
        if isinstance(question, QuestionAsked):
            return ChooseCall(question.id, int(key))
        match CHOICES[key]:
            case "no":
                self._mode = "reason"
            case "edit":
                self._begin_edit(question)
            case choice:
                return ApproveCall(question.id, choice)
        return None

    def _begin_edit(self, asked: ApprovalAsked) -> None:
        """Let the person write anew what is proposed: a line below the question, a file in their editor."""
        self._mode = "edit"
        if asked.file:
            self._do(partial(self._edit, asked))
        else:
            self._surface.give_back(asked.proposed)

    def _give(self, given: Given | None) -> bool:
        if given is not None:
            self._do(partial(self._answer, given))
            self._draw_again()
        return given is not None

    def _draw_again(self) -> None:
        """Draw the question as it is now, and again when its keys count."""
        self._draw()
        if self._open:
            asyncio.get_running_loop().call_later(PAUSE + 0.05, self._draw)

    def _keys(self, question: ApprovalAsked | QuestionAsked) -> str:
        if self._mode == "reason":
            return _("No. Why? Enter sends what you write to the model; Ctrl-C goes back.")
        if self._mode == "edit" and isinstance(question, ApprovalAsked) and question.file:
            file = one_line(question.file)
            return _("{file} is open in your editor; what you save is judged anew.", file=file)
        if self._mode == "edit":
            return _("Change it below; Enter takes it, to be judged anew. Ctrl-C goes back.")
        more = " · " + _("{count} more wait", count=len(self._open) - 1) if len(self._open) > 1 else ""
        if isinstance(question, QuestionAsked) and question.picker:
            count = _("{part} of {all}", part=len(fitting(question, self._words)), all=len(question.choices))
            how = _("a number takes one · a word finds · 0 leaves")
            if self._surface.arrows:
                how = _("↑↓ and Enter choose · type to find · Esc leaves")
            return f"{count} · {how}{more}"
        if isinstance(question, QuestionAsked):
            told = _("1 to {last} answers, or write something else", last=len(question.choices))
        else:
            told = " · ".join(_(_TOLD[one]) for one in question.choices if one in _TOLD)
        return f"{told}{more}" if self._ready else f"…{more}"

    async def _edit(self, asked: ApprovalAsked) -> None:
        """Open what is proposed for a file in the person's editor; what they save is asked about anew.

        Raises `UsageError` where nothing comes of it.
        """
        try:
            text = await self._surface.edit(asked.proposed, asked.file)
            if text.strip() in ("", asked.proposed.strip()):
                raise UsageError(_("Nothing was written anew in the editor."))
            if self._current is not asked:
                raise UsageError(_("The question was over before the editor was left."))
            await self._answer(ApproveCall(asked.id, "edit", text))
        finally:
            self.back()

    async def _answer(self, given: Given) -> None:
        await self._agent.call(given)
