"""What is new for a briefing. Which items were told, are dated and are not old is decided here and not by a model."""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.work.looks import Sight
from nanobot.errors import NanobotError, StoreError, UsageError
from nanobot.results import ToolResult
from nanobot.session.database import Clock, now
from nanobot.watch.items import NewsItem, feed_items, found_items, reportable
from nanobot.watch.store import Told, WatchStore
from nanobot.watch.target import WatchTarget, read_target
from nanobot.web.fetch.page import PageRequest
from nanobot.web.urls import host_of

#: Sources of one briefing, its items, and the characters of one that a watch has told.
MOST_SOURCES, MOST_ITEMS, _EXCERPT = 20, 40, 400
#: A first briefing goes back so far; a later one to the one before and a little more, for what came with a delay.
_FIRST, _DELAY = timedelta(days=1), timedelta(hours=24)
_NOTHING = "Nothing is new since the last briefing. Do not look elsewhere: tell nothing."


class Gathered(Struct, frozen=True):
    """What sources hold now; `failed` are those that could not be read, with the reason."""

    items: tuple[NewsItem, ...]
    failed: tuple[str, ...] = ()


class Briefings:
    """Gathers what is new and keeps what was told. Raises `UsageError` and `StoreError`."""

    def __init__(self, store: WatchStore, sight: Sight, clock: Clock = now) -> None:
        self._store = store
        self._sight = sight
        self._clock = clock

    async def news(self, sources: Sequence[WatchTarget], told: Sequence[Told], context: ToolContext) -> ToolResult:
        """The items of these sources, and what watches have told, that no earlier briefing of this person told.

        What is given counts as told. The same call of the same turn is given the same again.
        """
        at = self._clock()
        named = "\n".join(map(str, sources))
        turn = f"{context.turn_id} {hashlib.sha256(named.encode()).hexdigest()[:12]}"
        known, last = await self._store.briefed(context.person, turn)
        found = await self._gathered(sources)
        since = (last - _DELAY) if last is not None else at - _FIRST
        items = reportable((*map(_changed, told), *found.items), known, since, at)[:MOST_ITEMS]
        await self._store.brief(context.person, turn, [mark for item in items for mark in item.marks], at)
        failed = "".join(f"\nCould not be read: {reason}" for reason in found.failed)
        if not items:
            return ToolResult(_NOTHING + failed, "nothing new", untrusted=bool(failed))
        return _result(items, failed, context, at)

    async def _gathered(self, sources: Sequence[WatchTarget]) -> Gathered:
        items: list[NewsItem] = []
        failed: list[str] = []
        for source in sources[:MOST_SOURCES]:
            try:
                items += await self._items(source)
            except StoreError:
                raise
            except NanobotError as error:
                failed.append(f"{source}: {str(error).partition(chr(10))[0][:200]}")
        return Gathered(tuple(items), tuple(failed))

    async def _items(self, source: WatchTarget) -> Sequence[NewsItem]:
        if source.kind == "search":
            hits = await self._sight.hits(source.where)
            return found_items((hit.title, hit.url, hit.published) for hit in hits)
        page = await self._sight.page(PageRequest(source.where))
        found = feed_items(page.content.text) if page.kind == "xml" else ()
        if not found and (page.kind != "xml" or page.content.text.strip()):  # a feed may be empty
            raise UsageError("it is no feed, so its items have no dates; watch the page instead")
        return found


def sources_of(text: str) -> tuple[WatchTarget, ...]:
    """The feeds and searches that a text names, one a line or with commas between them. Raises `UsageError`."""
    parts = re.split(r"[\n;]+|,\s+(?=https?://|search\s*:)", text)
    found = [read_target(part) for part in parts if part.strip()]
    wrong = next((one for one in found if one.kind == "file"), None)
    if wrong is not None:
        raise UsageError(f"A briefing reads feeds and searches; {wrong} is neither.")
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
    head = f"{len(items)} new since the last briefing, none of them told before. Tell each with its source and date."
    said = f"{len(items)} new item{'s' * (len(items) != 1)}"
    return ToolResult("\n".join([head, *lines]) + failed, said, sources=tuple(dict.fromkeys(sources)), untrusted=True)
