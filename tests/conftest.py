"""Every test meets the same surroundings, whatever keys, proxies and terminal the machine has."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fakes.postgres import TestServer

#: Read before the surroundings are hidden: the PostgreSQL to test with, instead of one that the tests start.
POSTGRES = os.environ.get("NANOBOT_TEST_POSTGRES", "")
_NAMES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "COLORTERM")
_ENDINGS = ("_PROXY", "_API_KEY", "_AUTH_TOKEN", "_BASE_URL")
#: A warning ends what the tests start, but for one that python-telegram-bot gives of its own attributes.
WARNINGS = "error,ignore:Deprecated since version v22.2"


@pytest.fixture(scope="session", autouse=True)
def surroundings() -> Iterator[None]:
    """Hide what would change an answer: keys and addresses of services, proxies, homes, colours, sizes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _NAMES or name.startswith("NANOBOT_") or name.upper().endswith(_ENDINGS):
                patch.delenv(name)
        patch.setenv("TERM", "xterm-256color")
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
