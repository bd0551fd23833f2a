import asyncio

import httpx
import pytest

from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta, StepRetried, Text, TextDelta, ToolCall, Usage, UserMessage
from nanobot.providers.base import LLMProvider, Request
from nanobot.providers.scripted import Call, End, Fail, Pause, Retry, Say, ScriptedProvider, Think, Wait
from tests.fakes.llm_server import LlmServer, Reply

ASK = Request((UserMessage((Text("hi"),)),))


async def play(provider: LLMProvider, request: Request = ASK) -> list[Delta]:
    return [delta async for delta in provider.stream(request)]


def completed(deltas: list[Delta]) -> Completed:
    last = deltas[-1]
    assert isinstance(last, Completed)
    return last


async def test_steps_are_played_in_order_and_requests_are_kept() -> None:
    provider = ScriptedProvider([(Think("hm"), Say("abcd", size=2)), Call("web_search", {"query": "x"}), "done"])
    first = await play(provider)
    assert [delta.text for delta in first if isinstance(delta, TextDelta)] == ["ab", "cd"]
    assert completed(first).message.text == "abcd"
    second = completed(await play(provider)).message
    assert second.finish == "tools"
    assert second.calls == (ToolCall("call_2_1", "web_search", '{"query": "x"}'),)
    assert completed(await play(provider)).message.text == "done"
    assert provider.requests == [ASK, ASK, ASK]
    with pytest.raises(ProviderError, match="no step left"):
        await play(provider)


async def test_failures_carry_what_was_said_and_retries_void_it() -> None:
    provider = ScriptedProvider([(Say("half"), Fail(ProviderError("truncated", "cut")))])
    with pytest.raises(ProviderError) as caught:
        await play(provider)
    assert caught.value.partial == "half"
    provider.add((Say("half"), Retry(), Say("whole"), End("length", Usage(output=3))))
    deltas = await play(provider)
    assert any(isinstance(delta, StepRetried) for delta in deltas)
    assert completed(deltas).message.text == "whole"
    assert completed(deltas).message.finish == "length"
    assert completed(deltas).message.usage == Usage(output=3)


async def test_a_step_may_depend_on_the_request_and_wait_for_a_gate() -> None:
    gate = asyncio.Event()
    provider = ScriptedProvider([(Wait(gate), Pause(0.0), Say("go"))], after=lambda asked: f"{len(asked.messages)}")
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        task = group.create_task(play(provider))
        assert await provider.asked(1) == ASK
        assert not task.done()
        gate.set()
    assert completed(task.result()).message.text == "go"
    assert completed(await play(provider)).message.text == "1"


async def test_the_fake_server_speaks_both_wires_and_its_faults() -> None:
    async with (
        LlmServer("hello", "hello", Reply("never", stop_after=1), after=Reply(status=503)) as server,
        httpx.AsyncClient(base_url=server.url, trust_env=False) as client,
    ):
        chat = (await client.post("/v1/chat/completions", json={"a": 1})).text
        assert '"content": "hello"' in chat
        assert chat.endswith("data: [DONE]\n\n")
        messages = (await client.post("/v1/messages", json={"a": 1})).text
        assert '"text": "hello"' in messages
        assert '"type": "message_stop"' in messages
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.post("/v1/messages", json={})
        assert (await client.post("/v1/messages", json={})).status_code == 503
    assert [request.wire for request in server.requests] == ["chat", "messages", "messages", "messages"]
    assert server.requests[0].raw == b'{"a":1}'
