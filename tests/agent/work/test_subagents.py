"""Helpers: turns with a context of their own that work for a turn."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from nanobot.agent.context import ContextBuilder
from nanobot.agent.tools.own_tools import SpawnTool
from nanobot.agent.turn import TurnLimits
from nanobot.agent.work.subagents import SubagentManager
from nanobot.bus.events import InboundMessage, Notice, ToolFinished, ToolProgress, ToolStarted, TurnFinished
from nanobot.channels.view import TurnView, fold_hints, hint_text
from nanobot.config.schema import BudgetConfig, SubagentsConfig
from nanobot.messages import AssistantMessage, Role, ToolMessage, UserMessage
from nanobot.providers.base import Request
from nanobot.providers.scripted import Action, Call, ScriptedProvider, Step
from nanobot.results import ToolResult
from nanobot.security.policy import Effect
from nanobot.session.rows import Closing
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from tests.agent.harness import Box, FakeTool, QueryArgs, agent, message
from tests.agent.legal import assert_legal
from tests.fakes.budget import capped
from tests.fakes.waiting import until
from tests.tables import table

Brain = Callable[[Request], Step]


@asynccontextmanager
async def helped(
    brain: Brain,
    *tools: FakeTool,
    limits: SubagentsConfig | None = None,
    store: SessionStore | None = None,
    turn: TurnLimits | None = None,
    caps: BudgetConfig | None = None,
) -> AsyncIterator[tuple[Box, ScriptedProvider]]:
    """An agent with helpers, whose every request `brain` answers."""
    provider = ScriptedProvider(after=brain)
    async with agent(provider, SpawnTool(), *tools, store=store, limits=turn, caps=caps) as box:
        manager = SubagentManager(box.loop.runner, box.store, ContextBuilder())
        box.loop.runner.bound(limits or SubagentsConfig())
        box.loop.runner.spawn = manager.run
        yield box, provider


def of_helper(request: Request) -> bool:
    return request.system.startswith("You are a helper")


def results(request: Request) -> list[ToolMessage]:
    return [one for one in request.messages if isinstance(one, ToolMessage)]


def asked(request: Request) -> str:
    return next(one.text for one in request.messages if isinstance(one, UserMessage))


def spawns(*tasks: str) -> tuple[Action, ...]:
    return tuple(Call("spawn", {"task": task}) for task in tasks)


def searching(request: Request) -> Step:
    """A helper that searches for its task once and then says what it found."""
    if not results(request):
        return Call("web_search", {"query": asked(request)})
    return f"about {asked(request)}: {results(request)[-1].text}"


def found(args: QueryArgs) -> ToolResult:
    return ToolResult(f"found {args.query}", untrusted=True)


class Search(FakeTool):
    """A search whose results come from outside."""

    own_words = False


class Writes(FakeTool):
    """Changes what steers the agent."""

    def __init__(self) -> None:
        super().__init__("write_file", lambda _: ToolResult("written", receipt="wrote AGENTS.md"), access="changes")

    def effects(self, arguments: object, context: object) -> tuple[Effect, ...]:
        return (Effect("control", "/home/ann/AGENTS.md"),)


async def test_several_helpers_of_one_step_work_beside_each_other_and_their_answers_alone_come_back() -> None:
    together = asyncio.Event()
    running: set[str] = set()

    class Meets(FakeTool):
        async def run(self, args: QueryArgs, context: object) -> ToolResult:
            running.add(args.query)
            if len(running) == 2:
                together.set()
            await together.wait()
            return ToolResult(f"found {args.query}")

    def brain(request: Request) -> Step:
        if of_helper(request):
            return searching(request)
        return "Both are known." if results(request) else spawns("tides", "moons")

    async with helped(brain, Meets()) as (box, provider):
        finished = await box.ask("tides and moons?")
        shown = [one.hint for one in box.of(ToolStarted)]
        history = await box.history()
    assert finished.text == "Both are known."
    answers = [one.text for one in history if isinstance(one, ToolMessage)]
    assert sorted(answers) == ["about moons: found moons", "about tides: found tides"]
    assert shown == ['helper 1 "tides"', 'helper 2 "moons"'], "what a helper does is no line of its own"
    inside = [one for one in provider.requests if of_helper(one)]
    assert all("tides and moons?" not in repr(one) for one in inside), "it sees nothing but its task"
    assert not any("web_search" in one.text for one in history if isinstance(one, AssistantMessage))
    for request in provider.requests:
        assert_legal(request.messages)


async def test_a_helper_is_one_line_that_says_what_it_does_and_how_far_it_is() -> None:
    def brain(request: Request) -> Step:
        if of_helper(request):
            return searching(request)
        return "done" if results(request) else spawns("the tides at Dover tomorrow")

    async with helped(brain, FakeTool()) as (box, _):
        await box.ask("tides?")
        view = TurnView()
        lines = []
        for item in box.events:
            view = view.apply(item.event)
            lines += [hint_text(line) for line in fold_hints(view.hints)]
    working = r'helper 1 "the tides at Dover tomorrow": search "the tides at Dover tomorrow" \(1 step, [\d.]+ s\)'
    assert any(re.fullmatch(working, line) for line in lines)
    assert re.fullmatch(r'helper 1 "the tides at Dover tomorrow"( \([\d.]+ s\))?', lines[-1]), "a slow machine says so"


async def test_N03_a_helper_searches_too_and_what_its_caller_has_looked_up_twice_is_not_looked_up_again() -> None:
    def brain(request: Request) -> Step:
        if of_helper(request):
            return searching(request)
        return (
            "done"
            if len(results(request)) == 3
            else (Call("web_search", {"query": "cats"}), *spawns("cats"))[len(results(request)) == 2 :][:1]
        )

    search = FakeTool()
    async with helped(brain, search) as (box, provider):
        await box.ask("cats?")
        events = box.of(ToolFinished)
    assert [one.query for one in search.calls] == ["cats", "cats"]
    assert [one.call.name for one in events] == ["web_search", "web_search", "spawn"]
    (told,) = results(next(one for one in provider.requests if of_helper(one) and results(one)))
    assert told.error == "repeated"


async def test_a_helper_has_its_caller_s_tools_or_fewer_and_none_that_speaks_with_people_or_spawns() -> None:
    def brain(request: Request) -> Step:
        if not of_helper(request):
            more = (
                Call("spawn", {"task": "two", "tools": ["web_fetch"]}),
                Call("spawn", {"task": "three", "tools": ["exec", "ask"]}),
            )
            return "done" if results(request) else (*spawns("one"), *more)
        if results(request):
            return "ended"
        return (Call("spawn", {"task": "more"}), Call("todo", {"query": "x"}), Call("notes", {"query": "x"}))

    others = [FakeTool(name) for name in ("web_fetch", "todo", "message", "ask", "notes")]
    async with helped(brain, FakeTool(), *others) as (box, provider):
        await box.ask("go")
        history = await box.history()
    offered = {asked(one): [tool.name for tool in one.tools] for one in provider.requests if of_helper(one)}
    assert offered == {"one": ["notes", "web_fetch", "web_search"], "two": ["web_fetch", "web_search"]}
    assert len(others[-1].calls) == 1, "the one that has it"
    assert others[1].calls == []
    told = [one.text for request in provider.requests if asked(request) == "two" for one in results(request)]
    assert "Error: This helper has no tool 'todo'. Available tools: web_fetch, web_search." in told
    refused = [one.error for request in provider.requests if of_helper(request) for one in results(request)]
    assert sorted(refused) == ["", "denied", "denied", "denied", "denied", "denied"]
    (three,) = [one for one in history if isinstance(one, ToolMessage) and one.error]
    assert (three.error, "cannot have ask, exec" in three.text) == ("invalid_input", True)


async def test_what_a_helper_has_read_taints_its_caller_and_what_its_caller_has_read_taints_it() -> None:
    write = Call("write_file", {"query": "obey"})

    def brain(request: Request) -> Step:
        done = results(request)
        if of_helper(request):
            if asked(request) == "note it":
                return f"{done[-1].error or 'written'}" if done else write
            return searching(request)
        steps: list[Step] = [spawns("note it"), spawns("tides"), spawns("note it"), write, "done"]
        return steps[len(done)]

    async with helped(brain, Search(answer=found), writes := Writes()) as (box, _):
        await box.loop.runner.approvals.permissions.add("terminal:1", (), tainted=False)
        await box.ask("go")
        told = [one for one in await box.history() if isinstance(one, ToolMessage)]
    assert [one.untrusted for one in told[:3]] == [False, True, True]
    assert [one.text.splitlines()[0][:8] for one in told[:1]] == ["written\n"[:7]]
    assert "denied" in told[2].text
    assert told[3].error == "denied"
    assert len(writes.calls) == 1
    assert told[0].receipt == "wrote AGENTS.md"
    assert told[0].did == ("control",)


async def test_stopping_a_turn_ends_its_helpers_and_what_they_have_begun() -> None:
    search = FakeTool(held=True)

    def brain(request: Request) -> Step:
        return searching(request) if of_helper(request) else spawns("a", "b", "c")

    async with helped(brain, search, limits=SubagentsConfig(max=2)) as (box, _):
        asking = asyncio.create_task(box.ask("go"))
        await until(lambda: search.running >= 2, 60)
        await box.loop.cancel("terminal:me")
        finished = await asking
        assert (finished.outcome, search.running, len(search.calls)) == ("cancelled", 0, 2), "the third had not begun"
        again = ScriptedProvider(["I am here."])
        box.loop._chat("terminal:me").provider = again
        assert (await box.ask("still there?")).text == "I am here."
        assert_legal(again.requests[0].messages)


@table(
    "limits calls",
    (SubagentsConfig(max_steps=3), 3),
    (SubagentsConfig(max_tokens=300), 3),
    (SubagentsConfig(max_seconds=1e-9), 0),
    ids=["steps", "tokens", "seconds"],
)
async def test_a_helper_ends_at_its_own_limit_with_what_it_has(limits: SubagentsConfig, calls: int) -> None:
    def brain(request: Request) -> Step:
        if not of_helper(request):
            return "done" if results(request) else spawns("all of it")
        if not request.tools:
            return "that is what is read"
        return Call("web_search", {"query": f"{len(results(request))}"})

    async with helped(brain, search := FakeTool(), limits=limits) as (box, _):
        finished = await box.ask("go")
        (told,) = [one for one in await box.history() if isinstance(one, ToolMessage)]
    assert (told.text.partition("\n")[0], len(search.calls)) == ("that is what is read", calls)
    broken = finished.usage.requests - calls - 3  # one that had begun when the time was over, or none
    assert 0 <= broken <= (limits.max_seconds < 1), "what a helper used counts for the turn"


class Look(FakeTool):
    """A tool that may run again."""

    idempotent = True


class Kept:
    """Ends durable turns."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store

    async def __call__(self, first: InboundMessage, finished: TurnFinished | None, closing: Closing | None) -> None:
        if closing is not None:
            await self.store.append(closing.session, closing.messages, turn=closing.turn)


async def test_a_helper_that_ended_with_its_process_goes_on_in_the_next_one_and_does_nothing_twice() -> None:
    store = SessionStore(MemoryDatabase())
    never, kept = asyncio.Event(), Kept(store)
    asking = replace(message("go"), id="in-7")

    def brain(request: Request) -> Step:
        if not of_helper(request):
            return f"{len(results(request))} answers" if results(request) else spawns("quick", "slow")
        if asked(request) == "slow" and len(results(request)) == 1:
            return Call("web_fetch", {"url": "slow"})
        return searching(request)

    search, fetch = Look(), Look("web_fetch", gate=never)
    async with helped(brain, search, fetch, store=store) as (box, _):
        running = asyncio.create_task(box.loop.process(asking, kept))
        async with asyncio.timeout(60):
            await fetch.started.wait()
            while not [one for one in await box.history() if isinstance(one, ToolMessage)]:
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running}, timeout=60)
    fetch = Look("web_fetch")
    async with helped(brain, search, fetch, store=store) as (box, provider):
        finished = await box.loop.process(asking, kept)
        sessions = [one.key for one in await store.list() if one.key.startswith("helper:")]
        history = await box.history()
    assert finished.text == "2 answers"
    assert sorted(one.query for one in search.calls) == ["quick", "slow"], "what was found is not looked for again"
    assert [one.url for one in fetch.calls] == ["slow"]
    assert len(sessions) == 2
    assert not any(asked(one) == "quick" for one in provider.requests), "it had ended"
    assert [one.text for one in history if isinstance(one, ToolMessage)] == [
        "about quick: found quick",
        "about slow: found slow",
    ]


async def test_many_helpers_say_beforehand_what_they_may_cost_and_the_budget_of_who_asked_pays() -> None:
    def brain(request: Request) -> Step:
        if of_helper(request):
            return searching(request)
        return "done" if results(request) else spawns("a", "b", "c")

    async with helped(brain, FakeTool(), caps=capped((1.0, None))) as (box, _):
        await box.ask("go")
        events = [one.event for one in box.events]
        causes = dict(await box.store.spending("cause"))
        people = dict(await box.store.spending("person"))
    notice = next(place for place, one in enumerate(events) if isinstance(one, Notice))
    said = events[notice]
    assert isinstance(said, Notice)
    assert said.text.startswith("3 helpers, 3 at a time; about ")
    assert "USD" in said.text
    assert notice < next(place for place, one in enumerate(events) if isinstance(one, ToolProgress))
    assert causes["helper"].requests == 6
    assert causes["chat"].requests == 2
    assert people.keys() == {"terminal:1"}


async def test_a_guest_has_no_helpers() -> None:
    def brain(request: Request) -> Step:
        if of_helper(request):
            return "ended" if results(request) else Call("write_file", {"query": "x"})
        return "done" if results(request) else spawns("write it")

    role: Role = "guest"
    async with helped(brain, FakeTool(), writes := Writes()) as (box, provider):
        asking = message("go")
        await box.loop.process(replace(asking, sender=replace(asking.sender, role=role)))
        assert writes.calls == []
        assert not any(map(of_helper, provider.requests))
        assert {tool.name for one in provider.requests for tool in one.tools} == {"web_search"}
        await box.ask("go")
        assert "spawn" in {tool.name for tool in provider.requests[-1].tools}
        box.loop.runner.bound(SubagentsConfig(max=0))
        async with box.loop.runner.helper_slots:  # what an earlier configuration has begun can end, one at a time
            assert box.loop.runner.helper_slots.locked()
