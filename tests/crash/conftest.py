"""What the crash suite has tried is printed at the end, whether it passed or not."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.crash.nursery import Nursery

TRIED = pytest.StashKey[list[str]]()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nursery() -> AsyncIterator[Nursery]:
    """One for all tests; they run on one event loop."""
    async with Nursery() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def nobody_stays(nursery: Nursery) -> AsyncIterator[None]:
    """What a test has started ends with it."""
    yield
    await nursery.clear()


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> list[str]:
    """Lines for the summary of the run."""
    return request.config.stash.setdefault(TRIED, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(TRIED, []):
        terminalreporter.write_line(f"crash suite: {line}")
