"""Finds the command that a message names and runs it."""

from collections.abc import Iterable

from msgspec import Struct

from nanobot.bus.events import InboundMessage, Role
from nanobot.command.router import Command, CommandContext, Emit, TurnControl, parse_command
from nanobot.command.words import WORDS
from nanobot.errors import NanobotError
from nanobot.utils.text import nearest


class Match(Struct, frozen=True):
    """A message that is a command. `command` is None when no command has the name."""

    name: str
    args: str
    command: Command | None = None

    @property
    def control(self) -> bool:
        """True when it must not wait behind a running turn. An unknown command is answered at once, too."""
        return self.command is None or self.command.control


class CommandRouter:
    """The commands by name and alias. `bot_name` is the name that `/status@name` may carry in a group."""

    def __init__(self, commands: Iterable[Command], bot_name: str = "") -> None:
        self._commands: dict[str, Command] = {}
        self._aliases: dict[str, str] = {}
        self._bot_name = bot_name
        for command in commands:
            self.add(command)

    def add(self, command: Command) -> None:
        """Offer a command. Raises ValueError where its name or an alias is taken."""
        for name in (command.name, *command.aliases):
            if name in self._commands or name in self._aliases:
                raise ValueError(f"the command name /{name} is taken")
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
        parsed = parse_command(text.strip(), self._bot_name, alone=alone)
        if parsed is None:
            return None
        name, args = parsed
        meant = WORDS[name].command if name in WORDS else ""
        own = self._aliases.get(name, name)
        return Match(name, args, self._commands.get(own) or self._commands.get(meant))

    def match_message(self, message: InboundMessage) -> Match | None:
        """The command that a message is."""
        return self.match(message.content, alone=not (message.media or message.context))

    async def run(self, match: Match, message: InboundMessage, control: TurnControl, reply: Emit) -> None:
        """Run a command, or say why not. Errors made on purpose become the reply."""
        offered = self.commands(message.sender.role, message.address.channel)
        if match.command is None and match.name in WORDS:
            await reply(f"{WORDS[match.name].says} (To ask about the word itself, put it into a sentence.)")
        elif match.command is None:
            near = nearest(match.name, [command.name for command in offered])
            hint = f" Did you mean /{near}?" if near else ""
            await reply(f"There is no command /{match.name}.{hint} /help lists all commands.")
        elif match.command not in offered:
            await reply(f"/{match.command.name} is not available to you here. /help lists what is.")
        else:
            try:
                await match.command.handler(CommandContext(message, match.args, control, reply))
            except NanobotError as error:
                await reply(str(error))
