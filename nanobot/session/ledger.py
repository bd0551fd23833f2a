"""What must outlive the process: messages that were accepted, answers that must arrive, and small facts.

A row of the inbox is accepted in the transaction after which its channel may confirm it, and leaves only when it was
answered or refused aloud. `finish` marks it done, ends the transcript of its turn and writes the answer into the outbox
in one transaction, so that an answer is neither lost nor made twice, wherever the process dies.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct, field

from nanobot.messages import Message
from nanobot.session.store import SessionStore

InboxState = Literal["new", "claimed", "waiting", "done", "dead"]
OutboxState = Literal["draft", "new", "sending", "unknown", "sent", "failed"]

#: Crashes during work on a row after which it is worked on alone, and after which it is parked: those beyond the first
#: number count only where nothing else was worked on.
SUSPECT_AFTER, MOST_ATTEMPTS = 2, 5
#: Days after which what is done is forgotten.
KEEP_DAYS = 7


class Arrival(Struct, frozen=True):
    """One update as it came: the channel's own id of it and its JSON. `key` is the session it belongs to, if known."""

    id: str
    payload: str
    key: str = ""


class InboxRow(Struct, frozen=True):
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


class OutboxItem(Struct, frozen=True):
    """One message to send, known by (`turn`, `part`): a second one of that key is the same message.

    `payload` is JSON of the channel's own making. `not_before` is the earliest time to send it.
    """

    turn: str
    part: int
    channel: str
    chat: str
    payload: str
    thread: str = ""
    not_before: datetime | None = None


class Closing(Struct, frozen=True):
    """The last messages of a turn, which are kept together with its answer. `session` is the id of a session."""

    session: str
    messages: tuple[Message, ...]
    turn: str = ""


class OutboxRow(Struct, frozen=True):
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


class Counts(Struct, frozen=True):
    """How many rows there are by state."""

    inbox: Mapping[InboxState, int] = field(default_factory=dict)
    outbox: Mapping[OutboxState, int] = field(default_factory=dict)


class Ledger(Protocol):
    """The door to durable state. A method returns when its change is safe on the disk. Raises `StoreError` only."""

    @property
    def sessions(self) -> SessionStore:
        """The conversations, in the same store."""

    async def accept(self, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        """Keep updates, all or none, and return the new ones in order; one whose id is known changes nothing."""

    async def claim(self, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        """Begin work on rows that are `new`, as one batch. Others are left out."""

    async def wait(self, rows: tuple[int, ...]) -> None:
        """Claimed rows wait for their turn: a crash from now on is not theirs. Safe from the death of the process."""

    async def start(self, rows: tuple[int, ...]) -> None:
        """Rows that waited are worked on again. Safe from the death of the process."""

    async def release(self, rows: tuple[int, ...]) -> None:
        """Give claimed or waiting rows back: the process ends in order."""

    async def bury(self, rows: tuple[int, ...], reason: str, items: tuple[OutboxItem, ...] = ()) -> None:
        """Set rows aside for good and say so in `items`, in one transaction; `reason` is for a person."""

    async def recover(self, channel: str) -> Recovery:
        """At a start: what a dead process worked on is counted and is `new` again, or to be parked after
        `MOST_ATTEMPTS`; what it was sending is `unknown`. A death that no batch alone can be blamed for takes every
        open row's `attempts` back to `SUSPECT_AFTER`."""

    async def finish(
        self, rows: tuple[int, ...], items: tuple[OutboxItem, ...] = (), closing: Closing | None = None
    ) -> tuple[OutboxRow, ...]:
        """Mark inbox rows done, keep the end of the turn and put `items` into the outbox, in one transaction.

        Returns the items' rows.
        """

    async def hold(self, name: str, holder: str, seconds: float) -> bool:
        """Take a lease, or renew one's own; False while another holds it. It ends `seconds` from now by itself."""

    async def put(self, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        """Put messages into the outbox. A `draft` of the same key gets this payload and becomes `new`, or `unknown`
        where no message is bound to it: it may have been sent. Any other row stays."""

    async def draft(self, item: OutboxItem) -> OutboxRow | None:
        """The row of a message whose final text is still being written; the row that stands where there is one.

        None where its chat has not got everything yet that other turns have said: nothing may be shown before that.
        """

    async def drafts(self, turn: str) -> tuple[OutboxRow, ...]:
        """The drafts of a turn, by part; its final text may have fewer parts."""

    async def bind(self, seq: int, message_id: str) -> None:
        """Note which message in the chat a row is, without changing its state."""

    async def due(self, channel: str, *, without: Collection[str] = (), limit: int = 50) -> tuple[OutboxRow, ...]:
        """The rows that may be sent now, oldest first, but for the chats in `without`. None has an earlier row of its
        chat before it that is being sent or waits for its time."""

    async def begin(self, seq: int) -> bool:
        """Mark a row `sending`, just before it goes out: where the process dies after this it may have arrived.

        False where it is not to be sent now, or by another.
        """

    async def ack(self, seq: int, message_id: str = "") -> None:
        """It arrived. An empty `message_id` keeps the one that is bound."""

    async def postpone(self, seq: int, until: datetime, *, unsure: bool = False) -> None:
        """Send it at `until`, and count that. `unsure`: it may have arrived, so the row is `unknown` and not `new`."""

    async def fail(self, seq: int, reason: str) -> None:
        """It will not arrive; `reason` is for a person."""

    async def pending(self, channel: str) -> tuple[OutboxRow, ...]:
        """What is still to be delivered: `new`, `sending` and `unknown` rows, oldest first."""

    async def note(self, key: str) -> str | None:
        """A small fact, such as the owner of a bot."""

    async def notes(self, prefix: str) -> Mapping[str, str]:
        """All facts whose key begins with `prefix`."""

    async def set_notes(self, changes: Mapping[str, str | None]) -> None:
        """Change facts, all or none; None forgets one."""

    async def purge(self, before: datetime) -> int:
        """Forget what was done, buried, sent, or failed before this time; how many rows of inbox and outbox."""

    async def counts(self, channel: str) -> Counts: ...

    async def aclose(self) -> None: ...


def crash_reason(attempts: int) -> str:
    """Why a row is parked."""
    return f"nanobot stopped {attempts} times while it worked on it"
