import asyncio
import time
from collections.abc import Callable
from functools import partial
from random import random

import pytest

from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.messages import Completed, Delta, StepRetried, Text, TextDelta, UserMessage
from nanobot.providers.base import LLMProvider, Request, opened
from nanobot.providers.retry import USUAL, RetryPolicy, RetryProvider, Tuning
from nanobot.providers.scripted import Fail, Pause, Say, ScriptedProvider

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
    assert waits == {
        0.0: [0.005, 0.01, 0.01, 0.01],
        0.5: [0.01, 0.02, 0.02, 0.02],
        1.0: [0.015, 0.03, 0.03, 0.03],
    }


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


async def test_the_next_model_takes_over_and_voids_what_was_said() -> None:
    first, second = ScriptedProvider([(Say("half"), fail("quota"))]), ScriptedProvider(["ok"], model="other")
    provider = retrying(first, second)
    assert provider.info is first.info
    deltas = await play(provider)
    assert whole(deltas) == "ok"
    assert any(isinstance(delta, StepRetried) and "other" in delta.reason for delta in deltas)
    assert provider.info is second.info


async def test_the_first_error_is_told_when_all_fail_and_overflow_asks_nobody_else() -> None:
    provider = retrying(
        ScriptedProvider([fail("auth")]), ScriptedProvider([fail("server")]), policy=RetryPolicy(tries=1)
    )
    with pytest.raises(ProviderError, match="it is auth"):
        await play(provider)
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
