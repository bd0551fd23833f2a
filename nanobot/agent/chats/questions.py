"""Questions of the model to the person of a turn, and their answers."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.agent.tools.base import Choose, PersonsAnswer
from nanobot.agent.turn import Publisher, Turn
from nanobot.bus.events import Event, InboundMessage, QuestionAsked, QuestionClosed, Sender
from nanobot.errors import QuestionOver, UsageError
from nanobot.utils.translation import _

_Publish = Callable[[Event], Awaitable[None]]
#: Seconds that a question waits for its answer.
QUESTION_SECONDS = 600.0


class _Waiting(Struct):
    """A question that waits in a chat, as it was `asked`, and what shows it again."""

    asked: QuestionAsked
    publish: _Publish
    answer: "asyncio.Future[PersonsAnswer]"


class Questions(Struct):
    """The question that waits in each chat; the tool that asks is `ordered`, so that there is one.

    `channels` are those that show a question and bring back its answer. `seconds` is how long one waits.
    """

    channels: set[str] = field(default_factory=set)
    seconds: float = QUESTION_SECONDS
    _open: dict[str, _Waiting] = field(default_factory=dict)

    def can_ask(self, turn: Turn) -> bool:
        """Whether the person of this turn is there to answer."""
        return not turn.scheduled and not self.channels.isdisjoint(turn.message.address.names)

    def chooser(self, turn: Turn) -> Choose | None:
        """What asks the person of this turn; None where nobody is there."""
        if not self.can_ask(turn):
            return None

        async def choose(question: str, choices: tuple[str, ...]) -> PersonsAnswer:
            if turn.heard():  # what they have typed meanwhile is read first
                return PersonsAnswer("words")
            return await self._ask(turn.emit, turn.message.address.key, _asked(turn.message, question, choices))

        return choose

    async def offer(
        self,
        message: InboundMessage,
        publish: Publisher,
        question: str,
        choices: tuple[str, ...],
        *,
        picker: bool = False,
    ) -> PersonsAnswer:
        """Ask who has sent a command what they choose; of a `picker`, of any number of things.

        Raises `UsageError` where nobody can answer.
        """
        if self.channels.isdisjoint(message.address.names):
            raise UsageError(_("Nobody can be asked here. Name what you want behind the command; /help tells how."))
        asked = _asked(message, question, choices)
        return await self._ask(publish, message.address.key, replace(asked, picker=picker))

    async def _ask(self, publish: _Publish, key: str, asked: QuestionAsked) -> PersonsAnswer:
        waiting = _Waiting(asked, publish, asyncio.get_running_loop().create_future())
        self.leave(key)  # a picker that was open: who asks next is answered
        self._open[key] = waiting
        answer = PersonsAnswer("nothing")
        try:
            await publish(asked)
            async with asyncio.timeout(self.seconds):
                answer = await waiting.answer
        except TimeoutError:
            pass
        finally:
            if self._open.get(key) is waiting:
                del self._open[key]
            await publish(QuestionClosed(asked.id, answer.kind, answer.choice))
        return answer

    def answer(self, session_key: str, key: str, number: int, by: Sender) -> str:
        """Choose answer `number`, counted from 1, and say so; 0 leaves a picker. Raises `UsageError` where that cannot
        be."""
        waiting = self._waiting(session_key, key, by)
        choices = waiting.asked.choices
        if waiting.asked.picker and not number:
            waiting.answer.set_result(PersonsAnswer("nothing"))
            return _("Left.")
        if not 1 <= number <= len(choices):
            raise UsageError(_("There is no answer {given}; choose 1 to {most}.", given=number, most=len(choices)))
        waiting.answer.set_result(PersonsAnswer("choice", choices[number - 1]))
        return _("Answered: {choice}", choice=choices[number - 1])

    async def turn_page(self, session_key: str, key: str, page: int, by: Sender) -> None:
        """Show another page of a picker, counted from 0. Raises `UsageError` as `answer` does."""
        waiting = self._waiting(session_key, key, by)
        waiting.asked = replace(waiting.asked, page=page)
        await waiting.publish(waiting.asked)

    def _waiting(self, session_key: str, key: str, by: Sender) -> _Waiting:
        """The question that this person may answer now."""
        waiting = self._open.get(session_key)
        if waiting is None or waiting.asked.id != key or waiting.answer.done():
            raise QuestionOver(_("This question is over: it was answered, or its turn has ended."))
        if by.id != waiting.asked.person:
            raise UsageError(_("Only the person who was asked may answer this."))
        return waiting

    def spoken(self, session_key: str, person: str) -> bool:
        """Somebody has written in a chat: that answers the question to them, if one waits."""
        waiting = self._open.get(session_key)
        if waiting is None or waiting.asked.person != person or waiting.answer.done():
            return False
        waiting.answer.set_result(PersonsAnswer("words"))
        return True

    def leave(self, session_key: str) -> bool:
        """Nobody will answer the question that waits in a chat; False where none waits."""
        waiting = self._open.get(session_key)
        if waiting is None or waiting.answer.done():
            return False
        waiting.answer.set_result(PersonsAnswer("nothing"))
        return True

    def waits(self, session_key: str) -> bool:
        """Whether a question waits for its answer in this chat."""
        return session_key in self._open


def _asked(message: InboundMessage, question: str, choices: tuple[str, ...]) -> QuestionAsked:
    """A question to who has sent this message, under an id of its own."""
    return QuestionAsked(secrets.token_hex(4), question, choices, message.sender.id)
