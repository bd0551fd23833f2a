"""What a channel and the cluster ask of each other. Light: nothing here loads a database."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from loguru import logger
from msgspec import Struct

from nanobot.errors import StoreError
from nanobot.session.database import Database, until_stored
from nanobot.session.rows import InboxRow

if TYPE_CHECKING:
    from nanobot.cluster.postgres import Postgres
    from nanobot.cluster.worker import ClusterWorker

#: Seconds between two looks for a free place.
SLOT_PAUSE = 0.5
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
    """So many places, `most`, that all processes with one database have together.

    A place is held as a session is: until it is given back or its process is missed by the others. While the database
    cannot be asked, nobody gets one. Used as a semaphore is.
    """

    def __init__(self, database: Database, name: str, most: int) -> None:
        self._database = database
        self._names = [f"{name} {number}" for number in range(most)]
        self._asking = asyncio.Lock()
        self._held: dict[asyncio.Task[object] | None, str] = {}

    def locked(self) -> bool:
        """Whether this process has all places in use."""
        return len(self._held) == len(self._names)

    async def __aenter__(self) -> None:
        async with self._asking:
            while True:
                if await self._took():
                    return
                await asyncio.sleep(SLOT_PAUSE)  # another process cannot wake this one

    async def __aexit__(self, *_: object) -> None:
        name = self._held.pop(asyncio.current_task())
        await until_stored(lambda: self._database.drop(name))

    async def _took(self) -> bool:
        """Whether a place was free. What is asked for is waited for, also by who is cancelled, and given back then, and
        where nobody knows whether it was had."""
        for name in (one for one in self._names if one not in self._held.values()):
            taking = asyncio.ensure_future(self._database.hold(name))
            try:
                if not await asyncio.shield(taking):
                    self._held[asyncio.current_task()] = name
                    return True
            except StoreError as error:
                logger.warning("which helpers run elsewhere is not known: {}", error)
                await until_stored(lambda: self._database.drop(name))  # noqa: B023 - done before the next one
                return False
            except asyncio.CancelledError:
                await asyncio.gather(taking, return_exceptions=True)
                with suppress(StoreError):
                    await self._database.drop(name)
                raise
        return False
