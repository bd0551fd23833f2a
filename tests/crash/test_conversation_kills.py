"""Kills while a conversation is gone back in: what was asked for once is done once."""

from pathlib import Path

import pytest

from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from tests.channels.telegram.gateway import OWNER, furnished
from tests.crash.test_single_kills import settled
from tests.fakes.crash.nursery import Nursery
from tests.fakes.llm_server import Reply

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_U65_a_retry_whose_gateway_is_killed_asks_the_same_question_once_more_in_one_branch(
    nursery: Nursery, tmp_path: Path
) -> None:
    never = Reply("Never told.", delay=600)
    script = ("Hello.", "A first try.", never)
    async with furnished(tmp_path, *script, after="A second try.") as (telegram, llm, ada, home):
        first = await nursery.start(home, "gateway")
        for question, answer in (("good day", "Hello."), ("plan it", "A first try.")):
            await ada.asks(question, answer)
        ada.say("/retry")
        await llm.asked(3)
        await first.kill()
        await nursery.start(home, "gateway")
        await telegram.shows(OWNER, "A second try.")
        await settled(home)
    ledger = Ledger(SqliteDatabase(home.home / "nanobot.db"))
    sessions = await ledger.sessions.list(f"telegram:{OWNER}")
    shown = await ledger.sessions.history((await ledger.sessions.current(f"telegram:{OWNER}")).id)
    await ledger.sessions.aclose()
    assert len(sessions) == 2
    assert [one.text for one in shown if one.content] == ["good day", "Hello.", "plan it", "A second try."]


async def test_U70_a_picker_whose_gateway_is_killed_is_shown_anew_and_works(nursery: Nursery, tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Hello.") as (telegram, _, ada, home):
        first = await nursery.start(home, "gateway")
        await ada.asks("good day", "Hello.")
        await ada.asks("/rewind", "Go back to before which question?")
        await first.kill()
        await nursery.start(home, "gateway")
        await telegram.until(lambda: sum("Go back to" in line for line in telegram.visible(OWNER)) == 2)
        newest = [message for message in telegram.chats[OWNER] if message.buttons][-1]
        await ada.presses(newest.buttons[0], "You are back before that question")
        await settled(home)
