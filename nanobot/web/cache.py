"""Pages that were read in this run, kept whole per session, so that the rest of a long page costs no request."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

PAGES = 40
SESSIONS = 64
FRESH_SECONDS = 900.0
CHARS = 20_000_000


@dataclass(slots=True)
class _Kept(Generic[T]):
    page: T
    size: int
    at: float


@dataclass(slots=True)
class PageStore(Generic[T]):
    """Pages by session and key, the newest `PAGES` and `CHARS` of each session, for `fresh` seconds."""

    fresh: float = FRESH_SECONDS
    clock: Callable[[], float] = time.monotonic
    _sessions: OrderedDict[str, OrderedDict[tuple[str, ...], _Kept[T]]] = field(default_factory=OrderedDict)

    def put(self, session: str, key: tuple[str, ...], page: T, size: int) -> None:
        """Keep `page`; `size` is in characters."""
        pages = self._sessions.setdefault(session, OrderedDict())
        self._sessions.move_to_end(session)
        pages[key] = _Kept(page, size, self.clock())
        pages.move_to_end(key)
        while len(pages) > PAGES or (len(pages) > 1 and sum(kept.size for kept in pages.values()) > CHARS):
            pages.popitem(last=False)
        while len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)

    def get(self, session: str, key: tuple[str, ...]) -> T | None:
        kept = self._sessions.get(session, OrderedDict()).get(key)
        if kept is None or self.clock() - kept.at > self.fresh:
            return None
        return kept.page

    def forget(self, session: str) -> None:
        """Drop what a session has read."""
        self._sessions.pop(session, None)


@dataclass(slots=True)
class KeyLocks:
    """A lock per key that exists only while somebody wants it."""

    _locks: dict[tuple[str, ...], tuple[asyncio.Lock, int]] = field(default_factory=dict)

    @asynccontextmanager
    async def hold(self, key: tuple[str, ...]) -> AsyncIterator[None]:
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            users = self._locks[key][1] - 1
            if users:
                self._locks[key] = lock, users
            else:
                del self._locks[key]
