"""Records a turn at its two seams with the world, the language model and the tools, and runs it again from the file.

The file has one JSON object a line: a `Head`, then the answers of the model to the turn and what each call came to, in
the order in which they ended, and the end. Every text has passed the scrubber of the logs before it is written.
"""

import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec import Struct, field

from nanobot import __version__, jsonval
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.history import parse_arguments
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.base import SpecifiedTool, ToolContext, ToolLike
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import MessageBus, OutboundMessage, Outcome, ToolFinished, TurnFinished
from nanobot.command.builtin import builtin_router
from nanobot.errors import NanobotError, ProviderError, UsageError
from nanobot.messages import AssistantMessage, Completed, Delta, TextDelta, ToolCall
from nanobot.providers.base import LLMProvider, ProviderInfo, Request, ToolSpec, WrappedProvider, nested
from nanobot.results import Source, SourceBook, ToolResult, error_result
from nanobot.security.policy import Access
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from nanobot.utils.logs import scrub
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, _, _n

#: Of the lines. It changes when a reader of the old lines would misread the new ones.
FORMAT = 3


class Head(Struct, frozen=True, tag_field="type", tag="recording"):
    """What the turn began with: `nanobot` is the version that recorded it, `context` what came through the pipe,
    `tools` what the model was told of each and its other names."""

    format: int
    nanobot: str
    recorded_at: datetime
    question: str
    context: str
    provider: ProviderInfo
    limits: TurnLimits
    tools: tuple[tuple[ToolSpec, tuple[str, ...]], ...]


class RecordedAnswer(Struct, frozen=True, tag_field="type", tag="answer"):
    """What the model gave for one request: a message, or else `failure`, the fields and text of a `ProviderError`."""

    message: AssistantMessage | None = None
    failure: dict[str, object] = field(default_factory=dict)

    def error(self) -> ProviderError:
        error = ProviderError("protocol", str(self.failure.get("text", "")))
        vars(error).update({name: value for name, value in self.failure.items() if name in vars(error)})
        return error


class RecordedCall(Struct, frozen=True, tag_field="type", tag="call"):
    """One call of a tool and what came of it, also where it was refused."""

    call: ToolCall
    result: ToolResult


class RecordedEnd(Struct, frozen=True, tag_field="type", tag="end"):
    """How the turn ended, as the person saw it, and what each source of it says, by its number."""

    outcome: Outcome
    text: str
    error: str = ""
    sources: tuple[Source, ...] = ()
    texts: dict[int, str] = field(default_factory=dict)


Line = Head | RecordedAnswer | RecordedCall | RecordedEnd


class Recording(Struct, frozen=True):
    """A whole recording; `lines` are those between the first and the last."""

    head: Head
    lines: tuple[Line, ...]
    end: RecordedEnd


@contextmanager
def record(path: Path, question: str, context: str = "") -> Iterator["Recorder"]:
    """A recorder of one turn, into a new file that only its owner can read; without any line it is taken away again.

    Raises `UsageError` for a command, which is no turn, and where there is a file already, and `NanobotError` after a
    turn that is not written down whole.
    """
    if builtin_router().match(question) is not None:
        raise UsageError(_("--record writes down a turn of the agent; a command is none. Ask a question with it."))
    try:
        file = path.open("x", encoding="utf-8")
        path.chmod(0o600)
    except FileExistsError as error:
        text = _("{path} is there already; --record writes a new file. Name another one.", path=path)
        raise UsageError(text) from error
    except OSError as error:
        text = _("The recording {path} cannot be written: {reason}.", path=path, reason=error.strerror)
        raise UsageError(text) from error
    recorder = Recorder(question, context)
    try:
        yield recorder
    finally:
        problem = _written(file, recorder.lines)
        if not recorder.lines:
            path.unlink()
    if problem:
        whole = N_("The recording {file} is not whole: {problem}. The answer itself is complete.")
        raise NanobotError(_(whole, file=path, problem=problem))


def _written(file: TextIO, lines: Sequence[Line]) -> str:
    """Write the lines of a recording; why that could not be done, if so."""
    try:
        with file:
            for line in lines:
                plain = msgspec.to_builtins(line, enc_hook=lambda odd: scrub(str(odd)))
                file.write(f"{json.dumps(_clean(plain), ensure_ascii=False)}\n")
    except OSError as error:
        return error.strerror or str(error)
    except RecursionError:
        return _("what was called is nested too deep for a line of JSON")
    return ""


class Recorder:
    """Notes one turn as `lines`: `provider` wraps the model, `begin` notes the first line and sees the calls of the
    tools, and `end` notes the last."""

    def __init__(self, question: str, context: str) -> None:
        self._question, self._context = question, context
        self._book = SourceBook()
        self.lines: list[Line] = []

    def provider(self, inner: LLMProvider) -> LLMProvider:
        return RecordingProvider(inner, self)

    def begin(self, bus: MessageBus, registry: ToolRegistry, info: ProviderInfo, limits: TurnLimits) -> None:
        """Write down what the turn starts from, and from now on what the calls of it come to."""
        offered = [tool for tool in map(registry.get, registry.names) if tool is not None]
        tools = tuple((tool.spec, tool.aliases) for tool in offered)
        now = datetime.now(UTC)
        self.lines.append(Head(FORMAT, __version__, now, self._question, self._context, info, limits, tools))
        run = registry.run

        async def with_book(tool: ToolLike, arguments: dict[str, object], context: ToolContext | None) -> ToolResult:
            self._book = context.sources if context is not None else self._book
            return await run(tool, arguments, context)

        registry.run = with_book
        bus.watch(self._see)

    def _see(self, message: OutboundMessage) -> None:
        if isinstance(message.event, ToolFinished):
            self.lines.append(RecordedCall(message.event.call, message.event.result))

    def end(self, result: TurnFinished) -> None:
        texts = {source.number: self._book.text(source.number) for source in self._book.all}
        self.lines.append(RecordedEnd(result.outcome, result.text, result.error, result.sources, texts))


class RecordingProvider(WrappedProvider):
    """The same provider; what it answers to the turn itself is written down before it is passed on, and not what tools
    and helpers ask, whose results hold it."""

    def __init__(self, inner: LLMProvider, recorder: Recorder) -> None:
        super().__init__(inner)
        self._lines = recorder.lines
        self._session = ""

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        self._session = self._session or request.session
        own = request.session == self._session != ""
        try:
            async with nested(self.inner.stream(request)) as deltas:
                async for delta in deltas:
                    if own and isinstance(delta, Completed):
                        self._lines.append(RecordedAnswer(delta.message))
                    yield delta
        except ProviderError as error:
            if own:
                self._lines.append(RecordedAnswer(failure={**vars(error), "text": str(error)}))
            raise


def _clean(value: object) -> object:
    """The same JSON value with every text scrubbed, those inside texts of JSON as well.

    What only the provider of the recording understands (`replay`) is left out: nobody can tell what it holds.
    """
    if isinstance(value, str):
        return scrub(value.encode("utf-8", "ignore").decode())
    if isinstance(value, float) and not isfinite(value):  # a model wrote 1e999, which is no JSON for the reader
        return None
    if isinstance(value, Mapping):
        made = {str(_clean(str(key))): _clean(item) for key, item in value.items()}
        if value.get("type") in ("thinking", "tool_call"):
            made["replay"] = ""
        if value.get("type") == "tool_call":
            with suppress(ValueError, RecursionError):  # arguments that are JSON stay JSON
                made["arguments"] = json.dumps(_clean(json.loads(str(value["arguments"]))), ensure_ascii=False)
        return made
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value


def read(path: Path) -> Recording:
    """The recording in a file. Raises `UsageError` that names the line which cannot be used."""
    unread = N_("The recording {path} cannot be read: {reason}.")
    try:
        # Texts in a line may hold separators of their own (U+2028), so only the line feed ends one.
        texts = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else _("it is no text")
        raise UsageError(_(unread, path=path, reason=why)) from error
    first = jsonval.obj(jsonval.parse(texts[0]))
    found = jsonval.integer(first.get("format"))
    if found not in (0, FORMAT):  # refused before its lines are judged by rules that are not its own
        text = N_(
            "{path}: nanobot {version} recorded this in format {found}, and this one reads {ours}; record it again."
        )
        version = _clean(str(first.get("nanobot", "?")))
        raise UsageError(_(text, path=path, version=version, found=found, ours=FORMAT))
    head, *lines = [_line(path, number, text) for number, text in enumerate(texts, 1)]
    if not isinstance(head, Head):
        text = N_("{place}: a recording begins with a line of the type 'recording', which this one is not.")
        raise UsageError(_(text, place=f"{path}:1"))
    if not lines or not isinstance(end := lines.pop(), RecordedEnd) or end.outcome == "cancelled":
        text = N_("{place}: the recorded turn broke off here, or was stopped before its end. Record it again.")
        raise UsageError(_(text, place=f"{path}:{len(texts)}"))
    return Recording(head, tuple(lines), end)


def _line(path: Path, number: int, text: str) -> Line:
    try:
        line: Line = msgspec.json.decode(text, type=Head | RecordedAnswer | RecordedCall | RecordedEnd)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path}:{number}: {error}.") from error
    return line


class Replay:
    """An agent that can repeat one recorded turn, and its own model: it gives the recorded answers in their order, one
    per request. `differences` tells afterwards what was not as recorded.

    `answers` and `calls`, by id and arguments, are those not given yet; `missing` says what was asked for and is not in
    the recording.
    """

    def __init__(self, recording: Recording) -> None:
        head = recording.head
        self.end = recording.end
        self.missing: list[str] = []
        self.answers = deque(line for line in recording.lines if isinstance(line, RecordedAnswer))
        self.calls: defaultdict[str, deque[ToolResult]] = defaultdict(deque)
        for line in recording.lines:
            if isinstance(line, RecordedCall):
                self.calls[_key(line.call.id, parse_arguments(line.call)[0])].append(line.result)
        self.bus = MessageBus()
        self.sessions: SessionStore = SessionStore(MemoryDatabase())
        self.info = self.provider_info = head.provider
        router = builtin_router()
        self.commands = router.commands()
        tools = {spec.name: partial(ReplayTool, spec, aliases, self) for spec, aliases in head.tools}
        services = AgentServices(self.bus, self.sessions, self, ContextBuilder(), router, tools)
        self.loop = AgentLoop(services, limits=head.limits)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:  # noqa: ARG002 - the order alone decides
        if not self.answers:
            self.missing.append(_("The turn asked the model once more than was recorded."))
            raise ProviderError("bad_request", _("the recording holds no further answer"))
        answer = self.answers.popleft()
        if text := answer.message.text if answer.message else answer.error().partial:
            yield TextDelta(text)
        if answer.message is None:
            raise answer.error()
        yield Completed(answer.message)

    async def aclose(self) -> None:
        return None

    def differences(self, result: TurnFinished) -> list[str]:
        """Sentences on what came out otherwise than recorded, the cause before its effects; none where all is equal."""
        found = list(self.missing)
        if not found and self.answers:
            text = _n(
                "The turn ended before {number} recorded answer of the model.",
                "The turn ended before {number} recorded answers of the model.",
                len(self.answers),
            )
            found.append(text)
        if self.end.outcome != result.outcome:
            ended, recorded = repr(result.outcome), repr(self.end.outcome)
            found.append(_("The turn ended as {outcome}; recorded is {recorded}.", outcome=ended, recorded=recorded))
        if self.end.text.strip() != result.text.strip():
            found.append(_("The answer differs from the recorded one."))
        if _cited(self.end.sources) != _cited(result.sources):
            found.append(_("The sources differ from the recorded ones."))
        return found


class ReplayTool(SpecifiedTool):
    """Answers the recorded calls of one tool. It reaches nothing, so that nobody judges its calls again."""

    access: Access = "public"
    local = True

    def __init__(self, spec: ToolSpec, aliases: tuple[str, ...], replay: Replay) -> None:
        super().__init__(spec)
        self.aliases = aliases
        self._replay = replay

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        context = context or ToolContext()
        if not (waiting := self._replay.calls[_key(context.call_id, arguments)]):
            said = f"{self.name} {json.dumps(arguments, ensure_ascii=False)}"
            self._replay.missing.append(_("The recording holds no call {call}.", call=shorten(said, 200)))
            return error_result("failed", _("The recording holds no such call."))
        result = waiting.popleft()
        for source in result.sources:  # under the number that it had, also where calls ran side by side
            if source.number:  # a file has none
                context.sources.restore(source, self._replay.end.texts.get(source.number, ""))
        return result


def _key(call_id: str, arguments: Mapping[str, object]) -> str:
    return f"{call_id} {json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False)}"


def _cited(sources: tuple[Source, ...]) -> list[tuple[int, str, str, bool]]:
    return [(source.number, source.url, source.title, source.read) for source in sources]
