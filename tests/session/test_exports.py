"""What becomes of whole conversations: pages on which nothing acts, files that stay, and all of it in Chinese."""

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import pytest

from nanobot.archive.kept import ExportForm, KeptSessions
from nanobot.archive.page import page_of
from nanobot.config.paths import Paths
from nanobot.errors import NanobotError
from nanobot.library.index import LibraryIndex
from nanobot.messages import AssistantMessage, Citation, Media, Message, Role, Text, UserMessage
from nanobot.session.listing import SessionEntry, SessionHolder, entries_of
from nanobot.session.permissions import Permission, Permissions
from nanobot.session.permissions import told as permissions_told
from nanobot.session.pins import Pins, ToolWords, Unread, shown
from nanobot.session.rows import crash_reason
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase
from nanobot.session.store import SessionInfo, SessionStore
from tests.fakes.chinese import english_left

KEY = "terminal:local"
HOSTILE = (
    'A <img src=x onerror=alert(1)> [a](javascript:alert(2) "t [1] onmouseover=alert(3)") '
    '[b](https://ok.example "x[2]y onmouseover=alert(7)") '
    "tides [1], noon [2][9].\n\n```\ncode [1] </code><script>alert(4)</script>\n```\n\n<svg/onload=alert(5)>"
)


def kept_in(store: SessionStore, home: Path) -> KeptSessions:
    paths = Paths.resolve({"NANOBOT_HOME": str(home), "HOME": str(home.parent)})
    paths.prepare()
    return KeptSessions(store, lambda: LibraryIndex(home / "index.db"), paths, UTC)


class Seen(HTMLParser):
    """Every tag with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


async def talk(*messages: Message) -> SessionStore:
    store = SessionStore(MemoryDatabase())
    await store.append((await store.start(KEY)).id, messages)
    return store


async def test_U67_the_page_of_a_conversation_leads_from_marks_to_sources_and_nothing_in_it_acts() -> None:
    cited = (
        Citation(1, "https://tides.example/brest?a=1&b=<2>", "Tides <b>of</b> Brest"),
        Citation(2, "javascript:alert(6)", "", missing="The source does not say noon."),
    )
    store = await talk(
        UserMessage((Text("When is <u>high</u> tide?"), Media("/m/x.png", "image/png", "<map>.png"))),
        AssistantMessage((Text(HOSTILE),), citations=cited, receipts=("wrote <notes>.md (+1 −0)",)),
    )
    (entry,) = await entries_of(store, SessionHolder(""))
    page = page_of(entry, await store.transcript(entry.info.id), UTC)
    seen = Seen()
    seen.feed(page)
    assert {tag for tag, _ in seen.tags} <= set(
        "html head meta title style body h1 p section time div a ul ol li pre code span".split()
    )
    assert not any(name.startswith("on") for _, attributes in seen.tags for name in attributes)
    links = [str(attributes["href"]) for tag, attributes in seen.tags if tag == "a"]
    assert links[-3:] == ["#e1-s1", "#e1-s2", "https://tides.example/brest?a=1&b=<2>"]
    assert set(links[:-3]) == {"https://ok.example", "#e1-s1"}, "a link that runs something is none"
    assert {"e1-s1", "e1-s2"} <= {attributes.get("id") for tag, attributes in seen.tags if tag == "li"}
    assert "The source does not say noon." in page
    assert "wrote &lt;notes&gt;.md (+1 −0)" in page
    assert "code [1] &lt;/code&gt;&lt;script&gt;" in page, "a mark in code is code"
    assert "[9]" in page, "a mark without a source leads nowhere"
    assert re.search(r'http-equiv="Content-Security-Policy" content="default-src \'none\'', page)


@pytest.mark.parametrize("form", ["md", "html", "jsonl"])
async def test_U47_an_export_holds_what_its_person_may_read_and_no_more(tmp_path: Path, form: ExportForm) -> None:
    store = SessionStore(MemoryDatabase())
    session = await store.start("telegram:7")
    said: tuple[tuple[Role, str], ...] = (("user", "mine"), ("owner", "canary"), ("user", "mine again"))
    for role, words in said:
        answer = AssistantMessage((Text(f"answer to {words}"),))
        await store.append(session.id, (UserMessage((Text(words),), speaker=role), answer))
    (entry,) = await entries_of(store, SessionHolder("telegram:7"))
    kept = kept_in(store, tmp_path / "home")
    theirs, owners = await kept.exported(entry, form, "user"), await kept.exported(entry, form, "owner")
    assert "answer to mine again" in theirs.text
    assert ("canary" in theirs.text, "canary" in owners.text) == (False, True)
    assert await entries_of(store, SessionHolder("")) == ()
    if form == "jsonl":
        assert [json.loads(line)["type"] for line in theirs.text.splitlines()] == ["session", *["record"] * 4]


async def test_U67_a_file_goes_with_the_last_session_that_holds_it_and_nothing_outside_our_folders_ever(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    store = SessionStore(MemoryDatabase())
    kept = kept_in(store, home)
    picture, outside = home / "media" / "a picture.png", tmp_path / "SOUL.md"
    inbox = home / "workspace" / "inbox" / "fish.txt"
    inbox.parent.mkdir(parents=True)
    for path in (picture, outside, inbox):
        path.write_text("x", encoding="utf-8")
    sly = Media(f"{home}/media/../../SOUL.md", "image/png")
    said = UserMessage((Text("Look, inbox/fish.txt"), Media(str(picture), "image/png"), sly))
    parent = await store.start(KEY)
    await store.append(parent.id, (said,))
    await store.branch(parent, "copy")
    first, second = await entries_of(store, SessionHolder(""))
    told = await kept.delete(first)
    assert (picture.exists(), inbox.exists()) == (True, True), "the other session shows them"
    assert told.startswith("Deleted: 1 message. ")
    told = await kept.delete(second)
    assert told.startswith("Deleted: 1 message, with 2 files. ")
    assert (picture.exists(), inbox.exists(), outside.exists()) == (False, False, True)
    assert await entries_of(store, SessionHolder(""), everything=True) == ()
    assert (await store.current(KEY)).created_at > datetime(2026, 1, 1, tzinfo=UTC), "the chat goes on"


NOW = datetime(2026, 11, 22, 14, tzinfo=UTC)
KEYS = ("terminal:local", "telegram:42", "telegram:-100:7", "telegram:-100", "telegram:42:7", "schedule:1", "helper:x")


@pytest.mark.usefixtures("chinese")
def test_a_list_of_sessions_is_in_chinese() -> None:
    lines = [
        SessionEntry(SessionInfo("abc", key, "", 3, NOW, NOW), "", "", "", cost=0.5).line(UTC, now=NOW) for key in KEYS
    ]
    assert [left for one in lines for left in english_left(one)] == []
    assert lines[0].startswith("（无文字） · 今天 14:00 · 终端 · 3 条消息 · ")
    assert "Telegram 群组 -100 话题 7" in lines[2]


@pytest.mark.usefixtures("chinese")
async def test_what_the_thread_of_a_database_says_is_in_the_language_of_who_waits(tmp_path: Path) -> None:
    store = SessionStore(SqliteDatabase(tmp_path / "a.db"))
    told = []
    try:
        await store.start("terminal:local")
        with pytest.raises(NanobotError) as caught:
            await store.resume("terminal:local", "nothing")
        told.append(str(caught.value))
        (tmp_path / "a.db").unlink()
        for use in (store.current("terminal:local"), store.list("terminal:local")):
            with pytest.raises(NanobotError) as caught:
                await use
            told.append(str(caught.value))
    finally:
        await store.database.aclose()
    assert [left for one in told for left in english_left(one)] == []
    assert told[0] == "没有会话 'nothing'。用 /sessions 查看列表。"


@pytest.mark.usefixtures("chinese")
async def test_permissions_and_what_servers_say_are_told_in_chinese() -> None:
    permissions = Permissions()
    words = [ToolWords("mail", f"tool{number}", str(number), "发邮件") for number in range(12)]
    await Pins(permissions).pin("telegram:42", "mail", words)
    await permissions.add("telegram:42", [Permission("write", "a.md")], tainted=True)
    told = permissions_told(await permissions.all())
    names = tuple(one.tool for one in words)
    unread = (Unread("mail", names), Unread("mail", names[:1], names[1:], known=True))
    told += [part for one in unread for part in (one.label, one.sentence, shown(one, words))]
    with pytest.raises(NanobotError) as caught:
        await permissions.take_back("nothing")
    told += [str(caught.value), crash_reason(3)]
    assert [left for one in told for left in english_left(one)] == []
