"""Where messages become turns: one at a time per session, other sessions beside it, commands past everything."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta, tzinfo

from loguru import logger
from msgspec.structs import replace

from nanobot import __version__
from nanobot.agent.chat import Begin, Chat, Entry, Publisher, Settle
from nanobot.agent.limits import ModelSettings, TurnLimits
from nanobot.agent.runner import AgentRunner
from nanobot.agent.services import AgentServices as AgentServices
from nanobot.agent.services import SearchUsage as SearchUsage
from nanobot.agent.services import SwitchModel as SwitchModel
from nanobot.agent.status import PRIVATE, SEARCH_PENDING, Status, chat_status_text, status_text
from nanobot.agent.tools.registry import ToolFactory, ToolRegistry
from nanobot.agent.turns import CANCEL_SECONDS, QUIET_SECONDS, TurnService, safely
from nanobot.bus.events import CommandReply, InboundMessage, Notice, Outcome, Sender, TurnFinished
from nanobot.command.dispatch import Match
from nanobot.command.router import Emit, Spending
from nanobot.errors import NanobotError, TemporaryError, UsageError
from nanobot.messages import AssistantMessage, Citation, Role
from nanobot.providers.base import LLMProvider, ProviderInfo
from nanobot.security.trust import unwrap
from nanobot.session.store import SessionInfo
from nanobot.utils.text import duration

#: Seconds for the slow parts of /status.
STATUS_SECONDS = 10.0

#: Seconds for a command.
COMMAND_SECONDS = 60.0

#: Bytes of a conversation in which /sources looks for the last answer.
LOOK_BACK_BYTES = 400_000

#: How many turns run at the same time; the chats beyond wait their turn in order. A turn waits for its model most of
#: the time, so the number bounds what turns hold in memory, and is far from what the processor bears.
CONCURRENCY = 256


class AgentLoop:
    """The agent. Surfaces reach it through the bus (`run`) or by one call (`process`); it meets `TurnControl`.

    `quiet` is how many seconds may pass without an event before a notice; `concurrency` how many turns run at once.
    """

    def __init__(
        self,
        services: AgentServices,
        *,
        limits: TurnLimits | None = None,
        settings: ModelSettings | None = None,
        quiet: float = QUIET_SECONDS,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self._services = services
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self.registry = ToolRegistry()
        self.runner = AgentRunner(self.registry, limits)
        self._turns = TurnService(services, self.runner, settings or ModelSettings(), quiet)
        self._chats: dict[str, Chat] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.command_seconds = COMMAND_SECONDS
        self._retired: list[LLMProvider] = []
        self._started = time.monotonic()
        self._facts: list[Callable[[], str]] = []
        self._register_default_tools(services.tools)

    def _register_default_tools(self, factories: Mapping[str, ToolFactory]) -> None:
        for name, factory in factories.items():
            self.registry.register_factory(name, factory)

    async def run(self) -> None:
        """Serve the bus until cancelled; then every running turn is closed and kept."""
        try:
            while True:
                await self._receive(Entry(await self._services.bus.consume_inbound()))
        finally:
            await self.aclose()

    async def process(
        self, message: InboundMessage, settle: Settle | None = None, begin: Begin | None = None, *, alone: bool = False
    ) -> TurnFinished:
        """Serve one message and return the end of the turn that read it. Events go to the bus as well.

        Cancelling the caller cancels the turn. A command gives a `TurnFinished` with its reply. With `settle`, which
        keeps the end of the turn, the turn is durable: it is known by the message's id, goes on where an earlier
        process left it, and cancelling the caller leaves it to the next process. `begin` is told when its turn begins;
        no other turn runs beside one that is `alone`, of which the caller gives one at a time.
        """
        done: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()
        entry = Entry(message, done, settle, begin, alone)
        await self._receive(entry)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            chat = self._chat(message.address.key)
            waiting = next((one for one in chat.inbox if one.done is done), None)
            if waiting is not None:
                chat.inbox.remove(waiting)
            elif settle is None:
                await self.cancel(chat.key)
            elif chat.work is not None:
                chat.work.cancel()
                await asyncio.wait({chat.work}, timeout=2 * CANCEL_SECONDS)
            raise

    async def aclose(self) -> None:
        """Cancel what runs and wait until it is kept; then close providers of past sessions."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2 * CANCEL_SECONDS + 1)
        own = [chat.provider for chat in self._chats.values() if chat.provider is not self._services.provider]
        for provider in [*self._retired, *own]:
            await provider.aclose()
        self._retired.clear()
        self._chats.clear()

    def amend(self, message: InboundMessage) -> bool:
        """Replace a message of this id that no turn has read yet; False where it is too late."""
        inbox = self._chat(message.address.key).inbox
        for place, entry in enumerate(inbox):
            if entry.message.id == message.id:
                inbox[place] = replace(entry, message=message)
                return True
        return False

    def withdraw(self, session_key: str) -> tuple[str, ...]:
        """Take back the messages of a terminal that no turn has read yet; their texts in order."""
        inbox = self._chat(session_key).inbox
        unread = [one for one in inbox if one.done is None and self._is_text(one)]
        for one in unread:
            inbox.remove(one)
        return tuple(one.message.content for one in unread)

    # Messages and turns

    async def _receive(self, entry: Entry) -> None:
        message = entry.message
        match = self._services.router.match_message(message)
        if match is not None and match.control:
            self._start(self._command(match, entry))
            return
        chat = self._chat(message.address.key)
        chat.inbox.append(entry)
        if not chat.busy:
            chat.busy = True
            chat.work = self._start(self._work(chat))
        elif chat.turn is not None and message.sender.id not in chat.turn.told:
            chat.turn.told.add(message.sender.id)
            first = chat.taken[0] if chat.taken else None
            steers = first is not None and first.message.sender.id == message.sender.id and not first.alone
            text = "Got it. I will read this at the next step." if steers else "Got it. I will answer after this one."
            await Publisher(self._services.bus, message.address, chat.turn.id)(Notice(text))

    def _start(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _work(self, chat: Chat) -> None:
        """Serve a chat's messages in order until none waits."""
        try:
            while chat.inbox:
                match = self._services.router.match_message(chat.inbox[0].message)
                if match is not None:
                    await self._command(match, chat.inbox.popleft())
                    continue
                first = chat.inbox[0]
                async with self._room(first):
                    if chat.inbox:
                        await self._recall(chat.inbox[0])
                    # What was first may have been taken back meanwhile, or changed.
                    if chat.inbox and self._is_text(chat.inbox[0]) and chat.inbox[0].alone <= first.alone:
                        await self._contained(chat, chat.inbox.popleft())
        finally:
            chat.busy = False
            chat.stop.clear()

    @asynccontextmanager
    async def _room(self, entry: Entry) -> AsyncIterator[None]:
        """A place among the turns that run at the same time; all places for a message that is served alone."""
        async with AsyncExitStack() as taken:
            for _ in range(self._concurrency if entry.alone else 1):
                await taken.enter_async_context(self._slots)
            yield

    def _is_text(self, entry: Entry) -> bool:
        return self._services.router.match_message(entry.message) is None

    async def _contained(self, chat: Chat, entry: Entry) -> None:
        """Serve a message; whoever waits for its end hears of it also where nanobot itself breaks."""
        chat.taken = [entry]
        await entry.begun()
        with logger.contextualize(turn=entry.message.id or "-"):
            problem = await safely(self._serve(chat, entry))
        if problem:
            read = tuple(one.message.id for one in chat.taken)
            for one in chat.taken:
                one.finish(TurnFinished("failed", "", error=problem, answered=read))

    async def _serve(self, chat: Chat, entry: Entry) -> None:
        if entry.settle is None or not await self._turns.answered(entry.message):
            await self._turns.serve(chat, entry)
            return
        await entry.settle(entry.message, None, None)
        entry.finish(TurnFinished("completed", "", answered=(entry.message.id,)))

    async def _command(self, match: Match, entry: Entry) -> None:
        message = entry.message
        publish = Publisher(self._services.bus, message.address)
        said: list[str] = []
        key = f"{match.name}:{message.id or id(entry)}"

        async def reply(text: str) -> None:
            said.append(text)
            await publish(CommandReply(match.name, text, key, message.id))

        await self._recall(entry)
        await entry.begun()
        problem = await safely(self._bounded(match, message, reply))
        if problem:
            await reply(problem)
        outcome: Outcome = "failed" if problem else "completed"
        answer = said[-1] if said else ""
        entry.finish(TurnFinished(outcome, answer, error=problem or "", answered=(message.id,)))

    async def _recall(self, entry: Entry) -> None:
        """Give a chat of a channel the model that was chosen for it before a restart."""
        models, chat = self._services.models, self._chat(entry.message.address.key)
        if chat.recalled or entry.settle is None or models is None or self._services.switch_model is None:
            return
        chat.recalled = True
        switch = self._services.switch_model

        async def choose() -> None:
            name = await models.get(chat.key)
            if name:
                chat.provider = await switch(name)

        problem = await safely(choose())
        if problem:
            text = f"The model chosen for this chat cannot be used: {problem} The configured one answers."
            await Publisher(self._services.bus, entry.message.address)(Notice(text, "warning"))

    async def _bounded(self, match: Match, message: InboundMessage, reply: Emit) -> None:
        """Run a command. One that hangs is ended, because the messages of its chat wait behind it."""
        try:
            async with asyncio.timeout(self.command_seconds):
                await self._services.router.run(match, message, self, reply)
        except TimeoutError:
            within = duration(self.command_seconds)
            raise TemporaryError(f"/{match.name} has not ended within {within} and was given up. Try again.") from None

    def _chat(self, key: str) -> Chat:
        chat = self._chats.get(key)
        if chat is None:
            chat = self._chats[key] = Chat(key, self._services.provider)
        return chat

    # TurnControl

    @property
    def zone(self) -> tzinfo:
        return self._services.context.zone

    async def cancel(self, session_key: str, turn_id: str = "", *, by: Sender | None = None) -> str:
        chat = self._chat(session_key)
        turn = chat.turn
        waiting = next(filter(self._is_text, chat.inbox), None) if turn is None and not turn_id else None
        if waiting is None and (turn is None or turn_id not in ("", turn.id)):
            return "Nothing is running."
        asked = (waiting or chat.taken[0]).message.sender
        if by is not None and by.role != "owner" and by.id != asked.id:
            raise UsageError("Only the owner and the person who asked may stop this.")
        if turn is None:
            chat.stop.set()
            return "Stopped before it began."
        late = turn.closed
        chat.stop.set()
        try:
            async with asyncio.timeout(2 * CANCEL_SECONDS + 1):
                await chat.idle.wait()
        except TimeoutError:
            return "Stopping takes longer than it should; the turn is cancelled and is still being kept."
        if late:
            return "Nothing is left to stop: the turn had just ended."
        results = sum(1 for message in turn.messages if message.role == "tool" and message.error != "cancelled")
        kept = f" {results} result{'s' * (results != 1)} and the text so far are kept." if results else ""
        return f"Stopped.{kept}"

    async def approve(self, session_key: str, key: str, choice: str) -> str:
        return self.runner.approvals.answer(session_key, key, choice)

    async def status(self, session_key: str, *, everything: bool = True) -> str:
        known = self._services.search_known
        pending = SEARCH_PENDING if self._services.search_usage else ""
        return await self._status(session_key, (known() if known else "") or pending, everything=everything)

    async def status_full(self, session_key: str) -> str:
        search = ""
        if self._services.search_usage is not None:
            try:
                async with asyncio.timeout(STATUS_SECONDS):
                    search = await self._services.search_usage()
            except TimeoutError:
                search = "Search: the service did not answer in time."
            except NanobotError as error:
                search = f"Search: {error}"
        return await self._status(session_key, search)

    async def _status(self, session_key: str, search: str, *, everything: bool = True) -> str:
        chat = self._chat(session_key)
        info = chat.provider.info
        store = self._services.store
        session = await store.current(session_key)
        last = await store.history(session.id, size=1)  # the newest turn
        answers = [message for message in last if isinstance(message, AssistantMessage)]
        private = self._services.privacy is not None and await self._services.privacy(chat.key)
        running = ""
        if chat.turn is not None:
            since = duration(chat.turn.budget.seconds)
            running = f"step {chat.turn.budget.steps} since {since}, {chat.turn.waits}"
        status = Status(
            __version__,
            info,
            session,
            chat.window or info.capabilities.window,
            chat.context_tokens
            or next((one.usage.input for one in reversed(answers) if one.content and one.usage.input), 0),
            await store.spent(session=session.id),
            self.registry.names,
            self.registry.skipped,
            self._services.context.files(chat.window or info.capabilities.window),
            time.monotonic() - self._started,
            running,
            search,
            await store.spent(self._services.context.midnight()),
            tuple(filter(None, (PRIVATE if private else "", *(fact() for fact in self._facts)))),
        )
        return status_text(status) if everything else chat_status_text(status)

    def add_status(self, fact: Callable[[], str]) -> None:
        """Let /status show one more line, such as the health of a channel; an empty one is left out."""
        self._facts.append(fact)

    async def spending(self, session_key: str) -> Spending:
        store, today = self._services.store, self._services.context.midnight()
        week = today - timedelta(days=6)
        return Spending(
            await store.spent(today, key=session_key),
            await store.spent(week, key=session_key),
            await store.spent(today),
            await store.spent(week),
        )

    async def citations(self, session_key: str, turn: str = "") -> tuple[Citation, ...]:
        store = self._services.store
        if turn:
            session, records = await store.begun(turn)
            own = any(one.id == session for one in await store.list(session_key))
            messages = [record.message for record in records if own and record.kind == "message"]
        else:
            messages = list(await store.history((await store.current(session_key)).id, size=LOOK_BACK_BYTES))
        answers = (
            one for one in reversed(messages) if isinstance(one, AssistantMessage) and one.text and not one.calls
        )
        return next((one.citations for one in answers), ())

    async def new_session(self, session_key: str) -> SessionInfo:
        await self.cancel(session_key)
        self._chat(session_key).context_tokens = 0
        return await self._services.store.start(session_key)

    async def resume_session(self, session_key: str, session_id: str) -> SessionInfo:
        await self.cancel(session_key)
        self._chat(session_key).context_tokens = 0
        return await self._services.store.resume(session_key, session_id)

    async def sessions(self, session_key: str) -> tuple[SessionInfo, ...]:
        return await self._services.store.list(session_key)

    def provider(self, session_key: str) -> ProviderInfo:
        return self._chat(session_key).provider.info

    async def models(self, session_key: str) -> tuple[str, ...]:
        ask = self._services.offered_models
        return await ask(self.provider(session_key)) if ask is not None else ()

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        if self._services.switch_model is None:
            raise UsageError("The model cannot be changed here. Start nanobot with --model instead.")
        chat = self._chat(session_key)
        fresh = await self._services.switch_model(name)
        if chat.provider is not self._services.provider:
            self._retired.append(chat.provider)
        chat.provider, chat.window, chat.recalled = fresh, 0, True
        if self._services.models is not None:
            await self._services.models.keep(session_key, name)
        return fresh.info

    def tools(self, role: Role = "owner") -> tuple[tuple[str, str, str], ...]:
        offered = tuple((spec.name, _first_line(spec.description.strip()), "") for spec in self.registry.specs(role))
        missing = self.registry.skipped if role == "owner" else {}
        return offered + tuple((name, "", reason) for name, reason in sorted(missing.items()))


def _first_line(description: str) -> str:
    """What a tool does in one line; where its server says it, in the server's words."""
    said = unwrap(description.partition("\n")[2])
    return (said.text if said else description).partition("\n")[0]
