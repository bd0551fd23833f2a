"""Who may talk to the bot. Nobody, until an owner has claimed it; then those whom the owner lets in.

People are known by their numeric id alone, because user names change hands. What is decided is kept as notes of the
ledger; codes are kept as hashes.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import Address, Role
from nanobot.channels.telegram.settings import CHANNEL, EVERYBODY, judged_ids
from nanobot.errors import StoreError, UsageError
from nanobot.security.policy import GRANTS
from nanobot.session.database import now
from nanobot.session.ledger import Ledger
from nanobot.utils.text import shorten, squeeze, strip_unsafe
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
#: How often a link is shown before the gateway waits for a restart: what it prints may be kept in a log.
_MOST_LINKS = 3
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
        self._everybody = EVERYBODY in allow_from
        for problem in problems:
            logger.warning("{}", problem)

    @property
    def everybody(self) -> bool:
        """Whether strangers are guests."""
        return self._everybody

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
        claimed = await self._ledger.note(self._key("owner"))
        if claimed:
            return claimed
        return next(iter(self._allowed)) if len(self._allowed) == 1 else ""

    async def offer(self) -> str:
        """A new code that makes its first user the owner, in all processes of the bot. An earlier one is void."""
        code = secrets.token_urlsafe(16)  # 128 bits, in letters that a start link takes
        value = {"digest": _digest(code), "until": (self._clock() + CLAIM_VALID).isoformat()}
        await self._ledger.set_notes({self._key("offer"): json.dumps(value)})
        return code

    async def claim(self, person: Person, code: str) -> Claim:
        """Try a code that came by a start link. In all processes of the bot together one claim can be the first."""
        tries = self._wrong[person.id] = self._wrong.get(person.id, 0) + 1  # first of all: tries come side by side
        if tries > MOST_WRONG:
            return "locked"
        if await self.owner():
            return "used"
        offer = await self._ledger.note(self._key("offer"))
        if offer is None or not secrets.compare_digest(_field(offer, "digest"), _digest(code)):
            return "locked" if tries == MOST_WRONG else "wrong"
        if self._clock() > datetime.fromisoformat(_field(offer, "until")):
            return "expired"
        mine = secrets.token_hex(8)
        if not await self._ledger.hold(self._key("claim"), mine, _CLAIM_SECONDS) or await self.owner():
            return "used"
        await self._ledger.set_notes(
            {self._key("offer"): None, self._key("owner"): person.id, self._key("owner-name"): _name(person.name)}
        )
        logger.info("the bot was claimed by {} ({})", person.id, _name(person.name))
        return "claimed"

    # People

    async def role(self, person_id: str) -> Role | None:
        """What a person may do; None for strangers."""
        person = await self.person(person_id)
        return person.role if person is not None else None

    async def person(self, person_id: str) -> Person | None:
        """Somebody with the rights that they have now; None for strangers."""
        if person_id == await self.owner():
            return Person(person_id, role="owner")
        kept = await self._ledger.note(self._key("user", person_id))
        if kept is not None or person_id in self._allowed:
            return self._known(person_id, kept)
        return Person(person_id, role="guest") if self._everybody else None

    def _known(self, person_id: str, kept: str | None) -> Person:
        """Who was let in, as the ledger has it; who stands in the configuration is no less than a user."""
        if kept is None:
            return Person(person_id)
        found: object = json.loads(kept)
        value = found if isinstance(found, dict) else {}
        name = str(value.get("name", ""))
        if value.get("role") == "guest" and person_id not in self._allowed:
            return Person(person_id, name, "guest")
        said = value.get("granted")
        return Person(person_id, name, granted=tuple(one for one in GRANTS if one in (said or ())))

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
        await self._ledger.set_notes({self._key("user", person.id): _kept(changed)})
        return changed

    async def invite(self, role: Role) -> str:
        """A code that lets in who first uses it, as a user or a guest. Raises `UsageError` where too many are open."""
        if not await self.owner():
            raise UsageError(_("This bot has no owner yet. Its owner claims it with the link of `nanobot gateway`."))
        now_ = self._clock()
        old = await self._ledger.notes(self._key("invite", ""))
        gone = [key for key, value in old.items() if datetime.fromisoformat(_field(value, "until")) < now_]
        if len(old) - len(gone) >= MOST_INVITED:
            raise UsageError(_("{most} links are open. They end by themselves after a day.", most=MOST_INVITED))
        code = secrets.token_urlsafe(16)
        value = {"role": role, "until": (now_ + INVITE_VALID).isoformat()}
        changes: dict[str, str | None] = dict.fromkeys(gone)
        await self._ledger.set_notes({**changes, self._key("invite", _digest(code)): json.dumps(value)})
        return code

    async def accept(self, person: Person, code: str) -> Person | None:
        """Let in who came by a link, once; None where the code is none, used or too old, or after too many tries."""
        tries = self._wrong[person.id] = self._wrong.get(person.id, 0) + 1
        key, mine = self._key("invite", _digest(code)), secrets.token_hex(8)
        kept = await self._ledger.note(key) if tries <= MOST_WRONG else None
        if kept is None or datetime.fromisoformat(_field(kept, "until")) < self._clock():
            return None
        if not await self._ledger.hold(f"{key}:use", mine, _CLAIM_SECONDS) or await self._ledger.note(key) is None:
            return None
        role: Role = "guest" if _field(kept, "role") == "guest" else "user"
        came = Person(person.id, _name(person.name), role)
        await self._ledger.set_notes({key: None, self._key("user", person.id): _kept(came)})
        del self._wrong[person.id]
        return came

    async def request(self, person: Person) -> str:
        """A code with which a stranger can ask the owner to be let in; an earlier one of theirs is void.

        Raises `UsageError`, one line.
        """
        if self._wrong.get(person.id, 0) >= MOST_WRONG or not await self.owner():
            raise UsageError(_("Nobody can be let in at the moment."))
        pending = sorted((await self._pending()).items(), key=lambda one: one[1][1])
        void = [digest for digest, (asked, _until) in pending if asked.id == person.id]
        others = [digest for digest, _who in pending if digest not in void]
        void += others[: max(0, len(others) + 1 - MOST_PENDING)]
        code = "".join(secrets.choice(_LETTERS) for _letter in range(8))
        value = {"id": person.id, "name": _name(person.name), "until": (self._clock() + CODE_VALID).isoformat()}
        changes: dict[str, str | None] = {self._key("code", digest): None for digest in void}
        await self._ledger.set_notes({**changes, self._key("code", _digest(code)): json.dumps(value)})
        return f"{code[:4]}-{code[4:]}"

    async def approve(self, code: str) -> Person:
        """Let in who asked with this code. Raises `UsageError`."""
        digest = _digest(code.strip().upper().replace("-", ""))
        asked = (await self._pending()).get(digest)
        if asked is None:
            raise UsageError(
                _("There is no such code; it may have expired. Who wants in sends /pair to get a new one.")
            )
        person = asked[0]
        await self._ledger.set_notes({self._key("code", digest): None, self._key("user", person.id): _kept(person)})
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

    async def _pending(self) -> dict[str, tuple[Person, datetime]]:
        """Codes that are still good, by hash; the others are forgotten."""
        found: dict[str, tuple[Person, datetime]] = {}
        gone: list[str] = []
        for key, value in (await self._ledger.notes(self._key("code", ""))).items():
            until = datetime.fromisoformat(_field(value, "until"))
            if until < self._clock():
                gone.append(key)
            else:
                found[key.rpartition(":")[2]] = (Person(_field(value, "id"), _field(value, "name")), until)
        if gone:
            await self._ledger.set_notes(dict.fromkeys(gone))
        return found


def _kept(person: Person) -> str:
    """Somebody as the ledger keeps them."""
    return json.dumps({"name": person.name, "role": person.role, "granted": person.granted})


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def _name(text: str) -> str:
    """A name as somebody else chose it, fit for one line."""
    return shorten(squeeze(strip_unsafe(text)), _NAME)


def _field(value: str, name: str) -> str:
    found: object = json.loads(value)
    return str(found.get(name, "")) if isinstance(found, dict) else ""


class ClaimLink(Struct, frozen=True):
    """`url` opens the bot with its code; it is good for `minutes`. `last`: no other one follows."""

    url: str
    username: str
    minutes: int
    last: bool = False


Announce = Callable[[ClaimLink | None], None]
"""Shows a link; None says that the bot has its owner now."""


class RightsWatch:
    """Ends what runs of people who may do less by now, whichever process has changed that."""

    def __init__(self, access: Access, turns: "AgentLoop") -> None:
        self._access = access
        self._turns = turns

    async def run(self) -> None:
        """Look at those who wait for an answer, once in a second; while nobody does, nothing is asked of the disk."""
        while True:
            await asyncio.sleep(_RIGHTS_EVERY)
            senders = {(one.sender.id, one.direct) for one in self._turns.at_work(CHANNEL)}
            for person_id, direct in senders:
                try:
                    person = await self._access.person(person_id)
                except StoreError as error:
                    logger.warning("who may talk could not be read: {}", error)
                    continue
                role = person.role if person is not None else None if direct else "guest"
                await self._turns.dismiss(Address(CHANNEL, person_id), role, person.granted if person else ())


class Claiming:
    """Offers links until the bot has an owner."""

    def __init__(self, access: Access, announce: Announce) -> None:
        self._access = access
        self._announce = announce
        self._username = ""
        self._ready = asyncio.Event()

    def known(self, username: str) -> None:
        """The bot's name has been learned."""
        self._username = username
        self._ready.set()

    async def run(self) -> None:
        """Show links while there is no owner."""
        await self._ready.wait()
        seconds = CLAIM_VALID.total_seconds()
        for number in range(1, _MOST_LINKS + 1):
            if await self._access.owner():
                return
            url = f"https://t.me/{self._username}?start={await self._access.offer()}"
            self._announce(ClaimLink(url, self._username, int(seconds // 60), number == _MOST_LINKS))
            if await self._claimed_within(seconds):
                self._announce(None)
                return

    async def _claimed_within(self, seconds: float) -> bool:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_LOOK_EVERY)
            if await self._access.owner():
                return True
        return False
