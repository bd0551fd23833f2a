"""One turn of a chat from its first event to its last: run, watch, stop, keep."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from loguru import logger

from nanobot.agent import words
from nanobot.agent.addresses import KnownAddresses
from nanobot.agent.chat import Chat, Entry, Publisher
from nanobot.agent.history import seen_by, speakers
from nanobot.agent.limits import ModelSettings
from nanobot.agent.runner import AgentRunner
from nanobot.agent.services import AgentServices
from nanobot.agent.turn import EndedBy, Past, Turn, TurnResult, TurnTask
from nanobot.bus.events import InboundMessage, Notice, TurnFinished, TurnStarted
from nanobot.errors import NanobotError, StoreError
from nanobot.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from nanobot.session.ledger import Closing
from nanobot.session.store import Record, request_of
from nanobot.utils.marks import cited
from nanobot.utils.text import duration, shorten, squeeze, strip_unsafe
from nanobot.utils.watchdog import log_chain

T = TypeVar("T")

#: Seconds that a cancelled turn gets to clean up before it is left behind.
CANCEL_SECONDS = 0.7
#: Seconds past the time limit of a turn after which it is taken for hanging, and for one that sums up.
GRACE_SECONDS, SUMMING_SECONDS = 5.0, 60.0
#: Seconds between two looks whether another process has left the session.
HOLD_SECONDS = 0.5
#: Seconds without any event after which the person is told what the turn waits for.
QUIET_SECONDS = 60.0
#: Seconds that the end of a turn of the terminal gets to be kept; a disk that hangs must not hide the answer.
KEEP_SECONDS = 5.0
#: What a token of the window may take in the store: enough to never leave out what would fit.
STORED_BYTES_PER_TOKEN = 8
_TITLE_WIDTH = 60


class TurnService:
    """Serves turns. `quiet` is how many seconds may pass without an event before a notice says what goes on."""

    def __init__(
        self, services: AgentServices, runner: AgentRunner, settings: ModelSettings, quiet: float = QUIET_SECONDS
    ) -> None:
        self._services = services
        self._runner = runner
        self._limits = runner.limits
        self._settings = settings
        self._quiet = quiet

    async def serve(self, chat: Chat, entry: Entry) -> None:
        """One turn from its first event to its last. Cancellation for /stop is swallowed here and nowhere else.

        A durable turn that is cancelled with the process is left as it stands; the next process goes on with it.
        """
        turn = Turn(self._limits, entry.message.id if entry.settle else "")
        publish = Publisher(self._services.bus, entry.message.address, turn.id)
        chat.turn, chat.taken = turn, [entry]
        chat.idle.clear()
        await publish(TurnStarted(chat.provider.info.model, datetime.now(UTC), entry.message.id))
        job = asyncio.create_task(safely(self._run(chat, turn, entry, publish)))
        stop = asyncio.create_task(chat.stop.wait())
        try:
            await self._watch(turn, publish, job, stop)
            if job.done():
                outcome = job.result()
                if isinstance(outcome, str):
                    turn.close("failure")
            else:
                by: EndedBy = "stop" if chat.stop.is_set() else "failure"
                outcome = await self._halt(turn, job, by)
            await self._finish(chat, turn, publish, outcome)
        except asyncio.CancelledError:
            if entry.settle is None:
                outcome = await self._halt(turn, job, "restart")
                await self._finish(chat, turn, publish, outcome)
            else:
                job.cancel()
                await asyncio.wait({job}, timeout=CANCEL_SECONDS)
                turn.closed = True
            raise
        finally:
            stop.cancel()
            if turn.held:
                await safely(self._services.store.drop(turn.session))
            chat.turn = None
            chat.stop.clear()
            chat.idle.set()

    async def answered(self, message: InboundMessage) -> bool:
        """Whether another turn read this message on its way and has ended: its answer is that of this message, too.

        The store knows it, also where the process was killed before the message was settled.
        """
        _, records = await self._services.store.begun(message.id)
        if not records or message.id in {records[0].turn, records[-1].turn}:
            return False
        last = records[-1].message
        return isinstance(last, AssistantMessage) and bool(last.text) and not last.calls

    async def _watch(
        self, turn: Turn, publish: Publisher, job: "asyncio.Task[TurnResult | str]", stop: "asyncio.Task[object]"
    ) -> None:
        """Wait until the turn ends, is stopped or hangs; tell the person where nothing was heard for long."""
        while (left := self._left(turn)) > 0:
            silence = time.monotonic() - publish.last
            pause = min(left, max(0.0, self._quiet - silence) or self._quiet)
            done, _ = await asyncio.wait({job, stop}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            if time.monotonic() - publish.last >= self._quiet:
                since = duration(turn.budget.seconds)
                await publish(Notice(f"Still working after {since}: {turn.waits}. /stop ends it."))

    def _left(self, turn: Turn) -> float:
        grace = SUMMING_SECONDS if turn.concluding else GRACE_SECONDS
        return self._limits.max_seconds + grace - turn.budget.seconds

    async def _run(self, chat: Chat, turn: Turn, entry: Entry, publish: Publisher) -> TurnResult:
        store, context, message = self._services.store, self._services.context, entry.message
        turn.session, past = await self._begun(chat, turn, entry)
        if not await self._hold(turn, entry, publish):
            return TurnResult("failed", "", words.in_use(turn.behind), temporary=True)
        turn.hear(message.sender.role, *speakers(past.messages))

        async def save(messages: tuple[Message, ...]) -> None:
            await store.append(turn.session, messages, turn=turn.id)

        async def intend(call: ToolCall) -> None:
            await store.intend(turn.session, call, turn=turn.id)

        turn.save = save
        window = chat.window or chat.provider.info.capabilities.window
        before = await store.history(turn.session, size=window * STORED_BYTES_PER_TOKEN, before=past.first)
        system = context.system(window, personal=message.direct and turn.authority == "owner")
        task = TurnTask(
            chat.provider,
            (context.user_message(message),),
            publish,
            seen_by(turn.authority, before, turn.session),
            system=system,
            tail=context.tail(message.address, message.sender),
            session=turn.session,
            address=message.address,
            sender=message.sender,
            settings=self._settings,
            save=save,
            steering=lambda: self._steering(chat),
            window=chat.window,
            privacy=self._services.privacy is not None and await self._services.privacy(chat.key),
            intend=intend,
            patient=entry.settle is not None,
            past=past,
            hold_end=True,
            revisable=message.revisable,
            addresses=_addresses(chat, turn.session, system, (*before, *past.messages)),
        )
        return await self._runner.run(task, turn)

    async def _begun(self, chat: Chat, turn: Turn, entry: Entry) -> tuple[str, Past]:
        """The session of a turn and what an earlier process left of it."""
        store = self._services.store
        if entry.settle is not None:
            session, records = await store.begun(turn.id)
            if records:
                past = _past(records)
                chat.steered.update({request_of(one) for one in past.messages} - {"", turn.id})
                logger.info("turn {} goes on after {} messages", turn.id, len(past.messages))
                return session, past
        current = await store.current(chat.key)
        if not current.title:
            await store.rename(current.id, _title(entry.message))
        return current.id, Past()

    async def _hold(self, turn: Turn, entry: Entry, publish: Publisher) -> bool:
        """Take the session, so that no other process and no other chat serves it; what is durable waits for it."""
        while holder := await self._take(turn):
            if not turn.behind:
                turn.behind = holder
                if entry.settle is not None:
                    await publish(Notice(words.waits_for(holder)))
            if entry.settle is None:
                return False
            await asyncio.sleep(HOLD_SECONDS)
        turn.behind = ""
        return True

    async def _take(self, turn: Turn) -> str:
        """Who has the session; empty where this turn has it now. A turn that is cancelled meanwhile gives it back."""
        taking = asyncio.ensure_future(self._services.store.hold(turn.session))
        try:
            await asyncio.shield(taking)
        finally:
            turn.held = not await taking
        return taking.result()

    async def _steering(self, chat: Chat) -> tuple[UserMessage, ...]:
        """What the person of the turn typed since the last step, up to their first command; that waits for its end.

        What others typed waits, too: nobody speaks in the turn of somebody else; and nothing is read by a turn that
        runs alone.
        """
        if chat.taken[0].alone:
            return ()
        read: list[Entry] = []
        person = chat.taken[0].message.sender.id
        for entry in [one for one in chat.inbox if one.message.sender.id == person]:
            if self._services.router.match_message(entry.message) is not None:
                break
            chat.inbox.remove(entry)
            chat.taken.append(entry)
            read.append(entry)
        fresh = [entry.message for entry in read if entry.message.id not in chat.steered]
        return tuple(self._services.context.user_message(message, steer=True) for message in fresh)

    async def _halt(self, turn: Turn, job: "asyncio.Task[TurnResult | str]", by: EndedBy) -> TurnResult | str:
        """Cancel a turn, wait a moment, and close its conversation whether it obeyed or not."""
        waits = turn.overdue or turn.waits
        if by == "failure":
            log_chain(f"turn {turn.id}", job)
        job.cancel()
        await asyncio.wait({job}, timeout=CANCEL_SECONDS)
        if job.done() and not job.cancelled():
            return job.result()
        turn.closed = True
        partial = turn.shown
        turn.close(by)
        if by == "failure":
            error = (
                f"The turn was ended after {duration(turn.budget.seconds)}, past its time limit, because it hung "
                f"{waits} and could not be stopped in order. Ask again; agents.defaults.maxTurnSeconds is the limit."
            )
            return TurnResult("failed", partial, error, temporary=True)
        return TurnResult("cancelled", partial)

    async def _keep(self, chat: Chat, turn: Turn, finished: TurnFinished) -> None:
        """Make the end of a turn durable, with what it answers where that is durable too."""
        durable = next((entry for entry in chat.taken if entry.settle is not None), None)
        closing = Closing(turn.session, turn.unsaved(), turn.id) if turn.held else None
        if durable is not None and durable.settle is not None:
            problem = await safely(durable.settle(durable.message, finished, closing))
        elif turn.save is not None and closing is not None and closing.messages:
            problem = await safely(_within(KEEP_SECONDS, turn.save(closing.messages)))
        else:
            return
        if problem:
            logger.error("the end of turn {} could not be kept: {}", turn.id, problem)

    async def _finish(self, chat: Chat, turn: Turn, publish: Publisher, outcome: TurnResult | str) -> None:
        """Tell the end of a turn, to the surface and to whoever awaits it."""
        result = outcome if isinstance(outcome, TurnResult) else TurnResult("failed", "", outcome)
        turn.closed = True
        chat.window = result.window or chat.window
        answers = [message for message in turn.messages if isinstance(message, AssistantMessage)]
        chat.context_tokens = next((one.usage.input for one in reversed(answers) if one.content and one.usage.input), 0)
        read_before = [entry for entry in chat.inbox if entry.settle and entry.message.id in chat.steered]
        for entry in read_before:  # in an earlier process: they are answered with this turn
            chat.inbox.remove(entry)
        chat.taken.extend(read_before)
        finished = TurnFinished(
            result.outcome,
            result.text,
            turn.budget.usage,
            cited(result.text, turn.sources.all),
            model=result.model or chat.provider.info.model,
            seconds=turn.budget.seconds,
            steps=turn.budget.steps,
            error=result.error,
            temporary=result.temporary,
            answered=tuple(entry.message.id for entry in chat.taken),
            notes=tuple(turn.notes),
            citations=result.citations,
        )
        await self._keep(chat, turn, finished)
        await publish(finished)
        for entry in chat.taken:
            entry.finish(finished)


async def _within(seconds: float, work: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        raise StoreError(f"The disk has not answered for {seconds:.0f} seconds.") from None


def _addresses(chat: Chat, session: str, system: str, history: tuple[Message, ...]) -> KnownAddresses:
    """What was named in this session; read from its prompt and history where this process has not served it."""
    if chat.addresses.session != session:
        chat.addresses = KnownAddresses(session)
        chat.addresses.take(history)
        chat.addresses.hear(system)
    return chat.addresses


def _past(records: Sequence[Record]) -> Past:
    messages = [record.message for record in records if record.kind == "message"]
    last = max((place for place, one in enumerate(records) if one.message.role == "assistant"), default=0)
    begun = (one.message for one in records[last:] if one.kind == "intent")
    calls = frozenset(one.call_id for one in begun if isinstance(one, ToolMessage))
    return Past(tuple(messages), calls, records[0].seq)


async def safely(work: Awaitable[T]) -> T | str:
    """The turn boundary: what goes wrong in a turn or a command becomes a sentence and ends nothing else."""
    try:
        return await work
    except NanobotError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a broken turn must not take the others with it
        logger.opt(exception=error).error("a turn or a command failed")
        return f"Something in nanobot broke ({type(error).__name__}). The log has the details. Ask again."


def _title(message: InboundMessage) -> str:
    text = squeeze(strip_unsafe(message.content))
    return shorten(text, _TITLE_WIDTH) if text else "(no text)"
