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
    Notice,
    OutboundMessage,
    QuestionAsked,
    QuestionClosed,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.telegram.render.screen_messages import screen_messages_of
from nanobot.channels.telegram.send.calls import Sending, send_part
from nanobot.channels.telegram.show.questions import IN_WORDS, TURN_ENDED, OpenQuestion
from nanobot.channels.telegram.show.turn import TurnProgress
from nanobot.command.settings import ChatSettings
from nanobot.errors import StoreError
from nanobot.utils.translation import speak

#: Seconds that the last reply of a command gets to come through the outbox before an earlier one is shown.
REPLY_PATIENCE = 0.4


class TelegramProgress:
    """Shows turns, questions and the first replies of slow commands. `chats` tells how a chat wants to see a turn.

    `owner` gives the id of the owner, who is asked in private for what a group must not read.
    """

    def __init__(self, sending: Sending, chats: ChatSettings, owner: Callable[[], Awaitable[str]]) -> None:
        self._owner = owner
        self._sending = replace(sending, calls=sending.calls.short())
        self._chats = chats
        self._turns: dict[str, TurnProgress] = {}
        self._replies: dict[str, CommandReply] = {}
        self._questions: dict[str, OpenQuestion] = {}  # by id
        #: What is to be shown, and the key of the chat.
        self._begun: asyncio.Queue[tuple[str, Callable[[], Awaitable[None]]]] = asyncio.Queue()

    async def follow(self, events: AsyncIterator[OutboundMessage]) -> None:
        """Take events until cancelled."""
        async for message in events:
            await self.show(message)

    async def show(self, message: OutboundMessage) -> None:
        """Take one event; returns at once. A turn's final text is the outbox's; its end closes its questions."""
        event, place = message.event, message.address.key
        speak("", place)
        match event:
            case TurnStarted():
                turn_progress = self._turns[message.turn] = TurnProgress(self._sending, self._chats, message, event)
                self._begun.put_nowait((place, partial(self._show_turn, message.turn, turn_progress)))
                return
            case Notice() if not message.turn:  # of none that runs, such as one that waits for another surface
                self._begun.put_nowait((place, partial(self._tell, message.address, event.text)))
            case CommandReply():
                if event.message not in self._replies:
                    self._begun.put_nowait((place, partial(self._reply, message.address, event.message)))
                self._replies[event.message] = event
                return
            case ApprovalAsked() | QuestionAsked():
                self._ask(message, event)
            case ApprovalClosed() | QuestionClosed():
                if (question := self._questions.pop(event.id, None)) is not None:
                    said = IN_WORDS if isinstance(event, QuestionClosed) and event.how == "words" else ""
                    question.close(event.choice or said, event.reason if isinstance(event, ApprovalClosed) else "")
            case TurnFinished():
                for question in [one for one in self._questions.values() if one.turn == message.turn]:
                    del self._questions[question.asked.id]
                    question.close(ended=TURN_ENDED)
            case _:
                pass
        if message.turn in self._turns:
            self._turns[message.turn].apply(event)

    def _ask(self, message: OutboundMessage, event: ApprovalAsked | QuestionAsked) -> None:
        """Show a question, or another page of one that is shown already."""
        known = self._questions.get(event.id)
        if known is not None and isinstance(event, QuestionAsked):
            known.turn_to(event)
            return
        question = self._questions[event.id] = OpenQuestion(event, message)
        self._begun.put_nowait((message.address.key, partial(question.show, self._sending, self._owner)))

    async def run(self) -> None:
        """Show turns until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._safely(*await self._begun.get()))

    async def _safely(self, place: str, work: Callable[[], Awaitable[None]]) -> None:
        speak("", place)
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

    async def _tell(self, address: Address, text: str) -> None:
        await self._sending.show(address, screen_messages_of(text)[0])

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
                await send_part(sending, address, (message, 0), screens[0], sending.slots.slot(message, 0))
        finally:
            self._replies.pop(message, None)
