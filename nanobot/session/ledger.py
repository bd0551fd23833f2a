"""What must outlive the process: messages that were accepted, answers that must arrive, and small facts.

A row of the inbox is accepted in the transaction after which its channel may confirm it, and leaves only when it was
answered or refused aloud. `finish` marks it done, ends the transcript of its turn and writes the answer into the outbox
in one transaction, so that an answer is neither lost nor made twice, wherever the process dies.
"""

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import asdict

from nanobot.session.database import Clock, Database, Transaction, Value, now, stamp
from nanobot.session.rows import (
    INBOX,
    OUTBOX,
    RETURNING,
    Arrival,
    Closing,
    InboxRow,
    InboxState,
    OutboxItem,
    OutboxRow,
    OutboxState,
    Recovery,
    outbox_rows,
)
from nanobot.session.store import Record, SessionStore

#: Crashes during work on a row after which it is worked on alone, and after which it is parked: those beyond the first
#: number count only where nothing else was worked on.
SUSPECT_AFTER, MOST_ATTEMPTS = 2, 5
#: Days after which what is done is forgotten.
KEEP_DAYS = 7
#: Rows of the outbox that are handed out at once.
DUE = 50
#: Begins the key of the note with what was said in a chat beside its conversation, as `session.heard` keeps it.
HEARD = "heard "
_ACCEPT = """
INSERT INTO inbox (channel, id, payload, key, state, attempts, reason, at)
VALUES (:channel, :id, :payload, :key, 'new', 0, '', :at) ON CONFLICT (channel, id) DO NOTHING
"""
_CLAIM = """
UPDATE inbox SET state = 'claimed', worker = :worker, batch = :batch
WHERE seq = :seq AND (state = 'new' OR (state = 'claimed' AND worker = :worker AND batch = :batch))
"""
#: Rows that are open and that no other worker has begun.
_SETTLE = """
UPDATE inbox SET state = :state, reason = :reason, at = :at
WHERE seq = :seq AND (state = 'new' OR (state IN ('claimed', 'waiting') AND worker = :worker)) RETURNING seq
"""
_COUNT = """
UPDATE inbox SET attempts = CASE
  WHEN state = 'claimed' AND attempts < :bound THEN attempts + 1 WHEN attempts > :bound THEN :bound ELSE attempts END
WHERE channel = :channel AND worker = :old AND state IN ('new', 'waiting', 'claimed') AND attempts < :most
"""
_FREE = """
UPDATE inbox SET worker = :worker, state = CASE WHEN attempts < :most THEN 'new' ELSE state END
WHERE channel = :channel AND worker = :old AND state IN ('waiting', 'claimed')
"""
_UNSURE = """
UPDATE outbox SET worker = '', state = CASE state WHEN 'sending' THEN 'unknown' ELSE state END
WHERE channel = :channel AND worker = :old AND state IN ('draft', 'new', 'sending', 'unknown')
"""
#: A draft becomes what is put after it; any other row of the same key stays as it is.
_PUT = """
INSERT INTO outbox (turn, part, channel, chat, thread, payload, not_before, state, attempts, message_id, reason, at,
                    worker)
VALUES (:turn, :part, :channel, :chat, :thread, :payload, :not_before, :state, 0, '', '', :at, :worker)
ON CONFLICT (turn, part) DO UPDATE SET state = CASE outbox.message_id WHEN '' THEN 'unknown' ELSE 'new' END,
  chat = excluded.chat, thread = excluded.thread, payload = excluded.payload, not_before = excluded.not_before,
  worker = excluded.worker
WHERE outbox.state = 'draft' AND excluded.state = 'new'
"""
#: Whether something else is on its way to a chat before a message that was never shown.
_EARLIER = """
SELECT 1 FROM outbox WHERE channel = :channel AND chat = :chat AND turn <> :turn
AND state IN ('new', 'sending', 'unknown')
AND NOT EXISTS (SELECT 1 FROM outbox WHERE turn = :turn AND part = :part)
"""
#: What later messages of a chat wait for: one that is being sent, is to go out later, or by another worker.
_HELD = """
WITH held AS (
  SELECT chat, min(seq) AS first FROM outbox WHERE channel = :channel AND state IN ('new', 'sending', 'unknown')
  AND (state = 'sending' OR not_before > :at OR worker NOT IN (:worker, '')) GROUP BY chat)
"""
#: What may be sent now, of this worker and of nobody: a row that may not is held itself.
_DUE = f"""{_HELD} {OUTBOX} LEFT JOIN held USING (chat)
WHERE channel = :channel AND state IN ('new', 'unknown') AND (first IS NULL OR seq < first) AND chat NOT IN ({{}})
ORDER BY seq LIMIT :most
"""
_BEGIN = """
UPDATE outbox SET state = 'sending', worker = :worker
WHERE seq = :seq AND state IN ('new', 'unknown') AND NOT EXISTS (
  SELECT 1 FROM outbox AS earlier WHERE earlier.channel = outbox.channel AND earlier.chat = outbox.chat
  AND earlier.state IN ('new', 'sending', 'unknown') AND earlier.seq <= outbox.seq
  AND (earlier.state = 'sending' OR earlier.not_before > :at OR earlier.worker NOT IN (:worker, '')))
"""
_ARRIVED = """
UPDATE outbox SET state = 'sent', at = :at, message_id = CASE WHEN :message_id = '' THEN message_id ELSE :message_id END
WHERE seq = :seq
"""
_DRAFTS = f"{OUTBOX} WHERE turn = {{}} AND state = 'draft' ORDER BY part"
#: A row that has not ended and that no other worker sends.
_STILL_OPEN = "UPDATE outbox SET {} WHERE seq = :seq AND state NOT IN ('sent', 'failed') AND worker IN (:worker, '')"
_HOLD = """
INSERT INTO lease (name, holder, until) VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE lease.holder = excluded.holder OR lease.until <= :at
"""
_NOTED = "SELECT key, value FROM note WHERE key IN ({})"
NOTE = "INSERT INTO note (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"


_NO_NOTES: Mapping[str, str | None] = {}
#: What is done in a transaction besides.
Also = Callable[[Transaction], Awaitable[None]]


class Ledger:
    """The door to durable state, in `database`. A method returns when its change is safe on the disk.

    Raises `StoreError` only. What a turn does is refused where the work of this process was given to others.
    """

    def __init__(self, database: Database, *, clock: Clock = now) -> None:
        self.database = database
        #: The conversations, in the same database.
        self.sessions = SessionStore(database, clock=clock)
        #: Called when this process has finished rows.
        self.settled: Callable[[], None] = lambda: None
        self._clock = clock

    # Updates

    async def accept(self, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        """Keep updates, all or none, and return the new ones in order; one whose id is known changes nothing."""
        return await self.database.run(lambda db: self._accept(db, channel, arrivals), durable=True)

    async def claim(self, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        """Begin work on rows that are `new`, as one batch; others are left out. One that this worker has begun as this
        batch is begun again: who does not know whether a claim was kept claims again."""
        return await self.database.run(lambda db: self._claim(db, rows), durable=True, fenced=True)

    async def wait(self, rows: tuple[int, ...], notes: Mapping[str, str | None] = _NO_NOTES) -> None:
        """Claimed rows wait for their turn: a crash from now on is not theirs; and facts that were met in them change.
        Safe from the death of the process."""

        async def work(db: Transaction) -> None:
            await self._move(db, rows, "claimed", "waiting")
            await _set(db, notes)

        await self.database.run(work, again=True)

    async def start(self, rows: tuple[int, ...], turn: str = "") -> tuple[str, tuple[Record, ...]]:
        """Rows that waited are worked on again; what an earlier process left of their `turn`, as `SessionStore.begun`
        tells. Safe from the death of the process."""

        async def work(db: Transaction) -> tuple[str, tuple[Record, ...]]:
            await self._move(db, rows, "waiting", "claimed")
            return await self.sessions.left_of(db, turn)

        return await self.database.run(work, again=True)

    async def release(self, rows: tuple[int, ...]) -> None:
        """Give claimed or waiting rows back: the process ends in order."""

        async def work(db: Transaction) -> None:
            await self._move(db, rows, "claimed", "new")
            await self._move(db, rows, "waiting", "new")

        await self.database.run(work, durable=True)

    async def bury(self, rows: tuple[int, ...], reason: str, items: tuple[OutboxItem, ...] = ()) -> None:
        """Set rows aside for good and say so in `items`, in one transaction; `reason` is for a person."""

        async def work(db: Transaction) -> None:
            if await self._settle(db, rows, "dead", reason):
                await self._put(db, items)

        await self.database.run(work, durable=True, fenced=True)

    async def recover(self, channel: str, *, everybodys: bool = False) -> Recovery:
        """At a start: what a dead process worked on is counted and is `new` again, or to be parked after
        `MOST_ATTEMPTS`; what it was sending is `unknown`. A death that no batch alone can be blamed for takes every
        open row's `attempts` back to `SUSPECT_AFTER`.

        `everybodys`: what any worker had, for a channel that one process serves at a time, and this one from now on.
        """

        async def work(db: Transaction) -> Recovery:
            parked: tuple[InboxRow, ...] = ()
            holders = "SELECT DISTINCT worker FROM inbox"
            for (worker,) in await db.fetch(tuple[str], holders) if everybodys else ((self.database.worker,),):
                parked = await Ledger._free(self, db, channel, worker)  # whoever it was may live, and do other work
            query = f"{INBOX} WHERE channel = :channel AND state = 'new' ORDER BY seq"
            return Recovery(await db.fetch(InboxRow, query, channel=channel), parked)

        return await self.database.run(work, durable=True)

    async def open_rows(self, channel: str) -> tuple[InboxRow, ...]:
        """What is not done yet, in order."""
        query = f"{INBOX} WHERE channel = :channel AND state IN ('new', 'claimed', 'waiting') ORDER BY seq"
        return await self.database.read(lambda db: db.fetch(InboxRow, query, channel=channel))

    async def finish(
        self,
        rows: tuple[int, ...],
        items: tuple[OutboxItem, ...] = (),
        closing: Closing | None = None,
        also: Also | None = None,
    ) -> tuple[OutboxRow, ...]:
        """Mark inbox rows done, keep the end of the turn and put `items` into the outbox, in one transaction, in which
        `also` does its work too.

        Returns the items' rows. Where none of the rows is open any more, nothing is kept of this turn, and what is
        returned is what stands in the outbox already.
        """

        async def work(db: Transaction) -> tuple[OutboxRow, ...]:
            if rows and not await self._settle(db, rows, "done", ""):
                return await self._kept(db, items)
            if closing is not None:
                await self.sessions.add(db, closing.session, "message", closing.messages, closing.turn)
            if also is not None:
                await also(db)
            return await self._put(db, items)

        made = await self.database.run(work, durable=True, fenced=True)
        self.settled()
        return made

    # Messages on their way out

    async def put(self, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        """Put messages into the outbox. A `draft` of the same key gets this payload and becomes `new`, or `unknown`
        where no message is bound to it: it may have been sent. Any other row stays."""
        return await self.database.run(lambda db: self._put(db, items), durable=True, fenced=True)

    async def draft(self, item: OutboxItem) -> OutboxRow | None:
        """The row of a message whose final text is still being written; the row that stands where there is one.

        None where its chat has not got everything yet that other turns have said: nothing may be shown before that.
        """

        async def work(db: Transaction) -> OutboxRow | None:
            values = {"channel": item.channel, "chat": item.chat, "turn": item.turn}
            if await db.fetch(tuple[int], _EARLIER, **values, part=item.part):
                return None
            return (await self._put(db, (item,), "draft"))[0]

        return await self.database.run(work, durable=True, fenced=True)

    async def drafts(self, turn: str) -> tuple[OutboxRow, ...]:
        """The drafts of a turn, by part; its final text may have fewer parts."""
        return await self.database.read(lambda db: outbox_rows(db, _DRAFTS.format(":turn"), {"turn": turn}))

    async def bind(self, seq: int, message_id: str) -> None:
        """Note which message in the chat a row is, without changing its state."""
        await self._change(
            "UPDATE outbox SET message_id = :message_id WHERE seq = :seq", seq=seq, message_id=message_id
        )

    async def due(self, channel: str, *, without: Collection[str] = (), limit: int = DUE) -> tuple[OutboxRow, ...]:
        """The rows that may be sent now, oldest first, but for the chats in `without`. None has an earlier row of its
        chat before it that is being sent, waits for its time, or is another worker's."""
        values: dict[str, Value] = {"channel": channel, "without": json.dumps(list(without)), "most": limit}
        values |= self._here()
        query = _DUE.format(self.database.members)
        return await self.database.read(lambda db: outbox_rows(db, query, values))

    async def begin(self, seq: int) -> bool:
        """Mark a row `sending`, just before it goes out: where the process dies after this it may have arrived.

        False where it is not to be sent now, or by another.
        """
        return await self.database.run(lambda db: self._begin(db, seq), durable=True, fenced=True)

    async def ack(self, seq: int, message_id: str = "") -> tuple[OutboxRow, ...]:
        """It arrived; the `drafts` of its turn. An empty `message_id` keeps the one that is bound."""

        async def work(db: Transaction) -> tuple[OutboxRow, ...]:
            await db.send(_ARRIVED, seq=seq, message_id=message_id, at=stamp(self._clock()))
            return await outbox_rows(db, _DRAFTS.format("(SELECT turn FROM outbox WHERE seq = :seq)"), {"seq": seq})

        return await self.database.run(work, durable=True, again=True)

    async def postpone(self, seq: int, until: datetime, *, unsure: bool = False) -> None:
        """Send it at `until`, and count that. `unsure`: it may have arrived, so the row is `unknown` and not `new`.

        One that has arrived, or that another worker sends by now, stays as it is.
        """
        # English: parts of a statement of SQL
        change = _STILL_OPEN.format("state = :state, not_before = :until, attempts = attempts + 1")
        values = {"state": "unknown" if unsure else "new", "until": stamp(until), "worker": self.database.worker}
        await self._change(change, seq=seq, **values)

    async def fail(self, seq: int, reason: str) -> None:
        """It will not arrive; `reason` is for a person. As `postpone`, it changes nothing where it is too late."""
        # English: parts of a statement of SQL
        change = _STILL_OPEN.format("state = 'failed', reason = :reason, at = :at")
        await self._change(change, seq=seq, reason=reason, **self._here())

    async def unheard(self, chat: str, most: int) -> bool:
        """Whether the last so many messages to a chat that are settled were all given up."""
        query = (
            "SELECT state FROM outbox WHERE chat = :chat AND state IN ('sent', 'failed') ORDER BY seq DESC LIMIT :most"
        )
        found = await self.database.read(lambda db: db.fetch(tuple[str], query, chat=chat, most=most))
        return found == (("failed",),) * most

    async def pending(self, channel: str) -> tuple[OutboxRow, ...]:
        """What is still to be delivered by this process: `new`, `sending` and `unknown` rows, oldest first."""
        query = (
            f"{OUTBOX} WHERE channel = :channel AND state IN ('new', 'sending', 'unknown') "
            "AND worker IN (:worker, '') ORDER BY seq"
        )
        values = {"channel": channel, "worker": self.database.worker}
        return await self.database.read(lambda db: outbox_rows(db, query, values))

    # Leases and small facts

    async def hold(self, name: str, holder: str, seconds: float) -> bool:
        """Take a lease, or renew one's own; False while another holds it. It ends `seconds` from now by itself."""
        at = self._clock()
        values = {"at": stamp(at), "until": stamp(at + timedelta(seconds=seconds))}
        values |= {"name": name, "holder": holder}
        return await self.database.run(lambda db: db.change(_HOLD, **values), durable=True, fenced=True) == 1

    async def note(self, key: str) -> str | None:
        """A small fact, such as the owner of a bot."""
        return (await self.noted(key)).get(key)

    async def noted(self, *keys: str) -> Mapping[str, str]:
        """Several facts by their keys, but for those that there are not."""
        named = {f"key{place}": key for place, key in enumerate(keys)}
        query = _NOTED.format(", ".join(f":{name}" for name in named))
        return dict(await self.database.read(lambda db: db.fetch(tuple[str, str], query, **named)))

    async def notes(self, prefix: str) -> Mapping[str, str]:
        """All facts whose key begins with `prefix`."""
        query = "SELECT key, value FROM note WHERE substr(key, 1, :length) = :prefix ORDER BY key"
        read, length = self.database.read, len(prefix)
        return dict(await read(lambda db: db.fetch(tuple[str, str], query, length=length, prefix=prefix)))

    async def set_notes(self, changes: Mapping[str, str | None]) -> None:
        """Change facts, all or none; None forgets one."""
        await self.database.run(lambda db: _set(db, changes), durable=True)

    async def purge(self) -> int:
        """Forget what was done, buried, sent, or failed `KEEP_DAYS` ago; how many rows of inbox and outbox."""
        old = stamp(self._clock() - timedelta(days=KEEP_DAYS))

        async def work(db: Transaction) -> int:
            await db.change("DELETE FROM lease WHERE until < :old", old=old)
            inbox = "DELETE FROM inbox WHERE state IN ('done', 'dead') AND at < :old"
            outbox = "DELETE FROM outbox WHERE state IN ('draft', 'sent', 'failed') AND at < :old"
            return await db.change(inbox, old=old) + await db.change(outbox, old=old)

        return await self.database.run(work, durable=True)

    async def aclose(self) -> None:
        """Close the database."""
        await self.database.aclose()

    # In a transaction

    async def take_in(
        self, db: Transaction, items: tuple[OutboxItem, ...], prompt: tuple[str, Arrival] | None = None
    ) -> None:
        """Put messages into the outbox, and an update into the inbox of the channel that is named with it, all of it in
        a transaction of the caller's."""
        await self._put(db, items)
        if prompt is not None:
            channel, arrival = prompt
            await self._accept(db, channel, (arrival,))

    async def _accept(self, db: Transaction, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        known = {"channel": channel, "at": stamp(self._clock())}
        values = ({**known, "id": one.id, "payload": one.payload, "key": one.key} for one in arrivals)
        return await db.each(InboxRow, _ACCEPT + RETURNING, *values)

    async def _claim(self, db: Transaction, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        values: dict[str, Value] = {"worker": self.database.worker, "batch": rows[0] if rows else 0}
        return await db.each(InboxRow, _CLAIM + RETURNING, *({**values, "seq": seq} for seq in rows))

    async def _move(self, db: Transaction, rows: tuple[int, ...], before: InboxState, after: InboxState) -> None:
        change = "UPDATE inbox SET state = :after WHERE state = :before AND worker = :worker AND seq = :seq"
        for seq in rows:
            await db.send(change, before=before, after=after, worker=self.database.worker, seq=seq)

    async def _settle(self, db: Transaction, rows: tuple[int, ...], state: InboxState, reason: str) -> int:
        """End rows that are open; how many there were."""
        values: dict[str, Value] = {"state": state, "reason": reason, **self._here()}
        return len(await db.each(tuple[int], _SETTLE, *({**values, "seq": seq} for seq in rows)))

    async def _free(self, db: Transaction, channel: str, worker: str) -> tuple[InboxRow, ...]:
        """What a dead worker had is free again; this process has now the rows that are to be parked."""
        most, me = MOST_ATTEMPTS, self.database.worker
        begun = (
            "SELECT count(DISTINCT batch) FROM inbox "
            "WHERE channel = :channel AND worker = :old AND state = 'claimed' AND attempts < :most"
        )
        alone = await db.fetch(tuple[int], begun, channel=channel, most=most, old=worker) == ((1,),)
        bound = most if alone else SUSPECT_AFTER
        await db.change(_COUNT, channel=channel, most=most, old=worker, bound=bound)
        await db.change(_FREE, channel=channel, most=most, old=worker, worker=me)
        await db.change(_UNSURE, channel=channel, old=worker)
        query = (
            f"{INBOX} WHERE channel = :channel AND worker = :worker AND state = 'claimed' AND attempts >= :most "
            "ORDER BY seq"
        )
        return await db.fetch(InboxRow, query, channel=channel, most=most, worker=me)

    async def _put(
        self, db: Transaction, items: tuple[OutboxItem, ...], state: OutboxState = "new"
    ) -> tuple[OutboxRow, ...]:
        values = {"state": state, "worker": self.database.worker, "at": stamp(self._clock())}
        for item in items:
            await db.send(_PUT, **values, **{**asdict(item), "not_before": stamp(item.not_before)})
        return await self._kept(db, items)

    async def _kept(self, db: Transaction, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        query = f"{OUTBOX} WHERE turn = :turn AND part = :part"
        keys: Iterable[dict[str, Value]] = ({"turn": item.turn, "part": item.part} for item in items)
        return await outbox_rows(db, query, *keys)

    async def _begin(self, db: Transaction, seq: int) -> bool:
        return await db.change(_BEGIN, seq=seq, **self._here()) == 1

    async def _change(self, statement: str, **values: str | int) -> None:
        await self.database.run(lambda db: db.send(statement, **values), durable=True)

    def _here(self) -> dict[str, str]:
        """Who sends, and when."""
        return {"worker": self.database.worker, "at": stamp(self._clock())}


async def _set(db: Transaction, notes: Mapping[str, str | None]) -> None:
    for key, value in sorted(notes.items()):  # in one order, so that two processes never wait for each other
        if value is None:
            await db.send("DELETE FROM note WHERE key = :key", key=key)
        else:
            await db.send(NOTE, key=key, value=value)
