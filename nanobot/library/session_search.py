"""Sessions found by what was said in them, or by their titles: each with its best quotation and when that was said.

Who searches names whose words may be found; there is no search without.
"""

import asyncio
import re
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from nanobot.library.index import LibraryIndex
from nanobot.library.parts import FoundPart, Scope
from nanobot.library.talk import Conversations
from nanobot.session.listing import SessionHolder
from nanobot.session.store import EVER, SessionInfo, SessionStore
from nanobot.utils.passages import plain_text
from nanobot.utils.ranking import terms
from nanobot.utils.text import one_line, squeeze

#: Passages that are looked at, the share of the best one's words that another one has to hold, and characters of a
#: quotation, of which so many stand before the first word that was looked for.
_PASSAGES, _NEAR, _QUOTE, _BEFORE = 240, 0.6, 200, 60
#: Characters of a name, and sessions that are found.
_NAME, _MOST = 60, 20
#: Seconds that a search waits for conversations that are not in the index yet.
_CATCH_UP_SECONDS = 5.0
_WORD = re.compile(r"\S+")


class FoundSession(Struct, frozen=True):
    """A session, the best `quote` of it with who said that (`speaker`: a role, a name, or nanobot) and when.

    `quote`, `speaker` and `said_at` are empty where only its title has the words; `passages` is how many fit.
    """

    info: SessionInfo
    quote: str = ""
    speaker: str = ""
    said_at: datetime | None = None
    passages: int = 0


class FoundSessions(Struct, frozen=True):
    """The sessions, best first; `complete` is False while the index does not have all conversations yet."""

    sessions: tuple[FoundSession, ...]
    complete: bool


class SessionSearch:
    """Finds sessions of a store through the index, into which `talk` brings what is new first."""

    def __init__(self, store: SessionStore, index: LibraryIndex, talk: Conversations) -> None:
        self._store = store
        self._index = index
        self._talk = talk

    async def find(self, words: str, holder: SessionHolder) -> FoundSessions:
        """The sessions that the holder may see that have the words. Raises `StoreError`."""
        complete = await self._talk.catch_up(_CATCH_UP_SECONDS)
        there = {one.id: one for one in await self._store.changed(EVER)}
        found = await asyncio.to_thread(self._found, words, holder, there)
        return FoundSessions(found[:_MOST], complete)

    def _found(self, words: str, holder: SessionHolder, there: Mapping[str, SessionInfo]) -> tuple[FoundSession, ...]:
        """Those with the words in what was said, best first, and those that have them in the title alone."""
        known = self._index.documents("talk")
        owners = holder.owners(one.owner for one in known)
        scopes: list[Scope] = [("talk", one) for one in owners]
        found = self._index.search(words, scopes, limit=_PASSAGES, whole=True, among=_PASSAGES)
        told: dict[str, FoundSession] = {}
        for one in found:
            name = one.document.name
            if name in told:
                told[name] = replace(told[name], passages=told[name].passages + 1)
            elif name in there and one.cover >= found[0].cover * _NEAR:
                told[name] = _quoted(there[name], one, words)
        for talk in known:
            info = there.get(talk.name)
            if info is not None and info.id not in told and talk.owner in owners and _named(info, words):
                told[info.id] = FoundSession(info)
        return tuple(told.values())


def _quoted(info: SessionInfo, found: FoundPart, words: str) -> FoundSession:
    part = found.part
    speaker = one_line(part.place, _NAME)  # in a group it is a name that somebody chose
    return FoundSession(info, _around(part.text, words), speaker, datetime.fromisoformat(part.at), 1)


def _around(text: str, words: str) -> str:
    """The place in a text where the first of the words stands, on one line."""
    said, wanted = squeeze(plain_text(text)), frozenset(terms(words))
    place = next((match.start() for match in _WORD.finditer(said) if not wanted.isdisjoint(terms(match[0]))), 0)
    begin = said.rfind(" ", 0, max(0, place - _BEFORE) + 1) + 1 if place > _BEFORE else 0
    if place - begin > 2 * _BEFORE:  # a script without blanks
        begin = place
    return f"{'…' * (begin > 0)}{said[begin : begin + _QUOTE]}{'…' * (len(said) > begin + _QUOTE)}"


def _named(info: SessionInfo, words: str) -> bool:
    wanted = terms(words)
    return bool(wanted) and set(wanted) <= set(terms(info.title))
