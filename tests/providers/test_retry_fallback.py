import asyncio
import time
from functools import partial

import pytest

from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.messages import Completed, Delta, StepRetried, Text, TextDelta, UserMessage
from nanobot.providers.base import LLMProvider, Request, opened
from nanobot.providers.retry import FallbackProvider, RetryPolicy, RetryProvider
from nanobot.providers.scripted import Fail, Pause, Say, ScriptedProvider
from tests.fakes.patience import growing

ASK = Request((UserMessage((Text("hi"),)),))
QUICK = RetryPolicy(base=0.01, cap=0.02)


def fail(kind: ProviderErrorKind, retry_after: float | None = None) -> Fail:
    return Fail(ProviderError(kind, f"it is {kind}", retry_after=retry_after))


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
    deltas = await play(RetryProvider(inner, QUICK))
    assert whole(deltas) == "ok"
    assert len([delta for delta in deltas if isinstance(delta, StepRetried)]) == 2
    assert len(inner.requests) == 3


@pytest.mark.parametrize("kind", ["auth", "quota", "overflow", "filtered", "not_found", "bad_request"])
async def test_a_failure_that_stays_is_not_repeated(kind: ProviderErrorKind) -> None:
    inner = ScriptedProvider([fail(kind), "never"])
    with pytest.raises(ProviderError, match=kind):
        await play(RetryProvider(inner, QUICK))
    assert len(inner.requests) == 1


async def test_the_servers_wish_is_waited_out() -> None:
    inner = ScriptedProvider([fail("rate_limit", 0.2), "ok"])
    begin = time.monotonic()
    deltas = await play(RetryProvider(inner, QUICK))
    assert time.monotonic() - begin >= 0.2
    assert [delta.wait for delta in deltas if isinstance(delta, StepRetried)] == [0.2]


async def test_a_wish_of_an_hour_is_reported_not_slept_through() -> None:
    inner = ScriptedProvider([fail("rate_limit", 3600.0), "never"])
    with pytest.raises(ProviderError) as caught:
        await play(RetryProvider(inner, QUICK))
    assert caught.value.retry_after == 3600.0
    assert len(inner.requests) == 1


async def test_pauses_grow_with_jitter_up_to_the_cap() -> None:
    policy = RetryPolicy(tries=5, base=0.01, cap=0.02, jitter=0.5)
    waits = {}
    for chance in (0.0, 0.5, 1.0):
        inner = ScriptedProvider([*[fail("server")] * 4, "ok"])
        deltas = await play(RetryProvider(inner, policy, chance=partial(float, chance)))
        waits[chance] = [round(delta.wait, 4) for delta in deltas if isinstance(delta, StepRetried)]
    assert waits == {
        0.0: [0.005, 0.01, 0.01, 0.01],
        0.5: [0.01, 0.02, 0.02, 0.02],
        1.0: [0.015, 0.03, 0.03, 0.03],
    }


async def test_text_that_was_streamed_is_voided_and_repeated_only_once() -> None:
    inner = ScriptedProvider([(Say("half"), fail("truncated")), "whole"])
    deltas = await play(RetryProvider(inner, QUICK))
    assert whole(deltas) == "whole"
    inner = ScriptedProvider([(Say("half"), fail("truncated")), (Say("half"), fail("truncated")), "never"])
    with pytest.raises(ProviderError) as caught:
        await play(RetryProvider(inner, QUICK))
    assert caught.value.partial == "half"
    assert len(inner.requests) == 2


async def test_one_deadline_bounds_the_request_with_all_its_repeats() -> None:
    inner = ScriptedProvider([(Say("a"), Pause(30.0))])
    with pytest.raises(ProviderError) as caught:
        await play(RetryProvider(inner, RetryPolicy(total=0.2)))
    assert caught.value.kind == "timeout"
    assert inner.active == 0
    inner = ScriptedProvider([fail("rate_limit", 5.0), "never"])
    with pytest.raises(ProviderError, match="rate_limit"):
        await play(RetryProvider(inner, RetryPolicy(total=4.9)))


@growing(0.1, 1, 10)
async def test_the_deadline_counts_also_while_the_reader_is_busy(limit: float) -> None:
    provider = RetryProvider(ScriptedProvider([(Say("ab", 1), Pause(300))]), RetryPolicy(total=limit))
    async with asyncio.timeout(120), opened(provider.stream(ASK)) as deltas:
        await anext(deltas)
        await asyncio.sleep(1.5 * limit)
        with pytest.raises(ProviderError, match="time was over"):
            await anext(deltas)


async def test_cancelling_a_wrapped_stream_is_no_timeout() -> None:
    inner = ScriptedProvider([Pause(30.0)])
    task = asyncio.ensure_future(play(RetryProvider(inner, QUICK)))
    await inner.asked(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert inner.active == 0


async def test_leaving_a_wrapped_stream_closes_the_inner_one() -> None:
    inner = ScriptedProvider([Say("abc", size=1)])
    provider = FallbackProvider([RetryProvider(inner, QUICK)])
    async with opened(provider.stream(ASK)) as deltas:
        async for _ in deltas:
            break
    assert inner.active == 0


async def test_the_next_model_takes_over_and_voids_what_was_said() -> None:
    first, second = ScriptedProvider([(Say("half"), fail("quota"))]), ScriptedProvider(["ok"], model="other")
    provider = FallbackProvider([first, second])
    assert provider.info is first.info
    deltas = await play(provider)
    assert whole(deltas) == "ok"
    assert any(isinstance(delta, StepRetried) and "other" in delta.reason for delta in deltas)
    assert provider.info is second.info


async def test_the_first_error_is_told_when_all_fail_and_overflow_asks_nobody_else() -> None:
    provider = FallbackProvider([ScriptedProvider([fail("auth")]), ScriptedProvider([fail("server")])])
    with pytest.raises(ProviderError, match="it is auth"):
        await play(provider)
    spare = ScriptedProvider(["never"])
    with pytest.raises(ProviderError, match="overflow"):
        await play(FallbackProvider([ScriptedProvider([fail("overflow")]), spare]))
    assert not spare.requests
