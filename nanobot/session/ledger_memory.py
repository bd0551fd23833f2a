"""A ledger that lives as long as the process: for tests, and for channels whose messages need no memory."""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from nanobot.session.ledger import (
    MOST_ATTEMPTS,
    SUSPECT_AFTER,
    Arrival,
    Closing,
    Counts,
    InboxRow,
    InboxState,
    OutboxItem,
    OutboxRow,
    OutboxState,
    Recovery,
)
from nanobot.session.memory import MemorySessionStore

Clock = Callable[[], datetime]


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


class MemoryLedger:
    """The `Ledger` of one process; nothing is written anywhere. Every method is done before it awaits anything."""

    def __init__(self, *, clock: Clock = now) -> None:
        self._clock = clock
        self._inbox: dict[int, InboxRow] = {}
        self._outbox: dict[int, OutboxRow] = {}
        self._notes: dict[str, str] = {}
        self._last = [0, 0]
        self._leases: dict[str, tuple[str, datetime]] = {}
        self.sessions = MemorySessionStore()

    async def accept(self, channel: str, arrivals: tuple[Arrival, ...]) -> tuple[InboxRow, ...]:
        known = {row.id for row in self._inbox.values() if row.channel == channel}
        fresh: list[InboxRow] = []
        for one in arrivals:
            if one.id not in known:
                known.add(one.id)
                row = InboxRow(self._next(0), channel, one.id, one.payload, one.key, "new", 0, "", self._clock())
                self._inbox[row.seq] = row
                fresh.append(row)
        return tuple(fresh)

    async def claim(self, rows: tuple[int, ...]) -> tuple[InboxRow, ...]:
        found = [row for row in self._rows(rows) if row.state == "new"]
        for row in found:
            self._inbox[row.seq] = replace(row, state="claimed", batch=rows[0])
        return tuple(self._inbox[row.seq] for row in found)

    async def wait(self, rows: tuple[int, ...]) -> None:
        self._move(rows, {"claimed"}, "waiting")

    async def start(self, rows: tuple[int, ...]) -> None:
        self._move(rows, {"waiting"}, "claimed")

    async def release(self, rows: tuple[int, ...]) -> None:
        self._move(rows, {"claimed", "waiting"}, "new")

    async def bury(self, rows: tuple[int, ...], reason: str, items: tuple[OutboxItem, ...] = ()) -> None:
        self._settle(rows, "dead", reason)
        await self.put(items)

    async def recover(self, channel: str) -> Recovery:
        own = [row for row in self._inbox.values() if row.channel == channel and row.attempts < MOST_ATTEMPTS]
        alone = len({row.batch for row in own if row.state == "claimed"}) == 1
        for row in own:
            if row.state in {"new", "waiting", "claimed"}:
                count = row.attempts + (row.state == "claimed")
                count = count if alone else min(count, SUSPECT_AFTER)
                self._inbox[row.seq] = replace(row, state="new" if count < MOST_ATTEMPTS else "claimed", attempts=count)
        parked = [row for row in self._inbox.values() if row.channel == channel and row.state == "claimed"]
        for out in self._outbox.values():
            if out.item.channel == channel and out.state == "sending":
                self._outbox[out.seq] = replace(out, state="unknown")
        waiting = [row for row in self._inbox.values() if row.channel == channel and row.state == "new"]
        return Recovery(tuple(waiting), tuple(parked))

    async def finish(
        self, rows: tuple[int, ...], items: tuple[OutboxItem, ...] = (), closing: Closing | None = None
    ) -> tuple[OutboxRow, ...]:
        if closing is not None:
            await self.sessions.append(closing.session, closing.messages, turn=closing.turn)
        self._settle(rows, "done", "")
        return await self.put(items)

    async def hold(self, name: str, holder: str, seconds: float) -> bool:
        known, until = self._leases.get(name, ("", self._clock()))
        if until > self._clock() and known != holder:
            return False
        self._leases[name] = (holder, self._clock() + timedelta(seconds=seconds))
        return True

    async def put(self, items: tuple[OutboxItem, ...]) -> tuple[OutboxRow, ...]:
        return tuple(self._put(item, "new") for item in items)

    async def draft(self, item: OutboxItem) -> OutboxRow | None:
        open_rows = [row.item for row in await self.pending(item.channel) if row.item.chat == item.chat]
        known = any((row.item.turn, row.item.part) == (item.turn, item.part) for row in self._outbox.values())
        return None if not known and any(one.turn != item.turn for one in open_rows) else self._put(item, "draft")

    async def drafts(self, turn: str) -> tuple[OutboxRow, ...]:
        found = [row for row in self._outbox.values() if row.item.turn == turn and row.state == "draft"]
        return tuple(sorted(found, key=lambda row: row.item.part))

    async def bind(self, seq: int, message_id: str) -> None:
        self._change(seq, message_id=message_id)

    async def due(self, channel: str, *, without: Collection[str] = (), limit: int = 50) -> tuple[OutboxRow, ...]:
        at, held, due = self._clock(), set(without), list[OutboxRow]()
        for row in await self.pending(channel):
            if row.state == "sending" or (row.item.not_before is not None and row.item.not_before > at):
                held.add(row.item.chat)
            elif row.item.chat not in held:
                due.append(row)
        return tuple(due[:limit])

    async def begin(self, seq: int) -> bool:
        row = self._outbox.get(seq)
        if row is None or row.state not in {"new", "unknown"}:
            return False
        self._outbox[seq] = replace(row, state="sending")
        return True

    async def ack(self, seq: int, message_id: str = "") -> None:
        row = self._outbox.get(seq)
        if row is not None:
            self._outbox[seq] = replace(row, state="sent", message_id=message_id or row.message_id, at=self._clock())

    async def postpone(self, seq: int, until: datetime, *, unsure: bool = False) -> None:
        row = self._outbox.get(seq)
        if row is not None:
            item = replace(row.item, not_before=until)
            state: OutboxState = "unknown" if unsure else "new"
            self._outbox[seq] = replace(row, item=item, state=state, attempts=row.attempts + 1)

    async def fail(self, seq: int, reason: str) -> None:
        row = self._outbox.get(seq)
        if row is not None:
            self._outbox[seq] = replace(row, state="failed", reason=reason, at=self._clock())

    async def pending(self, channel: str) -> tuple[OutboxRow, ...]:
        states = {"new", "sending", "unknown"}
        return tuple(row for row in self._outbox.values() if row.item.channel == channel and row.state in states)

    async def note(self, key: str) -> str | None:
        return self._notes.get(key)

    async def notes(self, prefix: str) -> Mapping[str, str]:
        return {key: self._notes[key] for key in sorted(self._notes) if key.startswith(prefix)}

    async def set_notes(self, changes: Mapping[str, str | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self._notes.pop(key, None)
            else:
                self._notes[key] = value

    async def purge(self, before: datetime) -> int:
        old_in = [row.seq for row in self._inbox.values() if row.state in {"done", "dead"} and row.at < before]
        old_out = [
            row.seq for row in self._outbox.values() if row.state in {"draft", "sent", "failed"} and row.at < before
        ]
        self._leases = {name: one for name, one in self._leases.items() if one[1] >= before}
        for seq in old_in:
            del self._inbox[seq]
        for seq in old_out:
            del self._outbox[seq]
        return len(old_in) + len(old_out)

    async def counts(self, channel: str) -> Counts:
        inbox: dict[InboxState, int] = {}
        outbox: dict[OutboxState, int] = {}
        for row in self._inbox.values():
            if row.channel == channel:
                inbox[row.state] = inbox.get(row.state, 0) + 1
        for out in self._outbox.values():
            if out.item.channel == channel:
                outbox[out.state] = outbox.get(out.state, 0) + 1
        return Counts(inbox, outbox)

    async def aclose(self) -> None:
        return None

    def _next(self, table: int) -> int:
        self._last[table] += 1
        return self._last[table]

    def _rows(self, rows: Iterable[int]) -> list[InboxRow]:
        return [self._inbox[seq] for seq in rows if seq in self._inbox]

    def _move(self, rows: Iterable[int], before: set[InboxState], after: InboxState) -> None:
        for row in self._rows(rows):
            if row.state in before:
                self._inbox[row.seq] = replace(row, state=after)

    def _settle(self, rows: Iterable[int], state: InboxState, reason: str) -> None:
        for row in self._rows(rows):
            if row.state not in {"done", "dead"}:
                self._inbox[row.seq] = replace(row, state=state, reason=reason, at=self._clock())

    def _put(self, item: OutboxItem, state: OutboxState) -> OutboxRow:
        place = (item.turn, item.part)
        old = next((row for row in self._outbox.values() if (row.item.turn, row.item.part) == place), None)
        if old is None:
            row = OutboxRow(self._next(1), item, state, 0, "", "", self._clock())
        elif old.state == "draft" and state == "new":
            row = replace(old, item=item, state="new" if old.message_id else "unknown")
        else:
            return old
        self._outbox[row.seq] = row
        return row

    def _change(self, seq: int, *, message_id: str) -> None:
        row = self._outbox.get(seq)
        if row is not None:
            self._outbox[seq] = replace(row, message_id=message_id)
