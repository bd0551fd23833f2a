"""One conversation as the loop sees it: what waits, what runs, which model answers."""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field

from nanobot.agent.turn import Turn
from nanobot.bus.events import Address, Event, InboundMessage, OutboundMessage, TurnFinished
from nanobot.bus.queue import MessageBus
from nanobot.providers.base import LLMProvider


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that waits for its turn; `done` is resolved with the end of the turn that read it."""

    message: InboundMessage
    done: "asyncio.Future[TurnFinished] | None" = None

    def finish(self, finished: TurnFinished) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(finished)


@dataclass(slots=True)
class Chat:
    """The state of one session key. `window` is the context size learned from the service, 0 while unknown.

    `idle` is set while no turn runs; setting `stop` ends the running one. `taken` are the messages the turn has read.
    """

    key: str
    provider: LLMProvider
    inbox: deque[Entry] = field(default_factory=deque)
    taken: list[Entry] = field(default_factory=list)
    turn: Turn | None = None
    busy: bool = False
    window: int = 0
    context_tokens: int = 0
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)


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
        await self._bus.publish_outbound(OutboundMessage(self._address, event, self._turn, self._seq))
