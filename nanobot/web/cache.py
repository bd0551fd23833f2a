"""Pages that were read in this run, kept whole, so that the rest of one costs no request; and who may read now."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct, field

from nanobot.errors import FetchError
from nanobot.utils.translation import _

T = TypeVar("T")

#: Most pages that are kept, and most characters of them together.
PAGES = 2_000
CHARS = 60_000_000
FRESH_SECONDS = 900.0
PER_HOST = 2
PER_MINUTE = 20
MINUTE = 60.0
#: The session under which pages for all of them stand; no name of a session has a NUL.
_SHARED = "\0"


class _Kept(Struct, Generic[T]):
    page: T
    size: int
    at: float


class PageStore(Struct, Generic[T]):
    """Pages by session and key, the newest `PAGES` with `CHARS` characters, for `fresh` seconds of `clock`.

    A page that is put with `share` is found by every session, unless the session keeps a newer one of its own.
    """

    fresh: float = FRESH_SECONDS
    clock: Callable[[], float] = time.monotonic
    _kept: OrderedDict[tuple[str, ...], _Kept[T]] = field(default_factory=OrderedDict)
    _size: int = 0

    def put(self, session: str, key: tuple[str, ...], page: T, size: int, *, share: bool = False) -> None:
        """Keep `page`; `size` is in characters. An older copy that was shared goes."""
        for place in (_SHARED, session):
            self._drop((place, *key))
            if share or place == session:
                self._kept[place, *key] = _Kept(page, size, self.clock())
                self._size += size
        while len(self._kept) > PAGES or (len(self._kept) > 1 and self._size > CHARS):
            self._drop(next(iter(self._kept)))

    def get(self, session: str, key: tuple[str, ...]) -> T | None:
        found = self.look(session, key)
        return None if found is None else found[0]

    def look(self, session: str, key: tuple[str, ...]) -> tuple[T, float] | None:
        """The page and its age in seconds."""
        known = [self._kept[place, *key] for place in (session, _SHARED) if (place, *key) in self._kept]
        kept = max(known, key=lambda one: one.at, default=None)
        age = self.clock() - kept.at if kept else 0.0
        return (kept.page, age) if kept and age <= self.fresh else None

    def _drop(self, place: tuple[str, ...]) -> None:
        old = self._kept.pop(place, None)
        self._size -= old.size if old else 0


class KeyLocks:
    """Lets `most` in at once for each key; what stands for a key exists only while somebody wants it."""

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._wanted: WeakValueDictionary[tuple[str, ...], asyncio.Semaphore] = WeakValueDictionary()

    def held(self, key: tuple[str, ...]) -> bool:
        """True while somebody is in for this key or waits for it."""
        return key in self._wanted

    def hold(self, key: tuple[str, ...]) -> asyncio.Semaphore:
        """What is entered with `async with`."""
        return self._wanted.setdefault(key, asyncio.Semaphore(self._most))


class HostSlots:
    """Lets `overall` readers in at once, `PER_HOST` of them to one host; who waits for a host takes no other slot.

    A host is asked `PER_MINUTE` times in a minute, unless it is one of the operator's own (`free`); after that, `hold`
    raises `FetchError` (rate_limited) with the seconds to wait. `clock` counts seconds.
    """

    def __init__(self, overall: int, free: Callable[[str], bool], clock: Callable[[], float]) -> None:
        self._free = free
        self._clock = clock
        self._asked: dict[str, deque[float]] = {}
        self._overall = asyncio.Semaphore(overall)
        self._hosts = KeyLocks(PER_HOST)

    @asynccontextmanager
    async def hold(self, host: str) -> AsyncIterator[None]:
        self._count(host)
        async with self._hosts.hold((host,)), self._overall:
            yield

    def _count(self, host: str) -> None:
        if self._free(host):
            return
        now = self._clock()
        for name, times in list(self._asked.items()):
            while times and now - times[0] >= MINUTE:
                times.popleft()
            if not times:
                del self._asked[name]
        times = self._asked.setdefault(host, deque())
        if len(times) >= PER_MINUTE:
            wait = MINUTE - (now - times[0])
            raise FetchError(
                "rate_limited",
                _(
                    "{host} was asked {number} times within a minute. It may be asked again in {wait:.0f} s; use "
                    "what was read, or other sources.",
                    host=host,
                    number=PER_MINUTE,
                    wait=wait,
                ),
                host=host,
                retry_after=wait,
            )
        times.append(now)
