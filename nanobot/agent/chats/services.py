"""What the agent works with: the parts that the program hands it."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from nanobot.agent.context import ContextBuilder
from nanobot.agent.tools.registry import ToolFactory
from nanobot.agent.turn import BudgetOf, KeepResult
from nanobot.bus.events import InboundMessage, MessageBus, TurnFinished
from nanobot.command.router import CommandRouter
from nanobot.command.settings import ChatSettings
from nanobot.messages import Role
from nanobot.providers.base import LLMProvider, ModelOffer, ProviderInfo
from nanobot.session.permissions import Permissions
from nanobot.session.store import SessionStore

if TYPE_CHECKING:
    from nanobot.agent.tools.commands.background import BackgroundTasks
    from nanobot.agent.work.background import BackgroundHelpers
    from nanobot.session.heard import Heard

SwitchModel = Callable[[str], Awaitable[LLMProvider]]
SearchUsage = Callable[[], Awaitable[str]]


async def nothing() -> str:
    """There is nothing to say."""
    return ""


class AgentServices(Struct, frozen=True):
    """What the agent works with. `tools` are factories by tool name; one that raises `SkipTool` is left out.

    `switch_model` makes the provider for `/model name` and raises `UsageError`; `offered_models` lists presets and what
    the service of a model offers, `model_facts` tells what is known of one; `search_usage` gives the search part of
    /status as Markdown, `search_known` what of it is known at once; `chats` keeps what people set for a chat, and what
    `/model` chose for one of a channel, unless the command line has `model_fixed` for all of them;
    `undo` brings back what the last change of files in a chat changed, and `forgets` tells what a person took away of
    what is noted of them.
    `permissions` keeps what people have allowed for good. `budget` is what may be spent.
    `tasks` are the commands in the background, where there are commands, and `tasks_folder` is where they are noted.
    `keep_result` keeps a result that is too long for a request where the model can page through it.
    `helpers` are those in the background, None where nothing of the kind is looked after.
    `remember` gives the few lines of a person's memory that fit what they say, besides files that the prompt shows;
    `skills` what the owner's model is told of the skills. `turn_ended` is told of each end, with the session.
    `heard` gives what reminders, watches and tasks have said in a chat since somebody spoke there, once.
    """

    bus: MessageBus
    store: SessionStore
    provider: LLMProvider
    context: ContextBuilder
    router: CommandRouter
    tools: Mapping[str, ToolFactory] = field(default_factory=dict)
    switch_model: SwitchModel | None = None
    search_usage: SearchUsage = nothing
    search_known: Callable[[], str] = lambda: ""
    chats: ChatSettings = field(default_factory=ChatSettings)
    model_fixed: bool = False
    offered_models: Callable[[ProviderInfo], Awaitable[tuple[ModelOffer, ...]]] | None = None
    model_facts: Callable[[ProviderInfo], str] = lambda _info: ""
    undo: Callable[[InboundMessage], Awaitable[str]] | None = None
    forgets: Callable[[str], Awaitable[Callable[[str, datetime], bool]]] | None = None
    keep_result: KeepResult | None = None
    permissions: Permissions = field(default_factory=Permissions)
    budget: BudgetOf = lambda _: None
    tasks: "BackgroundTasks | None" = None
    tasks_folder: Path | None = None
    helpers: "Callable[[], BackgroundHelpers | None]" = lambda: None
    remember: Callable[[InboundMessage, Role, frozenset[str]], str] = lambda *_: ""
    skills: Callable[[], Awaitable[str]] = nothing
    turn_ended: Callable[[InboundMessage, str, TurnFinished], None] | None = None
    heard: "Callable[[str], Awaitable[tuple[Heard, ...]]] | None" = None

    async def private(self, key: str) -> bool:
        """Whether a chat wants what it asks kept from services."""
        return await self.chats.get(key, "privacy") == "on"
