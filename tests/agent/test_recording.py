"""Recording and replaying at the seams: calls side by side, requests of tools, awkward texts."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from msgspec import Struct

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.history import parse_arguments
from nanobot.agent.loop import AgentLoop
from nanobot.agent.recording import RecordedAnswer, RecordedCall, Recording, Replay, read, record
from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import Address, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.command.builtin import builtin_router
from nanobot.errors import NanobotError
from nanobot.providers import scripted
from nanobot.providers.scripted import ScriptedProvider, StepSource
from nanobot.results import Source, ToolResult
from nanobot.security.policy import Access
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore

BOUND = 120.0
QUESTION = "Where is the pond?"
CANARY = "sk-canary-90ab-quoted"


class AskingArguments(Struct):
    url: str
    note: str = ""


class AskingTool(Tool[AskingArguments]):
    """Asks the model about a page; of two calls side by side the first waits for the second."""

    name: ClassVar[str] = "read_and_ask"
    description = "Asks the model about a page."
    Arguments = AskingArguments
    access: Access = "public"

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        return ()

    def __init__(self) -> None:
        self._second = asyncio.Event()

    async def run(self, args: AskingArguments, context: ToolContext) -> ToolResult:
        if args.url.endswith("first"):
            async with asyncio.timeout(BOUND):
                await self._second.wait()
        assert context.ask is not None
        said = await context.ask("Read.", args.url)
        source = context.sources.add(
            args.url, f"Page {args.url[-6:]}", read=True, text=f"It is {said}, at 4711 metres."
        )
        self._second.set()
        extras: dict[str, object] = {"odd": {1, 2}, "bad": "\ud83d"}
        return ToolResult(f"[{source.number}] {args.url}: {said}", sources=(source,), extras=extras, untrusted=True)


def call(place: str, note: str = "") -> scripted.Call:
    return scripted.Call("read_and_ask", {"url": f"https://example.com/{place}", "note": note})


async def recorded(path: Path, *steps: StepSource) -> tuple[TurnFinished, Recording]:
    """The end of a turn with these answers of the model, and what was written of it."""
    with record(path, QUESTION) as recorder:
        provider = recorder.provider(ScriptedProvider(steps))
        bus, store = MessageBus(), SessionStore(MemoryDatabase())
        services = AgentServices(
            bus, store, provider, ContextBuilder(), builtin_router(), {AskingTool.name: AskingTool}
        )
        loop = AgentLoop(services)
        recorder.begin(bus, loop.registry, provider.info, TurnLimits())
        result = await asked(loop)
        recorder.end(result)
    return result, read(path)


async def asked(loop: AgentLoop) -> TurnFinished:
    async with asyncio.timeout(BOUND):
        result = await loop.process(
            InboundMessage(Address("terminal", "local"), Sender("local", role="owner"), QUESTION)
        )
        await loop.aclose()
    return result


async def replayed(turn: Recording) -> tuple[TurnFinished, list[str]]:
    replay = Replay(turn)
    result = await asked(replay.loop)
    return result, replay.differences(result)


def numbered(sources: tuple[Source, ...]) -> list[tuple[int, str]]:
    return [(source.number, source.url) for source in sources]


async def test_requests_of_tools_are_left_out_and_sources_keep_their_numbers(tmp_path: Path) -> None:
    both = (call("first"), call("second"))
    # The height stands in the page alone, not in the result; the check of the citation needs the page again.
    answer = "The pond lies at 4711 metres [2], or is shallow [1]."
    result, recording = await recorded(tmp_path / "t.jsonl", both, "shallow", "deep", answer)
    assert numbered(result.sources) == [(2, "https://example.com/first"), (1, "https://example.com/second")]
    assert sum(isinstance(one, RecordedAnswer) for one in recording.lines) == 2
    again, differences = await replayed(recording)
    assert (again.text, numbered(again.sources), differences) == (answer, numbered(result.sources), [])


async def test_a_number_beyond_all_bounds_in_a_call_leaves_a_recording_that_can_be_read(tmp_path: Path) -> None:
    endless = scripted.Call("read_and_ask", '{"url": "https://example.com/first", "note": 1e999}')
    result, recording = await recorded(tmp_path / "t.jsonl", endless, "Nothing was read.")
    again, differences = await replayed(recording)
    assert (again.text, differences) == (result.text, [])


async def test_a_call_too_deep_to_be_written_down_spoils_the_recording_and_not_the_turn(tmp_path: Path) -> None:
    nested: object = "deep"
    for _ in range(5_000):
        nested = [nested]
    with (
        pytest.raises(NanobotError, match=r"not whole: .*too deep"),
        record(tmp_path / "t.jsonl", QUESTION) as recorder,
    ):
        recorder.lines.append(RecordedAnswer(failure={"text": nested}))


async def test_a_secret_inside_the_json_of_a_call_is_hidden_and_the_json_stays_whole(tmp_path: Path) -> None:
    quoted = f'see "https://example.com/?token=abcdefgh" and {CANARY} \ud83d\u2028\x85'
    result, recording = await recorded(tmp_path / "t.jsonl", call("second", quoted), "deep", "It is deep [1].")
    text = (tmp_path / "t.jsonl").read_text(encoding="utf-8")
    assert not [part for part in (CANARY, "canary-90ab", "abcdefgh") if part in text]
    answers = [line for line in recording.lines if isinstance(line, RecordedAnswer)]
    calls = [line for line in recording.lines if isinstance(line, RecordedCall)]
    assert answers[0].message is not None
    assert answers[0].message.calls[0].error == ""
    noted = parse_arguments(calls[0].call)[0]["note"]
    assert noted == 'see "https://example.com/?token=[secret]" and [secret] \u2028\x85'
    again, differences = await replayed(recording)
    assert (again.text, differences) == (result.text, [])
