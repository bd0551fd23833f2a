"""Waiting for what no event tells of: it is asked for again and again, up to a limit."""

import asyncio
from collections.abc import Callable


async def until(true: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until `true()`; raises `TimeoutError` after so many seconds."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)
