"""A whole agent for surfaces: the real loop, bus and session store around a scripted model."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.base import ToolLike
from nanobot.bus.events import TERMINAL, Address, MessageBus
from nanobot.command.builtin import builtin_router
from nanobot.command.router import Command
from nanobot.providers.base import ProviderInfo
from nanobot.providers.scripted import ScriptedProvider, Step
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore


@dataclass(frozen=True, slots=True)
class SmallAgent:
    """Meets `channels.base.Agent`."""

    loop: AgentLoop
    bus: MessageBus
    sessions: SessionStore
    commands: tuple[Command, ...]
    provider: ScriptedProvider
    address: Address = TERMINAL

    @property
    def provider_info(self) -> ProviderInfo:
        return self.provider.info


@asynccontextmanager
async def small_agent(
    steps: Iterable[Step], *tools: ToolLike, store: SessionStore | None = None
) -> AsyncIterator[SmallAgent]:
    """An agent whose model says `steps` and that has these tools."""
    bus, provider, router = MessageBus(), ScriptedProvider(steps), builtin_router()
    store = store or SessionStore(MemoryDatabase())
    factories = {tool.name: (lambda tool=tool: tool) for tool in tools}
    services = AgentServices(bus, store, provider, ContextBuilder(None), router, factories)
    loop = AgentLoop(services)
    try:
        yield SmallAgent(loop, bus, store, router.commands(), provider)
    finally:
        await loop.aclose()
        await store.aclose()
