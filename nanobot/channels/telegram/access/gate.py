"""The one gate: every message, command and button passes here before it may cost or change anything.

With it go the commands by which the owner opens it, and the lines for those who are not served.
"""

import asyncio
from collections import deque

from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import Address, Role
from nanobot.channels.telegram.access.people import Access, Person
from nanobot.channels.telegram.read.incoming import IncomingMessage, Say
from nanobot.channels.telegram.render.screen_messages import screen_messages_of
from nanobot.channels.telegram.send.calls import Sending
from nanobot.channels.telegram.settings import GroupPolicy
from nanobot.command.router import Command, CommandContext, CommandRouter, parse_command
from nanobot.errors import UsageError
from nanobot.utils.translation import N_, _, speaking, spoken_at

STRANGER = N_("This is a private assistant; it answers the people whom its owner has let in. /pair asks for that.")
NOT_YOURS = N_("The owner has to enter the code, in their own chat with me. /pair alone gets you a new one.")
UNCLAIMED = N_(
    "This assistant has no owner yet, so it answers nobody. Its owner claims it with the link of `nanobot gateway`."
)
CLAIMED = N_(
    "You are the owner of this bot now. Just write what you want to know; /help lists the commands. "
    "In a group, /group on lets me answer there."
)
LET_IN = N_("You have been let in. Just write what you want to know; /help lists the commands.")
_NOT_INVITED = N_("That link is not good any more: it works once, within a day. Ask the owner for a new one.")
_NOT_CLAIMED = {
    "wrong": N_("That link is not the right one. Use the newest one that `nanobot gateway` shows."),
    "expired": N_("That link has expired. Restart `nanobot gateway` for a new one."),
    "used": N_("That link was used already: this assistant has its owner."),
    "locked": "",
}
_GROUP_ON = N_("I am on in this group. `/group on` and `/group off` change it.")
_GROUP_OFF = N_("I am off in this group. `/group on` and `/group off` change it.")
#: Lines that a chat gets within so many seconds; what is refused beyond that is refused in silence.
MOST, WITHIN = 3, 60.0
#: Lines that wait for Telegram at once, and how often one is tried.
_MOST_WAITING, _TRIES = 50, 6


class Admission(Struct, frozen=True):
    """`role` is None for who is not served; then `reply` is the line they get, empty for silence.

    `welcome`: the line is none of the refusals, of which some may be left out. `overhear`: a message of a group where
    the bot may listen, which was not for it. `granted` is what a user may do besides, in their own chat alone.
    """

    role: Role | None = None
    reply: str = ""
    welcome: bool = False
    overhear: bool = False
    granted: tuple[str, ...] = ()


class Gate:
    """Judges by `access`, by the roles that `router` gives each command, and in groups by `policy`."""

    def __init__(self, access: Access, router: CommandRouter, policy: GroupPolicy = "mention") -> None:
        self.access = access
        self._router = router
        self.policy = policy

    def is_control(self, incoming: IncomingMessage) -> bool:
        """True for a command that must not wait behind a turn or for further messages."""
        return incoming.command and self._router.match(incoming.text.strip()) is not None

    def keeps_its_place(self, incoming: IncomingMessage) -> bool:
        """True for a command that ends what was asked before it, or changes what comes of what is said after it."""
        command = self._command_in(incoming)
        return command is not None and (command.ordered or command.name == "stop")

    def stops(self, incoming: IncomingMessage) -> bool:
        command = self._command_in(incoming)
        return command is not None and command.name == "stop"

    def _command_in(self, incoming: IncomingMessage) -> Command | None:
        match = self._router.match(incoming.text.strip())
        return match.command if match is not None else None

    async def judge(self, incoming: IncomingMessage) -> Admission:
        """What becomes of a message."""
        person = await self.access.person(incoming.sender.id)
        role = person.role if person is not None else None
        if incoming.private:
            verdict = await self._in_private(incoming, role)
        else:
            verdict = await self._in_group(incoming, role)
        if verdict.role is not None and incoming.command:
            verdict = self._command(incoming.text, verdict.role)
        if verdict.role is None or person is None or not incoming.private:
            return verdict
        return replace(verdict, granted=person.granted)

    async def judge_press(self, person_id: str, chat_id: str, *, private: bool, command: str) -> Role | None:
        """The role of who pressed a button that acts like `command`; None where they may not."""
        role = await self.access.role(person_id)
        if not private:
            allowed = self.policy != "off" and await self.access.group_allowed(chat_id)
            role = (role or "guest") if allowed else role if role == "owner" else None
        if role is None or self._command(f"/{command}", role).role is None:
            return None
        return role

    def _command(self, text: str, role: Role) -> Admission:
        match = self._router.match(text)
        if match is None or match.command is None or match.command in self._router.commands(role, "telegram"):
            return Admission(role)  # an unknown command is answered with the nearest known one
        refused = _("/{name} is not available to you here. /help lists what is.", name=match.command.name)
        return Admission(None, refused)

    async def _in_group(self, incoming: IncomingMessage, role: Role | None) -> Admission:
        chat = incoming.address.chat
        mine = incoming.addressed != "none"
        parsed = parse_command(incoming.text.strip()) if incoming.command else None
        if role == "owner" and mine and parsed is not None and parsed[0] == "group":
            return Admission("owner")  # the way to switch a group on
        if self.policy == "off" or not await self.access.group_allowed(chat):
            off = role == "owner" and mine
            told = _("I am off in this group. /group on lets me answer here.") if off else ""
            return Admission(None, told)
        if not mine and self.policy != "open":
            return Admission(None, overhear=True)
        return Admission(role or "guest")

    async def _in_private(self, incoming: IncomingMessage, role: Role | None) -> Admission:
        """A claim counts whoever sends it; strangers may wish to be let in, and else get one line a day."""
        person = Person(incoming.sender.id, incoming.sender.name)
        name, words = (parse_command(incoming.text.strip()) if incoming.command else None) or ("", "")
        if name == "start" and words and not await self.access.owner():
            outcome = await self.access.claim(person, words.split()[0])
            claimed = outcome == "claimed"
            return Admission(None, _(CLAIMED if claimed else _NOT_CLAIMED[outcome]), welcome=claimed)
        if name == "start" and words and role in (None, "guest"):
            if await self.access.accept(person, words.split()[0]) is not None:
                return Admission(None, _(LET_IN), welcome=True)
            return Admission(None, _(_NOT_INVITED) if role or await self.access.may_notice(person.id) else "")
        if role is not None:
            return Admission(role)
        if name == "pair":
            return Admission(None, _(NOT_YOURS) if words else await self._ask(person))
        return Admission(None, await self.notice(person.id))

    async def refusal(self, place: Address, person_id: str, why: str) -> str:
        """What the sender of a message hears that was set aside; strangers hear what they always hear."""
        if await self.access.role(person_id) or await self.access.group_allowed(place.chat):
            return _(
                "Your message is set aside, because {why}. Send it again in another form; the log has the rest.",
                why=why,
            )
        return await self.notice(person_id) if place.chat == person_id else ""

    async def notice(self, person_id: str) -> str:
        """The line that a stranger gets, once a day; else empty."""
        if not await self.access.may_notice(person_id):
            return ""
        return _(STRANGER if await self.access.owner() else UNCLAIMED)

    async def _ask(self, person: Person) -> str:
        try:
            code = await self.access.request(person)
        except UsageError as error:
            return str(error)
        return _(
            "Your code is `{code}`, good for an hour. Give it to the owner, who enters it here as `/pair {code}`.",
            code=code,
        )


class Refusals:
    """Sends them itself: in the outbox they would keep answers waiting, and a code would stand in the store."""

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self._said: dict[str, deque[float]] = {}
        self._waiting = 0

    def may(self, chat: str) -> bool:
        """Whether a chat may get one more line now; then it counts as said."""
        now = self._sending.queues.clock.now()
        if len(self._said) > 1_000:
            self._said = {key: times for key, times in self._said.items() if now - times[-1] < WITHIN}
        times = self._said.setdefault(chat, deque(maxlen=MOST))
        if len(times) == MOST and now - times[0] < WITHIN:
            return False
        times.append(now)
        return True

    async def say(self, address: Address, text: str) -> None:
        """Send a line (Markdown). Returns when it is there, may be there, or cannot be sent; nothing is raised."""
        if self._waiting >= _MOST_WAITING:
            logger.warning("a refusal for chat {} is left out: {} wait already", address.chat, self._waiting)
            return
        self._waiting += 1
        try:
            await self._send(address, text)
        finally:
            self._waiting -= 1

    async def _send(self, address: Address, text: str) -> None:
        for tried in range(_TRIES):  # whatever else there is to say in this chat goes first
            outcome = await self._sending.show(address, screen_messages_of(text)[0], urgency="partial")
            if outcome not in {"not_sent", "flood"}:
                return
            await self._sending.queues.clock.wait(asyncio.Event(), 2.0**tried)
        logger.warning("a refusal for chat {} is left out: {}", address.chat, outcome)


_OWNER: frozenset[Role] = frozenset({"owner"})


def access_commands(access: Access, say: Say) -> tuple[Command, ...]:
    """Commands that work on `access`; for the owner alone. `say` tells people what became of them."""

    async def pair(ctx: CommandContext) -> None:
        if not ctx.args:
            raise UsageError(_("Who wants in sends me /pair and gives you the code; then write `/pair <code>`."))
        person = await access.approve(ctx.args.split()[0])
        theirs = Address(ctx.message.address.channel, person.id)
        with speaking(spoken_at(theirs.key)):
            welcome = _(LET_IN)
        await say(theirs, welcome, f"let-in-{ctx.message.id}")
        who = f"{person.name} ({person.id})" if person.name else person.id
        await ctx.reply(_("{who} may talk to me now. `/people remove {id}` takes that back.", who=who, id=person.id))

    async def group(ctx: CommandContext) -> None:
        chat = ctx.message.address.chat
        if not chat.startswith("-"):
            raise UsageError(_("This is for groups. Write it in the group, with my name: `/group@… on`."))
        await ctx.reply(await _changed(access, chat, ctx.args.strip().casefold()))

    return (
        Command("pair", N_("Let somebody in by their code"), pair, "<code>", roles=_OWNER, surfaces="chat"),
        Command("group", N_("Answer in this group, or not"), group, "on|off", roles=_OWNER, surfaces="chat"),
    )


async def _changed(access: Access, group: str, wish: str) -> str:
    """Switch a group on or off, or say which it is."""
    if wish == "on":
        await access.allow_group(group, "")
        return _("I answer in this group now, when I am mentioned or replied to. `/group off` ends it.")
    if wish == "off":
        await access.forbid_group(group)
        return _("I am silent in this group now.")
    return _(_GROUP_ON if await access.group_allowed(group) else _GROUP_OFF)
