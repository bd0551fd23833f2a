"""What /status says: of one chat its model, its session, what it cost and its turn; and how the installation is."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from nanobot import __version__
from nanobot.agent.chats.chat import Chat
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextFile
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.bus.events import ChatState
from nanobot.command.tool_groups import missing_lines, tools_line
from nanobot.errors import NanobotError
from nanobot.messages import AssistantMessage
from nanobot.utils.text import duration, file_size
from nanobot.utils.translation import N_, _, _n, told

#: The tools that there are: the name, the first line of the description, and why one is missing.
Offered = Sequence[tuple[str, str, str]]
#: Seconds for what a search service says of its use.
SEARCH_SECONDS = 10.0
_PRIVATE = N_("Privacy: on, pages and speech go to no service but the model")


class StatusReport:
    """Writes what /status says. `facts` give one more line each, such as the health of a channel; an empty one is left
    out."""

    def __init__(self, services: AgentServices, registry: ToolRegistry) -> None:
        self._services = services
        self._registry = registry
        self._started = time.monotonic()
        self.facts: list[Callable[[], str]] = []

    async def text(self, chat: Chat, tools: Offered | None = None, *, ask: bool = False) -> str:
        """What is about one chat alone, which anybody there may know; with the tools all of it, for the owner. The
        search service is asked where `ask` is True; that may take a while."""
        lines = await self._of_chat(chat)
        if tools is not None:
            search = await self.searches(ask=ask)
            if not (search or ask):
                search = _("Search: asking the service…")
            lines += await self._of_all_chats(chat, tools, search)
        return "\n".join(lines)

    async def searches(self, *, ask: bool) -> str:
        """What searches have used up, as Markdown; what is known of it at once, or what the service says now."""
        if not ask:
            return self._services.search_known()
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                return await self._services.search_usage()
        except TimeoutError:
            return _("Search: the service did not answer in time.")
        except NanobotError as error:
            return _("Search: {error}", error=error)

    async def state(self, chat: Chat) -> ChatState:
        """The model and the session of a chat, in numbers."""
        store = self._services.store
        info, session = chat.provider.info, await store.current(chat.key)
        usage = await store.spent(session=session.id)
        newest = [one for one in await store.history(session.id, size=1) if isinstance(one, AssistantMessage)]
        used = next((one.usage.input for one in reversed(newest) if one.content and one.usage.input), 0)
        return ChatState(
            info.model or info.name,
            session.id,
            session.title,
            session.messages,
            used,
            chat.window or info.capabilities.window,
            usage.cost,
            bool(usage.unpriced),
        )

    async def _of_chat(self, chat: Chat) -> list[str]:
        """What is about one chat: its model, its session, what it cost, and its turn."""
        state, info = await self.state(chat), chat.provider.info
        usage = await self._services.store.spent(session=state.session)
        context = _("{used:,} of {window:,} tokens", used=state.used, window=state.window)
        if state.window:
            context = _("{context} ({share:.0%})", context=context, share=state.used / state.window)
        name = f"`{state.session}` {state.title}".rstrip()
        messages = _n("{number:,} message", "{number:,} messages", state.messages)
        running = _("nothing is running")
        if (turn := chat.turn) is not None:
            since = duration(turn.seconds)
            running = _("step {step} since {time}, {waits}", step=turn.steps, time=since, waits=told(turn.waits))
        up = duration(time.monotonic() - self._started)
        return [
            _("**nanobot {version}**, up {time}", version=__version__, time=up),
            _("- Model: {model}", model=f"{info.model or _('none')}{info.about}"),
            _("- Context: {context}", context=context),
            _("- Session: {session}, {messages}", session=name, messages=messages),
            _("- Spent: {spent}", spent=usage.text),
            _("- Turn: {state}", state=running),
        ]

    async def _of_all_chats(self, chat: Chat, tools: Offered, search: str) -> list[str]:
        """What is about the installation, which only its owner is to know."""
        services = self._services
        window = chat.window or chat.provider.info.capabilities.window
        midnight = services.context.midnight()
        today = await services.store.spent(midnight, midnight + timedelta(days=1))
        private = [_(_PRIVATE)] if await services.private(chat.key) else []
        facts = [*private, *filter(None, (fact() for fact in self.facts))]
        spending = services.budget(None)
        budget = [_("- Budget: {used}", used=await spending.overview())] if spending is not None else []
        files = await asyncio.to_thread(services.context.files, window)
        return [
            _("- Today, all chats: {spent}", spent=today.text),
            *budget,
            _("- Tools: {tools}", tools=tools_line(tools)),
            *(_("- Not offered: {what}", what=line) for line in missing_lines(self._registry.skipped)),
            *(_file_line(file) for file in files),
            *(f"- {fact}" for fact in facts),
            *(["", search] if search else []),
        ]


def _file_line(file: ContextFile) -> str:
    size = file_size(file.size)
    return _("- {file}: {size}, cut", file=file.name, size=size) if file.cut else f"- {file.name}: {size}"
