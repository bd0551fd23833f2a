"""What keeps failing is told once, with its cause and what to do, until it has been well again.

Whoever fails says so with `failed`, whoever succeeds with `well`; both return at once. After `IN_A_ROW` failures of one
kind without a success the person in charge gets one message. What was counted and told is kept as notes, so that a
restart neither forgets it nor says it again.
"""

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Protocol

import msgspec
from loguru import logger
from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import NanobotError
from nanobot.utils.logs import scrub

#: Failures of one kind after which the person in charge is told.
IN_A_ROW = 3
#: Seconds until a message that could not be told, or a count that could not be kept, is tried again.
RETRY_SECONDS = 30.0
#: What waits to be counted at most; a burst of failures needs no more to be known.
_MOST_WAITING = 1_000
CRASH = "crash"
_PREFIX = "alarm:"
_LONGEST_CAUSE = 400


class Trouble(Struct, frozen=True):
    """One failure. `kind` names what is counted together, such as `model openai gpt-x auth`.

    `what` begins the sentence (`The model gpt-x (openai)`), `cause` is what happened this time, `advice` what to do:
    a command, or a key of the configuration.
    """

    kind: str
    what: str
    cause: str
    advice: str


class Alarm(Struct, frozen=True):
    """A message for the person in charge. `key` is the same whenever the same row of failures is told again."""

    key: str
    text: str


def crashed(cause: str) -> Trouble:
    """A message was set aside because nanobot died while it worked on it. Any turn that completes ends the row."""
    return Trouble(
        CRASH,
        "Working on a message",
        cause,
        "The last lines of the log before each start tell what was being done; where there is nothing, the machine may "
        "lack memory (journalctl -u nanobot, dmesg).",
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


class Alarms:
    """Counts failures in rows. `run` does the counting; what is reported before it runs waits for it."""

    def __init__(self, *, retry: float = RETRY_SECONDS, clock: Callable[[], datetime] | None = None) -> None:
        self._retry = retry
        self._clock = clock or (lambda: datetime.now(UTC))
        self._notes: Notes | None = None
        self._tell: Tell | None = None
        self._reported: deque[Trouble | str] = deque(maxlen=_MOST_WAITING)
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

    def failed(self, trouble: Trouble) -> None:
        """Count one failure."""
        self._reported.append(trouble)
        self._more.set()

    def well(self, prefix: str) -> None:
        """Something succeeded: every row whose kind begins with `prefix` is over."""
        if self._rows or self._reported or not self._loaded:
            if self._reported and self._reported[-1] == prefix:
                return
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
                logger.opt(exception=problem).error("the alarms broke")

    async def run(self) -> None:
        """Count and tell until cancelled."""
        while True:
            if await self._turn():
                await self._more.wait()
            else:  # not sooner: an attempt that fails may itself be reported
                await asyncio.sleep(self._retry)

    async def _turn(self) -> bool:
        """Work off what was reported; False where something has to be tried again."""
        self._more.clear()
        if self._tell is None:
            return True
        try:
            await self._load()
            self._count()
            await self._learn()
            await self._keep()
            return await self._tell_due(self._tell)
        except NanobotError as error:
            self._count()
            logger.warning("an alarm waits: {}", error)
            return False

    async def _load(self) -> None:
        """What an earlier process has counted."""
        if not self._loaded:
            for kind, row in (await self._kept("")).items():
                self._rows.setdefault(kind, row)
            self._loaded = True

    async def _kept(self, prefix: str) -> dict[str, _Row]:
        rows: dict[str, _Row] = {}
        found = await self._notes.notes(_PREFIX + prefix) if self._notes is not None else {}
        for key, text in found.items():
            try:
                rows[key.removeprefix(_PREFIX)] = msgspec.json.decode(text, type=_Row)
            except msgspec.DecodeError:
                logger.warning("the note {} cannot be read and is left out", key)
        return rows

    def _count(self) -> None:
        while self._reported:
            one = self._reported.popleft()
            if isinstance(one, str):
                over = [kind for kind in self._rows if kind.startswith(one)]
                for kind in over:
                    logger.info("works again: {}", kind)
                    del self._rows[kind]
                self._unkept.update(over)
                self._over.update(over)
            else:
                self._add(one)

    def _add(self, trouble: Trouble) -> None:
        last = replace(trouble, cause=scrub(" ".join(trouble.cause.split()))[:_LONGEST_CAUSE].rstrip("."))
        row = self._rows.get(trouble.kind) or _Row(last, 0, self._clock().isoformat(timespec="microseconds"))
        if row.count < IN_A_ROW:  # beyond that, nothing new is worth a write
            self._unkept.add(trouble.kind)
        self._rows[trouble.kind] = replace(row, last=last, count=row.count + 1)

    async def _learn(self) -> None:
        """Another process on the same store may have told what is due here."""
        for kind, row in self._due():
            other = None if kind in self._over else (await self._kept(kind)).get(kind)
            if other is not None and other.told:
                self._rows[kind] = replace(row, since=other.since, told=True)

    def _due(self) -> list[tuple[str, _Row]]:
        return [(kind, row) for kind, row in self._rows.items() if not row.told and row.count >= IN_A_ROW]

    async def _keep(self) -> None:
        if self._notes is None:
            self._unkept.clear()
        elif self._unkept:
            kinds = tuple(self._unkept)
            await self._notes.set_notes({f"{_PREFIX}{kind}": self._text(kind) for kind in kinds})
            self._unkept.difference_update(kinds)
        self._over.clear()

    def _text(self, kind: str) -> str | None:
        row = self._rows.get(kind)
        return msgspec.json.encode(row).decode() if row else None

    async def _tell_due(self, tell: Tell) -> bool:
        everybody = True
        for kind, row in self._due():
            alarm = Alarm(_key(kind, row.since), _sentence(row))
            if not await tell(alarm):
                everybody = False
                continue
            logger.warning("the owner is told: {}", alarm.text)
            if kind in self._rows:
                self._rows[kind] = replace(self._rows[kind], told=True)
                self._unkept.add(kind)
        await self._keep()
        return everybody


def _key(kind: str, since: str) -> str:
    return "alarm-" + hashlib.sha256(json.dumps([kind, since]).encode()).hexdigest()[:16]


def _sentence(row: _Row) -> str:
    last = row.last
    return (
        f"{last.what} failed {row.count} times in a row. The last time: {last.cause}. {last.advice} "
        "I say this once, until it works again."
    )
