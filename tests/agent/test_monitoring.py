"""What fails is reported where it passes, and what never returns ends with the time of its turn."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nanobot.agent.monitoring import WatchedDatabase, in_the_terminal, watched, watched_bus
from nanobot.agent.turn import TurnLimits
from nanobot.bus.alarms import Alarm, Alarms
from nanobot.bus.events import Address, MessageBus, Notice, OutboundMessage, ToolFinished
from nanobot.channels.telegram.render.answer import answer_text
from nanobot.errors import ProviderError, StoreError
from nanobot.messages import Completed, Message, Text, ToolCall, UserMessage
from nanobot.providers.base import Capabilities, LLMProvider, Request
from nanobot.providers.scripted import Call, Fail, Pause, ScriptedProvider, Step
from nanobot.results import ToolResult, error_result
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionInfo, SessionStore
from tests.agent.harness import Box, FakeTool, agent
from tests.fakes.logs import log_lines
from tests.fakes.patience import growing
from tests.fakes.waiting import until

BOUND = 120.0
REFUSED = Fail(
    ProviderError(
        "auth", "acme: no. Do that.", status=401, provider="acme", detail="invalid key", key_hint="ACME_API_KEY"
    )
)


class Heard:
    def __init__(self) -> None:
        self.alarms = Alarms(retry=0.02)
        self.texts: list[str] = []
        self.alarms.through(self._tell)

    async def _tell(self, alarm: Alarm) -> bool:
        self.texts.append(alarm.text)
        return True

    async def until(self, count: int) -> None:
        await until(lambda: len(self.texts) >= count)


@asynccontextmanager
async def hearing() -> AsyncIterator[Heard]:
    heard = Heard()
    async with heard.alarms.running():
        yield heard
        for _ in range(20):
            await asyncio.sleep(0)


async def ask(provider: LLMProvider) -> str:
    try:
        async for delta in provider.stream(Request((UserMessage((Text("hi"),)),))):
            if isinstance(delta, Completed):
                return delta.message.text
    except ProviderError as error:
        return error.kind
    return ""


async def test_U71_a_model_that_refuses_three_times_is_reported_with_the_key_to_check() -> None:
    async with hearing() as heard:
        provider = watched(ScriptedProvider([REFUSED, REFUSED, "well", *[REFUSED] * 3]), heard.alarms)
        assert [await ask(provider) for _ in range(5)] == ["auth", "auth", "well", "auth", "auth"]
        await asyncio.sleep(0.02)
        assert heard.texts == []
        await ask(provider)
        await heard.until(1)
    assert "invalid key (HTTP 401)" in heard.texts[0]
    assert "Check ACME_API_KEY" in heard.texts[0]


async def test_what_lies_in_the_conversation_is_no_failure_of_the_model() -> None:
    async with hearing() as heard:
        provider = watched(ScriptedProvider(after=Fail(ProviderError("overflow", "too long"))), heard.alarms)
        assert [await ask(provider) for _ in range(4)] == ["overflow"] * 4
    assert heard.texts == []


async def test_a_model_that_works_does_not_hide_another_that_fails() -> None:
    async with hearing() as heard:
        good = watched(ScriptedProvider(after="well", model="good"), heard.alarms)
        bad = watched(ScriptedProvider(after=REFUSED, model="bad"), heard.alarms)
        for _ in range(3):
            await ask(bad)
            await ask(good)
        await heard.until(1)
    assert "The model bad" in heard.texts[0]


def test_what_is_no_language_model_is_left_alone() -> None:
    provider = ScriptedProvider([], capabilities=Capabilities(language_model=False))
    assert watched(provider, Alarms()) is provider


async def test_U71_searches_without_any_answer_are_reported_with_the_reasons_of_the_services() -> None:
    here = Address("terminal", "me")
    failed = error_result("service", "Web search failed: brave: HTTP 500", cause="brave: HTTP 500")

    async def search(bus: MessageBus, result: ToolResult) -> None:
        await bus.publish_outbound(OutboundMessage(here, ToolFinished(ToolCall("1", "web_search", "{}"), result)))

    async with hearing() as heard:
        bus = watched_bus(heard.alarms)
        events = bus.subscribe("terminal")
        for result in (failed, failed, ToolResult("1. a page"), failed, error_result("repeated", "again"), failed):
            await search(bus, result)
        await asyncio.sleep(0.02)
        assert heard.texts == []
        await search(bus, failed)
        await heard.until(1)
        assert isinstance((await anext(events)).event, ToolFinished)
    assert "Web search failed 3 times in a row" in heard.texts[0]
    assert "The last time: brave: HTTP 500." in heard.texts[0]
    assert "tools.web.search" in heard.texts[0]


async def test_U71_a_disk_that_refuses_three_times_in_a_row_is_reported_and_a_wrong_use_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "home"

    async def write(*, well: bool) -> None:
        """One write in a process of its own, with a file where the folder should be unless it is to go well."""
        if not well:
            folder.write_text("in the way", encoding="utf-8")
        database = WatchedDatabase(folder / "nanobot.db", heard.alarms)
        ledger = Ledger(database)
        if well:
            await ledger.set_notes({"a": "b"})
            for _ in range(4):
                with pytest.raises(StoreError, match="no session"):
                    await ledger.sessions.history("nobody")
            await database.aclose()
            shutil.rmtree(folder)
        else:
            with pytest.raises(StoreError):
                await ledger.set_notes({"a": "b"})
            await database.aclose()
            folder.unlink()

    async with hearing() as heard:
        for well in (False, False, True, False, False):
            await write(well=well)
        await asyncio.sleep(0.02)
        assert heard.texts == []
        await write(well=False)
        await heard.until(1)
    assert f"Writing to {folder / 'nanobot.db'} failed 3 times in a row" in heard.texts[0]
    assert "free space" in heard.texts[0]


async def test_in_the_terminal_an_alarm_is_a_notice() -> None:
    bus, address = MessageBus(), Address("terminal", "local")
    events = bus.subscribe("terminal")
    assert await in_the_terminal(bus, address)(Alarm("k", "Something failed."))
    message = await anext(events)
    assert message.address == address
    assert message.event == Notice("Something failed.", "warning")


#: Limits of a turn in seconds: another chat has to be answered within the same.
LIMITS = (0.4, 4.0, 40.0)
OTHER = Address("telegram", "77")
FETCH = Call("web_fetch", {"url": "https://example.com/a"})


class SilentStore(SessionStore):
    """A store that does not answer any more from the `at`-th message on; with 0 not even to the first question."""

    def __init__(self, at: int) -> None:
        super().__init__(MemoryDatabase())
        self._left = at

    async def current(self, key: str) -> SessionInfo:
        if self._left == 0 and key != OTHER.key:
            await asyncio.get_running_loop().create_future()
        return await super().current(key)

    async def append(self, session_id: str, messages: tuple[Message, ...], *, turn: str = "", title: str = "") -> None:
        self._left -= 1
        if self._left <= 0:
            await asyncio.get_running_loop().create_future()
        await super().append(session_id, messages, turn=turn, title=title)


def hanging(lines: list[str]) -> str:
    return next(line for line in lines if "hangs; it waits here" in line)


def answers(*steps: Step) -> ScriptedProvider:
    """A model named `slowpoke` that plays these steps, but answers at once in the other chat."""
    left = list(steps)

    def play(request: Request) -> Step:
        if "the other chat" in str(request.messages[-1]):
            return "Here I am."
        return left.pop(0) if len(left) > 1 else left[0]

    return ScriptedProvider(after=play, model="slowpoke")


async def other_chat_goes_on(box: Box) -> None:
    assert (await box.ask("from the other chat", OTHER, timeout=BOUND)).text == "Here I am."


@growing(*LIMITS)
async def test_U5_a_model_that_never_answers_is_named_and_not_asked_again(limit: float) -> None:
    provider = answers(Pause(600))
    with log_lines() as lines:
        async with agent(provider, limits=TurnLimits(max_seconds=limit)) as box:
            asked = asyncio.create_task(box.ask("go"))
            await other_chat_goes_on(box)
            finished = await asked
    assert finished.outcome == "out_of_steps"
    assert "while waiting for the model slowpoke" in finished.text
    assert len(provider.requests) == 2
    assert "Conversation._stream" in hanging(lines)
    assert "ScriptedProvider.stream" in hanging(lines)


@growing(*LIMITS)
async def test_U5_a_tool_that_never_returns_is_named_to_the_model_that_sums_up_and_in_the_log(limit: float) -> None:
    tool = FakeTool("web_fetch", gate=asyncio.Event())
    provider = answers(FETCH, "The page did not come. Continue?")
    with log_lines() as lines:
        async with agent(provider, tool, limits=TurnLimits(max_seconds=limit)) as box:
            asked = asyncio.create_task(box.ask("go"))
            await other_chat_goes_on(box)
            finished = await asked
    assert finished.text == "The page did not come. Continue?"
    (note,) = finished.notes
    assert note.startswith("The time limit of")
    assert note.endswith("is reached while waiting for fetch example.com/a.")
    assert "while waiting for fetch example.com/a" in str(provider.requests[-1].messages[-1])
    assert "AgentRunner._execute_tools" in hanging(lines)
    assert "FakeTool._wait" in hanging(lines)


@growing(*LIMITS)
async def test_U5_a_tool_that_cannot_even_be_stopped_is_left_behind_and_named(limit: float) -> None:
    tool = FakeTool("web_fetch", gate=asyncio.Event(), stubborn=True)
    provider = answers(FETCH, "Now I can.")
    with log_lines() as lines:
        async with agent(provider, tool, limits=TurnLimits(max_seconds=limit)) as box:
            asked = asyncio.create_task(box.ask("go", timeout=BOUND))
            await other_chat_goes_on(box)
            assert not asked.done()
            finished = await asked
            assert (await box.ask("and now?")).text == "Now I can."
            tool.open()
    assert finished.outcome == "failed"
    assert "hung waiting for fetch example.com/a" in finished.error
    assert "agents.defaults.maxTurnSeconds" in finished.error
    assert "FakeTool._wait" in hanging(lines)


@growing(*LIMITS)
async def test_U5_a_disk_that_does_not_answer_hides_no_end_of_a_turn(limit: float) -> None:
    async def end(at: int) -> str:
        provider, store = answers(FETCH, "The answer."), SilentStore(at)
        async with agent(provider, FakeTool("web_fetch"), limits=TurnLimits(max_seconds=limit), store=store) as box:
            finished = await box.ask("go", timeout=BOUND)
        return f"{finished.text} {finished.error}"

    for told in await asyncio.gather(*map(end, range(4))):
        assert "waiting for the disk" in told


@growing(0.2, 2.0, 20.0)
async def test_U5_a_command_that_hangs_is_given_up_and_the_chat_goes_on(limit: float) -> None:
    async def never(_: str) -> LLMProvider:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async with agent(answers("Fine."), switch_model=never) as box:
        box.loop.command_seconds = box.loop.questions.seconds = limit
        finished = await box.ask("/model other")
        assert finished.outcome == "failed"
        assert answer_text(finished).count("/model has not ended") == 1, "a chat is told once"
        assert (await box.ask("go")).text == "Fine."
