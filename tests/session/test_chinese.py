"""Sessions, permissions and locks, as somebody reads them who knows Chinese alone."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nanobot.errors import NanobotError
from nanobot.session.listing import SessionEntry
from nanobot.session.permissions import Permission, Permissions
from nanobot.session.permissions import told as permissions_told
from nanobot.session.pins import Pins, ToolWords, Unread, shown
from nanobot.session.rows import crash_reason
from nanobot.session.sqlite import SqliteDatabase
from nanobot.session.store import SessionInfo, SessionStore
from nanobot.utils.translation import speaking
from tests.fakes.chinese import english_left

NOW = datetime(2026, 11, 22, 14, tzinfo=UTC)
KEYS = ("terminal:local", "telegram:42", "telegram:-100:7", "telegram:-100", "telegram:42:7", "schedule:1", "helper:x")


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    with speaking("zh"):
        yield


def test_a_list_of_sessions_is_in_chinese() -> None:
    lines = [
        SessionEntry(SessionInfo("abc", key, "", 3, NOW, NOW), "", "", "", cost=0.5).line(UTC, now=NOW) for key in KEYS
    ]
    assert [left for one in lines for left in english_left(one)] == []
    assert lines[0].startswith("（无文字） · 今天 14:00 · 终端 · 3 条消息 · ")
    assert "Telegram 群组 -100 话题 7" in lines[2]


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
