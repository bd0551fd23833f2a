"""What a conversation is: an append-only list of records under a key, kept by a `SessionStore`."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from nanobot.errors import StoreError, UsageError
from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage
from nanobot.session.codec import decode, encode
from nanobot.session.database import Clock, Database, Transaction, now, stamp
from nanobot.session.window import first_kept
from nanobot.utils.text import lasting_key
from nanobot.utils.translation import _, listed

#: Before everything that was ever kept.
EVER = datetime(1970, 1, 1, tzinfo=UTC)
#: After everything that will ever be kept.
_NEVER = "9999-12-31T00:00"
RecordKind = Literal["message", "compaction", "reset", "intent"]
Grouping = Literal["model", "chat", "person", "cause"]
#: The columns of a `SessionInfo`, in the order of its fields.
# English: a part of statements of SQL
INFO = "id, key, title, messages, created_at, updated_at"
_INFO = f"SELECT {INFO} FROM session"  # noqa: S608 - columns of ours
_POINTED = "(SELECT session_id FROM current WHERE key = :key)"
_RECORD = "SELECT seq, kind, message, turn, at, kept FROM record WHERE session_id = :session"
_PLACE = "SELECT session_id, seq, turn FROM record WHERE {} = :turn ORDER BY seq LIMIT 1"
_APPEND = """
INSERT INTO record (session_id, seq, kind, role, size, turn, at, message, kept)
VALUES (:session, :seq, :kind, :role, :size, :turn, :at, :message, :kept)
"""
#: The number of the newest record of a session; no row where there is no such session.
_NEWEST = """
SELECT coalesce((SELECT max(seq) FROM record WHERE session_id = :session), 0) FROM session WHERE id = :session
"""
#: The record that hides what came before: a summary by its number, and from where on all is shown.
_HIDING = """
SELECT CASE kind WHEN 'compaction' THEN seq ELSE 0 END, CASE WHEN kept > 0 THEN kept ELSE seq + 1 END FROM record
WHERE session_id = :session AND kind IN ('compaction', 'reset') AND seq < :end ORDER BY seq DESC LIMIT 1
"""
# English: a condition of SQL
_SHOWN = "kind NOT IN ('intent', 'compaction')"
_USAGE = Usage.__struct_fields__
_SUMS = ", ".join(f"CAST(coalesce(sum({one}), 0) AS {'float' if one == 'cost' else 'bigint'})" for one in _USAGE)
_SPENDING = """
FROM spending JOIN session ON session.id = spending.session_id
WHERE quarter >= :since AND quarter < :until AND :session IN ('', session.id) AND :key IN ('', session.key)
AND :person IN ('', spending.person)
"""
#: By what spending is told apart: the column of each.
_GROUPS: Mapping["Grouping", str] = {
    "model": "spending.model",
    "chat": "session.key",
    "person": "spending.person",
    "cause": "spending.cause",
}
#: The columns of `spending` but the session, and adding rows of them to those that there are.
SPENT = ", ".join(("quarter", "model", "person", "cause", *_USAGE))
SPEND = f"""
INSERT INTO spending (session_id, {SPENT}) {{}} ON CONFLICT (session_id, quarter, model, person, cause)
DO UPDATE SET {", ".join(f"{one} = spending.{one} + excluded.{one}" for one in _USAGE)}
"""
_SPEND = SPEND.format(f"VALUES (:session, :{SPENT.replace(', ', ', :')})")
#: The `turn` of records that were copied from another session, and the name of the intent that says from which.
COPIED, _BRANCH = "(copied)", "branch"
#: Beyond every `seq`.
_END = 2**31 - 1


#: In the place of a turn: what a person wanted forgotten was taken out of the summary before this one.
FORGOTTEN = "forgotten"


class Record(Struct, frozen=True):
    """One line of a transcript. `seq` counts from 1 within its session; `at` is UTC.

    A `message` holds one message. A `compaction` holds a summary as its message and hides from the model what came
    before the record `kept`, or before itself where that is 0; nothing is deleted. One without words takes an earlier
    one back. An `intent` says that a call was about to run; its message is a `ToolMessage` without
    content, and no model sees it.
    """

    seq: int
    kind: RecordKind
    message: Message
    turn: str
    at: datetime
    kept: int = 0


class Branch(Struct, frozen=True):
    """A session that begins with a copy of what is shown of `parent` before its record `before`; 0: of all of it.

    `fresh`: it was made just now.
    """

    info: "SessionInfo"
    parent: str
    before: int
    fresh: bool = True


class SessionInfo(Struct, frozen=True, array_like=True):
    """One session in a list. `id` is what `/resume` takes; `key` is the address key it belongs to."""

    id: str
    key: str
    title: str
    messages: int
    created_at: datetime
    updated_at: datetime


class SessionStore:
    """Sessions by id. An address key points at one current session; `/new` makes it point at a fresh one.

    Raises `StoreError` and nothing else. What a turn writes is refused where its work was given to others.
    """

    def __init__(self, database: Database, *, clock: Clock = now) -> None:
        self.database = database
        self._clock = clock

    async def current(self, key: str) -> SessionInfo:
        """The current session of an address key, made when there is none."""

        async def work(db: Transaction) -> SessionInfo:
            known = await _current(db, key)
            return known[0] if known else await self._start(db, key, "")

        known = await self.database.read(lambda db: _current(db, key))
        return known[0] if known else await self.database.run(work)

    async def start(self, key: str, title: str = "", *, once: bool = False) -> SessionInfo:
        """A fresh session, which becomes the key's current one. The old one is kept. `once`: for a single question."""
        return await self.database.run(lambda db: self._start(db, key, title, once=once))

    async def resume(self, key: str, session_id: str) -> SessionInfo:
        """Make an existing session the key's current one. `session_id` may be an unambiguous prefix."""
        return await self.database.run(lambda db: _resume(db, key, session_id))

    async def open(self, key: str, resume: str = "", *, go_on: bool = False, once: bool = False) -> SessionInfo:
        """The session that somebody begins with: an earlier one, else the last one, else a fresh one, for a single
        question where it is `once`.

        Raises `UsageError` where there is no such session.
        """
        if not resume:
            return await (self.resume(key, (await self.current(key)).id) if go_on else self.start(key, once=once))
        try:
            return await self.resume(key, resume)
        except StoreError as error:
            raise UsageError(str(error).replace("/sessions", "`nanobot sessions`")) from error

    async def branch(
        self, parent: SessionInfo, title: str, *, before: int = 0, request: str = "", key: str = ""
    ) -> Branch:
        """A fresh session with a copy of what is shown of `parent`, which becomes current for an address key.

        Without a `key` that is the one that `parent` belongs to.

        Records that are copied cost nothing again, and belong to no turn. What is asked for twice under the same
        `request`, as by a message that is read again after a crash, is made once.
        """
        made = _branch_id(request) if request else secrets.token_hex(5)

        async def work(db: Transaction) -> Branch:
            branch = await self._branch(db, parent, made, title, before)
            if branch.fresh:
                await _point(db, key or parent.key, made)
            return branch

        return await self.database.run(work)

    async def branched(self, request: str) -> Branch | None:
        """The branch that was made for this request."""
        return await self.database.read(lambda db: self._branched(db, _branch_id(request))) if request else None

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "", title: str = "") -> None:
        """Add messages at the end, all or none. A session without a title gets this one."""

        async def work(db: Transaction) -> None:
            await self.add(db, session_id, "message", messages, turn)
            if title:
                change = "UPDATE session SET title = :title WHERE id = :session AND title = ''"
                await db.change(change, title=title, session=session_id)

        await self.database.run(work, fenced=True)

    async def intend(self, session_id: str, call: ToolCall, *, turn: str) -> None:
        """Note that a call is about to have an effect. It is safe on the disk when this returns."""
        line = (ToolMessage(call.id, call.name, ()),)
        await self.database.run(lambda db: self.add(db, session_id, "intent", line, turn), durable=True, fenced=True)

    async def compact(self, session_id: str, summary: UserMessage, keep: int, *, turn: str = "") -> None:
        """Put a summary in the place of all that was said before the record `keep`, which stays in the transcript."""

        async def work(db: Transaction) -> None:
            await self.add(db, session_id, "compaction", (summary,), turn, kept=keep)

        await self.database.run(work, fenced=True)

    async def hiding(self, session_id: str) -> tuple[Record, ...]:
        """The records that hide earlier ones, in order."""
        query = f"{_RECORD} AND kind IN ('compaction', 'reset') ORDER BY seq"
        return await self.database.read(lambda db: self._records(db, query, session=session_id))

    async def begun(self, turn: str) -> tuple[str, tuple[Record, ...]]:
        """What an earlier process left of a turn: its session, and its records in order, wherever they stand.

        A message that another turn had read in mid-turn begins where that turn read it: what that turn did from there
        on belongs to the message too. Both are empty for a turn of which nothing was kept.
        """
        return await self.database.read(lambda db: self.left_of(db, turn))

    async def history(self, session_id: str, *, size: int = 0, before: int = 0) -> tuple[Message, ...]:
        """What a model may see: the messages since the last compaction, its summary first.

        The oldest turns of a conversation that takes more than `size` bytes are left out; 0 leaves out none. With
        `before`, what was appended from that `seq` on is left out.
        """
        return tuple(one.message for one in await self.records(session_id, size=size, before=before))

    async def records(self, session_id: str, *, size: int = 0, before: int = 0, after: int = 0) -> tuple[Record, ...]:
        """The records of `history`; with `after`, all but intents that were appended after that `seq`."""
        if after:
            query = f"{_RECORD} AND seq > :after AND kind <> 'intent' ORDER BY seq"
            return await self.database.read(lambda db: self._records(db, query, session=session_id, after=after))
        moved, records = await self.database.read(lambda db: self._history(db, session_id, size, before or _END))
        if moved and not before:
            await self.database.run(lambda db: _keep_cut(db, session_id, size, moved))
        return records

    async def transcript(self, session_id: str, *, after: int = 0, limit: int = 0) -> tuple[Record, ...]:
        """What was ever appended, in order: at most `limit` records after that `seq`; 0 is no limit."""
        return await self.database.read(lambda db: self._transcript(db, session_id, after, limit or _END), long=True)

    async def list(self, key: str = "", *, limit: int = 50) -> tuple[SessionInfo, ...]:
        """Sessions, newest first; of one address key or of all. Those of one terminal are those of all of them."""
        query = f"{_INFO} WHERE :key IN ('', key) ORDER BY updated_at DESC, rowid DESC LIMIT :most"
        under = lasting_key(key)
        return await self.database.read(lambda db: db.fetch(SessionInfo, query, key=under, most=limit), long=True)

    async def changed(self, since: datetime) -> tuple[SessionInfo, ...]:
        """The sessions that were added to since this time, the last one at the end."""
        query = f"{_INFO} WHERE updated_at >= :since ORDER BY updated_at"
        return await self.database.read(lambda db: db.fetch(SessionInfo, query, since=stamp(since)), long=True)

    async def rename(self, session_id: str, title: str) -> None:
        """Give a session a title."""
        await self.database.run(lambda db: _rename(db, session_id, title))

    async def spent(
        self,
        since: datetime = EVER,
        until: datetime | None = None,
        *,
        key: str = "",
        session: str = "",
        person: str = "",
    ) -> Usage:
        """What the models' answers cost that were kept since this time, and before `until`, each counted from the
        begin of its quarter of an hour; of one address key, of one session, of one person, or of all. A midnight is the
        begin of a quarter in every zone.

        It takes no longer the more was kept.
        """
        values = _span(since, until) | {"key": key, "session": session, "person": person}
        query = f"SELECT {_SUMS} {_SPENDING}"
        row = await self.database.read(
            lambda db: db.fetch(tuple[int, int, int, int, int, float, int, int], query, **values)
        )
        return Usage(*row[0])

    async def spending(
        self, by: Grouping, since: datetime = EVER, until: datetime | None = None, *, person: str = ""
    ) -> tuple[tuple[str, Usage], ...]:
        """The same for every model, chat (its address key), person or cause, the dearest first; of one person or all.

        The name is empty for what was kept before it was told apart.
        """
        column = _GROUPS[by]
        values = _span(since, until) | {"key": "", "session": "", "person": person}
        query = f"SELECT {column}, {_SUMS} {_SPENDING} GROUP BY {column} ORDER BY sum(cost) DESC, sum(input) DESC"
        rows = await self.database.read(
            lambda db: db.fetch(tuple[str, int, int, int, int, int, float, int, int], query, **values), long=True
        )
        return tuple((row[0], Usage(*row[1:])) for row in rows)

    async def aclose(self) -> None:
        """Close the database."""
        await self.database.aclose()

    async def add(
        self,
        db: Transaction,
        session_id: str,
        kind: RecordKind,
        messages: tuple[Message, ...],
        turn: str,
        *,
        kept: int = 0,
    ) -> None:
        """Add records at the end of a session, in a transaction of the caller's."""
        at, shown = self._clock(), len(messages) if kind == "message" else 0
        # First of all, because of several processes that add to a session the row lets one in after the other.
        change = "UPDATE session SET updated_at = :at, messages = messages + :shown WHERE id = :session"
        await db.send(change, at=stamp(at), shown=shown, session=session_id)
        if not (newest := await db.fetch(tuple[int], _NEWEST, session=session_id)):
            raise no_session(session_id)
        values: dict[str, str | int] = {
            "session": session_id,
            "kind": kind,
            "turn": turn,
            "at": stamp(at),
            "kept": kept,
        }
        for seq, message in enumerate(messages, newest[0][0] + 1):
            line = encode(message)
            await db.send(_APPEND, **values, seq=seq, role=message.role, size=len(line), message=line)
            if isinstance(message, AssistantMessage) and message.usage != Usage():
                about = {"model": message.model, "person": message.person, "cause": message.cause}
                await db.send(_SPEND, session=session_id, quarter=_quarter(at), **about, **asdict(message.usage))

    async def _start(self, db: Transaction, key: str, title: str, *, once: bool = False) -> SessionInfo:
        at = self._clock()
        made = SessionInfo(secrets.token_hex(5), lasting_key(key), title, 0, at, at)
        insert = (
            "INSERT INTO session (id, key, title, created_at, updated_at, once) "
            "VALUES (:session, :key, :title, :at, :at, :once)"
        )
        await db.send(insert, session=made.id, key=made.key, title=title, at=stamp(at), once=int(once))
        await _point(db, key, made.id)
        return made

    async def _branched(self, db: Transaction, made: str) -> Branch | None:
        known = await db.fetch(SessionInfo, f"{_INFO} WHERE id = :session", session=made)
        query = f"{_RECORD} AND kind = 'intent' AND turn = :turn ORDER BY seq LIMIT 1"
        for one in await self._records(db, query, session=made, turn=COPIED) if known else ():
            if isinstance(one.message, ToolMessage):
                return Branch(known[0], one.message.call_id, one.kept, fresh=False)
        return None

    async def _branch(self, db: Transaction, parent: SessionInfo, made: str, title: str, before: int) -> Branch:
        if known := await self._branched(db, made):
            return known
        _, shown = await self._history(db, parent.id, 0, _END)
        said = (one for one in shown if one.message.content)
        # A summary stands for what came before all that is shown, though its record may be a later one.
        records = tuple(one for one in said if one.kind == "compaction" or not before or one.seq < before)
        at, count = self._clock(), sum(one.kind == "message" for one in records)
        info = SessionInfo(made, parent.key, title, count, at, at)
        insert = (
            "INSERT INTO session (id, key, title, messages, created_at, updated_at) "
            "VALUES (:session, :key, :title, :count, :at, :at)"
        )
        await db.send(insert, session=made, key=parent.key, title=title, count=count, at=stamp(at))
        origin = Record(0, "intent", ToolMessage(parent.id, _BRANCH, ()), COPIED, at, before)
        for seq, one in enumerate((*records, origin), 1):
            line = encode(_copied(one.message))
            values: dict[str, str | int] = {"seq": seq, "kind": one.kind, "turn": COPIED, "at": stamp(one.at)}
            kept = one.kept if one is origin else 0
            values |= {"role": one.message.role, "size": len(line), "message": line, "kept": kept}
            await db.send(_APPEND, session=made, **values)
        return Branch(info, parent.id, before)

    async def left_of(self, db: Transaction, turn: str) -> tuple[str, tuple[Record, ...]]:
        """What `begun` tells, in a transaction of the caller's: both places are found by an index, however long ago it
        was."""
        for place in (f"role = 'user' AND {self.database.request}", "turn"):
            found = await db.fetch(tuple[str, int, str], _PLACE.format(place), turn=turn)
            if found:
                session_id, first, reader = found[0]
                own = f"{_RECORD} AND seq >= :first AND turn IN (:turn, :reader) ORDER BY seq"
                return session_id, await self._records(
                    db, own, session=session_id, first=first, turn=turn, reader=reader
                )
        return "", ()

    async def _history(self, db: Transaction, session_id: str, size: int, end: int) -> tuple[int, tuple[Record, ...]]:
        """The record of a later cut than the one that is kept, or 0; and the records from the cut on."""
        await _known(db, session_id)
        hiding = await db.fetch(tuple[int, int], _HIDING, session=session_id, end=end)
        summary, first = hiding[0] if hiding else (0, 0)
        moved = 0
        if size:
            query = "SELECT seq FROM cut WHERE session_id = :session AND size = :size AND seq < :end"
            kept = await db.fetch(tuple[int], query, session=session_id, size=size, end=end)
            begin = max(first, *(seq for (seq,) in kept)) if kept else first
            first = await _within(db, session_id, range(begin, end), size)
            moved = first if first > begin else 0
        told = await self._records(db, f"{_RECORD} AND seq = :summary", session=session_id, summary=summary)
        query = f"{_RECORD} AND seq >= :first AND seq < :end AND {_SHOWN} ORDER BY seq"
        shown = await self._records(db, query, session=session_id, first=first, end=end)
        return moved, (*(one for one in told if one.message.content), *shown)

    async def _transcript(self, db: Transaction, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
        await _known(db, session_id)
        query = f"{_RECORD} AND seq > :after ORDER BY seq LIMIT :most"
        return await self._records(db, query, session=session_id, after=after, most=limit)

    async def _records(self, db: Transaction, query: str, *, session: str, **values: str | int) -> tuple[Record, ...]:
        found = await db.fetch(tuple[int, RecordKind, str, str, datetime, int], query, session=session, **values)
        return tuple(
            Record(seq, kind, self._decode(session, seq, text), turn, at, kept)
            for seq, kind, text, turn, at, kept in found
        )

    def _decode(self, session_id: str, seq: int, text: str) -> Message:
        try:
            return decode(text)
        except StoreError as error:
            raise StoreError(
                _(
                    "{place}: record {number} of session {id}: {why}. Nothing was changed. /new starts a fresh "
                    "session.",
                    place=self.database.place,
                    number=seq,
                    id=session_id,
                    why=error,
                )
            ) from error


async def _current(db: Transaction, key: str) -> tuple[SessionInfo, ...]:
    return await db.fetch(SessionInfo, f"{_INFO} WHERE id = {_POINTED}", key=key)


async def _resume(db: Transaction, key: str, wanted: str) -> SessionInfo:
    query = f"{_INFO} WHERE substr(id, 1, :length) = :wanted ORDER BY id"
    found = await db.fetch(SessionInfo, query, length=len(wanted), wanted=wanted) if wanted else ()
    exact = [one for one in found if one.id == wanted] or found
    if not exact:
        raise no_session(wanted)
    if len(exact) > 1:
        raise StoreError(too_many(wanted, [one.id for one in exact]))
    await _point(db, key, exact[0].id)
    if exact[0].messages:  # it is more than the single question that it was made for
        await db.change("UPDATE session SET once = 0 WHERE id = :session AND once = 1", session=exact[0].id)
    return exact[0]


async def _point(db: Transaction, key: str, session_id: str) -> None:
    change = (
        "INSERT INTO current (key, session_id) VALUES (:key, :session) "
        "ON CONFLICT (key) DO UPDATE SET session_id = excluded.session_id"
    )
    await db.send(change, key=key, session=session_id)


async def _within(db: Transaction, session_id: str, span: range, limit: int) -> int:
    """The record of `span` from which the newest turns fit into `limit`; reads no message.

    A cut depends on what came before it alone, so a span that begins at an earlier cut has the same later ones.
    """
    starts: list[int] = []
    sizes: list[int] = []
    query = (
        "SELECT seq, role, size FROM record WHERE session_id = :session AND seq >= :first AND seq < :end "
        "AND kind <> 'compaction' ORDER BY seq"
    )
    values = {"first": span.start, "end": span.stop}
    for seq, role, size in await db.fetch(tuple[int, str, int], query, session=session_id, **values):
        if role == "user" or not starts:
            starts.append(seq)
            sizes.append(size)
        else:
            sizes[-1] += size
    return starts[first_kept(sizes, limit)] if starts else span.start


async def _keep_cut(db: Transaction, session_id: str, size: int, seq: int) -> None:
    change = (
        "INSERT INTO cut (session_id, size, seq) VALUES (:session, :size, :seq) "
        "ON CONFLICT (session_id, size) DO UPDATE SET seq = excluded.seq"
    )
    await db.send(change, session=session_id, size=size, seq=seq)


async def _rename(db: Transaction, session_id: str, title: str) -> None:
    change = "UPDATE session SET title = :title WHERE id = :session"
    if not await db.change(change, title=title, session=session_id):
        raise no_session(session_id)


async def _known(db: Transaction, session_id: str) -> None:
    if not await db.fetch(tuple[int], "SELECT 1 FROM session WHERE id = :session", session=session_id):
        raise no_session(session_id)


def _branch_id(request: str) -> str:
    return hashlib.sha256(f"{_BRANCH} {request}".encode()).hexdigest()[:10]


def _copied(message: Message) -> Message:
    """A message for a second session: it costs nothing again, and the message that it was read from is answered."""
    if isinstance(message, AssistantMessage):
        return replace(message, usage=Usage())
    return replace(message, id="") if isinstance(message, UserMessage) else message


def no_session(session_id: str) -> StoreError:
    """What is said where there is no session of this id."""
    return StoreError(_("There is no session {id!r}. /sessions lists them.", id=session_id))


def too_many(wanted: str, ids: Sequence[str]) -> str:
    """What is said where several sessions may be meant."""
    some = listed(ids[:5])
    return _("{id!r} fits {number} sessions: {ids}. Give more of the id.", id=wanted, number=len(ids), ids=some)


def _span(since: datetime, until: datetime | None) -> dict[str, str]:
    """The quarters of an hour from one time up to another."""
    return {"since": _quarter(since), "until": _quarter(until) if until else _NEVER}


def _quarter(at: datetime) -> str:
    """The quarter of an hour of a time, as `spending` names it, such as 2026-11-21T12:45."""
    text = stamp(at)
    return f"{text[:14]}{int(text[14:16]) // 15 * 15:02}"
