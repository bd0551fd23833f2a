"""When a running nanobot takes a change of each key: with its next turn, in the next terminal, after its next start."""

from collections.abc import Mapping
from typing import Literal, get_args

from nanobot.config.keys import KeyPath, path_of, value_at, with_value
from nanobot.config.schema import Config

#: The later it is, the further at the end it stands.
When = Literal["next turn", "next terminal", "next start"]
#: Beginnings of keys. Every key begins with exactly one.
TAKEN: Mapping[str, When] = {
    "$schema": "next turn",
    "agents.defaults.workspace": "next start",  # files, memory and skills are open there
    "agents.defaults.model": "next turn",
    "agents.defaults.provider": "next turn",
    "agents.defaults.modelPreset": "next turn",
    "agents.defaults.fallbackModels": "next turn",
    "agents.defaults.maxTokens": "next turn",
    "agents.defaults.contextWindowTokens": "next turn",
    "agents.defaults.temperature": "next turn",
    "agents.defaults.reasoningEffort": "next turn",
    "agents.defaults.maxToolIterations": "next turn",
    "agents.defaults.maxToolResultChars": "next turn",
    "agents.defaults.maxTurnSeconds": "next turn",
    "agents.defaults.maxTurnTokens": "next turn",
    "agents.defaults.language": "next turn",
    "agents.defaults.timezone": "next start",  # appointments stand in it
    "agents.subagents": "next turn",
    "modelPresets": "next turn",
    "providers": "next turn",
    "channels.terminal": "next terminal",  # which asks at its start, and nothing else does
    "channels.telegram.enabled": "next start",
    "channels.telegram.token": "next start",
    "channels.telegram.allowFrom": "next turn",
    "channels.telegram.proxy": "next start",
    "channels.telegram.apiBase": "next start",
    "channels.telegram.apiFileBase": "next start",
    "channels.telegram.groupPolicy": "next turn",
    "channels.telegram.streaming": "next turn",
    "channels.telegram.hints": "next turn",
    "channels.telegram.replyToMessage": "next turn",
    "channels.telegram.joinSeconds": "next start",
    "channels.telegram.groupContext": "next start",
    "channels.telegram.transcription": "next start",
    "channels.telegram.webhook": "next start",
    "tools.policy": "next turn",
    "tools.profile": "next start",  # the sandbox is looked for at the start
    "tools.restrictToWorkspace": "next start",
    "tools.files": "next start",  # commands that run stand on these folders
    "tools.exec": "next start",
    "tools.web.enable": "next turn",
    "tools.web.proxy": "next start",  # commands that run go through it
    "tools.web.privacy": "next turn",
    "tools.web.search": "next turn",
    "tools.web.fetch": "next turn",
    "tools.mcpServers": "next start",  # they are programs that run
    "tools.ssrfWhitelist": "next start",
    "budget": "next turn",
    "prices": "next turn",
    "gateway": "next start",
    "library": "next start",
    "backup": "next start",
    "schedule": "next start",
    "hooks": "next start",
    "plugins": "next start",
}


def taken(path: KeyPath) -> When:
    """When a change of this key, or of all keys below it, is in force in a nanobot that runs."""
    key = ".".join(path)
    found = {when for one, when in TAKEN.items() if f"{key}.".startswith(f"{one}.") or one.startswith(f"{key}.")}
    order: tuple[When, ...] = get_args(When)
    return max(found, key=order.index)


def changed(before: Config, after: Config) -> tuple[str, ...]:
    """The entries of the table that differ between two configurations."""
    return tuple(one for one in TAKEN if value_at(before, path_of(one)) != value_at(after, path_of(one)))


def taken_over(before: Config, after: Config) -> Config:
    """`after`, where every key that counts after the next start has its value of `before`."""
    for one, when in TAKEN.items():
        if when == "next start":
            after = with_value(after, path_of(one), value_at(before, path_of(one)))
    return after
