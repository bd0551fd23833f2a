"""Signals as calls on the event loop."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

INTERRUPT = (signal.SIGINT,)
HANG_UP = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def on_signal(numbers: Sequence[signal.Signals], act: Callable[[int], None]) -> Iterator[None]:
    """Call `act(number)` for each of these signals while the block runs; afterwards they do what they did before."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        loop.add_signal_handler(number, act, int(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
