"""What the owner asks and changes of people: `/people`, `/invite` and `nanobot people`, in words."""

import asyncio
import io
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Protocol

import segno
from msgspec import Struct

from nanobot.bus.events import Address, Role
from nanobot.channels.telegram.access.people import INVITE_VALID, Access, Person
from nanobot.channels.telegram.settings import CHANNEL, settings_of
from nanobot.command.words import ROLES
from nanobot.config.schema import Config, PersonBudgetConfig
from nanobot.errors import UsageError
from nanobot.money.budget import Budget
from nanobot.schedule.job import NEVER
from nanobot.schedule.store import JobStore
from nanobot.security.policy import GRANTS
from nanobot.session.ledger import Ledger
from nanobot.session.store import SessionStore
from nanobot.utils.host import midnight_in, zone_of
from nanobot.utils.text import nearest
from nanobot.utils.translation import N_, _, _n, apart, listed, sentences

_ACTIONS = ("grant", "take", "remove")
_HOW = N_("""\
- `/invite` lets somebody in, with a link.
- `/people remove <who>` lets them in no longer.
- `/people <who> cap 2` lets them spend 2 USD a day.
- `/people grant <who> files` lets a user do more, one of these:
{grants}
- `/people take <who> files` takes that back.""")
_CAPS = N_(
    "Name USD for a day, and for a month if you like: `/people {who} cap 2` or `/people {who} cap 2 30`. "
    "`/people {who} cap off` gives back what holds for everybody."
)
_TERMS: Mapping[Role, str] = {
    "user": N_("Whoever opens it first is a user. It works once, within {hours} hours; send it to one person alone."),
    "guest": N_("Whoever opens it first is a guest. It works once, within {hours} hours; send it to one person alone."),
}


class Running(Protocol):
    """What runs of a person."""

    async def dismiss(self, person: Address) -> int: ...


class Rights(Struct, frozen=True):
    """The people of one bot, as the owner sees them.

    `folders` holds the folder of each user; `midnight` is when the day began for the owner.
    """

    access: Access
    store: SessionStore
    folders: Path
    midnight: Callable[[], datetime]
    budget: Budget
    jobs: JobStore

    async def people(self, words: str, running: Running | None = None) -> str:
        """Show everybody, or change what somebody may do; what runs of them then is ended. Raises `UsageError`."""
        action, _blank, rest = words.strip().partition(" ")
        if not action:
            return await self._everybody()
        who, capped, amounts = words.partition(" cap ")
        if capped:
            return await self._cap(await self.access.named(who), amounts.casefold().split())
        if action.casefold() not in _ACTIONS:
            near = nearest(action, _ACTIONS)
            hint = _("Did you mean `/people {action}`?", action=near) if near else ""
            takes = _("/people takes grant, take, remove or `<who> cap 2`, or nothing at all.")
            raise UsageError(sentences(takes, hint))
        if action.casefold() == "remove":
            return await self._remove(await self.access.named(rest), running)
        return await self._change(action.casefold(), rest.replace(",", " ").split(), running)

    async def invite(self, words: str, *, drawn: bool = False) -> str:
        """A link that lets in whoever opens it first; `drawn`: also as a code to scan. Raises `UsageError`."""
        wanted = words.strip().casefold() or "user"
        if wanted not in ("user", "guest"):
            raise UsageError(
                _("`/invite user` is for somebody to whom you may grant more, `/invite guest` for others.")
            )
        role: Role = "guest" if wanted == "guest" else "user"
        code, name = await self.access.invite(role), await self.access.username()
        hours = int(INVITE_VALID.total_seconds() // 3600)
        terms = _(_TERMS[role], hours=hours)
        if not name:
            line = _("Let them send me this line in a chat of their own: `/start {code}`", code=code)
            return f"{line}\n\n{terms}"
        url = f"https://t.me/{name}?start={code}"
        picture = f"\n\n```\n{qr_text(url)}\n```" if drawn else ""
        return f"{url}{picture}\n\n{terms}"

    async def _everybody(self) -> str:
        lines = [await self._line(one) for one in await self.access.people()] or [_("- Nobody yet")]
        groups = [
            _("- {name} (`{id}`), a group: everybody there is a guest", name=one.name, id=one.id)
            for one in await self.access.groups()
        ]
        open_to_all = [_("- Everybody else is a guest: allowFrom holds `*`")] if self.access.everybody else []
        grants = [_("  - `{name}`: {meaning}", name=name, meaning=_(means)) for name, means in GRANTS.items()]
        how = _(_HOW, grants="\n".join(grants))
        return "\n".join([_("**Who may talk to me**"), "", *lines, *groups, *open_to_all, "", how])

    async def _line(self, person: Person) -> str:
        who = f"{person.name} (`{person.id}`)" if person.name else f"`{person.id}`"
        payer = f"{CHANNEL}:{person.id}"
        spent = await self.store.spent(self.midnight().replace(day=1), person=payer)
        parts = [_("{who}, {role}", who=who, role=_(ROLES[person.role]))]
        parts += [_("may use {granted}", granted=listed(person.granted))] if person.granted else []
        used = spent.input + spent.output
        parts.append(_("this month {tokens:,} tokens, {money}", tokens=used, money=spent.money))
        if person.role != "owner" and (cap := await self.budget.of_person(payer)):
            parts.append(cap)
        about = self.folders / f"{CHANNEL}-{person.id}" / "USER.md"
        if jobs := [one for one in await self.jobs.all((f"{CHANNEL}:{person.id}",)) if one.due < NEVER]:
            coming = jobs[0].local(jobs[0].due)
            when = f"{coming:%Y-%m-%d %H:%M}"
            parts.append(_("{number} scheduled, next {when}", number=len(jobs), when=when))
        if size := await asyncio.to_thread(_size, about):
            parts.append(_("USER.md {size:,} bytes", size=size))
        return f"- {apart(parts)}"

    async def _change(self, action: str, words: Sequence[str], running: Running | None) -> str:
        """The last words are grants, those before them say whose."""
        split = next((place for place, word in enumerate(words) if place and word.casefold() in GRANTS), len(words))
        wanted = [word.casefold() for word in words[split:]]
        unknown = [word for word in wanted if word not in GRANTS]
        if not wanted or unknown:
            known = listed(GRANTS)
            raise UsageError(
                _("Name whom and what: `/people {action} <who> files`. There are {known}.", action=action, known=known)
            )
        person = await self.access.named(" ".join(words[:split]))
        had = set(person.granted)
        now = await self.access.grant(person, had | set(wanted) if action == "grant" else had - set(wanted))
        ended = await self._ended(person, running) if had - set(now.granted) else ""
        can = listed(now.granted) or _("nothing besides what every user may")
        may = _("{name} may use {granted}, in their own chat with me.", name=now.name or now.id, granted=can)
        return sentences(may, ended)

    async def _remove(self, person: Person, running: Running | None) -> str:
        await self.access.remove(person.id)
        jobs = await self.jobs.end(f"{CHANNEL}:{person.id}")
        ended = await self._ended(person, running)
        away = (
            _n("{number} scheduled job is taken away.", "{number} scheduled jobs are taken away.", jobs) if jobs else ""
        )
        left = await self.access.person(person.id)
        as_guest = _("allowFrom holds `*`, so they are a guest now like everybody.") if left is not None else ""
        out = _("{name} may not talk to me any more.", name=person.name or person.id)
        return sentences(out, as_guest, ended, away)

    async def _cap(self, person: Person, amounts: Sequence[str]) -> str:
        """USD of a day and, where it is named, of a month; `off` is what holds for everybody."""
        payer, usual = f"{CHANNEL}:{person.id}", self.budget.limits.per_person
        if amounts == ["off"]:
            await self.budget.set_caps(payer, None)
        else:
            day, *month = _dollars(amounts, person.id)
            await self.budget.set_caps(payer, PersonBudgetConfig(day, month[0] if month else usual.per_month))
        cap = await self.budget.of_person(payer) or _("no cap")
        return _("{name}, {cap}.", name=person.name or person.id, cap=cap)

    async def _ended(self, person: Person, running: Running | None) -> str:
        """A sentence on what was running of somebody who may do less now."""
        if running is None:
            return _("What a gateway does for them right now ends within a few seconds.")
        count = await running.dismiss(Address(CHANNEL, person.id))
        return _("What was running for them is ended.") if count else ""


def rights_of(
    config: Config, env: Mapping[str, str], ledger: Ledger, folders: Path, budget: Budget | None = None
) -> Rights:
    """The people of the bot that is configured; their files are in `folders`, and `budget` is what this process spends
    by, if it does. Raises `UsageError` where none is."""
    settings = settings_of(config.channels.telegram, env)
    access = Access(ledger, settings.channel, settings.allow_from)
    zone = zone_of(config.agents.defaults.timezone, env)

    midnight = partial(midnight_in, zone)
    budget = budget or Budget(config, ledger, midnight)
    return Rights(access, ledger.sessions, folders, midnight, budget, JobStore(ledger))


def qr_text(text: str) -> str:
    """The QR code of a link as lines of text, two rows of modules a line, for dark and light screens.

    Dark modules are blanks and light ones are blocks, as a screen with light letters on dark ground needs; scanners
    read the opposite as well.
    """
    drawn = io.StringIO()
    segno.make_qr(text, error="L", boost_error=False).terminal(drawn, border=4, compact=True)
    return drawn.getvalue().rstrip("\n")


def _size(path: Path) -> int:
    """The bytes of a file; 0 where there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _dollars(words: Sequence[str], who: str) -> list[float]:
    """One or two amounts. Raises `UsageError`."""
    try:
        found = [float(word.lstrip("$").removesuffix("usd") or "?") for word in words]
    except ValueError:
        found = []
    if len(found) not in (1, 2) or not all(0 <= one < 1_000_000 for one in found):
        raise UsageError(_(_CAPS, who=who))
    return found
