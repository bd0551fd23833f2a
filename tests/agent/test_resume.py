"""A durable turn that ended with its process goes on in the next one: nothing twice, nothing silently missing."""

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.agent.chats.chat import Left
from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import Address, InboundMessage, Notice, Sender, TurnFinished
from nanobot.command.settings import ChatSettings
from nanobot.errors import ProviderError, ProviderErrorKind, StoreError, UsageError
from nanobot.messages import AssistantMessage, Message, Source, StepRetried, Text, ToolCall, ToolMessage, UserMessage
from nanobot.providers.base import LLMProvider
from nanobot.providers.scripted import Call, Fail, Say, ScriptedProvider, Step, Wait
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Access
from nanobot.session.ledger import Ledger
from nanobot.session.rows import Closing
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase
from nanobot.session.store import SessionStore
from tests.agent.harness import HERE, Box, FakeTool, QueryArgs, agent, message
from tests.agent.legal import assert_legal
from tests.tables import table

ASKED = "send the letter"
SEND = ToolCall("c1", "send", '{"query": "letter"}')
LOOK = ToolCall("c2", "web_search", '{"query": "cats"}')
BEGINNING: tuple[Message, ...] = (UserMessage((Text(ASKED),)), AssistantMessage((SEND, LOOK), "tools"))
FOUND = (ToolMessage("c1", "send", (Text("sent"),)), ToolMessage("c2", "web_search", (Text("found"),)))
STEER = UserMessage((Text("and in French"),), "steer", "in-3")


class SendTool(FakeTool):
    """A tool whose every call has an effect."""

    def __init__(self, *, gate: asyncio.Event | None = None) -> None:
        super().__init__("send", lambda args: ToolResult(f"sent {args.query}"), gate=gate)


class LookTool(FakeTool):
    """A tool that may run again."""

    idempotent = True


@dataclass
class Kept:
    """What the durable side was told at the end of turns."""

    store: SessionStore
    ends: list[tuple[InboundMessage, TurnFinished | None, Closing | None]] = field(default_factory=list)

    async def __call__(self, first: InboundMessage, finished: TurnFinished | None, closing: Closing | None) -> None:
        self.ends.append((first, finished, closing))
        if closing is not None:
            await self.store.append(closing.session, closing.messages, turn=closing.turn)

    async def transcript(self) -> list[Message]:
        session = await self.store.current(HERE.key)
        return [one.message for one in await self.store.transcript(session.id) if one.kind == "message"]


def arrived(text: str = ASKED, number: int = 2) -> InboundMessage:
    return replace(message(text), id=f"in-{number}")


async def left(*messages: Message, intents: tuple[ToolCall, ...] = ()) -> Kept:
    """A store as a process that died left it, after a turn that was whole."""
    store = SessionStore(MemoryDatabase())
    session = await store.current(HERE.key)
    await store.append(session.id, (UserMessage((Text("hi"),)), AssistantMessage((Text("hello"),))), turn="in-1")
    await store.append(session.id, messages[:2], turn="in-2")
    for call in intents:
        await store.intend(session.id, call, turn="in-2")
    await store.append(session.id, messages[2:], turn="in-2")
    return Kept(store)


async def serve(kept: Kept, box: Box, entry: InboundMessage) -> TurnFinished:
    async with asyncio.timeout(120):
        return await box.loop.process(entry, kept)


def texts(provider: ScriptedProvider, number: int = 0) -> list[str]:
    return [one.text for one in provider.requests[number].messages]


async def test_a_call_that_may_have_had_its_effect_is_not_made_again_and_both_are_told() -> None:
    kept = await left(*BEGINNING, intents=(SEND, LOOK))
    provider, send, look = ScriptedProvider(["It may be out."]), SendTool(), LookTool()
    async with agent(provider, send, look, store=kept.store) as box:
        finished = await serve(kept, box, arrived())
        await box.until(lambda: any(item.event is finished for item in box.events))
    assert send.calls == []
    assert [one.query for one in look.calls] == ["cats"], "what only looks something up runs again"
    results = {one.call_id: one for one in provider.requests[0].messages if isinstance(one, ToolMessage)}
    assert "outcome unknown" in results["c1"].text
    assert "found cats" in results["c2"].text
    assert [one for one in texts(provider) if ASKED in one] == [ASKED], "what the person asked stands there once"
    assert_legal(provider.requests[0].messages)
    (note,) = finished.notes
    assert "Whether that took effect is not known" in note
    assert box.of(Notice) == [Notice(note, "warning")]
    assert results["c1"].error == "cancelled"


async def test_that_an_outcome_is_unknown_is_told_also_after_a_second_crash_and_where_the_tool_is_gone() -> None:
    kept = await left(*BEGINNING, intents=(SEND,))
    async with agent([(Wait(asyncio.Event()),)], LookTool(), store=kept.store) as box:
        running = asyncio.create_task(box.loop.process(arrived(), kept))
        await box.provider.asked(1)
        running.cancel()
        await asyncio.wait({running}, timeout=120)
        results = {one.call_id: one for one in box.provider.requests[0].messages if isinstance(one, ToolMessage)}
        assert "outcome unknown" in results["c1"].text
    async with agent(["It may be out."], SendTool(), LookTool(), store=kept.store) as box:
        finished = await serve(kept, box, arrived())
    (note,) = finished.notes
    assert "Whether that took effect is not known" in note


async def test_a_call_that_was_not_begun_runs_and_one_with_a_result_does_not() -> None:
    for found, intents, sent in ((FOUND[:1], (SEND,), 0), ((), (), 1)):
        kept, send, look = await left(*BEGINNING, *found, intents=intents), SendTool(), LookTool()
        async with agent(["done"], send, look, store=kept.store) as box:
            finished = await serve(kept, box, arrived())
        assert (len(send.calls), len(look.calls), finished.notes) == (sent, 1, ())
    assert [one.role for one in await kept.transcript()][2:] == ["user", "assistant", "tool", "tool", "assistant"]


async def test_the_intent_of_a_call_stands_before_it_and_its_result_after() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))
    gate = asyncio.Event()
    send, look = SendTool(gate=gate), LookTool()
    provider = ScriptedProvider([(Call("send", {"query": "a"}), Call("web_search", {"query": "b"})), "done"])
    async with agent(provider, send, look, store=kept.store) as box:
        running = asyncio.create_task(serve(kept, box, arrived()))
        await send.started.wait()
        await look.started.wait()
        session, records = await kept.store.begun("in-2")
        kinds = [(one.kind, getattr(one.message, "name", "")) for one in records]
        assert kinds[2] == ("intent", "send")
        assert ("intent", "web_search") not in kinds, "a lookup may run again, so nothing is written before it"
        gate.set()
        await running
    records = await kept.store.transcript(session)
    assert [one.kind for one in records if getattr(one.message, "name", "") == "send"] == ["intent", "message"]


async def test_the_last_messages_are_kept_with_the_answer_and_not_before() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))
    async with agent([Call("web_search", {"query": "b"}), "the answer"], LookTool(), store=kept.store) as box:
        finished = await serve(kept, box, arrived())
        await box.until(lambda: any(item.event is finished for item in box.events))
    ((first, end, closing),) = kept.ends
    assert first.id == "in-2"
    assert end is finished
    assert closing is not None
    assert [one.text for one in closing.messages] == ["the answer"]
    assert closing.turn == "in-2"
    assert [one.role for one in await kept.transcript()] == ["user", "assistant", "tool", "assistant"]


async def test_a_turn_that_ends_with_the_process_is_left_open_and_ends_in_the_next() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))
    never = asyncio.Event()
    look = LookTool()
    first = ScriptedProvider([Call("web_search", {"query": "b"}), (Say("half an ans"), Wait(never))])
    async with agent(first, look, store=kept.store) as box:
        running = asyncio.create_task(box.loop.process(arrived(), kept))
        await first.asked(2)
        running.cancel()
        await asyncio.wait({running}, timeout=120)
        assert (running.cancelled(), first.active) == (True, 0), "whoever gave it up does not leave it running"
    assert kept.ends == []
    assert [one.role for one in await kept.transcript()] == ["user", "assistant", "tool"]
    second = ScriptedProvider(["the answer"])
    async with agent(second, look, store=kept.store) as box:
        finished = await serve(kept, box, arrived())
    assert finished.text == "the answer"
    assert (finished.steps, finished.usage.requests) == (2, 2), "what the first process used up counts"
    assert len(look.calls) == 1
    assert [one.role for one in await kept.transcript()] == ["user", "assistant", "tool", "assistant"]


async def test_what_goes_on_after_its_process_gave_it_up_is_kept_and_told_nowhere_and_nothing_else_begins() -> None:
    kept, tool = Kept(SessionStore(MemoryDatabase())), FakeTool(held=True, stubborn=True)
    async with agent([Call("web_search", {"query": "b"}), "late"], tool, store=kept.store) as box:
        running = asyncio.create_task(box.loop.process(arrived(), kept))
        await tool.started.wait()
        other = replace(arrived("mine", 3), sender=Sender("9", "Eve", "user"))
        waiting = asyncio.create_task(box.loop.process(other, kept))
        await box.until(lambda: bool(box.of(Notice)))
        running.cancel()
        await asyncio.wait({running}, timeout=120)
        before = await kept.transcript(), len(box.events)
        tool.open()
        while tool.running:
            await asyncio.sleep(0)
        for _ in range(20):  # whatever the straggler still wants to say would come now
            await asyncio.sleep(0)
        assert (await kept.transcript(), len(box.events)) == before
        assert len(box.provider.requests) == 1
        waiting.cancel()
        await asyncio.wait({waiting})


async def test_a_stopped_turn_is_over_for_good() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))
    async with agent([(Say("half"), Wait(asyncio.Event()))], store=kept.store) as box:
        running = asyncio.create_task(serve(kept, box, arrived()))
        await box.provider.asked(1)
        await box.loop.cancel(HERE.key)
        finished = await running
    assert finished.outcome == "cancelled"
    assert [end is finished for _first, end, _closing in kept.ends] == [True]
    assert "[Stopped by the user]" in (await kept.transcript())[-1].text


async def test_a_message_is_stopped_also_while_it_waits_for_its_turn() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))
    never = asyncio.Event()
    async with agent([(Wait(never),), (Say("half"), Wait(never))], store=kept.store, concurrency=1) as box:
        elsewhere = replace(arrived("other", 1), address=Address("terminal", "elsewhere"))
        first = asyncio.create_task(serve(kept, box, elsewhere))
        await box.provider.asked(1)
        second = asyncio.create_task(serve(kept, box, arrived()))
        await asyncio.sleep(0)
        assert await box.loop.cancel(HERE.key) == "Stopped before it began."
        await box.loop.cancel(elsewhere.address.key)
        assert [(await one).outcome for one in (first, second)] == ["cancelled", "cancelled"]
        assert await box.loop.cancel(HERE.key) == "Nothing is running."
        never.set()
        box.provider.add("the next one is answered")
        assert (await serve(kept, box, arrived("go on", 4))).outcome == "completed"


async def test_a_message_is_stopped_also_while_it_is_taken_for_its_turn_and_the_next_one_is_answered() -> None:
    kept, taken, going = Kept(SessionStore(MemoryDatabase())), asyncio.Event(), asyncio.Event()

    async def begin(_message: InboundMessage) -> Left:
        taken.set()
        await going.wait()
        return "", ()

    async with agent(["the next one is answered"], store=kept.store) as box:
        one = arrived()
        served = asyncio.create_task(box.loop.process(one, kept, begin))
        await taken.wait()
        guest = Sender("9", role="guest")
        with pytest.raises(UsageError, match="Only the owner"):
            await box.loop.cancel(HERE.key, by=guest)
        assert await box.loop.cancel(HERE.key, by=one.sender) == "Stopped before it began."
        going.set()
        assert (await served).outcome == "cancelled"
        assert await box.loop.cancel(HERE.key) == "Nothing is running."
        assert (await serve(kept, box, arrived("go on", 4))).outcome == "completed"


class SlowDisk(Kept):
    """Keeps the end of a turn once `gate` is set."""

    def __init__(self, store: SessionStore) -> None:
        super().__init__(store)
        self.gate, self.asked = asyncio.Event(), asyncio.Event()

    async def __call__(self, first: InboundMessage, finished: TurnFinished | None, closing: Closing | None) -> None:
        self.asked.set()
        await self.gate.wait()
        await super().__call__(first, finished, closing)


async def test_a_turn_that_has_its_answer_is_not_said_to_be_stopped() -> None:
    kept = SlowDisk(SessionStore(MemoryDatabase()))
    async with agent(["the answer"], store=kept.store) as box:
        running = asyncio.create_task(serve(kept, box, arrived()))
        await asyncio.wait_for(kept.asked.wait(), 120)
        stopping = asyncio.create_task(box.loop.cancel(HERE.key))
        await asyncio.sleep(0)
        kept.gate.set()
        assert "had just ended" in await stopping
        assert (await running).outcome == "completed"


async def test_a_model_that_cannot_be_made_again_stops_no_chat() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))

    async def broken(name: str) -> LLMProvider:
        raise ValueError(f"a mistake in nanobot at {name}")

    chats = ChatSettings(Ledger(MemoryDatabase()))
    await chats.keep(HERE.key, "model", "another")
    async with agent(["hi"], store=kept.store, switch_model=broken, chats=chats) as box:
        assert (await serve(kept, box, arrived())).text == "hi"


async def test_text_that_the_turn_had_read_and_that_comes_during_its_last_step_is_settled_with_it() -> None:
    kept = await left(*BEGINNING, *FOUND, STEER, intents=(SEND,))
    gate = asyncio.Event()
    async with agent([(Wait(gate), Say("voilà"))], SendTool(), LookTool(), store=kept.store) as box:
        running = asyncio.create_task(serve(kept, box, arrived()))
        await box.provider.asked(1)
        other = asyncio.create_task(serve(kept, box, arrived("and in French", 3)))
        await asyncio.sleep(0)
        gate.set()
        assert (await running) is (await other)
    ((_first, end, _closing),) = kept.ends
    assert end is not None
    assert end.answered == ("in-2", "in-3")


async def test_text_that_the_turn_had_read_in_its_first_life_is_not_read_again() -> None:
    gate = asyncio.Event()
    for late in (False, True):
        kept = await left(*BEGINNING, *FOUND, STEER, intents=(SEND,))
        gate.clear()
        provider = ScriptedProvider([(Wait(gate), Say("voilà"))])
        async with agent(provider, SendTool(), LookTool(), store=kept.store) as box:
            running = asyncio.create_task(serve(kept, box, arrived()))
            if not late:
                other = asyncio.create_task(serve(kept, box, arrived("and in French", 3)))
                await asyncio.sleep(0)
            await provider.asked(1)
            if late:
                gate.set()
                await running
                other = asyncio.create_task(serve(kept, box, arrived("and in French", 3)))
            gate.set()
            await asyncio.wait_for(asyncio.gather(running, other), 120)
        assert len(provider.requests) == 1
        assert "\n".join(texts(provider)).count("and in French") == 1
        settled = [one for _first, end, _closing in kept.ends for one in (end.answered if end else ("in-3",))]
        assert sorted(settled) == ["in-2", "in-3"], "each message is settled once"


async def test_text_that_a_turn_had_read_is_not_answered_again_after_a_kill_between_its_end_and_the_settling() -> None:
    """The first process read it, the second one ended the turn and was killed, the third one has the row yet."""
    kept = await left(*BEGINNING, *FOUND, STEER, intents=(SEND,))
    async with agent(["voilà"], SendTool(), LookTool(), store=kept.store) as box:
        assert (await serve(kept, box, arrived())).text == "voilà"
    told, third = await kept.transcript(), ScriptedProvider(["next"])
    async with agent(third, SendTool(), LookTool(), store=kept.store) as box:
        assert (await serve(kept, box, arrived("and in French", 3))).answered == ("in-3",)
        assert (third.requests, await kept.transcript()) == ([], told)
        assert (await serve(kept, box, arrived("go on", 4))).text == "next"
    ends = [(first.id, end.answered if end else None) for first, end, _closing in kept.ends]
    assert ends == [("in-2", ("in-2",)), ("in-3", None), ("in-4", ("in-4",))]


@table(
    "number kept_so_far",
    (3, (*FOUND, STEER)),
    (3, (*FOUND, STEER, AssistantMessage(()))),
    (3, (*FOUND, STEER, AssistantMessage((Text("I look."), ToolCall("c3", "web_search", "{}")), "tools"))),
    (2, (*FOUND, AssistantMessage((Text("It is sent."),)))),
    ids=["just read", "cost alone", "a call", "words of its own"],
)
async def test_what_was_read_and_has_no_answer_gets_one(number: int, kept_so_far: tuple[Message, ...]) -> None:
    kept = await left(*BEGINNING, *kept_so_far, intents=(SEND,))
    async with agent(["voilà"], SendTool(), LookTool(), store=kept.store) as box:
        assert (await serve(kept, box, arrived("and in French", number))).text == "voilà"
    assert [end.answered for _first, end, _closing in kept.ends if end] == [(f"in-{number}",)]


async def test_sources_keep_their_numbers_so_that_citations_stay() -> None:
    read = ToolMessage(
        "c2",
        "web_search",
        (Text("[1] Cats\nurl: https://cats.example/\n\nA cat sleeps 15 hours a day."),),
        sources=(Source(1, "https://cats.example/", "Cats"),),
    )
    kept = await left(BEGINNING[0], AssistantMessage((LOOK,), "tools"), read)
    async with agent(["A cat sleeps 15 hours a day [1]."], LookTool(), store=kept.store) as box:
        finished = await serve(kept, box, arrived())
    assert finished.text == "A cat sleeps 15 hours a day [1]."
    assert [(one.number, one.url) for one in finished.sources] == [(1, "https://cats.example/")]


async def test_a_turn_whose_session_was_left_by_new_goes_on_in_its_own() -> None:
    kept = await left(*BEGINNING, intents=(SEND,))
    await kept.store.start(HERE.key)
    send = SendTool()
    async with agent(["done"], send, LookTool(), store=kept.store) as box:
        finished = await serve(kept, box, arrived())
    assert (send.calls, len(finished.notes)) == ([], 1)
    assert await kept.transcript() == []


async def test_a_turn_that_broke_off_in_a_call_goes_on_behind_what_a_terminal_said_meanwhile() -> None:
    kept = await left(*BEGINNING, intents=(SEND,))
    async with agent(["from the desk"], SendTool(), LookTool(), store=kept.store) as box:
        await box.ask("I go on in the terminal")
    provider, send = ScriptedProvider(["It may be out.", "as I said"]), SendTool()
    async with agent(provider, send, LookTool(), store=kept.store) as box:
        finished = await serve(kept, box, arrived())
        await serve(kept, box, arrived("and?", 3))
    assert send.calls == [], "the intent is found behind what came later"
    (note,) = finished.notes
    assert "Whether that took effect is not known" in note
    assert not any("the terminal" in one for one in texts(provider)), "it goes on with what it had begun with"
    later = provider.requests[1].messages
    assert_legal(later)
    results = {one.call_id: one.text for one in later if isinstance(one, ToolMessage)}
    assert "outcome unknown" in results["c1"]
    assert "found cats" in results["c2"], "results stand behind their calls, however late they came"


async def test_what_was_begun_for_a_message_that_a_turn_read_on_its_way_is_not_done_again_for_the_message() -> None:
    again = ToolCall("c3", "send", '{"query": "postcard"}')
    steer = UserMessage((Text("and a postcard"),), "steer", "in-3")
    kept = await left(*BEGINNING, *FOUND, steer, AssistantMessage((again,), "tools"), intents=(SEND,))
    session = await kept.store.current(HERE.key)
    await kept.store.intend(session.id, again, turn="in-2")
    provider, send = ScriptedProvider(["The postcard may be out.", "done"]), SendTool()
    async with agent(provider, send, LookTool(), store=kept.store) as box:
        finished = await serve(kept, box, arrived("and a postcard", 3))  # in-2 was set aside
        await serve(kept, box, arrived("next", 4))
    assert send.calls == []
    (note,) = finished.notes
    assert "postcard" in note
    assert "Whether that took effect is not known" in note
    asked = "\n".join(texts(provider))
    assert (asked.count("and a postcard"), asked.count(ASKED)) == (1, 1), "each message stands there once"
    assert [end.answered for _first, end, _closing in kept.ends if end] == [("in-3",), ("in-4",)]
    assert_legal(provider.requests[1].messages)


async def test_two_processes_never_serve_one_session_at_once(tmp_path: Path) -> None:
    """Each agent has a store of its own on one file, as two processes have."""
    gate, path = asyncio.Event(), tmp_path / "n.db"
    first, second = ScriptedProvider([(Wait(gate), Say("from the first"))]), ScriptedProvider(["one", "two"])
    gateway, terminal = SessionStore(SqliteDatabase(path)), SessionStore(SqliteDatabase(path))
    session = await gateway.current(HERE.key)
    async with agent(first, store=gateway) as box, agent(second, store=terminal) as other:
        running = asyncio.create_task(box.ask("hi"))
        await first.asked(1)
        refused = await other.ask("me too")
        assert (refused.outcome, refused.temporary, refused.model) == ("failed", True, "scripted")
        assert second.requests == []
        assert f"Process {os.getpid()} is answering in this conversation right now" in refused.error
        waiting = asyncio.create_task(other.loop.process(arrived("a letter"), Kept(terminal)))
        await other.until(lambda: any("in use elsewhere" in getattr(one, "text", "") for one in other.of(Notice)))
        assert second.requests == []
        assert "which answers in the same conversation" in await other.loop.status(HERE.key)
        gate.set()
        assert (await running).text == "from the first"
        assert (await asyncio.wait_for(waiting, 120)).text == "one", "what must be answered waits for it"
        told = [one.text for one in await gateway.history(session.id)]
        assert told == ["hi", "from the first", "a letter", "one"]


AWAY = Fail(ProviderError("network", "no route", provider="openai"))


async def test_a_question_of_a_chat_is_asked_again_while_the_model_is_away_and_keeps_what_was_shown() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))
    async with agent([(Say("The tide"), AWAY), "The tide is high at noon."], store=kept.store) as box:
        finished = await serve(kept, box, arrived())
        assert (finished.outcome, finished.text, finished.steps) == ("completed", "The tide is high at noon.", 1)
        (retried,) = box.of(StepRetried)
        assert "no route" in getattr(retried, "reason", "")
        said = [one.text for one in await kept.transcript() if one.text]  # what the first try cost has no words
        assert said == [ASKED, "The tide is high at noon."]


async def test_a_model_that_is_away_is_asked_again_ever_later_or_when_it_says() -> None:
    kept, waits, seen = Kept(SessionStore(MemoryDatabase())), list[float](), list[str]()
    wait_90 = Fail(ProviderError("rate_limit", "slow down", provider="acme", retry_after=90.0))
    away = [*[AWAY] * 7, wait_90, Fail(ProviderError("network", "no route"))]
    provider = ScriptedProvider([Call("web_search", {"query": "x"}), *away, "here"])
    async with agent(provider, LookTool(), store=kept.store) as box:

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            seen.append(await box.loop.status(HERE.key))

        box.loop.runner.sleep = sleep
        assert (await serve(kept, box, arrived())).text == "here"
        retries = box.of(StepRetried)
    assert waits == [one.wait for one in retries] == [1, 2, 4, 8, 16, 32, 60, 90, 60]
    assert {one.provider for one in retries} == {"openai", "acme", "scripted"}
    assert all("waiting for the model scripted" in status for status in seen)


@table(
    "kind retry_after waits",
    *((kind, 10, [10]) for kind in ("network", "timeout", "overloaded", "server", "rate_limit", "truncated")),
    ("network", 15.5, []),
    ("auth", 1, []),
)
async def test_a_model_is_asked_again_where_that_may_help_and_time_is_left(
    kind: ProviderErrorKind, retry_after: float, waits: list[float]
) -> None:
    kept, waited = Kept(SessionStore(MemoryDatabase())), list[float]()
    provider = ScriptedProvider([Fail(ProviderError(kind, "no", retry_after=retry_after)), "here"])
    async with agent(provider, store=kept.store, limits=TurnLimits(max_seconds=20)) as box:

        async def sleep(seconds: float) -> None:
            waited.append(seconds)

        box.loop.runner.sleep = sleep
        finished = await serve(kept, box, arrived())
    assert (waited, finished.outcome) == (waits, "completed" if waits else "failed")


async def test_a_question_whose_model_stays_away_ends_within_its_time_and_does_not_promise_an_answer() -> None:
    kept = Kept(SessionStore(MemoryDatabase()))
    async with agent([(Say("The tide"), AWAY)], store=kept.store, limits=TurnLimits(max_seconds=4)) as box:
        finished = await serve(kept, box, arrived())
    assert (finished.outcome, finished.text, finished.temporary) == ("failed", "The tide", True)
    assert "so your message was not answered" in finished.error
    assert len(box.provider.requests) == 1, "what cannot come in time is not asked for"


class FullDisk(SessionStore):
    """A store that takes no intents."""

    async def intend(self, session_id: str, call: ToolCall, *, turn: str) -> None:
        del session_id, call, turn
        raise StoreError("The disk is full.")


async def test_what_cannot_be_written_down_is_not_done() -> None:
    send, store = SendTool(), FullDisk(MemoryDatabase())
    async with agent([Call("send", {"query": "a"})], send, store=store) as box:
        finished = await serve(Kept(store), box, arrived())
    assert (send.calls, finished.outcome, finished.error) == ([], "failed", "The disk is full.")


async def test_a_call_that_is_denied_leaves_no_intent() -> None:
    kept, send = Kept(SessionStore(MemoryDatabase())), FakeTool("send", access="changes")
    async with agent([Call("send", {"query": "a"}), "no"], send, store=kept.store) as box:
        await serve(kept, box, arrived())
    session = await kept.store.current(HERE.key)
    assert {one.kind for one in await kept.store.transcript(session.id)} == {"message"}
    assert send.calls == []


class OnceFullDisk(SessionStore):
    """A store that refuses the `at`-th write of messages."""

    def __init__(self, at: int) -> None:
        super().__init__(MemoryDatabase())
        self._left = at

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "", title: str = "") -> None:
        self._left -= 1
        if self._left == 0:
            raise StoreError("The disk is full.")
        await super().append(session_id, messages, turn=turn, title=title)


@pytest.mark.parametrize("at", range(1, 4))
async def test_what_the_disk_refused_for_a_moment_is_kept_with_the_end_of_the_turn(at: int) -> None:
    store, send = OnceFullDisk(at), SendTool()
    async with agent([Call("send", {"query": "a"})], send, store=store) as box:
        finished = await serve(Kept(store), box, arrived())
        await box.until(lambda: any(item.event is finished for item in box.events))
    assert (finished.outcome, finished.error) == ("failed", "The disk is full.")
    done = 'This was done before the turn broke off: send "a".'
    assert finished.notes == ((done,) if at == 3 else ()), "an effect is told, also where the turn has no answer"
    assert [one for one in box.of(Notice) if done in str(one)] == [Notice(one, "warning") for one in finished.notes]
    told = await Kept(store).transcript()
    roles = ["user", "assistant", "tool", "assistant"] if at > 1 else ["user", "assistant"]
    assert [one.role for one in told] == roles
    assert [one.text for one in told if isinstance(one, ToolMessage) and not one.error] == ["sent a"] * len(send.calls)


@pytest.mark.parametrize(
    "tool", [LookTool("send"), FakeTool("send", lambda _: error_result("network", "It did not go out."))]
)
async def test_what_had_no_effect_when_the_disk_failed_is_not_told(tool: FakeTool) -> None:
    store = OnceFullDisk(3)
    async with agent([Call("send", {"query": "a"})], tool, store=store) as box:
        finished = await serve(Kept(store), box, arrived())
    assert (len(tool.calls), finished.error, finished.notes) == (1, "The disk is full.", ())


@pytest.mark.parametrize("cut", range(1, 9))
async def test_a_turn_cut_after_any_write_ends_with_every_effect_made_once_or_said_to_be_unknown(cut: int) -> None:
    """The store dies after its `cut`-th write; a second process goes on with what it took."""
    store = DyingStore(cut)
    effects: list[str] = []
    steps: list[Step] = [
        Call("send", {"query": "a"}),
        (Call("send", {"query": "b"}), Call("web_search", {"query": "c"})),
    ]
    async with agent([*steps, "done"], Effect(effects), LookTool(), store=store) as box:
        running = asyncio.create_task(box.loop.process(arrived(), Kept(store)))
        await asyncio.wait({running, asyncio.create_task(store.dead.wait())}, return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        await asyncio.wait({running}, timeout=120)
    store.alive()
    done = sum(isinstance(one, AssistantMessage) for one in await Kept(store).transcript())
    kept = Kept(store)
    provider = ScriptedProvider([*steps, "done"][done:])
    async with agent(provider, Effect(effects), LookTool(), store=store) as box:
        finished = await serve(kept, box, arrived())
    assert finished.outcome == "completed", finished
    assert len(effects) == len(set(effects)), f"an effect was made twice: {effects}"
    assert len(effects) + len(finished.notes) >= 2, "an effect that is missing is told"
    assert_legal(provider.requests[0].messages)
    said = [one for one in await kept.transcript() if isinstance(one, UserMessage)]
    assert [one.text for one in said] == [ASKED]


class Effect(Tool[QueryArgs]):
    """Writes down each of its effects."""

    name = "send"
    description = "Has an effect."
    Arguments = QueryArgs
    access: Access = "reads"

    def __init__(self, effects: list[str]) -> None:
        self._effects = effects

    async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
        del context
        self._effects.append(args.query)
        return ToolResult(f"sent {args.query}")


class DyingStore(SessionStore):
    """Takes `cut` writes; whoever waits for the next one waits until the process is gone."""

    def __init__(self, cut: int) -> None:
        super().__init__(MemoryDatabase())
        self._left = cut
        self.dead = asyncio.Event()

    def alive(self) -> None:
        self._left = 1_000_000

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "", title: str = "") -> None:
        await self._spend()
        await super().append(session_id, messages, turn=turn, title=title)

    async def intend(self, session_id: str, call: ToolCall, *, turn: str) -> None:
        await self._spend()
        await super().intend(session_id, call, turn=turn)

    async def _spend(self) -> None:
        if self._left == 0:
            self.dead.set()
            await asyncio.Event().wait()
        self._left -= 1
