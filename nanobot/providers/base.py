"""The seam to language models: one request in, a stream of deltas out."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext, suppress
from functools import cached_property
from typing import Literal, Protocol

from msgspec import Struct, field

from nanobot.messages import Delta, Message
from nanobot.utils.translation import _, listed, told

#: How a service that reads pages itself is asked to.
PageReading = Literal["", "messages", "gemini"]
#: Seconds given to a stream to close its connection.
CLOSE_SECONDS = 0.5
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ToolSpec(Struct, frozen=True, dict=True):
    """A tool as a model sees it. `schema` is the JSON Schema of the arguments."""

    name: str
    description: str
    schema: dict[str, object]

    @cached_property
    def text(self) -> str:
        """All that a model is told of it, for estimates."""
        return f"{self.name}{self.description}{self.schema}"


class Request(Struct, frozen=True):
    """One request. `system` is stable within a session; `tail` holds what changes (time, channel) and goes last.

    `max_tokens` limits the answer; None leaves it to the provider. `session` is a stable key for prompt caches.
    `tools` are sorted by name, so that the request's prefix stays the same byte for byte. `pages` are public addresses
    with their numbers, which the service is to read itself; only a model with `Capabilities.reads_pages` may be given
    some.
    """

    messages: tuple[Message, ...]
    system: str = ""
    tail: str = ""
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: ReasoningEffort | None = None
    session: str = ""
    pages: tuple[tuple[int, str], ...] = ()


class Capabilities(Struct, frozen=True):
    """What a model can do. `window` is its context in tokens.

    `searches`: its service searches the web by itself, because the owner wants that in every request.
    """

    tools: bool = True
    vision: bool = False
    pdf: bool = False
    window: int = 32_768
    language_model: bool = True
    reads_pages: PageReading = ""
    searches: bool = False


class ProviderInfo(Struct, frozen=True):
    """Who answers: vendor name, model name, where it is reached, and how this choice came about, in a few words.

    `local`: it runs on a machine of the owner's, so that asking it costs nothing.
    """

    name: str
    model: str
    base_url: str = ""
    chosen_because: str = ""
    local: bool = False
    capabilities: Capabilities = field(default_factory=Capabilities)

    @property
    def about(self) -> str:
        """What stands behind the name of the model: whose it is, unless both are called the same, and why this one."""
        said = listed(filter(None, (self.name if self.name != self.model else "", told(self.chosen_because))))
        return _("{name} ({about})", name="", about=said) if said else ""


class ModelOffer(Struct, frozen=True):
    """A model that a chat may use: what `/model` takes as its name, and `about`, a few words on what is known of it."""

    name: str
    about: str = ""
    kind: Literal["preset", "default", "service"] = "service"

    @property
    def line(self) -> str:
        """How it is offered."""
        return f"{self.name} · {self.about}" if self.about else self.name


class LLMProvider(Protocol):
    """A language model behind some wire.

    `stream` yields deltas and ends with exactly one `Completed`. It raises `ProviderError` and nothing else (besides
    cancellation). Closing the iterator closes the connection.
    """

    @property
    def info(self) -> ProviderInfo: ...

    def stream(self, request: Request) -> AsyncIterator[Delta]: ...

    async def aclose(self) -> None: ...


class WrappedProvider:
    """The base of a provider that does something about each request to `inner`, and is otherwise as that one."""

    def __init__(self, inner: LLMProvider) -> None:
        self.inner = inner

    @property
    def info(self) -> ProviderInfo:
        return self.inner.info

    async def aclose(self) -> None:
        await self.inner.aclose()


def nested(deltas: AsyncIterator[Delta]) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
    """A stream that is closed, with its connection, whatever way the block is left."""
    return aclosing(deltas) if isinstance(deltas, AsyncGenerator) else nullcontext(deltas)


@asynccontextmanager
async def opened(deltas: AsyncIterator[Delta]) -> AsyncIterator[AsyncIterator[Delta]]:
    """The same for who asks, with a limit to what closing may take; those on the way to the connection need none."""
    try:
        yield deltas
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS), nested(deltas):
                pass
