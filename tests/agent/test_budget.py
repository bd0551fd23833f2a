"""What a budget does to turns: nothing is lost, many chats at once stay within it, each request is accounted for."""

import asyncio
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from nanobot.agent.scheduler import JobSurface, Scheduler
from nanobot.agent.tools.base import ToolContext
from nanobot.agent.work.runs import MOST_FAILURES
from nanobot.bus.events import Address, InboundMessage, Notice, Sender
from nanobot.config.schema import BudgetConfig
from nanobot.errors import ProviderError
from nanobot.messages import AssistantMessage, TextDelta, ToolMessage, Usage
from nanobot.providers.scripted import Call, End, Fail, Pause, Say, ScriptedProvider, Wait
from nanobot.results import ToolResult
from nanobot.schedule.due import cron
from nanobot.schedule.job import ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from tests.agent.harness import HERE, FakeTool, QueryArgs, agent, message
from tests.agent.legal import assert_legal
from tests.fakes.budget import capped
from tests.fakes.schedule import PlainReports, services_of

LOOK = Call("web_search", {"query": "tides"})


def dear(usd: float) -> Usage:
    """What an answer reports that costs so much."""
    return Usage(input=round(usd * 1e6), requests=1)


def caps(usd: float, person: float | None = None) -> BudgetConfig:
    return capped((usd, None), (person, None))


async def test_what_is_over_the_cap_is_not_asked_and_goes_on_with_one_line_of_the_owner() -> None:
    provider = ScriptedProvider(["first", "second"], usage=dear(1.25))
    async with agent(provider, caps=caps(1)) as box:
        assert (await box.ask("one")).outcome == "completed"
        stopped = await box.ask("two")
        assert (stopped.outcome, stopped.temporary, stopped.text) == ("failed", True, "")
        assert stopped.error.startswith(
            "The budget for today is used up: 1.25 of 1.00 USD. It goes on tomorrow at 00:00"
        )
        assert "`/usage raise 5`" in stopped.error
        assert len(provider.requests) == 1, "nothing was asked"
        await box.ask("/usage raise 5")
        assert (await box.ask("three")).text == "second"
    asked = str(provider.requests[1].messages)
    assert "two" in asked, "what was not answered stands in the conversation"
    assert "[Not answered: the budget was used up]" in asked
    assert_legal(provider.requests[1].messages)


async def test_U69_a_turn_that_comes_near_the_cap_sums_up_what_it_has() -> None:
    provider = ScriptedProvider([(LOOK, End(usage=dear(0.97))), (Say("So far: high tide."), End(usage=dear(0.02)))])
    async with agent(provider, FakeTool(), caps=caps(1)) as box:
        finished = await box.ask("tides?")
    assert (finished.outcome, finished.text) == ("out_of_steps", "So far: high tide.")
    assert finished.notes[0].startswith("The budget for today is all but used up: 0.97 of 1.00 USD.")
    assert provider.requests[1].tools == ()
    assert "Stop working: the budget is used up" in str(provider.requests[1].messages[-1])


async def test_a_turn_that_is_over_the_cap_ends_without_another_request_and_keeps_its_results() -> None:
    provider = ScriptedProvider([(LOOK, End(usage=dear(1.5)))], after="later")
    async with agent(provider, FakeTool(), caps=caps(1)) as box:
        finished = await box.ask("tides?")
        kept = await box.history()
        assert len(provider.requests) == 1
        await box.ask("/usage raise 5")
        await box.ask("go on")
    assert finished.outcome == "out_of_steps"
    assert "I stopped here: the budget is used up." in finished.text
    assert '- search "tides"' in finished.text
    assert [one.text for one in kept if isinstance(one, ToolMessage)] != []
    assert_legal(provider.requests[1].messages)


async def test_people_are_told_once_with_an_answer_when_a_cap_comes_near() -> None:
    provider = ScriptedProvider(after="fine", usage=dear(0.85))
    async with agent(provider, caps=caps(1)) as box:
        first, second = await box.ask("one"), await box.ask("two")
        warned = [event.text for event in box.of(Notice)]
    assert first.notes == ()
    assert second.notes == (warned[0],)
    assert warned[0].startswith("85% of the budget for today are used: 0.85 of 1.00 USD.")
    assert second.outcome == "completed"


async def test_U36_two_hundred_chats_at_once_go_over_a_cap_by_no_more_than_one_request() -> None:
    price, cap = 0.05, 1.0
    provider = ScriptedProvider(["fine"], after=(LOOK, Pause(0.001)), usage=dear(price))
    async with agent(provider, FakeTool(), caps=caps(cap), concurrency=200) as box:
        await box.ask("what does one cost?")
        chats = [Address("telegram", str(number)) for number in range(200)]
        turns = await asyncio.gather(*(box.loop.process(message("tides?", chat)) for chat in chats))
        spent = await box.store.spent()
    assert spent.requests == len(provider.requests), "each is accounted for"
    assert cap - price <= round(spent.cost, 6) <= cap + price
    for turn in turns:
        told = f"{turn.text} {turn.error} {' '.join(turn.notes)}"
        assert "budget" in told, "nobody is left without an answer"


@pytest.mark.parametrize("end", ["fails", "is stopped"])
async def test_who_waits_for_the_last_of_a_budget_goes_on_when_the_request_before_ends(end: str) -> None:
    gate, you = asyncio.Event(), Address("telegram", "2")
    provider = ScriptedProvider(
        ["fine", (Say("word"), Wait(gate), Fail(ProviderError("auth", "no key"))), "at last"], usage=dear(0.4)
    )
    async with agent(provider, caps=caps(1)) as box:
        await box.ask("what does one cost?")
        first = asyncio.create_task(box.loop.process(message("one")))
        await provider.asked(2)
        second = asyncio.create_task(box.loop.process(message("two", you)))
        async with asyncio.timeout(120):
            while "waiting for the model" not in await box.loop.status(you.key):
                await asyncio.sleep(0)
        assert len(provider.requests) == 2, "both together could go over the cap"
        if end == "fails":
            gate.set()
        else:
            await box.loop.cancel(HERE.key)
        assert (await first).outcome == ("failed" if end == "fails" else "cancelled")
        assert (await second).text == "at last"


async def test_who_is_not_the_owner_stops_at_a_cap_of_their_own_and_the_others_go_on() -> None:
    provider = ScriptedProvider(after="fine", usage=dear(0.5))
    ann = InboundMessage(Address("telegram", "7"), Sender("7", "Ann", "user"), "hi", direct=True)
    async with agent(provider, caps=caps(10, person=0.4)) as box:
        assert (await box.loop.process(ann)).text == "fine"
        stopped = await box.loop.process(ann)
        assert stopped.error.startswith("Your budget for today is used up: 0.50 of 0.40 USD.")
        assert (await box.ask("me")).text == "fine"
        by_person = dict(await box.store.spending("person"))
    assert {name: usage.requests for name, usage in by_person.items()} == {"telegram:7": 1, "terminal:1": 1}


async def test_what_runs_by_itself_counts_under_its_cause_and_says_once_a_day_that_it_is_stopped() -> None:
    provider = ScriptedProvider(after="done", usage=dear(0.6))
    job = replace(message("look"), cause="schedule")
    async with agent(provider, caps=caps(1)) as box:
        assert [(await box.loop.process(job)).outcome for _ in range(2)] == ["completed", "completed"]
        first, second = await box.loop.process(job), await box.loop.process(job)
        causes = dict(await box.store.spending("cause"))
    assert first.outcome == "out_of_steps", "it has not failed"
    assert first.text.startswith("The budget for today is used up: 1.20 of 1.00 USD.")
    assert (second.outcome, second.text) == ("out_of_steps", "")
    assert causes == {"schedule": replace(dear(1.2), cost=1.2, requests=2)}


async def test_U35_an_answer_that_was_stopped_or_broke_off_is_paid_for_too() -> None:
    gate = asyncio.Event()
    provider = ScriptedProvider(
        [
            (Say("word " * 60), Wait(gate)),
            (Say("half"), Fail(ProviderError("network", "cut"))),
            (Say("word " * 60), End(usage=Usage(requests=1))),
        ]
    )
    async with agent(provider, caps=caps(1)) as box:
        first = asyncio.create_task(box.ask("one"))
        await provider.asked(1)
        await box.until(lambda: any(isinstance(item.event, TextDelta) for item in box.events))
        await box.ask("/stop")
        assert (await first).outcome == "cancelled"
        stopped = await box.store.spent()
        assert (await box.ask("two")).outcome == "failed"
        broken = await box.store.spent()
        assert (await box.ask("three")).outcome == "completed"
        untold = await box.store.spent()
    assert (stopped.requests, broken.requests, untold.requests) == (1, 2, 3)
    assert 100 <= untold.output - broken.output <= 110, "a service that tells no figures"
    assert 100 <= stopped.output <= 110, "300 letters"
    assert stopped.input > 0
    assert stopped.cost == (stopped.input + stopped.output) / 1e6, "at its price"


class Asker(FakeTool):
    """A tool that asks the model of the turn."""

    async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
        assert context.ask is not None
        return ToolResult(await context.ask("Answer.", args.query))


async def test_U35_a_tool_that_asks_the_model_is_bound_too_and_what_it_asked_is_accounted_for() -> None:
    aside = (Say("by the way"), End(usage=dear(0.3)))
    provider = ScriptedProvider(
        [(LOOK, End(usage=dear(0.1))), aside, (LOOK, End(usage=dear(0.7))), "never"], usage=dear(0)
    )
    async with agent(provider, Asker(), caps=caps(1)) as box:
        finished = await box.ask("tides?")
        kept = await box.history()
        spent = await box.store.spent()
    assert len(provider.requests) == 3, "neither the tool nor the turn asks again"
    assert "budget" in [one.text for one in kept if isinstance(one, ToolMessage)][-1]
    assert kept[-1].text == finished.text, "its last words stay the last ones"
    assert (spent.requests, round(spent.cost, 6)) == (3, 1.1)
    assert finished.usage == spent
    persons = {one.person for one in kept if isinstance(one, AssistantMessage) and one.usage.requests}
    assert persons == {f"{HERE.channel}:1"}


async def test_an_appointment_that_the_budget_stops_says_so_once_and_is_not_paused_as_a_failure() -> None:
    ledger, at = Ledger(MemoryDatabase()), [datetime(2026, 11, 22, 12, tzinfo=UTC)]
    provider = ScriptedProvider(after="tick", usage=dear(0.5))
    jobs, reports = JobStore(ledger), PlainReports("telegram:1")
    async with agent(provider, store=ledger.sessions, caps=caps(1)) as box:
        services = services_of(jobs, ledger, box.loop.process, box.bus)
        scheduler = Scheduler(services, [JobSurface("telegram", reports)], file=None, clock=lambda: at[0])
        job = ScheduledJob(
            kind="ask", text="x", when=cron("0 * * * *"), zone="UTC", person="telegram:1", chat="telegram:1"
        )
        kept = await jobs.add(job, at[0])
        for _ in range(MOST_FAILURES + 4):
            at[0] = await scheduler.serve_due()
            await scheduler.idle()
        now = await jobs.get(kept.id)
        said = [row.item.payload for row in await ledger.due("telegram:1", limit=100)]
    assert len(provider.requests) == 2
    assert said[:2] == ["tick", "tick"]
    assert [text[:49] for text in said[2:]] == ["The budget for today is used up: 1.00 of 1.00 USD"]
    assert now is not None
    assert not now.paused, "tomorrow it goes on"
