"""Blocks its own process on SIGUSR1 until the file `STALL_UNTIL` exists; for tests that start nanobot as a process.

Put this folder on PYTHONPATH. The handler runs on the main thread, so nothing of the event loop turns meanwhile.
"""

import os
import signal
import time
from pathlib import Path

MOST_SECONDS = 30.0


def stand_still(_number: int, _frame: object) -> None:
    end = time.monotonic() + MOST_SECONDS
    while not Path(os.environ["STALL_UNTIL"]).exists() and time.monotonic() < end:
        time.sleep(0.05)


if "STALL_UNTIL" in os.environ:
    signal.signal(signal.SIGUSR1, stand_still)
