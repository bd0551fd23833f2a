"""What people may set for one chat, and where it is kept."""

from collections.abc import Mapping
from typing import Literal, Protocol

from nanobot.errors import UsageError
from nanobot.utils.text import nearest

SettingName = Literal["hints", "streaming", "privacy"]
#: The values of each setting, the usual one first.
CHOICES: Mapping[SettingName, tuple[str, ...]] = {
    "hints": ("live", "keep", "off"),
    "streaming": ("edit", "draft", "off"),
    "privacy": ("off", "on"),
}


class SettingsControl(Protocol):
    """The settings of chats. `chat` is the key of an address, such as `telegram:42:7`."""

    async def get(self, chat: str, name: SettingName) -> str:
        """The value in force: what was set for this chat, else the configured one."""

    async def set(self, chat: str, name: SettingName, value: str) -> None:
        """Keep a value for this chat. Raises `UsageError` for one that the setting does not have."""


class Notes(Protocol):
    """Where small facts are kept; the part of the `Ledger` that is needed here."""

    async def note(self, key: str) -> str | None: ...

    async def set_notes(self, changes: Mapping[str, str | None]) -> None: ...


class ProcessNotes:
    """Notes that live as long as the process."""

    def __init__(self) -> None:
        self._notes: dict[str, str] = {}

    async def note(self, key: str) -> str | None:
        return self._notes.get(key)

    async def set_notes(self, changes: Mapping[str, str | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self._notes.pop(key, None)
            else:
                self._notes[key] = value


class ChatSettings:
    """The `SettingsControl` on notes. `defaults` are the configured values; what they leave out is the usual one.

    `fixed` names configuration keys that decide for every chat, by the setting that they fix at its default.
    """

    def __init__(
        self,
        notes: Notes | None = None,
        defaults: Mapping[SettingName, str] | None = None,
        fixed: Mapping[SettingName, str] | None = None,
    ) -> None:
        self._notes = notes or ProcessNotes()
        self._fixed = fixed or {}
        self._defaults = {name: values[0] for name, values in CHOICES.items()} | dict(defaults or {})

    async def get(self, chat: str, name: SettingName) -> str:
        kept = await self._notes.note(_key(chat, name)) if name not in self._fixed else None
        return kept if kept in CHOICES[name] else self._defaults[name]

    async def set(self, chat: str, name: SettingName, value: str) -> None:
        known = CHOICES[name]
        if value not in known:
            near = nearest(value, known)
            hint = f" Did you mean {near}?" if near else ""
            raise UsageError(f"/{name} takes {', '.join(known[:-1])} or {known[-1]}, not {value!r}.{hint}")
        if name in self._fixed and value != self._defaults[name]:
            raise UsageError(f"{self._fixed[name]} sets {name} to {self._defaults[name]} for every chat.")
        await self._notes.set_notes({_key(chat, name): value})


class ChatModels:
    """The models that people chose with `/model`, on notes, by the key of an address."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    async def get(self, key: str) -> str:
        """The name that was chosen; empty for the configured model."""
        return await self._notes.note(f"chat:{key}:model") or ""

    async def keep(self, key: str, name: str) -> None:
        await self._notes.set_notes({f"chat:{key}:model": name or None})


def _key(chat: str, name: SettingName) -> str:
    return f"chat:{chat}:{name}"
