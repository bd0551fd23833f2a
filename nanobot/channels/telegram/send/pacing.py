"""One queue per chat: one call at a time, the most urgent first, at a pace that Telegram bears.

    async with queues.queue("42").permit("partial") as permit:
        ...           # make the message now: what is sent is the newest, and older ones were never made
        permit.used() # a call goes out

A permit that is not used costs nothing. Who asks waits; nothing here sends. Source of the figures: what bots observe
(about one message a second in a chat, twenty a minute in a group, thirty a second altogether; edits count).
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal, Protocol, get_args

Urgency = Literal["command", "final", "first", "status", "partial", "typing"]
_ORDER: dict[str, int] = {name: place for place, name in enumerate(get_args(Urgency))}

#: Calls of all chats together in one second; typing leaves room for messages.
CALLS_PER_SECOND = 25
_TYPING_PER_SECOND = 15
#: Calls that may go out at once after a time of rest, and seconds without them after a 429.
RESERVE, STRICT_SECONDS = 250, 60.0
#: Seconds between messages: in a private chat first, then on; in a group or channel; at most.
FIRST_INTERVAL, INTERVAL, GROUP_INTERVAL, MOST_INTERVAL = 1.0, 1.5, 3.5, 8.0
_QUICK_MESSAGES = 3
_SLOWER, _FASTER = 1.7, 0.95
#: After so many seconds of silence a chat bears quick messages again.
_RESTED = 10.0
#: Seconds between two looks whether anything may be sent again.
_CLOSED_LOOK = 0.5
#: What a person waits for goes out after a part of the interval: short bursts pass.
_BURST = 1 / 3


class Clock(Protocol):
    """Time, so that tests can let it run."""

    def now(self) -> float:
        """Seconds that only grow."""

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for `event`, at most `seconds`."""


class RealClock:
    def now(self) -> float:
        return time.monotonic()

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


class BotPace:
    """The pace of the whole bot: `CALLS_PER_SECOND`, and a reserve of `RESERVE` calls for what people wait for.

    Unused calls fill the reserve, so that many chats at once are answered at once. When Telegram objects, it is
    gone for `STRICT_SECONDS` and the plain pace holds.
    """

    def __init__(self) -> None:
        self._times = deque([float("-inf")] * CALLS_PER_SECOND, CALLS_PER_SECOND)
        self._reserve, self._filled = 0.0, float("-inf")  # what it was, and when
        self._sharers = 1
        #: Whether anything may be sent at all; who waits for a permit meanwhile waits on.
        self.may_send: Callable[[], bool] = lambda: True

    def share(self, processes: int) -> None:
        """So many processes send for the bot: each keeps to its part of the pace, and of the reserve."""
        self._sharers = max(1, processes)

    def delay(self, urgency: Urgency, now: float) -> float:
        """Seconds until a call may go out; none where they are not above 0."""
        if not self.may_send():
            return _CLOSED_LOOK
        if urgency in {"command", "final"} and self._left(now) >= 1:
            return 0.0
        whole = _TYPING_PER_SECOND if urgency == "typing" else CALLS_PER_SECOND
        wait = self._times[-max(1, whole // self._sharers)] + 1.0 - now
        # Of many chats one would find a place at each look: who types looks again when there are as many as can be.
        return 1.0 if urgency == "typing" and wait > 0 else wait

    def count(self, now: float) -> None:
        self._times.append(now)
        self._reserve, self._filled = max(0.0, self._left(now) - 1), max(self._filled, now)

    def objected(self, now: float) -> None:
        """Telegram said 429 somewhere."""
        self._reserve, self._filled = 0.0, now + STRICT_SECONDS

    def _left(self, now: float) -> float:
        filled = self._reserve + (now - self._filled) * CALLS_PER_SECOND / self._sharers
        return min(RESERVE / self._sharers, filled)


class Permit:
    """The right to make one call."""

    def __init__(self, count: Callable[[], None]) -> None:
        self._count = count
        self.is_used = False

    def used(self) -> None:
        """A call goes out."""
        self._count()
        self.is_used = True


class ChatQueue:
    """The calls to one chat. `group`: it is one, or a channel. `dead` tells that it cannot be written to: blocked,
    left or deleted."""

    def __init__(self, chat: str, pace: BotPace, clock: Clock) -> None:
        self.group = chat.startswith(("-", "@"))
        self._pace = pace
        self._clock = clock
        self._factor = 1.0
        self._shown = 0
        self._last = float("-inf")
        self._not_before = float("-inf")
        self._busy = False
        self._numbers = itertools.count()
        self._waiting: list[tuple[int, int]] = []
        self._changed = asyncio.Event()
        self.dead = False

    @property
    def interval(self) -> float:
        """Seconds between two messages now."""
        base = GROUP_INTERVAL if self.group else FIRST_INTERVAL if self._shown < _QUICK_MESSAGES else INTERVAL
        return min(MOST_INTERVAL, base * self._factor)

    @property
    def penalty(self) -> float:
        """Seconds for which nothing may be sent to this chat."""
        return max(0.0, self._not_before - self._clock.now())

    @property
    def idle(self) -> bool:
        return not self._busy and not self._waiting and not self.penalty

    @asynccontextmanager
    async def permit(self, urgency: Urgency) -> AsyncIterator[Permit]:
        """Wait until a call of this urgency may be made, and hold the queue meanwhile."""
        await self._enter(urgency)
        permit = Permit(lambda: self._pace.count(self._clock.now()))
        try:
            yield permit
        finally:
            if permit.is_used and urgency != "typing":
                self._last = self._clock.now()
                self._shown += 1
            self._busy = False
            self._wake()

    def succeeded(self) -> None:
        """A call went well: a queue that was slowed down recovers."""
        self._factor = max(1.0, self._factor * _FASTER)

    def punish(self, seconds: float) -> None:
        """The server wants to hear nothing of this chat for `seconds`, and less often afterwards."""
        self._not_before = max(self._not_before, self._clock.now() + seconds + 0.5)
        self._factor = min(MOST_INTERVAL, self._factor * _SLOWER)
        self._pace.objected(self._clock.now())

    async def _enter(self, urgency: Urgency) -> None:
        own = (_ORDER[urgency], next(self._numbers))
        self._waiting.append(own)
        try:
            while True:
                changed = self._changed
                if self._busy or min(self._waiting) != own:
                    await changed.wait()
                    continue
                pause = self._delay(urgency)
                if pause <= 0:
                    break
                await self._clock.wait(changed, pause)
        finally:
            self._waiting.remove(own)
            self._wake()
        self._busy = True

    def _delay(self, urgency: Urgency) -> float:
        now = self._clock.now()
        if now - self._last > _RESTED:
            self._shown = 0
        after = self._not_before
        if urgency != "typing":
            share = _BURST if urgency in {"command", "final", "first"} else 1.0
            after = max(after, self._last + self.interval * share)
        return max(after - now, self._pace.delay(urgency, now))

    def _wake(self) -> None:
        """Let everybody who waits look again."""
        self._changed.set()
        self._changed = asyncio.Event()


class ChatQueues:
    """The queues of a bot. A chat that moved shares the queue of its new id."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or RealClock()
        self.pace = BotPace()
        self._queues: dict[str, ChatQueue] = {}
        self._moved: dict[str, str] = {}

    def queue(self, chat: str) -> ChatQueue:
        chat = self.now_at(chat)
        queue = self._queues.get(chat)
        if queue is None:
            if len(self._queues) > 1_000:
                self._queues = {key: one for key, one in self._queues.items() if not one.idle}
            queue = self._queues[chat] = ChatQueue(chat, self.pace, self.clock)
        return queue

    def move(self, old: str, new: str) -> None:
        """A group became a supergroup."""
        self._moved[old] = new

    def now_at(self, chat: str) -> str:
        """The id under which a chat is reached now."""
        return self._moved.get(chat, chat)
