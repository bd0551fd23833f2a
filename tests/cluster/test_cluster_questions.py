"""Questions to people where several workers answer: they reach who asks, survive its death, and are judged anew."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.providers.scripted import Call, Wait
from tests.cluster.fleet import Fleet, fleet
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.postgres import TestServer
from tests.fakes.telegram_server import Message, TelegramServer

ADA, BOB, GROUP = 5001, 5002, -55
MENTION = [{"type": "mention", "offset": 0, "length": 14}]
FETCH = Call("web_fetch", {"url": "http://10.255.255.255/"})


@pytest.fixture
async def ships(tmp_path: Path, postgres: TestServer) -> AsyncIterator[Fleet]:
    """Two workers and a poller, once they are asked for; Ada is the owner."""
    async with (
        TelegramServer() as telegram,
        LlmServer(after="Done.") as llm,
        fleet(tmp_path, telegram, llm, postgres.fresh(), [ADA], concurrency=1, tools=ASKING) as made,
    ):
        yield made


ASKING: dict[str, object] = {"web": {"fetch": {"allowPrivate": "ask"}}}


def asked(telegram: TelegramServer) -> Message:
    """The newest question with buttons in the owner's private chat."""
    return next(message for message in reversed(telegram.chats[ADA]) if "Once" in message.buttons)


async def test_a_question_of_one_worker_is_answered_in_a_chat_that_another_serves(ships: Fleet) -> None:
    telegram, held = ships.telegram, asyncio.Event()
    ada, ada_there = telegram.user("Ada", ADA), telegram.member("Ada", GROUP, user_id=ADA)
    await asyncio.gather(ships.run("poller"), ships.run("worker"), ships.run("worker"))
    ada.say("/start")
    ada_there.say("/group@nano_test_bot on")
    await telegram.shows(GROUP, "I answer in this group now")
    ships.llm.after = Reply(FETCH)
    ada_there.say("@nano_test_bot read http://10.255.255.255/", entities=MENTION)
    await telegram.shows(ADA, "Confirm Web Fetch")
    ships.llm.after = Reply(Wait(held), "Private.")
    before = len(ships.llm.requests)
    ada.say("what else?")  # the other worker takes it: the first has all the work that it may have
    await ships.llm.asked(before + 1)
    ships.llm.after = "Not read."
    ada.press("No")
    await telegram.shows(GROUP, "Not read.")
    held.set()
    await telegram.shows(ADA, "Private.")
    assert "does not want 10.255.255.255" in json.dumps(ships.llm.requests[-1].body)
    assert "The question to the owner is over." in "\n".join(telegram.visible(GROUP))


async def test_words_in_reply_to_a_question_reach_the_worker_that_asks_also_from_another_one(ships: Fleet) -> None:
    telegram, held = ships.telegram, asyncio.Event()
    ada, ada_there = telegram.user("Ada", ADA), telegram.member("Ada", GROUP, user_id=ADA)
    await asyncio.gather(ships.run("poller"), ships.run("worker"), ships.run("worker"))
    ada.say("/start")
    ada_there.say("/group@nano_test_bot on")
    await telegram.shows(GROUP, "I answer in this group now")
    ships.llm.after = Reply(FETCH)
    ada_there.say("@nano_test_bot read http://10.255.255.255/", entities=MENTION)
    await telegram.shows(ADA, "Confirm Web Fetch")
    ships.llm.after = Reply(Wait(held), "Private.")
    before = len(ships.llm.requests)
    ada.say("what else?")  # the other worker has this chat
    await ships.llm.asked(before + 1)
    ships.llm.after = "Not read."
    ada.say("it is the router", reply_to_message=telegram.message_json(asked(telegram)))
    await telegram.shows(ADA, "Answered: no.")
    await telegram.shows(GROUP, "Not read.")
    held.set()
    await telegram.shows(ADA, "→ No: it is the router")
    assert "it is the router" in json.dumps(ships.llm.requests[-1].body)


async def test_the_death_of_the_worker_that_asks_asks_again_and_who_may_answer_is_judged_at_the_press(
    ships: Fleet,
) -> None:
    telegram = ships.telegram
    ada = telegram.user("Ada", ADA)
    await ships.run("poller")
    first = await ships.run("worker")
    ships.llm.after = Reply(FETCH)
    ada.say("read http://10.255.255.255/")
    await telegram.shows(ADA, "Confirm Web Fetch")
    old = asked(telegram)
    bob = telegram.user("Bob", BOB)
    telegram.press(bob, old, "Once")  # a client may send what it likes
    await telegram.until(lambda: any("not for you" in one for one in toasts(telegram)))
    await ships.run("worker")
    await first.kill()
    await telegram.until(lambda: sum("[Once]" in line for line in telegram.visible(ADA)) == 2)
    telegram.press(ada, old, "Once")
    await telegram.until(lambda: any("This question is over" in one for one in toasts(telegram)))
    ships.llm.after = "Not read."
    ada.press("No")
    await telegram.shows(ADA, "Not read.")


def toasts(telegram: TelegramServer) -> list[str]:
    return [str(call.params.get("text", "")) for call in telegram.sent("answerCallbackQuery")]
