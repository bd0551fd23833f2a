"""A dependency that never returns: an honest message soon after the turn's time, and other chats go on meanwhile."""

import asyncio

from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import Address
from nanobot.messages import Message
from nanobot.providers.base import LLMProvider, Request
from nanobot.providers.scripted import Call, Pause, ScriptedProvider, Step
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionInfo, SessionStore
from tests.agent.harness import Box, FakeTool, agent
from tests.fakes.logs import log_lines
from tests.fakes.patience import growing

#: Limits of a turn in seconds: another chat has to be answered within the same.
LIMITS = (0.4, 4.0, 40.0)
BOUND = 120.0
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
        assert "/model has not ended" in finished.text
        assert (await box.ask("go")).text == "Fine."
