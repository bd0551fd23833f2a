"""Shows turns while they run: typing, one status message, and the answer as it grows.

Nothing here must arrive: what cannot be shown is dropped, and the outbox writes the final text. Messages are made when
the queue of the chat lets one out, so what is sent is always the newest.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from loguru import logger
from msgspec.structs import replace

from nanobot.bus.events import (
    Address,
    ApprovalAsked,
    ApprovalClosed,
    CommandReply,
    OutboundMessage,
    QuestionAsked,
    QuestionClosed,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.telegram.receive.callback_queries import CHOOSE
from nanobot.channels.telegram.render.markdown import Entity, clean
from nanobot.channels.telegram.render.screen_messages import ScreenMessage, screen_messages_of, utf16_length
from nanobot.channels.telegram.send.calls import Place, Sending, send_part
from nanobot.channels.telegram.show.turn import TurnProgress
from nanobot.command.settings import ChatSettings
from nanobot.errors import StoreError
from nanobot.utils.text import shorten

#: Characters of a question; the rest of a long address is cut.
_LONGEST = 3_000
#: Characters of a button.
_BUTTON = 40
#: Seconds between tries to show or to edit the question, and how often an edit is tried.
_PAUSE, _TRIES = 3.0, 3
_LABELS = {"once": "Once", "host": "This host", "session": "This session", "no": "No", "never": "Never"}
NO_ANSWER = "No answer, so it was not done."


def question_message(asked: ApprovalAsked, outcome: str = "") -> ScreenMessage:
    """The question with its buttons, or with its outcome instead of them."""
    title = shorten(clean(asked.title).strip(), 200) or "OpenQuestion"
    detail = shorten(clean(asked.detail).strip(), _LONGEST)
    text = "\n\n".join(filter(None, (title, detail, outcome)))
    buttons = () if outcome else tuple((_LABELS.get(one, one), f"/approve {asked.id} {one}") for one in asked.choices)
    return ScreenMessage(text, (Entity("bold", 0, utf16_length(title)),), buttons=buttons)


def choice_message(asked: QuestionAsked, outcome: str = "") -> ScreenMessage:
    """A question of the model with its answers, or with its outcome instead of the buttons."""
    question = shorten(clean(asked.question).strip(), _LONGEST)
    answers = [f"{number}. {clean(choice)}" for number, choice in enumerate(asked.choices, 1)]
    below = outcome or "Tap an answer, or write one."
    buttons = tuple(
        (shorten(clean(choice), _BUTTON), f"{CHOOSE}{asked.id} {number}")
        for number, choice in enumerate(asked.choices, 1)
    )
    return ScreenMessage("\n\n".join([question, "\n".join(answers), below]), buttons=() if outcome else buttons)


class OpenQuestion:
    """A question that waits for its answer; `outcome` is what stands below it afterwards."""

    def __init__(self, asked: ApprovalAsked | QuestionAsked) -> None:
        self.asked = asked
        self.outcome = ""
        self.over = asyncio.Event()

    @property
    def screen(self) -> ScreenMessage:
        """How it stands in the chat now."""
        if isinstance(self.asked, QuestionAsked):
            return choice_message(self.asked, self.outcome)
        return question_message(self.asked, self.outcome)

    def close(self, choice: str = "") -> None:
        """It was answered, or without a choice it is over. Only the first call counts."""
        if not self.over.is_set():
            self.outcome = f"→ {_LABELS.get(choice, clean(choice)) if choice else NO_ANSWER}"
            self.over.set()


#: Seconds that the last reply of a command gets to come through the outbox before an earlier one is shown.
REPLY_PATIENCE = 0.4


class TelegramProgress:
    """Shows turns, questions and the first replies of slow commands. `chats` tells how a chat wants to see a turn."""

    def __init__(self, sending: Sending, chats: ChatSettings) -> None:
        self._sending = replace(sending, calls=sending.calls.short())
        self._chats = chats
        self._turns: dict[str, TurnProgress] = {}
        self._replies: dict[str, CommandReply] = {}
        self._questions: dict[str, list[OpenQuestion]] = {}  # by turn
        self._begun: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

    async def follow(self, events: AsyncIterator[OutboundMessage]) -> None:
        """Take events until cancelled."""
        async for message in events:
            await self.show(message)

    async def show(self, message: OutboundMessage) -> None:
        """Take one event; returns at once. A turn's final text is the outbox's; its end closes its questions."""
        event = message.event
        match event:
            case TurnStarted():
                turn_progress = self._turns[message.turn] = TurnProgress(self._sending, self._chats, message, event)
                self._begun.put_nowait(partial(self._show_turn, message.turn, turn_progress))
                return
            case CommandReply():
                if event.message not in self._replies:
                    self._begun.put_nowait(partial(self._reply, message.address, event.message))
                self._replies[event.message] = event
                return
            case ApprovalAsked() | QuestionAsked():
                question = OpenQuestion(event)
                self._questions.setdefault(message.turn, []).append(question)
                self._begun.put_nowait(partial(self._ask, message.address, question))
            case ApprovalClosed() | QuestionClosed():
                said = "Answered in words." if isinstance(event, QuestionClosed) and event.how == "words" else ""
                for question in self._questions.get(message.turn, ()):
                    if question.asked.id == event.id:
                        question.close(event.choice or said)
            case TurnFinished():
                for question in self._questions.pop(message.turn, ()):
                    question.close()
            case _:
                pass
        if message.turn in self._turns:
            self._turns[message.turn].apply(event)

    async def run(self) -> None:
        """Show turns until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._safely(await self._begun.get()))

    async def _safely(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except StoreError as error:
            logger.warning("a turn cannot be shown while it runs: {}", error)
        except Exception as error:  # noqa: BLE001 - showing must not break the channel; the answer comes by the outbox
            logger.opt(exception=error).error("showing a turn broke")

    async def _show_turn(self, turn: str, turn_progress: TurnProgress) -> None:
        try:
            await turn_progress.run()
        finally:
            self._turns.pop(turn, None)

    async def _ask(self, address: Address, question: OpenQuestion) -> None:
        """Show a question until it is over, and then its outcome in its place."""
        clock, message_id = self._sending.queues.clock, 0
        while not question.over.is_set() and not message_id:
            message_id = await self._put(address, question.screen, 0)
            if not message_id:
                await clock.wait(question.over, _PAUSE)
        await question.over.wait()
        for _ in range(_TRIES if message_id else 0):
            if await self._put(address, question.screen, message_id):
                return
            await clock.wait(asyncio.Event(), _PAUSE)

    async def _put(self, address: Address, screen: ScreenMessage, message_id: int) -> int:
        """The id of the message that shows it now, 0 where it could not be shown."""
        async with self._sending.queues.queue(address.chat).permit("command") as permit:
            permit.used()
            outcome = await self._sending.calls.show(Place(address.chat, address.thread), screen, message_id)
        return outcome if isinstance(outcome, int) else 0

    async def _reply(self, address: Address, message: str) -> None:
        """Show the first reply of a command that takes long; the last one is the outbox's."""
        sending = self._sending
        try:
            await sending.queues.clock.wait(asyncio.Event(), REPLY_PATIENCE)
            if sending.slots.closed(message):
                return
            queue = sending.queues.queue(address.chat)
            async with queue.permit("command") as permit:
                screens = screen_messages_of(self._replies[message].text)
                if sending.slots.closed(message) or not screens:
                    return
                permit.used()
                if not message:
                    await sending.calls.show(Place(address.chat, address.thread), screens[0])
                    return
                await send_part(sending, address, (message, 0), screens[0], sending.slots.slot(message, 0))
        finally:
            self._replies.pop(message, None)
