"""What a conversation is: an append-only list of records under a key, kept by a `SessionStore`."""

from datetime import UTC, datetime
from typing import Literal, Protocol

from msgspec import Struct

from nanobot.messages import Message, ToolCall, ToolMessage, Usage, UserMessage

#: Before everything that was ever kept.
EVER = datetime(1970, 1, 1, tzinfo=UTC)
RecordKind = Literal["message", "compaction", "reset", "intent"]


class Record(Struct, frozen=True):
    """One line of a transcript. `seq` counts from 1 within its session; `at` is UTC.

    A `message` holds one message. A `compaction` holds a summary as its message and hides every earlier record from the
    model; nothing is deleted. An `intent` says that a call was about to run; its message is a `ToolMessage` without
    content, and no model sees it.
    """

    seq: int
    kind: RecordKind
    message: Message
    turn: str
    at: datetime


class SessionInfo(Struct, frozen=True):
    """One session in a list. `id` is what `/resume` takes; `key` is the address key it belongs to."""

    id: str
    key: str
    title: str
    messages: int
    created_at: datetime
    updated_at: datetime


class SessionStore(Protocol):
    """Sessions by id. An address key points at one current session; `/new` makes it point at a fresh one.

    Methods are async because implementations work on a thread of their own. They raise `StoreError` and nothing else.
    """

    async def current(self, key: str) -> SessionInfo:
        """The current session of an address key, made when there is none."""

    async def start(self, key: str, title: str = "") -> SessionInfo:
        """A fresh session, which becomes the key's current one. The old one is kept."""

    async def resume(self, key: str, session_id: str) -> SessionInfo:
        """Make an existing session the key's current one. `session_id` may be an unambiguous prefix."""

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "") -> None:
        """Add messages at the end, all or none."""

    async def intend(self, session_id: str, call: ToolCall, *, turn: str) -> None:
        """Note that a call is about to have an effect. It is safe on the disk when this returns."""

    async def begun(self, turn: str) -> tuple[str, tuple[Record, ...]]:
        """What an earlier process left of a turn: its session, and its records in order, wherever they stand.

        A message that another turn had read in mid-turn begins where that turn read it: what that turn did from there
        on belongs to the message too. Both are empty for a turn of which nothing was kept.
        """

    async def hold(self, session_id: str) -> str:
        """Take a session for one turn; empty where it is taken now, else who has it. It ends with this process."""

    async def drop(self, session_id: str) -> None:
        """Give back a session that this process holds."""

    async def history(self, session_id: str, *, size: int = 0, before: int = 0) -> tuple[Message, ...]:
        """What a model may see: the messages since the last compaction, its summary first.

        A store may leave out the oldest turns of a conversation that takes more than `size` bytes; 0 leaves out none.
        With `before`, what was appended from that `seq` on is left out.
        """

    async def transcript(self, session_id: str, *, after: int = 0, limit: int = 0) -> tuple[Record, ...]:
        """What was ever appended, in order: at most `limit` records after that `seq`; 0 is no limit."""

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        """Sessions, newest first; of one address key or of all."""

    async def rename(self, session_id: str, title: str) -> None:
        """Give a session a title."""

    async def spent(self, since: datetime = EVER, *, key: str = "", session: str = "") -> Usage:
        """What the models' answers that were kept since this time cost; of one address key, of one session, or of all.

        It takes no longer the more was kept.
        """

    async def aclose(self) -> None: ...


def request_of(message: Message) -> str:
    """The id of a message that was read in mid-turn; empty for every other one."""
    return message.id if isinstance(message, UserMessage) else ""


def intent_of(call: ToolCall) -> ToolMessage:
    """The message of an `intent` record."""
    return ToolMessage(call.id, call.name, ())
