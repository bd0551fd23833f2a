"""Telegram for people who read Chinese, beside others who do not: each line is in the language of whom it reaches."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from nanobot.session.database import stamp
from tests.channels.telegram.gateway import OWNER, configured, furnished, running
from tests.fakes.chinese import english_left
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import TelegramServer

BOB = 7_002


async def test_people_of_two_languages_are_spoken_to_in_theirs_also_after_a_restart(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="no") as (telegram, _, ada, home):
        bob = telegram.user("Bob", BOB)
        ada.language = "zh-hans"
        async with running(home):
            asked = await bob.asks("/pair", "Your code is")
            await ada.asks(f"/pair {asked.partition('Your code is ')[2].split(',')[0]}", "现在可以和我说话了")
            await bob.sees("You have been let in.")
            await ada.asks("/schedule in 1 hour 浇花", "已安排 1")
            await bob.asks("/schedule in 1 hour water the roses", "Scheduled 2")
        due = stamp(datetime.now(UTC) - timedelta(minutes=20))
        home.rows("UPDATE job SET due = ?, at = ?", due, due)
        async with running(home):
            late = [await ada.sees("⏰ 浇花"), await bob.sees("⏰ water the roses")]
        shown = "\n".join(telegram.visible(ada.chat))
    assert "原定" in late[0]
    assert "due" in late[1]
    assert english_left(shown, *(line for line in shown.splitlines() if line.startswith("Ada: "))) == []


async def test_refusals_buttons_and_files_are_in_the_language_of_who_meets_them(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="好的。") as llm:
        ada, mei = telegram.user("Ada", OWNER), telegram.user("Mei", BOB)
        mei.language = "zh-hans"
        async with running(configured(tmp_path, telegram, llm)):
            await mei.asks("hello", "这是一个私人助理")
            await mei.asks("/pair", "你的代码是")
            await ada.asks("/people", "Who may talk to me")
            ada.language = "zh-hans"
            await ada.asks("/people", "谁可以和我说话")
            await ada.asks("/people grant Nobody files", "这里没有叫")
            ada.send("voice", b"OggS", duration=2)
            await ada.sees("语音消息：没有转成文字。")
            ada.send("document", b"", file_name="empty.txt", mime_type="text/plain")
            await ada.sees("文档 empty.txt：已收到，但它是空的。")
        words = "\n".join(line for line in telegram.visible(mei.chat) if not line.startswith("Mei: "))
    assert english_left(words) == []
