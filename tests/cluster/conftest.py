"""Gateways that share a database, as most tests of a cluster have them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.fleet import ADA, Fleet, fleet
from tests.fakes.llm_server import LlmServer
from tests.fakes.postgres import TestServer
from tests.fakes.telegram_server import TelegramServer


@pytest.fixture
async def ships(tmp_path: Path, postgres: TestServer) -> AsyncIterator[Fleet]:
    """None has started; Ada is the owner."""
    async with (
        TelegramServer() as telegram,
        LlmServer(after="Done.") as llm,
        fleet(tmp_path, telegram, llm, postgres.fresh(), [ADA]) as made,
    ):
        yield made
