"""What the ledger keeps: updates that came in, messages on their way out, and how they stand in its tables."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct, convert

from nanobot.messages import Message
from nanobot.session.database import Transaction, Value
from nanobot.session.store import EVER
from nanobot.utils.translation import _

InboxState = Literal["new", "claimed", "waiting", "done", "dead"]
OutboxState = Literal["draft", "new", "sending", "unknown", "sent", "failed"]
#: The columns of the rows, in the order of the fields.
INBOX = "SELECT seq, channel, id, payload, key, state, attempts, reason, at, batch FROM inbox"
RETURNING = "RETURNING" + INBOX.removeprefix("SELECT").removesuffix("FROM inbox")
OUTBOX = """SELECT seq, turn, part, channel, chat, payload, thread, not_before, state, attempts, message_id, reason, at
             FROM outbox"""


class Arrival(Struct, frozen=True):
    """One update as it came: the channel's own id of it and its JSON. `key` is the session it belongs to, if known."""

    id: str
    payload: str
    key: str = ""


class InboxRow(Struct, frozen=True, array_like=True):
    """An accepted update. `seq` is unique for ever; `at` is UTC.

    `attempts` counts how often a process died while it worked on the row, which is `claimed` then, beyond
    `SUSPECT_AFTER` only if it worked on nothing else. A row that is `waiting` for its turn is not concerned.

    Rows that were begun together are one message: `batch` is the `seq` of the first of them, 0 before they were begun.
    """

    seq: int
    channel: str
    id: str
    payload: str
    key: str
    state: InboxState
    attempts: int
    reason: str
    at: datetime
    batch: int = 0

    @property
    def turn(self) -> str:
        """The id of the message and of the turn that it begins; the first half of the outbox's key."""
        return f"in-{self.seq}"


class OutboxItem(Struct, frozen=True, array_like=True):
    """One message to send, known by (`turn`, `part`): a second one of that key is the same message.

    `payload` is JSON of the channel's own making. `not_before` is the earliest time to send it.
    """

    turn: str
    part: int
    channel: str
    chat: str
    payload: str
    thread: str = ""
    not_before: datetime = EVER


class Closing(Struct, frozen=True):
    """The last messages of a turn, which are kept together with its answer. `session` is the id of a session."""

    session: str
    messages: tuple[Message, ...]
    turn: str = ""


class OutboxRow(Struct, frozen=True, array_like=True):
    """A message on its way out.

    `draft`: shown while it is written, its final text is not known yet; `new`: to be sent; `sending`: begun; `unknown`:
    it may have arrived; `sent` with the channel's `message_id`; `failed` for good with `reason`. A row of any state may
    carry the `message_id` of a message that is already in the chat: then it is finished by an edit.
    """

    seq: int
    item: OutboxItem
    state: OutboxState
    attempts: int
    message_id: str
    reason: str
    at: datetime


class Recovery(Struct, frozen=True):
    """What a start finds: rows to work on in order, and rows to be `parked` because they came with crashes.

    The latter are claimed until they are buried, which their people are told of in the same transaction.
    """

    waiting: tuple[InboxRow, ...] = ()
    parked: tuple[InboxRow, ...] = ()


async def outbox_rows(db: Transaction, query: str, *values: Mapping[str, Value]) -> tuple[OutboxRow, ...]:
    """The rows of a query that begins with `OUTBOX`, with each of these values."""
    found = await db.each(tuple[object, ...], query, *values)
    return tuple(convert((row[0], row[1:8], *row[8:]), OutboxRow) for row in found)


def crash_reason(attempts: int) -> str:
    """Why a row is parked."""
    return _("nanobot stopped {number} times while it worked on it", number=attempts)
