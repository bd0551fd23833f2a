"""One turn of a chat from its first event to its last: run, watch, stop, keep."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from loguru import logger

from nanobot.agent.chat import Chat, Entry, Publisher
from nanobot.agent.limits import ModelSettings
from nanobot.agent.runner import AgentRunner
from nanobot.agent.services import AgentServices
from nanobot.agent.status import duration
from nanobot.agent.turn import EndedBy, Turn, TurnResult, TurnTask
from nanobot.bus.events import InboundMessage, Notice, TurnFinished, TurnStarted
from nanobot.errors import NanobotError
from nanobot.messages import AssistantMessage, Message, UserMessage
from nanobot.results import Source
from nanobot.utils.marks import find_marks
from nanobot.utils.text import shorten, squeeze, strip_unsafe

T = TypeVar("T")

#: Seconds that a cancelled turn gets to clean up before it is left behind.
CANCEL_SECONDS = 0.7
#: Seconds past the time limit of a turn after which it is taken for hanging.
GRACE_SECONDS = 60.0
#: Seconds without any event after which the person is told what the turn waits for.
QUIET_SECONDS = 60.0
#: Seconds that the check of an answer's citations may take.
CHECK_SECONDS = 10.0
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
        """One turn from its first event to its last. Cancellation for /stop is swallowed here and nowhere else."""
        turn = Turn(self._limits)
        publish = Publisher(self._services.bus, entry.message.address, turn.id)
        chat.turn, chat.taken = turn, [entry]
        chat.stop.clear()
        chat.idle.clear()
        await publish(TurnStarted(chat.provider.info.model, datetime.now(UTC), entry.message.id))
        job = asyncio.create_task(safely(self._run(chat, turn, entry.message, publish)))
        stop = asyncio.create_task(chat.stop.wait())
        try:
            await self._watch(turn, publish, job, stop)
            if job.done():
                outcome = job.result()
                if isinstance(outcome, str):
                    await self._keep(turn, "failure")
            else:
                by: EndedBy = "stop" if chat.stop.is_set() else "failure"
                outcome = await self._halt(turn, job, by)
            await self._finish(chat, turn, publish, outcome)
        except asyncio.CancelledError:
            outcome = await self._halt(turn, job, "restart")
            await self._finish(chat, turn, publish, outcome)
            raise
        finally:
            stop.cancel()
            chat.turn = None
            chat.idle.set()

    async def _watch(
        self, turn: Turn, publish: Publisher, job: "asyncio.Task[TurnResult | str]", stop: "asyncio.Task[object]"
    ) -> None:
        """Wait until the turn ends, is stopped or hangs; tell the person where nothing was heard for long."""
        end = time.monotonic() + self._limits.max_seconds + GRACE_SECONDS
        while (left := end - time.monotonic()) > 0:
            silence = time.monotonic() - publish.last
            pause = min(left, max(0.0, self._quiet - silence) or self._quiet)
            done, _ = await asyncio.wait({job, stop}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
            if time.monotonic() - publish.last >= self._quiet:
                doing = turn.doing[-1] if turn.open is not None and turn.doing else "waiting for the model"
                await publish(Notice(f"Still working after {duration(turn.budget.seconds)}: {doing}. /stop ends it."))

    async def _run(self, chat: Chat, turn: Turn, message: InboundMessage, publish: Publisher) -> TurnResult:
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
            system=context.system(window),
            tail=context.tail(message.address, message.sender),
            session=session.id,
            address=message.address,
            sender=message.sender,
            settings=self._settings,
            save=save,
            steering=lambda: self._steering(chat),
            window=chat.window,
            privacy=self._services.privacy is not None and await self._services.privacy(chat.key),
        )
        return await self._runner.run(task, turn)

    def _steering(self, chat: Chat) -> tuple[UserMessage, ...]:
        """What was typed since the last step, up to the first command; that waits for the end of the turn."""
        read: list[UserMessage] = []
        while chat.inbox and self._services.router.match(chat.inbox[0].message.content) is None:
            entry = chat.inbox.popleft()
            chat.taken.append(entry)
            read.append(self._services.context.user_message(entry.message, steer=True))
        return tuple(read)

    async def _halt(self, turn: Turn, job: "asyncio.Task[TurnResult | str]", by: EndedBy) -> TurnResult | str:
        """Cancel a turn, wait a moment, and close its conversation whether it obeyed or not."""
        job.cancel()
        await asyncio.wait({job}, timeout=CANCEL_SECONDS)
        if job.done() and not job.cancelled():
            return job.result()
        turn.closed = True
        partial = "".join(turn.partial).strip()
        await self._keep(turn, by)
        if by == "failure":
            error = f"The turn hung for more than {duration(turn.budget.seconds)} and was ended. Ask again."
            return TurnResult("failed", partial, error, temporary=True)
        return TurnResult("cancelled", partial)

    async def _keep(self, turn: Turn, by: EndedBy) -> None:
        """Close the conversation of a turn that broke off and make the rest of it durable."""
        turn.close(by)
        if turn.save is not None:
            problem = await safely(turn.save(turn.unsaved()))
            if problem:
                logger.error("the end of turn {} could not be kept: {}", turn.id, problem)

    async def _finish(self, chat: Chat, turn: Turn, publish: Publisher, outcome: TurnResult | str) -> None:
        """Tell the end of a turn, to the surface and to whoever awaits it."""
        result = outcome if isinstance(outcome, TurnResult) else TurnResult("failed", "", outcome)
        turn.closed = True
        chat.window = result.window or chat.window
        answers = [message for message in turn.messages if isinstance(message, AssistantMessage)]
        chat.context_tokens = next((one.usage.input for one in reversed(answers) if one.content and one.usage.input), 0)
        text = await self._checked(chat, turn, publish, result)
        finished = TurnFinished(
            result.outcome,
            text,
            turn.budget.usage,
            _cited(text, turn.sources.all),
            model=result.model or chat.provider.info.model,
            seconds=turn.budget.seconds,
            steps=turn.budget.steps,
            error=result.error,
            temporary=result.temporary,
            answered=tuple(entry.message.id for entry in chat.taken),
        )
        await publish(finished)
        for entry in chat.taken:
            entry.finish(finished)

    async def _checked(self, chat: Chat, turn: Turn, publish: Publisher, result: TurnResult) -> str:
        """The answer without citations that its pages do not support; a person is told of those taken out."""
        if result.outcome == "cancelled" or not find_marks(result.text):
            return result.text
        from nanobot.agent.citations.check import check

        asked = "\n".join(f"{entry.message.content}\n{entry.message.context}" for entry in chat.taken)
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                checked = await safely(asyncio.to_thread(check, result.text, turn.sources, asked))
        except TimeoutError:
            checked = ""
        if isinstance(checked, str):
            await publish(Notice("The citations of this answer could not be checked.", "warning"))
            return result.text
        if checked.notice:
            await publish(Notice(checked.notice, "warning"))
        return checked.text


def _cited(text: str, sources: Sequence[Source]) -> tuple[Source, ...]:
    if not sources:
        return ()
    from nanobot.agent.citations.check import cited

    return cited(text, sources)


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
