"""Shows turns while they run: typing, one status message, and the answer as it grows.

Nothing here must arrive: what cannot be shown is dropped, and the outbox writes the final text. Frames are made when
the lane of the chat lets one out, so what is sent is always the newest.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from loguru import logger

from nanobot.bus.events import (
    Address,
    ApprovalAsked,
    ApprovalClosed,
    CommandReply,
    OutboundMessage,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.telegram.calls import Place
from nanobot.channels.telegram.frames import frames_of
from nanobot.channels.telegram.painting import TurnPainting
from nanobot.channels.telegram.questions import Question
from nanobot.channels.telegram.showing import PainterParts, send_part
from nanobot.errors import StoreError

#: Seconds that the last reply of a command gets to come through the outbox before an earlier one is shown.
REPLY_PATIENCE = 0.4


class TelegramPainter:
    """Meets `seams.Painter`."""

    def __init__(self, parts: PainterParts) -> None:
        self._parts = parts
        self._turns: dict[str, TurnPainting] = {}
        self._replies: dict[str, CommandReply] = {}
        self._questions: dict[str, list[Question]] = {}  # by turn
        self._begun: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()

    async def show(self, message: OutboundMessage) -> None:
        event = message.event
        if isinstance(event, TurnStarted):
            painting = TurnPainting(self._parts, message, event)
            self._turns[message.turn] = painting
            self._begun.put_nowait(partial(self._paint, message.turn, painting))
        elif isinstance(event, CommandReply):
            new = event.message not in self._replies
            self._replies[event.message] = event
            if new:
                self._begun.put_nowait(partial(self._reply, message.address, event.message))
        elif (known := self._turns.get(message.turn)) is not None:
            known.apply(event)
        self._question(message)

    def _question(self, message: OutboundMessage) -> None:
        """Show a question that a turn asks; its end, or that of the turn, closes it."""
        match message.event:
            case ApprovalAsked() as asked:
                question = Question(self._parts, message.address, asked)
                self._questions.setdefault(message.turn, []).append(question)
                self._begun.put_nowait(question.run)
            case ApprovalClosed() as closed:
                for question in self._questions.get(message.turn, ()):
                    if question.id == closed.id:
                        question.close(closed.choice)
            case TurnFinished():
                for question in self._questions.pop(message.turn, ()):
                    question.close()

    async def run(self) -> None:
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

    async def _paint(self, turn: str, painting: TurnPainting) -> None:
        try:
            await painting.run()
        finally:
            self._turns.pop(turn, None)

    async def _reply(self, address: Address, message: str) -> None:
        """Show the first reply of a command that takes long; the last one is the outbox's."""
        parts = self._parts
        try:
            await parts.lanes.clock.wait(asyncio.Event(), REPLY_PATIENCE)
            if parts.slots.closed(message):
                return
            lane = parts.lanes.lane(address.chat)
            async with lane.permit("command") as permit:
                frames = frames_of(self._replies[message].text)
                if parts.slots.closed(message) or not frames:
                    return
                permit.used()
                if not message:
                    await parts.calls.show(Place(address.chat, address.thread), frames[0])
                    return
                await send_part(parts, address, (message, 0), frames[0])
        finally:
            self._replies.pop(message, None)
