"""How the loop serves several messages: steering, stopping, commands, sessions side by side."""

import asyncio
import re
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.agent.tools.base import ToolLike
from nanobot.bus.events import Address, CommandReply, Notice, Sender, StepStarted, TurnFinished, TurnStarted
from nanobot.command.settings import ChatSettings
from nanobot.errors import SkipTool, UsageError
from nanobot.messages import AssistantMessage, ToolMessage, UserMessage
from nanobot.providers.base import LLMProvider
from nanobot.providers.scripted import Call, Pause, Retry, Say, ScriptedProvider, Wait
from nanobot.session.removal import remove_session
from nanobot.session.sqlite import SqliteDatabase
from nanobot.session.store import SessionStore
from tests.agent.harness import HERE, FakeTool, agent, message
from tests.agent.legal import assert_legal
from tests.fakes.patience import growing
from tests.fakes.waiting import until

YOU = Address("terminal", "you")
SEARCH = Call("web_search", {"query": "cats"})


def typed(provider: ScriptedProvider, number: int) -> str:
    """Everything a person said, as request `number` (from 0) carries it."""
    return "\n".join(item.text for item in provider.requests[number].messages if isinstance(item, UserMessage))


async def test_U38_text_typed_while_a_turn_runs_is_acknowledged_and_read_at_the_next_step() -> None:
    tool = FakeTool(held=True)
    async with agent([SEARCH, "all of it"], tool) as box:
        await box.say("cats?")
        await tool.started.wait()
        for text in ("and dogs", "and birds", "in French"):
            await box.say(text)
        await box.waiting(3)
        tool.open()
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert len(box.of(Notice)) == 1, "once a turn"
        stored = [item.kind for item in await box.history() if isinstance(item, UserMessage)]
        assert [item.read for item in box.of(StepStarted)] == [(), ()], "none of them has an id"
    assert [item.text for item in box.of(TurnFinished)] == ["all of it"]
    assert typed(box.provider, 0) == "cats?"
    assert typed(box.provider, 1) == "cats?\nand dogs\n\nand birds\n\nin French"
    assert stored == ["user", "steer", "steer", "steer"]
    assert_legal(box.provider.requests[1].messages)


async def test_U38_text_that_came_too_late_starts_the_next_turn() -> None:
    gate = asyncio.Event()
    async with agent([(Wait(gate), Say("first")), "second"]) as box:
        await box.say("one")
        await box.provider.asked(1)
        await box.say("two")
        await box.say("three")
        await box.waiting(2)
        gate.set()
        await box.until(lambda: len(box.of(TurnFinished)) == 2)
    assert [item.text for item in box.of(TurnFinished)] == ["first", "second"]
    assert len(box.provider.requests) == 2
    assert typed(box.provider, 1) == "one\ntwo\n\nthree"


async def test_whoever_awaits_a_steered_message_gets_the_end_of_the_turn_that_read_it() -> None:
    tool = FakeTool(held=True)
    async with agent([SEARCH, "both"], tool) as box:
        first = asyncio.create_task(box.loop.process(message("one")))
        await tool.started.wait()
        second = asyncio.create_task(box.loop.process(message("two")))
        await box.until(lambda: bool(box.of(Notice)))
        tool.open()
        assert (await first) is (await second)


async def test_a_message_that_is_served_alone_reads_no_other_on_its_way() -> None:
    tool = FakeTool(held=True)
    async with agent([SEARCH, "first", "second"], tool) as box:
        first = asyncio.create_task(box.loop.process(message("one"), alone=True))
        await tool.started.wait()
        second = asyncio.create_task(box.loop.process(message("two")))
        await box.until(lambda: bool(box.of(Notice)))
        tool.open()
        assert [(await one).text for one in (first, second)] == ["first", "second"]
    assert [typed(box.provider, number) for number in range(3)] == ["one", "one", "one\ntwo"]
    assert [event.text for event in box.of(Notice)] == ["Got it. I will answer after this one."]


@pytest.mark.parametrize("stubborn", [False, True])
async def test_U04_stop_acts_within_a_second_and_the_chat_goes_on(stubborn: bool) -> None:
    tool = FakeTool(held=True, stubborn=stubborn)
    step = (Say("half"), Retry(), Say("I look. "), SEARCH, Call("web_search", {"query": "dogs"}))
    async with agent([step, "here I am"], tool) as box:
        await box.say("cats?")
        await tool.started.wait()
        await box.say("/stop")
        await box.until(lambda: bool(box.of(CommandReply)))
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert (box.of(TurnFinished)[0].outcome, box.of(TurnFinished)[0].text) == ("cancelled", "")
        assert (await box.ask("still there?")).text == "here I am"
        late = len(box.events)
        tool.open()
        while tool.running:
            await asyncio.sleep(0)
        for _ in range(20):  # whatever the straggler still wants to say would come now
            await asyncio.sleep(0)
        assert len(box.events) == late
    results = [item for item in box.provider.requests[1].messages if isinstance(item, ToolMessage)]
    assert [item.error for item in results] == ["cancelled", "cancelled"]
    assert all("interrupted" in item.text for item in results)
    assert_legal(box.provider.requests[1].messages)


async def test_U04_stop_keeps_the_partial_text_and_marks_it() -> None:
    async with agent([(Say("wrong"), Retry(), Say("The answer is"), Pause(600)), "yes"]) as box:
        await box.say("go")
        await box.until(lambda: any("The answer is" in str(item) for item in box.events))
        await box.say("/stop")
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert box.of(TurnFinished)[0].text == "The answer is"
        await box.ask("and?")
    kept = box.provider.requests[1].messages[1]
    assert isinstance(kept, AssistantMessage)
    assert kept.text == "The answer is\n\n[Stopped by the user]"
    assert box.provider.active == 0


async def test_U04_stop_keeps_the_results_that_were_there() -> None:
    quick, slow = FakeTool("note", exclusive=True), FakeTool(gate=asyncio.Event())
    async with agent([(Call("note", {"query": "x"}), SEARCH), "fine"], quick, slow) as box:
        await box.say("go")
        await slow.started.wait()
        assert (await box.ask("/stop")).text == "Stopped. 1 result and the text so far are kept."
        await box.ask("and?")
    results = [item for item in box.provider.requests[1].messages if isinstance(item, ToolMessage)]
    assert [(item.text[:5], item.error) for item in results] == [("found", ""), ("Error", "cancelled")]


async def test_cancelling_whoever_awaits_a_turn_stops_it_and_keeps_a_legal_history() -> None:
    tool = FakeTool(gate=asyncio.Event())
    async with agent([SEARCH, "well"], tool) as box:
        asking = asyncio.create_task(box.loop.process(message("go")))
        await tool.started.wait()
        asking.cancel()
        await asyncio.wait({asking}, timeout=120)
        assert asking.cancelled()
        assert box.of(TurnFinished)[-1:] == [] or box.of(TurnFinished)[-1].outcome == "cancelled"
        await box.until(lambda: bool(box.of(TurnFinished)))
        assert (await box.ask("again")).text == "well"
    assert_legal(box.provider.requests[1].messages)


async def test_U03_a_shutdown_in_mid_turn_leaves_a_conversation_that_goes_on(tmp_path: Path) -> None:
    tool = FakeTool(gate=asyncio.Event())
    async with agent([SEARCH], tool, store=SessionStore(SqliteDatabase(tmp_path / "s.db"))) as box:
        await box.say("go")
        await tool.started.wait()
    provider = ScriptedProvider(["fine"])
    async with agent(provider, store=SessionStore(SqliteDatabase(tmp_path / "s.db"))) as box:
        assert (await box.ask("and?")).text == "fine"
    assert_legal(provider.requests[0].messages)
    assert "shut down" in str(provider.requests[0].messages)


async def test_U05_U5_a_person_who_hears_nothing_for_long_is_told_what_is_waited_for() -> None:
    gate = asyncio.Event()
    tool = FakeTool(gate=asyncio.Event())
    async with agent([SEARCH, (Wait(gate), Say("done"))], tool, quiet=0.05) as box:
        await box.say("go")
        await box.until(lambda: any('search "cats"' in str(item) for item in box.of(Notice)))
        assert tool.running == 1
        tool.open()
        await box.until(lambda: any("waiting for the model" in str(item) for item in box.of(Notice)))
        gate.set()
        await box.until(lambda: bool(box.of(TurnFinished)))


@growing(0.2, 2, 20)
async def test_a_person_who_hears_something_now_and_then_is_not_told_what_is_waited_for(limit: float) -> None:
    async with agent([(Say("word "), Pause(limit / 4)) * 8], quiet=limit) as box:
        await box.ask("go")
        assert not box.of(Notice)


async def test_other_sessions_go_on_beside_a_running_turn() -> None:
    gate = asyncio.Event()
    async with agent([(Wait(gate), Say("slow")), "quick"]) as box:
        await box.say("one")
        await box.provider.asked(1)
        assert (await box.ask("two", YOU)).text == "quick"
        assert [item.event.text for item in box.events if isinstance(item.event, TurnFinished)] == ["quick"]
        gate.set()
        await box.until(lambda: len(box.of(TurnFinished)) == 2)
    assert len(box.provider.requests[1].messages) == 1


async def test_control_commands_do_not_wait_behind_a_running_turn() -> None:
    tool = FakeTool(gate=asyncio.Event())
    async with agent([SEARCH], tool) as box:
        await box.say("go")
        await tool.started.wait()
        for command in ("/help", "/tools", "/sessions", "/model", "/nope"):
            assert (await box.ask(command)).outcome == "completed"
        assert re.search(r'step 1 since [\d.]+ s, waiting for search "cats"', (await box.ask("/status")).text)
        assert not box.of(TurnFinished)


async def test_a_broken_provider_ends_its_turn_with_a_sentence_and_nothing_else() -> None:
    def explode(_: object) -> str:
        raise ZeroDivisionError("bug")

    async with agent([explode, "fine"]) as box:
        broken = await box.ask("go")
        assert (broken.outcome, "ZeroDivisionError" in broken.error) == ("failed", True)
        assert (await box.ask("again")).text == "fine"
    assert_legal(box.provider.requests[1].messages)


async def test_a_store_that_cannot_be_read_is_told_and_new_starts_afresh(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("not a database" * 1_000, encoding="utf-8")
    async with agent(["never"], store=SessionStore(SqliteDatabase(tmp_path / "s.db"))) as box:
        failed = await box.ask("go")
    assert failed.outcome == "failed"
    assert "Nothing was overwritten" in failed.error
    assert box.provider.requests == []


async def test_new_keeps_the_old_session_and_resume_goes_back_to_it() -> None:
    provider = ScriptedProvider(after="fine")
    async with agent(provider) as box:
        await box.ask("remember the cat")
        reply = (await box.ask("/new")).text
        old = reply.split("/resume ")[1].split("`")[0]
        await box.ask("hello")
        assert typed(provider, 1) == "hello"
        listed = (await box.ask("/sessions")).text
        assert f"- `{old}` remember the cat · today " in listed
        assert f"`{old}` remember the cat" in (await box.ask(f"/resume {old[:8]}")).text
        await box.ask("what was it?")
    assert typed(provider, 2) == "remember the cat\nwhat was it?"


async def test_model_switches_for_this_session_alone() -> None:
    other = ScriptedProvider(after="other", model="other-1")

    async def switch(name: str) -> LLMProvider:
        if name != "other-1":
            raise UsageError(f"There is no model {name!r}. Did you mean 'other-1'?")
        return other

    provider = ScriptedProvider(after="first")
    async with agent(provider, switch_model=switch) as box:
        await box.ask("one")
        assert "Did you mean 'other-1'" in (await box.ask("/model ohter-1")).text
        assert "**other-1**" in (await box.ask("/model other-1")).text
        assert (await box.ask("two")).model == "other-1"
        assert (await box.ask("three", YOU)).model == "scripted"
    assert typed(other, 0) == "one\ntwo"


async def test_what_is_said_after_a_switch_of_the_model_is_answered_after_its_reply_by_the_new_one() -> None:
    asked, listed = asyncio.Event(), asyncio.Event()
    other = ScriptedProvider(after="other", model="other-1")

    async def switch(name: str) -> LLMProvider:
        asked.set()
        await listed.wait()
        return other

    async with agent(ScriptedProvider(after="first"), switch_model=switch) as box:
        await box.say("/model other-1")
        await box.say("two")
        await asked.wait()
        listed.set()
        await box.until(lambda: bool(box.of(TurnFinished)))
        kinds = [type(one.event) for one in box.events if isinstance(one.event, CommandReply | TurnFinished)]
    assert kinds[0] is CommandReply
    assert typed(other, 0) == "two"


@pytest.mark.parametrize("running", [False, True])
async def test_what_is_said_after_new_belongs_to_the_new_session_and_is_not_stopped_by_it(running: bool) -> None:
    gate = asyncio.Event()
    provider = ScriptedProvider(*([[Wait(gate)]] if running else []), after="fine")
    async with agent(provider) as box:
        if running:
            await box.say("one")
            await box.until(lambda: bool(box.of(TurnStarted)))
            while not provider.requests:
                await asyncio.sleep(0)
        old = (await box.store.current(HERE.key)).id
        await box.say("/new")
        await box.say("two")
        await box.until(lambda: any(one.text == "fine" for one in box.of(TurnFinished)))
        session = await box.store.current(HERE.key)
        kinds = [type(one.event) for one in box.events if isinstance(one.event, CommandReply | TurnFinished)]
        said = [one.text for one in await box.store.history(session.id) if isinstance(one, UserMessage)]
        before = [one.text for one in await box.store.history(old) if isinstance(one, UserMessage)]
        assert not box.of(Notice), "what comes of it is told, and not that it waits"
    assert session.id != old
    assert kinds == [*([TurnFinished] if running else []), CommandReply, TurnFinished]
    assert (before, said) == (["one"] if running else [], ["two"])


async def test_what_is_said_after_resume_belongs_to_the_session_gone_back_to() -> None:
    async with agent(ScriptedProvider(after="fine")) as box:
        await box.ask("remember the cat")
        old = (await box.store.current(HERE.key)).id
        await box.ask("/new")
        await box.say(f"/resume {old}")
        await box.say("two")
        await box.until(lambda: len(box.of(TurnFinished)) == 2)
        said = [one.text for one in await box.store.history(old) if isinstance(one, UserMessage)]
    assert said == ["remember the cat", "two"]


async def test_what_is_said_after_compact_is_asked_after_the_summary() -> None:
    async with agent(ScriptedProvider(after="fine")) as box:
        for number in range(3):
            await box.ask(f"question {number}")
        await box.say("/compact the cat")
        await box.say("two")
        await box.until(lambda: len(box.of(TurnFinished)) == 5)
        ends = [one.answered for one in box.of(TurnFinished)[3:]]
        said = [one.text for one in await box.history() if isinstance(one, UserMessage)]
    assert len(ends) == 2
    assert said[-1] == "two"


async def test_status_comes_at_once_and_again_with_the_slow_parts() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def usage() -> str:
        asked.set()
        await answer.wait()
        return "Search: 12 of 2,000 requests used"

    def skipped() -> ToolLike:
        raise SkipTool("no key is set")

    provider = ScriptedProvider(after="fine")
    async with agent(provider, FakeTool(), factories={"kagi": skipped}, search_usage=usage) as box:
        await box.ask("one")
        await box.say("/status")
        await asked.wait()
        await box.until(lambda: len(box.of(CommandReply)) == 1)
        answer.set()
        await box.until(lambda: len(box.of(CommandReply)) == 2)
        first, second = (item for item in box.of(CommandReply))
        tools = (await box.ask("/tools")).text
    assert first.key == second.key
    for line in (
        "Model: scripted (a script plays the model)",
        "Context: 100 of 32,768 tokens (0%)",
        "Spent: 100 tokens in, 10 out, 1 request",
        "Tools: web on",
        "Not offered: kagi: no key is set",
        "nothing is running",
    ):
        assert line in first.text
    assert "12 of 2,000" not in first.text
    assert "Search: 12 of 2,000 requests used" in second.text
    assert "- **Web** (on): searches the web" in tools
    assert "Second line" not in tools
    assert "`kagi` (off): no key is set" in tools


async def test_a_message_that_waits_can_be_replaced_and_one_that_was_read_cannot() -> None:
    tool = FakeTool(held=True)
    async with agent([SEARCH, "both"], tool) as box:
        first = asyncio.create_task(box.loop.process(replace(message("wether?"), id="1")))
        await tool.started.wait()
        second = asyncio.create_task(box.loop.process(replace(message("in Oslo"), id="2")))
        third = asyncio.create_task(box.loop.process(replace(message("never mind"), id="3")))
        await box.waiting(2)
        assert box.loop.amend(replace(message("in Rome"), id="2"))
        assert box.loop.amend(replace(message("really never mind"), id="3"))
        assert not box.loop.amend(replace(message("weather?"), id="1"))
        third.cancel()  # takes back the message and leaves the turn alone
        await asyncio.wait({third})
        tool.open()
        assert (await first) is (await second)
        assert third.cancelled()
        assert [item.read for item in box.of(StepStarted)] == [(), ("2",)]
    assert typed(box.provider, 1) == "wether?\nin Rome"


async def test_a_message_that_waits_and_is_edited_into_a_command_is_answered_at_once() -> None:
    tool = FakeTool(held=True)
    async with agent([SEARCH, "done"], tool) as box:
        first = asyncio.create_task(box.loop.process(replace(message("weather?"), id="1")))
        await tool.started.wait()
        second = asyncio.create_task(box.loop.process(replace(message("who am I"), id="2")))
        await box.waiting(1)
        assert box.loop.amend(replace(message("/whoami"), id="2"))
        assert (await second).text.startswith("You: Ann")
        assert (second.result().answered, second.result().error) == (("2",), "")
        tool.open()
        assert (await first).answered == ("1",)
    assert typed(box.provider, 1) == "weather?"


async def test_the_privacy_of_a_chat_reaches_its_tools() -> None:
    chats = ChatSettings()
    await chats.set(YOU.key, "privacy", "on")
    tool = FakeTool()
    async with agent([SEARCH, "a", SEARCH, "b"], tool, chats=chats) as box:
        await box.ask("go")
        await box.ask("go", YOU)
        assert "Privacy: on" not in (await box.ask("/status")).text
        assert "- Privacy: on, pages and speech go to no service but the model" in (await box.ask("/status", YOU)).text
    assert tool.private == [False, True]


async def test_status_and_usage_count_what_was_spent_today() -> None:
    async with agent(ScriptedProvider(after="fine")) as box:
        box.loop.add_status(lambda: "Telegram: last poll 3 s ago")
        box.loop.add_status(lambda: "")
        await box.ask("one")
        await box.ask("two", YOU)
        status = (await box.ask("/status")).text
        usage = (await box.ask("/usage")).text
    assert "\n- Today, all chats: 200 tokens in, 20 out, 2 requests, 0.00 USD\n" in status
    assert status.endswith("\n- Telegram: last poll 3 s ago")
    assert "- Today: 200 tokens in, 20 out, 2 requests" in usage
    assert "- Seven days: 200 tokens in, 20 out, 2 requests" in usage


async def test_no_more_turns_run_at_once_than_configured_and_the_rest_follow() -> None:
    tool = FakeTool(held=True)
    provider = ScriptedProvider([SEARCH] * 2, after="done")
    async with agent(provider, tool, concurrency=2) as box:
        asked = [asyncio.create_task(box.ask("go", Address("chat", str(number)))) for number in range(5)]
        await until(lambda: tool.running >= 2)
        assert len(provider.requests) == 2
        tool.open()
        assert [turn.outcome for turn in await asyncio.gather(*asked)] == ["completed"] * 5
        await until(lambda: not box.loop._tasks)


async def test_the_prompts_of_many_chats_at_once_are_read_on_one_thread_and_the_owner_s_on_four() -> None:
    async with agent(ScriptedProvider([], after="done")) as box:
        for direct, most in ((False, 1), (True, 4)):
            before = set(threading.enumerate())
            chats = (message("go", Address("chat", f"{direct}{number}")) for number in range(12))
            await asyncio.gather(*(box.loop.process(replace(one, direct=direct)) for one in chats))
            assert 1 <= len(set(threading.enumerate()) - before) <= most


async def test_a_message_that_waits_for_a_place_while_its_conversation_is_deleted_is_answered_in_a_new_one() -> None:
    tool, there = FakeTool(held=True), Address("chat", "1")
    async with agent([SEARCH, "one", "two"], tool, concurrency=1) as box:
        old = await box.store.current(there.key)
        first = asyncio.create_task(box.ask("go"))
        await tool.started.wait()
        second = asyncio.create_task(box.ask("hello?", there))
        await until(lambda: box.loop._chat(there.key).session == old.id)
        await remove_session(box.store, old.id, datetime.now(UTC))
        tool.open()
        assert [(await one).text for one in (first, second)] == ["one", "two"]
        assert [message.text for message in await box.history(there)] == ["hello?", "two"]


async def test_what_another_person_says_in_the_session_that_is_answered_waits_its_turn_in_order() -> None:
    gate, third = asyncio.Event(), Address("terminal", "third")
    async with agent([(Wait(gate), Say("one")), "two", "three"]) as box:
        session = await box.store.current(HERE.key)
        for other in (YOU, third):
            await box.store.resume(other.key, session.id)
        first = asyncio.create_task(box.ask("a"))
        await box.provider.asked(1)
        asked = []
        for number, (other, text) in enumerate(((YOU, "b"), (third, "c")), 1):
            said = replace(message(text, other), sender=Sender(text, role="owner"))
            asked.append(asyncio.create_task(box.loop.process(said)))
            await box.until(lambda count=number: len(box.of(Notice)) == count)  # type: ignore[misc]
        assert all("in use elsewhere (another terminal)" in getattr(one, "text", "") for one in box.of(Notice))
        assert len(box.of(TurnStarted)) == 1
        for number in range(3):
            await box.say(f"taken back {number}", YOU)
        await box.waiting(4, YOU)
        assert len(await box.loop.withdraw(YOU.key, last=True)) == 1
        assert len(await box.loop.withdraw(YOU.key)) == 2
        gate.set()
        assert [(await one).text for one in (first, *asked)] == ["one", "two", "three"]
        assert typed(box.provider, 2).splitlines()[-3:] == ["a", "b", "c"]
        assert_legal(box.provider.requests[2].messages)


async def test_the_owner_stops_on_another_surface_what_is_answered_in_the_session_and_nobody_else() -> None:
    phone = Address("telegram", "42")
    async with agent([(Wait(asyncio.Event()), Say("never"))]) as box:
        await box.store.resume(phone.key, (await box.store.current(HERE.key)).id)
        asked = asyncio.create_task(box.ask("a"))
        await box.provider.asked(1)
        assert await box.loop.cancel(phone.key, by=Sender("43", role="guest")) == "Nothing is running."
        assert (await box.loop.cancel(phone.key, by=Sender("42", role="owner"))).startswith("Stopped")
        assert (await asked).outcome == "cancelled"


async def test_stop_and_leaving_end_what_waits_for_another_chat_and_leave_that_alone() -> None:
    gate, third = asyncio.Event(), Address("terminal", "third")
    async with agent([(Wait(gate), Say("one")), (Wait(asyncio.Event()),)]) as box:
        session = await box.store.current(HERE.key)
        for other in (YOU, third):
            await box.store.resume(other.key, session.id)
        first = asyncio.create_task(box.ask("a"))
        await box.provider.asked(1)
        other_person = Sender("2", role="owner")
        stopped = asyncio.create_task(box.loop.process(replace(message("b", YOU), sender=other_person)))
        await box.waiting(1, YOU)
        assert await box.loop.cancel(YOU.key) == "Stopped before it began."
        assert (await stopped).outcome == "cancelled"
        await box.bus.publish_inbound(replace(message("c", third), sender=other_person))
        await box.waiting(1, third)
        await box.loop.leave(third.key)
        assert third.key not in box.loop._chats
        gate.set()
        assert (await first).text == "one"
        assert [one.text for one in await box.history()] == ["a", "one"]
        second = asyncio.create_task(box.ask("d"))
        await box.provider.asked(2)
        await box.loop.leave(HERE.key)
        assert (await second).outcome == "cancelled"
