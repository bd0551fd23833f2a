"""Records a turn at its two seams with the world, the language model and the tools, and runs it again from the file.

The file has one JSON object a line: a `Head`, then the answers of the model and the calls of tools in the order in
which they ended, and the end. Every text has passed the scrubber of the logs before it is written.
"""

import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from itertools import count
from math import isfinite
from pathlib import Path
from typing import TextIO

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot import __version__, jsonval
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.base import SpecifiedTool, ToolContext, ToolLike
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.turn import TurnLimits
from nanobot.bus.events import MessageBus, Outcome, TurnFinished
from nanobot.command.builtin import builtin_router
from nanobot.errors import NanobotError, ProviderError, UsageError
from nanobot.messages import AssistantMessage, Completed, Delta, TextDelta
from nanobot.providers.base import LLMProvider, ProviderInfo, Request, ToolSpec, WrappedProvider, nested
from nanobot.results import Source, SourceBook, ToolResult, error_result
from nanobot.security.policy import Access, Effect
from nanobot.session.pins import ToolWords
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from nanobot.utils.logs import scrub
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, _, _n

#: Of the lines. It grows when a reader of the old lines would misread the new ones.
FORMAT = 2
#: Bytes: no turn is recorded in more.
_MOST = 256_000_000
#: The id of the call that is running. Requests to the model are told apart by it, whatever they look like.
within: ContextVar[str] = ContextVar("within", default="")


class RecordedTool(Struct, frozen=True):
    """A tool as the model and the runner saw it."""

    name: str
    spec: ToolSpec
    aliases: tuple[str, ...] = ()
    exclusive: bool = False
    ordered: bool = False
    access: Access = "public"
    foreign_words: ToolWords | None = None


class Head(Struct, frozen=True, tag_field="type", tag="recording"):
    """What the turn began with. `nanobot` is the version that recorded it, `context` what came through the pipe."""

    format: int
    nanobot: str
    recorded_at: datetime
    question: str
    context: str
    provider: ProviderInfo
    limits: TurnLimits
    tools: tuple[RecordedTool, ...]


class RecordedAnswer(Struct, frozen=True, tag_field="type", tag="answer"):
    """What the model gave for one request: a message, or else `failure`, the fields and the text of a `ProviderError`.

    `within` is the id of the call of a tool that asked; it is empty for the requests of the turn itself.
    """

    message: AssistantMessage | None = None
    failure: dict[str, object] = field(default_factory=dict)
    within: str = ""

    def error(self) -> ProviderError:
        error = ProviderError("protocol", str(self.failure.get("text", "")))
        vars(error).update({name: value for name, value in self.failure.items() if name in vars(error)})
        return error


class RecordedCall(Struct, frozen=True, tag_field="type", tag="call"):
    """One call of a tool, under its canonical name, and what came of it.

    `id` is unique in the file; `offline` tells that the call needed no network.
    """

    id: str
    name: str
    arguments: dict[str, object]
    result: ToolResult
    offline: bool = False


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
    recorder = Recorder(file, question, context)
    try:
        yield recorder
    finally:
        # What could not be written is tried once more on closing, and fails again.
        with suppress(OSError):
            file.close()
        if not recorder.problem and path.stat().st_size == 0:
            path.unlink()
    if recorder.problem:
        whole = N_("The recording {file} is not whole: {problem}. The answer itself is complete.")
        raise NanobotError(_(whole, file=path, problem=recorder.problem))


class Recorder:
    """Writes one turn into a file: `provider` wraps the model, `begin` writes the first line and takes the calls of the
    tools, and `end` writes the last. When the disk refuses a line, the turn goes on, and `problem` says why the
    recording is not whole.
    """

    def __init__(self, file: TextIO, question: str, context: str) -> None:
        self._file, self._question, self._context = file, question, context
        self._numbers = count(1)
        self._book = SourceBook()
        self.problem = ""

    def provider(self, inner: LLMProvider) -> LLMProvider:
        return RecordingProvider(inner, self)

    def begin(
        self, registry: ToolRegistry, info: ProviderInfo, limits: TurnLimits, unread: Container[str] = ()
    ) -> None:
        """Write down what the turn starts from, and from now on what the tools of `registry` do.

        `unread` are the servers whose words do not count, so that those of others do not in a replay.
        """
        offered = [tool for tool in map(registry.get, registry.names) if tool is not None]
        tools = tuple(
            replace(one, foreign_words=one.foreign_words if one.foreign_words.server in unread else None)
            if one.foreign_words
            else one
            for one in (msgspec.convert(tool, RecordedTool, from_attributes=True) for tool in offered)
        )
        now = datetime.now(UTC)
        self.write(Head(FORMAT, __version__, now, self._question, self._context, info, limits, tools))
        registry.run = self.run

    async def run(self, tool: ToolLike, arguments: dict[str, object], context: ToolContext | None) -> ToolResult:
        """Run a call, and write down what came of it."""
        context = context or ToolContext()
        self._book = context.sources
        identity, offline = f"call {next(self._numbers)}", tool.needs_no_network(arguments, context)
        token = within.set(identity)
        try:
            result = await tool.call(arguments, context)
        finally:
            within.reset(token)
        self.write(RecordedCall(identity, tool.name, arguments, result, offline))
        return result

    def end(self, result: TurnFinished) -> None:
        texts = {source.number: self._book.text(source.number) for source in self._book.all}
        self.write(RecordedEnd(result.outcome, result.text, result.error, result.sources, texts))

    def write(self, line: Line) -> None:
        if self.problem:
            return
        try:
            plain = msgspec.to_builtins(line, enc_hook=lambda odd: scrub(str(odd)))
            told = json.dumps(_clean(plain), ensure_ascii=False)
            self._file.write(f"{told}\n")
            self._file.flush()
        except OSError as error:
            self.problem = error.strerror or str(error)
        except RecursionError:
            self.problem = _("what was called is nested too deep for a line of JSON")


class RecordingProvider(WrappedProvider):
    """The same provider; every answer and every failure is written down before it is passed on."""

    def __init__(self, inner: LLMProvider, recorder: Recorder) -> None:
        super().__init__(inner)
        self._write = recorder.write

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        try:
            async with nested(self.inner.stream(request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Completed):
                        self._write(RecordedAnswer(delta.message, within=within.get()))
                    yield delta
        except ProviderError as error:
            self._write(RecordedAnswer(failure={**vars(error), "text": str(error)}, within=within.get()))
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
        if path.stat().st_size > _MOST or not path.is_file():
            odd = _("it is larger than any recording") if path.is_file() else _("it is no file")
            raise UsageError(_(unread, path=path, reason=odd))
        # Texts in a line may hold separators of their own (U+2028), so only the line feed ends one.
        texts = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else _("it is no text")
        raise UsageError(_(unread, path=path, reason=why)) from error
    if texts == [""]:
        raise UsageError(_("{place}: the file is empty; it is no recording.", place=f"{path}:1"))
    first = jsonval.obj(jsonval.parse(texts[0]))
    found = jsonval.integer(first.get("format"))
    if found not in (0, FORMAT):  # refused before its lines are judged by rules that are not its own
        raise UsageError(_other_format(path, first, found))
    head, *lines = [_line(path, number, text) for number, text in enumerate(texts, 1)]
    if not isinstance(head, Head):
        text = N_("{place}: a recording begins with a line of the type 'recording', which this one is not.")
        raise UsageError(_(text, place=f"{path}:1"))
    if not lines or not isinstance(end := lines.pop(), RecordedEnd):
        text = N_("{place}: the recording breaks off here: the end of the turn is missing.")
        raise UsageError(_(text, place=f"{path}:{len(texts)}"))
    if end.outcome == "cancelled":
        text = N_("{place}: the recorded turn was stopped before its end. Record it again.")
        raise UsageError(_(text, place=f"{path}:{len(texts)}"))
    return Recording(head, tuple(lines), end)


def _other_format(path: Path, head: Mapping[str, object], found: int) -> str:
    newer = N_("{path}: nanobot {version} recorded this in format {found}, and this one reads {ours}; update nanobot.")
    older = N_("{path}: nanobot {version} recorded this in format {found}, and this one reads {ours}; record it again.")
    version = _clean(str(head.get("nanobot", "?")))
    return _(newer if found > FORMAT else older, path=path, version=version, found=found, ours=FORMAT)


def _line(path: Path, number: int, text: str) -> Line:
    try:
        line: Line = msgspec.json.decode(text, type=Head | RecordedAnswer | RecordedCall | RecordedEnd)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path}:{number}: {error}.") from error
    return line


class Replay:
    """An agent that can repeat one recorded turn, and its own model: it gives the recorded answers in their order,
    one per request, and those that a call asked for to that call alone. `differences` tells afterwards what was not as
    recorded.

    `answers` by who asked and `calls` by tool and arguments are those not given yet; `missing` says what was asked for
    and is not in the recording.
    """

    def __init__(self, recording: Recording) -> None:
        head = recording.head
        self.end = recording.end
        self.missing: list[str] = []
        self.answers: defaultdict[str, deque[RecordedAnswer]] = defaultdict(deque)
        self.calls: defaultdict[str, deque[RecordedCall]] = defaultdict(deque)
        for line in recording.lines:
            if isinstance(line, RecordedAnswer):
                self.answers[line.within].append(line)
            elif isinstance(line, RecordedCall):
                self.calls[_key(line.name, line.arguments)].append(line)
        self.bus = MessageBus()
        self.sessions: SessionStore = SessionStore(MemoryDatabase())
        self.info = self.provider_info = head.provider
        router = builtin_router()
        self.commands = router.commands()
        tools = {tool.name: partial(ReplayTool, tool, self) for tool in head.tools}
        services = AgentServices(self.bus, self.sessions, self, ContextBuilder(), router, tools)
        self.loop = AgentLoop(services, limits=head.limits)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:  # noqa: ARG002 - the order alone decides
        waiting = self.answers[within.get()]
        if not waiting:
            self.missing.append(_("The turn asked the model once more than was recorded."))
            raise ProviderError("bad_request", _("the recording holds no further answer"))
        answer = waiting.popleft()
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
        if not found:
            unmade = [shorten(key, 200) for key, left in self.calls.items() if left]
            found = [_("The recorded call {call} was not made.", call=key) for key in unmade]
        if not self.missing and (count := len(self.answers[""])):  # requests inside a tool belong to its result
            text = _n(
                "The turn ended before {number} recorded answer of the model.",
                "The turn ended before {number} recorded answers of the model.",
                count,
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
    """Answers the recorded calls of one tool, found by their arguments.

    A call that asked the model asks again, as often as it did, so that the turn counts what it cost.
    """

    idempotent = True

    def __init__(self, tool: RecordedTool, replay: Replay) -> None:
        super().__init__(tool.spec)
        self.aliases, self.access, self.foreign_words = tool.aliases, tool.access, tool.foreign_words
        self.exclusive, self.ordered = tool.exclusive, tool.ordered
        self._replay = replay

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        """As far as the arguments tell, so that what was refused is refused again. Nothing is sent anywhere."""
        return super().addresses(arguments, context) if self.name == "web_fetch" else ()

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        """None but telling what was recorded; a call that was refused is judged again."""
        if self.access != "public" and self._replay.calls.get(_key(self.name, arguments)):
            return (Effect("send"),)
        if self.access == "reads":  # what may be read is told by a disk, and by none here
            return (Effect("forbidden", self.name, reason=_("it was refused when this turn was recorded")),)
        return super().effects(arguments, context)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:  # noqa: ARG002
        """Whether the next of these calls needed no network when it was recorded."""
        waiting = self._replay.calls.get(_key(self.name, arguments))
        return bool(waiting and waiting[0].offline)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        key, context = _key(self.name, arguments), context or ToolContext()
        if not (waiting := self._replay.calls[key]):
            self._replay.missing.append(_("The recording holds no call {call}.", call=shorten(key, 200)))
            return error_result("failed", _("The recording holds no such call."))
        call = waiting.popleft()
        token = within.set(call.id)
        try:
            while self._replay.answers[call.id] and context.ask is not None:
                with suppress(ProviderError):
                    await context.ask("", "")
        finally:
            within.reset(token)
        for source in call.result.sources:  # under the number that it had, also where calls ran side by side
            if source.number:  # a file has none
                context.sources.restore(source, self._replay.end.texts.get(source.number, ""))
        return call.result


def _key(name: str, arguments: Mapping[str, object]) -> str:
    return f"{name} {json.dumps(dict(arguments), sort_keys=True, ensure_ascii=False)}"


def _cited(sources: tuple[Source, ...]) -> list[tuple[int, str, str, bool]]:
    return [(source.number, source.url, source.title, source.read) for source in sources]
