"""The agent: a message becomes a turn, one at a time per session, other sessions beside it, commands past everything.

Read on in `opening.py`, which begins a turn, in `runner.py`, which runs its steps and tools, and in `turn.py`, which is
its state.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from itertools import takewhile

from loguru import logger
from msgspec.structs import replace

from nanobot.agent.chats.chat import Begin, Chat, Entry, Settle
from nanobot.agent.chats.control import CANCEL_SECONDS, COMMAND_LIMIT, ChatControl
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.chats.sessions import own_session, session_now, steers
from nanobot.agent.ends import safely
from nanobot.agent.opening import Opening
from nanobot.agent.runner import AgentRunner
from nanobot.agent.tools.registry import ToolFactory
from nanobot.agent.turn import EndedBy, Publisher, Turn, TurnLimits
from nanobot.bus.events import (
    CommandReply,
    InboundMessage,
    Notice,
    TurnFinished,
    TurnStarted,
)
from nanobot.command.router import Match
from nanobot.errors import StoreError, TemporaryError
from nanobot.messages import AssistantMessage, UserMessage
from nanobot.providers.retry import USUAL, Tuning
from nanobot.security.policy import Policy
from nanobot.session.permissions import Permissions
from nanobot.session.rows import Closing
from nanobot.session.store import Record
from nanobot.utils.text import duration
from nanobot.utils.translation import _, speak, told
from nanobot.utils.watchdog import log_chain

Job = asyncio.Task[TurnFinished | str]

#: How many turns run at the same time; the chats beyond wait their turn in order. A turn waits for its model most of
#: the time, so the number bounds what turns hold in memory, and is far from what the processor bears.
CONCURRENCY = 256
#: Seconds past the time limit of a turn after which it is taken for hanging, and for one that sums up.
GRACE_SECONDS, SUMMING_SECONDS = 5.0, 60.0
#: Seconds without any event after which the person is told what the turn waits for.
QUIET_SECONDS = 60.0
#: Seconds that the end of a turn of the terminal gets to be kept; a disk that hangs must not hide the answer.
KEEP_SECONDS = 5.0


class AgentLoop(ChatControl):
    """The agent. Surfaces reach it through the bus (`run`) or by one call (`process`); it meets `TurnControl`.

    `quiet` is how many seconds may pass without an event before a notice; `concurrency` how many turns run at once.
    """

    def __init__(
        self,
        services: AgentServices,
        *,
        limits: TurnLimits | None = None,
        settings: Tuning = USUAL,
        quiet: float = QUIET_SECONDS,
        concurrency: int = CONCURRENCY,
    ) -> None:
        super().__init__(services)
        self.runner = AgentRunner(self.registry, self.questions, services.keep_result)
        self.runner.approvals.permissions = services.permissions
        self._limits = limits or TurnLimits()
        self._settings = settings
        self._quiet = quiet
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._opening = Opening(services)

    def renew(self, limits: TurnLimits, settings: Tuning, policy: Policy, tools: Mapping[str, ToolFactory]) -> None:
        """Begin further turns with these, and with these tools made anew."""
        self._limits, self._settings = limits, settings
        self.runner = self.runner.renewed(tools, policy)

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
        await self._receive(Entry(message, done, settle, begin, alone))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            chat = self._chat(message.key)
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
        """Cancel what runs and wait until it is kept; then close the providers of chats."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2 * CANCEL_SECONDS + 1)
        await self._close_providers()

    # Messages

    async def _receive(self, entry: Entry) -> None:
        """A command is answered now; what else a person says waits for its turn, or steers the one that runs."""
        message = entry.message
        speak(message.sender.language, message.address.key)
        match = self._services.router.match_message(message)
        if match is not None:
            self._obey(match, entry)
        else:
            await self._queue(entry)

    async def _queue(self, entry: Entry) -> None:
        message = entry.message
        chat = self._chat(message.key)
        behind = chat.put(entry)
        if not chat.busy:
            self.questions.leave(chat.key)  # one of a command: who goes on talking has left it
            chat.busy = True
            chat.work = self._start(self._work(chat))
        elif behind or self.questions.spoken(chat.key, message.sender.id):
            return  # for what comes of the command; or it is the answer, which the next step reads
        elif chat.turn is not None and message.sender.id not in chat.turn.told:
            chat.turn.told.add(message.sender.id)
            soon = _("Got it. I will read this at the next step.")
            await chat.turn.publish(Notice(soon if steers(chat, entry) else _("Got it. I will answer after this one.")))

    def _start(self, work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _work(self, chat: Chat) -> None:
        """Serve a chat's messages in order until none waits."""
        try:
            while await chat.waits():
                first = chat.inbox[0]
                speak(first.message.sender.language, first.message.address.key)
                session = own_session(self._services, chat, self._chats.values(), first.message)
                crowded = self._slots.locked()
                async with session, self._room(first):
                    if crowded and chat.session:  # what was found before the wait may be deleted by now
                        chat.session = await session_now(self.store, chat)
                    if chat.inbox:
                        await self._recall(chat.inbox[0])
                    # What was first may have been taken back meanwhile.
                    if chat.inbox and chat.inbox[0].alone <= first.alone:
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
            if entry.message.errand is not None:
                await taken.enter_async_context(self.runner.helper_slots)
            yield

    def amend(self, message: InboundMessage) -> bool:
        """Replace a message of this id that no turn has read yet; False where it is too late."""
        inbox = self._chat(message.key).inbox
        place = next((place for place, one in enumerate(inbox) if one.message.id == message.id), None)
        if place is None:
            return False
        entry = inbox[place] = replace(inbox[place], message=message)
        match = self._services.router.match_message(message)
        if match is not None:
            del inbox[place]
            self._obey(match, entry)
        return True

    async def withdraw(self, session_key: str, *, last: bool = False) -> tuple[str, ...]:
        """Take back the messages of a terminal that no turn has read yet, or the `last` of them; their ids."""
        for message in self._services.bus.pending():
            await self._receive(Entry(message))
        inbox = self._chat(session_key).inbox
        unread = [entry for entry in inbox if entry.done is None][-1 if last else 0 :]
        for entry in unread:
            inbox.remove(entry)
        return tuple(entry.message.id for entry in unread)

    async def leave(self, session_key: str) -> None:
        await self.withdraw(session_key)
        await self.cancel(session_key)
        chat = self._chat(session_key)
        if chat.busy and chat.turn is None:  # nobody waits any more until another chat has left the session
            chat.stop.set()
        await self._forget(chat)

    def _obey(self, match: Match, entry: Entry) -> None:
        """Answer a command. What is said after one that is `ordered`, from now on, is answered after it has replied or
        asked."""
        chat, replied = self._chat(entry.message.key), asyncio.Event()
        ordered = match.command is not None and match.command.ordered
        if ordered:
            chat.ahead.append(replied)

        async def obey() -> None:
            try:
                await self._command(match, entry, replied)
            finally:
                replied.set()
                if ordered:
                    chat.ahead.remove(replied)

        self._start(obey())

    async def _command(self, match: Match, entry: Entry, replied: asyncio.Event) -> None:
        """Answer a command. One that hangs is ended, because somebody waits for it."""
        message = entry.message
        publish = Publisher(self._services.bus, message.shown_at)
        said: list[str] = []
        handed: list[InboundMessage] = []
        key = f"{match.name}:{message.id or id(entry)}"

        async def reply(text: str) -> None:
            said.append(text)
            await publish(CommandReply(match.name, text, key, message.id))
            replied.set()

        async def answer() -> None:
            try:
                async with asyncio.timeout(self.command_seconds) as limit:
                    COMMAND_LIMIT.set(limit)
                    await self._services.router.run(match, message, self, reply, handed.append)
            except TimeoutError:
                time_given = duration(self.command_seconds)
                late = _(
                    "{command} has not ended within {time} and was given up. Try again.",
                    command=f"/{match.name}",
                    time=time_given,
                )
                raise TemporaryError(late) from None

        await self._recall(entry)
        await safely(entry.begun(self.store))
        problem = await safely(answer())
        if handed and not problem:
            await self._queue(replace(entry, message=handed[-1]))
            return
        if problem:
            await reply(problem)
        ended = TurnFinished("failed", "", error=problem) if problem else TurnFinished("completed", "".join(said[-1:]))
        entry.finish(replace(ended, answered=(message.id,)))

    async def _recall(self, entry: Entry) -> None:
        """Whoever asks in a chat of a channel gets the model that was chosen for it before a restart."""
        message = entry.message
        problem = await safely(self._recall_model(self._chat(message.key))) if entry.settle is not None else None
        if problem:
            text = _(
                "The model chosen for this chat cannot be used: {problem} The configured one answers.", problem=problem
            )
            await Publisher(self._services.bus, message.shown_at)(Notice(text, "warning"))

    # A turn

    async def _contained(self, chat: Chat, entry: Entry) -> None:
        """Serve a message; whoever waits for its end hears of it also where nanobot itself breaks."""
        chat.taken = [entry]
        speak(entry.message.sender.language, entry.message.address.key)
        try:
            with logger.contextualize(turn=entry.message.id or "-"):
                problem = await safely(self._serve(chat, entry))
            if problem:
                read = tuple(one.message.id for one in chat.taken)
                for one in chat.taken:
                    one.finish(TurnFinished("failed", "", error=problem, answered=read))
        finally:
            chat.taken = []
            chat.stop.clear()

    async def _serve(self, chat: Chat, entry: Entry) -> None:
        """One turn from its first event to its last. Cancellation for /stop is swallowed here and nowhere else.

        A durable turn that is cancelled with the process is left as it stands; the next process goes on with it.
        """
        message, durable = entry.message, entry.settle is not None
        session, records = await entry.begun(self.store)
        if entry.settle is not None and _is_answered(message, records):
            await entry.settle(message, None, None)
            entry.finish(TurnFinished("completed", "", answered=(message.id,)))
            return
        await self.look_first()
        await self._renew_chosen(chat)
        turn = self._new_turn(chat, entry)
        turn.session = session
        chat.turn, chat.taken = turn, [entry]
        chat.idle.clear()
        await turn.emit(TurnStarted(turn.provider.info.model, datetime.now(UTC), message.id))
        if message.note and not durable:  # else it stands in the answer
            await turn.emit(Notice(message.note))
        job = asyncio.create_task(safely(self._run(chat, turn, records)))
        stop = asyncio.create_task(chat.stop.wait())
        try:
            await self._watch(turn, job, stop)
            await self._finish(chat, turn, await self._outcome(turn, job, "stop" if chat.stop.is_set() else "failure"))
        except asyncio.CancelledError:
            if durable:
                job.cancel()
                await asyncio.wait({job}, timeout=CANCEL_SECONDS)
                turn.closed = True
            else:
                await self._finish(chat, turn, await self._outcome(turn, job, "restart"))
            raise
        finally:
            stop.cancel()
            if turn.held:
                await safely(self.store.database.drop(turn.session))
            chat.turn = None
            chat.idle.set()

    def _new_turn(self, chat: Chat, entry: Entry) -> Turn:
        message, durable = entry.message, entry.settle is not None
        turn_id = message.id if durable and message.id else uuid.uuid4().hex[:12]
        return Turn(
            turn_id,
            message,
            chat.provider,
            Publisher(self._services.bus, message.shown_at, turn_id),
            self._limits if message.errand is None else self._limits.of_helper(self.runner.helpers),
            self._settings,
            durable,
            lambda: self._steering(chat),
            lambda: bool(self._unread(chat)),
            None if message.aside else self.store,
            self._services.budget,
            window=chat.window,
            notes=[message.note] if message.note else [],
        )

    async def _run(self, chat: Chat, turn: Turn, records: tuple[Record, ...]) -> TurnFinished:
        """Open a turn and run its steps."""
        runner = self.runner
        ended = await self._opening.open(chat, turn, records)
        return ended if ended is not None else await runner.run(turn)

    @staticmethod
    def _unread(chat: Chat) -> list[Entry]:
        """What the turn of a chat is to read at its next step."""
        return [one for one in takewhile(lambda entry: not entry.behind, chat.inbox) if steers(chat, one)]

    def _steering(self, chat: Chat) -> tuple[UserMessage, ...]:
        """What the person of the turn typed since the last step.

        What others typed waits: nobody speaks in the turn of somebody else; and nothing is read by a turn that runs
        alone.
        """
        read = self._unread(chat)
        for entry in read:
            chat.inbox.remove(entry)
        chat.taken.extend(read)
        if chat.turn is not None:
            chat.turn.granted = chat.turn.granted.intersection(*(entry.message.sender.granted for entry in read))
        fresh = [entry.message for entry in read if entry.message.id not in chat.steered]
        return tuple(self._services.context.user_message(message, steer=True) for message in fresh)

    async def _watch(self, turn: Turn, job: Job, stop: "asyncio.Task[bool]") -> None:
        """Wait until the turn ends, is stopped or hangs; tell the person where nothing was heard for long."""
        publish = turn.publish
        while (
            left := turn.limits.max_seconds + (SUMMING_SECONDS if turn.concluding else GRACE_SECONDS) - turn.seconds
        ) > 0:
            silence = time.monotonic() - publish.last
            pause = min(left, max(0.0, self._quiet - silence) or self._quiet)
            done, _pending = await asyncio.wait({job, stop}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            asks = turn.unanswered or self.questions.waits(turn.message.address.key)
            if not asks and time.monotonic() - publish.last >= self._quiet:
                since = duration(turn.seconds)
                text = _("Still working after {time}: {waits}. /stop ends it.", time=since, waits=told(turn.waits))
                await publish(Notice(text))

    async def _outcome(self, turn: Turn, job: Job, by: EndedBy) -> TurnFinished:
        """How a turn ended; one that has not is cancelled, and its conversation closed whether it obeys or not."""
        if not job.done():
            waits = turn.overdue or turn.waits
            if by == "failure":
                log_chain(f"turn {turn.id}", job)
            job.cancel()
            await asyncio.wait({job}, timeout=CANCEL_SECONDS)
        if job.done() and not job.cancelled():
            outcome = job.result()
            if not isinstance(outcome, str):
                return outcome
            turn.close("failure")
            return turn.finished("failed", "", outcome)
        turn.closed = True
        partial = turn.shown
        turn.close(by)
        if by != "failure":
            return turn.finished("cancelled", partial)
        error = _(
            "The turn was ended after {time}, past its time limit, because it hung {waits} and could not be stopped in "
            "order. Ask again; agents.defaults.maxTurnSeconds is the limit.",
            time=duration(turn.seconds),
            waits=told(waits),
        )
        return turn.finished("failed", partial, error, temporary=True)

    async def _finish(self, chat: Chat, turn: Turn, finished: TurnFinished) -> None:
        """Keep the end of a turn, and tell it to the surface and to whoever awaits it."""
        turn.closed = True
        if turn.provider is chat.provider:
            chat.window = turn.window
        read_before = [entry for entry in chat.inbox if entry.settle and entry.message.id in chat.steered]
        for entry in read_before:  # in an earlier process: they are answered with this turn
            chat.inbox.remove(entry)
        chat.taken.extend(read_before)
        finished = replace(finished, answered=tuple(entry.message.id for entry in chat.taken))
        problem = await safely(self._keep(chat, turn, finished))
        if problem:
            logger.error("the end of turn {} could not be kept: {}", turn.id, problem)
        await turn.publish(finished)
        if self._services.turn_ended is not None:
            self._services.turn_ended(turn.message, turn.session, finished)
        for entry in chat.taken:
            entry.finish(finished)

    async def _keep(self, chat: Chat, turn: Turn, finished: TurnFinished) -> None:
        """Make the end of a turn durable, with what it answers where that is durable too."""
        messages = turn.costs() if turn.message.aside else turn.unsaved()
        closing = Closing(turn.session, messages, turn.id) if turn.held else None
        for entry in chat.taken:
            if entry.settle is not None:
                await entry.settle(entry.message, finished, closing)
                return
        if closing is not None and closing.messages:
            try:
                async with asyncio.timeout(KEEP_SECONDS):
                    await self.store.append(turn.session, closing.messages, turn=turn.id)
            except TimeoutError:
                text = _("The disk has not answered for {seconds:.0f} seconds.", seconds=KEEP_SECONDS)
                raise StoreError(text) from None

    # What people allow

    async def approve(self, session_key: str, key: str, choice: str, text: str = "", *, anywhere: bool = False) -> str:
        return await self.runner.approvals.answer(session_key, key, choice, text, anywhere=anywhere)

    @property
    def permissions(self) -> Permissions:
        return self.runner.approvals.permissions


def _is_answered(message: InboundMessage, records: tuple[Record, ...]) -> bool:
    """Whether another turn read this message on its way and has ended: its answer is that of this message, too.

    The store knows it, also where the process was killed before the message was settled.
    """
    if not records or message.id in {records[0].turn, records[-1].turn}:
        return False
    last = records[-1].message
    return isinstance(last, AssistantMessage) and bool(last.text) and not last.calls
