"""What commands may ask of the agent in a chat, and do there: models, tools, turns, sessions, what was said."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from nanobot.agent import explanations
from nanobot.agent.chats.chat import Chat
from nanobot.agent.chats.questions import Questions
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.chats.sessions import session_now
from nanobot.agent.chats.status import StatusReport
from nanobot.agent.history import recap, seen_by
from nanobot.agent.memory.compaction import take_back
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.agent.turn import Publisher
from nanobot.bus.events import Address, ChatState, InboundMessage, Sender, TurnFinished
from nanobot.errors import NanobotError, StoreError, UsageError
from nanobot.messages import AssistantMessage, Citation, Role
from nanobot.providers.base import LLMProvider, ModelOffer, ProviderInfo
from nanobot.security.trust import unwrap
from nanobot.session.store import Branch, SessionInfo, SessionStore
from nanobot.utils.translation import _, _n

if TYPE_CHECKING:
    from nanobot.money.budget import Budget

#: Seconds for a command, and again for what it does after a question; and the limit of the command that runs.
COMMAND_SECONDS = 60.0
COMMAND_LIMIT: ContextVar[asyncio.Timeout | None] = ContextVar("COMMAND_LIMIT", default=None)
#: Seconds for which a command waits for a turn that is being kept, and for the end of a helper that it stops.
_ENDING_SECONDS, _END_SECONDS = 2.0, 10.0
#: Seconds that a cancelled turn gets to clean up before it is left behind.
CANCEL_SECONDS = 0.7
#: Bytes of a conversation in which /sources looks for the last answer.
LOOK_BACK_BYTES = 400_000


class ChatControl:
    """The chats of an agent, and what commands may ask and change there. `AgentLoop` is one and serves them."""

    def __init__(self, services: AgentServices) -> None:
        self._services = services
        self.registry = ToolRegistry()
        self.questions = Questions()
        self._provider = services.provider  # of chats for which no other was chosen
        self.command_seconds = COMMAND_SECONDS
        #: Looks whether the configuration has changed: before each turn, and before a model is chosen.
        self.look_first: Callable[[], Awaitable[None]] = partial(asyncio.sleep, 0)
        self._chats: dict[str, Chat] = {}
        self._retired: list[LLMProvider] = []
        self._report = StatusReport(services, self.registry)
        for name, factory in services.tools.items():
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
        return self._services.model_facts(info)

    async def models(self, session_key: str) -> tuple[ModelOffer, ...]:
        await self.look_first()
        ask = self._services.offered_models
        return await ask(self.provider(session_key)) if ask is not None else ()

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        if self._services.switch_model is None:
            raise UsageError(_("The model cannot be changed here. Start nanobot with --model instead."))
        await self.look_first()
        chat = self._chat(session_key)
        usual = not name and not self._services.model_fixed
        fresh = self._provider if usual else await self._services.switch_model(name)
        if chat.provider is not self._provider:
            self._retired.append(chat.provider)
        chat.provider, chat.window, chat.recalled, chat.chosen = fresh, 0, True, name
        if not self._services.model_fixed:
            await self._services.chats.keep(session_key, "model", name)
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
        switch = self._services.switch_model
        if chat.recalled or switch is None or self._services.model_fixed:
            return
        chat.recalled = True
        if name := await self._services.chats.model(chat.key):
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
            missing = {**missing, "web_search": _("the service of the model searches by itself")}
        offered = tuple((spec.name, _first_line(spec.description.strip()), "") for spec in specs)
        return offered + tuple((name, "", reason) for name, reason in sorted(missing.items()))

    async def undo(self, message: InboundMessage) -> str:
        key = message.address.key
        if message.direct and await take_back(self.store, (await self.store.current(key)).id):
            self._chat(key).unsummed = True
            return _("The summary is taken back: the conversation stands as it was before.")
        if self._services.undo is None:
            raise UsageError(_("There are no files here, so there is nothing to undo."))
        return await self._services.undo(message)

    async def branch(self, message: InboundMessage, parent: SessionInfo, title: str, before: int = 0) -> Branch:
        holder = await self.store.database.hold(parent.id)  # a turn that runs in another process would go on beside it
        if holder:
            raise UsageError(explanations.in_use(holder))
        try:
            await self.check_idle(message.address.key)
            return await self.store.branch(parent, title, before=before, request=message.id, key=message.address.key)
        finally:
            await self.store.database.drop(parent.id)

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
            raise UsageError(
                _("A turn is running here. Wait until it has ended, or end it with /stop; then try again.")
            )

    async def offer(
        self, message: InboundMessage, question: str, choices: tuple[str, ...], *, picker: bool = False
    ) -> int:
        if self.questions.waits(message.address.key):
            raise UsageError(_("Another question waits for its answer here. Answer it first, or /stop leaves it."))
        publish = Publisher(self._services.bus, message.address, f"{message.id or id(message)} asks")
        for one in self._chat(message.key).ahead:
            one.set()
        limit = COMMAND_LIMIT.get()
        if limit is not None:  # a question has a limit of its own
            limit.reschedule(None)
        answer = await self.questions.offer(message, publish, question, choices, picker=picker)
        if limit is not None:
            limit.reschedule(asyncio.get_running_loop().time() + self.command_seconds)
        return choices.index(answer.choice) + 1 if answer.choice in choices else 0

    async def announce_lost(self, channel: str, say: Callable[[Address, str, str], Awaitable[None]]) -> None:
        """Say in the chats of a channel, once, which of their commands ended with an earlier process."""
        folder = self._services.tasks_folder
        if folder is not None and folder.is_dir():
            from nanobot.agent.tools.commands.background import BackgroundTasks

            await BackgroundTasks(folder).announce_lost(channel, say)

    async def tasks(self, session_key: str, wanted: str = "", *, stop: bool = False) -> str:
        helpers, commands = self._services.helpers(), self._services.tasks
        if wanted.startswith("h") and helpers is not None:
            return await helpers.shown(Address.of(session_key).lasting, int(wanted[1:]), self._end if stop else None)
        if wanted and commands is not None:
            return await commands.shown(session_key, int(wanted), stop=stop)
        if commands is None and (helpers is None or wanted):
            raise UsageError(_("No commands are offered here, so none runs in the background. /tools says why."))
        lines = [
            *(await helpers.listed(Address.of(session_key).lasting) if helpers else ()),
            *(commands.lines(session_key) if commands else ()),
        ]
        if not lines:
            return _("Nothing runs here.")
        closing = _(
            "`/tasks <name>` shows one, `/tasks <name> stop` stops it. Commands end with nanobot, helpers go on."
        )
        return "\n".join([_("**In the background**"), "", *lines, "", closing])

    async def _end(self, session_key: str) -> str:
        """End the turn of a helper in the background."""
        chat = self._chat(session_key)
        if not chat.busy:
            return _("it does not run in this process, so that it cannot be stopped here.")
        chat.stop.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await chat.idle.wait()
        return _("stopped.")

    # Turns

    def serving(self, session_key: str) -> tuple[InboundMessage, str] | None:
        turn = self._chat(session_key).turn
        return (turn.message, turn.session or self._chat(session_key).session) if turn is not None else None

    async def cancel(self, session_key: str, turn_id: str = "", *, by: Sender | None = None) -> str:
        chat = self._chat(session_key)
        if by is not None and by.role == "owner" and not (turn_id or chat.taken or chat.inbox):
            chat = await self._answering(chat)
        turn = chat.turn
        # What was taken and has no turn yet is about to get one.
        first = next((one for one in (*chat.taken, *chat.inbox) if by is not None or not one.behind), None)
        waiting = first if turn is None and not turn_id else None
        if waiting is None and (turn is None or turn_id not in ("", turn.id)):
            left = turn is None and self.questions.leave(session_key)
            return _("Left as it is.") if left else _("Nothing is running.")
        asked = (waiting or chat.taken[0]).message.sender
        if by is not None and by.role != "owner" and by.id != asked.id:
            raise UsageError(_("Only the owner and the person who asked may stop this."))
        chat.stop.set()
        if turn is None:
            return _("Stopped before it began.")
        late = turn.closed
        try:
            async with asyncio.timeout(2 * CANCEL_SECONDS + 1):
                await chat.idle.wait()
        except TimeoutError:
            return _("Stopping takes longer than it should; the turn is cancelled and is still being kept.")
        if late:
            return _("Nothing is left to stop: the turn had just ended.")
        results = sum(1 for message in turn.messages if message.role == "tool" and message.error != "cancelled")
        if not results:
            return _("Stopped.")
        return _n(
            "Stopped. {number} result and the text so far are kept.",
            "Stopped. {number} results and the text so far are kept.",
            results,
        )

    async def _answering(self, chat: Chat) -> Chat:
        """The chat in whose turn the session of this one is answered just now; itself where there is none."""
        if not any(one.turn is not None and one.session for one in self._chats.values()):
            return chat
        session = await session_now(self.store, chat)
        others = (one for one in self._chats.values() if session and one.session == session and one.turn is not None)
        return next(others, chat)

    def at_work(self, channel: str) -> tuple[InboundMessage, ...]:
        """The messages of a channel that are answered now or wait for that."""
        chats = [*self._chats.values()]
        known = (entry.message for chat in chats for entry in (*(chat.taken if chat.busy else ()), *chat.inbox))
        return tuple(message for message in known if message.address.channel == channel)

    async def dismiss(self, person: Address, role: Role | None = None, granted: Collection[str] = ()) -> int:
        """End what runs and waits of who may do less from now on; how many messages are not answered for it.

        With a `role` they still have that and what is `granted`: what was begun with no more goes on.
        """

        def ends(message: InboundMessage) -> bool:
            known = (message.address.channel, message.sender.id) == (person.channel, person.chat)
            return known and message.sender.exceeds(role, granted)

        ended = 0
        for chat in [*self._chats.values()]:
            waiting = [one for one in chat.inbox if ends(one.message)]
            for entry in waiting:  # all at once: others are taken from there meanwhile
                chat.inbox.remove(entry)
            begun = chat.taken[0] if chat.busy and chat.taken else None
            if begun is not None and ends(begun.message) and not (begun.done is not None and begun.done.done()):
                chat.stop.set()
                ended += 1
            for entry in waiting:
                finished = TurnFinished("cancelled", "", answered=(entry.message.id,))
                if entry.settle is not None:
                    await entry.settle(entry.message, finished, None)
                entry.finish(finished)
            ended += len(waiting)
        return ended

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
        self._report.facts.append(fact)

    async def status(self, session_key: str, *, everything: bool = True, ask: bool = False) -> str:
        tools = self.tools(key=session_key) if everything else None
        return await self._report.text(self._chat(session_key), tools, ask=ask)

    async def searches(self, *, ask: bool) -> str:
        return await self._report.searches(ask=ask)

    async def state(self, session_key: str) -> ChatState:
        return await self._report.state(self._chat(session_key))

    @property
    def budget(self) -> "Budget | None":
        return self._services.budget(None)

    async def estimate(self, message: InboundMessage, pages: int, requests: int) -> str:
        info = self.provider(message.address.key)
        if self.budget is None or not info.capabilities.language_model:
            return _("it costs nothing: no language model is asked")
        return await self.budget.estimate(message, info, pages=pages, requests=requests)


def _first_line(description: str) -> str:
    """What a tool does in one line; where its server says it, in the server's words."""
    said = unwrap(description.partition("\n")[2])
    return (said.text if said else description).partition("\n")[0]
