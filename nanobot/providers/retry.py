"""Providers around providers: one asks again, one asks in a tone of its own, one turns to the next model.

Asking again waits for what the server said about waiting, else for a growing pause; one deadline holds for everything.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta, StepRetried
from nanobot.providers.base import LLMProvider, ProviderInfo, ReasoningEffort, Request, WrappedProvider, opened


class RetryPolicy(Struct, frozen=True):
    """`tries` counts all requests. A pause is `base`·2ⁿ ± `jitter`, at most `cap`; a server's own wish goes before it.

    A wish longer than `longest` is not slept through: the error goes on with its time. `total` bounds the whole
    request with its repeats. All in seconds.
    """

    tries: int = 3
    base: float = 0.5
    cap: float = 8.0
    jitter: float = 0.25
    longest: float = 60.0
    total: float = 900.0


class RetryProvider(WrappedProvider):
    """`inner`, asked again where that may help.

    Once text was streamed, the request is sent again at most once, after a `StepRetried` that voids that text.
    """

    def __init__(
        self, inner: LLMProvider, policy: RetryPolicy | None = None, *, chance: Callable[[], float] = random.random
    ) -> None:
        super().__init__(inner)
        self._policy = policy or RetryPolicy()
        self._chance = chance

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        deadline = asyncio.get_running_loop().time() + self._policy.total
        restarts = 0
        for attempt in range(1, self._policy.tries + 1):
            streamed = False
            try:
                async with aclosing(_bounded(self.inner, request, deadline)) as deltas:
                    async for delta in deltas:
                        streamed = streamed or not isinstance(delta, Completed)
                        yield delta
            except ProviderError as error:
                restarts += streamed
                wait = self._wait(error, attempt, restarts)
                if wait is None or asyncio.get_running_loop().time() + wait >= deadline:
                    raise
                yield StepRetried(error.brief, wait, self.info.name)
            else:
                return
            await asyncio.sleep(wait)

    def _wait(self, error: ProviderError, attempt: int, restarts: int) -> float | None:
        """Seconds until the next request, or None where there is to be none."""
        policy = self._policy
        if not error.retryable or attempt >= policy.tries or restarts > 1:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= policy.longest else None
        pause = min(policy.cap, policy.base * 2.0 ** (attempt - 1))
        return float(pause * (1 + policy.jitter * (2 * self._chance() - 1)))


async def _bounded(inner: LLMProvider, request: Request, deadline: float) -> AsyncGenerator[Delta, None]:
    """The deltas of `inner`, none of which is waited for after `deadline` (of the loop's clock)."""
    alarm = _Alarm(deadline)
    try:
        async with opened(inner.stream(request)) as deltas:
            while not alarm.rung:
                try:
                    alarm.waiting = asyncio.current_task()
                    delta = await anext(deltas)
                    alarm.waiting = None
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError:
                    if not alarm.ours():
                        raise
                else:
                    yield delta
        name = inner.info.name
        what = "the answer was not complete when its time was over"
        advice = "Try again, or choose a faster model."
        raise ProviderError("timeout", f"{name}: {what}. {advice}", provider=name, detail=what)
    finally:
        alarm.stop()


class _Alarm:
    """Cancels the task that is waiting when the time is over: what `asyncio.timeout` does, set up once per request.

    A timeout around each delta costs a quarter of the time that a delta may cost.
    """

    def __init__(self, deadline: float) -> None:
        self.rung = False
        self.waiting: asyncio.Task[object] | None = None
        self._handle = asyncio.get_running_loop().call_at(deadline, self._ring)

    def _ring(self) -> None:
        self.rung = True
        if self.waiting:
            self.waiting.cancel()

    def ours(self) -> bool:
        """True when the cancellation that arrived is this alarm's alone; it is taken back then."""
        task, self.waiting = self.waiting, None
        return self.rung and task is not None and task.uncancel() == 0

    def stop(self) -> None:
        self._handle.cancel()


class Tuning(Struct, frozen=True):
    """What the requests to one model say in place of the agent's usual settings; None keeps those.

    With `own_effort` the reasoning effort is this one even where it is None.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    own_effort: bool = False


USUAL = Tuning()


class TunedProvider(WrappedProvider):
    """A provider whose requests carry settings of their own."""

    def __init__(self, provider: LLMProvider, tuning: Tuning) -> None:
        super().__init__(provider)
        self._tuning = tuning

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        tuning = self._tuning
        asked = replace(
            request,
            max_tokens=request.max_tokens if tuning.max_tokens is None else tuning.max_tokens,
            temperature=request.temperature if tuning.temperature is None else tuning.temperature,
            reasoning_effort=tuning.reasoning_effort if tuning.own_effort else request.reasoning_effort,
        )
        async with opened(self.inner.stream(asked)) as deltas:
            async for delta in deltas:
                yield delta


class FallbackProvider:
    """Asks `providers` in order until one answers. `info` is that of the one that answered last.

    A switch is announced by `StepRetried`, which voids what the failed model had streamed. The error of the first
    model is raised when all have failed.
    """

    def __init__(self, providers: Sequence[LLMProvider]) -> None:
        if not providers:
            raise ValueError("a fallback needs at least one provider")
        self._providers = tuple(providers)
        self._current = self._providers[0]

    @property
    def info(self) -> ProviderInfo:
        return self._current.info

    async def aclose(self) -> None:
        for provider in self._providers:
            await provider.aclose()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        first: ProviderError | None = None
        for number, provider in enumerate(self._providers, 1):
            try:
                async with opened(provider.stream(request)) as deltas:
                    async for delta in deltas:
                        if isinstance(delta, Completed):
                            self._current = provider
                        yield delta
            except ProviderError as error:
                first = first or error
                if error.kind == "overflow" or number == len(self._providers):
                    raise first from (None if first is error else error)
                following = self._providers[number].info
                reason = f"{error.brief.rstrip('.')}. Now asking {following.name}/{following.model}."
                yield StepRetried(reason, 0.0, following.name)
            else:
                return
