"""Sessions that live as long as the process: for one-shot use and tests."""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, ToolCall, Usage
from nanobot.session.store import RECENT, Record, RecordKind, SessionInfo, intent_of


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


def newest_of(records: list[Record], turn: str) -> list[Record]:
    """The records at the end that belong to `turn`."""
    first = len(records)
    while first and records[first - 1].turn == turn:
        first -= 1
    return records[first:]


@dataclass(slots=True)
class _Session:
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

    async def begun(self, key: str, turn: str) -> tuple[str, tuple[Record, ...]]:
        current = [self._current[key]] if key in self._current else []
        for session_id in [*current, *(info.id for info in await self.list(key, limit=RECENT))]:
            records = self._session(session_id).records
            if records and records[-1].turn == turn:
                return session_id, tuple(newest_of(records, turn))
        return "", ()

    async def history(self, session_id: str, *, size: int = 0) -> tuple[Message, ...]:
        del size  # nothing has to be read, so nothing is left out
        return visible(self._session(session_id).records)

    async def transcript(self, session_id: str) -> tuple[Record, ...]:
        return tuple(self._session(session_id).records)

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        found = [session for session in self._sessions.values() if not key or session.key == key]
        found.reverse()  # where two were touched at the same instant, the one made later comes first
        found.sort(key=lambda session: session.updated_at, reverse=True)
        return tuple(session.info for session in found[:limit])

    async def rename(self, session_id: str, title: str) -> None:
        self._session(session_id).title = title

    async def spent(self, since: datetime, key: str = "") -> Usage:
        return sum(
            (
                record.message.usage
                for session in self._sessions.values()
                if not key or session.key == key
                for record in session.records
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
