"""One conversation as the loop sees it: what waits, what runs, which model answers."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from loguru import logger
from msgspec import Struct, field

from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.turn import Turn
from nanobot.bus.events import (
    Address,
    Event,
    InboundMessage,
    OutboundMessage,
    ToolFinished,
    TurnFinished,
    TurnStarted,
)
from nanobot.bus.queue import MessageBus
from nanobot.messages import StepRetried
from nanobot.providers.base import LLMProvider
from nanobot.session.ledger import Closing

#: Keeps the end of a turn: its last messages together with the answer and the messages that it answers. None instead of
#: an end: the message was read by a turn that has its answer. Does not return before all of it is safe.
Settle = Callable[[InboundMessage, TurnFinished | None, Closing | None], Awaitable[None]]
#: Told when the turn of a message begins.
Begin = Callable[[InboundMessage], Awaitable[None]]


class Entry(Struct, frozen=True):
    """A message that waits for its turn; `done` is resolved with the end of the turn that read it.

    One with `settle` is durable: its turn goes on in the next process where this one ends before it. No other turn runs
    beside one that is `alone`, and it reads no other message; there is one such at a time.
    """

    message: InboundMessage
    done: "asyncio.Future[TurnFinished] | None" = None
    settle: Settle | None = None
    begin: Begin | None = None
    alone: bool = False

    async def begun(self) -> None:
        """Say that work on it begins."""
        if self.begin is not None:
            await self.begin(self.message)

    def finish(self, finished: TurnFinished) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(finished)


class Chat(Struct):
    """The state of one session key. `window` is the context size learned from the service, 0 while unknown.

    `idle` is set while no turn runs; setting `stop` ends the running one. `taken` are the messages the turn has read.
    `steered` are the ids of messages that a turn had read in mid-turn in an earlier process. `work` serves the chat.
    `recalled` tells that the model that was chosen for the chat in an earlier process was looked for. `addresses` are
    those that were named in its session.
    """

    key: str
    provider: LLMProvider
    inbox: deque[Entry] = field(default_factory=deque)
    taken: list[Entry] = field(default_factory=list)
    turn: Turn | None = None
    busy: bool = False
    work: "asyncio.Task[None] | None" = None
    steered: set[str] = field(default_factory=set)
    recalled: bool = False
    window: int = 0
    context_tokens: int = 0
    addresses: KnownAddresses = field(default_factory=KnownAddresses)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)


def _log(event: Event) -> None:
    """One line in the log for what makes up the story of a turn; what was said and looked up stays out of it."""
    match event:
        case TurnStarted():
            logger.info("turn begins with {}", event.model)
        case StepRetried():
            logger.info("request is made again in {:.1f} s: {}", event.wait, event.reason)
        case ToolFinished():
            end = event.result.error or "ok"
            logger.info(
                "tool {}: {} in {:.2f} s, {} characters", event.call.name, end, event.seconds, len(event.result.text)
            )
        case TurnFinished():
            logger.info("turn ends: {} after {} steps and {:.2f} s", event.outcome, event.steps, event.seconds)
        case _:
            return


class Publisher:
    """Sends the events of one turn to its address, numbered from 1. `last` is the monotonic time of the newest."""

    def __init__(self, bus: MessageBus, address: Address, turn: str = "") -> None:
        self._bus = bus
        self._address = address
        self._turn = turn
        self._seq = 0
        self.last = time.monotonic()

    async def __call__(self, event: Event) -> None:
        self._seq += 1
        self.last = time.monotonic()
        _log(event)
        await self._bus.publish_outbound(OutboundMessage(self._address, event, self._turn, self._seq))
