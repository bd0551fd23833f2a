"""Ending programs that were started, with everything that they started in turn."""

import asyncio
import contextlib
import os
import signal

#: Seconds in which a killed program is gone; one that left its session may hold our pipe for longer.
GONE_SECONDS = 2.0


async def end_session(process: asyncio.subprocess.Process) -> None:
    """Kill a program that was started with `start_new_session`, and what is left of its session. Always returns soon.

    The program itself may have ended already: what it left behind can still hold its output open.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GONE_SECONDS):
            await process.wait()
