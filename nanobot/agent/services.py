"""What the agent loop is given to work with."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from msgspec import Struct, field

from nanobot.agent.context import ContextBuilder
from nanobot.agent.tools.registry import ToolFactory
from nanobot.bus.queue import MessageBus
from nanobot.command.dispatch import CommandRouter
from nanobot.providers.base import LLMProvider, ProviderInfo
from nanobot.session.store import SessionStore

SwitchModel = Callable[[str], Awaitable[LLMProvider]]
Privacy = Callable[[str], Awaitable[bool]]


class ModelChoices(Protocol):
    """The models that people chose for their chats, by address key; empty for the configured one."""

    async def get(self, key: str) -> str: ...

    async def keep(self, key: str, name: str) -> None: ...


SearchUsage = Callable[[], Awaitable[str]]


class AgentServices(Struct, frozen=True):
    """What the loop works with. `tools` are factories by tool name; one that raises `SkipTool` is left out.

    `switch_model` makes the provider for `/model name` and raises `UsageError`; `offered_models` lists what the
    service of a model offers; `search_usage` gives the search part of
    /status as Markdown, `search_known` what of it is known at once; `privacy` tells whether the chat of an address key
    has set it; `models` keeps what `/model` chose for a chat of a channel beyond a restart.
    """

    bus: MessageBus
    store: SessionStore
    provider: LLMProvider
    context: ContextBuilder
    router: CommandRouter
    tools: Mapping[str, ToolFactory] = field(default_factory=dict)
    switch_model: SwitchModel | None = None
    search_usage: SearchUsage | None = None
    privacy: Privacy | None = None
    search_known: Callable[[], str] | None = None
    models: ModelChoices | None = None
    offered_models: Callable[[ProviderInfo], Awaitable[tuple[str, ...]]] | None = None
