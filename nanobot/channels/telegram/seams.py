"""The parts of the Telegram channel and what they ask of each other.

poller or webhook → ledger inbox → gate → `Intake` → agent → `Ledger.finish` → `Outbox` → Telegram
                                               events of the turn → `Painter` → Telegram
"""

from typing import Protocol

from telegram import Bot, Update

from nanobot.bus.events import InboundMessage, OutboundMessage, TurnFinished
from nanobot.session.ledger import OutboxItem


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
    """Turns updates into messages. It sees only updates of people who may talk."""

    def patience(self, update: Update) -> float:
        """Seconds to wait for a further update that belongs to this one (an album, a text split by the client)."""

    def joins(self, earlier: Update, later: Update) -> bool:
        """True where `later`, which came within the patience of `earlier` in the same chat, continues its message."""

    async def take(self, update: Update, *more: Update) -> InboundMessage | None:
        """The message of an update and of those that joined it; None where there is nothing to answer.

        The channel sets `id` and the sender's `role`. Files are saved first; what fails leaves a line in the message.
        """


class Painter(Protocol):
    """Shows a turn while it runs: typing, the status message, the answer as it grows."""

    async def show(self, message: OutboundMessage) -> None:
        """Take one event; returns at once. A turn's final text is the outbox's."""

    async def run(self) -> None:
        """Paint until cancelled."""


class Outbox(Protocol):
    """Sends what must arrive."""

    def compose(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        """The parts of an answer or a command's reply, as they go into the ledger under `message.id`."""

    def wake(self) -> None:
        """There is something new in the ledger's outbox."""

    async def run(self) -> None:
        """Deliver until cancelled."""

    async def drain(self, seconds: float) -> None:
        """Return when nothing due is left, or after `seconds`."""
