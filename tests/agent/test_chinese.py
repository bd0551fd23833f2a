"""What a turn and its chat say to somebody who reads Chinese: replies, questions, failures, limits, receipts."""

import asyncio
import re
from collections.abc import Iterator
from typing import get_args

import pytest

from nanobot.agent.explanations import explain, remedy
from nanobot.agent.tools.own_tools import AskTool, TodoTool
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import ApprovalAsked, Notice, ToolFinished, TurnFinished
from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.messages import Usage
from nanobot.providers.base import ProviderInfo
from nanobot.providers.scripted import Call, Fail, Say
from nanobot.utils.translation import settle, told
from tests.agent.harness import HERE, FakeTool, agent
from tests.agent.test_approvals import Deploy
from tests.fakes.chinese import english_left

SEARCH = Call("web_search", {"query": "cats"})


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    settle({"LANG": "zh_CN.UTF-8"})
    yield
    settle({}, "auto")


def test_where_a_model_is_not_reached_no_secret_of_its_address_is_told_to_a_chat() -> None:
    info = ProviderInfo("acme", "big", base_url="https://joe:hunter2pass@acme.example/v1?key=topsecretvalue")
    said = explain(ProviderError("network", "no", provider="acme"), info)
    assert "acme.example/v1" in said
    assert not re.search("joe|hunter2|topsecret", said)


@pytest.mark.parametrize("kind", get_args(ProviderErrorKind))
def test_every_failure_of_a_model_is_explained_in_chinese(kind: ProviderErrorKind) -> None:
    error = ProviderError(kind, "no", status=500, provider="acme", detail="no", key_hint="ACME_API_KEY")
    info = ProviderInfo("acme", "big", base_url="https://acme.example/v1")
    assert not english_left("\n".join([explain(error, info), *map(told, remedy(error, info))]))


async def test_the_replies_about_a_chat_and_its_turn_are_in_chinese() -> None:
    tool = FakeTool(gate=asyncio.Event())
    async with agent([SEARCH, "well"], tool, quiet=0.05) as box:
        said = [(await box.ask(text)).text for text in ("/status", "/stop", "/tasks", "/undo", "/approve x once")]
        await box.say("go")
        await tool.started.wait()
        await box.say("and dogs")
        await box.until(lambda: len(box.of(Notice)) > 1)
        said += [(await box.ask(text)).text for text in ("/status", "/stop")]
        told = [event.text for event in box.of(Notice)]
    assert len(told) > 1
    assert not english_left("\n".join([*said, *told]), "a script plays the model")
    assert any("token" in text for text in said)


async def test_a_question_to_the_owner_is_in_chinese() -> None:
    async with agent([Call("deploy", {"query": "make all"}), "done"], Deploy()) as box:
        box.loop.runner.approvals.channels.add(HERE.channel)
        await box.say("Please run make all")
        await box.until(lambda: bool(box.of(ApprovalAsked)))
        asked = box.of(ApprovalAsked)[0]
        answered = await box.ask(f"/approve {asked.id} always")
        await box.until(lambda: bool(box.of(TurnFinished)))
        kept = (await box.ask("/permissions")).text
    assert "谁的要求：你写道：“Please run make all”。" in asked.detail
    assert (asked.title, asked.act, asked.done) == ("运行 make all？", "运行 make all", "已运行 make all")
    facts = [one for one in asked.detail.splitlines() if not one.startswith("原因：")]
    assert not english_left("\n".join([*facts, answered.text, kept]), "Please run make all")


async def test_a_turn_that_reaches_a_limit_or_claims_too_much_says_so_in_chinese() -> None:
    failed = Fail(ProviderError("server", "no", provider="acme", detail="no"))
    async with agent([SEARCH, failed], FakeTool(), limits=TurnLimits(max_steps=1)) as box:
        stopped = await box.ask("go")
    assert "我在这里停下了：已达到每轮 1 步的上限。" in stopped.text
    async with agent(["I've saved it to notes.md."] * 2) as box:
        claimed = await box.ask("save it")
    assert claimed.unbacked
    async with agent([Say(""), Say("")]) as box:
        empty = await box.ask("hm")
    shown = [stopped.text, *stopped.notes, *claimed.unbacked, empty.error]
    assert not english_left("\n".join(shown))


async def test_a_model_is_asked_for_its_summary_in_english() -> None:
    async with agent([SEARCH, "Shall I go on?"], FakeTool(), limits=TurnLimits(max_steps=1)) as box:
        await box.ask("go")
    assert "Stop working: the step limit of 1 for one turn is reached." in str(box.provider.requests[-1].messages)


async def test_what_a_call_has_brought_is_shown_in_chinese_and_told_the_model_in_english() -> None:
    items = ["[x] one", "[ ] two"]
    asks = Call("ask", {"question": "Which?", "choices": ["one", "two"]})
    async with agent([(Call("todo", {"items": items}), asks, Call("nope", {})), "done"], TodoTool(), AskTool()) as box:
        await box.ask("go")
        told = [event.result.message for event in box.of(ToolFinished)]
    assert {"已完成 1 / 2", "这里没有人可以询问"} <= {*told}
    assert "The list is shown: 1 of 2 done." in str(box.provider.requests[1].messages)


def test_what_was_spent_is_told_in_chinese() -> None:
    spent = Usage(1_200, 30, 600, cost=0.25, requests=2, unpriced=10)
    assert spent.text == "输入 1,200 token（50% 来自缓存），输出 30，2 次请求，0.2500 美元，另有 10 个费用未知的 token"
    assert Usage().text == "无"
