"""Helpers through the shipped gateway: one line while they work, and in the background an answer that comes once."""

import asyncio
import json
from pathlib import Path

from nanobot.providers.scripted import Call, Wait
from tests.channels.telegram.gateway import OWNER, configured, furnished, running
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.telegram_server import TelegramServer


class Model:
    """Gives a task to a helper, which looks into the documentation and waits then until it may end."""

    def __init__(self, *, background: bool) -> None:
        self.background = background
        self.hangs = asyncio.Event()
        self.may_end = False
        self.heard: list[str] = []

    def __call__(self, request: LlmRequest) -> Reply:
        messages = request.messages
        looked = messages[-1]["role"] == "tool"
        if "You are a helper" in str(messages[0]["content"]):
            if not looked:
                return Reply(Call("nanobot_docs", {"query": "how to set the bot up"}))
            if not self.may_end:
                self.hangs.set()
                return Reply(Wait(asyncio.Event()))
            return Reply("BotFather makes it.")
        self.heard.append(json.dumps(messages))
        if looked:
            return Reply("It is at work." if self.background else f"Told: {messages[-1]['content']}")
        if "find out" not in str(messages[-1]["content"]):
            return Reply("You know all.")
        return Reply(Call("spawn", {"task": "Who makes bots?", "background": self.background}))


async def test_U46_a_helper_in_the_background_survives_a_kill_and_its_answer_comes_once(tmp_path: Path) -> None:
    model = Model(background=True)
    async with furnished(tmp_path, after=model) as (telegram, _, ada, home):
        async with running(home) as gateway:
            await ada.asks("find out who makes bots", "It is at work.")
            await asyncio.wait_for(model.hangs.wait(), 60)
            await ada.asks("/tasks", "h1 Who makes bots?: runs")
            await gateway.kill()
        model.may_end = True
        async with running(home):
            await telegram.shows(OWNER, "BotFather makes it.")
            await ada.asks("and now?", "You know all.")
            await ada.asks("/tasks", "h1 Who makes bots?: answered")
        seen = telegram.visible(ada.chat)
    assert sum("BotFather makes it." in line for line in seen) == 1, seen
    assert any("Helper h1: Who makes bots?" in line for line in seen), seen
    assert "Helper h1, \\u201cWho makes bots?\\u201d, answered" in model.heard[-1], "the model is told, too"
    assert model.heard[-1].count("BotFather makes it.") == 1


async def test_U46_stop_ends_a_helper_in_the_background_and_nothing_comes_of_it(tmp_path: Path) -> None:
    model = Model(background=True)
    async with TelegramServer() as telegram, LlmServer(after=model) as llm:
        ada = telegram.user("Ada", OWNER)
        async with running(configured(tmp_path, telegram, llm)):
            ada.say("find out who makes bots")
            await asyncio.wait_for(model.hangs.wait(), 60)
            await ada.asks("/task h1 stop", "Helper h1: stopped.")
            await ada.asks("/tasks", "h1 Who makes bots?: stopped")
        assert not any("Helper h1: Who" in line for line in telegram.visible(ada.chat))


async def test_U46_a_helper_in_the_foreground_goes_on_after_a_kill_with_the_turn_for_which_it_works(
    tmp_path: Path,
) -> None:
    model = Model(background=False)
    async with furnished(tmp_path, after=model) as (telegram, llm, ada, home):
        async with running(home) as gateway:
            ada.say("find out who makes bots")
            await asyncio.wait_for(model.hangs.wait(), 60)
            await ada.sees('helper 1 "Who makes bots?"')
            await gateway.kill()
        model.may_end = True
        async with running(home):
            await telegram.shows(OWNER, "Told: BotFather")
        asked = [one for one in llm.requests if "You are a helper" in json.dumps(one.messages)]
    assert len(asked) == 3, "what was looked up is not looked up again"
