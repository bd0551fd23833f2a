"""Runs a recorded turn again through the same loop without a network: model and tools answer from the file."""

import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial

from nanobot.agent.context import ContextBuilder
from nanobot.agent.control import AgentServices
from nanobot.agent.loop import AgentLoop
from nanobot.agent.recording import Answer, Call, End, RecordedTool, Recording, within
from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.bus.events import TurnFinished
from nanobot.bus.queue import MemoryBus
from nanobot.command.builtin import builtin_router
from nanobot.command.router import Command
from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta, TextDelta
from nanobot.providers.base import ProviderInfo, Request
from nanobot.results import Source, ToolResult, error_result
from nanobot.session.memory import MemorySessionStore
from nanobot.session.store import SessionStore
from nanobot.utils.text import shorten


class Replay:
    """An agent that can repeat one recorded turn. `differences` tells afterwards what was not as recorded.

    `answers` by who asked and `calls` by tool and arguments are those not given yet; `missing` says what was asked for
    and is not in the recording.
    """

    def __init__(self, recording: Recording) -> None:
        head = recording.head
        self.end: End = recording.end
        self.missing: list[str] = []
        self.answers: defaultdict[str, deque[Answer]] = defaultdict(deque)
        self.calls: defaultdict[str, deque[Call]] = defaultdict(deque)
        for line in recording.lines:
            if isinstance(line, Answer):
                self.answers[line.within].append(line)
            elif isinstance(line, Call):
                self.calls[_key(line.name, line.arguments)].append(line)
        self.bus = MemoryBus()
        self.sessions: SessionStore = MemorySessionStore()
        self.provider_info = head.provider
        router = builtin_router()
        self.commands: tuple[Command, ...] = router.commands()
        tools = {tool.name: partial(ReplayTool, tool, self) for tool in head.tools}
        provider = ReplayProvider(head.provider, self)
        services = AgentServices(self.bus, self.sessions, provider, ContextBuilder(), router, tools)
        self.loop = AgentLoop(services, limits=head.limits)

    def differences(self, result: TurnFinished) -> list[str]:
        """Sentences on what came out otherwise than recorded, the cause before its effects; none where all is equal."""
        found = list(self.missing)
        if not found:
            found = [f"The recorded call {shorten(key, 200)} was not made." for key, left in self.calls.items() if left]
        if not self.missing and (count := len(self.answers[""])):  # requests inside a tool belong to its result
            found.append(f"The turn ended before {count} recorded answer{'s' * (count != 1)} of the model.")
        if self.end.outcome != result.outcome:
            found.append(f"The turn ended as {result.outcome!r}; recorded is {self.end.outcome!r}.")
        if self.end.text.strip() != result.text.strip():
            found.append("The answer differs from the recorded one.")
        if _shown(self.end.sources) != _shown(result.sources):
            found.append("The sources differ from the recorded ones.")
        return found


class ReplayProvider:
    """Gives the recorded answers in their order, one per request; those that a call asked for go to that call alone."""

    def __init__(self, info: ProviderInfo, replay: Replay) -> None:
        self.info = info
        self._replay = replay

    async def stream(self, request: Request) -> AsyncIterator[Delta]:  # noqa: ARG002 - the order alone decides
        waiting = self._replay.answers[within.get()]
        if not waiting:
            self._replay.missing.append("The turn asked the model once more than was recorded.")
            raise ProviderError("bad_request", "the recording holds no further answer")
        answer = waiting.popleft()
        if text := answer.message.text if answer.message else answer.error().partial:
            yield TextDelta(text)
        if answer.message is None:
            raise answer.error()
        yield Completed(answer.message)

    async def aclose(self) -> None:
        return None


class ReplayTool:
    """Answers the recorded calls of one tool, found by their arguments.

    A call that asked the model asks again, as often as it did, so that the turn counts what it cost.
    """

    def __init__(self, tool: RecordedTool, replay: Replay) -> None:
        self.name, self.spec, self.aliases = tool.name, tool.spec, tool.aliases
        self.exclusive, self.lock, self.access, self.idempotent = tool.exclusive, tool.lock, tool.access, True
        self._replay = replay

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        """As far as the arguments tell, so that what was refused is refused again. Nothing is sent anywhere."""
        return ToolLike.addresses(self, arguments, context) if self.name == "web_fetch" else ()

    def asks(self, url: str) -> bool:  # noqa: ARG002
        return False

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:  # noqa: ARG002
        """Whether the next of these calls needed no network when it was recorded."""
        waiting = self._replay.calls.get(_key(self.name, arguments))
        return bool(waiting and waiting[0].offline)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        key, context = _key(self.name, arguments), context or ToolContext()
        if not (waiting := self._replay.calls[key]):
            self._replay.missing.append(f"The recording holds no call {shorten(key, 200)}.")
            return error_result("failed", "The recording holds no such call.")
        call = waiting.popleft()
        token = within.set(call.id)
        try:
            while self._replay.answers[call.id] and context.ask is not None:
                with suppress(ProviderError):
                    await context.ask("", "")
        finally:
            within.reset(token)
        for source in call.result.sources:  # under the number that it had, also where calls ran side by side
            context.sources.restore(source, self._replay.end.texts.get(source.number, ""))
        return call.result


def _key(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name} {json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False)}"


def _shown(sources: tuple[Source, ...]) -> list[tuple[int, str, str, bool]]:
    return [(source.number, source.url, source.title, source.read) for source in sources]
