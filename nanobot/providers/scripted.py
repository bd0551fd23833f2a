"""A deterministic provider: it says what a script tells it and keeps every request.

It is a whole `LLMProvider` for tests, demonstrations and documentation; nothing leaves the process. A script is a list
of steps, one per request. A step is a text, an action, a tuple of actions, or a function of the
request that gives one::

    provider = ScriptedProvider([
        Call("web_search", {"query": "python release"}),
        "Python 3.14 is out [1].",
        Fail(ProviderError("rate_limit", "slow down", retry_after=1)),
    ])
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable

from msgspec import Struct, field

from nanobot.errors import ProviderError
from nanobot.messages import (
    AssistantMessage,
    AssistantPart,
    Completed,
    Delta,
    Finish,
    StepRetried,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from nanobot.providers.base import Capabilities, ProviderInfo, Request


class Say(Struct, frozen=True):
    """Answer text, streamed in pieces of `size` characters (0: in one piece)."""

    text: str
    size: int = 0


class Think(Struct, frozen=True):
    """Reasoning text. `replay` and `origin` travel as in `messages.Thinking`."""

    text: str
    replay: str = ""
    origin: str = ""


class Call(Struct, frozen=True):
    """A tool call. `arguments` is an object, or raw text for JSON that is not right. An empty `id` is numbered."""

    name: str
    arguments: dict[str, object] | str = field(default_factory=dict)
    id: str = ""
    error: str = ""


class Pause(Struct, frozen=True):
    """Silence for so many seconds."""

    seconds: float


class Wait(Struct, frozen=True):
    """Silence until `gate` is set; after `seconds` the request fails with `timeout`."""

    gate: asyncio.Event
    seconds: float = 30.0


class Fail(Struct, frozen=True):
    """The request ends here with `error`."""

    error: ProviderError


class Retry(Struct, frozen=True):
    """Everything this step has said so far is void, as when a broken request is sent again."""

    reason: str = "scripted"


class End(Struct, frozen=True):
    """How the answer ends when it is neither `stop` nor `tools`, and what it cost."""

    finish: Finish | None = None
    usage: Usage | None = None


Action = Say | Think | Call | Pause | Wait | Fail | Retry | End
Step = str | Action | tuple[Action, ...]
StepSource = Step | Callable[[Request], Step]


def pieces(text: str, size: int) -> Iterable[str]:
    """`text` in pieces of `size` characters; 0 leaves it whole."""
    width = size or max(1, len(text))
    return (text[start : start + width] for start in range(0, len(text), width))


class ScriptedProvider:
    """Plays `steps`, one per request, then `after` for ever; without `after` a request too many is an error.

    `requests` keeps what was asked. `usage` is what each answer reports where its step names none.
    """

    def __init__(
        self,
        steps: Iterable[StepSource] = (),
        *,
        after: StepSource | None = None,
        model: str = "scripted",
        capabilities: Capabilities | None = None,
        usage: Usage | None = None,
    ) -> None:
        self._steps = list(steps)
        self._after = after
        self._usage = usage or Usage(input=100, output=10, requests=1)
        self.info = ProviderInfo(
            # English: for who writes the script
            "scripted",
            model,
            chosen_because="a script plays the model",
            capabilities=capabilities or Capabilities(),
        )
        self._asked = asyncio.Condition()
        self.requests: list[Request] = []
        self.active = 0
        self.closed = False

    @property
    def left(self) -> int:
        """Steps not played yet."""
        return len(self._steps)

    def add(self, *steps: StepSource) -> None:
        """Append steps to the script."""
        self._steps.extend(steps)

    async def asked(self, count: int, timeout: float = 5.0) -> Request:
        """Wait until `count` requests have come and return that request."""
        async with asyncio.timeout(timeout), self._asked:
            await self._asked.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        self.requests.append(request)
        number, parts, end = len(self.requests), list[AssistantPart](), End()
        async with self._asked:
            self._asked.notify_all()
        self.active += 1
        try:
            for action in self._next(request):
                end = action if isinstance(action, End) else end
                async for delta in _play(action, parts, number):
                    yield delta
            called = any(isinstance(part, ToolCall) for part in parts)
            finish: Finish = end.finish or ("tools" if called else "stop")
            message = AssistantMessage(tuple(parts), finish, self.info.model, end.usage or self._usage)
            yield Completed(message)
        finally:
            self.active -= 1

    async def aclose(self) -> None:
        self.closed = True

    def _next(self, request: Request) -> tuple[Action, ...]:
        source = self._steps.pop(0) if self._steps else self._after
        if source is None:
            # English: for who writes the script
            raise ProviderError("bad_request", "The script has no step left for this request.", provider="scripted")
        step = source(request) if callable(source) else source
        return (Say(step),) if isinstance(step, str) else step if isinstance(step, tuple) else (step,)


async def _play(action: Action, parts: list[AssistantPart], number: int) -> AsyncIterator[Delta]:
    """The deltas of one action of answer `number`, whose `parts` so far it continues."""
    match action:
        case Say():
            parts.append(Text(action.text))
            for piece in pieces(action.text, action.size):
                yield TextDelta(piece)
                await asyncio.sleep(0)
        case Think():
            parts.append(Thinking(action.text, action.replay, action.origin))
            yield ThinkingDelta(action.text)
        case Call():
            slot = sum(isinstance(part, ToolCall) for part in parts)
            given = action.arguments
            raw = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            call = ToolCall(action.id or f"call_{number}_{slot + 1}", action.name, raw, action.error)
            parts.append(call)
            yield ToolCallDelta(slot, call.id, call.name, call.arguments)
        case Pause():
            await asyncio.sleep(action.seconds)
        case Wait():
            try:
                async with asyncio.timeout(action.seconds):
                    await action.gate.wait()
            except TimeoutError as error:
                # English: for who writes the script
                raise ProviderError("timeout", "The gate of the script stayed shut.", provider="scripted") from error
        case Fail():
            said = "".join(part.text for part in parts if isinstance(part, Text))
            action.error.partial = action.error.partial or said
            raise action.error
        case Retry():
            parts.clear()
            yield StepRetried(action.reason, provider="scripted")
