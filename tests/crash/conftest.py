"""The lives of the crash suite, and lines for the summary of a run."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from tests.conftest import CRASHES
from tests.fakes.crash.nursery import Nursery


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nursery() -> Nursery:
    """One for all tests; they run on one event loop."""
    return Nursery()


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def nobody_stays(nursery: Nursery) -> AsyncIterator[None]:
    """What a test has started ends with it."""
    yield
    await nursery.clear()


@pytest.fixture
def tried(record_property: Callable[[str, object], None]) -> Iterator[list[str]]:
    """Lines for the summary of the run."""
    lines: list[str] = []
    yield lines
    for line in lines:
        record_property(CRASHES, line)
