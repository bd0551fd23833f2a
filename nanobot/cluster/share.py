"""What a channel and the cluster ask of each other. Light: nothing here loads a database."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from loguru import logger
from msgspec import Struct

from nanobot.errors import StoreError
from nanobot.session.database import until_stored
from nanobot.session.ledger import Ledger
from nanobot.session.rows import InboxRow

if TYPE_CHECKING:
    from nanobot.cluster.postgres import Postgres
    from nanobot.cluster.worker import ClusterWorker

#: Seconds between two looks for a free place, and for which one is had: as long as its process lives.
SLOT_PAUSE, _EVER = 0.5, 1e9
#: What a gateway does: take updates in, answer them, or both.
Role = Literal["all", "poller", "worker"]


class Handlers(Struct, frozen=True):
    """What a channel does with its work. `take` begins a row and returns at once; `aside` tells of rows that are given
    up; `living` is told at each sign of life how many workers there are."""

    take: Callable[[InboxRow], None]
    aside: Callable[[tuple[InboxRow, ...]], Awaitable[None]]
    living: Callable[[int], None]


class Share(Struct, frozen=True):
    """The part of one process: whether it polls, the worker that brings it updates, and the database of all."""

    polls: bool
    worker: "ClusterWorker | None"
    database: "Postgres"


class SharedSlots:
    """So many places, `most`, that all processes with one ledger have together.

    A place is a lease of the process, which loses it when it is missed by the others. While the ledger cannot be asked,
    nobody gets one. Used as a semaphore is.
    """

    def __init__(self, ledger: Ledger, name: str, most: int) -> None:
        self._ledger = ledger
        self._names = [f"{name} {number}" for number in range(most)]
        self._asking = asyncio.Lock()
        self._held: dict[asyncio.Task[object] | None, str] = {}

    def locked(self) -> bool:
        """Whether this process has all places in use."""
        return len(self._held) == len(self._names)

    async def __aenter__(self) -> None:
        async with self._asking:
            name = await self._take()
            while not name:
                await asyncio.sleep(SLOT_PAUSE)  # another process cannot wake this one
                name = await self._take()
            self._held[asyncio.current_task()] = name

    async def __aexit__(self, *_: object) -> None:
        name = self._held.pop(asyncio.current_task())
        await until_stored(lambda: self._lease(name, 0.0))

    async def _take(self) -> str:
        """The name of a free place; empty where none is. What a cancelled try has leased is still free here."""
        try:
            for name in self._names:
                if name not in self._held.values() and await self._lease(name, _EVER):
                    return name
        except StoreError as error:
            logger.warning("which helpers run elsewhere is not known: {}", error)
        return ""

    async def _lease(self, name: str, seconds: float) -> bool:
        return await self._ledger.hold(name, self._ledger.database.worker, seconds)
