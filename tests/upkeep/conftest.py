"""What tests of the upkeep share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.service_manager import service_manager


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Path]:
    """A folder for PATH with a service manager, whose services tell `notify` how they are."""
    with service_manager(tmp_path / "manager", tmp_path / "notify") as folder:
        yield folder
