"""Which slash commands there are, and who may use them."""

from collections.abc import Awaitable, Callable
from datetime import tzinfo
from typing import Literal, Protocol

from msgspec import Struct, field

from nanobot.bus.events import InboundMessage, Role, Sender
from nanobot.command.words import word_of
from nanobot.errors import UsageError
from nanobot.messages import Citation, Usage
from nanobot.providers.base import ProviderInfo
from nanobot.session.store import SessionInfo

Emit = Callable[[str], Awaitable[None]]


class Spending(Struct, frozen=True):
    """What models cost today and in the last seven days, in the user's time zone: in one chat, and in all."""

    today: Usage
    week: Usage
    all_today: Usage
    all_week: Usage


class TurnControl(Protocol):
    """What commands may do to the agent. Met by `AgentLoop`."""

    @property
    def zone(self) -> tzinfo:
        """The time zone of the person."""

    async def cancel(self, session_key: str, *, by: Sender | None = None) -> str:
        """Stop the running turn and return what was kept, in a sentence; says so when nothing runs.

        Raises `UsageError` where `by` is neither the owner nor the person whose turn it is.
        """

    async def approve(self, session_key: str, key: str, choice: str) -> str:
        """Answer the open question `key` of this chat and say so. Raises `UsageError` where that cannot be."""

    async def status(self, session_key: str, *, everything: bool) -> str:
        """The /status text that is known at once; without `everything`, of this chat alone."""

    async def status_full(self, session_key: str) -> str:
        """The whole /status text with the slow parts filled in."""

    async def new_session(self, session_key: str) -> SessionInfo: ...

    async def resume_session(self, session_key: str, session_id: str) -> SessionInfo: ...

    async def sessions(self, session_key: str) -> tuple[SessionInfo, ...]: ...

    def provider(self, session_key: str) -> ProviderInfo: ...

    async def models(self, session_key: str) -> tuple[str, ...]:
        """The models that the service of this chat's model offers now; none where it does not say."""

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        """Use another model for this session. Raises `UsageError` with the nearest known name."""

    async def citations(self, session_key: str, turn: str = "") -> tuple[Citation, ...]:
        """What the marks of the last answer of this chat were found to be, or of that of `turn`; else empty."""

    async def spending(self, session_key: str) -> Spending: ...

    def tools(self, role: Role = "owner") -> tuple[tuple[str, str, str], ...]:
        """Name and first line of the description of every tool that `role` has, and why it is missing.

        The reason is empty where the tool is offered; what is missing is told to the owner alone.
        """


class CommandContext(Struct, frozen=True):
    """One use of a command. `reply` sends Markdown; a second `reply` replaces the first (same key)."""

    message: InboundMessage
    args: str
    control: TurnControl
    reply: Emit

    @property
    def for_owner_alone(self) -> bool:
        """True where the owner asks and nobody else reads the reply."""
        return self.message.sender.role == "owner" and self.message.direct

    def change_what_all_share(self) -> None:
        """Raises `UsageError` for who may not: a group's session and settings are the owner's to change."""
        if not self.message.direct and self.message.sender.role != "owner":
            raise UsageError("Only the owner may change this in a group, because all of its members share it.")


Handler = Callable[[CommandContext], Awaitable[None]]


class Command(Struct, frozen=True):
    """`control` commands never wait behind a running turn. `roles` may use it."""

    name: str
    summary: str
    handler: Handler
    usage: str = ""
    aliases: tuple[str, ...] = ()
    control: bool = False
    roles: frozenset[Role] = field(default_factory=lambda: frozenset[Role](("owner", "user")))
    surfaces: Literal["all", "terminal", "chat"] = "all"


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
