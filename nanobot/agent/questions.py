"""Questions of the model to the person of a turn, and their answers."""

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from nanobot.agent.tools.base import Choose, PersonsAnswer
from nanobot.agent.turn import Publisher, Turn
from nanobot.bus.events import Event, InboundMessage, QuestionAsked, QuestionClosed, Sender
from nanobot.errors import QuestionOver, UsageError

_Publish = Callable[[Event], Awaitable[None]]
#: Seconds that a question waits for its answer.
QUESTION_SECONDS = 600.0


class _Waiting(Struct):
    """A question that waits in a chat: its `id`, who may answer, and what may be chosen."""

    id: str
    person: str
    choices: tuple[str, ...]
    answer: "asyncio.Future[PersonsAnswer]"


class Questions(Struct):
    """The question that waits in each chat; a second one is asked when the first is over.

    `channels` are those that show a question and bring back its answer. `seconds` is how long one waits.
    """

    channels: set[str] = field(default_factory=set)
    seconds: float = QUESTION_SECONDS
    _open: dict[str, _Waiting] = field(default_factory=dict)
    _locks: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    def can_ask(self, turn: Turn) -> bool:
        """Whether the person of this turn is there to answer."""
        return not turn.scheduled and not self.channels.isdisjoint(turn.message.address.names)

    def chooser(self, turn: Turn) -> Choose | None:
        """What asks the person of this turn; None where nobody is there."""
        if not self.can_ask(turn):
            return None

        async def choose(question: str, choices: tuple[str, ...]) -> PersonsAnswer:
            key = turn.message.address.key
            lock = self._locks[key]
            try:
                async with lock:
                    if turn.heard():  # what they have typed meanwhile is read first
                        return PersonsAnswer("words")
                    return await self._ask(turn.emit, key, turn.message.sender.id, question, choices)
            finally:
                if not lock.locked():
                    self._locks.pop(key, None)

        return choose

    async def offer(
        self, message: InboundMessage, publish: Publisher, question: str, choices: tuple[str, ...]
    ) -> PersonsAnswer:
        """Ask who has sent a command what they choose. Raises `UsageError` where nobody can answer."""
        if self.channels.isdisjoint(message.address.names):
            raise UsageError("Nobody can be asked here. Name what you want behind the command; /help tells how.")
        return await self._ask(publish, message.address.key, message.sender.id, question, choices)

    async def _ask(
        self, publish: _Publish, key: str, person: str, question: str, choices: tuple[str, ...]
    ) -> PersonsAnswer:
        waiting = _Waiting(secrets.token_hex(4), person, choices, asyncio.get_running_loop().create_future())
        self._open[key] = waiting
        answer = PersonsAnswer("nothing")
        try:
            await publish(QuestionAsked(waiting.id, question, choices, person))
            async with asyncio.timeout(self.seconds):
                answer = await waiting.answer
        except TimeoutError:
            pass
        finally:
            del self._open[key]
            await publish(QuestionClosed(waiting.id, answer.kind, answer.choice))
        return answer

    def answer(self, session_key: str, key: str, number: int, by: Sender) -> str:
        """Choose answer `number`, counted from 1, and say so. Raises `UsageError` where that cannot be."""
        waiting = self._open.get(session_key)
        if waiting is None or waiting.id != key or waiting.answer.done():
            raise QuestionOver("This question is over: it was answered, or its turn has ended.")
        if by.id != waiting.person:
            raise UsageError("Only the person who was asked may answer this.")
        if not 1 <= number <= len(waiting.choices):
            raise UsageError(f"There is no answer {number}; choose 1 to {len(waiting.choices)}.")
        waiting.answer.set_result(PersonsAnswer("choice", waiting.choices[number - 1]))
        return f"Answered: {waiting.choices[number - 1]}"

    def spoken(self, session_key: str, person: str) -> bool:
        """Somebody has written in a chat: that answers the question to them, if one waits."""
        waiting = self._open.get(session_key)
        if waiting is None or waiting.person != person or waiting.answer.done():
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
