"""What a channel and the cluster ask of each other. Light: nothing here loads a database."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from loguru import logger
from msgspec import Struct

from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger
from nanobot.session.rows import InboxRow

if TYPE_CHECKING:
    from nanobot.cluster.worker import ClusterWorker, Election

#: Seconds for which a place is had without a sign of life, and between two looks for a free one.
LEASE_SECONDS, SLOT_PAUSE = 60.0, 0.5
#: What a gateway does: take updates in, answer them, or both.
Role = Literal["all", "poller", "worker"]


class Handlers(Struct, frozen=True):
    """What a channel does with its work. `take` begins a row and returns at once; `aside` tells of rows that are given
    up; `living` is told at each sign of life how many workers there are."""

    take: Callable[[InboxRow], None]
    aside: Callable[[tuple[InboxRow, ...]], Awaitable[None]]
    living: Callable[[int], None]


class Share(Struct, frozen=True):
    """The part of one process: whether it polls, the worker that brings it updates, and elections by name.

    `telling` takes what shows a line to who runs this process, where the database goes away or comes back.
    """

    polls: bool
    worker: "ClusterWorker | None"
    election: "Callable[[str], Election]"
    telling: Callable[[Callable[[str], None]], None]


class SharedSlots:
    """So many places, `most`, that all processes with one ledger have together.

    A place is a lease, which a process that dies loses after `LEASE_SECONDS`. While the ledger cannot be asked, nobody
    gets one. Used as a semaphore is.
    """

    def __init__(self, ledger: Ledger, name: str, most: int) -> None:
        self._ledger = ledger
        self._names = [f"{name} {number}" for number in range(most)]
        self._here = asyncio.Semaphore(most)
        self._held: dict[asyncio.Task[object] | None, tuple[str, str, asyncio.Task[None]]] = {}

    def locked(self) -> bool:
        """Whether this process has all of its places in use."""
        return self._here.locked()

    async def __aenter__(self) -> None:
        await self._here.acquire()
        holder = f"{self._ledger.database.worker} {secrets.token_hex(8)}"
        try:
            name = await self._take(holder)
            while name is None:
                await asyncio.sleep(SLOT_PAUSE)  # another process cannot wake this one
                name = await self._take(holder)
        except BaseException:
            self._here.release()
            raise
        self._held[asyncio.current_task()] = name, holder, asyncio.create_task(self._keep(name, holder))

    async def __aexit__(self, *_: object) -> None:
        name, holder, keeping = self._held.pop(asyncio.current_task())
        keeping.cancel()
        await asyncio.wait({keeping})
        await self._renew(name, holder, 0.0)
        self._here.release()

    async def _take(self, holder: str) -> str | None:
        """The name of a free place; None where none is."""
        for name in self._names:
            if await self._renew(name, holder, LEASE_SECONDS):
                return name
        return None

    async def _renew(self, name: str, holder: str, seconds: float) -> bool:
        try:
            return await self._ledger.hold(name, holder, seconds)
        except StoreError as error:
            logger.warning("which helpers run elsewhere is not known: {}", error)
            return False

    async def _keep(self, name: str, holder: str) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await self._renew(name, holder, LEASE_SECONDS)
