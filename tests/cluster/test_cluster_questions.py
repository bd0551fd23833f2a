"""Questions to people where several workers answer: they reach who asks, survive its death, and are judged anew."""

import asyncio
import json

import pytest

from nanobot.providers.scripted import Call, Wait
from tests.cluster.fleet import ADA, BOB, Fleet
from tests.fakes.llm_server import Reply
from tests.fakes.telegram_server import Message, TelegramServer

GROUP = -55
FETCH = Call("web_fetch", {"url": "http://10.255.255.255/"})


@pytest.fixture
def asking(ships: Fleet) -> Fleet:
    """Each has one turn at a time, and asks before it reads a private page."""
    ships.concurrency, ships.tools = 1, {"web": {"fetch": {"allowPrivate": "ask"}}}
    return ships


def asked(telegram: TelegramServer) -> Message:
    """The newest question with buttons in the owner's private chat."""
    return next(message for message in reversed(telegram.chats[ADA]) if "Once" in message.buttons)


async def test_a_question_of_a_worker_is_answered_by_its_button_at_another(asking: Fleet) -> None:
    telegram, held = asking.telegram, asyncio.Event()
    ada, ada_there = telegram.user("Ada", ADA), telegram.member("Ada", GROUP, user_id=ADA)
    await asyncio.gather(asking.run("poller"), asking.run("worker"), asking.run("worker"))
    ada.say("/start")
    await ada_there.asks("/group@nano_test_bot on", "I answer in this group now")
    asking.llm.after = Reply(FETCH)
    ada_there.calls_bot("read http://10.255.255.255/")
    await ada.sees("Confirm Web Fetch")
    asking.llm.after = Reply(Wait(held), "Private.")
    before = len(asking.llm.requests)
    ada.say("what else?")  # the other worker takes it: the first has all the work that it may have
    await asking.llm.asked(before + 1)
    asking.llm.after = "Not read."
    ada.press("No")
    await ada_there.sees("Not read.")
    held.set()
    await ada.sees("Private.")
    assert "does not want 10.255.255.255" in json.dumps(asking.llm.requests[-1].body)
    await ada_there.sees("The question to the owner is over.")


async def test_a_death_of_the_worker_that_asks_asks_again_and_who_answers_is_judged_at_the_press(asking: Fleet) -> None:
    telegram = asking.telegram
    ada = telegram.user("Ada", ADA)
    await asking.run("poller")
    first = await asking.run("worker")
    asking.llm.after = Reply(FETCH)
    ada.say("read http://10.255.255.255/")
    await telegram.shows(ADA, "Confirm Web Fetch")
    old = asked(telegram)
    bob = telegram.user("Bob", BOB)
    telegram.press(bob, old, "Once")  # a client may send what it likes
    await telegram.until(lambda: any("not for you" in one for one in telegram.toasts))
    await asking.run("worker")
    await first.kill()
    await telegram.until(lambda: sum("[Once]" in line for line in telegram.visible(ADA)) == 2)
    telegram.press(ada, old, "Once")
    await telegram.until(lambda: any("This question is over" in one for one in telegram.toasts))
    asking.llm.after = "Not read."
    ada.press("No")
    await telegram.shows(ADA, "Not read.")
