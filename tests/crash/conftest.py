"""What the crash suite has tried is printed at the end, whether it passed or not."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio

from tests.fakes.crash.nursery import Nursery

NAME = "crash suite"


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
def tried(record_property: Callable[[str, object], None]) -> Iterator[list[str]]:
    """Lines for the summary of the run."""
    lines: list[str] = []
    yield lines
    for line in lines:
        record_property(NAME, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # Reports carry the lines, because the test may have run in another process.
    for report in (one for reports in terminalreporter.stats.values() for one in reports):
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            for name, line in report.user_properties:
                if name == NAME:
                    terminalreporter.write_line(f"{NAME}: {line}")
