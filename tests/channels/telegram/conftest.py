"""What most tests of a room of Telegram begin with; `at` is the stage of their subject."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.channels.telegram.intake_harness import IntakeStage, intake_stage
from tests.channels.telegram.scenarios import Stage, Turn
from tests.fakes.telegram_server import User


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[IntakeStage]:
    async with intake_stage(tmp_path / "media") as made:
        yield made


@pytest.fixture
async def turn(at: Stage) -> Turn:
    """A turn that has begun."""
    return await at.begin()


@pytest.fixture
def ada(at: IntakeStage) -> User:
    """A person who writes in private."""
    return at.server.user("Ada", 7)
