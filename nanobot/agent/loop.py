"""Where messages become turns: one at a time per session, other sessions beside it, commands past everything."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from loguru import logger

from nanobot import __version__
from nanobot.agent.chat import Chat, Entry, Publisher
from nanobot.agent.context import ContextBuilder
from nanobot.agent.limits import ModelSettings, TurnLimits
from nanobot.agent.runner import AgentRunner
from nanobot.agent.status import SEARCH_PENDING, Status, duration, status_text
from nanobot.agent.tools.registry import ToolFactory, ToolRegistry
from nanobot.agent.turn import EndedBy, Turn, TurnResult, TurnTask
from nanobot.bus.events import CommandReply, InboundMessage, Notice, TurnFinished, TurnStarted
from nanobot.bus.queue import MessageBus
from nanobot.command.dispatch import CommandRouter, Match
from nanobot.errors import NanobotError, UsageError
from nanobot.messages import AssistantMessage, Message, Usage, UserMessage
from nanobot.providers.base import LLMProvider, ProviderInfo
from nanobot.session.store import SessionInfo, SessionStore
from nanobot.utils.text import shorten, squeeze, strip_unsafe

SwitchModel = Callable[[str], Awaitable[LLMProvider]]
SearchUsage = Callable[[], Awaitable[str]]
T = TypeVar("T")

#: Seconds that a cancelled turn gets to clean up before it is left behind.
CANCEL_SECONDS = 0.7
#: Seconds past the time limit of a turn after which it is taken for hanging.
GRACE_SECONDS = 60.0
#: Seconds for the slow parts of /status.
STATUS_SECONDS = 10.0
#: What a token of the window may take in the store: enough to never leave out what would fit.
STORED_BYTES_PER_TOKEN = 8
_TITLE_WIDTH = 60


@dataclass(frozen=True, slots=True)
class AgentServices:
    """What the loop works with. `tools` are factories by tool name; one that raises `SkipTool` is left out.

    `switch_model` makes the provider for `/model name` and raises `UsageError`; `search_usage` gives the search part of
    /status as Markdown.
    """

    bus: MessageBus
    store: SessionStore
    provider: LLMProvider
    context: ContextBuilder
    router: CommandRouter
    tools: Mapping[str, ToolFactory] = field(default_factory=dict)
    switch_model: SwitchModel | None = None
    search_usage: SearchUsage | None = None


class AgentLoop:
    """The agent. Surfaces reach it through the bus (`run`) or by one call (`process`); it meets `TurnControl`."""

    def __init__(
        self, services: AgentServices, *, limits: TurnLimits | None = None, settings: ModelSettings | None = None
    ) -> None:
        self._services = services
        self._limits = limits or TurnLimits()
        self._settings = settings or ModelSettings()
        self.registry = ToolRegistry()
        self.runner = AgentRunner(self.registry, self._limits)
        self._chats: dict[str, Chat] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._retired: list[LLMProvider] = []
        self._started = time.monotonic()
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

    async def process(self, message: InboundMessage) -> TurnFinished:
        """Serve one message and return the end of the turn that read it. Events go to the bus as well.

        Cancelling the caller cancels the turn. A command gives a `TurnFinished` with its reply.
        """
        done: asyncio.Future[TurnFinished] = asyncio.get_running_loop().create_future()
        entry = Entry(message, done)
        await self._receive(entry)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            chat = self._chat(message.address.key)
            if entry in chat.inbox:
                chat.inbox.remove(entry)
            else:
                await self.cancel(chat.key)
            raise

    async def aclose(self) -> None:
        """Cancel what runs and wait until it is kept; then close providers of past sessions."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2 * CANCEL_SECONDS + 1)
        for provider in self._retired:
            await provider.aclose()
        self._retired.clear()

    # Messages and turns

    async def _receive(self, entry: Entry) -> None:
        message = entry.message
        match = self._services.router.match(message.content)
        if match is not None and match.control:
            self._start(self._command(match, entry))
            return
        chat = self._chat(message.address.key)
        chat.inbox.append(entry)
        if not chat.busy:
            chat.busy = True
            self._start(self._work(chat))
        elif chat.turn is not None:
            text = "Got it. I will read this at the next step."
            await Publisher(self._services.bus, message.address, chat.turn.id)(Notice(text))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, chat: Chat) -> None:
        """Serve a chat's messages in order until none waits."""
        try:
            while chat.inbox:
                entry = chat.inbox.popleft()
                match = self._services.router.match(entry.message.content)
                if match is not None:
                    await self._command(match, entry)
                else:
                    await self._turn(chat, entry)
        finally:
            chat.busy = False

    async def _turn(self, chat: Chat, entry: Entry) -> None:
        """One turn from its first event to its last. Cancellation for /stop is swallowed here and nowhere else."""
        turn = Turn(self._limits)
        publish = Publisher(self._services.bus, entry.message.address, turn.id)
        chat.turn, chat.taken = turn, [entry]
        chat.stop.clear()
        chat.idle.clear()
        await publish(TurnStarted(chat.provider.info.model, datetime.now(UTC)))
        job = asyncio.create_task(self._safely(self._run_turn(chat, turn, entry.message, publish)))
        stop = asyncio.create_task(chat.stop.wait())
        try:
            limit = self._limits.max_seconds + GRACE_SECONDS
            await asyncio.wait({job, stop}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if job.done():
                outcome = job.result()
            else:
                by: EndedBy = "stop" if chat.stop.is_set() else "failure"
                outcome = await self._halt(chat, turn, job, by)
            await self._finish(chat, turn, publish, outcome)
        except asyncio.CancelledError:
            outcome = await self._halt(chat, turn, job, "restart")
            await self._finish(chat, turn, publish, outcome)
            raise
        finally:
            stop.cancel()
            chat.turn = None
            chat.idle.set()

    async def _run_turn(self, chat: Chat, turn: Turn, message: InboundMessage, publish: Publisher) -> TurnResult:
        store, context = self._services.store, self._services.context
        session = await store.current(chat.key)

        async def save(messages: tuple[Message, ...]) -> None:
            await store.append(session.id, messages, turn=turn.id)

        turn.save = save
        window = chat.window or chat.provider.info.capabilities.window
        history = await store.history(session.id, size=window * STORED_BYTES_PER_TOKEN)
        if not session.title:
            await store.rename(session.id, _title(message))
        task = TurnTask(
            chat.provider,
            (context.user_message(message),),
            publish,
            history,
            system=context.system(),
            tail=context.tail(message.address, message.sender),
            session=session.id,
            address=message.address,
            sender=message.sender,
            settings=self._settings,
            save=save,
            steering=lambda: self._steering(chat),
            window=chat.window,
        )
        return await self.runner.run(task, turn)

    def _steering(self, chat: Chat) -> tuple[UserMessage, ...]:
        """What was typed since the last step, up to the first command; that waits for the end of the turn."""
        read: list[UserMessage] = []
        while chat.inbox and self._services.router.match(chat.inbox[0].message.content) is None:
            entry = chat.inbox.popleft()
            chat.taken.append(entry)
            read.append(self._services.context.user_message(entry.message, steer=True))
        return tuple(read)

    async def _halt(
        self, chat: Chat, turn: Turn, job: "asyncio.Task[TurnResult | str]", by: EndedBy
    ) -> TurnResult | str:
        """Cancel a turn, wait a moment, and close its conversation whether it obeyed or not."""
        job.cancel()
        await asyncio.wait({job}, timeout=CANCEL_SECONDS)
        if job.done() and not job.cancelled():
            return job.result()
        turn.closed = True
        partial = "".join(turn.partial).strip()
        turn.close(by)
        if turn.save is not None:
            problem = await self._safely(turn.save(turn.unsaved()))
            if problem:
                logger.error("the cancelled turn of {} could not be kept: {}", chat.key, problem)
        if by == "failure":
            error = f"The turn hung for more than {duration(turn.budget.seconds)} and was ended. Ask again."
            return TurnResult("failed", partial, error, temporary=True)
        return TurnResult("cancelled", partial)

    async def _finish(self, chat: Chat, turn: Turn, publish: Publisher, outcome: TurnResult | str) -> None:
        """Tell the end of a turn, to the surface and to whoever awaits it."""
        result = outcome if isinstance(outcome, TurnResult) else TurnResult("failed", "", outcome)
        turn.closed = True
        chat.window = result.window or chat.window
        answers = [message for message in turn.messages if isinstance(message, AssistantMessage)]
        chat.context_tokens = next((item.usage.input for item in reversed(answers) if item.usage.input), 0)
        finished = TurnFinished(
            result.outcome,
            result.text,
            turn.budget.usage,
            turn.cited(result.text),
            model=result.model or chat.provider.info.model,
            seconds=turn.budget.seconds,
            steps=turn.budget.steps,
            error=result.error,
            temporary=result.temporary,
        )
        await publish(finished)
        for entry in chat.taken:
            entry.finish(finished)

    async def _command(self, match: Match, entry: Entry) -> None:
        message = entry.message
        publish = Publisher(self._services.bus, message.address)
        said: list[str] = []
        key = f"{match.name}:{message.id or id(entry)}"

        async def reply(text: str) -> None:
            said.append(text)
            await publish(CommandReply(match.name, text, key))

        problem = await self._safely(self._services.router.run(match, message, self, reply))
        if problem:
            await reply(problem)
        entry.finish(TurnFinished("failed" if problem else "completed", said[-1] if said else "", error=problem or ""))

    async def _safely(self, work: Awaitable[T]) -> T | str:
        """The turn boundary: what goes wrong in a turn or a command becomes a sentence and ends nothing else."""
        try:
            return await work
        except NanobotError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - a broken turn must not take the others with it
            logger.opt(exception=error).error("a turn or a command failed")
            return f"Something in nanobot broke ({type(error).__name__}). The log has the details. Ask again."

    def _chat(self, key: str) -> Chat:
        chat = self._chats.get(key)
        if chat is None:
            chat = self._chats[key] = Chat(key, self._services.provider)
        return chat

    # TurnControl

    async def cancel(self, session_key: str) -> str:
        chat = self._chat(session_key)
        turn = chat.turn
        if turn is None:
            return "Nothing is running."
        chat.stop.set()
        async with asyncio.timeout(2 * CANCEL_SECONDS + 1):
            await chat.idle.wait()
        results = sum(1 for message in turn.messages if message.role == "tool" and message.error != "cancelled")
        kept = f" {results} result{'s' * (results != 1)} and the text so far are kept." if results else ""
        return f"Stopped.{kept}"

    async def status(self, session_key: str) -> str:
        return await self._status(session_key, SEARCH_PENDING if self._services.search_usage else "")

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

    async def _status(self, session_key: str, search: str) -> str:
        chat = self._chat(session_key)
        info = chat.provider.info
        session = await self._services.store.current(session_key)
        history = await self._services.store.history(session.id)
        used = [message.usage for message in history if isinstance(message, AssistantMessage)]
        running = ""
        if chat.turn is not None:
            doing = f", last {chat.turn.doing[-1]}" if chat.turn.doing else ""
            running = f"step {chat.turn.budget.steps} since {duration(chat.turn.budget.seconds)}{doing}"
        status = Status(
            __version__,
            info,
            session,
            chat.window or info.capabilities.window,
            chat.context_tokens or next((item.input for item in reversed(used) if item.input), 0),
            sum(used, Usage()),
            self.registry.names,
            self.registry.skipped,
            self._services.context.files(),
            time.monotonic() - self._started,
            running,
            search,
        )
        return status_text(status)

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

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        if self._services.switch_model is None:
            raise UsageError("The model cannot be changed here. Start nanobot with --model instead.")
        chat = self._chat(session_key)
        fresh = await self._services.switch_model(name)
        if chat.provider is not self._services.provider:
            self._retired.append(chat.provider)
        chat.provider, chat.window = fresh, 0
        return fresh.info

    def tools(self) -> tuple[tuple[str, str], ...]:
        offered = tuple((spec.name, spec.description.strip().partition("\n")[0]) for spec in self.registry.specs())
        skipped = tuple((name, f"(not offered) {reason}") for name, reason in sorted(self.registry.skipped.items()))
        return offered + skipped


def _title(message: InboundMessage) -> str:
    text = squeeze(strip_unsafe(message.content))
    return shorten(text, _TITLE_WIDTH) if text else "(no text)"
