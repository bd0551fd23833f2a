"""Lines for people who are not served, such as refused commands: few, after all else, never written down."""

import asyncio
from collections import deque

from loguru import logger

from nanobot.bus.events import Address
from nanobot.channels.telegram.render.screen_messages import screen_messages_of
from nanobot.channels.telegram.send.calls import Place, Sending

#: Lines that a chat gets within so many seconds; what is refused beyond that is refused in silence.
MOST, WITHIN = 3, 60.0
#: Lines that wait for Telegram at once, and how often one is tried.
_MOST_WAITING, _TRIES = 50, 6


class Refusals:
    """Sends them itself: in the outbox they would keep answers waiting, and a code would stand in the store."""

    def __init__(self, sending: Sending) -> None:
        self._calls, self._queues = sending.calls, sending.queues
        self._said: dict[str, deque[float]] = {}
        self._waiting = 0

    def may(self, chat: str) -> bool:
        """Whether a chat may get one more line now; then it counts as said."""
        now = self._queues.clock.now()
        if len(self._said) > 1_000:
            self._said = {key: times for key, times in self._said.items() if now - times[-1] < WITHIN}
        times = self._said.setdefault(chat, deque(maxlen=MOST))
        if len(times) == MOST and now - times[0] < WITHIN:
            return False
        times.append(now)
        return True

    async def say(self, address: Address, text: str) -> None:
        """Send a line (Markdown). Returns when it is there, may be there, or cannot be sent; nothing is raised."""
        if self._waiting >= _MOST_WAITING:
            logger.warning("a refusal for chat {} is left out: {} wait already", address.chat, self._waiting)
            return
        self._waiting += 1
        try:
            await self._send(address, text)
        finally:
            self._waiting -= 1

    async def _send(self, address: Address, text: str) -> None:
        queue, place = self._queues.queue(address.chat), Place(address.chat, address.thread)
        for tried in range(_TRIES):
            async with queue.permit("partial") as permit:  # whatever else there is to say in this chat goes first
                permit.used()
                outcome = await self._calls.show(place, screen_messages_of(text)[0])
            if outcome not in {"not_sent", "flood"}:
                return
            await self._queues.clock.wait(asyncio.Event(), 2.0**tried)
        logger.warning("a refusal for chat {} is left out: {}", address.chat, outcome)
