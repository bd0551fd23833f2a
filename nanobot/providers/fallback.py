"""A provider that turns to the next model when one cannot answer."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta, StepRetried
from nanobot.providers.base import LLMProvider, ProviderInfo, ReasoningEffort, Request, opened

#: What another model will not do better: the request is too long for it as well, or was refused as it is.
_FINAL = frozenset({"overflow"})


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the requests to one model say in place of the agent's usual settings; None keeps those.

    With `own_effort` the reasoning effort is this one even where it is None.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    own_effort: bool = False


USUAL = Tuning()


class TunedProvider:
    """A provider whose requests carry settings of their own."""

    def __init__(self, provider: LLMProvider, tuning: Tuning) -> None:
        self._provider = provider
        self._tuning = tuning

    @property
    def info(self) -> ProviderInfo:
        return self._provider.info

    async def aclose(self) -> None:
        await self._provider.aclose()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        tuning = self._tuning
        asked = replace(
            request,
            max_tokens=request.max_tokens if tuning.max_tokens is None else tuning.max_tokens,
            temperature=request.temperature if tuning.temperature is None else tuning.temperature,
            reasoning_effort=tuning.reasoning_effort if tuning.own_effort else request.reasoning_effort,
        )
        async with opened(self._provider.stream(asked)) as deltas:
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
                if error.kind in _FINAL or number == len(self._providers):
                    raise first from (None if first is error else error)
                following = self._providers[number].info
                reason = f"{error.brief.rstrip('.')}. Now asking {following.name}/{following.model}."
                yield StepRetried(reason, 0.0, following.name)
            else:
                return
