"""What is watched, look by look, and the briefing made from it: nothing is told twice, and silence without news."""

import random
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from html import escape

import pytest
from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.work.briefing import Briefings, sources_of
from nanobot.agent.work.looks import Looks, Sight
from nanobot.bus.events import Address, Sender
from nanobot.config.schema_web import WebFetchConfig
from nanobot.messages import AssistantMessage, Finish, Text
from nanobot.results import ToolResult
from nanobot.schedule.job import Every, ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.watch.store import WatchState, WatchStore
from nanobot.watch.target import read_target
from nanobot.web.fetch.page import Page, PageRequest
from nanobot.web.search.base import SearchHit
from tests.fakes.website import Answer, Website
from tests.tables import table

BEGIN = datetime(2026, 3, 2, 7, tzinfo=UTC)
ADA, ME = Sender("1", role="owner"), "telegram:1"


class Desk(Sight):
    """Looks once an hour at one thing, on a real site or in a file."""

    def __init__(self, tool: WebFetchTool) -> None:
        self._tool = tool
        self.pages: dict[str, Answer | Sequence[Answer]] = {}
        self.text = ""
        self.at = BEGIN
        self.site = Website(self.pages)
        self.ledger = Ledger(MemoryDatabase(), clock=lambda: self.at)
        self.store, self.job = (
            WatchStore(self.ledger.database),
            ScheduledJob(kind="watch", text="", when=Every(3_600, BEGIN), zone="UTC", person=ME, chat=ME),
        )
        self.looks = self.begun()

    @property
    def url(self) -> str:
        return f"{self.site.url}/shop"

    def begun(self) -> Looks:
        """As after a start of nanobot: what is kept is all that is known."""
        return Looks(self.store, self, clock=lambda: self.at, sleep=self._no_sleep)

    async def _no_sleep(self, _seconds: float) -> None:
        return

    async def page(self, request: PageRequest) -> Page:
        return await self._tool.look(request, 10.0)

    async def file(self, path: str, person: str, sender: Sender) -> str:
        assert (path, person, sender) == ("notes.md", ME, ADA)
        return self.text

    def shows(self, *lines: str, status: int = 200) -> None:
        body = "".join(f"<p>{line}</p>" for line in lines)
        page = f"<title>Shop</title><main><h1>The harbour shop</h1><p>We sell rope, tar and lamps.</p>{body}</main>"
        self.pages["/shop"] = Answer(page, status=status)

    async def passes(self, what: str, part: str = "", hours: int = 1) -> list[str]:
        """What is told of `what` in so many hours."""
        if not self.job.id:
            self.job = await JobStore(self.ledger).add(replace(self.job, text=str(read_target(what, part))), self.at)
        told = []
        for _ in range(hours):
            self.at += timedelta(hours=1)
            told.append(await self.looks.work(self.job, self.at, ADA))
        return [one for one in told if one]


@asynccontextmanager
async def desk() -> AsyncIterator[Desk]:
    async with aclosing(WebFetchTool(WebFetchConfig(), whitelist=("127.0.0.0/8",))) as tool:
        made = Desk(tool)
        async with made.site:
            yield made


async def test_U21_a_change_is_told_once_and_that_it_is_taken_back_once() -> None:
    async with desk() as at:
        at.shows("Open 9 to 17.")
        assert await at.passes(at.url, hours=5) == []
        at.shows("Closed for the winter.")
        (changed,) = await at.passes(at.url, hours=5)
        at.shows("Open 9 to 17.")
        back = await at.passes(at.url, hours=5)
        at.shows("Closed for the winter.")
        forth = await at.passes(at.url, hours=5)
        at.shows("Open 9 to 17.")
        again = await at.passes(at.url, hours=5)
    assert "- Open 9 to 17." in changed
    assert "+ Closed for the winter." in changed
    assert at.url in changed
    assert "2026" in changed
    assert len(back) == 1
    assert "back again" in back[0]
    assert (forth, again) == ([], [])


async def test_U21_a_page_that_is_gone_is_said_once_asked_for_less_often_and_said_once_when_it_is_back() -> None:
    async with desk() as at:
        at.shows("Open 9 to 17.")
        assert await at.passes(at.url, hours=2) == []
        at.shows("Go away.", status=403)
        before = len(at.site.paths)
        refused = await at.passes(at.url, hours=72)
        asked = len(at.site.paths) - before
        at.shows("Open 9 to 17.")
        back = await at.passes(at.url, hours=48)
        later = await at.passes(at.url, hours=24)
    assert len(refused) == 1, "\n====\n".join(refused)
    assert "cannot be watched now" in refused[0]
    assert "Go away" not in refused[0], "the words of the site are not told as the reason"
    assert "`/watch remove 1`" in refused[0]
    assert asked < 36, "it is asked for less often than every hour"
    assert len(back) == 1
    assert "is back" in back[0]
    assert later == []


async def test_U21_of_a_price_the_number_is_told_and_nothing_else_of_the_page() -> None:
    async with desk() as at:
        at.shows("Price: 12.50 EUR", "3 people look at this")
        assert await at.passes(at.url, "price", hours=2) == []
        at.shows("Price: 12.50 EUR", "41 people look at this", "Today: lamps!")
        assert await at.passes(at.url, "price", hours=2) == []
        at.shows("Price: 9.99 EUR", "7 people look at this")
        (told,) = await at.passes(at.url, "price", hours=4)
        new, old = Answer("<p>Price: 8.50 EUR"), Answer("<p>Price: 9.99 EUR")
        at.pages["/shop"] = [new, old, new]  # for a moment one of the site's servers is behind
        (later,) = await at.passes(at.url, "price", hours=4)
    assert "9.99" in told
    assert "12.50" in told
    assert "people" not in told
    assert "8.50" in later


@table(
    "before after",
    ("Open 9 to 17.", "Closed for the winter."),
    ("Seats left: 12", "Seats left: 9"),
    ("Open.", "Open.</p><p>On Friday there is music."),
    ("Open.</p><p>On Friday there is music.", "Open."),
)
@pytest.mark.parametrize("known", [1, 5])
async def test_U21_a_change_of_which_a_server_that_is_behind_knows_nothing_yet_is_told_once_it_stays(
    before: str, after: str, known: int
) -> None:
    async with desk() as at:
        at.shows(after)
        new = at.pages["/shop"]
        at.shows(before)
        old = at.pages["/shop"]
        assert await at.passes(at.url, hours=known) == []
        assert isinstance(new, Answer)
        assert isinstance(old, Answer)
        at.pages["/shop"] = [new, old, new]
        assert len(await at.passes(at.url, hours=4)) == 1


async def test_U21_a_change_of_a_file_is_told_with_its_lines() -> None:
    async with desk() as at:
        at.text = "# Plan\n\nBuy bread.\n"
        assert await at.passes("file: notes.md", hours=2) == []
        at.text = "# Plan\n\nBuy bread.\n\nCall Bob.\n"
        (told,) = await at.passes("file: notes.md", hours=3)
    assert "+ Call Bob." in told
    assert "bread" not in told


async def test_U21_a_part_far_down_in_a_long_text_is_watched_and_of_all_of_it_the_beginning() -> None:
    async with desk() as at:
        long = "\n\n".join(f"{number} {'of old times ' * 9}" for number in range(2_000))
        at.text = f"[Prices](#p)\n\n{long}\n\n## Prices\n\nRope: 4 francs"
        at.shows("Open.")
        target = read_target("file: notes.md § Prices")
        seen = await at.looks.look(at.job, target, WatchState(), ADA)
        assert seen.shows == "2 lines"
        at.text = at.text.replace("4 francs", "5 francs by the yard")
        await at.passes(str(target), hours=4)
        at.text = at.text.replace("5 francs by the yard", "6 francs by the yard")
        (told,) = await at.passes(str(target), hours=4)
        assert "+ Rope: 6 francs" in told
        whole = await at.looks.look(at.job, read_target("file: notes.md"), WatchState(), ADA)
        assert "lines, and watch no others" in whole.shows


async def test_a_watch_that_is_removed_leaves_nothing_and_what_it_told_is_kept_for_ninety_days() -> None:
    async with desk() as at:
        jobs = JobStore(at.ledger)
        at.shows("Open 9 to 17.")
        await at.passes(at.url, hours=5)
        at.shows("Closed for the winter.")
        assert await at.passes(at.url, hours=5)
        await jobs.forget(at.at + timedelta(days=89))
        assert len(await at.store.history([at.job.id])) == 1
        await jobs.forget(at.at + timedelta(days=91))
        assert not await at.store.history([at.job.id])
        await jobs.change((at.job.id,), lambda _job: None)
        assert (await at.store.get(at.job.id))[0] == WatchState()


async def test_U21_what_a_killed_process_has_found_is_told_by_the_next_and_not_found_again() -> None:
    async with desk() as at:
        at.shows("Open 9 to 17.")
        assert await at.passes(at.url, hours=2) == []
        at.shows("Closed for the winter.")
        while not (told := await at.passes(at.url)):
            assert at.at - BEGIN < timedelta(hours=8)
        (found,) = told
        at.looks, due = at.begun(), at.at  # it died before the message was put on its way: the due time comes again
        at.at = due - timedelta(hours=1)
        at.pages.clear()
        assert await at.passes(at.url) == [found]
        at.shows("Closed for the winter.")
        assert await at.passes(at.url, hours=3) == []


async def test_U21_a_feed_that_turns_empty_is_no_change_of_a_page_and_what_comes_then_is_told_once() -> None:
    item = "<item><title>{0}</title><link>https://news.example/{0}</link></item>"

    def feed(*titles: str) -> Answer:
        items = "".join(map(item.format, titles))
        return Answer(f"<rss version='2.0'><channel><title>News</title>{items}</channel></rss>", "application/rss+xml")

    async with desk() as at:
        at.pages["/shop"] = feed("harbour")
        assert await at.passes(at.url, hours=2) == []
        at.pages["/shop"] = feed()
        assert await at.passes(at.url, hours=3) == []
        at.pages["/shop"] = feed("bridge", "harbour")
        (told,) = await at.passes(at.url, hours=3)
        assert "+ bridge" in told
        assert "harbour" not in told.replace(at.url, "")
    async with desk() as at:  # one that is empty when it is first seen
        at.pages["/shop"] = feed()
        assert await at.passes(at.url, hours=2) == []
        at.pages["/shop"] = feed("bridge")
        assert len(await at.passes(at.url, hours=3)) == 1


DAYS = 30
FEEDS, SEARCH = ("/harbour.xml", "/town.xml"), "search: ferry strike"


class Story(Struct, frozen=True):
    """Something that happened at `at` and is published `late` afterwards; without `dated` no source names its day."""

    number: int
    at: datetime
    late: timedelta = timedelta()
    dated: bool = True

    @property
    def title(self) -> str:
        return f"Story number {self.number} of the harbour at Port Ellery"


class Press(Sight):
    """Two feeds on a real site and a search, whose items overlap, come back, move and lose their dates."""

    def __init__(self, tool: WebFetchTool, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pages: dict[str, Answer] = {}
        self._tool = tool
        self.stories: list[Story] = []
        self.at = BEGIN

    def happens(self) -> None:
        """A day passes, and the sources show what there is then."""
        begun, self.at = self.at, self.at + timedelta(days=1)
        new: list[Story] = []
        for _ in range(self.chance.choice((0, 0, 1, 2, 4))):
            at = begun + timedelta(minutes=self.chance.randrange(24 * 60))
            late = timedelta(hours=self.chance.choice((0, 0, 0, 9)))
            if self.chance.random() < 0.2:  # from an archive: old, and never seen before
                at, late = at - timedelta(days=10), timedelta(days=10)
            new.append(Story(len(self.stories) + len(new), at, late, dated=self.chance.random() > 0.2))
        self.stories += new
        for path in FEEDS:
            self.pages[path] = Answer(self._feed(path), "application/rss+xml")

    def _shown(self) -> list[Story]:
        """The newest stories, and a few from long ago that a source brings up again."""
        out = [one for one in self.stories if one.at + one.late <= self.at]
        return out[-12:] + self.chance.sample(out[:-12], min(2, len(out[:-12])))

    def _link(self, story: Story) -> str:
        return f"https://news.example/{story.number}"

    def _feed(self, path: str) -> bytes:
        items = []
        for story in self._shown():
            if path == FEEDS[1] and story.number % 3:
                continue
            campaign = f"?utm_source={self.at:%d}" if self.chance.random() < 0.5 else ""
            day = f"<pubDate>{format_datetime(story.at)}</pubDate>" if story.dated else ""
            title, link = escape(story.title), escape(self._link(story) + campaign)
            items.append(f"<item><title>{title}</title><link>{link}</link>{day}</item>")
        self.chance.shuffle(items)
        return f"<rss version='2.0'><channel><title>{path}</title>{''.join(items)}</channel></rss>".encode()

    async def page(self, request: PageRequest) -> Page:
        return await self._tool.look(request, 10.0)

    async def hits(self, query: str) -> Sequence[SearchHit]:
        return [
            SearchHit(f"{one.title} | {query}", self._link(one), published=one.at.isoformat() if one.dated else "")
            for one in self._shown()
            if one.number % 2
        ]


async def answers(ledger: Ledger, turn: str, text: str, finish: Finish = "stop") -> None:
    """A turn ends, and what it says last is kept."""
    session = await ledger.sessions.start("schedule:1")
    await ledger.sessions.append(session.id, (AssistantMessage((Text(text),), finish),), turn=turn)


def told(result: ToolResult) -> list[tuple[int, datetime]]:
    """The stories of a briefing with the dates that stand there."""
    found = re.findall(r"Story number (\d+) of .*\n  (\S+ \S+) UTC", result.text)
    return [(int(number), datetime.fromisoformat(f"{at}:00+00:00")) for number, at in found]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_U21_thirty_days_of_briefings_repeat_nothing_tell_nothing_old_and_are_silent_without_news(
    seed: int,
) -> None:
    tool = WebFetchTool(WebFetchConfig(), whitelist=("127.0.0.0/8",))
    press = Press(tool, seed)
    async with Website(press.pages) as site:
        ledger = Ledger(MemoryDatabase(), clock=lambda: press.at)
        store = WatchStore(ledger.database)
        briefings = Briefings(store, press, ledger.sessions, clock=lambda: press.at)
        sources = sources_of("\n".join([*(f"{site.url}{path}" for path in FEEDS), SEARCH]))
        seen: dict[int, datetime] = {}
        silent = 0
        for day in range(DAYS):
            press.happens()
            turn = ToolContext(address=Address("telegram", "1"), sender=Sender("1", role="owner"), turn_id=f"t{day}")
            result = await briefings.news(sources, (), turn)
            again = await briefings.news(sources, (), turn)
            assert sorted(told(again)) == sorted(told(result)), "a turn that goes on after a kill is given the same"
            assert "Could not be read" not in result.text
            await answers(ledger, f"t{day}", "What is new: …" if told(result) else "NOTHING_TO_SAY")
            new = told(result)
            silent += not new
            assert bool(new) == ("Nothing is new" not in result.text)
            assert result.untrusted == bool(new)
            for number, at in new:
                story = press.stories[number]
                assert number not in seen, "it was told before"
                assert story.dated
                assert at == story.at.replace(second=0, microsecond=0)
                assert press.at - story.at <= timedelta(days=2), "it is old"
                seen[number] = press.at
    fresh = (one for one in press.stories if one.dated and one.late < timedelta(days=1))
    out = [one for one in fresh if one.at + one.late <= press.at]
    assert seen.keys() == {one.number for one in out}, "nothing is left out"
    assert silent, "there were days without news"
    await tool.aclose()


async def test_U21_items_count_as_told_with_the_answer_and_after_a_turn_without_one_they_are_new_again() -> None:
    at = BEGIN
    tool = WebFetchTool(WebFetchConfig(), whitelist=("127.0.0.0/8",))
    press = Press(tool, 1)
    while not press.stories:
        press.happens()
    async with Website(press.pages) as site:
        ledger = Ledger(MemoryDatabase(), clock=lambda: at)
        briefings = Briefings(WatchStore(ledger.database), press, ledger.sessions, clock=lambda: press.at)
        sources = sources_of(f"{site.url}{FEEDS[0]}")

        async def news(turn: str) -> list[tuple[int, datetime]]:
            context = ToolContext(address=Address("telegram", "1"), sender=Sender("1", role="owner"), turn_id=turn)
            return told(await briefings.news(sources, (), context))

        assert await briefings.anything(sources, (), "telegram:1", "breaks")
        given = await news("breaks")
        assert given
        assert not await briefings.anything(sources, (), "telegram:1", "meanwhile"), "another turn is about to tell it"
        await answers(ledger, "breaks", "The harb [The answer broke off]", "other")
        assert sorted(await news("silent")) == sorted(given)
        await answers(ledger, "silent", "NOTHING_TO_SAY")
        assert sorted(await news("dies")) == sorted(given)
        press.at += timedelta(hours=25)
        assert sorted(await news("tells")) == sorted(given), "a turn that never ended tells nothing any more"
        await answers(ledger, "tells", "What is new: …")
        assert not await briefings.anything(sources, (), "telegram:1", "next")
        assert await news("next") == []
    await tool.aclose()
