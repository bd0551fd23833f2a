"""Past conversations in the index: what people and nanobot said, each passage with whose it is and when it was said.

A row belongs to the person who spoke with nanobot alone, to the owner of the home, or to the group in which it was
said; where nobody can tell, it is left out. Results of tools are not taken in: they are pages, and found again there.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from nanobot.library.forgotten import Forgets, ForgottenFacts
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document, DocumentPart
from nanobot.library.sections import pieces
from nanobot.messages import AssistantMessage, Media, Message, ToolMessage, UserMessage
from nanobot.session.listing import NOBODY, name_in, own_words, owner_of
from nanobot.session.store import COPIED, EVER, Record, SessionInfo, SessionStore

#: Records that are read at once, so that neither a turn nor the disk waits long.
_BATCH = 200
#: How far back is looked again for what another process has kept later than its time stamp says.
_OVERLAP = timedelta(minutes=10)
_LOOKED = "conversations"


class _SessionPlace(Struct, frozen=True):
    """How far a session is known: the last record, who spoke last, and whether content from outside stands in it."""

    seq: int = 0
    owner: str = NOBODY
    outside: bool = False

    @classmethod
    def of(cls, text: str) -> "_SessionPlace":
        if not text:
            return cls()
        seq, outside, owner = text.split(" ", 2)
        return cls(int(seq), owner, outside == "1")

    def __str__(self) -> str:
        return f"{self.seq} {self.outside:d} {self.owner}"


class Conversations:
    """Brings what a store keeps into the index, from where it stopped the last time, but for what people wanted
    forgotten, as `gone` has it."""

    def __init__(self, store: SessionStore, index: LibraryIndex, gone: ForgottenFacts | None = None) -> None:
        self._store = store
        self._index = index
        self._gone = gone
        self._forgets: Mapping[str, Forgets] = {}  # by owner, as it was at the last look
        self._one = asyncio.Lock()

    async def catch_up(self, seconds: float) -> bool:
        """Take in what is new; False where the time was over before all of it was. Raises `StoreError`.

        The disk is read beside turns, and the index is written by a thread.
        """
        end = time.monotonic() + seconds
        async with self._one:
            self._forgets = await self._gone.all() if self._gone is not None else {}
            looked = await asyncio.to_thread(self._index.progress, _LOOKED)
            last = looked
            for session in await self._store.changed(datetime.fromisoformat(looked) - _OVERLAP if looked else EVER):
                if not await self._follow(session, end):
                    return False
                last = max(last, session.updated_at.isoformat())
            if last != looked:
                await asyncio.to_thread(self._index.follow, _LOOKED, looked, last, ())
        return True

    async def forget_deleted(self) -> None:
        """Let go of conversations that the store does not have any more. Raises `StoreError`."""
        known = await asyncio.to_thread(self._index.documents, "talk")
        there = {session.id for session in await self._store.changed(EVER)}
        await asyncio.to_thread(self._index.drop, [one for one in known if one.name not in there])

    async def _follow(self, session: SessionInfo, end: float) -> bool:
        """Take in what is new of a session, a batch at a time."""
        name = f"session {session.id}"
        while True:
            seen = await asyncio.to_thread(self._index.progress, name)
            records = await self._store.transcript(session.id, after=_SessionPlace.of(seen).seq, limit=_BATCH)
            if not records:
                return True
            await asyncio.to_thread(self._take, session, name, seen, records)
            if time.monotonic() > end:
                return False

    def _take(self, session: SessionInfo, name: str, seen: str, records: tuple[Record, ...]) -> None:
        place = _SessionPlace.of(seen)
        said: dict[str, list[DocumentPart]] = defaultdict(list)
        for record in records:
            place = _after(place, session.key, record)
            own = record.kind == "message" and record.turn != COPIED  # a branch begins with what is known already
            if place.owner != NOBODY and own:
                forgets = self._forgets.get(place.owner)
                parts = _parts(record, outside=place.outside)
                said[place.owner] += [one for one in parts if forgets is None or not forgets(one.text, record.at)]
        added = [(Document("talk", owner, session.id, session.title), parts) for owner, parts in said.items()]
        self._index.follow(name, seen, str(place), added)


def _after(place: _SessionPlace, key: str, record: Record) -> _SessionPlace:
    """How far a session is known with one more record."""
    message = record.message
    owner = place.owner
    if isinstance(message, UserMessage) and message.kind != "notice":
        owner = owner_of(key, message.speaker, named=bool(name_in(message)))
    return _SessionPlace(record.seq, owner, place.outside or _from_outside(message))


def _from_outside(message: Message) -> bool:
    if isinstance(message, ToolMessage):
        return message.untrusted
    if isinstance(message, AssistantMessage):
        return bool(message.pages)
    return message.untrusted or any(isinstance(part, Media) for part in message.content)


def _parts(record: Record, *, outside: bool) -> Iterator[DocumentPart]:
    """What a record says, in pieces: the own words of a person, or an answer."""
    message, at = record.message, record.at.isoformat(timespec="seconds")
    if isinstance(message, AssistantMessage) and not message.calls:
        yield from (DocumentPart(text, "nanobot", at, outside) for text in pieces(message.text))
    elif isinstance(message, UserMessage) and message.kind != "notice":
        name = name_in(message)
        foreign = bool(name) or message.speaker == "guest"
        yield from (DocumentPart(text, name or message.speaker, at, foreign) for text in pieces(own_words(message)))
