"""Runs a recorded turn again through the same loop without a network: model and tools answer from the file."""

import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from functools import partial

from nanobot.agent.cassette import Answer, Call, Cassette, End, RecordedTool
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.recording import within
from nanobot.agent.services import AgentServices
from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.agent.tools.registry import ToolFactory
from nanobot.bus.events import TurnFinished
from nanobot.bus.queue import MemoryBus
from nanobot.command.builtin import builtin_router
from nanobot.command.router import Command
from nanobot.errors import ProviderError
from nanobot.messages import Completed, Delta, TextDelta
from nanobot.providers.base import ProviderInfo, Request, ToolSpec
from nanobot.results import Source, SourceBook, ToolResult, error_result
from nanobot.security.policy import Access
from nanobot.session.memory import MemorySessionStore
from nanobot.session.store import SessionStore
from nanobot.utils.text import shorten


class Replay:
    """An agent that can repeat one recorded turn. `differences` tells afterwards what was not as recorded."""

    def __init__(self, tape: Cassette) -> None:
        self.bus = MemoryBus()
        self._end = tape.end
        self._answers = _AnswerDeck(tape)
        self._calls = _CallDeck(tape)
        self._store = MemorySessionStore()
        self._router = builtin_router()
        factories: dict[str, ToolFactory] = {
            tool.spec.name: partial(ReplayTool, tool, self._calls, self._answers) for tool in tape.head.tools
        }
        provider = ReplayProvider(tape.head.provider, self._answers)
        services = AgentServices(self.bus, self._store, provider, ContextBuilder(), self._router, factories)
        self.loop = AgentLoop(services, limits=tape.head.limits)
        self.provider_info = provider.info

    @property
    def sessions(self) -> SessionStore:
        return self._store

    @property
    def commands(self) -> tuple[Command, ...]:
        return self._router.commands()

    def differences(self, result: TurnFinished) -> list[str]:
        """Sentences on what came out otherwise than recorded, the cause before its effects; none where all is equal."""
        found = [*self._calls.missing, *self._answers.missing]
        if not found:
            found = [*self._calls.left(), *self._answers.left()]
        return [*found, *_compare(self._end, result)]


class ReplayProvider:
    """Gives the recorded answers in their order, one per request; those that a call asked for go to that call alone."""

    def __init__(self, info: ProviderInfo, answers: "_AnswerDeck") -> None:
        self._info = info
        self._answers = answers

    @property
    def info(self) -> ProviderInfo:
        return self._info

    async def stream(self, request: Request) -> AsyncIterator[Delta]:  # noqa: ARG002 - the order alone decides
        answer = self._answers.take()
        if answer.failure is not None:
            if answer.failure.partial:
                yield TextDelta(answer.failure.partial)
            raise answer.failure.error()
        if answer.message is not None:
            if answer.message.text:
                yield TextDelta(answer.message.text)
            yield Completed(answer.message)

    async def aclose(self) -> None:
        return None


class ReplayTool(ToolLike):
    """Answers the recorded calls of one tool, found by their arguments.

    A call that asked the model asks again, as often as it did, so that the turn counts what it cost.
    """

    def __init__(self, tool: RecordedTool, calls: "_CallDeck", answers: "_AnswerDeck") -> None:
        self._tool = tool
        self._calls = calls
        self._answers = answers

    @property
    def name(self) -> str:
        return self._tool.spec.name

    @property
    def exclusive(self) -> bool:
        return self._tool.exclusive

    @property
    def access(self) -> Access:
        return self._tool.access

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        """As far as the arguments tell, so that what was refused is refused again. Nothing is sent anywhere."""
        return ToolLike.addresses(self, arguments, context) if self.name == "web_fetch" else ()

    @property
    def idempotent(self) -> bool:
        return True

    @property
    def lock(self) -> str:
        return self._tool.lock

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._tool.aliases

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:  # noqa: ARG002
        return self._calls.offline(self.name, arguments)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        call = self._calls.take(self.name, arguments)
        if call is None:
            return error_result("failed", "The recording holds no such call.")
        context = context or ToolContext()
        token = within.set(call.id)
        try:
            for _ in range(self._answers.count(call.id)):
                if context.ask is not None:
                    with suppress(ProviderError):
                        await context.ask("", "")
        finally:
            within.reset(token)
        self._calls.note(call, context.sources)
        return call.result


class _AnswerDeck:
    """The answers not given yet, by who asked."""

    def __init__(self, tape: Cassette) -> None:
        self.missing: list[str] = []
        self._waiting: defaultdict[str, deque[Answer]] = defaultdict(deque)
        for answer in tape.answers:
            self._waiting[answer.within].append(answer)

    def count(self, identity: str) -> int:
        """How many answers wait for a call."""
        return len(self._waiting[identity])

    def take(self) -> Answer:
        """The next answer for whoever asks. Raises `ProviderError` where the recording has none."""
        waiting = self._waiting[within.get()]
        if not waiting:
            self.missing.append("The turn asked the model once more than was recorded.")
            raise ProviderError("bad_request", "the recording holds no further answer")
        return waiting.popleft()

    def left(self) -> list[str]:
        """What the turn itself did not ask for. The requests inside a tool belong to its recorded result."""
        count = len(self._waiting[""])
        return [f"The turn ended before {count} recorded answer{'s' * (count != 1)} of the model."] if count else []


class _CallDeck:
    """The calls not repeated yet, by tool and arguments, and every source of the turn under its number."""

    def __init__(self, tape: Cassette) -> None:
        self.missing: list[str] = []
        self._waiting: defaultdict[str, deque[Call]] = defaultdict(deque)
        self._sources: dict[int, Source] = {}
        for call in tape.calls:
            self._waiting[_key(call.name, call.arguments)].append(call)
            for noted in call.noted:
                self._sources[noted.source.number] = noted.source

    def take(self, name: str, arguments: dict[str, object]) -> Call | None:
        waiting = self._waiting[_key(name, arguments)]
        if waiting:
            return waiting.popleft()
        self.missing.append(f"The recording holds no call {shorten(_key(name, arguments), 200)}.")
        return None

    def offline(self, name: str, arguments: Mapping[str, object]) -> bool:
        """Whether the next of these calls needed no network when it was recorded."""
        waiting = self._waiting.get(_key(name, arguments))
        return waiting[0].offline if waiting else False

    def note(self, call: Call, book: SourceBook) -> None:
        """Put the sources of a call into the book under the numbers that they had, also where calls ran side by side.

        A book counts upwards, so the sources with lower numbers go in before; their own calls complete them.
        """
        for number in range(1, max((noted.source.number for noted in call.noted), default=0) + 1):
            if number in self._sources:
                book.add(self._sources[number].url)
        for noted in call.noted:
            source = noted.source
            book.add(source.url, source.title, retrieved_at=source.retrieved_at, read=source.read, text=noted.text)

    def left(self) -> list[str]:
        keys = [key for key, waiting in self._waiting.items() if waiting]
        return [f"The recorded call {shorten(key, 200)} was not made." for key in keys]


def _key(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name} {json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False)}"


def _compare(end: End, result: TurnFinished) -> list[str]:
    found = []
    if end.outcome != result.outcome:
        found.append(f"The turn ended as {result.outcome!r}; recorded is {end.outcome!r}.")
    if end.text.strip() != result.text.strip():
        found.append("The answer differs from the recorded one.")
    if _shown(end.sources) != _shown(result.sources):
        found.append("The sources differ from the recorded ones.")
    return found


def _shown(sources: tuple[Source, ...]) -> list[tuple[int, str, str, bool]]:
    return [(source.number, source.url, source.title, source.read) for source in sources]
