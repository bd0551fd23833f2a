"""What keeps failing is told once, with its cause and what to do, until it has been well again.

Whoever fails says so with `failed`, whoever succeeds with `well`; both return at once. After `IN_A_ROW` failures of one
kind without a success the person in charge gets one message. What was counted and told is kept as notes, so that a
restart neither forgets it nor says it again.
"""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Protocol

import msgspec
from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import NanobotError, StoreError
from nanobot.utils.logs import scrub
from nanobot.utils.translation import N_, Later, told

#: Failures of one kind after which the person in charge is told.
IN_A_ROW = 3
#: Seconds until a message that could not be told, or a count that could not be kept, is tried again.
RETRY_SECONDS = 30.0
#: What waits to be counted at most; a burst of failures needs no more to be known.
_MOST_WAITING = 1_000
CRASH, STORE = "crash", "store"
_PREFIX = "alarm:"
_LONGEST_CAUSE = 400


class Trouble(Struct, frozen=True):
    """One failure. `kind` names what is counted together, such as `model openai gpt-x auth`.

    `what` begins the sentence (`The model gpt-x (openai)`), `cause` is what happened this time, `advice` what to do:
    a command, or a key of the configuration; a `Later` is put into the language of who is told.
    """

    kind: str
    what: str
    cause: str
    advice: str


class Alarm(Struct, frozen=True):
    """A message for the person in charge. `key` is the same whenever the same row of failures is told again."""

    key: str
    said: str

    @property
    def text(self) -> str:
        """The message in the language that is spoken where it is told."""
        return told(self.said)


def crashed(cause: str) -> Trouble:
    """A message was set aside because nanobot died while it worked on it. Any turn that completes ends the row."""
    return Trouble(
        CRASH,
        Later(N_("Working on a message")),
        cause,
        Later(
            N_(
                "The last lines of the log before each start tell what was being done; where there is nothing, the "
                "machine may lack memory (journalctl -u nanobot, dmesg)."
            )
        ),
    )


class Notes(Protocol):
    """Small facts that outlive the process; met by the ledger. Methods raise `StoreError`."""

    async def notes(self, prefix: str) -> Mapping[str, str]: ...

    async def set_notes(self, changes: Mapping[str, str | None]) -> None: ...


#: Tells the person in charge; False where nobody can be told now. Raises `NanobotError` where it went wrong.
Tell = Callable[[Alarm], Awaitable[bool]]


class _Row(Struct, frozen=True):
    """Failures in a row: the last of them, how many, since when (ISO, UTC), and whether they were told."""

    last: Trouble
    count: int
    since: str
    told: bool = False

    @property
    def due(self) -> bool:
        return self.count >= IN_A_ROW and not self.told


class Alarms:
    """Counts failures in rows. `run` does the counting; what is reported before it runs waits for it."""

    def __init__(self, *, retry: float = RETRY_SECONDS) -> None:
        self._retry = retry
        self._notes: Notes | None = None
        self._tell: Tell | None = None
        self._reported: deque[Trouble | str] = deque(maxlen=_MOST_WAITING)
        self._to_say: deque[Alarm] = deque(maxlen=_MOST_WAITING)
        self._rows: dict[str, _Row] = {}
        self._unkept: set[str] = set()
        self._over: set[str] = set()  # what stands in the notes of these is of a row that has ended
        self._loaded = False
        self._more = asyncio.Event()

    def through(self, tell: Tell, notes: Notes | None = None) -> None:
        """Say how the person in charge is told, and where counts are kept; they live in memory without `notes`."""
        self._tell, self._notes = tell, notes
        self._loaded = notes is None
        self._more.set()

    def say(self, alarm: Alarm) -> None:
        """Tell the person in charge this once, whenever somebody can be told."""
        self._to_say.append(alarm)
        self._more.set()

    def failed(self, trouble: Trouble) -> None:
        """Count one failure."""
        self._reported.append(trouble)
        self._more.set()

    def well(self, prefix: str) -> None:
        """Something succeeded: every row whose kind begins with `prefix` is over."""
        said_already = self._reported and self._reported[-1] == prefix
        if not said_already and (self._rows or self._reported or not self._loaded):
            self._reported.append(prefix)
            self._more.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run beside what is inside."""
        task = asyncio.create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and (problem := task.exception()) is not None:
                logger.opt(exception=problem).error("the alarms broke")  # English: the log

    async def run(self) -> None:
        """Count and tell until cancelled."""
        while True:
            self._more.clear()
            try:
                done = self._tell is None or await self._work_off(self._tell)
            except NanobotError as error:
                logger.warning("an alarm waits: {}", error)
                done = False
            if done:
                await self._more.wait()
            else:  # not sooner: an attempt that fails may itself be reported
                await asyncio.sleep(self._retry)

    async def _work_off(self, tell: Tell) -> bool:
        """Count what was reported and tell what is due; False where nobody could be told now."""
        while self._to_say:
            if not await tell(self._to_say[0]):
                return False
            self._to_say.popleft()
        try:
            await self._look_up()
        except StoreError:
            self._count()
            await self._tell_due(tell, {STORE})  # of what keeps nothing the owner is told without a note
            raise
        told = await self._tell_due(tell, self._rows)
        await self._keep()
        return told

    async def _look_up(self) -> None:
        """Count what was reported, with what other processes have noted, and note it."""
        if not self._loaded:  # what an earlier process has counted
            self._rows = await self._kept("") | self._rows
            self._loaded = True
        self._count()
        for kind in [kind for kind, row in self._rows.items() if row.due and kind not in self._over]:
            other = (await self._kept(kind)).get(kind)
            if other is not None and other.told:  # another process on the same store has told it
                self._rows[kind] = replace(self._rows[kind], since=other.since, told=True)
        await self._keep()

    async def _tell_due(self, tell: Tell, kinds: Container[str]) -> bool:
        told = True
        for kind, row in [(kind, row) for kind, row in self._rows.items() if row.due and kind in kinds]:
            alarm = Alarm(_key(kind, row.since), _sentence(row))
            if not await tell(alarm):
                told = False
                continue
            logger.warning("the owner is told: {}", alarm.said)
            self._rows[kind] = replace(row, told=True)
            self._unkept.add(kind)
        return told

    def _count(self) -> None:
        while self._reported:
            one = self._reported.popleft()
            if isinstance(one, Trouble):
                self._add(one)
                continue
            over = [kind for kind in self._rows if kind.startswith(one)]
            for kind in over:
                logger.info("works again: {}", kind)
                del self._rows[kind]
            self._unkept.update(over)
            self._over.update(over)

    def _add(self, trouble: Trouble) -> None:
        cause = scrub(" ".join(trouble.cause.split()))[:_LONGEST_CAUSE].rstrip(".。")
        last = trouble if cause == trouble.cause else replace(trouble, cause=cause)  # which may be a `Later`
        row = self._rows.get(trouble.kind) or _Row(last, 0, datetime.now(UTC).isoformat(timespec="microseconds"))
        if row.count < IN_A_ROW:  # beyond that, nothing new is worth a write
            self._unkept.add(trouble.kind)
        self._rows[trouble.kind] = replace(row, last=last, count=row.count + 1)

    async def _kept(self, prefix: str) -> dict[str, _Row]:
        rows: dict[str, _Row] = {}
        found = await self._notes.notes(_PREFIX + prefix) if self._notes is not None else {}
        for key, text in found.items():
            try:
                rows[key.removeprefix(_PREFIX)] = msgspec.json.decode(text, type=_Row)
            except msgspec.DecodeError:
                logger.warning("the note {} cannot be read and is left out", key)
        return rows

    async def _keep(self) -> None:
        rows = {_PREFIX + kind: self._rows.get(kind) for kind in self._unkept}
        if self._notes is not None and rows:
            changes = {
                key: msgspec.json.encode(row, enc_hook=str).decode() if row else None for key, row in rows.items()
            }
            await self._notes.set_notes(changes)
        self._unkept.clear()
        self._over.clear()


def _key(kind: str, since: str) -> str:
    return "alarm-" + hashlib.sha256(json.dumps([kind, since]).encode()).hexdigest()[:16]


def _sentence(row: _Row) -> Later:
    last = row.last
    message = N_(
        "{what} failed {count} times in a row. The last time: {cause}. {advice} I say this once, until it works again."
    )
    return Later(message, what=last.what, count=row.count, cause=last.cause, advice=last.advice)
