"""Records a turn at its two seams with the world: the language model and the tools."""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

from nanobot import __version__
from nanobot.agent import cassette
from nanobot.agent.cassette import Answer, Call, End, Failure, Head, Line, Noted, RecordedTool
from nanobot.agent.limits import TurnLimits
from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.agent.tools.registry import ToolFactory
from nanobot.bus.events import TurnFinished
from nanobot.errors import ProviderError, UsageError
from nanobot.messages import AssistantMessage, Completed, Delta
from nanobot.providers.base import LLMProvider, ProviderInfo, Request, ToolSpec, opened
from nanobot.results import Source, SourceBook, ToolResult
from nanobot.security.policy import Access

#: The id of the call that is running. Requests to the model are told apart by it, whatever they look like.
within: ContextVar[str] = ContextVar("within", default="")


class Recorder:
    """Writes one turn into a new file that only its owner can read. Raises `UsageError` where there is a file already.

    `provider` and `tools` wrap what the agent works with; `begin` writes the first line once they are known and
    `end` the last one. Call `close` at the end; a file without any line is taken away again. When the disk refuses a
    line, the turn goes on and `problem` says why the recording is not whole.
    """

    def __init__(self, path: Path, question: str, context: str = "") -> None:
        self._path = path
        self._question = question
        self._context = context
        self._tools: list[RecordedTool] = []
        self._ids = (f"call {number}" for number in count(1))
        self._empty = True
        self.problem = ""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8")
        except FileExistsError as error:
            raise UsageError(f"{path} is there already; --record writes a new file. Name another one.") from error
        except OSError as error:
            raise UsageError(f"The recording {path} cannot be written: {error.strerror}.") from error

    def provider(self, inner: LLMProvider) -> LLMProvider:
        return RecordingProvider(inner, self.write)

    def tools(self, factories: Mapping[str, ToolFactory]) -> dict[str, ToolFactory]:
        return {name: partial(self._make, factory) for name, factory in factories.items()}

    def begin(self, info: ProviderInfo, limits: TurnLimits) -> None:
        """Write down what the turn starts from; every tool has been made by now."""
        now, tools = datetime.now(UTC), tuple(self._tools)
        self.write(Head(cassette.FORMAT, __version__, now, self._question, self._context, info, limits, tools))

    def end(self, result: TurnFinished) -> None:
        self.write(End(result.outcome, result.text, result.error, result.sources))

    def write(self, line: Line) -> None:
        if self.problem:
            return
        self._empty = False
        try:
            self._file.write(f"{cassette.encode(line)}\n")
            self._file.flush()
        except OSError as error:
            self.problem = error.strerror or str(error)

    def close(self) -> None:
        # What could not be written is tried once more on closing, and fails again.
        with suppress(OSError):
            self._file.close()
        if self._empty:
            self._path.unlink(missing_ok=True)

    def _make(self, factory: ToolFactory) -> ToolLike:
        tool = factory()
        self._tools.append(RecordedTool(tool.spec, tool.aliases, tool.exclusive, tool.lock, tool.access))
        return RecordingTool(tool, self.write, self._ids)


class RecordingProvider:
    """The same provider; every answer and every failure is handed to `write` before it is passed on."""

    def __init__(self, inner: LLMProvider, write: Callable[[Line], None]) -> None:
        self._inner = inner
        self._write = write

    @property
    def info(self) -> ProviderInfo:
        return self._inner.info

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        try:
            async with opened(self._inner.stream(request)) as deltas:
                async for delta in deltas:
                    if isinstance(delta, Completed):
                        self._answered(delta.message)
                    yield delta
        except ProviderError as error:
            self._write(Answer(failure=Failure.of(error), within=within.get()))
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _answered(self, message: AssistantMessage) -> None:
        self._write(Answer(message, within=within.get()))


class RecordingTool:
    """The same tool; every call is handed to `write` with its result and what it put into the book of sources.

    `ids` gives each call its id in the recording.
    """

    def __init__(self, inner: ToolLike, write: Callable[[Line], None], ids: Iterator[str]) -> None:
        self._inner = inner
        self._write = write
        self._ids = ids

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def exclusive(self) -> bool:
        return self._inner.exclusive

    @property
    def access(self) -> Access:
        return self._inner.access

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        return self._inner.addresses(arguments, context)

    @property
    def idempotent(self) -> bool:
        return self._inner.idempotent

    @property
    def lock(self) -> str:
        return self._inner.lock

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._inner.aliases

    @property
    def spec(self) -> ToolSpec:
        return self._inner.spec

    def asks(self, url: str) -> bool:
        return self._inner.asks(url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        return self._inner.needs_no_network(arguments, context)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        context = context or ToolContext()
        book, identity = _NotedBook(context.sources), next(self._ids)
        offline = self._inner.needs_no_network(arguments, context)
        token = within.set(identity)
        try:
            result = await self._inner.call(arguments, replace(context, sources=book))
        finally:
            within.reset(token)
        self._write(Call(identity, self.name, arguments, result, book.noted(), offline))
        return result


class _NotedBook(SourceBook):
    """The turn's book of sources, with a list of what one call added to it."""

    def __init__(self, book: SourceBook) -> None:
        super().__init__()
        self._book = book
        self._said: dict[int, list[str]] = {}

    def add(
        self, url: str, title: str = "", *, retrieved_at: datetime | None = None, read: bool = False, text: str = ""
    ) -> Source:
        source = self._book.add(url, title, retrieved_at=retrieved_at, read=read, text=text)
        self._said.setdefault(source.number, []).append(text)
        return source

    def note(self, number: int, text: str) -> None:
        self._book.note(number, text)
        self._said.setdefault(number, []).append(text)

    def text(self, number: int) -> str:
        return self._book.text(number)

    def __getitem__(self, number: int) -> Source:
        return self._book[number]

    @property
    def all(self) -> tuple[Source, ...]:
        return self._book.all

    def noted(self) -> tuple[Noted, ...]:
        return tuple(
            Noted(self._book[number], "\n\n".join(filter(None, texts))) for number, texts in sorted(self._said.items())
        )
