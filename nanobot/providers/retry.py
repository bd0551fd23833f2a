"""Asking again where that may help, and then the next model."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta, StepRetried
from nanobot.providers.base import LLMProvider, ProviderInfo, ReasoningEffort, Request, nested
from nanobot.utils.translation import _


class RetryPolicy(Struct, frozen=True):
    """`tries` counts the requests to one model. A pause is `base`·2ⁿ ± `jitter`, at most `cap`; a server's own wish
    goes before it. A wish longer than `longest` is not slept through: the error goes on with its time. In seconds."""

    tries: int = 3
    base: float = 0.5
    cap: float = 8.0
    jitter: float = 0.25
    longest: float = 60.0


class Tuning(Struct, frozen=True):
    """What the requests to one model say in place of the agent's usual settings; None keeps those.

    With `own_effort` the reasoning effort is this one even where it is None.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    own_effort: bool = False

    def applied(self, request: Request) -> Request:
        return replace(
            request,
            max_tokens=request.max_tokens if self.max_tokens is None else self.max_tokens,
            temperature=request.temperature if self.temperature is None else self.temperature,
            reasoning_effort=self.reasoning_effort if self.own_effort else request.reasoning_effort,
        )


USUAL = Tuning()
#: Ends of an answer that may be one in another model's words.
SAID_ALL = frozenset({"stop", "tools", "other"})


def _empty(info: ProviderInfo) -> ProviderError:
    text = _("the model returned an empty answer")
    return ProviderError("protocol", text, provider=info.name, detail=text)


class RetryProvider:
    """Asks `models` in order, each again where that may help, until one answers. `info` is of the last that did.

    One that says nothing is asked once more, and its answer counts where no other model is left. Once text was
    streamed, a model is asked again at most once. A `StepRetried` voids the text before it. The first model's error, if
    it had one, is raised when all have failed, and at once where the conversation is too large. How long a request may
    take with its repeats is for the caller to say.
    """

    def __init__(
        self,
        models: Sequence[tuple[LLMProvider, Tuning]],
        policy: RetryPolicy | None = None,
        *,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._models = tuple(models)
        #: Of the model that answered last.
        self.info = self._models[0][0].info
        self._policy = policy or RetryPolicy()
        self._chance = chance

    async def aclose(self) -> None:
        for one in self._models:
            await one[0].aclose()

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        number, attempt, restarts, first = 0, 1, 0, None
        while True:
            provider, tuning = self._models[number]
            streamed, used, last = False, None, number + 1 == len(self._models)
            try:
                async with nested(provider.stream(request if tuning == USUAL else tuning.applied(request))) as deltas:
                    async for delta in deltas:
                        if not isinstance(delta, Completed):
                            streamed = True
                        elif delta.message.empty and delta.message.finish in SAID_ALL and not last:
                            used = delta.message.usage
                            break
                        else:
                            self.info = provider.info
                        yield delta
                if used is None:
                    return
                wait, error = self._policy.base if attempt == 1 else None, _empty(provider.info)
            except ProviderError as failed:
                error, restarts = failed, restarts + streamed
                wait = self._wait(error, attempt, restarts)
            if wait is not None:
                attempt += 1
                voided = StepRetried(error.brief, wait, provider.info.name, used)
            else:
                if error.kind == "overflow" or last:
                    raise first or error from (error if first else None)
                first = first or (error if used is None else None)
                number, attempt, restarts = number + 1, 1, 0
                following = self._models[number][0].info
                why, asked = error.brief.rstrip(".。"), f"{following.name}/{following.model}"
                reason = _("{why}. Now asking {model}.", why=why, model=asked)
                voided = StepRetried(reason, 0.0, following.name, used)
            yield voided
            await asyncio.sleep(voided.wait)

    def _wait(self, error: ProviderError, attempt: int, restarts: int) -> float | None:
        """Seconds until the next request to the same model, or None where there is to be none."""
        policy = self._policy
        if not error.retryable or attempt >= policy.tries or restarts > 1:
            return None
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= policy.longest else None
        pause = min(policy.cap, policy.base * 2.0 ** (attempt - 1))
        return float(pause * (1 + policy.jitter * (2 * self._chance() - 1)))
