"""The parts of the Telegram channel and what they ask of each other.

    poller or webhook → ledger inbox → `Intake.describe` → gate → `Intake.complete` → agent → `Ledger.finish` → `Outbox`
                                                               events of the turn → `ProgressRenderer`

A message's `id` is `InboxRow.turn` of the update that began it; it comes back as `TurnStarted.message`,
`CommandReply.message` and in `TurnFinished.answered`, and is the `turn` of the outbox's key.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from telegram import Bot, Update

from nanobot.bus.events import Address, InboundMessage, OutboundMessage, Role, TurnFinished
from nanobot.channels.telegram.read.incoming import IncomingMessage
from nanobot.session.ledger import OutboxItem

#: Says something in a chat: address, Markdown, and a key under which it is said once.
Say = Callable[[Address, str, str], Awaitable[None]]


class Line(Protocol):
    """The way to the Bot API. Ask for `bot` at every call: it changes when the line is renewed."""

    @property
    def bot(self) -> Bot: ...

    @property
    def bot_id(self) -> int: ...

    @property
    def username(self) -> str:
        """Without the at sign."""

    async def renew(self) -> None:
        """Replace the HTTP client, after errors that a fresh connection may cure."""


class Intake(Protocol):
    """Turns updates into messages, in two steps, so that access is judged before anything is fetched."""

    def describe(self, update: Update) -> IncomingMessage | None:
        """One update without fetching anything; None for what no person says. Raises whatever its content breaks."""

    def patience(self, incoming: IncomingMessage, *, in_a_row: bool = False) -> float:
        """Seconds to wait for a further update that belongs to this one (an album, a text split by the client).

        `in_a_row`: others that belong to it have come before it.
        """

    def joins(self, earlier: IncomingMessage, later: IncomingMessage) -> bool:
        """True where `later`, which came within the patience of `earlier` in the same chat, continues its message."""

    def overhear(self, incoming: IncomingMessage) -> None:
        """Keep a message of a group that was not for the bot, as context for one that is."""

    async def complete(self, incoming: IncomingMessage, role: Role = "guest") -> InboundMessage:
        """Fetch what the message carries. What fails leaves a line in the message. The channel sets its `id`."""


class ProgressRenderer(Protocol):
    """Shows a turn while it runs: typing, the status message, the answer as it grows."""

    async def show(self, message: OutboundMessage) -> None:
        """Take one event; returns at once. A turn's final text is the outbox's."""

    async def run(self) -> None:
        """Show turns until cancelled."""


class Outbox(Protocol):
    """Sends what must arrive."""

    def compose(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        """The parts of an answer or of a command's last reply, as they go into the ledger under `message.id`."""

    def compose_text(self, address: Address, turn: str, text: str) -> OutboxItem:
        """A line of the channel itself (Markdown), such as the one that strangers get."""

    def wake(self) -> None:
        """There is something new in the ledger's outbox."""

    async def run(self) -> None:
        """Deliver until cancelled."""

    async def drain(self, seconds: float) -> None:
        """Return when nothing due is left, or after `seconds`."""
