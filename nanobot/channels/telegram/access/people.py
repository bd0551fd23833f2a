"""Who may talk to the bot. Nobody, until an owner has claimed it; then those whom the owner lets in.

People are known by their numeric id alone, because user names change hands. What is decided is kept as notes of the
ledger; codes are kept as hashes.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

import msgspec
from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import Address, Role
from nanobot.channels.telegram.settings import CHANNEL, EVERYBODY, judged_ids
from nanobot.errors import StoreError, UsageError
from nanobot.security.policy import GRANTS
from nanobot.session.database import now
from nanobot.session.ledger import Ledger
from nanobot.utils.text import one_line
from nanobot.utils.translation import ENGLISH, _, listed, sentences, speaking

if TYPE_CHECKING:
    from nanobot.agent.loop import AgentLoop

#: How long a link to claim the bot, and a code to be let in, are good.
CLAIM_VALID = timedelta(minutes=10)
CODE_VALID = timedelta(hours=1)
#: How long a link that lets somebody in is good, and how many are open at once.
INVITE_VALID = timedelta(hours=24)
MOST_INVITED = 20
#: Wrong codes after which a person is not heard any more until the next start.
MOST_WRONG = 5
#: Codes that wait for the owner's word at once; one more makes the oldest void, so that strangers hold no place.
MOST_PENDING = 100
#: Seconds for which nobody else can claim the bot while somebody does.
_CLAIM_SECONDS = 60.0
#: A stranger gets one line in this time.
NOTICE_EVERY = timedelta(days=1)
_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
_NAME = 64
_LOOK_EVERY = 2.0
_RIGHTS_EVERY = 1.0

Clock = Callable[[], datetime]
Claim = Literal["claimed", "wrong", "locked", "expired", "used"]


class Person(Struct, frozen=True):
    """Somebody who may talk, or asks to. `id` is Telegram's number as text; `name` is what they call themselves.

    `granted` is what the owner lets a user do besides searching and reading.
    """

    id: str
    name: str = ""
    role: Role = "user"
    granted: tuple[str, ...] = ()


class _Code(Struct, frozen=True):
    """What is kept of a code, until when it is good: the role that it gives, or who has asked with it. Where it is not
    known by its hash already, that is its `digest`."""

    until: datetime
    digest: str = ""
    role: Role = "user"
    id: str = ""
    name: str = ""


class Access:
    """The rights of one bot. `channel` is the name under which its facts stand in the ledger."""

    def __init__(self, ledger: Ledger, channel: str, allow_from: tuple[str, ...] = (), *, clock: Clock = now) -> None:
        self._ledger = ledger
        self._prefix = f"{channel}:"
        self._clock = clock
        self._wrong: dict[str, int] = {}
        self.allow(allow_from)

    def allow(self, allow_from: tuple[str, ...]) -> None:
        """Let these people in from now on, besides those whom the owner lets in."""
        with speaking(ENGLISH):
            self._allowed, problems = judged_ids(allow_from)
        #: Whether strangers are guests.
        self.everybody = EVERYBODY in allow_from
        for problem in problems:
            logger.warning("{}", problem)

    async def username(self) -> str:
        """The bot's name as a gateway has learned it; empty before the first."""
        return await self._ledger.note(self._key("username")) or ""

    async def keep_username(self, name: str) -> None:
        if name and name != await self.username():
            await self._ledger.set_notes({self._key("username"): name})

    # The owner

    async def owner(self) -> str:
        """The owner's id; empty while nobody has claimed the bot.

        One single id in allowFrom is the owner's: whoever writes the configuration owns the machine.
        """
        return self._owner(await self._ledger.note(self._key("owner")))

    def _owner(self, claimed: str | None) -> str:
        return claimed or (next(iter(self._allowed)) if len(self._allowed) == 1 else "")

    async def offer(self) -> str:
        """A new code that makes its first user the owner, in all processes of the bot. An earlier one is void."""
        code = secrets.token_urlsafe(16)  # 128 bits, in letters that a start link takes
        offered = _Code(self._clock() + CLAIM_VALID, _digest(code))
        await self._ledger.set_notes({self._key("offer"): _json(offered)})
        return code

    async def claim(self, person: Person, code: str) -> Claim:
        """Try a code that came by a start link. In all processes of the bot together one claim can be the first."""
        tries = self._tried(person)
        if tries > MOST_WRONG:
            return "locked"
        if await self.owner():
            return "used"
        kept = await self._ledger.note(self._key("offer"))
        offer = _code(kept) if kept is not None else None
        if offer is None or not secrets.compare_digest(offer.digest, _digest(code)):
            return "locked" if tries == MOST_WRONG else "wrong"
        if self._clock() > offer.until:
            return "expired"
        if not await self._first(self._key("claim")) or await self.owner():
            return "used"
        await self._ledger.set_notes(
            {self._key("offer"): None, self._key("owner"): person.id, self._key("owner-name"): _name(person.name)}
        )
        logger.info("the bot was claimed by {} ({})", person.id, _name(person.name))
        return "claimed"

    def _tried(self, person: Person) -> int:
        """How often somebody has tried a code, counted before anything is looked at: tries come side by side."""
        tries = self._wrong[person.id] = self._wrong.get(person.id, 0) + 1
        return tries

    async def _first(self, key: str) -> bool:
        """Whether a code is this try's to use up: that of one, in all processes of the bot together."""
        return await self._ledger.hold(key, secrets.token_hex(8), _CLAIM_SECONDS)

    # People

    async def role(self, person_id: str) -> Role | None:
        """What a person may do; None for strangers."""
        person = await self.person(person_id)
        return person.role if person is not None else None

    async def person(self, person_id: str) -> Person | None:
        """Somebody with the rights that they have now; None for strangers."""
        return (await self.persons((person_id,)))[person_id]

    async def persons(self, ids: Collection[str]) -> Mapping[str, Person | None]:
        """The same of several, each by their id."""
        owner, users = self._key("owner"), {one: self._key("user", one) for one in ids}
        noted = await self._ledger.noted(owner, *users.values())
        claimed = self._owner(noted.get(owner))
        return {one: self._judged(one, claimed, noted.get(key)) for one, key in users.items()}

    def _judged(self, person_id: str, owner: str, kept: str | None) -> Person | None:
        if person_id == owner:
            return Person(person_id, role="owner")
        if kept is not None or person_id in self._allowed:
            return self._known(person_id, kept)
        return Person(person_id, role="guest") if self.everybody else None

    def _known(self, person_id: str, kept: str | None) -> Person:
        """Who was let in, as the ledger has it; who stands in the configuration is no less than a user."""
        if kept is None:
            return Person(person_id)
        found = msgspec.convert({**msgspec.json.decode(kept), "id": person_id}, Person)
        if found.role == "guest" and person_id not in self._allowed:
            return replace(found, granted=())
        return replace(found, role="user", granted=tuple(one for one in GRANTS if one in found.granted))

    async def named(self, words: str) -> Person:
        """Whom the owner means by an id or a name. Raises `UsageError` where that is nobody or not one alone."""
        wanted = words.strip().removeprefix("@").casefold()
        known = [one for one in await self.people() if wanted and one.role != "owner"]
        found = [one for one in known if one.id == wanted] or [one for one in known if one.name.casefold() == wanted]
        found = found or [one for one in known if one.name.casefold().startswith(wanted)]
        if len(found) == 1:
            return found[0]
        if not found:
            raise UsageError(
                _("There is nobody called {name!r} here. /people lists everybody with their ids.", name=words.strip())
            )
        ids = listed(_("{name} is `{id}`", name=one.name, id=one.id) for one in found)
        raise UsageError(_("That may be several people ({ids}). Name the id.", ids=ids))

    async def grant(self, person: Person, granted: Iterable[str]) -> Person:
        """Let a user do exactly this besides. Raises `UsageError` for a guest."""
        if person.role != "user":
            name = person.name or person.id
            raise UsageError(_("{name} is a guest. `/invite user` makes a link for users.", name=name))
        wanted = set(granted)
        changed = replace(person, granted=tuple(one for one in GRANTS if one in wanted))
        await self._ledger.set_notes({self._key("user", person.id): _json(changed)})
        return changed

    async def invite(self, role: Role) -> str:
        """A code that lets in who first uses it, as a user or a guest. Raises `UsageError` where too many are open."""
        if not await self.owner():
            raise UsageError(_("This bot has no owner yet. Its owner claims it with the link of `nanobot gateway`."))
        if len(await self._codes("invite")) >= MOST_INVITED:
            raise UsageError(_("{most} links are open. They end by themselves after a day.", most=MOST_INVITED))
        code = secrets.token_urlsafe(16)
        invited = _Code(self._clock() + INVITE_VALID, role=role)
        await self._ledger.set_notes({self._key("invite", _digest(code)): _json(invited)})
        return code

    async def accept(self, person: Person, code: str) -> Person | None:
        """Let in who came by a link, once; None where the code is none, used or too old, or after too many tries."""
        tries, digest = self._tried(person), _digest(code)
        invited = (await self._codes("invite")).get(digest) if tries <= MOST_WRONG else None
        key = self._key("invite", digest)
        if invited is None or not await self._first(f"{key}:use") or await self._ledger.note(key) is None:
            return None
        came = Person(person.id, _name(person.name), invited.role)
        await self._ledger.set_notes({key: None, self._key("user", person.id): _json(came)})
        del self._wrong[person.id]
        return came

    async def request(self, person: Person) -> str:
        """A code with which a stranger can ask the owner to be let in; an earlier one of theirs is void.

        Raises `UsageError`, one line.
        """
        if self._wrong.get(person.id, 0) >= MOST_WRONG or not await self.owner():
            raise UsageError(_("Nobody can be let in at the moment."))
        pending = sorted((await self._codes("code")).items(), key=lambda one: one[1].until)
        void = [digest for digest, asked in pending if asked.id == person.id]
        others = [digest for digest, _asked in pending if digest not in void]
        void += others[: max(0, len(others) + 1 - MOST_PENDING)]
        code = "".join(secrets.choice(_LETTERS) for _letter in range(8))
        asked = _Code(self._clock() + CODE_VALID, id=person.id, name=_name(person.name))
        changes: dict[str, str | None] = {self._key("code", digest): None for digest in void}
        await self._ledger.set_notes({**changes, self._key("code", _digest(code)): _json(asked)})
        return f"{code[:4]}-{code[4:]}"

    async def approve(self, code: str) -> Person:
        """Let in who asked with this code. Raises `UsageError`."""
        digest = _digest(code.strip().upper().replace("-", ""))
        asked = (await self._codes("code")).get(digest)
        if asked is None:
            raise UsageError(
                _("There is no such code; it may have expired. Who wants in sends /pair to get a new one.")
            )
        person = Person(asked.id, asked.name)
        await self._ledger.set_notes({self._key("code", digest): None, self._key("user", person.id): _json(person)})
        return person

    async def people(self) -> tuple[Person, ...]:
        """Who may talk in private, the owner first."""
        owner = await self.owner()
        found: dict[str, Person] = {}
        if owner:
            found[owner] = Person(owner, await self._ledger.note(self._key("owner-name")) or "", "owner")
        stored = await self._ledger.notes(self._key("user", ""))
        for key, value in stored.items():
            person_id = key.rpartition(":")[2]
            found.setdefault(person_id, self._known(person_id, value))
        for person_id in sorted(self._allowed):
            found.setdefault(person_id, Person(person_id))
        return tuple(found.values())

    async def remove(self, person_id: str) -> None:
        """Let somebody in no longer. Raises `UsageError` for those who were not let in by a code."""
        key = self._key("user", person_id)
        if person_id in self._allowed or await self._ledger.note(key) is None:
            where = _("That id stands in channels.telegram.allowFrom.") if person_id in self._allowed else ""
            raise UsageError(sentences(_("{id} was not let in with /pair or a link.", id=person_id), where))
        await self._ledger.set_notes({key: None})

    async def may_notice(self, person_id: str) -> bool:
        """True once a day for a stranger; then the line counts as sent."""
        key, at = self._key("stranger", person_id), self._clock()
        last = await self._ledger.note(key)
        if last and at - datetime.fromisoformat(last) < NOTICE_EVERY:
            return False
        old = await self._ledger.notes(self._key("stranger", ""))
        gone = [name for name, seen in old.items() if at - datetime.fromisoformat(seen) >= NOTICE_EVERY]
        await self._ledger.set_notes({**dict.fromkeys(gone), key: at.isoformat()})
        return True

    # Groups

    async def groups(self) -> tuple[Person, ...]:
        """The groups in which the bot answers; everybody there is a guest who is nothing else."""
        kept = await self._ledger.notes(self._key("group", ""))
        return tuple(Person(key.rpartition(":")[2], title, "guest") for key, title in kept.items())

    async def group_allowed(self, chat_id: str) -> bool:
        return await self._ledger.note(self._key("group", chat_id)) is not None

    async def allow_group(self, chat_id: str, title: str) -> None:
        await self._ledger.set_notes({self._key("group", chat_id): _name(title) or chat_id})

    async def forbid_group(self, chat_id: str) -> None:
        await self._ledger.set_notes({self._key("group", chat_id): None})

    async def move_group(self, old: str, new: str) -> None:
        """A group became a supergroup and has another id."""
        title = await self._ledger.note(self._key("group", old))
        if title is not None:
            await self._ledger.set_notes({self._key("group", old): None, self._key("group", new): title})

    def _key(self, kind: str, name: str | None = None) -> str:
        return f"{self._prefix}{kind}" if name is None else f"{self._prefix}{kind}:{name}"

    async def _codes(self, kind: str) -> dict[str, _Code]:
        """Codes of a kind that are still good, by hash; the others are forgotten."""
        kept = {key: _code(value) for key, value in (await self._ledger.notes(self._key(kind, ""))).items()}
        gone = [key for key, one in kept.items() if one.until < self._clock()]
        if gone:
            await self._ledger.set_notes(dict.fromkeys(gone))
        return {key.rpartition(":")[2]: one for key, one in kept.items() if key not in gone}


def _code(kept: str) -> _Code:
    return msgspec.json.decode(kept, type=_Code)


def _json(kept: Person | _Code) -> str:
    """Somebody or a code as the ledger keeps them."""
    return msgspec.json.encode(kept).decode()


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _name(text: str) -> str:
    """A name as somebody else chose it, fit for one line."""
    return one_line(text, _NAME)


class ClaimLink(Struct, frozen=True):
    """`url` opens the bot with its code; it is good for `minutes`."""

    url: str
    username: str
    minutes: int


Announce = Callable[[ClaimLink | None], None]
"""Shows a link; None says that the bot has its owner now."""


async def watch_rights(access: Access, turns: "AgentLoop") -> None:
    """End what runs of people who may do less by now, whichever process has changed that, until cancelled.

    Once in a second those are looked at who wait for an answer; while nobody does, nothing is asked of the disk.
    """
    while True:
        await asyncio.sleep(_RIGHTS_EVERY)
        if not (messages := turns.at_work(CHANNEL)):
            continue
        try:
            people = await access.persons({one.sender.id for one in messages})
        except StoreError as error:
            logger.warning("who may talk could not be read: {}", error)
            continue
        for one in messages:
            person = people[one.sender.id]
            role = person.role if person is not None else None if one.direct else "guest"
            granted = person.granted if person is not None else ()
            if one.sender.exceeds(role, granted):
                await turns.dismiss(Address(CHANNEL, one.sender.id), role, granted)


async def offer_link(access: Access, announce: Announce, username: str) -> None:
    """Show a link where the bot has no owner, and while it is good that somebody has opened it."""
    if await access.owner():
        return
    seconds = CLAIM_VALID.total_seconds()
    url = f"https://t.me/{username}?start={await access.offer()}"
    announce(ClaimLink(url, username, int(seconds // 60)))
    for _look in range(int(seconds / _LOOK_EVERY)):
        await asyncio.sleep(_LOOK_EVERY)
        if await access.owner():
            announce(None)
            return
