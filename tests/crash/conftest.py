"""What the crash suite has tried is printed at the end, whether it passed or not."""

import pytest

TRIED = pytest.StashKey[list[str]]()


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> list[str]:
    """Lines for the summary of the run."""
    return request.config.stash.setdefault(TRIED, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(TRIED, []):
        terminalreporter.write_line(f"crash suite: {line}")
