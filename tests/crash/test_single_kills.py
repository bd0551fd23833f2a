"""Kills at chosen moments: while the model works, while Telegram takes an answer, again and again by one message."""

import signal
from pathlib import Path

import pytest

from nanobot.session.ledger import MOST_ATTEMPTS, SUSPECT_AFTER, Ledger
from nanobot.session.sqlite import SqliteDatabase
from tests.channels.telegram.gateway import OWNER, configured, furnished
from tests.cli.harness import Program
from tests.fakes.crash.nursery import Nursery
from tests.fakes.crash.points import Plan
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import TOKEN, Fault, TelegramServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
ANSWER = "The answer."
_LEFT = "SELECT 1 FROM inbox WHERE state != 'done' UNION ALL SELECT 1 FROM outbox WHERE state != 'sent'"


async def answered(telegram: TelegramServer, chat: int) -> None:
    await telegram.until(lambda: any(line.startswith("bot: ") and ANSWER in line for line in telegram.visible(chat)))


async def settled(home: Program) -> None:
    """Wait until nothing is left to do."""
    await until(lambda: not home.rows(_LEFT))


@pytest.mark.parametrize("step", ["model", "sendMessage before", "sendMessage after"])
async def test_a_kill_in_the_middle_of_a_request_is_survived(nursery: Nursery, tmp_path: Path, step: str) -> None:
    async with furnished(tmp_path, after=ANSWER) as (telegram, llm, ada, home):
        if step == "model":
            llm.add(Reply(ANSWER, delay=600))
        else:
            telegram.fail("sendMessage", Fault("hang", apply=step.endswith("after")))
        ada.say("question")
        first = await nursery.start(home, "gateway")
        if step == "model":
            await llm.asked(1)
        else:
            await telegram.until(lambda: bool(telegram.sent("sendMessage")))
        await first.kill()
        await nursery.start(home, "gateway")
        await answered(telegram, ada.chat)
        await settled(home)
        seen = [line for line in telegram.visible(ada.chat) if ANSWER in line]
        assert seen.count(f"bot: {ANSWER}") <= 1, seen
        assert len(seen) == (2 if step.endswith("after") else 1), "a repeat where the first one may have arrived"


async def test_what_a_group_asked_before_a_kill_is_answered_after_it(nursery: Nursery, tmp_path: Path) -> None:
    """At the start the bot must learn its own name before it can tell what in a group is meant for it."""
    async with furnished(tmp_path, Reply(ANSWER, delay=60), after=ANSWER) as (telegram, llm, _, home):
        ada = telegram.member("Ada", -7_000, user_id=OWNER)
        first = await nursery.start(home, "gateway")
        await ada.asks("/group@nano_test_bot on", lambda: len(telegram.visible(ada.chat)) > 1)
        ada.calls_bot("a question")
        await llm.asked(1)
        await first.kill()
        telegram.fail("getMe", Fault("status", status=500, description="Internal Server Error"))
        await nursery.start(home, "gateway")
        await answered(telegram, ada.chat)
        await settled(home)


async def test_a_repeat_is_marked_only_where_the_first_one_was_on_its_way(nursery: Nursery, tmp_path: Path) -> None:
    """Six chats wait for Telegram's word on an answer, and each has a second answer waiting behind it."""
    async with TelegramServer() as telegram, LlmServer(after=ANSWER) as llm:
        people = [telegram.user(f"P{number}", OWNER + number) for number in range(6)]
        home = configured(tmp_path, telegram, llm, allowFrom=[str(one.id) for one in people], joinSeconds=0.05)
        telegram.failing("sendMessage", Fault("hang", apply=True))
        first = await nursery.start(home, "gateway")
        for one in people:
            one.say("question")
        await telegram.until(lambda: len(telegram.sent("sendMessage")) == len(people))
        for one in people:
            one.say("another question")
        waiting = "SELECT count(*) FROM outbox WHERE state IN ('new', 'sending')"
        await until(lambda: home.rows(waiting) == [(2 * len(people),)])
        await first.kill()
        telegram.failing("sendMessage", None)
        await nursery.start(home, "gateway")
        await settled(home)
        for one in people:
            seen = [line for line in telegram.visible(one.chat) if ANSWER in line]
            assert seen == [f"bot: {ANSWER}", f"bot: ↻ {ANSWER}", f"bot: {ANSWER}"]


async def test_a_kill_at_rest_sends_nothing_and_asks_no_model_again(nursery: Nursery, tmp_path: Path) -> None:
    async with furnished(tmp_path, after=ANSWER) as (telegram, llm, ada, home):
        ada.say("question")
        for _ in range(10):
            polls = len(telegram.sent("getUpdates"))
            life = await nursery.start(home, "gateway")
            await telegram.until(lambda polls=polls: len(telegram.sent("getUpdates")) > polls)  # type: ignore[misc]
            await answered(telegram, ada.chat)
            await settled(home)
            await life.kill()
        await nursery.start(home, "gateway")
        await ada.asks("another question", lambda: telegram.visible(ada.chat).count(f"bot: {ANSWER}") == 2)
        await settled(home)
        assert telegram.visible(ada.chat).count(f"bot: {ANSWER}") == 2
        assert [len(telegram.sent("sendMessage")), len(llm.requests)] == [2, 2]


async def test_a_deadly_message_takes_no_other_with_it_and_its_chat_is_told(nursery: Nursery, tmp_path: Path) -> None:
    deadly, chats = Plan(word="killer"), 9
    # The others are being worked on whenever it strikes.
    async with TelegramServer() as telegram, LlmServer(after=Reply(ANSWER, delay=0.5)) as llm:
        owner = telegram.user("Ada", OWNER)
        people = [telegram.user(f"Bob {number}", 7_000 + number) for number in range(chats)]
        home = configured(tmp_path, telegram, llm, allowFrom=[str(OWNER), *(str(one.chat) for one in people)])
        database = SqliteDatabase(home.home / "nanobot.db")
        await Ledger(database).set_notes({f"telegram:{TOKEN.partition(':')[0]}:owner": str(OWNER)})
        await database.aclose()
        for number, one in enumerate(people):
            one.say("killer question" if number == chats // 2 else "an ordinary question")
        killer = people.pop(chats // 2)
        for tried in range(1, MOST_ATTEMPTS + 1):
            life = await nursery.start(home, "gateway", plan=deadly)
            if tried == SUSPECT_AFTER + 2:  # it is not tried again at once
                for one in people:
                    await answered(telegram, one.chat)
            assert await life.ended() == -signal.SIGKILL
        begun = home.rows("SELECT payload FROM inbox WHERE state = 'claimed'")
        assert ["killer" in str(payload) for (payload,) in begun] == [True], "at last it ran alone"
        life = await nursery.start(home, "gateway", plan=deadly)
        killer.say("an ordinary question")
        await answered(telegram, killer.chat)
        await telegram.until(lambda: len(telegram.visible(owner.chat)) > 0)
        assert await life.stop() == 0
        (told,) = [line for line in telegram.visible(killer.chat) if "without an answer" in line]
        assert "“killer question”" in told
        assert f"stopped {MOST_ATTEMPTS} times" in told
        (summary,) = telegram.visible(owner.chat)
        assert "I set 1 message of 1 chat aside" in summary


async def test_a_stop_in_order_gives_back_a_turn_that_the_next_start_answers(nursery: Nursery, tmp_path: Path) -> None:
    async with furnished(tmp_path, Reply("Too late.", delay=60), after=ANSWER) as (telegram, llm, ada, home):
        ada.say("question")
        life = await nursery.start(home, "gateway")
        await llm.asked(1)
        assert await life.stop() == 0, life.text
        await nursery.start(home, "gateway")
        await answered(telegram, ada.chat)
        await settled(home)
        assert [line for line in telegram.visible(ada.chat) if ANSWER in line] == [f"bot: {ANSWER}"]
        assert home.rows("SELECT attempts FROM inbox") == [(0,)], "it does not count as a crash"
