"""One section of the configuration, read as a file would give it, and written as it stands there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from nanobot.config.keys import sections_in
from nanobot.config.loader import load_text
from nanobot.config.schema import Config, TelegramConfig
from nanobot.config.schema_tools import McpServerConfig
from nanobot.config.schema_web import SearchProviderConfig, WebFetchConfig, WebSearchConfig
from nanobot.config.section import Section

_S = TypeVar("_S", bound=Section)
_PLACES: dict[type[Section], tuple[str, ...]] = {
    Config: (),
    TelegramConfig: ("channels", "telegram"),
    McpServerConfig: ("tools", "mcpServers", "one"),
    WebSearchConfig: ("tools", "web", "search"),
    SearchProviderConfig: ("tools", "web", "search", "providers", "brave"),
    WebFetchConfig: ("tools", "web", "fetch"),
}


def section(kind: type[_S], values: Mapping[str, object]) -> _S:
    """The section of this kind that holds `values`, at its usual place. Raises `ConfigError`."""
    whole: object = values
    for key in reversed(_PLACES[kind]):
        whole = {key: whole}
    config = load_text(json.dumps(whole), Path("config.json"), env={}).config
    found = dict(sections_in(config))[_PLACES[kind]]
    assert isinstance(found, kind)
    return found


def provider(name: str, **keys: object) -> dict[str, object]:
    return {"providers": {name: keys}}


def telegram(**keys: object) -> dict[str, object]:
    return {"channels": {"telegram": {"enabled": True, **keys}}}


def web(**keys: object) -> dict[str, object]:
    return {"tools": {"web": keys}}


def defaults(**keys: object) -> dict[str, object]:
    return {"agents": {"defaults": keys}}
