"""The one gate: every message, command and button passes here before it may cost or change anything."""

from msgspec import Struct

from nanobot.bus.events import Address, Role
from nanobot.channels.telegram.access.people import Access, Person
from nanobot.channels.telegram.read.incoming import IncomingMessage
from nanobot.channels.telegram.settings import GroupPolicy
from nanobot.command.router import CommandRouter, parse_command
from nanobot.errors import UsageError

STRANGER = "This is a private assistant; it answers the people whom its owner has let in. /pair asks for that."
NOT_YOURS = "The owner has to enter the code, in their own chat with me. /pair alone gets you a new one."
UNCLAIMED = (
    "This assistant has no owner yet, so it answers nobody. Its owner claims it with the link of `nanobot gateway`."
)
CLAIMED = (
    "You are the owner of this bot now. Just write what you want to know; /help lists the commands. "
    "In a group, /group on lets me answer there."
)
_NOT_CLAIMED = {
    "wrong": "That link is not the right one. Use the newest one that `nanobot gateway` shows.",
    "expired": "That link has expired. Restart `nanobot gateway` for a new one.",
    "used": "That link was used already: this assistant has its owner.",
    "locked": "",
}


class Admission(Struct, frozen=True):
    """`role` is None for who is not served; then `reply` is the line they get, empty for silence.

    `welcome`: the line is none of the refusals, of which some may be left out. `overhear`: a message of a group where
    the bot may listen, which was not for it.
    """

    role: Role | None = None
    reply: str = ""
    welcome: bool = False
    overhear: bool = False


class Gate:
    """Judges by `access`, by the roles that `router` gives each command, and in groups by `policy`."""

    def __init__(self, access: Access, router: CommandRouter, policy: GroupPolicy = "mention") -> None:
        self.access = access
        self._router = router
        self._policy = policy

    def is_control(self, incoming: IncomingMessage) -> bool:
        """True for a command that must not wait behind a turn or for further messages."""
        match = self._router.match(incoming.text.strip()) if incoming.command else None
        return match is not None

    def ends_turns(self, incoming: IncomingMessage) -> bool:
        """True for a command that ends what was asked before it."""
        match = self._router.match(incoming.text.strip()) if incoming.command else None
        return match is not None and match.command is not None and match.command.name in {"stop", "new"}

    async def judge(self, incoming: IncomingMessage) -> Admission:
        """What becomes of a message."""
        role = await self.access.role(incoming.sender.id)
        if incoming.private:
            verdict = await self._in_private(incoming, role)
        else:
            verdict = await self._in_group(incoming, role)
        if verdict.role is None or not incoming.command:
            return verdict
        return self._command(incoming.text, verdict.role)

    async def judge_press(self, person_id: str, chat_id: str, *, private: bool, command: str) -> Role | None:
        """The role of who pressed a button that acts like `command`; None where they may not."""
        role = await self.access.role(person_id)
        if not private:
            allowed = self._policy != "off" and await self.access.group_allowed(chat_id)
            role = (role or "guest") if allowed else role if role == "owner" else None
        if role is None or self._command(f"/{command}", role).role is None:
            return None
        return role

    def _command(self, text: str, role: Role) -> Admission:
        match = self._router.match(text)
        if match is None or match.command is None or match.command in self._router.commands(role, "telegram"):
            return Admission(role)  # an unknown command is answered with the nearest known one
        return Admission(None, f"/{match.command.name} is not available to you here. /help lists what is.")

    async def _in_group(self, incoming: IncomingMessage, role: Role | None) -> Admission:
        chat = incoming.address.chat
        mine = incoming.addressed != "none"
        parsed = parse_command(incoming.text.strip()) if incoming.command else None
        if role == "owner" and mine and parsed is not None and parsed[0] == "group":
            return Admission("owner")  # the way to switch a group on
        if self._policy == "off" or not await self.access.group_allowed(chat):
            told = "I am off in this group. /group on lets me answer here." if role == "owner" and mine else ""
            return Admission(None, told)
        if not mine and self._policy != "open":
            return Admission(None, overhear=True)
        return Admission(role or "guest")

    async def _in_private(self, incoming: IncomingMessage, role: Role | None) -> Admission:
        """A claim counts whoever sends it; strangers may wish to be let in, and else get one line a day."""
        person = Person(incoming.sender.id, incoming.sender.name)
        name, words = (parse_command(incoming.text.strip()) if incoming.command else None) or ("", "")
        if name == "start" and words and not await self.access.owner():
            outcome = await self.access.claim(person, words.split()[0])
            claimed = outcome == "claimed"
            return Admission(None, CLAIMED if claimed else _NOT_CLAIMED[outcome], welcome=claimed)
        if role is not None:
            return Admission(role)
        if name == "pair":
            return Admission(None, NOT_YOURS if words else await self._ask(person))
        return Admission(None, await self.notice(person.id))

    async def refusal(self, place: Address, person_id: str, why: str) -> str:
        """What the sender of a message hears that was set aside; strangers hear what they always hear."""
        if await self.access.role(person_id) or await self.access.group_allowed(place.chat):
            return f"Your message is set aside, because {why}. Send it again in another form; the log has the rest."
        return await self.notice(person_id) if place.chat == person_id else ""

    async def notice(self, person_id: str) -> str:
        """The line that a stranger gets, once a day; else empty."""
        if not await self.access.may_notice(person_id):
            return ""
        return STRANGER if await self.access.owner() else UNCLAIMED

    async def _ask(self, person: Person) -> str:
        try:
            code = await self.access.request(person)
        except UsageError as error:
            return str(error)
        return f"Your code is `{code}`, good for an hour. Give it to the owner, who enters it here as `/pair {code}`."
