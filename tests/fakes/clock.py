"""Time for tests that wait on it: it stands still while anything is at work, and then jumps."""

import asyncio
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

AT = datetime(2026, 1, 1, tzinfo=UTC)
#: So often in a row, a real millisecond apart, the loop must have nothing to do before time jumps.
_LOOKS = 3
_jumps: "WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Task[None]]" = WeakKeyDictionary()


class JumpingClock:
    """Meets `pacing.Clock`: once the loop is at rest, it is at once the next time that somebody waits for.

    So a slow machine makes a test slow and nothing else: what is on its way, on a socket of this process too,
    arrives before time goes on. Time does not move while nobody waits for it. `step` is the least jump in seconds,
    for tests that let days pass.
    """

    def __init__(self, start: float = 0.0, *, step: float = 0.0) -> None:
        self._now, self._step = start, step
        self.ahead = timedelta()
        self._limits: dict[asyncio.Timeout, float] = {}
        self._running: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        """The time on the wall, which somebody may put back: `ahead` is by how much it goes before this clock."""
        return AT + self.ahead + timedelta(seconds=self._now)

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for `event`, at most `seconds` of this clock."""
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._limits[limit] = self._now + seconds
                if self._running is None or self._running.done():
                    self._running = asyncio.create_task(self._run())
                await event.wait()
        except TimeoutError:
            return
        finally:
            self._limits.pop(limit, None)

    async def sleep(self, seconds: float) -> None:
        await self.wait(asyncio.Event(), seconds)

    async def _run(self) -> None:
        while self._limits:
            await _rest()
            if self._limits:
                self._jump()

    def _jump(self) -> None:
        self._now = max(self._now + self._step, min(self._limits.values()))
        for limit in [limit for limit, until in self._limits.items() if until <= self._now]:
            del self._limits[limit]
            limit.reschedule(asyncio.get_running_loop().time())


async def _rest() -> None:
    """Wait until nothing is ready in this loop and nothing has come in; all clocks of the loop share one look."""
    loop = asyncio.get_running_loop()
    if loop not in _jumps or _jumps[loop].done():
        _jumps[loop] = asyncio.create_task(_look(loop))
    await asyncio.shield(_jumps[loop])


async def _look(loop: asyncio.AbstractEventLoop) -> None:
    quiet = 0
    while quiet < _LOOKS:
        await asyncio.sleep(0.001)
        busy = loop._ready or loop._selector.select(0)  # type: ignore[attr-defined]  # nothing public tells
        quiet = 0 if busy else quiet + 1
