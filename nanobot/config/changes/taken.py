"""Which keys a running nanobot takes at once, and which count after its next start."""

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from nanobot.config.keys import KeyPath, keys_of
from nanobot.config.schema import Config
from nanobot.config.section import Section

_S = TypeVar("_S", bound=Section)

#: Beginnings of keys; True: a running nanobot takes a change with the next turn. Every key begins with exactly one.
TAKEN: Mapping[str, bool] = {
    "$schema": True,
    "agents.defaults.workspace": False,  # files, memory and skills are open there
    "agents.defaults.model": True,
    "agents.defaults.provider": True,
    "agents.defaults.modelPreset": True,
    "agents.defaults.fallbackModels": True,
    "agents.defaults.maxTokens": True,
    "agents.defaults.contextWindowTokens": True,
    "agents.defaults.temperature": True,
    "agents.defaults.reasoningEffort": True,
    "agents.defaults.maxToolIterations": True,
    "agents.defaults.maxToolResultChars": True,
    "agents.defaults.maxTurnSeconds": True,
    "agents.defaults.maxTurnTokens": True,
    "agents.defaults.language": True,
    "agents.defaults.timezone": False,  # appointments stand in it
    "agents.subagents": True,
    "modelPresets": True,
    "providers": True,
    "channels.terminal": False,  # a terminal asks at its start
    "channels.telegram.enabled": False,
    "channels.telegram.token": False,
    "channels.telegram.allowFrom": True,
    "channels.telegram.proxy": False,
    "channels.telegram.apiBase": False,
    "channels.telegram.apiFileBase": False,
    "channels.telegram.groupPolicy": True,
    "channels.telegram.streaming": True,
    "channels.telegram.hints": True,
    "channels.telegram.replyToMessage": True,
    "channels.telegram.joinSeconds": False,
    "channels.telegram.groupContext": False,
    "channels.telegram.transcription": False,
    "channels.telegram.webhook": False,
    "tools.policy": True,
    "tools.profile": False,  # the sandbox is looked for at the start
    "tools.restrictToWorkspace": False,
    "tools.files": False,  # commands that run stand on these folders
    "tools.exec": False,
    "tools.web.enable": True,
    "tools.web.proxy": False,  # commands that run go through it
    "tools.web.privacy": True,
    "tools.web.search": True,
    "tools.web.fetch": True,
    "tools.mcpServers": False,  # they are programs that run
    "tools.ssrfWhitelist": False,
    "budget": True,
    "prices": True,
    "gateway": False,
    "library": False,
    "backup": False,
    "schedule": False,
    "hooks": False,
    "plugins": False,
}


def at_once(path: KeyPath) -> bool:
    """Whether a running nanobot takes a change of this key, or of all keys below it, without a restart."""
    key = ".".join(path)
    return all(taken for one, taken in TAKEN.items() if f"{key}.".startswith(f"{one}.") or one.startswith(f"{key}."))


def changed(before: Config, after: Config) -> tuple[str, ...]:
    """The entries of the table that differ between two configurations."""
    return tuple(one for one in TAKEN if value_at(before, _path(one)) != value_at(after, _path(one)))


def taken_over(before: Config, after: Config) -> Config:
    """`after`, where every key that counts after the next start has its value of `before`."""
    for one, taken in TAKEN.items():
        if not taken:
            after = _with(after, _path(one), value_at(before, _path(one)))
    return after


def value_at(section: Section, path: KeyPath) -> object:
    """The value of a key, such as a number or a whole section."""
    value: object = section
    for name in path:
        if isinstance(value, Section):
            value = getattr(value, keys_of(type(value))[name].attribute)
    return value


def _with(section: _S, path: KeyPath, value: object) -> _S:
    attribute = keys_of(type(section))[path[0]].attribute
    inner: object = getattr(section, attribute)
    if len(path) > 1 and isinstance(inner, Section):
        value = _with(inner, path[1:], value)
    return replace(section, **{attribute: value})


def _path(dotted: str) -> KeyPath:
    return tuple(dotted.split("."))
