"""Appointments through the shipped gateway: what a person sets on Telegram comes there, once."""

from pathlib import Path

from tests.channels.telegram.gateway import OWNER, configured, running
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import TelegramServer


async def test_U22_a_reminder_comes_at_its_time_and_asks_no_model(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="no") as llm:
        ada = telegram.user("Ada", OWNER)
        async with running(configured(tmp_path, telegram, llm)):
            ada.say("/schedule in 1 second take the pizza out")
            await telegram.until(lambda: any("⏰ take the pizza out" in line for line in telegram.visible(ada.chat)))
            ada.say("/schedule")
            await telegram.until(lambda: any("Over" in line for line in telegram.visible(ada.chat)))
        seen = telegram.visible(ada.chat)
        assert sum("⏰" in line for line in seen) == 1
        assert any("Scheduled 1: “take the pizza out”, once" in line for line in seen), seen
        assert not llm.requests


async def test_U22_a_task_runs_in_a_session_of_its_own_and_its_answer_comes_to_the_chat(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(Reply("Three things are new."), after="no") as llm:
        ada = telegram.user("Ada", OWNER)
        async with running(configured(tmp_path, telegram, llm)):
            ada.say("/schedule do in 1 second: say what is new")
            await telegram.until(lambda: any("Three things are new." in line for line in telegram.visible(ada.chat)))
        assert len(llm.requests) == 1
        assert "say what is new" in str(llm.requests[0])
        assert "nobody can be asked" in str(llm.requests[0])
