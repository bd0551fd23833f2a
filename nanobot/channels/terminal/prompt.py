"""The question above the line being typed: shown from its event on, answered with keys, a line or an editor.

What is asked and what each key means is in `questions.py`; here are the surface that shows it and the agent that hears.
"""

import asyncio
from collections.abc import Callable

from nanobot.bus.events import (
    ApprovalAsked,
    ApprovalClosed,
    Event,
    Notice,
    QuestionAsked,
    QuestionClosed,
    Sender,
    TurnFinished,
)
from nanobot.channels.base import TerminalAgent
from nanobot.channels.terminal.questions import PAUSE, PersonAnswer, QuestionLine, TerminalQuestions
from nanobot.channels.terminal.surface import Surface
from nanobot.channels.terminal.transcript import Piece
from nanobot.errors import NanobotError, UsageError
from nanobot.utils.translation import _

_PERSON = Sender("local", role="owner")


class QuestionPrompt:
    """The open questions of one conversation, and what the person makes of them.

    `draw` draws the live part, which holds the question; `tell` prints; `clock` gives seconds that never go back.
    """

    def __init__(
        self,
        agent: TerminalAgent,
        surface: Surface,
        clock: Callable[[], float],
        draw: Callable[[], None],
        tell: Callable[[Notice], None],
    ) -> None:
        self._agent = agent
        self._surface = surface
        self._draw = draw
        self._tell = tell
        self._questions = TerminalQuestions(clock)
        self._given: asyncio.Queue[PersonAnswer] = asyncio.Queue()
        self._to_edit: asyncio.Queue[ApprovalAsked] = asyncio.Queue()

    async def run(self) -> None:
        """Hand over the answers of the person until cancelled."""
        await asyncio.gather(self._reply(), self._edit())

    def see(self, event: Event) -> tuple[Piece, ...]:
        """Show the oldest open question; the one that is shown stays until it is over.

        What does not fit above the line being typed is given back, to be printed.
        """
        match event:
            case ApprovalAsked() | QuestionAsked():
                shown = self._questions.ask(event)
            case ApprovalClosed() | QuestionClosed():
                shown = self._questions.close(event.id)
            case TurnFinished():
                shown = self._questions.close()
            case _:
                return ()
        pieces: tuple[Piece, ...] = ()
        if shown:
            lines = self._questions.lines()
            if not self._surface.fits(lines) and not self.picking:
                pieces = tuple(Piece("asked", line.text) for line in lines[:-1])
            self._surface.ring(_("A question waits for your answer."))
        self._draw_again()
        return pieces

    def lines(self) -> tuple[QuestionLine, ...]:
        """The question that is shown, whole; none where nothing is asked."""
        return self._questions.lines()

    def takes(self, key: str) -> bool:
        """Whether a key on the empty line answers the question that is shown."""
        return self._questions.ready and self._questions.means(key)

    def touched(self) -> None:
        """A key was pressed: the next one counts as an answer after a pause."""
        self._questions.touched()
        self._draw_again()

    @property
    def picking(self) -> bool:
        """Whether a picker is shown: the arrow keys and Enter are its own, and what is typed narrows it down."""
        return self._questions.picking

    @property
    def chooses(self) -> bool:
        """Whether the arrow keys on the empty line go through the answers of the question that is shown."""
        return self._questions.chooses

    def typed(self, text: str) -> None:
        """The line being typed has changed."""
        if self.picking:
            self._questions.narrow(text)
            self._draw_again()

    def move(self, step: int) -> None:
        """Go up or down among these answers."""
        self._questions.move(step)
        self._draw_again()

    def pick(self) -> bool:
        """Enter on the empty line: True where the arrow keys have come to an answer."""
        return self._give(self._questions.pick())

    def leave(self) -> bool:
        """Leave a picker without an answer; False where none is shown."""
        return self._give(self._questions.leave())

    def back(self) -> bool:
        """Leave the reason or the text that is being written; False where none is."""
        left = self._questions.back()
        self._draw_again()
        return left

    def answer_key(self, key: str) -> None:
        """A key was pressed on the empty line for the question that is shown."""
        asked = self._questions.current
        if not self._give(self._questions.press(key)):
            if self._questions.mode == "edit" and isinstance(asked, ApprovalAsked):
                self._begin_edit(asked)
            self._draw_again()

    def answer_line(self, text: str) -> bool:
        """A line was entered; True where it is the reason of a no, or what is to be done instead."""
        return self._give(self._questions.written(text))

    def answer_number(self, text: str) -> bool:
        """A line was entered; True where it is the number of an answer to the model."""
        return self._give(self._questions.numbered(text))

    def answer_words(self, text: str) -> bool:
        """A line was entered where there are no keys; True where it answers the question that is shown."""
        asked, given = self._questions.current, self._questions.worded(text)
        if given is None and self.picking and text.strip():
            self.typed(text)
            return True
        if self._questions.mode == "edit" and isinstance(asked, ApprovalAsked):
            self._begin_edit(asked)
            return True
        return self._give(given)

    def _begin_edit(self, asked: ApprovalAsked) -> None:
        """Let the person write anew what is proposed: a line below the question, a file in their editor."""
        if asked.file:
            self._to_edit.put_nowait(asked)
        else:
            self._surface.give_back(asked.proposed)

    def _give(self, given: PersonAnswer | None) -> bool:
        if given is not None:
            self._given.put_nowait(given)
            self._draw_again()
        return given is not None

    def _draw_again(self) -> None:
        """Draw the question as it is now, and again when its keys count."""
        self._draw()
        if self._questions.current is not None:
            asyncio.get_running_loop().call_later(PAUSE + 0.05, self._draw)

    async def _reply(self) -> None:
        while True:
            given, loop, key = await self._given.get(), self._agent.loop, self._agent.address.key
            try:
                if given.number or given.left:
                    await loop.choose(key, given.id, given.number, _PERSON)
                else:
                    await loop.approve(key, given.id, given.choice, given.text)
            except NanobotError as error:
                self._tell(Notice(str(error), "warning"))

    async def _edit(self) -> None:
        """Open what is proposed for a file in the person's editor; what they save is asked about anew."""
        while True:
            asked = await self._to_edit.get()
            try:
                text = await self._surface.edit(asked.proposed, asked.file)
            except UsageError as error:
                self._tell(Notice(str(error), "warning"))
            else:
                self._take_edited(asked, text)
            self._questions.back()
            self._draw_again()

    def _take_edited(self, asked: ApprovalAsked, text: str) -> None:
        if text.strip() in ("", asked.proposed.strip()):
            self._tell(Notice(_("Nothing was written anew in the editor.")))
        elif self._questions.current is not asked:
            self._tell(Notice(_("The question was over before the editor was left."), "warning"))
        else:
            self._given.put_nowait(PersonAnswer(asked.id, "edit", text))
