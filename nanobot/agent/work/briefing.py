"""What is new for a briefing. Which items were told, are dated and are not old is decided here and not by a model."""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.work.looks import Sight, is_empty_feed
from nanobot.agent.work.runs import is_silent
from nanobot.errors import NanobotError, StoreError, UsageError
from nanobot.messages import AssistantMessage
from nanobot.results import ToolResult
from nanobot.session.database import Clock, now
from nanobot.session.store import SessionStore
from nanobot.utils.translation import _, _n, apart
from nanobot.watch.items import NewsItem, feed_items, found_items, reportable
from nanobot.watch.store import UNTOLD, Told, WatchStore
from nanobot.watch.target import WatchTarget, read_target
from nanobot.web.fetch.page import PageRequest
from nanobot.web.urls import host_of

#: Sources of one briefing, its items, and the characters of one that a watch has told.
MOST_SOURCES, MOST_ITEMS, _EXCERPT = 20, 40, 400
#: A briefing goes back so far before the one before it, for what came with a delay; and the first before now.
_BACK = timedelta(days=1)
#: For how long that is told again which a turn was given and has not told.
_AGAIN = timedelta(days=3)
#: Turns whose items wait to be asked for, and when a turn that has not ended will tell nothing any more.
_MOST_WAITING, _GIVEN_UP = 16, timedelta(days=1)
_SOURCE = re.compile(r"https?://|search\s*:", re.IGNORECASE)
_PARTS = re.compile(rf"[\n;]+|,\s+(?={_SOURCE.pattern})", re.IGNORECASE)
# English: a model reads it
_NOTHING = "Nothing is new since the last briefing. Do not look elsewhere: tell nothing."


class Gathered(Struct, frozen=True):
    """What is new in sources now; `failed` are those that could not be read, with the reason, of `asked` in all."""

    items: tuple[NewsItem, ...]
    failed: tuple[str, ...] = ()
    asked: int = 0


class Briefings:
    """Gathers what is new and keeps what was told. Raises `UsageError` and `StoreError`.

    An item counts as told when the turn that was given it has ended with an answer: then the answer stands in the
    conversation, which is kept in the transaction that puts it into the outbox. Until then it is that turn's to tell,
    and after a turn without an answer it is new again.
    """

    def __init__(self, store: WatchStore, sight: Sight, sessions: SessionStore, clock: Clock = now) -> None:
        self._store = store
        self._sight = sight
        self._sessions = sessions
        self._clock = clock
        self._found: dict[str, Gathered] = {}  # by turn and sources, what a turn is about to ask for

    async def anything(self, sources: Sequence[WatchTarget], told: Sequence[Told], person: str, turn: str) -> bool:
        """Whether anything is new, before a model is asked; `news` of that turn is given what was found here.

        Raises `UsageError` where no source could be read.
        """
        found = await self._gathered(sources, told, person, _named(turn, sources))
        if found.failed and len(found.failed) == found.asked and not found.items:
            why = apart(found.failed)
            raise UsageError(_("No source of the briefing could be read: {reasons}", reasons=why))
        if found.items:
            while len(self._found) >= _MOST_WAITING:
                del self._found[next(iter(self._found))]
            self._found[_named(turn, sources)] = found
        return bool(found.items)

    async def news(self, sources: Sequence[WatchTarget], told: Sequence[Told], context: ToolContext) -> ToolResult:
        """The items of these sources, and what watches have told, that no earlier briefing of this person told.

        The same call of the same turn is given the same again.
        """
        at, turn = self._clock(), _named(context.turn_id, sources)
        found = self._found.pop(turn, None) or await self._gathered(sources, told, context.person, turn)
        items = found.items
        await self._store.brief(context.person, turn, [mark for item in items for mark in item.marks], at)
        # English: a model reads it
        failed = "".join(f"\nCould not be read: {reason}" for reason in found.failed)
        if not items:
            return ToolResult(_NOTHING + failed, _("nothing new"), untrusted=bool(failed))
        return _result(items, failed, context, at)

    async def _gathered(self, sources: Sequence[WatchTarget], told: Sequence[Told], person: str, turn: str) -> Gathered:
        """What of these sources, and of what watches have told, is this turn's to tell."""
        at = self._clock()
        known, since = await self._known(person, turn, at)
        found = await self._read(sources)
        items = reportable((*map(_changed, told), *found.items), known, since, at)[:MOST_ITEMS]
        return Gathered(tuple(items), found.failed, found.asked)

    async def _known(self, person: str, turn: str, at: datetime) -> tuple[frozenset[str], datetime]:
        """The marks of what was told, or is another turn's to tell, and since when there may be something new."""
        rows = await self._store.briefed(person)
        for name in {one.turn for one in rows} - {"", UNTOLD, turn}:
            told, begun = await self._end(name), max(one.at for one in rows if one.turn == name)
            if told is not None or at - begun > _GIVEN_UP:
                await self._store.end_briefing(person, name, told=bool(told))
                now_ = "" if told else UNTOLD
                rows = tuple(replace(one, turn=now_) if one.turn == name else one for one in rows)
        last = max((one.at for one in rows if not one.turn), default=at)
        left = (one.at for one in rows if one.turn == UNTOLD and at - one.at < _AGAIN)
        return frozenset(one.mark for one in rows if one.turn not in (turn, UNTOLD)), min((last, *left)) - _BACK

    async def _end(self, turn: str) -> bool | None:
        """Whether a turn has ended with an answer; None where it has not ended."""
        _session, records = await self._sessions.begun(turn.rpartition(" ")[0])
        last = records[-1].message if records else None
        if not isinstance(last, AssistantMessage) or last.calls:
            return None
        return last.finish != "other" and not is_silent(last.text)

    async def _read(self, sources: Sequence[WatchTarget]) -> Gathered:
        items: list[NewsItem] = []
        failed: list[str] = []
        for source in sources[:MOST_SOURCES]:
            try:
                items += await self._items(source)
            except StoreError:
                raise
            except NanobotError as error:
                failed.append(f"{source}: {str(error).partition(chr(10))[0][:200]}")
        return Gathered(tuple(items), tuple(failed), len(sources[:MOST_SOURCES]))

    async def _items(self, source: WatchTarget) -> Sequence[NewsItem]:
        if source.kind == "search":
            hits = await self._sight.hits(source.where)
            return found_items((hit.title, hit.url, hit.published) for hit in hits)
        page = await self._sight.page(PageRequest(source.where))
        found = feed_items(page.content.text) if page.kind == "xml" else ()
        if not found and not is_empty_feed(page):
            raise UsageError(_("it is no feed, so its items have no dates; watch the page instead"))
        return found


def _named(turn: str, sources: Sequence[WatchTarget]) -> str:
    """A turn that asks for these sources."""
    named = "\n".join(map(str, sources))
    return f"{turn} {hashlib.sha256(named.encode()).hexdigest()[:12]}"


def wanted_of(text: str) -> tuple[tuple[WatchTarget, ...], str]:
    """The feeds and searches that the text of a briefing names, and the other words of it: how it is to be told."""
    parts = [part.strip() for part in _PARTS.split(text) if part.strip()]
    named = [part for part in parts if _SOURCE.match(part)]
    return sources_of("\n".join(named)), "\n".join(part for part in parts if part not in named)


def sources_of(text: str) -> tuple[WatchTarget, ...]:
    """The feeds and searches that a text names, one a line or with commas between them. Raises `UsageError`."""
    found = [read_target(part) for part in _PARTS.split(text) if part.strip()]
    wrong = next((one for one in found if one.kind == "file"), None)
    if wrong is not None:
        raise UsageError(_("A briefing reads feeds and searches; {what} is neither.", what=wrong))
    return tuple(dict.fromkeys(found))


def _changed(told: Told) -> NewsItem:
    """What a watch has told, as an item."""
    lines = [line for line in told.text.splitlines() if line.strip() and not line.startswith("```")]
    url = next((line for line in lines if re.match(r"https?://\S+\Z", line)), "")
    said = " ".join(line for line in lines if line != url)[:_EXCERPT]
    return NewsItem(said, f"{url}#{told.job}-{told.at:%Y%m%dT%H%M%S}" if url else "", told.at)


def _result(items: Sequence[NewsItem], failed: str, context: ToolContext, at: datetime) -> ToolResult:
    lines, sources = [], []
    for item in items:
        address = item.url.partition("#")[0]
        source = context.sources.add(address, item.title, retrieved_at=at, text=item.title) if address else None
        sources += [source] if source is not None else []
        number = f"[{source.number}] " if source is not None else ""
        day = f"{item.at:%Y-%m-%d %H:%M} UTC" if item.at else ""
        lines.append(f"- {number}{item.title}\n  {day} · {host_of(address) or 'a watch'} · {address}")
    # English: a model reads it
    head = f"{len(items)} new since the last briefing, none of them told before. Tell each with its source and date."
    said = _n("{number} new item", "{number} new items", len(items))
    return ToolResult("\n".join([head, *lines]) + failed, said, sources=tuple(dict.fromkeys(sources)), untrusted=True)
