"""What is owed to a person does not depend on a full disk or on the next start: it is kept when there is room."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from loguru import logger

from nanobot.errors import StoreError

#: Seconds between attempts while the disk refuses.
DISK_PAUSE = 5.0
T = TypeVar("T")


async def until_stored(work: Callable[[], Awaitable[T]]) -> T:
    """Try until the store takes it."""
    while True:
        try:
            return await work()
        except StoreError as error:
            logger.error("this cannot be written down yet and is tried again: {}", error)
            await asyncio.sleep(DISK_PAUSE)
