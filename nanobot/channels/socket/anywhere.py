"""The agent of a terminal, wherever it runs: in the gateway of its home while there is one, else in this process.

The person keeps the conversation through all of it: what is typed in between waits.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from msgspec.structs import replace

from nanobot.bus.events import (
    TERMINAL,
    Event,
    InboundMessage,
    MessageBus,
    Notice,
    OutboundMessage,
    TurnFinished,
    TurnStarted,
    read_by,
)
from nanobot.channels.base import CallResult, CommandSummary, StateCall, TerminalAgent, TerminalCall, WithdrawCall
from nanobot.channels.socket.client import GatewayLink
from nanobot.errors import NanobotError, TemporaryError
from nanobot.utils.translation import N_, _

#: Seconds for which a gateway that ended is waited for, and between two looks whether one runs.
RESTART_SECONDS, LOOK_SECONDS = 8.0, 0.5
_STOPPED = N_("The gateway has ended, and what ran here with it. What was done so far is kept.")
_ENDED = N_("The gateway has ended. This terminal waits a moment for it to come back.")
_BACK = N_("The gateway runs again, and this terminal has joined it again.")
_ALONE = N_("This terminal goes on alone; it joins the gateway when one runs again.")
_JOINED = N_("A gateway runs now, and this terminal has joined it: the conversation is there on every surface.")


#: Joins the gateway of the home in this session; None where none runs. Raises `NanobotError`.
Join = Callable[[str], Awaitable[GatewayLink | None]]
#: The agent in this process, in this session, as long as it is open.
Alone = Callable[[str], AbstractAsyncContextManager[TerminalAgent]]


class AgentAnywhere:
    """Meets `TerminalAgent`. It begins with the gateway `first`; `join` and `alone` lead on when that has ended."""

    def __init__(self, first: GatewayLink, join: Join, alone: Alone) -> None:
        self.bus = MessageBus()
        self.address = TERMINAL  # whichever the conversation has there
        self.commands: Sequence[CommandSummary] = first.commands
        self._first = first
        self._join = join
        self._alone = alone
        self._inner: TerminalAgent | None = first
        self._session = first.welcome.state.session
        self._sent: dict[str, InboundMessage] = {}  # handed on and not read yet, by id
        self._again: deque[InboundMessage] = deque()  # to be handed on before what is typed now
        self._running = False

    async def run(self) -> None:
        """Serve the terminal until cancelled."""
        link: GatewayLink | None = self._first
        while True:
            if link is not None:
                try:
                    async with self._carrying(link) as serving:
                        await asyncio.wait({serving})
                finally:
                    link.close()
                link = await self._after_the_end()
            else:
                async with self._alone(self._session) as own:
                    await self._say(Notice(_(_ALONE)))
                    link = await self._until_there_is_one(own)
                await self._say(Notice(_(_JOINED)))

    async def _after_the_end(self) -> GatewayLink | None:
        """Wait a moment whether the gateway comes back; not where the person goes on meanwhile."""
        if self._running:
            await self._say(TurnFinished("cancelled", "", error=_(_STOPPED), model=self._first.welcome.model))
        self._running = False
        self._again.extend(self._sent.values())
        self._sent.clear()
        await self._say(Notice(_(_ENDED), "warning"))
        end = asyncio.get_running_loop().time() + RESTART_SECONDS
        while asyncio.get_running_loop().time() < end:
            self._again.extend(self.bus.pending())
            if self._again:
                return None
            if (link := await self._joined()) is not None:
                await self._say(Notice(_(_BACK)))
                return link
            await asyncio.sleep(LOOK_SECONDS)
        return None

    async def _until_there_is_one(self, own: TerminalAgent) -> GatewayLink:
        """Serve from this process until a gateway runs and nothing is being answered here."""
        async with self._carrying(own) as serving:
            while True:
                await asyncio.wait({serving}, timeout=LOOK_SECONDS)
                if serving.done():
                    await serving
                    raise TemporaryError(_("The agent of this terminal has ended."))
                if not (self._running or self._sent) and (link := await self._joined()) is not None:
                    return link

    async def _joined(self) -> GatewayLink | None:
        try:
            return await self._join(self._session)
        except NanobotError:  # one that does not serve this terminal is as good as none
            return None

    @asynccontextmanager
    async def _carrying(self, inner: TerminalAgent) -> "AsyncIterator[asyncio.Task[None]]":
        """Carry what is said to an agent and its events back, while this is open; its own work as a task."""
        events = inner.bus.subscribe(TERMINAL.channel)
        works = [asyncio.create_task(one) for one in (inner.run(), self._to(inner), self._back(events))]
        self._inner = inner
        try:
            yield works[0]
        finally:
            self._inner = None
            for work in works:
                work.cancel()
            await asyncio.wait(works)

    async def _to(self, inner: TerminalAgent) -> None:
        while True:
            again = self._again.popleft() if self._again else None  # before what is typed now
            await self._hand_on(again or await self.bus.consume_inbound(), inner)

    async def _hand_on(self, message: InboundMessage, inner: TerminalAgent) -> None:
        self._sent[message.id] = message
        await inner.bus.publish_inbound(replace(message, address=inner.address))

    async def _back(self, events: AsyncIterator[OutboundMessage]) -> None:
        async for message in events:
            if isinstance(message.event, TurnStarted | TurnFinished):
                self._running = isinstance(message.event, TurnStarted)
            for key in read_by(message.event):
                self._sent.pop(key, None)
            await self.bus.publish_outbound(replace(message, address=TERMINAL))

    async def _say(self, event: Event) -> None:
        await self.bus.publish_outbound(OutboundMessage(TERMINAL, event))

    async def call(self, call: TerminalCall) -> CallResult:
        """Raises `TemporaryError` where no agent serves now; nothing waits there that could be taken back."""
        inner = self._inner
        if inner is None and isinstance(call, WithdrawCall):
            return CallResult()
        if inner is None:
            raise TemporaryError(_("The gateway has just ended. Try again in a moment."))
        if isinstance(call, WithdrawCall):
            for message in self.bus.pending():
                await self._hand_on(message, inner)
        result = await inner.call(call)
        if isinstance(call, WithdrawCall):
            for key in result.texts:
                self._sent.pop(key, None)
        elif isinstance(call, StateCall):
            self._session = result.state.session
        return result
