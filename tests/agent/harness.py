"""An agent in a box: the real loop, bus, store and runner around a scripted model and small tools."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.chats.services import AgentServices, SearchUsage, SwitchModel, nothing
from nanobot.agent.context import ContextBuilder
from nanobot.agent.loop import AgentLoop
from nanobot.agent.tools.base import Tool, ToolContext, ToolLike
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.turn import KeepResult, TurnLimits
from nanobot.bus.events import Address, InboundMessage, MessageBus, OutboundMessage, Sender, TurnFinished
from nanobot.command.builtin import builtin_router
from nanobot.command.settings import ChatSettings
from nanobot.config.schema import BudgetConfig, Config, PriceConfig
from nanobot.messages import Message, Role
from nanobot.money.budget import Budget
from nanobot.providers.base import LLMProvider
from nanobot.providers.retry import USUAL, Tuning
from nanobot.providers.scripted import ScriptedProvider, StepSource
from nanobot.results import ToolResult
from nanobot.security.policy import Access, Verdict, digest
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.session.store import SessionStore
from tests.fakes.waiting import until

HERE = Address("terminal", "me")


class QueryArgs(Struct):
    query: str = ""
    url: str = ""


class FakeTool(Tool[QueryArgs]):
    """A tool that keeps its calls and answers with `answer`; `gate` holds it until it is set, `held` until `open`."""

    name = "fake"
    description = "A tool for tests.\nSecond line."
    Arguments = QueryArgs
    own_words = True

    def __init__(
        self,
        name: str = "web_search",
        answer: Callable[[QueryArgs], ToolResult] = lambda args: ToolResult(f"found {args.query}{args.url}"),
        *,
        exclusive: bool = False,
        access: Access = "public",
        gate: asyncio.Event | None = None,
        held: bool = False,
        stubborn: bool = False,
    ) -> None:
        self.name = name  # type: ignore[misc]  # a name per instance, for tests alone
        self._answer = answer
        self.exclusive = exclusive
        self.access = access
        self._gate = gate or (asyncio.Event() if held else None)
        self._stubborn = stubborn
        self.calls: list[QueryArgs] = []
        self.private: list[bool] = []
        self.running = 0
        self.most = 0
        self.started = asyncio.Event()

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        return ()

    async def run(self, args: QueryArgs, context: ToolContext) -> ToolResult:
        self.calls.append(args)
        self.private.append(context.privacy)
        self.running += 1
        self.most = max(self.most, self.running)
        self.started.set()
        try:
            await context.progress(f"at work on {args.query}")
            await self._wait()
            return self._answer(args)
        finally:
            self.running -= 1

    def open(self) -> None:
        """Let held calls finish."""
        if self._gate is not None:
            self._gate.set()

    async def _wait(self) -> None:
        while self._gate is not None and not self._gate.is_set():
            try:
                await self._gate.wait()
            except asyncio.CancelledError:
                if not self._stubborn:
                    raise


E = TypeVar("E")


@dataclass
class Box:
    """A running agent. `events` is everything that went to the terminal, in order."""

    loop: AgentLoop
    bus: MessageBus
    store: SessionStore
    model: LLMProvider
    events: list[OutboundMessage] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def provider(self) -> ScriptedProvider:
        """The scripted model, which keeps its requests."""
        assert isinstance(self.model, ScriptedProvider)
        return self.model

    async def ask(
        self, text: str, address: Address = HERE, timeout: float = 120, *, revisable: bool = False
    ) -> TurnFinished:
        """Send a message and wait for the end of its turn and for its events."""
        async with asyncio.timeout(timeout):
            finished = await self.loop.process(replace(message(text, address), revisable=revisable))
            if address.channel == HERE.channel and not text.startswith("/"):
                await self.until(lambda: any(item.event is finished for item in self.events))
            return finished

    async def say(self, text: str, address: Address = HERE) -> None:
        """Send a message over the bus and wait for nothing."""
        await self.bus.publish_inbound(message(text, address))

    async def until(self, true: Callable[[], bool], timeout: float = 120) -> None:
        async with asyncio.timeout(timeout), self.changed:
            await self.changed.wait_for(true)

    async def waiting(self, count: int, address: Address = HERE) -> None:
        """Wait until so many messages of a chat wait for its turn."""
        await until(lambda: len(self.loop._chat(address.key).inbox) >= count)

    def of(self, kind: type[E]) -> list[E]:
        return [item.event for item in self.events if isinstance(item.event, kind)]

    async def history(self, address: Address = HERE) -> tuple[Message, ...]:
        return await self.store.history((await self.store.current(address.key)).id)

    async def watch(self) -> None:
        async for item in self.bus.subscribe(HERE.channel):
            async with self.changed:
                self.events.append(item)
                self.changed.notify_all()


async def run_tool(
    tools: ToolRegistry, name: str, arguments: dict[str, object], context: ToolContext | None = None
) -> ToolResult:
    """Run a tool as if its call had been allowed."""
    tool = tools.get(name)
    verdict = Verdict("allow", digest(tool.name if tool else name, arguments))
    return await tools.execute(name, arguments, verdict, context)


def message(text: str, address: Address = HERE) -> InboundMessage:
    return InboundMessage(address, Sender("1", "Ann", "owner"), text, direct=True)


def prompt_of(context: ContextBuilder, role: Role = "owner", folder: str | None = "") -> str:
    """The system prompt of a turn."""
    return context.system(context.read(role=role, folder=folder), own=folder == "")


@asynccontextmanager
async def agent(
    model: LLMProvider | Sequence[StepSource],
    *tools: ToolLike,
    limits: TurnLimits | None = None,
    settings: Tuning = USUAL,
    workspace: Path | None = None,
    store: SessionStore | None = None,
    factories: Mapping[str, Callable[[], ToolLike]] | None = None,
    switch_model: SwitchModel | None = None,
    search_usage: SearchUsage | None = None,
    quiet: float = 60,
    concurrency: int = 32,
    chats: ChatSettings | None = None,
    caps: BudgetConfig | None = None,
    keep_result: KeepResult | None = None,
    doubted: Callable[[Iterable[Path]], frozenset[Path]] = lambda _: frozenset(),
    project: tuple[Path, ...] = (),
) -> AsyncIterator[Box]:
    """`model` may be the steps of a scripted one. With `caps` a million tokens of it cost 1 USD."""
    provider = ScriptedProvider(model) if isinstance(model, Sequence) else model
    bus, kept = MessageBus(), store or SessionStore(MemoryDatabase())
    context = ContextBuilder(workspace, zone=ZoneInfo("Europe/Paris"), doubted=doubted, project=project)
    ledger = Ledger(kept.database)
    config = Config(budget=caps or BudgetConfig(), prices={"scripted": PriceConfig(1, 1)})
    budget = Budget(config, ledger, context.midnight) if caps is not None else None
    made: dict[str, Callable[[], ToolLike]] = {tool.name: (lambda tool=tool: tool) for tool in tools}  # type: ignore[misc]
    services = AgentServices(
        bus,
        kept,
        provider,
        context,
        builtin_router(),
        {**made, **(factories or {})},
        switch_model,
        search_usage or nothing,
        chats=chats or ChatSettings(),
        budget=lambda _: budget,
        keep_result=keep_result,
    )
    box = Box(
        AgentLoop(services, limits=limits, settings=settings, quiet=quiet, concurrency=concurrency), bus, kept, provider
    )
    tasks = [asyncio.create_task(box.watch()), asyncio.create_task(box.loop.run())]
    await asyncio.sleep(0)
    try:
        yield box
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=120)
        await kept.aclose()
