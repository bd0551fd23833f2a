"""What was said in a chat beside its conversation, until its model is told of it: by reminders, watches and tasks.

It stands in the notes of the ledger, a list for each chat, and is taken from there once.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import DecodeError, Struct, ValidationError
from msgspec.json import decode, encode

from nanobot.session.database import Database, Transaction
from nanobot.session.ledger import HEARD, NOTE
from nanobot.session.store import EVER
from nanobot.utils.text import shorten

#: Characters of one of them, and of all together: a model reads them with the next message.
_ONE, _ALL = 800, 4_000
_READ = "SELECT value FROM note WHERE key = :key"


class Heard(Struct, frozen=True, array_like=True):
    """Something that was said in a chat: when, by what (`reminder`, `watch`, `task`, `briefing`), and the words.

    `foreign`: the words hold content from outside.
    """

    at: datetime
    by: str
    text: str
    foreign: bool = True


async def hear(db: Transaction, chat: str, said: Heard) -> None:
    """Keep what was said in a chat until its model is told, in a transaction of the caller's; the oldest gives way."""
    key = f"{HEARD}{chat}"
    kept = [Heard(said.at, said.by, shorten(said.text.strip(), _ONE), said.foreign)]
    room = _ALL - len(kept[0].text)
    for one in reversed(_entries(await db.fetch(tuple[str, ...], _READ, key=key))):
        room -= len(one.text)
        if room < 0:
            break
        kept.insert(0, one)
    await db.change(NOTE, key=key, value=encode(kept).decode())


async def take(database: Database, chat: str) -> tuple[Heard, ...]:
    """What was said in a chat since this was asked last, the oldest first."""
    key = f"{HEARD}{chat}"

    async def work(db: Transaction) -> tuple[Heard, ...]:
        rows = await db.fetch(tuple[str, ...], _READ, key=key)
        await db.change("DELETE FROM note WHERE key = :key", key=key)
        return tuple(_entries(rows))

    return await database.run(work, durable=True)


def _entries(rows: Sequence[tuple[str, ...]]) -> list[Heard]:
    """What a note holds; that of an earlier version is a text of watches."""
    try:
        return decode(rows[0][0], type=list[Heard]) if rows else []
    except (DecodeError, ValidationError):
        return [Heard(EVER, "watch", shorten(rows[0][0], _ONE))]
