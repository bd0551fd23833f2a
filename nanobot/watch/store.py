"""What is kept of watches in the ledger: what was last seen, what was told and when, and what briefings have told.

A look and what it tells are kept in one transaction under its due time, so that a look which is done again after a
crash tells the same, and tells it once.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from nanobot.session.database import Database, Transaction, stamp
from nanobot.watch.compare import Memory

#: Characters that are kept of one message.
_MOST_MESSAGE = 4_000
_PUT = """
INSERT INTO watch (job, state, calm) VALUES (:job, :state, 0)
ON CONFLICT (job) DO UPDATE SET state = excluded.state, calm = 0
"""
_TELL = """
INSERT INTO watch_told (job, due, at, text) VALUES (:job, :due, :at, :text) ON CONFLICT (job, due) DO NOTHING
"""
_BRIEF = """
INSERT INTO briefed (person, mark, turn, at) VALUES (:person, :mark, :turn, :at)
ON CONFLICT (person, mark) DO UPDATE SET turn = excluded.turn WHERE briefed.turn = :untold
"""


#: Stands in the place of a turn that has not told what it was given.
UNTOLD = "-"


class WatchState(Struct, frozen=True, kw_only=True):
    """What is kept of one watch: its memory, and by what an unchanged page is known (`etag`, `modified`, `digest`).

    `trouble` is the reason why it cannot be looked at, `failures` how often in a row; `said` tells that its person
    knows, `told_trouble` since when. Before `wait` it is not tried again.
    """

    memory: Memory = Memory()
    etag: str = ""
    modified: str = ""
    digest: str = ""
    trouble: str = ""
    failures: int = 0
    said: bool = False
    wait: datetime | None = None
    told_trouble: datetime | None = None


class Told(Struct, frozen=True, array_like=True):
    """One message of a watch."""

    job: int
    at: datetime
    text: str


class Briefed(Struct, frozen=True, array_like=True):
    """One mark of an item; `turn` is given it to tell, and is empty where it was told and `UNTOLD` where the turn that
    was given it has not told it."""

    mark: str
    turn: str
    at: datetime


class WatchStore:
    """The rows of watches. Raises `StoreError`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, job: int) -> tuple[WatchState, int]:
        """What is kept of a watch, and at how many looks since then nothing had changed."""
        query = "SELECT state, calm FROM watch WHERE job = :job"
        found = await self._database.read(lambda db: db.fetch(tuple[str, int], query, job=job))
        try:
            return (decode(found[0][0], type=WatchState), found[0][1]) if found else (WatchState(), 0)
        except (DecodeError, ValidationError):  # of another version: it gets to know the page anew
            return WatchState(), 0

    async def calm(self, job: int) -> None:
        """Nothing had changed."""
        await self._database.run(lambda db: db.change("UPDATE watch SET calm = calm + 1 WHERE job = :job", job=job))

    async def put(self, job: int, state: WatchState) -> None:
        text = encode(state).decode()
        await self._database.run(lambda db: db.change(_PUT, job=job, state=text), durable=True)

    async def tell(self, job: int, due: datetime, at: datetime, state: WatchState, text: str) -> None:
        """Keep a look together with what it tells."""

        async def work(db: Transaction) -> None:
            await db.change(_PUT, job=job, state=encode(state).decode())
            await db.change(_TELL, job=job, due=stamp(due), at=stamp(at), text=text[:_MOST_MESSAGE])

        await self._database.run(work, durable=True)

    async def told_at(self, job: int, due: datetime) -> str | None:
        """What the look of a due time has told; None where it was not done."""
        query = "SELECT text FROM watch_told WHERE job = :job AND due = :due"
        found = await self._database.read(lambda db: db.fetch(tuple[str], query, job=job, due=stamp(due)))
        return found[0][0] if found else None

    async def history(self, jobs: Collection[int], most: int = 30) -> tuple[Told, ...]:
        """What these watches have told, the newest first."""
        query = "SELECT job, at, text FROM watch_told ORDER BY at DESC"
        found = await self._database.read(lambda db: db.fetch(Told, query))
        return tuple(one for one in found if one.job in jobs)[:most]

    # Briefings

    async def briefed(self, person: str) -> tuple[Briefed, ...]:
        """What this person was told, and what turns were given to tell."""
        query = "SELECT mark, turn, at FROM briefed WHERE person = :person"
        return await self._database.read(lambda db: db.fetch(Briefed, query, person=person))

    async def brief(self, person: str, turn: str, marks: Sequence[str], at: datetime) -> None:
        """Keep the marks of what a turn is given to tell."""

        async def work(db: Transaction) -> None:
            for mark in marks:
                await db.change(_BRIEF, person=person, mark=mark, turn=turn, at=stamp(at), untold=UNTOLD)

        await self._database.run(work, durable=True)

    async def end_briefing(self, person: str, turn: str, *, told: bool) -> None:
        """What this turn was given counts as told from now on, or as not told."""
        change = "UPDATE briefed SET turn = :now WHERE person = :person AND turn = :turn"
        values = {"person": person, "turn": turn, "now": "" if told else UNTOLD}
        await self._database.run(lambda db: db.change(change, **values), durable=True)
