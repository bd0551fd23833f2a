"""Watches through the shipped gateway: what changes on a page is told once, and asks no model."""

import json
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from nanobot.providers.scripted import Call
from tests.channels.telegram.gateway import OWNER, configured, running
from tests.cli.harness import Program
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.telegram_server import TelegramServer, User
from tests.fakes.website import Answer, Website

DATE = "<pubDate>Sun, 22 Nov 2026 10:00:00 GMT</pubDate>"
ITEM = f"<item><title>{{0}}</title><link>https://example.org/{{0}}</link>{DATE}</item>"
FEED = "<rss version='2.0'><channel><title>News</title>{}</channel></rss>"


def feed(*titles: str) -> Answer:
    return Answer(FEED.format("".join(map(ITEM.format, titles))), type="application/rss+xml")


def reading_loopback(home: Program) -> Program:
    """The home of a program that may read pages of this machine."""
    path = home.home / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config.setdefault("tools", {})["ssrfWhitelist"] = ["127.0.0.1/32"]
    path.write_text(json.dumps(config), encoding="utf-8")
    return home


async def test_U21_a_new_item_is_told_once_with_link_and_date_asks_no_model_and_taints_what_is_said_next(
    tmp_path: Path,
) -> None:
    pages = {"/feed": feed("harbour")}
    async with (
        TelegramServer() as telegram,
        LlmServer(Reply("A bridge was opened."), after="no") as llm,
        Website(pages) as site,
    ):
        ada = telegram.user("Ada", OWNER)

        def told(words: str) -> int:
            return sum(words in line for line in telegram.visible(ada.chat))

        async with running(reading_loopback(configured(tmp_path, telegram, llm))):
            await ada.asks(f"/watch {site.url}/feed every 2 hours", lambda: told("Watching 1:") == 1)
            pages["/feed"] = feed("bridge", "harbour")
            await ada.asks("/watch run 1", lambda: told("+ bridge (22 Nov 2026)") == 1)
            assert told("https://example.org/bridge") == 1
            looks = len(site.paths)
            await ada.asks("/watch run 1", lambda: len(site.paths) > looks)
            await ada.asks("/watch history", lambda: told("+ bridge") == 2)
            assert not llm.requests
            await ada.asks("what was opened?", lambda: told("A bridge was opened.") == 1)
        asked = str(llm.requests[0])
        assert "<outside id=" in asked
        assert asked.index("<outside id=") < asked.index("+ bridge") < asked.index("</outside id=")


async def test_U21_a_briefing_asks_a_model_only_for_what_is_new_and_tells_it_once(tmp_path: Path) -> None:
    def model(request: LlmRequest) -> Reply:
        text = str(request.messages)
        return (
            Reply("Opened: the bridge [1].")
            if "1 new since the last briefing" in text
            else Reply(Call("watch", {"do": "news", "what": f"{site.url}/feed"}))
        )

    fresh = Answer(
        FEED.format(ITEM.format("bridge").replace(DATE, f"<pubDate>{format_datetime(datetime.now(UTC))}</pubDate>")),
        type="application/rss+xml",
    )
    pages = {"/feed": feed()}
    async with TelegramServer() as telegram, LlmServer(after=model) as llm, Website(pages) as site:
        ada = telegram.user("Ada", OWNER)

        def told(words: str) -> int:
            return sum(words in line for line in telegram.visible(ada.chat))

        async with running(reading_loopback(configured(tmp_path, telegram, llm))):
            ada.say(f"/schedule briefing every weekday at 8: {site.url}/feed")
            await telegram.until(lambda: told("briefing: “http") + told("Scheduled 1") > 0)
            await ada.asks("/schedule run 1", lambda: len(site.paths) == 1)
            await until_listed(telegram, ada, "nothing new", 1)
            assert not llm.requests
            pages["/feed"] = fresh
            await ada.asks("/schedule run 1", lambda: told("Opened: the bridge") == 1)
            asked = len(llm.requests)
            assert asked == 2
            ada.say("/schedule run 1")
            await until_listed(telegram, ada, "nothing new", 2)
            assert (len(llm.requests), told("Opened: the bridge")) == (asked, 1)


async def until_listed(telegram: TelegramServer, person: User, words: str, count: int) -> None:
    """Wait until `/schedule` has shown these words so often."""

    def shown() -> int:
        return sum(words in line for line in telegram.visible(person.chat))

    while shown() < count:
        before = len(telegram.visible(person.chat))
        person.say("/schedule")
        await telegram.until(lambda before=before: len(telegram.visible(person.chat)) >= before + 2)  # type: ignore[misc]
