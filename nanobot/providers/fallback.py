"""A provider that turns to the next model when one cannot answer."""

from collections.abc import AsyncIterator, Sequence

from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta, StepRetried
from nanobot.providers.base import LLMProvider, ProviderInfo, Request, opened

#: What another model will not do better: the request is too long for it as well, or was refused as it is.
_FINAL = frozenset({"overflow"})


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
