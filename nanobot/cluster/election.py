"""One of many processes does a thing: the holder of a lease in the store."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from loguru import logger

from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger

#: Seconds after which the others take over from a holder that is not heard of, and between two tries.
LEASE_SECONDS, TRY_SECONDS = 10.0, 3.0


class Election:
    """Runs work while this process holds the lease `name`; the others wait. `holder` names this process."""

    def __init__(self, ledger: Ledger, name: str, holder: str) -> None:
        self._ledger = ledger
        self._name = name
        self._holder = holder
        self.held = False

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Until cancelled. What `work` raises ends it."""
        while True:
            if await self._hold():
                logger.info("this process holds {} now", self._name)
                await self._while_held(work)
            await asyncio.sleep(TRY_SECONDS)

    async def _while_held(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await work()

        self.held = True
        working, keeping = asyncio.create_task(run()), asyncio.create_task(self._keep())
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.held = False
            for task in (working, keeping):
                task.cancel()
            ends = await asyncio.gather(working, keeping, return_exceptions=True)
            await self._drop()
        if isinstance(ends[0], Exception):
            raise ends[0]
        logger.warning("{} has gone to another process", self._name)

    async def _keep(self) -> None:
        """Returns when the lease is lost, or may be."""
        heard = time.monotonic()
        while time.monotonic() - heard < LEASE_SECONDS:
            await asyncio.sleep(TRY_SECONDS)
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    if not await self._ledger.hold(self._name, self._holder, LEASE_SECONDS):
                        return
                heard = time.monotonic()
            except (StoreError, TimeoutError) as error:
                logger.warning("{} could not be renewed: {}", self._name, error)

    async def _hold(self) -> bool:
        try:
            async with asyncio.timeout(LEASE_SECONDS):
                return await self._ledger.hold(self._name, self._holder, LEASE_SECONDS)
        except (StoreError, TimeoutError) as error:
            logger.warning("{} could not be asked for: {}", self._name, error)
            return False

    async def _drop(self) -> None:
        try:
            async with asyncio.timeout(TRY_SECONDS):
                await self._ledger.drop(self._name, self._holder)
        except (StoreError, TimeoutError) as error:
            logger.warning("{} ends by itself in {:.0f} s: {}", self._name, LEASE_SECONDS, error)
