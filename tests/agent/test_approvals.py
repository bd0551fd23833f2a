"""A call that waits for the owner: asked once, answered by a command, never left hanging."""

import asyncio

import pytest

from nanobot.agent.tools.base import Question, ToolContext
from nanobot.bus.events import Address, ApprovalAsked, InboundMessage, Role, Sender, TurnFinished
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import ToolResult
from nanobot.session.permissions import Permission
from tests.agent.harness import HERE, Box, FakeTool, QueryArgs, agent

ELSEWHERE = Address("terminal", "elsewhere")


class Asking(FakeTool):
    """Asks the owner and keeps what came back; None where nobody could be asked."""

    def __init__(self) -> None:
        super().__init__("web_fetch")
        self.answers: list[str] = []

    async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
        if context.approve is None:
            self.answers.append("nobody")
            return ToolResult("done")
        said = await context.approve(Question("May I?", args.url, lasting=(Permission("private", args.url, "it"),)))
        self.answers.append(f"{said.choice} {said.reason}".strip())
        return ToolResult("done")


def provider() -> ScriptedProvider:
    return ScriptedProvider([(Call("web_fetch", {"url": "http://nas.lan/"}),), "the end", "again"])


def asked(box: Box) -> list[ApprovalAsked]:
    return [event for event in box.of(ApprovalAsked) if isinstance(event, ApprovalAsked)]


async def begin(box: Box) -> ApprovalAsked:
    box.loop.runner.approvals.channels.add(HERE.channel)
    await box.say("read it")
    await box.until(lambda: bool(asked(box)))
    return asked(box)[0]


@pytest.mark.parametrize("choice", ["once", "always", "no"])
async def test_the_owner_is_asked_and_the_answer_reaches_the_call(choice: str) -> None:
    tool = Asking()
    async with agent(provider(), tool) as box:
        question = await begin(box)
        assert (question.title, question.detail, question.call.name) == ("May I?", "http://nas.lan/", "web_fetch")
        assert choice in question.choices
        assert (await box.ask(f"/approve {question.id} {choice}")).text == f"Answered: {choice}."
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert (await box.ask(f"/approve {question.id} once")).outcome == "completed"
    assert tool.answers == [choice]


async def test_an_answer_counts_only_in_its_chat_by_its_id_and_in_its_words() -> None:
    tool = Asking()
    async with agent(provider(), tool) as box:
        question = await begin(box)
        guest = InboundMessage(HERE, Sender("9", role="guest"), f"/approve {question.id} once")
        assert "not available to you" in (await box.loop.process(guest)).text
        assert "No question" in (await box.ask(f"/approve {question.id} once", ELSEWHERE)).text
        assert "No question" in (await box.ask("/approve 0 once")).text
        assert "is no answer" in (await box.ask(f"/approve {question.id} maybe")).text
        assert tool.answers == []
        await box.ask(f"/approve {question.id} no it is  mine")
        await box.until(lambda: bool(box.of(TurnFinished)))
    assert tool.answers == ["no it is mine"]


async def test_no_answer_in_time_is_a_no() -> None:
    tool = Asking()
    async with agent(provider(), tool) as box:
        box.loop.runner.approvals.seconds = 0.05
        question = await begin(box)
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert "No question" in (await box.ask(f"/approve {question.id} once")).text
    assert [answer.partition(" ")[0] for answer in tool.answers] == ["no"]


async def test_stop_ends_a_turn_that_waits_for_an_answer_and_no_later_one() -> None:
    tool = Asking()
    async with agent(provider(), tool) as box:
        question = await begin(box)
        assert await box.loop.cancel(HERE.key, "an older turn") == "Nothing is running."
        assert not box.of(TurnFinished)
        await box.say("/stop")
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert "No question" in (await box.ask(f"/approve {question.id} once")).text
    assert tool.answers == []


@pytest.mark.parametrize(("role", "shown"), [("guest", True), ("user", True), ("owner", False)])
async def test_nobody_is_asked_where_no_owner_can_answer(role: Role, shown: bool) -> None:
    tool = Asking()
    async with agent(provider(), tool) as box:
        if shown:
            box.loop.runner.approvals.channels.add(HERE.channel)
        async with asyncio.timeout(120):
            await box.loop.process(InboundMessage(HERE, Sender("9", role=role), "read it"))
        assert asked(box) == []
    assert tool.answers == ["nobody"]
