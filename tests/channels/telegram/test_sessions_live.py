"""Sessions in a chat, from the update to what the person sees: chosen by buttons, sent as a file, deleted."""

import json
from pathlib import Path

from tests.channels.telegram.gateway import OWNER, furnished, running
from tests.cli.test_sessions_process import CANARY, holding
from tests.fakes.telegram_server import TelegramServer


async def test_U67_sessions_are_chosen_exported_and_deleted_in_a_chat_and_are_those_of_the_terminal(
    tmp_path: Path,
) -> None:
    async with furnished(tmp_path, after="Fine.") as (telegram, llm, ada, home):
        for number in range(10):
            await home.run(f"question {number}")
            await home.run("--continue", "-m", f"again {number}")

        def last() -> str:
            return telegram.visible(OWNER)[-1]

        async with running(home):
            await ada.asks("/resume", lambda: "Page 1 of 2. Tap one." in last())
            assert "1. question 9 · today " in last()
            assert "question 1 ·" not in last()
            await ada.presses("▶", lambda: "Page 2 of 2. Tap one." in last())
            ada.press(next(one for one in _labels(telegram) if one.startswith("9. question 1 ")))
            await telegram.until(lambda: "You: again 1" in last())
            assert "question 1 · today " in last()
            await ada.asks("and from my phone?", lambda: last() == "bot: Fine.")
            assert "again 1" in json.dumps(llm.requests[-1].body), "what was begun in the terminal goes on here"
            await ada.asks("/export html", lambda: bool(telegram.sent("sendDocument")))
            await telegram.until(lambda: any("is on its way" in one for one in telegram.visible(OWNER)))
            assert any(".html" in one for one in telegram.visible(OWNER)), "as a file"
            await ada.asks("/delete", lambda: "Delete this session for good?" in last())
            await ada.presses("Delete it", lambda: "Deleted: 6 messages." in last())
            await ada.asks("/resume", lambda: "Tap one." in last())
            await ada.presses("Leave", lambda: last() == "bot: You stay where you are.")
            assert any(one.endswith("Nothing was chosen.") for one in telegram.visible(OWNER))
        listed = await home.run("sessions")
        assert "question 1 ·" not in listed.out
        assert "question 2 ·" in listed.out


async def test_U67_a_conversation_that_is_deleted_in_its_chat_is_nowhere_in_the_home(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=f"The {CANARY} is fine.") as (telegram, llm, ada, home):

        def last() -> str:
            return telegram.visible(OWNER)[-1]

        async with running(home):
            await ada.asks(f"How is the {CANARY}?", lambda: last() == f"bot: The {CANARY} is fine.")
            ada.send("document", f"All about the {CANARY}".encode(), f"Read of the {CANARY}")
            await telegram.until(lambda: len(llm.requests) == 2 and last() == f"bot: The {CANARY} is fine.")
            await ada.asks(f"/sessions {CANARY}", lambda: "Sessions with: " in last())
            await ada.asks("/export md", lambda: bool(telegram.sent("sendDocument")))
            before = holding(home.home, CANARY)
            await ada.asks("/delete", lambda: "4 messages, the last one today " in last())
            await ada.presses("Delete it", lambda: "Deleted: 4 messages, with 2 files." in last())
    databases = {one.partition(".db")[0] for one in before if ".db" in one}
    assert {"nanobot", "index"} <= databases
    assert any(one.endswith(".md") for one in before), "with the export that was sent"
    assert holding(home.home, CANARY) == []


def _labels(telegram: TelegramServer) -> list[str]:
    """The labels of the buttons that the owner sees now."""
    return [label for message in telegram.chats[OWNER] for label in message.buttons]
