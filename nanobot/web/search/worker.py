"""Running a blocking search library beside the event loop, one call at a time in the whole process."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from nanobot.errors import SearchError

T = TypeVar("T")
MAX_STRAYS = 3


class ProcessLock:
    """A lock that tasks of every event loop in the process share, served in order of arrival."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        with self._guard:
            if not self._held:
                self._held = True
                return
            self._waiting.append((loop, turn))
        try:
            await turn
        except asyncio.CancelledError:
            with self._guard:
                waiting = (loop, turn) in self._waiting
                if waiting:
                    self._waiting.remove((loop, turn))
            if not waiting:  # the turn was given in the same moment: pass it on
                self._release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        with self._guard:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                with contextlib.suppress(RuntimeError):  # the loop of the waiter is closed
                    loop.call_soon_threadsafe(_grant, turn)
                    return
            self._held = False


def _grant(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


class _Outcome(Generic[T]):
    """What a thread handed back: a value, an expected failure, or neither where it died."""

    def __init__(self) -> None:
        self.value: list[T] = []
        self.failure: Exception | None = None


class Worker:
    """A thread of its own for each call, never the loop's pool.

    A call that outlives its deadline is told to give up and left behind, its result dropped: Python cannot stop a
    thread. Above `max_strays` such threads new calls are refused until one ends, so a dead engine cannot eat the
    process.
    """

    def __init__(self, max_strays: int = MAX_STRAYS) -> None:
        self._lock = ProcessLock()
        self._guard = threading.Lock()
        self._max = max_strays
        self._strays: set[threading.Thread] = set()

    @property
    def strays(self) -> int:
        """Threads that were left behind and still run."""
        with self._guard:
            self._strays = {thread for thread in self._strays if thread.is_alive()}
            return len(self._strays)

    async def run(
        self,
        work: Callable[[], T],
        *,
        expected: tuple[type[Exception], ...],
        timeout: float,
        give_up: Callable[[], None] | None = None,
    ) -> T:
        """The result of `work`, whose `expected` exceptions pass through; `give_up` is called where nobody waits.

        `timeout` is in seconds and counts the wait for the turn. Raises `TimeoutError` when it is over, and
        `SearchError` (unavailable) where too many calls still hang.
        """
        async with asyncio.timeout(timeout), self._lock:
            if self.strays >= self._max:
                raise SearchError("unavailable", f"{self._max} earlier searches still hang; try again in a minute")
            return await self._in_thread(work, expected, give_up)

    async def _in_thread(
        self, work: Callable[[], T], expected: tuple[type[Exception], ...], give_up: Callable[[], None] | None
    ) -> T:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        outcome: _Outcome[T] = _Outcome()

        def body() -> None:
            try:
                outcome.value.append(work())
            except expected as error:
                outcome.failure = error
            finally:
                with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                    loop.call_soon_threadsafe(done.set)

        thread = threading.Thread(target=body, name="web-search", daemon=True)
        thread.start()
        try:
            await done.wait()
        finally:
            if not done.is_set():
                with self._guard:
                    self._strays.add(thread)
                if give_up is not None:
                    give_up()
        if outcome.failure is not None:
            raise outcome.failure
        if not outcome.value:
            raise SearchError("unavailable", "the search library broke down")
        return outcome.value[0]


#: The worker of this process: every DuckDuckGo back end shares it, so never two calls run at once.
SHARED = Worker()
