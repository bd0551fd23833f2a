"""One look at what is watched: the request, the comparison, and what its person is told. Asks no model."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import Sender
from nanobot.errors import FetchError, NanobotError, PathError, SearchError, StoreError
from nanobot.schedule.job import ScheduledJob
from nanobot.session.database import Clock, now
from nanobot.utils.translation import N_, _, _n
from nanobot.watch import words
from nanobot.watch.compare import calmed, differences, learnt, marked, news
from nanobot.watch.items import NewsItem, feed_items, found_items, new_items
from nanobot.watch.store import WatchState, WatchStore
from nanobot.watch.target import MOST_TEXT, WatchTarget, blocks_of, number_of, part_of, read_target, value_of
from nanobot.web.cache import KeyLocks
from nanobot.web.fetch.page import Page, PageRequest, SeenPage
from nanobot.web.search.base import SearchHit
from nanobot.web.urls import host_of

#: Seconds between a look that found a change and the second look at it.
SECOND_LOOK = 3.0
#: Answers after which it is said at once that a page cannot be watched; others pass as a rule, and are said after so
#: many in a row.
_LASTING = frozenset({401, 402, 403, 404, 410, 451})
_LASTING_KINDS = frozenset({"login_wall", "no_content", "blocked", "denied", "unsupported_type", "invalid_input"})
_IN_A_ROW = 3
_DAY = timedelta(days=1)
#: The first pause after a failure, and the longest.
_PAUSE, _LONGEST = timedelta(minutes=10), _DAY
#: A trouble that comes and goes is told once in this time.
_SAID_AGAIN = _DAY
_NO_PART = N_(
    "The page no longer holds “{words}”, or never did. Its words may have changed: watch it anew with others."
)
_NO_NUMBER = N_("There is no number near “{words}” any more. Watch it anew with the words that stand before it now.")


class Sight:
    """What can be looked at. Each raises `NanobotError` that says why it cannot."""

    async def page(self, request: PageRequest) -> Page:
        raise NotImplementedError

    async def hits(self, query: str) -> Sequence[SearchHit]:
        raise NotImplementedError

    async def file(self, path: str, person: str, sender: Sender) -> str:
        """The text of a file of this person."""
        raise NotImplementedError


class Looked(Struct, frozen=True):
    """What a look found: `state` is to be kept, None where nothing had changed; `text` tells of it, and may be empty.

    `shows` says in a few words what is seen now.
    """

    state: WatchState | None
    text: str = ""
    shows: str = ""


class Looks:
    """Looks at what is watched, of a host one at a time. `sleep` waits for the second look."""

    def __init__(
        self,
        store: WatchStore,
        sight: Sight,
        *,
        clock: Clock = now,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.store = store
        self.sight = sight
        self._clock = clock
        self._sleep = sleep
        self._hosts = KeyLocks()

    async def work(self, job: ScheduledJob, due: datetime, sender: Sender) -> str:
        """What the person of a job is told at a due time; empty for nothing, and the same again where it was done."""
        done = await self.store.told_at(job.id, due)
        if done is not None:
            return done
        state, calm = await self.store.get(job.id)
        at = self._clock()
        if state.wait is not None and at < state.wait:
            return ""
        target = read_target(job.text)
        try:
            found = await self.look(job, target, replace(state, memory=calmed(state.memory, calm)), sender)
        except StoreError:
            raise
        except NanobotError as error:
            found = _troubled(job, target, state, error, at)
        if found.state is None:
            await self.store.calm(job.id)
        elif found.text:
            await self.store.tell(job.id, due, at, found.state, found.text)
        else:
            await self.store.put(job.id, found.state)
        return found.text

    async def look(self, job: ScheduledJob, target: WatchTarget, state: WatchState, sender: Sender) -> Looked:
        """Look once, and once more where something has changed. Raises `NanobotError`."""
        host = host_of(target.where) if target.kind == "page" else target.kind
        async with self._hosts.hold((host,)):
            match target.kind:
                case "page":
                    found = await self._page(target, state, job)
                case "search":
                    hits = await self.sight.hits(target.where)
                    found = self._items(
                        target, state, found_items((hit.title, hit.url, hit.published) for hit in hits), job
                    )
                case "file":
                    text = await self.sight.file(target.where, job.person, sender)
                    found = await self._text(
                        target, state, text, job, lambda: self.sight.file(target.where, job.person, sender)
                    )
        if state.trouble and found.state is not None:
            back = words.recovered(target, job.local(self._clock())) if state.said else ""
            told = "\n\n".join(part for part in (back, found.text) if part)
            calm = replace(found.state, trouble="", failures=0, said=False, wait=None)
            return replace(found, state=calm, text=told)
        return found

    async def _page(self, target: WatchTarget, state: WatchState, job: ScheduledJob) -> Looked:
        seen = SeenPage(state.etag, state.modified, state.digest) if state.memory.looks else None
        page = await self.sight.page(PageRequest(target.where, seen=seen))
        known = replace(state, etag=page.seen.etag, modified=page.seen.modified, digest=page.seen.digest)
        if page.unchanged:
            waits = any(habit.held for habit in state.memory.habits.values())
            if not waits:
                return Looked(known if state.trouble else None)
            page = await self.sight.page(PageRequest(target.where))
        items = feed_items(page.content.text) if page.kind == "xml" else ()
        if (items or is_empty_feed(page)) and not target.number:
            wanted = target.part.casefold()
            return self._items(target, known, [one for one in items if wanted in one.title.casefold()], job)

        async def again() -> str:
            return (await self.sight.page(PageRequest(target.where))).content.text

        return await self._text(target, known, page.content.text, job, again)

    def _items(self, target: WatchTarget, state: WatchState, items: Sequence[NewsItem], job: ScheduledJob) -> Looked:
        memory, new = new_items(state.memory, items)
        text = words.listed(target, new, job.local(self._clock())) if new else ""
        return Looked(replace(state, memory=memory), text, _n("{number} item", "{number} items", len(items)))

    async def _text(
        self, target: WatchTarget, state: WatchState, text: str, job: ScheduledJob, again: Callable[[], Awaitable[str]]
    ) -> Looked:
        at = self._clock()
        if target.number:
            return await self._number(target, state, text, job, again)
        blocks, second = _part(target, text), None
        if not state.memory.looks or news(state.memory, differences(state.memory.blocks, blocks), at):
            await self._sleep(SECOND_LOOK)
            second = _part(target, await again())
        memory, change = learnt(state.memory, blocks, at, second)
        told = words.changed(target, change, job.local(at)) if change else ""
        shows = _n("{number} line", "{number} lines", len(blocks))
        if len(text) > MOST_TEXT and not target.part:
            shows = _("its first {number} lines, and watch no others", number=len(blocks))
        return Looked(replace(state, memory=memory), told, shows)

    async def _number(
        self, target: WatchTarget, state: WatchState, text: str, job: ScheduledJob, again: Callable[[], Awaitable[str]]
    ) -> Looked:
        memory, at = state.memory, self._clock()
        found = _number(target, text)
        before, after = value_of(memory.number), value_of(found)
        if before is None or before == after:
            return Looked(replace(state, memory=replace(memory, looks=memory.looks + 1, number=found)), "", found)
        await self._sleep(SECOND_LOOK)
        second = value_of(_number(target, await again()))
        if second != after:  # it is another one at each look: told when it stays, so the next one reads the page anew
            memory = replace(memory, looks=memory.looks + 1)
            return Looked(replace(state, memory=memory, etag="", modified="", digest=""), "", found)
        mark, reverse = (marked(f"{at:%Y-%m} {one} {other}") for one, other in ((before, after), (after, before)))
        known = tuple(dict.fromkeys((*memory.told, mark)))[-100:]
        kept = replace(memory, looks=memory.looks + 1, number=found, told=known)
        if mark in memory.told:
            return Looked(replace(state, memory=kept), "", found)
        told = words.moved(target, memory.number, found, job.local(at), back=reverse in memory.told)
        return Looked(replace(state, memory=kept), told, found)


def is_empty_feed(page: Page) -> bool:
    """Whether this is a feed that has no entries now."""
    return page.kind == "xml" and not page.content.text.strip()


def _part(target: WatchTarget, text: str) -> tuple[str, ...]:
    """The blocks that are watched. Raises `FetchError` where the part is not there."""
    blocks = blocks_of(text, target.part)
    wanted = part_of(blocks, target.part) if target.part else blocks
    if not wanted:
        said = _(_NO_PART, words=target.part) if target.part else _("There is no text any more.")
        raise FetchError("no_content", said)
    return wanted


def _number(target: WatchTarget, text: str) -> str:
    found = number_of(blocks_of(text, target.part), target.part)
    if not found:
        raise FetchError("no_content", _(_NO_NUMBER, words=target.part or _("its prices")))
    return found


def _troubled(job: ScheduledJob, target: WatchTarget, state: WatchState, error: NanobotError, at: datetime) -> Looked:
    """What is kept and said of a look that failed."""
    failures = state.failures + 1
    status = error.status if isinstance(error, FetchError | SearchError) else 0
    kind = error.kind if isinstance(error, FetchError) else ""
    lasting = status in _LASTING or kind in _LASTING_KINDS or isinstance(error, PathError)
    pause = min(_PAUSE * 2 ** min(failures - 1, 10), _LONGEST)
    asked = error.retry_after if isinstance(error, FetchError | SearchError) else None
    wait = at + max(pause, timedelta(seconds=min(asked or 0.0, _LONGEST.total_seconds())))
    recently = state.told_trouble is not None and at - state.told_trouble < _SAID_AGAIN
    saying = not state.said and not recently and (lasting or failures >= _IN_A_ROW)
    kept = replace(
        state,
        trouble=str(error).partition("\n")[0][:500],
        failures=failures,
        said=state.said or saying,
        wait=wait,
        told_trouble=at if saying else state.told_trouble,
    )
    return Looked(kept, words.troubled(target, kept.trouble, job.id) if saying else "")


def spread(text: str, seconds: int) -> int:
    """By how many seconds the looks at something lie apart from those at other things of the same rhythm."""
    return zlib.crc32(text.encode()) % max(seconds, 1)
