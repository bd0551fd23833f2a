"""Going back in a conversation, asking again and asking beside it: nothing is lost, and nothing is left behind."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from nanobot.bus.events import InboundMessage, Notice, QuestionAsked, Sender, ToolFinished, TurnFinished
from nanobot.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from nanobot.providers.base import Capabilities
from nanobot.providers.scripted import Call, Say, ScriptedProvider, StepSource, Wait
from nanobot.results import ToolResult
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from tests.agent.harness import HERE, Box, FakeTool, agent, message


def model(*steps: StepSource, after: StepSource | None = "Fine.") -> ScriptedProvider:
    return ScriptedProvider(steps, after=after, capabilities=Capabilities(window=8_000))


def said(messages: tuple[Message, ...]) -> list[str]:
    return [one.text for one in messages if one.content]


async def current(box: Box) -> str:
    return (await box.store.current(HERE.key)).id


async def choose(box: Box, number: int, count: int = 1) -> None:
    """Answer the question that is asked as the one of this `count`."""
    await box.until(lambda: len(box.of(QuestionAsked)) >= count)
    asked = box.of(QuestionAsked)[count - 1]
    box.loop.questions.answer(HERE.key, asked.id, number, Sender("1", "Ann", "owner"))


async def test_U65_a_branch_begins_with_what_was_said_costs_nothing_and_leaves_the_other_as_it_was() -> None:
    async with agent(model(after="Noted.")) as box:
        await box.ask("My boat is called Ida.")
        old, spent = await current(box), await box.store.spent()
        told = await box.ask("/branch winter plan")
        made = await box.store.current(HERE.key)
        assert await box.store.spent() == spent
        await box.ask("And it is green.")
        before, after = await box.store.history(old), await box.history()
        back = await box.ask(f"/resume {old}")
    assert made.id != old
    assert made.title == "winter plan"
    assert f"/resume {old}" in told.text
    assert said(before) == ["My boat is called Ida.", "Noted."]
    assert said(after) == [*said(before), "And it is green.", "Noted."]
    assert old in back.text


async def test_U65_what_a_summary_hides_stays_hidden_in_a_branch_and_undo_does_not_lose_the_summary() -> None:
    provider = model("One.", "Two.", "- The boat is Ida.")
    async with agent(provider) as box:
        await box.ask("My boat is called Ida. " + "long " * 400)
        await box.ask("And it is green. " + "long " * 400)
        await box.ask("/compact")
        shown = said(await box.history())
        await box.ask("/branch")
        undone = await box.ask("/undo")
        assert said(await box.history()) == shown
    assert "- The boat is Ida." in shown[0]
    assert "taken back" not in undone.text


async def test_U65_a_command_that_is_read_again_after_a_crash_makes_no_second_branch(tmp_path: Path) -> None:
    store = Ledger(SqliteDatabase(tmp_path / "nanobot.db")).sessions
    async with agent(model(after="Noted."), store=store) as box:
        for text in ("First?", "Second?"):
            await box.ask(text)
        for _ in range(2):
            again = replace(message("/retry"), id="telegram:77")
            assert (await box.loop.process(again)).text == "Noted."
        questions = [one for one in said(await box.history()) if one.endswith("?")]
        assert questions == ["First?", "Second?", "Second?"], "the second try asked the same question"
        assert len(await box.store.list(HERE.key)) == 2
    await store.aclose()


async def test_U65_retry_asks_the_last_question_again_without_the_first_answer_and_names_what_stays_done() -> None:
    tool = FakeTool("write", lambda _: ToolResult("ok", receipt="wrote plan.md (+1)"))
    provider = model("Hello.", Call("write", {"query": "x"}), "A bad answer.", "A better answer.")
    async with agent(provider, tool) as box:
        await box.ask("Hi.")
        await box.ask("Plan it.")
        finished = await box.ask("/retry")
        shown = said(await box.history())
    assert finished.text == "A better answer."
    assert "wrote plan.md (+1)" in finished.notes[0]
    assert shown == ["Hi.", "Hello.", "Plan it.", "A better answer."]
    assert not any("bad" in one.text for one in provider.requests[-1].messages)


async def test_U65_what_a_guest_has_asked_is_asked_again_with_the_rights_of_a_guest() -> None:
    group = replace(HERE, chat="group")
    words = UserMessage((Text("Write it down."),), speaker="guest")
    tool = FakeTool("write", access="changes")
    provider = model(Call("write", {"query": "x"}))
    async with agent(provider, tool) as box:
        session = await box.store.current(group.key)
        await box.store.append(session.id, (words, AssistantMessage((Text("No."),))), turn="t")
        asks = InboundMessage(group, Sender("1", "Ann", "owner"), "/retry", id="m1")
        await box.loop.process(asks)
        denied = await box.loop.process(replace(asks, sender=Sender("2", "Eve", "user"), id="m2"))
    assert not tool.calls
    assert not provider.requests[0].tools
    assert "Only the owner" in denied.text


async def test_U65_a_question_beside_the_conversation_leaves_nothing_of_it_but_what_it_cost() -> None:
    page = FakeTool("web_search", lambda _: ToolResult("It is 12 km.", untrusted=True))
    write = FakeTool("write_file", access="changes")
    others = (Call("write_file", {"query": "x"}), Call("gone", {}))
    half = (Say("About 3"), Wait(asyncio.Event()))
    provider = model("Noted.", Call("web_search", {"query": "far"}), others, "12 km.", half, "Ida.")
    async with agent(provider, page, write) as box:
        await box.ask("My boat is called Ida.")
        before, spent = said(await box.history()), await box.store.spent()
        aside = await box.ask("/btw how far is the lake?")
        assert said(await box.history()) == before
        assert (await box.store.spent()).requests > spent.requests
        told = [one.result.message for one in box.of(ToolFinished)]
        kept = len(await box.history())
        stopped = asyncio.create_task(box.ask("/btw how deep is it?"))
        await box.until(lambda: any("About 3" in str(one) for one in box.events))
        await box.ask("/stop")
        assert ((await stopped).outcome, len(await box.history())) == ("cancelled", kept + 1), "what it cost alone"
        costs = [dict(await box.store.spending(by)) for by in ("person", "cause")]
        assert [list(one) for one in costs] == [[f"{HERE.channel}:1"], ["chat"]]
        await box.ask("How is it called?")
    assert aside.text == "12 km."
    assert "keeps neither" in aside.notes[0]
    assert not write.calls, "it cannot write, though the model knows the name"
    results = [one for one in provider.requests[3].messages if isinstance(one, ToolMessage)]
    assert [one.error for one in results] == ["", "denied", "denied"]
    assert "beside the conversation" in results[1].text
    assert "beside the conversation" in told[1]
    assert [tool.name for tool in provider.requests[1].tools] == ["web_search"]
    assert "Ida" in provider.requests[1].messages[0].text
    assert not any("km" in one.text for one in provider.requests[-1].messages)


async def test_U65_a_question_beside_the_conversation_waits_for_the_turn_that_runs_and_neither_steers_another() -> None:
    look, gate = FakeTool("look", gate=asyncio.Event()), asyncio.Event()
    beside = (Say("I look."), Wait(gate), Call("look", {"query": "y"}))
    provider = model(Call("look", {"query": "x"}), "The first.", beside, "The second.", "The third.")
    async with agent(provider, look) as box:
        await box.say("First?")
        await look.started.wait()
        await box.say("/btw second?")
        await box.waiting(1)
        await box.until(lambda: "Got it. I will answer after this one." in [one.text for one in box.of(Notice)])
        busy = [(await box.ask(f"/{name}")).text for name in ("branch", "rewind", "retry")]
        look.open()
        await box.until(lambda: any("I look." in str(one) for one in box.events))
        await box.say("Third?")
        await box.waiting(1)
        gate.set()
        await box.until(lambda: len(box.of(TurnFinished)) == 3)
        shown = said(await box.history())
    assert len(provider.requests) == 5
    assert shown == ["First?", "", "found x", "The first.", "Third?", "The third."]
    assert all("A turn is running" in text for text in busy)


async def test_U65_rewind_offers_what_was_asked_and_goes_back_to_before_that() -> None:
    async with agent(model(after="Fine.")) as box:
        box.loop.questions.channels.add(HERE.channel)
        for text in ("First?", "Second?", "Third?"):
            await box.ask(text)
        old = await current(box)
        task = asyncio.create_task(box.loop.process(message("/rewind")))
        await choose(box, 2)
        told = (await task).text
        shown, kept = said(await box.history()), said(await box.store.history(old))
        (question,) = box.of(QuestionAsked)
    assert [line[9:] for line in question.choices[:3]] == ["Third?", "Second?", "First?"]
    assert shown == ["First?", "Fine."]
    assert len(kept) == 6
    assert f"/resume {old}" in told


async def test_U65_who_goes_on_talking_has_left_the_picker_and_nothing_is_rewound() -> None:
    async with agent(model(after="Fine.")) as box:
        box.loop.questions.channels.add(HERE.channel)
        await box.ask("First?")
        task = asyncio.create_task(box.loop.process(message("/rewind")))
        await box.until(lambda: bool(box.of(QuestionAsked)))
        await box.ask("Second?")
        told = (await task).text
        assert said(await box.history()) == ["First?", "Fine.", "Second?", "Fine."]
        again = asyncio.create_task(box.loop.process(message("/rewind")))
        await box.until(lambda: len(box.of(QuestionAsked)) == 2)
        assert "Left" in (await box.ask("/stop")).text
        assert "left as it is" in (await again).text
    assert "left as it is" in told
