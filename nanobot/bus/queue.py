"""The meeting place of channels and the agent loop inside one process."""

import asyncio
from collections.abc import AsyncIterator

from nanobot.bus.events import InboundMessage, OutboundMessage


class MessageBus:
    """Channels publish what people say and subscribe to what goes back to them; the loop does the opposite.

    Queues are unbounded: a slow surface never stalls a turn.
    """

    def __init__(self) -> None:
        self._inbound: asyncio.Queue[InboundMessage] = asyncio.Queue()
        self._outbound: dict[str, asyncio.Queue[OutboundMessage]] = {}

    async def publish_inbound(self, message: InboundMessage) -> None:
        """Hand a message to the loop."""
        await self._inbound.put(message)

    async def consume_inbound(self) -> InboundMessage:
        """Wait for the next message, in the order of publication."""
        return await self._inbound.get()

    async def publish_outbound(self, message: OutboundMessage) -> None:
        """Hand an event to its address's channel. Events of a channel nobody subscribed to are dropped."""
        queue = self._outbound.get(message.address.channel)
        if queue is not None:
            await queue.put(message)

    def subscribe(self, channel: str) -> AsyncIterator[OutboundMessage]:
        """The events for one channel, from the moment of this call, in order. One subscriber a channel."""
        if channel in self._outbound:
            raise ValueError(f"channel {channel!r} has a subscriber already")
        queue: asyncio.Queue[OutboundMessage] = asyncio.Queue()
        self._outbound[channel] = queue
        return self._drain(channel, queue)

    async def _drain(self, channel: str, queue: asyncio.Queue[OutboundMessage]) -> AsyncIterator[OutboundMessage]:
        try:
            while True:
                yield await queue.get()
        finally:
            self._outbound.pop(channel, None)
