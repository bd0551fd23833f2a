"""What a surface is, and what a surface needs of the agent behind it.

A channel carries messages of people to the bus and paints the events that come back. It knows the agent only as
`Agent`, so that a scripted agent can stand in for the whole program.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from nanobot.bus.events import InboundMessage, OutboundMessage, Sender, TurnFinished
from nanobot.bus.queue import MessageBus
from nanobot.messages import Citation
from nanobot.providers.base import ProviderInfo
from nanobot.session.ledger import Closing
from nanobot.session.store import SessionStore

#: Keeps a turn's end with the last messages of its conversation. None as its end: an earlier turn read the message.
Settle = Callable[[InboundMessage, TurnFinished | None, Closing | None], Awaitable[None]]
#: Told when work on a message begins: its own turn, or the turn of an earlier one that reads it.
Begin = Callable[[InboundMessage], Awaitable[None]]


class BaseChannel(Protocol):
    """A surface that lives as long as the program. Raises `ChannelError` and nothing else (besides cancellation)."""

    @property
    def name(self) -> str:
        """The channel part of its addresses, such as `telegram`."""

    async def start(self) -> None:
        """Connect, and run until `stop` or cancellation."""

    async def stop(self) -> None:
        """Take no more messages, deliver what is written, and let `start` return."""

    async def send(self, message: OutboundMessage) -> None:
        """Show one event. Returns when it was shown or queued for showing."""


class CommandSummary(Protocol):
    """A slash command as a completion list and `/help` show it."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...


class AgentTurns(Protocol):
    """The part of the agent loop that surfaces use."""

    async def run(self) -> None:
        """Serve the bus until cancelled."""

    async def process(
        self, message: InboundMessage, settle: Settle | None = None, begin: Begin | None = None, *, alone: bool = False
    ) -> TurnFinished:
        """Run one turn to its end; every event of it goes over the bus meanwhile.

        With `settle` the turn is durable: an end is kept by it, and a turn without an end goes on in the next process.
        `alone`: no other turn runs beside it.
        """

    async def cancel(self, session_key: str, turn_id: str = "", *, by: Sender | None = None) -> str:
        """Stop the running turn, only that of this id if given, and say what was kept or that none runs.

        Raises `UsageError` where `by` is neither the owner nor the person whose turn it is.
        """

    async def approve(self, session_key: str, key: str, choice: str) -> str:
        """Answer an open question of a tool and say so. Raises `UsageError` where none of this id is open."""

    async def citations(self, session_key: str, turn: str = "") -> tuple[Citation, ...]:
        """What the marks of this chat's last answer, or of that of `turn`, were found to be; else empty."""

    def withdraw(self, session_key: str) -> tuple[str, ...]:
        """Take back the messages of a terminal that no turn has read yet; their texts in order."""

    def provider(self, session_key: str) -> ProviderInfo:
        """Who answers in this chat now."""

    def amend(self, message: InboundMessage) -> bool:
        """Replace a message of this id that no turn has read yet; False where it is too late."""

    async def status_full(self, session_key: str) -> str:
        """The whole `/status` text, as Markdown. Bounded in time."""


class Agent(Protocol):
    """The whole program as a surface sees it. Met by `nanobot.app.Nanobot`."""

    @property
    def bus(self) -> MessageBus: ...

    @property
    def loop(self) -> AgentTurns: ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def commands(self) -> Sequence[CommandSummary]: ...

    @property
    def provider_info(self) -> ProviderInfo: ...
