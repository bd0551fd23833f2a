"""Deleting a conversation for good: its records, and what it alone has led to.

Records are append-only; those of a session that stands in `going` may go, which is within this one transaction. What
it has cost stays in the accounts, under a session without words that no list shows.
"""

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from msgspec import Struct, field

from nanobot import jsonval
from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Media, Message, ToolCall, UserMessage
from nanobot.session.codec import decode
from nanobot.session.database import Transaction, stamp
from nanobot.session.listing import own_words
from nanobot.session.store import INFO, SPEND, SPENT, SessionInfo, SessionStore, no_session
from nanobot.utils.translation import _

#: Characters of the name of a helper.
_NAME = 12
_BY = f"SELECT {INFO} FROM session WHERE {{}} = :wanted"  # noqa: S608 - columns of ours
_JOBS = "SELECT id FROM job WHERE kind = 'helper' AND result NOT IN ('', 'runs') AND body LIKE :pattern"
_HUSK = "INSERT INTO session (id, key, title, created_at, updated_at) VALUES (:husk, :key, '', :at, :at)"
_DELETES = (
    "DELETE FROM spending WHERE session_id = :session",
    "DELETE FROM cut WHERE session_id = :session",
    "DELETE FROM current WHERE session_id = :session",
    "DELETE FROM record WHERE session_id = :session",
    "DELETE FROM session WHERE id = :session",
    "DELETE FROM going WHERE session_id = :session",
)
#: What has come and gone is kept so that nothing comes or goes twice, which takes no words: a list of sessions, or the
#: end of one that somebody went back to, may stand there in any chat.
_BLANKS = (
    "UPDATE inbox SET payload = '{}' WHERE state IN ('done', 'dead') AND payload <> '{}'",
    "UPDATE outbox SET payload = '{}' WHERE state IN ('sent', 'failed') AND payload <> '{}'",
)
_MOVE = SPEND.format(f"SELECT :husk, {SPENT} FROM spending WHERE session_id = :session")  # noqa: S608 - columns of ours


class RemovedSession(Struct, frozen=True):
    """What has gone: the ids of sessions, that of the conversation first and those of its helpers; how many messages;
    the paths of files that were part of it (`media`); what people said in it, word for word (`said`); and its records
    as they were kept (`text`)."""

    sessions: tuple[str, ...]
    messages: int
    media: frozenset[str]
    said: frozenset[str]
    text: str


class _Trace(Struct):
    """What a conversation has led to elsewhere, gathered from its records."""

    helpers: set[str] = field(default_factory=set)
    media: set[str] = field(default_factory=set)
    said: set[str] = field(default_factory=set)
    records: list[str] = field(default_factory=list)


async def remove_session(store: SessionStore, session_id: str, at: datetime) -> RemovedSession:
    """Delete a session with those of its helpers; `at` is the time now.

    Raises `StoreError` where there is none of this id, or where a turn runs in it, also in another process.
    """
    holder = await store.database.hold(session_id)
    if holder:
        raise StoreError(
            _("A turn runs in this session ({holder}). End it with /stop, then delete the session.", holder=holder)
        )
    try:
        gone, trace = await store.database.run(lambda db: _remove(db, session_id, stamp(at)), durable=True)
    finally:
        await store.database.drop(session_id)
    await store.database.tidy()
    ids, messages = tuple(one.id for one in gone), sum(one.messages for one in gone)
    return RemovedSession(ids, messages, frozenset(trace.media), frozenset(trace.said), "\n".join(trace.records))


async def unmentioned(store: SessionStore, names: Iterable[str]) -> tuple[str, ...]:
    """Those of some paths or names of files that no record names. Raises `StoreError`."""

    async def work(db: Transaction) -> tuple[str, ...]:
        query = "SELECT 1 FROM record WHERE message LIKE :pattern LIMIT 1"
        found = [one for one in sorted(names) if not await db.fetch(tuple[int], query, pattern=f"%{_escaped(one)}%")]
        return tuple(found)

    return await store.database.read(work, long=True)


def helper_name(turn: str, call: ToolCall, task: str) -> str:
    """The name of the helper that a call gives a task to: that of its session behind `helper:`, in every process."""
    return hashlib.sha256(f"{turn} {call.id} {task}".encode()).hexdigest()[:_NAME]


async def _remove(db: Transaction, session_id: str, at: str) -> tuple[list[SessionInfo], _Trace]:
    known = await db.fetch(SessionInfo, _BY.format("id"), wanted=session_id)
    if not known:
        raise no_session(session_id)
    trace = _Trace()
    gone = [known[0]]
    await _follow(db, session_id, trace)
    for key in [key for name in sorted(trace.helpers) for key in await _helper_keys(db, name)]:
        for info in await db.fetch(SessionInfo, _BY.format("key"), wanted=key):
            gone.append(info)
            await _follow(db, info.id, trace)
    for info in gone:
        await _take_out(db, info, at)
    for statement in _BLANKS:
        await db.change(statement)
    return gone, trace


async def _helper_keys(db: Transaction, name: str) -> list[str]:
    """The keys of the session of a helper; one that has worked in the background, and has ended, goes from the jobs."""
    keys = [f"helper:{name}"]
    for (number,) in await db.fetch(tuple[int], _JOBS, pattern=f'%"{name}"%'):
        keys.append(f"helper:h{number}")
        await db.change("DELETE FROM fired WHERE job = :job", job=number)
        await db.change("DELETE FROM job WHERE id = :job", job=number)
    return keys


async def _follow(db: Transaction, session_id: str, trace: _Trace) -> None:
    """Gather what the records of a session tell; one that is damaged tells its text alone."""
    query = "SELECT turn, message FROM record WHERE session_id = :session"
    for turn, text in await db.fetch(tuple[str, str], query, session=session_id):
        trace.records.append(text)
        with suppress(StoreError):
            _note(decode(text), turn, trace)


def _note(message: Message, turn: str, trace: _Trace) -> None:
    trace.media.update(part.path for part in message.content if isinstance(part, Media))
    if isinstance(message, UserMessage):
        trace.said |= {message.text, own_words(message)}
    for call in message.calls if isinstance(message, AssistantMessage) else ():
        trace.helpers.update(helper_name(turn, call, task) for task in _texts(call.arguments))


def _texts(arguments: str) -> tuple[str, ...]:
    """The texts among the arguments of a call: one of them may be the task of a helper."""
    return tuple(one for one in jsonval.obj(jsonval.parse(arguments)).values() if isinstance(one, str))


async def _take_out(db: Transaction, info: SessionInfo, at: str) -> None:
    """Delete the rows of a session; what it has cost goes to one without words, of the same chat."""
    husk = hashlib.sha256(f"deleted {info.key}".encode()).hexdigest()[:10]
    if not await db.fetch(tuple[int], "SELECT 1 FROM session WHERE id = :husk", husk=husk):
        await db.change(_HUSK, husk=husk, key=info.key, at=at)
    await db.change(_MOVE, husk=husk, session=info.id)
    await db.change("INSERT INTO going (session_id) VALUES (:session)", session=info.id)
    for statement in _DELETES:
        await db.change(statement, session=info.id)


def _escaped(name: str) -> str:
    """A name as it stands in JSON, with what LIKE would take for a pattern left open: it finds no fewer."""
    return json.dumps(name, ensure_ascii=False)[1:-1].replace("\\", "_")
