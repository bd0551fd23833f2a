"""Every test meets the same surroundings, whatever keys, proxies and terminal the machine has."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.search_apis import SearchApis

if TYPE_CHECKING:
    from tests.fakes.postgres import TestServer

#: `-n`, which tells how many processes do the tests.
pytest_plugins = ["tests.workers"]
#: Read before the surroundings are hidden: the PostgreSQL to test with, instead of one that the tests start.
POSTGRES = os.environ.get("NANOBOT_TEST_POSTGRES", "")
#: Whether each program that a test starts is started cold, which pays where few are: to be able to fork takes more.
COLD = bool(os.environ.get("NANOBOT_TEST_COLD"))
#: The name of a line that the crash suite has for the summary of a run.
CRASHES = "crash suite"
_NAMES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "COLORTERM", "LANGUAGE", "LC_ALL", "LC_MESSAGES")
_ENDINGS = ("_PROXY", "_API_KEY", "_AUTH_TOKEN", "_BASE_URL")
#: A warning ends what the tests start, but for one that python-telegram-bot gives of its own attributes.
WARNINGS = "error,ignore:Deprecated since version v22.2"

#: No example is judged by the clock: a slow machine makes a test slow and nothing else.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
async def apis() -> AsyncIterator[SearchApis]:
    """The services of all search engines."""
    async with SearchApis() as server:
        yield server


@pytest.fixture
def chinese() -> Iterator[None]:
    """Whoever reads, reads Chinese."""
    from nanobot.utils.translation import speaking

    with speaking("zh"):
        yield


@pytest.fixture(scope="session", autouse=True)
def surroundings() -> Iterator[None]:
    """Hide what would change an answer: keys and addresses of services, proxies, homes, colours, sizes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _NAMES or name.startswith("NANOBOT_") or name.upper().endswith(_ENDINGS):
                patch.delenv(name)
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("LANG", "C.UTF-8")
        patch.setenv("PYTHONWARNINGS", WARNINGS)
        # A temporary folder of our own: what others left in that of the machine may belong to another user.
        folder = tempfile.mkdtemp(prefix="nanobot-tests-")
        Path(folder).chmod(0o755)  # a PostgreSQL that root starts runs as somebody else
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> "Iterator[TestServer]":
    """One real PostgreSQL for all tests; each takes a database of its own with `fresh`."""
    from tests.fakes.postgres import postgres_server  # loads psycopg, which most tests do not need

    with postgres_server(POSTGRES) as server:
        yield server


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--first-rows", action="store_true", help="of each table of cases try the first one alone")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("first_rows"):
        first = {id(item) for item in {item.nodeid.partition("[")[0]: item for item in reversed(items)}.values()}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in first])
        items[:] = [item for item in items if id(item) in first]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what the crash suite has tried, whether it passed or not.

    The reports carry the lines, because the test may have run in another process.
    """
    for report in (one for reports in terminalreporter.stats.values() for one in reports):
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            for name, line in report.user_properties:
                if name == CRASHES:
                    terminalreporter.write_line(f"{CRASHES}: {line}")
