"""The statements of the ledger in PostgreSQL, each for the transaction of its caller.

`at` is the time of tests; None is the server's. A worker lives while it holds the lease `worker:<its name>`.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from nanobot.errors import StoreError
from nanobot.session.ledger import (
    Arrival,
    Counts,
    InboxRow,
    InboxState,
    OutboxItem,
    OutboxRow,
    OutboxState,
)
from nanobot.session.postgres import Transaction
from nanobot.session.postgres_sessions import time_of

#: What DBOS calls the application, its queue and the workflow that serves an update.
APPLICATION, QUEUE, WORKFLOW = "nanobot", "nanobot-updates", "nanobot.serve"
#: The channel of NOTIFY on which new updates are told; the payload is `channel key`.
NEWS = "nanobot_updates"

_INBOX = "seq, channel, id, payload, key, state, attempts, reason, at, batch"
_OUTBOX = "seq, turn, part, channel, chat, payload, thread, not_before, state, attempts, message_id, reason, at"
_NOW = "coalesce(%(at)s::timestamptz, clock_timestamp())"
_ALIVE = f"(SELECT holder FROM lease WHERE name = 'worker:' || holder AND until > {_NOW})"
_ACCEPT = f"""
INSERT INTO inbox (channel, id, payload, key, state, attempts, reason, at)
SELECT %(channel)s, id, payload, key, 'new', 0, '', {_NOW}
FROM unnest(%(ids)s::text[], %(payloads)s::text[], %(keys)s::text[]) WITH ORDINALITY AS given (id, payload, key, place)
ORDER BY place
ON CONFLICT DO NOTHING RETURNING {_INBOX}
"""
#: Updates of no session are partitions of their own: nothing has to wait for them.
_PARTITION = "channel || ' ' || CASE key WHEN '' THEN 'update ' || id ELSE key END"
_ENQUEUE = f"""
SELECT dbos.enqueue_workflow(
  workflow_name => %(workflow)s, queue_name => %(queue)s,
  positional_args => ARRAY[to_json(channel), to_json(key), to_json(seq)],
  workflow_id => channel || ':' || id || %(again)s, application_name => %(application)s,
  queue_partition_key => {_PARTITION})
FROM inbox WHERE seq = ANY(%(rows)s) ORDER BY seq
"""
#: Rows that wait though DBOS has nothing to do for their session: the first of each session, after a while.
_FORGOTTEN = f"""
SELECT min(seq) FROM inbox WHERE channel = %(channel)s AND state = 'new' AND at < {_NOW} - interval '5 s'
AND NOT EXISTS (
  SELECT 1 FROM dbos.workflow_status AS work WHERE work.queue_name = %(queue)s
  AND work.queue_partition_key = {_PARTITION} AND work.status IN ('ENQUEUED', 'PENDING', 'DELAYED'))
GROUP BY {_PARTITION}
"""
#: What DBOS does to recover an executor, for all that are dead in one statement with the judgement who is.
_REVIVE = f"""
UPDATE dbos.workflow_status SET status = 'ENQUEUED', owner_xid = NULL, started_at_epoch_ms = NULL,
  updated_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint
WHERE queue_name = %(queue)s AND status = 'PENDING' AND executor_id NOT IN {_ALIVE}
"""
_TELL = f"""
SELECT pg_notify('{NEWS}', told)
FROM (SELECT DISTINCT channel || ' ' || key AS told FROM inbox WHERE seq = ANY(%s)) AS news
"""
_PUT = f"""
INSERT INTO outbox AS old (turn, part, channel, chat, thread, payload, not_before, state, attempts, message_id, reason,
                           at, worker)
VALUES (%(turn)s, %(part)s, %(channel)s, %(chat)s, %(thread)s, %(payload)s, %(not_before)s, %(state)s, 0, '', '',
        {_NOW}, %(worker)s)
ON CONFLICT (turn, part) DO UPDATE SET (state, worker, channel, chat, thread, payload, not_before) = (
  SELECT CASE old.message_id WHEN '' THEN 'unknown' ELSE excluded.state END, excluded.worker, excluded.channel,
         excluded.chat, excluded.thread, excluded.payload, excluded.not_before
         WHERE old.state = 'draft' AND excluded.state = 'new'
  UNION ALL
  SELECT old.state, CASE old.state WHEN 'draft' THEN excluded.worker ELSE old.worker END, old.channel, old.chat,
         old.thread, old.payload, old.not_before WHERE NOT (old.state = 'draft' AND excluded.state = 'new')
)
RETURNING {_OUTBOX}
"""
#: Rows that this worker may send: its own and those that no living worker has. None before an earlier one of its chat
#: that is being sent, or was when its worker died, or that is to go out later or by another worker.
_DUE = f"""
FROM outbox WHERE state IN ('new', 'unknown')
AND (not_before IS NULL OR not_before <= {_NOW}) AND (worker = %(worker)s OR worker NOT IN {_ALIVE})
AND NOT EXISTS (
  SELECT 1 FROM outbox AS earlier WHERE earlier.channel = outbox.channel AND earlier.chat = outbox.chat
  AND earlier.state IN ('new', 'sending', 'unknown') AND earlier.seq < outbox.seq
  AND (earlier.state = 'sending' OR earlier.not_before > {_NOW}
       OR (earlier.worker <> %(worker)s AND earlier.worker IN {_ALIVE})))
"""


async def accept(
    db: Transaction, channel: str, arrivals: tuple[Arrival, ...], at: datetime | None
) -> tuple[InboxRow, ...]:
    """Keep updates, queue the new ones with DBOS and tell the workers, all in one transaction."""
    values = {
        "channel": channel,
        "ids": [one.id for one in arrivals],
        "payloads": [plain(one.payload) for one in arrivals],
        "keys": [one.key for one in arrivals],
        "at": at,
    }
    fresh = sorted((_inbox(row) for row in await (await db.execute(_ACCEPT, values)).fetchall()), key=_seq)
    await _enqueue(db, [row.seq for row in fresh])
    return tuple(fresh)


async def claim(
    db: Transaction, rows: tuple[int, ...], worker: str, at: datetime | None, *, member: bool
) -> tuple[InboxRow, ...]:
    """A `member` that is not among the living any more gets none."""
    change = (
        "UPDATE inbox SET state = 'claimed', worker = %(worker)s, batch = %(batch)s "
        "WHERE state = 'new' AND seq = ANY(%(rows)s) "
        f"AND (NOT %(member)s OR %(worker)s IN {_ALIVE}) RETURNING {_INBOX}"
    )
    batch = rows[0] if rows else 0
    values = {"worker": worker, "batch": batch, "rows": list(rows), "member": member, "at": at}
    begun = {row.seq: row for row in map(_inbox, await (await db.execute(change, values)).fetchall())}
    return tuple(begun[seq] for seq in rows if seq in begun)


async def settle(
    db: Transaction, rows: Iterable[int], state: InboxState, worker: str, at: datetime | None, reason: str = ""
) -> int:
    """End rows that are open, and not begun by another worker; how many there were."""
    numbers = list(rows)
    if not numbers:
        return 0
    change = (
        f"UPDATE inbox SET state = %(state)s, reason = %(reason)s, at = {_NOW} WHERE seq = ANY(%(rows)s) "
        "AND (state = 'new' OR (state IN ('claimed', 'waiting') AND worker = %(worker)s))"
    )
    values = {"state": state, "reason": plain(reason), "at": at, "rows": numbers, "worker": worker}
    return (await db.execute(change, values)).rowcount


async def reap(db: Transaction, channel: str, worker: str, most: int, at: datetime | None) -> tuple[InboxRow, ...]:
    """What dead workers worked on is counted and `new` again; what they sent is `unknown`.

    Rows with `most` attempts are claimed by `worker`, to be parked. The dead lose their leases, so that one that was
    only slow learns of it; DBOS hands out again what it had given them.
    """
    if at is None:  # one time for all statements, so that they agree on who is dead
        row = await (await db.execute("SELECT clock_timestamp()")).fetchone()
        at = time_of(row[0]) if row is not None else None
    await db.execute(f"DELETE FROM lease WHERE name = 'worker:' || holder AND until <= {_NOW}", {"at": at})
    await db.execute(f"DELETE FROM lease WHERE starts_with(name, 'session:') AND holder NOT IN {_ALIVE}", {"at": at})
    dead = f"worker NOT IN {_ALIVE}"
    parked = (
        f"UPDATE inbox SET attempts = attempts + 1, worker = %(worker)s WHERE state = 'claimed' AND {dead} "
        f"AND channel = %(channel)s AND attempts + 1 >= %(most)s RETURNING {_INBOX}"
    )
    values = {"worker": worker, "at": at, "channel": channel, "most": most}
    aside = sorted(map(_inbox, await (await db.execute(parked, values)).fetchall()), key=_seq)
    free = (
        "UPDATE inbox SET state = 'new', worker = '', attempts = attempts + (state = 'claimed')::integer "
        f"WHERE state IN ('claimed', 'waiting') AND {dead} AND seq <> ALL(%(aside)s) AND channel = %(channel)s"
    )
    await db.execute(free, {**values, "aside": [row.seq for row in aside]})
    unsure = f"UPDATE outbox SET state = 'unknown' WHERE state = 'sending' AND {dead} AND channel = %(channel)s"
    await db.execute(unsure, values)
    await db.execute(_REVIVE, {"queue": QUEUE, "at": at})
    return tuple(aside)


async def requeue(db: Transaction, channel: str, again: str, at: datetime | None) -> int:
    """Hand to DBOS what waits without it; `again` makes the workflow's id a new one. How many sessions it were."""
    values = {"channel": channel, "queue": QUEUE, "at": at}
    rows = [int(str(row[0])) for row in await (await db.execute(_FORGOTTEN, values)).fetchall()]
    await _enqueue(db, rows, f":{again}")
    return len(rows)


async def _enqueue(db: Transaction, rows: list[int], again: str = "") -> None:
    if rows:
        names = {"workflow": WORKFLOW, "queue": QUEUE, "application": APPLICATION, "rows": rows, "again": again}
        await db.execute(_ENQUEUE, names)
        await db.execute(_TELL, (rows,))


async def lives(db: Transaction, worker: str, at: datetime | None) -> bool:
    """Whether a worker lives, and then stays alive until the transaction ends: nobody can declare it dead meanwhile."""
    query = (
        "SELECT 1 FROM lease WHERE name = 'worker:' || %(worker)s AND holder = %(worker)s "
        f"AND until > {_NOW} FOR KEY SHARE"
    )
    return await (await db.execute(query, {"worker": worker, "at": at})).fetchone() is not None


async def new_rows(db: Transaction, channel: str, keys: tuple[str, ...] | None = None) -> tuple[InboxRow, ...]:
    query = (
        f"SELECT {_INBOX} FROM inbox WHERE channel = %(channel)s AND state = 'new' "
        "AND (%(all)s OR key = ANY(%(keys)s)) ORDER BY seq"
    )
    values = {"channel": channel, "all": keys is None, "keys": list(keys or ())}
    return tuple(map(_inbox, await (await db.execute(query, values)).fetchall()))


async def one_row(db: Transaction, seq: int) -> InboxRow | None:
    row = await (await db.execute(f"SELECT {_INBOX} FROM inbox WHERE seq = %s", (seq,))).fetchone()
    return None if row is None else _inbox(row)


async def put(
    db: Transaction, items: tuple[OutboxItem, ...], state: OutboxState, worker: str, at: datetime | None
) -> tuple[OutboxRow, ...]:
    """Keep messages. A draft becomes what is put after it; any other row of the same key stays as it is."""
    rows = []
    for item in items:
        values = {
            "turn": item.turn,
            "part": item.part,
            "channel": item.channel,
            "chat": item.chat,
            "thread": item.thread,
            "payload": plain(item.payload),
            "not_before": item.not_before,
            "state": state,
            "worker": worker,
            "at": at,
        }
        row = await (await db.execute(_PUT, values)).fetchone()
        if row is not None:
            rows.append(_outbox(row))
    return tuple(rows)


async def standing(db: Transaction, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
    """The rows of these keys that there are."""
    query = f"SELECT {_OUTBOX} FROM outbox WHERE turn = %s AND part = %s"
    found = [await (await db.execute(query, (item.turn, item.part))).fetchone() for item in items]
    return tuple(_outbox(row) for row in found if row is not None)


async def due(
    db: Transaction, channel: str, worker: str, without: Collection[str], limit: int, at: datetime | None
) -> tuple[OutboxRow, ...]:
    query = f"""SELECT {_OUTBOX} {_DUE} AND channel = %(channel)s AND chat <> ALL(%(without)s)
                ORDER BY seq LIMIT %(limit)s"""
    values = {"channel": channel, "worker": worker, "without": list(without), "limit": limit, "at": at}
    return tuple(map(_outbox, await (await db.execute(query, values)).fetchall()))


async def begin(db: Transaction, seq: int, worker: str, at: datetime | None) -> bool:
    """Mark a row that is due as being sent by `worker`.

    One worker after the other in a chat, so that two never send to it side by side.
    """
    turns = "SELECT pg_advisory_xact_lock(hashtextextended(channel || ' ' || chat, 0)) FROM outbox WHERE seq = %s"
    await db.execute(turns, (seq,))
    change = f"""
        WITH ready AS (SELECT seq {_DUE} AND seq = %(seq)s FOR UPDATE)
        UPDATE outbox SET state = 'sending', worker = %(worker)s FROM ready WHERE outbox.seq = ready.seq
    """
    return (await db.execute(change, {"seq": seq, "worker": worker, "at": at})).rowcount == 1


async def drafts(db: Transaction, turn: str) -> tuple[OutboxRow, ...]:
    query = f"SELECT {_OUTBOX} FROM outbox WHERE turn = %s AND state = 'draft' ORDER BY part"
    return tuple(map(_outbox, await (await db.execute(query, (turn,))).fetchall()))


async def pending(db: Transaction, channel: str, worker: str, at: datetime | None) -> tuple[OutboxRow, ...]:
    query = (
        f"SELECT {_OUTBOX} FROM outbox WHERE channel = %(channel)s AND state IN ('new', 'sending', 'unknown') "
        f"AND (worker = %(worker)s OR worker NOT IN {_ALIVE}) ORDER BY seq"
    )
    values = {"channel": channel, "worker": worker, "at": at}
    return tuple(map(_outbox, await (await db.execute(query, values)).fetchall()))


async def purge(db: Transaction, before: datetime) -> int:
    """Forget what is settled and old, here and in the tables of DBOS; how many rows of inbox and outbox."""
    await db.execute("DELETE FROM lease WHERE until < %s", (before,))
    gone = (await db.execute("DELETE FROM inbox WHERE state IN ('done', 'dead') AND at < %s", (before,))).rowcount
    gone += (
        await db.execute("DELETE FROM outbox WHERE state IN ('draft', 'sent', 'failed') AND at < %s", (before,))
    ).rowcount
    old = (
        "WITH old AS (DELETE FROM dbos.workflow_status WHERE queue_name = %s AND status IN ('SUCCESS', 'ERROR', "
        "'CANCELLED') AND updated_at < %s RETURNING workflow_uuid) "
        "DELETE FROM dbos.workflow_input USING old WHERE workflow_input.workflow_uuid = old.workflow_uuid"
    )
    await db.execute(old, (QUEUE, int(before.timestamp() * 1000)))
    return gone


async def counts(db: Transaction, channel: str) -> Counts:
    found: list[dict[str, int]] = []
    for table in ("inbox", "outbox"):
        query = f"SELECT state, count(*) FROM {table} WHERE channel = %s GROUP BY state"
        cursor = await db.execute(query, (channel,))
        found.append({str(state): int(str(count)) for state, count in await cursor.fetchall()})
    inbox, outbox = found
    return Counts(
        {_inbox_state(name): count for name, count in inbox.items()},
        {_outbox_state(name): count for name, count in outbox.items()},
    )


def plain(text: str) -> str:
    """What PostgreSQL keeps as text: no zero character, no lone surrogate."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def _seq(row: InboxRow) -> int:
    return row.seq


def _inbox(row: tuple[object, ...]) -> InboxRow:
    seq, channel, update, payload, key, state, attempts, reason, at, batch = row
    return InboxRow(
        int(str(seq)),
        str(channel),
        str(update),
        str(payload),
        str(key),
        _inbox_state(state),
        int(str(attempts)),
        str(reason),
        time_of(at),
        int(str(batch)),
    )


def _outbox(row: tuple[object, ...]) -> OutboxRow:
    seq, turn, part, channel, chat, payload, thread, not_before, state, attempts, message_id, reason, at = row
    later = time_of(not_before) if not_before is not None else None
    item = OutboxItem(str(turn), int(str(part)), str(channel), str(chat), str(payload), str(thread), later)
    return OutboxRow(
        int(str(seq)), item, _outbox_state(state), int(str(attempts)), str(message_id), str(reason), time_of(at)
    )


def _inbox_state(value: object) -> InboxState:
    match value:
        case "new" | "claimed" | "waiting" | "done" | "dead":
            return value
    raise StoreError(f"A row of the inbox is in the unknown state {value!r}. Update nanobot.")


def _outbox_state(value: object) -> OutboxState:
    match value:
        case "draft" | "new" | "sending" | "unknown" | "sent" | "failed":
            return value
    raise StoreError(f"A row of the outbox is in the unknown state {value!r}. Update nanobot.")
