"""Every test meets the same surroundings, whatever keys, proxies and terminal the machine has."""

import os
from collections.abc import Iterator

import pytest

_NAMES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "COLORTERM")
_ENDINGS = ("_PROXY", "_API_KEY", "_AUTH_TOKEN", "_BASE_URL")


@pytest.fixture(scope="session", autouse=True)
def surroundings() -> Iterator[None]:
    """Hide what would change an answer: keys and addresses of services, proxies, homes, colours, sizes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name in _NAMES or name.startswith("NANOBOT_") or name.upper().endswith(_ENDINGS):
                patch.delenv(name)
        patch.setenv("TERM", "xterm-256color")
        yield
