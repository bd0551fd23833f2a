import asyncio
import time
from collections.abc import Callable
from functools import partial
from random import random

import httpx
import pytest

from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.messages import Completed, Delta, StepRetried, Text, TextDelta, ToolCall, Usage, UserMessage
from nanobot.providers.base import LLMProvider, Request, opened
from nanobot.providers.retry import USUAL, RetryPolicy, RetryProvider, Tuning
from nanobot.providers.scripted import Call, End, Fail, Pause, Retry, Say, ScriptedProvider, Think, Wait
from tests.fakes.llm_server import LlmServer, Reply

ASK = Request((UserMessage((Text("hi"),)),))
QUICK = RetryPolicy(base=0.01, cap=0.02)


def fail(kind: ProviderErrorKind, retry_after: float | None = None) -> Fail:
    return Fail(ProviderError(kind, f"it is {kind}", retry_after=retry_after))


def retrying(*models: LLMProvider, policy: RetryPolicy = QUICK, chance: Callable[[], float] = random) -> RetryProvider:
    return RetryProvider([(model, USUAL) for model in models], policy, chance=chance)


async def play(provider: LLMProvider) -> list[Delta]:
    async with asyncio.timeout(120):
        return [delta async for delta in provider.stream(ASK)]


def whole(deltas: list[Delta]) -> str:
    """The text that a reader is left with after voided text is gone."""
    last = deltas[-1]
    assert isinstance(last, Completed)
    text = ""
    for delta in deltas:
        if isinstance(delta, StepRetried):
            text = ""
        elif isinstance(delta, TextDelta):
            text += delta.text
    assert text == last.message.text
    return text


async def test_a_failure_that_may_pass_is_tried_again() -> None:
    inner = ScriptedProvider([fail("overloaded"), fail("server"), "ok"])
    deltas = await play(retrying(inner))
    assert whole(deltas) == "ok"
    assert len([delta for delta in deltas if isinstance(delta, StepRetried)]) == 2
    assert len(inner.requests) == 3


@pytest.mark.parametrize("kind", ["auth", "quota", "overflow", "filtered", "not_found", "bad_request"])
async def test_a_failure_that_stays_is_not_repeated(kind: ProviderErrorKind) -> None:
    inner = ScriptedProvider([fail(kind), "never"])
    with pytest.raises(ProviderError, match=kind):
        await play(retrying(inner))
    assert len(inner.requests) == 1


async def test_the_servers_wish_is_waited_out() -> None:
    inner = ScriptedProvider([fail("rate_limit", 0.2), "ok"])
    begin = time.monotonic()
    deltas = await play(retrying(inner))
    assert time.monotonic() - begin >= 0.2
    assert [delta.wait for delta in deltas if isinstance(delta, StepRetried)] == [0.2]


async def test_a_wish_of_an_hour_is_reported_not_slept_through() -> None:
    inner = ScriptedProvider([fail("rate_limit", 3600.0), "never"])
    with pytest.raises(ProviderError) as caught:
        await play(retrying(inner))
    assert caught.value.retry_after == 3600.0
    assert len(inner.requests) == 1


async def test_pauses_grow_with_jitter_up_to_the_cap() -> None:
    policy = RetryPolicy(tries=5, base=0.01, cap=0.02, jitter=0.5)
    waits = {}
    for chance in (0.0, 0.5, 1.0):
        inner = ScriptedProvider([*[fail("server")] * 4, "ok"])
        deltas = await play(retrying(inner, policy=policy, chance=partial(float, chance)))
        waits[chance] = [round(delta.wait, 4) for delta in deltas if isinstance(delta, StepRetried)]
    assert waits == {0.0: [0.005, 0.01, 0.01, 0.01], 0.5: [0.01, 0.02, 0.02, 0.02], 1.0: [0.015, 0.03, 0.03, 0.03]}


async def test_text_that_was_streamed_is_voided_and_repeated_only_once() -> None:
    inner = ScriptedProvider([(Say("half"), fail("truncated")), "whole"])
    deltas = await play(retrying(inner))
    assert whole(deltas) == "whole"
    inner = ScriptedProvider([(Say("half"), fail("truncated")), (Say("half"), fail("truncated")), "never"])
    with pytest.raises(ProviderError) as caught:
        await play(retrying(inner))
    assert caught.value.partial == "half"
    assert len(inner.requests) == 2


async def test_cancelling_a_wrapped_stream_is_no_timeout() -> None:
    inner = ScriptedProvider([Pause(30.0)])
    task = asyncio.ensure_future(play(retrying(inner)))
    await inner.asked(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert inner.active == 0


async def test_leaving_a_wrapped_stream_closes_the_inner_one() -> None:
    inner = ScriptedProvider([Say("abc", size=1)])
    provider = retrying(inner)
    async with opened(provider.stream(ASK)) as deltas:
        async for _ in deltas:
            break
    assert inner.active == 0


@pytest.mark.parametrize("said", [[(Say("half"), fail("quota"))], [(Think("hm"), Say(" "))] * 2])
async def test_the_next_model_takes_over_and_voids_what_was_said(said: list[tuple[Say | Think | Fail, ...]]) -> None:
    first, second = ScriptedProvider([*said, "never"]), ScriptedProvider(["ok"], model="other")
    provider = retrying(first, second)
    assert provider.info is first.info
    deltas = await play(provider)
    assert whole(deltas) == "ok"
    assert any(isinstance(delta, StepRetried) and "other" in delta.reason for delta in deltas)
    assert provider.info is second.info
    assert len(first.requests) == len(said)


async def test_the_first_error_is_told_when_all_fail_and_overflow_asks_nobody_else() -> None:
    silent, once = ScriptedProvider([Say("")] * 2), RetryPolicy(tries=1, base=0.01)
    failing = [ScriptedProvider([fail(kind)]) for kind in ("auth", "server")]
    with pytest.raises(ProviderError, match="it is auth"):  # a model that says nothing has no error to tell
        await play(retrying(silent, *failing, policy=once))
    spare = ScriptedProvider(["never"])
    with pytest.raises(ProviderError, match="overflow"):
        await play(retrying(ScriptedProvider([fail("overflow")]), spare))
    assert not spare.requests


async def test_each_model_is_asked_again_before_the_next_one_and_in_its_own_tone() -> None:
    first = ScriptedProvider([fail("server"), fail("overloaded")])
    second = ScriptedProvider([fail("server"), "ok"], model="other")
    tuning = Tuning(max_tokens=7, own_effort=True)
    provider = RetryProvider([(first, USUAL), (second, tuning)], RetryPolicy(tries=2, base=0.01))
    async with asyncio.timeout(120):
        asked = Request(ASK.messages, max_tokens=99, temperature=0.5, reasoning_effort="high")
        assert [delta async for delta in provider.stream(asked)]
    assert first.requests == [asked, asked]
    assert second.requests == [Request(ASK.messages, max_tokens=7, temperature=0.5)] * 2


async def perform(provider: LLMProvider, request: Request = ASK) -> list[Delta]:
    return [delta async for delta in provider.stream(request)]


def completed(deltas: list[Delta]) -> Completed:
    last = deltas[-1]
    assert isinstance(last, Completed)
    return last


async def test_steps_are_played_in_order_and_requests_are_kept() -> None:
    provider = ScriptedProvider([(Think("hm"), Say("abcd", size=2)), Call("web_search", {"query": "x"}), "done"])
    first = await perform(provider)
    assert [delta.text for delta in first if isinstance(delta, TextDelta)] == ["ab", "cd"]
    assert completed(first).message.text == "abcd"
    second = completed(await perform(provider)).message
    assert second.finish == "tools"
    assert second.calls == (ToolCall("call_2_1", "web_search", '{"query": "x"}'),)
    assert completed(await perform(provider)).message.text == "done"
    assert provider.requests == [ASK, ASK, ASK]
    with pytest.raises(ProviderError, match="no step left"):
        await perform(provider)


async def test_failures_carry_what_was_said_and_retries_void_it() -> None:
    provider = ScriptedProvider([(Say("half"), Fail(ProviderError("truncated", "cut")))])
    with pytest.raises(ProviderError) as caught:
        await perform(provider)
    assert caught.value.partial == "half"
    provider.add((Say("half"), Retry(), Say("whole"), End("length", Usage(output=3))))
    deltas = await perform(provider)
    assert any(isinstance(delta, StepRetried) for delta in deltas)
    assert completed(deltas).message.text == "whole"
    assert completed(deltas).message.finish == "length"
    assert completed(deltas).message.usage == Usage(output=3)


async def test_a_step_may_depend_on_the_request_and_wait_for_a_gate() -> None:
    gate = asyncio.Event()
    provider = ScriptedProvider([(Wait(gate), Pause(0.0), Say("go"))], after=lambda asked: f"{len(asked.messages)}")
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        task = group.create_task(perform(provider))
        assert await provider.asked(1) == ASK
        assert not task.done()
        gate.set()
    assert completed(task.result()).message.text == "go"
    assert completed(await perform(provider)).message.text == "1"


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
