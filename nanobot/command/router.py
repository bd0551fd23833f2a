"""Which slash commands there are, who may use them, and how one is found and run."""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Struct, field

from nanobot.bus.events import Address, InboundMessage, Role, Sender
from nanobot.command.services import CommandServices
from nanobot.command.words import WORDS, word_of
from nanobot.errors import NanobotError, UsageError
from nanobot.messages import Citation
from nanobot.providers.base import ModelOffer, ProviderInfo
from nanobot.session.permissions import Permissions
from nanobot.session.store import Branch, SessionInfo, SessionStore
from nanobot.utils.text import nearest
from nanobot.utils.translation import _, sentences

if TYPE_CHECKING:
    from nanobot.money.budget import Budget

Emit = Callable[[str], Awaitable[None]]
#: Most characters of what is shown in a chat before it counts; more is for a terminal.
_CHAT_WIDTH = 12_000


class TurnControl(Protocol):
    """What commands may do to the agent. Met by `AgentLoop`."""

    @property
    def store(self) -> SessionStore:
        """The conversations and what they cost."""

    def midnight(self) -> datetime:
        """When the day of the person began, in their time zone."""

    async def cancel(self, session_key: str, *, by: Sender | None = None) -> str:
        """Stop the running turn and return what was kept, in a sentence; says so when nothing runs.

        Raises `UsageError` where `by` is neither the owner nor the person whose turn it is.
        """

    async def dismiss(self, person: Address) -> int:
        """End what runs and waits of a person, whose number is the chat of this address; how many messages that is."""

    async def approve(self, session_key: str, key: str, choice: str, text: str = "", *, anywhere: bool = False) -> str:
        """Answer the open question `key` of this chat and say so; `text` is why not, or what is to be done instead.

        `anywhere`: of any chat of this channel. Raises `UsageError` where that cannot be.
        """

    @property
    def permissions(self) -> Permissions:
        """What people have allowed for good."""

    async def status(self, session_key: str, *, everything: bool, ask: bool = False) -> str:
        """The /status text that is known at once, or with the slow parts (`ask`); without `everything`, of this chat
        alone."""

    async def searches(self, *, ask: bool) -> str:
        """What is left of the allowance of every search engine, as Markdown: as it is known, or as they say now."""

    @property
    def budget(self) -> "Budget | None":
        """What may be spent; None where nothing is counted."""

    async def estimate(self, message: InboundMessage, pages: int, requests: int) -> str:
        """About what it costs the person to have so many pages read and to make so many requests beside, with the model
        of this chat: to be said before such work is begun."""

    def provider(self, session_key: str) -> ProviderInfo: ...

    async def models(self, session_key: str) -> tuple[ModelOffer, ...]:
        """What this chat may use: presets, the configured model, and what its service offers now, where it says."""

    def model_facts(self, info: ProviderInfo) -> str:
        """What is known of a model: whether it sees, its context and its price, in a sentence; perhaps nothing."""

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        """Use another model for this session. Raises `UsageError` with the nearest known name."""

    async def citations(self, session_key: str, turn: str = "") -> tuple[Citation, ...]:
        """What the marks of the last answer of this chat were found to be, or of that of `turn`; else empty."""

    async def recap(self, session_id: str, role: Role = "owner") -> str:
        """The last exchanges of a session as Markdown, as far as somebody of this role may read them; perhaps none."""

    async def tasks(self, session_key: str, wanted: str = "", *, stop: bool = False) -> str:
        """The helpers and commands that run in the background of this chat, or one of them, which is perhaps stopped.

        Raises `UsageError` where there is none that is called so.
        """

    async def undo(self, message: InboundMessage) -> str:
        """Bring back the last change of files that was made for this person in this chat, and say so.

        Raises `NanobotError` where that cannot be done.
        """

    async def branch(self, message: InboundMessage, parent: SessionInfo, title: str, before: int = 0) -> Branch:
        """As `SessionStore.branch`, once for one message. Raises `UsageError` while a turn runs in the session."""

    async def check_idle(self, session_key: str) -> None:
        """Raises `UsageError` while a turn runs in this chat."""

    async def offer(
        self, message: InboundMessage, question: str, choices: tuple[str, ...], *, picker: bool = False
    ) -> int:
        """Ask who has sent a command; the number of their choice from 1 on, 0 where they make none.

        A `picker` has any number of choices, which are gone through with arrow keys, by what they hold, or by pages.

        Raises `UsageError` where nobody can be asked.
        """

    def tools(
        self, role: Role = "owner", granted: frozenset[str] = frozenset(), *, direct: bool = True, key: str = ""
    ) -> tuple[tuple[str, str, str], ...]:
        """Name and first line of the description of every tool of `role` in the chat `key`, and why it is missing.

        A user has besides what was `granted`; where others read along, that is not `direct`, some are nobody's.

        The reason is empty where the tool is offered; what is missing is told to the owner alone.
        """


class CommandContext(Struct, frozen=True):
    """One use of a command. `reply` sends Markdown; a second `reply` replaces the first (same key). `usage` is how the
    command is written.

    `hand_on` has the agent answer a message in the place of this one, once the command has ended.
    """

    message: InboundMessage
    args: str
    control: TurnControl
    router: "CommandRouter"
    usage: str
    reply: Emit
    hand_on: Callable[[InboundMessage], None]

    @property
    def services(self) -> CommandServices:
        return self.router.services

    @property
    def key(self) -> str:
        """The session key of the chat."""
        return self.message.address.key

    @property
    def for_owner_alone(self) -> bool:
        """True where the owner asks and nobody else reads the reply."""
        return self.message.sender.role == "owner" and self.message.direct

    async def show_before_it_counts(self, text: str, closing: str, shell: str, *, again: bool) -> None:
        """Show what is to count once its reader says so, which `closing` tells how to do. `again`: they were shown
        something else before. Raises `UsageError` where it is too long for a chat; `shell` shows it in a terminal."""
        if self.message.address.channel != "terminal" and len(text) > _CHAT_WIDTH:
            raise UsageError(
                _("That is too long for a chat. `{command}` shows it in a terminal, and asks.", command=shell)
            )
        changed = _("It says something else now than what was shown.") if again else ""
        await self.reply(f"{text}\n\n{sentences(changed, closing)}")

    def change_what_all_share(self) -> None:
        """Raises `UsageError` for who may not: a group's session and settings are the owner's to change."""
        if not self.message.direct and self.message.sender.role != "owner":
            raise UsageError(_("Only the owner may change this in a group, because all of its members share it."))


class Command(Struct, frozen=True):
    """No command waits behind a running turn. `roles` may use it.

    `ordered`: what is said after it is answered after it has replied or asked, because it may change the answer.
    """

    name: str
    summary: str
    handler: Callable[[CommandContext], Awaitable[None]]
    usage: str = ""
    aliases: tuple[str, ...] = ()
    roles: frozenset[Role] = field(default_factory=lambda: frozenset[Role](("owner", "user")))
    surfaces: Literal["all", "terminal", "chat"] = "all"
    ordered: bool = False

    @property
    def about(self) -> str:
        """The summary in the language of whoever reads it."""
        return _(self.summary)


class Match(Struct, frozen=True):
    """A message that is a command. `command` is None when no command has the name."""

    name: str
    args: str
    command: Command | None = None


class CommandRouter:
    """The commands by name and alias, and what they work with."""

    def __init__(self, commands: Iterable[Command], services: CommandServices | None = None) -> None:
        self._commands: dict[str, Command] = {}
        self._aliases: dict[str, str] = {}
        self.services = services or CommandServices()
        for command in commands:
            self.add(command)

    def add(self, command: Command) -> None:
        """Offer a command. Raises ValueError where its name or an alias is taken."""
        for name in (command.name, *command.aliases):
            if name in self._commands or name in self._aliases:
                raise ValueError(f"the command name /{name} is taken")  # English: for who writes the command
        self._commands[command.name] = command
        self._aliases.update(dict.fromkeys(command.aliases, command.name))

    def commands(self, role: Role = "owner", channel: str = "terminal") -> tuple[Command, ...]:
        """What this person may use here, in the order of registration."""
        surface = "terminal" if channel == "terminal" else "chat"
        return tuple(
            command
            for command in self._commands.values()
            if role in command.roles and command.surfaces in {"all", surface}
        )

    def match(self, text: str, *, alone: bool = True) -> Match | None:
        """The command that `text` names, known or not; None for ordinary text. `alone` as in `parse_command`."""
        parsed = parse_command(text.strip(), alone=alone)
        if parsed is None:
            return None
        name, args = parsed
        meant = WORDS[name].command if name in WORDS else ""
        own = self._aliases.get(name, name)
        return Match(name, args, self._commands.get(own) or self._commands.get(meant))

    def match_message(self, message: InboundMessage) -> Match | None:
        """The command that a message is."""
        return self.match(message.content, alone=not (message.media or message.context))

    async def run(
        self,
        match: Match,
        message: InboundMessage,
        control: TurnControl,
        reply: Emit,
        hand_on: Callable[[InboundMessage], None] = lambda _message: None,
    ) -> None:
        """Run a command, or say why not. Errors made on purpose become the reply."""
        offered = self.commands(message.sender.role, message.address.channel)
        if match.command is None and match.name in WORDS and WORDS[match.name].says:
            await reply(sentences(WORDS[match.name].told, _("(To ask about the word itself, put it into a sentence.)")))
        elif match.command is None:
            near = nearest(match.name, [command.name for command in offered])
            hint = _("Did you mean /{near}?", near=near) if near else ""
            no_such = _("There is no command /{name}.", name=match.name)
            await reply(sentences(no_such, hint, _("/help lists all commands.")))
        elif match.command not in offered:
            await reply(_("/{name} is not available to you here. /help lists what is.", name=match.command.name))
        else:
            try:
                await match.command.handler(
                    CommandContext(message, match.args, control, self, match.command.usage, reply, hand_on)
                )
            except NanobotError as error:
                await reply(str(error))


def parse_command(text: str, bot_name: str = "", *, alone: bool = True) -> tuple[str, str] | None:
    """(`status`, arguments) for `/status arguments`, `/status@bot arguments` or `status`; None for ordinary text.

    A single word that is not `alone`, because a file or a quotation is with it, is about that and no command.
    """
    if not text.startswith("/") or len(text) < 2:
        return (word, "") if alone and (word := word_of(text)) else None
    head, _, args = text[1:].partition(" ")
    head, newline, rest = head.partition("\n")
    name, _, addressed = head.partition("@")
    if not name.replace("_", "").replace("-", "").isalnum() or "/" in name:
        return None
    if addressed and bot_name and addressed.casefold() != bot_name.casefold():
        return None
    return name.casefold(), (f"{rest} {args}" if newline else args).strip()
