"""What a store is built on: statements in transactions. SQLite and PostgreSQL each have a `Database` of their own.

A statement is SQL that both understand, with values by name (`:name`). It runs inside a work: a coroutine that gets a
`Transaction` and awaits nothing else, so that it may also run on a thread that has no event loop.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from loguru import logger

from nanobot.errors import StoreError

T = TypeVar("T")
Value = str | int | float
Clock = Callable[[], datetime]
#: Seconds between attempts while the disk refuses.
DISK_PAUSE = 5.0


class Transaction(Protocol):
    """What a work may do: all of it is kept, or none."""

    async def change(self, statement: str, /, **values: Value) -> int:
        """Change rows; how many there were."""

    async def send(self, statement: str, /, **values: Value) -> None:
        """Change rows, however many: it may go out with what comes behind it, in one trip."""

    async def fetch(self, row: type[T], query: str, /, **values: Value) -> tuple[T, ...]:
        """What a query finds; `row` is the type of one row, a tuple or an array-like struct."""

    async def each(self, row: type[T], query: str, *values: Mapping[str, Value]) -> tuple[T, ...]:
        """What a query finds with each of these values, in their order; one trip to a database that is elsewhere."""


#: What is done in a transaction.
Work = Callable[[Transaction], Coroutine[object, None, T]]


class Database(Protocol):
    """Where everything is kept. Work that has begun goes on to its end when its caller is cancelled.

    Raises `StoreError` where the database cannot be used; what a work raises itself passes through.
    """

    #: Where it is, for a person.
    place: str
    #: The name of this process among those that share the database; empty where it is alone.
    worker: str
    #: SQL for the id in the JSON `message` of a user, and for the members of a JSON array that is the value `without`.
    request: str
    members: str

    async def run(self, work: Work[T], *, durable: bool = False, fenced: bool = False, again: bool = False) -> T:
        """Do a work that changes something. `durable` waits until it is safe also if power fails now.

        `fenced` is refused where this process was taken for dead and its work was given to others. What may be done
        `again`, though it was kept, is done so where nobody knows whether it was.
        """

    async def read(self, work: Work[T], *, long: bool = False) -> T:
        """Do a work that only reads, of what was kept before this call; a `long` one lets others go on beside it."""

    async def tidy(self) -> None:
        """Let nothing that was deleted stay behind in a log of changes, as far as no other process reads it now."""

    async def hold(self, session_id: str) -> str:
        """Take a session for one turn; empty where it is taken now, else who has it. It ends with this process."""

    async def drop(self, session_id: str) -> None:
        """Give back a session that this process holds."""

    async def aclose(self) -> None: ...


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def stamp(at: datetime) -> str:
    """A time as the tables keep it: in UTC and of fixed width, so that texts sort as times do."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


async def until_stored(work: Callable[[], Awaitable[T]]) -> T:
    """Try until the store takes it: what is owed to a person does not depend on a full disk or on the next start."""
    while True:
        try:
            return await work()
        except StoreError as error:
            logger.error("this cannot be written down yet and is tried again: {}", error)
            await asyncio.sleep(DISK_PAUSE)
