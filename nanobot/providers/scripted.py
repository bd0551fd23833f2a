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
from typing import Literal

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


def actions_of(step: Step) -> tuple[Action, ...]:
    """A step in its long form."""
    if isinstance(step, str):
        return (Say(step),)
    return step if isinstance(step, tuple) else (step,)


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
        self._info = ProviderInfo(
            "scripted", model, chosen_because="a script plays the model", capabilities=capabilities or Capabilities()
        )
        self._asked = asyncio.Condition()
        self.requests: list[Request] = []
        self.active = 0
        self.closed = False

    @property
    def info(self) -> ProviderInfo:
        return self._info

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
        async with self._asked:
            self._asked.notify_all()
        answer = _Answer(self._info.model, self._usage, len(self.requests))
        self.active += 1
        try:
            for action in self._next(request):
                async for delta in answer.play(action):
                    yield delta
            yield Completed(answer.message(), request_id=f"scripted-{answer.number}")
        finally:
            self.active -= 1

    async def aclose(self) -> None:
        self.closed = True

    def _next(self, request: Request) -> tuple[Action, ...]:
        source = self._steps.pop(0) if self._steps else self._after
        if source is None:
            raise ProviderError("bad_request", "The script has no step left for this request.", provider="scripted")
        return actions_of(source(request) if callable(source) else source)


async def _gate(action: Wait) -> None:
    try:
        async with asyncio.timeout(action.seconds):
            await action.gate.wait()
    except TimeoutError as error:
        raise ProviderError("timeout", "The gate of the script stayed shut.", provider="scripted") from error


class _Answer:
    """One answer while it is played."""

    def __init__(self, model: str, usage: Usage, number: int) -> None:
        self.number = number
        self._model = model
        self._usage = usage
        self._finish: Finish | Literal[""] = ""
        self._parts: list[AssistantPart] = []

    async def play(self, action: Action) -> AsyncIterator[Delta]:
        match action:
            case Say():
                self._parts.append(Text(action.text))
                for piece in pieces(action.text, action.size):
                    yield TextDelta(piece)
                    await asyncio.sleep(0)
            case Think():
                self._parts.append(Thinking(action.text, action.replay, action.origin))
                yield ThinkingDelta(action.text)
            case Call():
                call = self._call(action)
                slot = sum(isinstance(part, ToolCall) for part in self._parts)
                self._parts.append(call)
                yield ToolCallDelta(slot, call.id, call.name, call.arguments)
            case Pause():
                await asyncio.sleep(action.seconds)
            case Wait():
                await _gate(action)
            case Fail():
                action.error.partial = action.error.partial or self._text()
                raise action.error
            case Retry():
                self._parts.clear()
                yield StepRetried(action.reason, provider="scripted")
            case End():
                self._finish = action.finish or ""
                self._usage = action.usage or self._usage

    def message(self) -> AssistantMessage:
        called = any(isinstance(part, ToolCall) for part in self._parts)
        finish: Finish = self._finish or ("tools" if called else "stop")
        return AssistantMessage(tuple(self._parts), finish, self._model, self._usage)

    def _text(self) -> str:
        return "".join(part.text for part in self._parts if isinstance(part, Text))

    def _call(self, action: Call) -> ToolCall:
        arguments = action.arguments
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        number = 1 + sum(isinstance(part, ToolCall) for part in self._parts)
        return ToolCall(action.id or f"call_{self.number}_{number}", action.name, raw, action.error)
