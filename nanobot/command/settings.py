"""What people may set for one chat, and where it is kept: in the notes of the ledger, by the key of an address."""

from collections.abc import Mapping
from typing import Literal

from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.utils.text import lasting_key, nearest
from nanobot.utils.translation import N_, _, listed, sentences

SettingName = Literal["privacy", "hints", "streaming"]
#: The values of each setting and what they mean, the usual one first.
CHOICES: Mapping[SettingName, Mapping[str, str]] = {
    "privacy": {
        "off": N_("pages may be read with the help of the configured services"),
        "on": N_("pages and speech go to no service but the model"),
    },
    "hints": {
        "live": N_("what it does is shown while it works and folded up afterwards"),
        "keep": N_("what it does is shown and stays"),
        "off": N_("what it does is not shown"),
    },
    "streaming": {
        "edit": N_("the answer is shown while it is written"),
        "draft": N_("the answer is shown as a draft while it is written"),
        "off": N_("the answer comes when it is done"),
    },
}


class ChatSettings:
    """The settings of chats, such as `telegram:42:7`; those of all terminals are the same.

    Without a `ledger` they live as long as the process.

    `defaults` are the configured values; what they leave out is the usual one. `fixed` names configuration keys that
    decide for every chat, by the setting that they fix at its default.
    """

    def __init__(
        self,
        ledger: Ledger | None = None,
        defaults: Mapping[SettingName, str] | None = None,
        fixed: Mapping[SettingName, str] | None = None,
    ) -> None:
        self._ledger = ledger
        self._kept: dict[str, str] = {}
        self.configure(defaults or {}, fixed or {})

    def configure(self, defaults: Mapping[SettingName, str], fixed: Mapping[SettingName, str]) -> None:
        """Have other configured values from now on."""
        self._fixed = fixed
        self._defaults = {name: next(iter(values)) for name, values in CHOICES.items()} | dict(defaults)

    async def get(self, chat: str, name: SettingName) -> str:
        """The value in force: what was set for this chat, else the configured one."""
        kept = await self._note(chat, name)
        return kept if kept in CHOICES[name] and name not in self._fixed else self._defaults[name]

    async def set(self, chat: str, name: SettingName, value: str) -> None:
        """Keep a value for this chat. Raises `UsageError` for one that the setting does not have."""
        known = tuple(CHOICES[name])
        if value not in known:
            near = nearest(value, known)
            hint = _("Did you mean {near}?", near=near) if near else ""
            some, last = listed(known[:-1]), known[-1]
            takes = _("/{name} takes {some} or {last}, not {value!r}.", name=name, some=some, last=last, value=value)
            raise UsageError(sentences(takes, hint))
        if name in self._fixed and value != self._defaults[name]:
            key, fixed = self._fixed[name], self._defaults[name]
            raise UsageError(_("{key} sets {name} to {value} for every chat.", key=key, name=name, value=fixed))
        await self.keep(chat, name, value)

    async def model(self, chat: str) -> str:
        """The model that was chosen for this chat; empty for the configured one."""
        return await self._note(chat, "model")

    async def _note(self, chat: str, name: str) -> str:
        """What was kept, else empty. All of a chat is read once, but where other processes may change it."""
        key = _key(chat, name)
        if self._ledger is not None and (key not in self._kept or self._ledger.database.worker):
            keys = [_key(chat, one) for one in (*CHOICES, "model")]
            self._kept |= {**dict.fromkeys(keys, ""), **await self._ledger.noted(*keys)}
        return self._kept.get(key, "")

    async def keep(self, chat: str, name: SettingName | Literal["model"], value: str) -> None:
        """Keep a setting of this chat, or the name of its model, that was judged already."""
        key = _key(chat, name)
        if self._ledger is not None:
            await self._ledger.set_notes({key: value or None})
        self._kept[key] = value


def _key(chat: str, name: str) -> str:
    return f"chat:{lasting_key(chat)}:{name}"
