"""What the agent works with, what it keeps of each chat, and what commands may ask of it there."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from nanobot import __version__
from nanobot.agent import explanations
from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.context import ContextBuilder
from nanobot.agent.history import recap, seen_by
from nanobot.agent.memory.compaction import take_back
from nanobot.agent.questions import Questions
from nanobot.agent.tools.registry import ToolFactory, ToolRegistry
from nanobot.agent.turn import BudgetOf, KeepResult, Publisher, Turn
from nanobot.bus.events import Address, ChatState, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.command.router import CommandRouter
from nanobot.command.settings import ChatSettings
from nanobot.command.tool_groups import tools_line
from nanobot.errors import NanobotError, StoreError, UsageError
from nanobot.messages import AssistantMessage, Citation, Message, Role
from nanobot.providers.base import LLMProvider, ModelOffer, ProviderInfo
from nanobot.security.trust import unwrap
from nanobot.session.ledger import Closing
from nanobot.session.permissions import Permissions
from nanobot.session.store import Branch, SessionInfo, SessionStore
from nanobot.utils.text import counted, duration

if TYPE_CHECKING:
    from nanobot.agent.tools.commands.background import BackgroundTasks
    from nanobot.agent.work.background import BackgroundHelpers
    from nanobot.library.session_search import FoundSessions
    from nanobot.money.budget import Budget
    from nanobot.session.heard import Heard
    from nanobot.session.listing import SessionHolder

#: Seconds for a command, and again for what it does after a question; and the limit of the command that runs.
COMMAND_SECONDS = 60.0
COMMAND_LIMIT: ContextVar[asyncio.Timeout | None] = ContextVar("COMMAND_LIMIT", default=None)
#: Seconds for the slow parts of /status.
STATUS_SECONDS = 10.0
#: Seconds for which a command waits for a turn that is being kept.
_ENDING_SECONDS = 2.0
#: Bytes of a conversation in which /sources looks for the last answer.
LOOK_BACK_BYTES = 400_000
_PRIVATE = "Privacy: on, pages and speech go to no service but the model"
_SEARCH_PENDING = "Search: asking the service…"

SwitchModel = Callable[[str], Awaitable[LLMProvider]]
SearchUsage = Callable[[], Awaitable[str]]
#: Keeps the end of a turn: its last messages together with the answer and the messages that it answers. None instead of
#: an end: the message was read by a turn that has its answer. Does not return before all of it is safe.
Settle = Callable[[InboundMessage, TurnFinished | None, Closing | None], Awaitable[None]]
#: Told when work on a message begins.
Begin = Callable[[InboundMessage], Awaitable[None]]


class AgentServices(Struct, frozen=True):
    """What the agent works with. `tools` are factories by tool name; one that raises `SkipTool` is left out.

    `switch_model` makes the provider for `/model name` and raises `UsageError`; `offered_models` lists presets and what
    the service of a model offers, `model_facts` tells what is known of one; `search_usage` gives the search part of
    /status as Markdown, `search_known` what of it is known at once; `chats` keeps what people set for a chat, and what
    `/model` chose for one of a channel, unless the command line has `model_fixed` for all of them;
    `undo` brings back what the last change of files in a chat changed,
    `trust` counts a file as the person's own or lists those that came from outside.
    `find_sessions` finds those that a person may see. `known` lists what is noted of a person, `forget` takes some
    of it away, and `forgets` tells what they took away.
    `permissions` keeps what people have allowed for good. `budget` is what may be spent.
    `tasks` are the commands in the background, where there are commands, and `tasks_folder` is where they are noted.
    `changes_since` names the changes of files that were made for a person in a chat since a time, `undo_since` takes
    them back. `keep_result` keeps a result that is too long for a request where the model can page through it.
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
    search_usage: SearchUsage | None = None
    search_known: Callable[[], str] | None = None
    chats: ChatSettings | None = None
    model_fixed: bool = False
    offered_models: Callable[[ProviderInfo], Awaitable[tuple[ModelOffer, ...]]] | None = None
    model_facts: Callable[[ProviderInfo], str] | None = None
    undo: Callable[[InboundMessage], Awaitable[str]] | None = None
    trust: Callable[[InboundMessage, str], Awaitable[str]] | None = None
    find_sessions: "Callable[[SessionHolder, str], Awaitable[FoundSessions]] | None" = None
    known: Callable[[InboundMessage, str], Awaitable[str]] | None = None
    forget: Callable[[InboundMessage, str], Awaitable[str]] | None = None
    forgets: Callable[[str], Awaitable[Callable[[str, datetime], bool]]] | None = None
    changes_since: Callable[[InboundMessage, datetime], Awaitable[tuple[str, ...]]] | None = None
    keep_result: KeepResult | None = None
    undo_since: Callable[[InboundMessage, datetime], Awaitable[tuple[str, ...]]] | None = None
    permissions: Permissions | None = None
    budget: BudgetOf = lambda _: None
    tasks: "BackgroundTasks | None" = None
    tasks_folder: Path | None = None
    helpers: "Callable[[], BackgroundHelpers | None]" = lambda: None
    remember: Callable[[InboundMessage, Role, frozenset[str]], Awaitable[str]] | None = None
    skills: Callable[[], Awaitable[str]] | None = None
    turn_ended: Callable[[InboundMessage, str, TurnFinished], None] | None = None
    heard: "Callable[[str], Awaitable[tuple[Heard, ...]]] | None" = None

    async def private(self, key: str) -> bool:
        """Whether a chat wants what it asks kept from services."""
        return self.chats is not None and await self.chats.get(key, "privacy") == "on"


class Entry(Struct, frozen=True):
    """A message that waits for its turn; `done` is resolved with the end of the turn that read it.

    One with `settle` is durable: its turn goes on in the next process where this one ends before it. `begin` is told
    when work on it begins. No other turn runs beside one that is `alone`, and it reads no other message; there is one
    such at a time.
    """

    message: InboundMessage
    done: "asyncio.Future[TurnFinished] | None" = None
    settle: Settle | None = None
    begin: Begin | None = None
    alone: bool = False

    @property
    def over(self) -> bool:
        """Whether its turn has ended, as far as anybody waits for that."""
        return self.done is not None and self.done.done()

    async def begun(self) -> None:
        if self.begin is not None:
            await self.begin(self.message)

    def finish(self, finished: TurnFinished) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(finished)


class Chat(Struct):
    """The state of one session key. `window` is the context size learned from the service, 0 while unknown.

    `inbox` holds what waits, `taken` the messages that the turn has read, `steered` the ids of those that it had read
    in mid-turn in an earlier process. `work` serves the chat while it is `busy`; `idle` is set while no turn runs;
    setting `stop` ends the running one. `recalled` tells that the model that was chosen for the chat in an earlier
    process was looked for, and `chosen` is its name; it is made anew when it is `outdated`. `addresses` are
    those that were named in its session. `unsummed`: its last summary was taken back. `instructions` are the AGENTS.md
    of its last prompt with what tells whether they have changed; `announced`: there was one. `session` is the one that
    it has for itself now, empty where none; `left` is set when it has left that.
    """

    key: str
    provider: LLMProvider
    inbox: deque[Entry] = field(default_factory=deque)
    taken: list[Entry] = field(default_factory=list)
    turn: Turn | None = None
    busy: bool = False
    work: "asyncio.Task[None] | None" = None
    steered: set[str] = field(default_factory=set)
    recalled: bool = False
    chosen: str = ""
    outdated: bool = False
    window: int = 0
    addresses: KnownAddresses = field(default_factory=KnownAddresses)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    unsummed: bool = False
    announced: bool = False
    instructions: dict[str, int] = field(default_factory=dict)
    session: str = ""
    left: asyncio.Event = field(default_factory=asyncio.Event)


class ChatControl:
    """The chats of an agent, and what commands may ask and change there. `AgentLoop` is one and serves them."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self.registry = ToolRegistry()
        self.questions = Questions()
        self._provider = services.provider  # of chats for which no other was chosen
        self.command_seconds = COMMAND_SECONDS
        #: Looks whether the configuration has changed: before each turn, and before a model is chosen.
        self.look_first: Callable[[], Awaitable[None]] = _nothing_to_look_at
        self._chats: dict[str, Chat] = {}
        self._retired: list[LLMProvider] = []
        self._started = time.monotonic()
        self._facts: list[Callable[[], str]] = []
        self._register_default_tools(services.tools)

    def _register_default_tools(self, factories: Mapping[str, ToolFactory]) -> None:
        for name, factory in factories.items():
            self.registry.register_factory(name, factory)

    def _chat(self, key: str) -> Chat:
        chat = self._chats.get(key)
        if chat is None:
            chat = self._chats[key] = Chat(key, self._provider)
        return chat

    @property
    def store(self) -> SessionStore:
        return self._services.store

    def midnight(self) -> datetime:
        return self._services.context.midnight()

    # Models and tools

    def provider(self, session_key: str) -> ProviderInfo:
        return self._chat(session_key).provider.info

    def model_facts(self, info: ProviderInfo) -> str:
        return self._services.model_facts(info) if self._services.model_facts is not None else ""

    async def models(self, session_key: str) -> tuple[ModelOffer, ...]:
        await self.look_first()
        ask = self._services.offered_models
        return await ask(self.provider(session_key)) if ask is not None else ()

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        if self._services.switch_model is None:
            raise UsageError("The model cannot be changed here. Start nanobot with --model instead.")
        await self.look_first()
        chat = self._chat(session_key)
        usual = not name and not self._services.model_fixed
        fresh = self._provider if usual else await self._services.switch_model(name)
        if chat.provider is not self._provider:
            self._retired.append(chat.provider)
        chat.provider, chat.window, chat.recalled, chat.chosen = fresh, 0, True, name
        if self._services.chats is not None and not self._services.model_fixed:
            await self._services.chats.keep_model(session_key, name)
        return fresh.info

    def use(self, provider: LLMProvider) -> None:
        """Answer with another model from the next turns on, where none was chosen for a chat; those chosen by a name
        are made anew then. What was used is closed at the end, for turns may be using it."""
        before, self._provider = self._provider, provider
        if before is not self._services.provider:
            self._retired.append(before)
        for chat in self._chats.values():
            if chat.provider is before:
                chat.provider, chat.window = provider, 0
            else:
                chat.outdated = bool(chat.chosen)

    async def _renew_chosen(self, chat: Chat) -> None:
        """Make the model anew that was chosen for a chat, where what it is made from has changed since."""
        if chat.outdated and self._services.switch_model is not None:
            chat.outdated = False
            with suppress(NanobotError):  # it is not to be had any more: the one at hand says so
                fresh = await self._services.switch_model(chat.chosen)
                self._retired.append(chat.provider)
                chat.provider, chat.window = fresh, 0

    @property
    def busy(self) -> bool:
        """Whether any turn runs or waits."""
        return any(chat.busy for chat in self._chats.values())

    async def _recall_model(self, chat: Chat) -> None:
        """Give a chat of a channel the model that was chosen for it before a restart."""
        chats, switch = self._services.chats, self._services.switch_model
        if chat.recalled or chats is None or switch is None or self._services.model_fixed:
            return
        chat.recalled = True
        if name := await chats.model(chat.key):
            chat.provider, chat.chosen = await switch(name), name

    async def _close_providers(self) -> None:
        own = [chat.provider for chat in self._chats.values() if chat.provider is not self._provider]
        if self._provider is not self._services.provider:  # which is closed by who made it
            own.append(self._provider)
        for provider in [*self._retired, *own]:
            await provider.aclose()
        self._retired.clear()
        self._chats.clear()

    def tools(
        self, role: Role = "owner", granted: frozenset[str] = frozenset(), *, direct: bool = True, key: str = ""
    ) -> tuple[tuple[str, str, str], ...]:
        missing = self.registry.skipped if role == "owner" and direct else {}
        specs = self.registry.specs(role, granted, direct=direct)
        info = self.provider(key) if key else self._provider.info
        if info.capabilities.searches:  # never two searches side by side
            specs = tuple(spec for spec in specs if spec.name != "web_search")
            missing = {**missing, "web_search": "the service of the model searches by itself"}
        offered = tuple((spec.name, _first_line(spec.description.strip()), "") for spec in specs)
        return offered + tuple((name, "", reason) for name, reason in sorted(missing.items()))

    async def undo(self, message: InboundMessage) -> str:
        key = message.address.key
        if message.direct and await take_back(self.store, (await self.store.current(key)).id):
            self._chat(key).unsummed = True
            return "The summary is taken back: the conversation stands as it was before."
        if self._services.undo is None:
            raise UsageError("There are no files here, so there is nothing to undo.")
        return await self._services.undo(message)

    async def branch(self, message: InboundMessage, parent: SessionInfo, title: str, before: int = 0) -> Branch:
        holder = await self.store.hold(parent.id)  # a turn that runs in another process would go on beside it
        if holder:
            raise UsageError(explanations.in_use(holder))
        try:
            await self.check_idle(message.address.key)
            return await self.store.branch(parent, title, before=before, request=message.id, key=message.address.key)
        finally:
            await self.store.drop(parent.id)

    async def _ended(self, chat: Chat) -> bool:
        """Whether nothing runs in a chat; a turn that is being kept gets a moment."""
        ends = chat.busy and not chat.inbox and (chat.turn is None or chat.turn.closed)
        if ends and chat.work is not None:
            await asyncio.wait({chat.work}, timeout=_ENDING_SECONDS)
        return not chat.busy

    async def _forget(self, chat: Chat) -> None:
        """Forget what the process knows of a chat, where nothing runs in it."""
        known = await self._ended(chat) and self._chats.pop(chat.key, None) is not None
        if known and chat.provider is not self._services.provider:
            await chat.provider.aclose()

    async def check_idle(self, session_key: str) -> None:
        if not await self._ended(self._chat(session_key)):
            raise UsageError("A turn is running here. Wait until it has ended, or end it with /stop; then try again.")

    async def offer(
        self, message: InboundMessage, question: str, choices: tuple[str, ...], *, picker: bool = False
    ) -> int:
        if self.questions.waits(message.address.key):
            raise UsageError("Another question waits for its answer here. Answer it first, or /stop leaves it.")
        publish = Publisher(self._services.bus, message.address, f"{message.id or id(message)} asks")
        limit = COMMAND_LIMIT.get()
        if limit is not None:  # a question has a limit of its own
            limit.reschedule(None)
        answer = await self.questions.offer(message, publish, question, choices, picker=picker)
        if limit is not None:
            limit.reschedule(asyncio.get_running_loop().time() + self.command_seconds)
        return choices.index(answer.choice) + 1 if answer.choice in choices else 0

    async def changes_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        find = self._services.changes_since
        return await find(message, at) if find is not None else ()

    async def undo_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        undo = self._services.undo_since
        return await undo(message, at) if undo is not None else ()

    async def choose(self, session_key: str, key: str, number: int, by: Sender) -> str:
        return self.questions.answer(session_key, key, number, by)

    async def turn_page(self, session_key: str, key: str, page: int, by: Sender) -> None:
        await self.questions.turn_page(session_key, key, page, by)

    async def trust(self, message: InboundMessage, name: str) -> str:
        if self._services.trust is None:
            raise UsageError("There are no files here.")
        return await self._services.trust(message, name)

    async def find_sessions(self, holder: "SessionHolder", words: str) -> "FoundSessions":
        if self._services.find_sessions is None:
            raise UsageError("There are no sessions here that could be searched.")
        return await self._services.find_sessions(holder, words)

    async def known(self, message: InboundMessage, words: str) -> str:
        if self._services.known is None:
            raise UsageError("There is no memory here.")
        return await self._services.known(message, words)

    async def forget(self, message: InboundMessage, words: str) -> str:
        if self._services.forget is None:
            raise UsageError("There is no memory here.")
        return await self._services.forget(message, words)

    async def announce_lost(self, channel: str, say: Callable[[Address, str, str], Awaitable[None]]) -> None:
        """Say in the chats of a channel, once, which of their commands ended with an earlier process."""
        folder = self._services.tasks_folder
        if folder is not None and folder.is_dir():
            from nanobot.agent.tools.commands.background import BackgroundTasks

            await BackgroundTasks(folder).announce_lost(channel, say)

    async def tasks(self, session_key: str, wanted: str = "", *, stop: bool = False) -> str:
        helpers, commands = self._services.helpers(), self._services.tasks
        if wanted.startswith("h") and helpers is not None:
            return await helpers.shown(session_key, int(wanted[1:]), self._end if stop else None)
        if wanted and commands is not None:
            return await commands.shown(session_key, int(wanted), stop=stop)
        if commands is None and (helpers is None or wanted):
            raise UsageError("No commands are offered here, so none runs in the background. /tools says why.")
        lines = [
            *(await helpers.listed(session_key) if helpers else ()),
            *(commands.lines(session_key) if commands else ()),
        ]
        closing = "`/tasks <name>` shows one, `/tasks <name> stop` stops it. Commands end with nanobot, helpers go on."
        return "\n".join(["**In the background**", "", *lines, "", closing]) if lines else "Nothing runs here."

    async def _end(self, session_key: str) -> str:
        """End the turn of a helper in the background."""
        chat = self._chat(session_key)
        if not chat.busy:
            return "it does not run in this process, so that it cannot be stopped here."
        chat.stop.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(STATUS_SECONDS):
                await chat.idle.wait()
        return "stopped."

    # What was said and what goes on

    async def citations(self, session_key: str, turn: str = "") -> tuple[Citation, ...]:
        if turn:
            session, records = await self.store.begun(turn)
            own = any(one.id == session for one in await self.store.list(session_key))
            messages = tuple(record.message for record in records if own and record.kind == "message")
        else:
            messages = await self.store.history((await self.store.current(session_key)).id, size=LOOK_BACK_BYTES)
        answers = (
            one for one in reversed(messages) if isinstance(one, AssistantMessage) and one.text and not one.calls
        )
        return next((one.citations for one in answers), ())

    async def recap(self, session_id: str, role: Role = "owner") -> str:
        try:
            records = await self.store.records(session_id, size=LOOK_BACK_BYTES)
        except StoreError:  # the next turn says it
            return ""
        return recap(seen_by(role, (record.message for record in records), session_id, shared=False))

    def add_status(self, fact: Callable[[], str]) -> None:
        """Let /status show one more line, such as the health of a channel; an empty one is left out."""
        self._facts.append(fact)

    async def status(self, session_key: str, *, everything: bool = True) -> str:
        search = await self.searches(ask=False) or (_SEARCH_PENDING if self._services.search_usage else "")
        lines = await self._status(session_key)
        return "\n".join([*lines, *(await self._of_all_chats(session_key, search) if everything else ())])

    async def status_full(self, session_key: str) -> str:
        search = await self.searches(ask=True)
        return "\n".join([*await self._status(session_key), *await self._of_all_chats(session_key, search)])

    async def searches(self, *, ask: bool) -> str:
        if not ask or self._services.search_usage is None:
            return self._services.search_known() if self._services.search_known is not None else ""
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                return await self._services.search_usage()
        except TimeoutError:
            return "Search: the service did not answer in time."
        except NanobotError as error:
            return f"Search: {error}"

    @property
    def budget(self) -> "Budget | None":
        return self._services.budget(None)

    async def estimate(self, message: InboundMessage, pages: int, requests: int) -> str:
        info = self.provider(message.address.key)
        if self.budget is None or not info.capabilities.language_model:
            return "it costs nothing: no language model is asked"
        return await self.budget.estimate(message, info, pages=pages, requests=requests)

    async def state(self, session_key: str) -> ChatState:
        chat, store = self._chat(session_key), self.store
        info, session = chat.provider.info, await store.current(session_key)
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

    async def _status(self, session_key: str) -> list[str]:
        """What is about one chat: its model, its session, what it cost, and its turn."""
        chat, state = self._chat(session_key), await self.state(session_key)
        info = chat.provider.info
        usage = await self.store.spent(session=state.session)
        why = f"; {info.chosen_because}" if info.chosen_because else ""
        share = f" ({state.used / state.window:.0%})" if state.window else ""
        title = f" {state.title}" if state.title else ""
        running = "nothing is running"
        if (turn := chat.turn) is not None:
            running = f"step {turn.steps} since {duration(turn.seconds)}, {turn.waits}"
        return [
            f"**nanobot {__version__}**, up {duration(time.monotonic() - self._started)}",
            f"- Model: {info.model or 'none'} ({info.name}{why})",
            f"- Context: {state.used:,} of {state.window:,} tokens{share}",
            f"- Session: `{state.session}`{title}, {counted(state.messages, 'message')}",
            f"- Spent: {usage.text}",
            f"- Turn: {running}",
        ]

    async def _of_all_chats(self, session_key: str, search: str) -> list[str]:
        """What is about the installation, which only its owner is to know."""
        window = self._chat(session_key).window or self.provider(session_key).capabilities.window
        today = await self.store.spent(self.midnight())
        private = [_PRIVATE] if await self._services.private(session_key) else []
        facts = [*private, *filter(None, (fact() for fact in self._facts))]
        budget = [f"- Budget: {await self.budget.overview()}"] if self.budget is not None else []
        files = await asyncio.to_thread(self._services.context.files, window)
        return [
            f"- Today, all chats: {today.text}",
            *budget,
            f"- Tools: {tools_line(self.tools(key=session_key))}",
            *(f"- Not offered: {name}: {reason}" for name, reason in sorted(self.registry.skipped.items())),
            *(f"- {file.name}: {_size(file.size)}{', cut' if file.cut else ''}" for file in files),
            *(f"- {fact}" for fact in facts),
            *(["", search] if search else []),
        ]


async def _nothing_to_look_at() -> None:
    """The configuration is what it was at the start."""


def _context_of(messages: tuple[Message, ...]) -> int:
    """The tokens of the last request that was answered."""
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    return next((one.usage.input for one in reversed(answers) if one.content and one.usage.input), 0)


def _size(count: int) -> str:
    """Bytes such as `812 B` or `1.5 kB`."""
    return f"{count} B" if count < 1_000 else f"{count / 1_000:.1f} kB"


def _first_line(description: str) -> str:
    """What a tool does in one line; where its server says it, in the server's words."""
    said = unwrap(description.partition("\n")[2])
    return (said.text if said else description).partition("\n")[0]
