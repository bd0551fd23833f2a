"""Sessions that live as long as the process: for one-shot use and tests."""

import secrets
from datetime import UTC, datetime

from msgspec import Struct, field

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, ToolCall, Usage
from nanobot.session.store import EVER, Record, RecordKind, SessionInfo, intent_of, request_of


def new_id() -> str:
    """A session id: random, and short enough to type its beginning."""
    return secrets.token_hex(5)


def visible(records: list[Record]) -> tuple[Message, ...]:
    """What a model may see: the messages since the last compaction or reset, the summary first."""
    start = 0
    for index, record in enumerate(records):
        if record.kind == "compaction":
            start = index
        elif record.kind == "reset":
            start = index + 1
    return tuple(record.message for record in records[start:] if record.kind != "intent")


def pick(wanted: str, ids: list[str]) -> str:
    """The id that `wanted` names, in full or as a prefix. Raises `StoreError` where none or several match."""
    found = [item for item in ids if item == wanted] or [item for item in ids if wanted and item.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise StoreError(f"There is no session {wanted!r}. /sessions lists them.")
    raise StoreError(f"{wanted!r} fits {len(found)} sessions: {', '.join(found[:5])}. Give more of the id.")


def belonging(records: list[Record], turn: str) -> list[Record]:
    """The records of `turn`; of a message that another turn read in mid-turn, also that turn's from there on."""
    read = next((one for one in records if request_of(one.message) == turn), None)
    if read is None:
        return [one for one in records if one.turn == turn]
    return [one for one in records if one.seq >= read.seq and one.turn in {turn, read.turn}]


class _Session(Struct):
    id: str
    key: str
    title: str
    created_at: datetime
    updated_at: datetime
    records: list[Record] = field(default_factory=list)

    @property
    def info(self) -> SessionInfo:
        count = sum(record.kind == "message" for record in self.records)
        return SessionInfo(self.id, self.key, self.title, count, self.created_at, self.updated_at)


class MemorySessionStore:
    """The `SessionStore` of one process; nothing is written anywhere."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._current: dict[str, str] = {}
        self._held: set[str] = set()

    async def current(self, key: str) -> SessionInfo:
        session_id = self._current.get(key)
        return self._sessions[session_id].info if session_id else await self.start(key)

    async def start(self, key: str, title: str = "") -> SessionInfo:
        now = datetime.now(UTC)
        session = _Session(new_id(), key, title, now, now)
        self._sessions[session.id] = session
        self._current[key] = session.id
        return session.info

    async def resume(self, key: str, session_id: str) -> SessionInfo:
        own = [session.id for session in self._sessions.values()]
        session = self._sessions[pick(session_id, own)]
        self._current[key] = session.id
        return session.info

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "") -> None:
        self._add(session_id, "message", messages, turn)

    async def intend(self, session_id: str, call: ToolCall, *, turn: str) -> None:
        self._add(session_id, "intent", (intent_of(call),), turn)

    async def begun(self, turn: str) -> tuple[str, tuple[Record, ...]]:
        for session in self._sessions.values():
            records = belonging(session.records, turn)
            if records:
                return session.id, tuple(records)
        return "", ()

    async def hold(self, session_id: str) -> str:
        if session_id in self._held:
            return "another chat of this nanobot"
        self._held.add(session_id)
        return ""

    async def drop(self, session_id: str) -> None:
        self._held.discard(session_id)

    async def history(self, session_id: str, *, size: int = 0, before: int = 0) -> tuple[Message, ...]:
        del size  # nothing has to be read, so nothing is left out
        records = self._session(session_id).records
        return visible(records[: before - 1] if before else records)

    async def transcript(self, session_id: str, *, after: int = 0, limit: int = 0) -> tuple[Record, ...]:
        records = self._session(session_id).records
        return tuple(records[after : after + limit if limit else None])

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        found = [session for session in self._sessions.values() if not key or session.key == key]
        found.reverse()  # where two were touched at the same instant, the one made later comes first
        found.sort(key=lambda session: session.updated_at, reverse=True)
        return tuple(session.info for session in found[:limit])

    async def rename(self, session_id: str, title: str) -> None:
        self._session(session_id).title = title

    async def spent(self, since: datetime = EVER, *, key: str = "", session: str = "") -> Usage:
        return sum(
            (
                record.message.usage
                for one in self._sessions.values()
                if key in ("", one.key) and session in ("", one.id)
                for record in one.records
                if record.at >= since and isinstance(record.message, AssistantMessage)
            ),
            Usage(),
        )

    async def aclose(self) -> None:
        return None

    def _session(self, session_id: str) -> _Session:
        if session_id not in self._sessions:
            raise StoreError(f"There is no session {session_id!r}. /sessions lists them.")
        return self._sessions[session_id]

    def _add(self, session_id: str, kind: RecordKind, messages: tuple[Message, ...], turn: str) -> None:
        session = self._session(session_id)
        now = datetime.now(UTC)
        for message in messages:
            session.records.append(Record(len(session.records) + 1, kind, message, turn, now))
        session.updated_at = now
