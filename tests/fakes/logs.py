"""What is logged while a test looks."""

from collections.abc import Iterator
from contextlib import contextmanager

from loguru import logger


@contextmanager
def log_lines() -> Iterator[list[str]]:
    """The warnings and errors so far."""
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message)), level="WARNING", format="{message}")
    try:
        yield lines
    finally:
        logger.remove(sink)
