"""What does not fit: a long result is kept where the model pages through it; no request is larger than a window."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.agent.history import Past
from nanobot.agent.tools.files.offered import FileTools
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import InboundMessage
from nanobot.config.paths import Paths
from nanobot.config.schema_tools import ToolsConfig
from nanobot.errors import ProviderError, StoreError
from nanobot.files.outputs import OUTPUTS_KEPT
from nanobot.messages import AssistantMessage, Media, Message, Text, ToolCall, ToolMessage, UserMessage
from nanobot.providers.base import Capabilities, Request
from nanobot.providers.scripted import Action, Call, Fail, Say, ScriptedProvider
from nanobot.results import ToolResult
from tests.agent.harness import FakeTool, agent, message
from tests.agent.legal import assert_legal
from tests.fakes.logs import log_lines

SIX_KB = "line of the long answer\n" * 250


def files_of(home: Path) -> FileTools:
    paths = Paths.resolve({"HOME": str(home)})
    paths.workspace.mkdir(parents=True)
    return FileTools(ToolsConfig(), paths, home)


@pytest.mark.parametrize("untrusted", [True, False])
async def test_U22_a_result_that_is_too_long_is_paged_from_a_file_that_is_as_foreign_as_it(
    tmp_path: Path, *, untrusted: bool
) -> None:
    whole = f"{SIX_KB}the very end"
    tool = FakeTool("ask_service", lambda _: ToolResult(whole, untrusted=untrusted))
    files = files_of(tmp_path)

    def page(request: Request) -> tuple[Action, ...]:
        place = request.messages[-1].text.partition("the whole: ")[2].partition("]")[0]
        return (Call("read_file", {"path": place, "offset": 251}),)

    provider = ScriptedProvider([Call("ask_service", {"query": "x"}), page, "Read."])
    limits = TurnLimits(max_tool_result_chars=1_000)
    async with agent(provider, tool, limits=limits, factories=files.factories(), keep_result=files.keep_result) as box:
        await box.ask("go")
        first, second = [one for one in await box.history() if isinstance(one, ToolMessage)]
    await files.aclose()
    assert f"the first 1000 of {len(whole)} characters are shown. read_file pages through the whole: .output/" in (
        first.text
    )
    assert "the very end" not in first.text
    assert "the very end" in second.text
    assert (first.untrusted, second.untrusted) == (untrusted, untrusted)


async def test_U22_no_more_than_the_newest_long_results_are_kept_and_none_without_files(tmp_path: Path) -> None:
    tool = FakeTool("ask_service", lambda _: ToolResult(SIX_KB))
    calls = [Call("ask_service", {"query": str(number)}) for number in range(OUTPUTS_KEPT + 5)]
    files = files_of(tmp_path)
    provider = ScriptedProvider([*calls, "Done."], after="Done.")
    limits = TurnLimits(max_tool_result_chars=1_000)
    async with agent(provider, tool, limits=limits, factories=files.factories(), keep_result=files.keep_result) as box:
        await box.ask("go")
    await files.aclose()
    kept = list((tmp_path / ".nanobot/workspace/.output").iterdir())
    provider = ScriptedProvider([calls[0], "Done."])
    async with agent(provider, tool, limits=limits, keep_result=files.keep_result) as box:
        await box.ask("go")
        (cut,) = [one for one in await box.history() if isinstance(one, ToolMessage)]

    asked: list[str] = []

    async def no_disk(_message: InboundMessage, text: str, _labels: tuple[str, ...]) -> str:
        asked.append(text)
        raise StoreError("The disk is full.")

    page = FakeTool("read_file", tool._answer)
    for keep, most in ((no_disk, 1_000), (None, 1_000), (no_disk, len(SIX_KB))):
        limits = TurnLimits(max_tool_result_chars=most)
        async with agent(
            [calls[0], Call("read_file", {}), "Done."], tool, page, limits=limits, keep_result=keep
        ) as box:
            with log_lines() as lines:
                await box.ask("go")
            results = [one.text for one in await box.history() if isinstance(one, ToolMessage)]
        assert ["Ask for less" in one for one in results] == [most == 1_000] * 2
        assert len(lines) == (keep is no_disk and most == 1_000)
    assert asked == [SIX_KB], "a page of something is not kept again"
    assert len(kept) == OUTPUTS_KEPT
    assert "Ask for less at a time." in cut.text


def counted(request: Request) -> int:
    """The tokens of a request as a service would count them that counts a picture as 1,500."""
    total = len(request.system.encode()) + len(request.tail.encode())
    total += sum(len(f"{tool.name}{tool.description}{tool.schema}".encode()) for tool in request.tools)
    pictures = 0
    for one in request.messages:
        for part in one.content:
            pictures += isinstance(part, Media)
            text = "" if isinstance(part, Media) else part.arguments if isinstance(part, ToolCall) else part.text
            total += len(text.encode())
    return total // 3 + 1_500 * pictures


PICTURE = Media("/nowhere/a.png", "image/png", "boat.png", 4_000)


@pytest.mark.parametrize("letters", ["word ", "漢字", "🦆"])
@pytest.mark.parametrize("window", [3_000, 8_000, 20_000])
async def test_U22_no_request_is_larger_than_the_window(window: int, letters: str) -> None:
    """What is looked up, said, and shown as pictures is each too much; the service refuses what does not fit."""
    too_large: list[int] = []

    def judged(request: Request) -> tuple[Action, ...]:
        if counted(request) + window // 8 > window:
            too_large.append(counted(request))
            return (Fail(ProviderError("overflow", "too long", window=window)),)
        last = request.messages[-1]
        if isinstance(last, UserMessage) and "look" in last.text and request.tools:
            return (*(Call("web_search", {"query": f"{number}"}) for number in range(3)),)
        return (Say(f"It is {letters * 50}."),)

    tool = FakeTool(answer=lambda _: ToolResult(letters * window))
    provider = ScriptedProvider(after=judged, capabilities=Capabilities(window=window, vision=True))
    async with agent(provider, tool) as box:
        for number in range(6):
            question = letters * (window // (4 if number % 2 else 1)) if number % 3 else "please look it up"
            said = replace(message(question), media=(PICTURE,) * (number % 3 * 2))
            finished = await box.loop.process(said)
            assert finished.outcome == "completed", finished.error
    assert too_large == []
    for one in provider.requests:
        assert_legal(one.messages)


def test_U22_old_pictures_go_before_old_words_and_their_message_says_so() -> None:
    said: list[Message] = []
    for number in range(4):
        said += [UserMessage((Text(f"Picture {number}"), PICTURE)), AssistantMessage((Text("A boat."),))]
    past = Past("s")
    past._turns, past._tokens = [tuple(said[n : n + 2]) for n in range(0, 8, 2)], [1_520] * 4
    past.fit(2_000)
    shown = past.messages
    assert [one.text.partition("[")[0] for one in shown if isinstance(one, UserMessage)] == [
        f"Picture {number}" for number in range(4)
    ]
    assert "[boat.png was here. It is not shown any more" in shown[0].text
    assert any(isinstance(part, Media) for part in shown[-2].content), "the newest is shown"
