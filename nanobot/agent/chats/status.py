"""What /status says: of one chat its model, its session, what it cost and its turn; and how the installation is."""

import asyncio
import time
from collections.abc import Callable, Sequence

from nanobot import __version__
from nanobot.agent.chats.chat import Chat
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.bus.events import ChatState
from nanobot.command.tool_groups import missing_lines, tools_line
from nanobot.errors import NanobotError
from nanobot.messages import AssistantMessage, Message
from nanobot.utils.text import counted, duration

#: The tools that there are: the name, the first line of the description, and why one is missing.
Offered = Sequence[tuple[str, str, str]]
#: Seconds for what a search service says of its use.
SEARCH_SECONDS = 10.0
_PRIVATE = "Privacy: on, pages and speech go to no service but the model"
_SEARCH_PENDING = "Search: asking the service…"


class StatusReport:
    """Writes what /status says. `facts` give one more line each, such as the health of a channel; an empty one is left
    out."""

    def __init__(self, services: AgentServices, registry: ToolRegistry) -> None:
        self._services = services
        self._registry = registry
        self._started = time.monotonic()
        self.facts: list[Callable[[], str]] = []

    async def text(self, chat: Chat) -> str:
        """What is about one chat alone, which anybody there may know."""
        return "\n".join(await self._of_chat(chat))

    async def full(self, chat: Chat, tools: Offered, *, ask: bool) -> str:
        """All of it, for the owner. The search service is asked where `ask` is True; that may take a while."""
        search = await self.searches(ask=ask)
        if not (search or ask) and self._services.search_usage is not None:
            search = _SEARCH_PENDING
        return "\n".join([*await self._of_chat(chat), *await self._of_all_chats(chat, tools, search)])

    async def searches(self, *, ask: bool) -> str:
        """What searches have used up, as Markdown; what is known of it at once, or what the service says now."""
        if not ask or self._services.search_usage is None:
            return self._services.search_known() if self._services.search_known is not None else ""
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                return await self._services.search_usage()
        except TimeoutError:
            return "Search: the service did not answer in time."
        except NanobotError as error:
            return f"Search: {error}"

    async def state(self, chat: Chat) -> ChatState:
        """The model and the session of a chat, in numbers."""
        store = self._services.store
        info, session = chat.provider.info, await store.current(chat.key)
        usage = await store.spent(session=session.id)
        used, window = _context_of(await store.history(session.id, size=1)), chat.window or info.capabilities.window
        return ChatState(
            info.model or info.name,
            session.id,
            session.title,
            session.messages,
            used,
            window,
            usage.cost,
            bool(usage.unpriced),
        )

    async def _of_chat(self, chat: Chat) -> list[str]:
        """What is about one chat: its model, its session, what it cost, and its turn."""
        state, info = await self.state(chat), chat.provider.info
        usage = await self._services.store.spent(session=state.session)
        share = f" ({state.used / state.window:.0%})" if state.window else ""
        title = f" {state.title}" if state.title else ""
        running = "nothing is running"
        if (turn := chat.turn) is not None:
            running = f"step {turn.steps} since {duration(turn.seconds)}, {turn.waits}"
        return [
            f"**nanobot {__version__}**, up {duration(time.monotonic() - self._started)}",
            f"- Model: {info.model or 'none'}{info.about}",
            f"- Context: {state.used:,} of {state.window:,} tokens{share}",
            f"- Session: `{state.session}`{title}, {counted(state.messages, 'message')}",
            f"- Spent: {usage.text}",
            f"- Turn: {running}",
        ]

    async def _of_all_chats(self, chat: Chat, tools: Offered, search: str) -> list[str]:
        """What is about the installation, which only its owner is to know."""
        services = self._services
        window = chat.window or chat.provider.info.capabilities.window
        today = await services.store.spent(services.context.midnight())
        private = [_PRIVATE] if await services.private(chat.key) else []
        facts = [*private, *filter(None, (fact() for fact in self.facts))]
        spending = services.budget(None)
        budget = [f"- Budget: {await spending.overview()}"] if spending is not None else []
        files = await asyncio.to_thread(services.context.files, window)
        return [
            f"- Today, all chats: {today.text}",
            *budget,
            f"- Tools: {tools_line(tools)}",
            *(f"- Not offered: {line}" for line in missing_lines(self._registry.skipped)),
            *(f"- {file.name}: {_size(file.size)}{', cut' if file.cut else ''}" for file in files),
            *(f"- {fact}" for fact in facts),
            *(["", search] if search else []),
        ]


def _context_of(messages: tuple[Message, ...]) -> int:
    """The tokens of the last request that was answered."""
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    return next((one.usage.input for one in reversed(answers) if one.content and one.usage.input), 0)


def _size(count: int) -> str:
    """Bytes such as `812 B` or `1.5 kB`."""
    return f"{count} B" if count < 1_000 else f"{count / 1_000:.1f} kB"
