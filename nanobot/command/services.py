"""What commands work with besides the agent. Whatever is None is not there, and its command says so."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from nanobot.bus.events import InboundMessage
from nanobot.command.settings import ChatSettings
from nanobot.session.listing import SessionEntry
from nanobot.session.pins import ServerOffer, ServerState, ToolWords

if TYPE_CHECKING:
    from nanobot.command.router import TurnControl
    from nanobot.library.session_search import FoundSessions
    from nanobot.schedule.appointments import Appointments
    from nanobot.session.listing import SessionHolder
    from nanobot.skills.shelf import SkillShelf


class People(Protocol):
    """Who may talk in chats, for the commands of the owner. Both raise `UsageError`."""

    async def people(self, words: str, running: "TurnControl | None") -> str:
        """What became of `/people WORDS`, as Markdown; `running` is where people's turns run, if that is here."""

    async def invite(self, words: str, *, drawn: bool) -> str:
        """A link for a `user` or a `guest`, as Markdown; `drawn`: also as a code to scan."""


class WatchesOf(Protocol):
    """What `/watch` asks: what becomes of its words. Raises `NanobotError`."""

    async def say(self, message: InboundMessage, text: str) -> str: ...


class PersonsFiles(Protocol):
    """The files of the person who writes, as far as they were changed in this chat. Raises `NanobotError`."""

    async def changes_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        """The changes that were made since a time, the newest first."""

    async def undo_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        """Take these changes back, and say so of each."""

    async def trust(self, message: InboundMessage, name: str) -> str:
        """Count a file as the person's own, or list those that hold content from outside."""


class PersonsMemory(Protocol):
    """What is kept of a person. Raises `NanobotError`."""

    async def known(self, message: InboundMessage, words: str) -> str:
        """What is noted of the person who writes, line by line, or what of it holds these words."""

    async def forget(self, message: InboundMessage, words: str) -> str:
        """Take away what is noted of this person, by the number of its line or by words of it, and say what was
        done."""

    async def find_sessions(self, holder: "SessionHolder", words: str) -> "FoundSessions":
        """The sessions that somebody may see that have these words, best first."""


class SessionArchive(Protocol):
    """What is done with a session as a whole. Raises `NanobotError`."""

    async def export(self, message: InboundMessage, entry: SessionEntry, form: str) -> str:
        """Put a session into a file for who sent this message, in a form that they name, and say where that is."""

    async def delete(self, entry: SessionEntry) -> str:
        """Delete a session with all its traces, and say what has gone."""


class ServerControl(Protocol):
    """What /mcp does to the servers. Met by `McpServers`; every failure is a `NanobotError`."""

    def reconnect(self, name: str) -> Awaitable[ServerState]:
        """Close the connection, open it anew and list the tools again."""

    def log_in(self, name: str) -> Awaitable[str]:
        """Begin a login; the link to open."""

    def logged_in(self, name: str, address: str) -> Awaitable[ServerState]:
        """Wait for the end of a login, after the browser came to `address`."""

    def words(self, name: str) -> Sequence[ToolWords]:
        """What a server says of the tools that it offers now."""

    def prompts(self, name: str) -> Awaitable[Sequence[ServerOffer]]:
        """What a server offers, where the owner allows it."""

    def prompt(self, name: str, prompt: str, arguments: Mapping[str, str]) -> Awaitable[str]:
        """The text of a prompt."""


class ServerList(Protocol):
    """The servers of the configuration. Met by `ExternalTools`."""

    def states(self) -> Sequence[ServerState]:
        """Every configured server, by name."""

    def used(self, name: str) -> ServerControl:
        """The servers, of which this one is used. Raises `UsageError` where it is not."""


class CommandServices(Struct, frozen=True):
    """Without `settings` of their own, what people set for a chat lives as long as the process; without `people` no
    chat lets in anybody else, without `appointments` nothing comes later. `doctor` tries everything, with True after
    what is safe was put right. What is called is made when a command asks for it."""

    settings: ChatSettings = field(default_factory=ChatSettings)
    people: Callable[[], People] | None = None
    servers: ServerList | None = None
    appointments: "Callable[[], Appointments] | None" = None
    skills: "Callable[[], SkillShelf] | None" = None
    watches: Callable[[], WatchesOf] | None = None
    sessions: Callable[[], SessionArchive] | None = None
    doctor: Callable[[bool], Awaitable[str]] | None = None
    files: PersonsFiles | None = None
    memory: PersonsMemory | None = None
