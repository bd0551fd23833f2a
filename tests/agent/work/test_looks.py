"""One watch, look by look: what is told of a page, a price and a file, and that nothing is told twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.work.looks import Looks, Sight
from nanobot.bus.events import Sender
from nanobot.config.schema_web import WebFetchConfig
from nanobot.schedule.job import Every, ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.watch.store import WatchStore
from nanobot.watch.target import read_target
from nanobot.web.fetch.page import Page, PageRequest
from tests.fakes.website import Answer, Website

BEGIN = datetime(2026, 3, 2, 7, tzinfo=UTC)
ADA, ME = Sender("1", role="owner"), "telegram:1"


class Desk(Sight):
    """Looks once an hour at one thing, on a real site or in a file."""

    def __init__(self, tool: WebFetchTool) -> None:
        self._tool = tool
        self.pages: dict[str, Answer] = {}
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
    tool = WebFetchTool(WebFetchConfig(), whitelist=("127.0.0.0/8",))
    made = Desk(tool)
    async with made.site:
        yield made
    await tool.aclose()


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
    assert "9.99" in told
    assert "12.50" in told
    assert "people" not in told


async def test_U21_a_change_of_a_file_is_told_with_its_lines() -> None:
    async with desk() as at:
        at.text = "# Plan\n\nBuy bread.\n"
        assert await at.passes("file: notes.md", hours=2) == []
        at.text = "# Plan\n\nBuy bread.\n\nCall Bob.\n"
        (told,) = await at.passes("file: notes.md", hours=3)
    assert "+ Call Bob." in told
    assert "bread" not in told


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
