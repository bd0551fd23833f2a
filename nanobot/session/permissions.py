"""What people have allowed for good, until they take it back: kept in the notes of the ledger, by person.

A permission holds for exactly what its words say. It lifts no denial, and whether its person may still decide is judged
anew with every call.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from functools import cached_property

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from nanobot.errors import UsageError
from nanobot.session.database import now
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.utils.translation import _

_PREFIX = "permission:"


class Permission(Struct, frozen=True):
    """One thing that `person` has allowed for good.

    `kind` is that of an effect, `private` for a host of one's own network, or another word of whoever asks; `about` is
    what it holds for, such as a host, a path, a command line or a tool. `words` say it as the question did. One that
    was given while content from outside stood in the conversation is `tainted`, and no other counts there. `at` is UTC.
    """

    kind: str
    about: str
    words: str = ""
    person: str = ""
    tainted: bool = False
    at: datetime | None = None

    @property
    def id(self) -> str:
        """Eight characters by which a person names it."""
        return hashlib.sha256(json.dumps([self.person, self.kind, self.about]).encode()).hexdigest()[:8]

    @property
    def holds_for(self) -> tuple[str, str]:
        return self.kind, self.about


class Permissions:
    """The permissions of all people. Without a `ledger` they live as long as the process."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._given = ledger

    @cached_property
    def _ledger(self) -> Ledger:
        return self._given or Ledger(MemoryDatabase())

    async def add(self, person: str, given: Iterable[Permission], *, tainted: bool = False) -> None:
        """Remember what `person` has allowed; what they have allowed before stays as wide as it was."""
        known = {one.id: one for one in await self._of(person)}
        changes: dict[str, Permission] = {}
        for one in given:
            fresh = Permission(one.kind, one.about, one.words, person, tainted, now())
            before = known.get(fresh.id)
            if before is None or (tainted and not before.tainted):
                changes[f"{_PREFIX}{person} {fresh.id}"] = fresh
        if changes:
            await self._ledger.set_notes({key: encode(one).decode() for key, one in changes.items()})

    async def held(self, person: str, *, tainted: bool) -> frozenset[tuple[str, str]]:
        """What a call of `person` need not be asked about; `tainted`: content from outside is in the conversation."""
        return frozenset(one.holds_for for one in await self._of(person) if one.tainted or not tainted)

    async def all(self) -> tuple[Permission, ...]:
        """Everything that anybody has allowed for good, the oldest first."""
        found = await self._read(_PREFIX)
        return tuple(sorted(found.values(), key=lambda one: (str(one.at or ""), one.id)))

    async def take_back(self, wanted: str) -> tuple[Permission, ...]:
        """Forget the permission of this id, or `all` of them. Raises `UsageError` where there is none."""
        found = await self._read(_PREFIX)
        gone = {key: one for key, one in found.items() if wanted in ("all", one.id)}
        if not gone:
            raise UsageError(
                _(
                    "There is no permission {id!r}. The list shows the id of each; `all` takes every one back.",
                    id=wanted,
                )
            )
        await self._ledger.set_notes(dict.fromkeys(gone))
        return tuple(gone.values())

    async def note(self, key: str, value: str) -> bool:
        """Remember a small fact beside the permissions; True where it is another one than before."""
        known = await self._ledger.note(key)
        if known != value:
            await self._ledger.set_notes({key: value})
        return known != value

    async def _of(self, person: str) -> tuple[Permission, ...]:
        return tuple((await self._read(f"{_PREFIX}{person} ")).values())

    async def _read(self, prefix: str) -> dict[str, Permission]:
        found: dict[str, Permission] = {}
        for key, value in (await self._ledger.notes(prefix)).items():
            try:
                found[key] = decode(value, type=Permission)
            except (DecodeError, ValidationError):  # written by another version: it allows nothing
                unread = _("something that this version cannot read")
                found[key] = Permission("?", key, unread, key.split()[-1])
        return found


def told(permissions: Iterable[Permission]) -> list[str]:
    """A line of Markdown for each: its id, what it allows, who gave it and when."""
    lines = []
    for one in permissions:
        by = _("{person}, since {day:%Y-%m-%d}", person=one.person, day=one.at) if one.at else one.person
        if one.tainted:
            by = _("{given}; also with content from outside in the conversation", given=by)
        said = _("{what} ({by})", what=one.words or f"{one.kind} {one.about}", by=by)
        lines.append(f"- `{one.id}` {said}")
    return lines
