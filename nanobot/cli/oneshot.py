"""One question, one answer, one exit code."""

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.bus.events import (
    TERMINAL,
    Address,
    InboundMessage,
    MessageBus,
    Notice,
    OutboundMessage,
    Sender,
    TurnFinished,
)
from nanobot.cli.options import FAILED, INTERRUPTED, TEMPORARY, TIMED_OUT
from nanobot.cli.output import Writer
from nanobot.messages import Media
from nanobot.utils.translation import _

if TYPE_CHECKING:
    from nanobot.channels.base import Agent

INTERRUPT = (signal.SIGINT,)
HANG_UP = (signal.SIGTERM, signal.SIGHUP)
#: Seconds that a cancelled turn gets to close its conversation.
GRACE = 5.0
Process = Callable[[InboundMessage], Coroutine[None, None, TurnFinished]]
_TICK = 0.15


class SessionChoice(Struct, frozen=True):
    """`resume` names a session, `go_on` means the last one, neither a fresh one. `kept`: it outlives the program."""

    resume: str = ""
    go_on: bool = False
    kept: bool = True


class UserPrompt(Struct, frozen=True):
    """`text` was typed, `context` came through the pipe or from files, as `media` did.

    `timeout` is in seconds; None means the turn's own limits.
    """

    text: str
    context: str = ""
    session: SessionChoice = field(default_factory=SessionChoice)
    timeout: float | None = None
    media: tuple[Media, ...] = ()


class _Watch:
    """Follows the events of the turn until the mark that is published after its end."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.mark = Notice("")
        self.finished: TurnFinished | None = None

    async def follow(self, events: AsyncIterator[OutboundMessage]) -> None:
        async for message in events:
            if message.event is self.mark:
                return
            if isinstance(message.event, TurnFinished):
                self.finished = message.event
            self.writer.event(message.event)

    async def tick(self) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(_TICK)
            self.writer.tick(loop.time() - begun)


@contextmanager
def on_signal(numbers: Sequence[signal.Signals], act: Callable[[int], None]) -> Iterator[None]:
    """Call `act(number)` for each of these signals while the block runs; afterwards they do what they did before."""
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        loop.add_signal_handler(number, act, int(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def ask(
    agent: "Agent", question: UserPrompt, writer: Writer, ended: Callable[[TurnFinished], None] | None = None
) -> int:
    """Ask, write what happens, return the exit code. Ctrl-C and SIGTERM cancel the turn, which keeps what it has.

    `ended` is told how a turn of a recording ended: such an answer is not sent back to the model to be mended, for not
    every replay could do the same.
    """
    choice = question.session
    session = await agent.sessions.open(TERMINAL.key, choice.resume, go_on=choice.go_on, once=True)
    own = replace(TERMINAL, thread=f"process-{os.getpid()}")  # others may be asking beside it
    await agent.sessions.resume(own.key, session.id)
    writer.started(session.id, agent.provider_info.model)
    try:
        return await answered(agent.bus, agent.loop.process, question, writer, ended, own)
    finally:
        if (now := await agent.sessions.current(own.key)).id != session.id:  # a command has led elsewhere
            await agent.sessions.resume(TERMINAL.key, now.id)


async def answered(
    bus: MessageBus,
    process: Process,
    question: UserPrompt,
    writer: Writer,
    ended: Callable[[TurnFinished], None] | None = None,
    address: Address = TERMINAL,
) -> int:
    """The same in the session that the agent is in at this address; `process` runs the turn to its end."""
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(128 + number)

    message, watch = _message(question, address, revisable=writer.revisable and ended is None), _Watch(writer)
    with on_signal((*INTERRUPT, *HANG_UP), stop):
        result, late = await _answer(bus, process(message), watch, stopped, question.timeout)
    code = stopped.result() if stopped.done() else TIMED_OUT if late else exit_code(result)
    result = _explained(result, code, question.timeout)
    if ended is not None:
        ended(result)
    writer.finished(result, code)
    return code


def _message(question: UserPrompt, address: Address, *, revisable: bool) -> InboundMessage:
    return InboundMessage(
        address,
        Sender("local", role="owner"),
        question.text,
        question.media,
        id=uuid.uuid4().hex,
        context=question.context,
        direct=True,
        revisable=revisable,
    )


async def _answer(
    bus: MessageBus,
    turn: Coroutine[None, None, TurnFinished],
    watch: _Watch,
    stopped: "asyncio.Future[int]",
    timeout: float | None,
) -> tuple[TurnFinished, bool]:
    """How the turn ended, and whether the time for it, in seconds, was over or it was stopped before."""
    events = bus.subscribe(TERMINAL.channel)
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(watch.tick())
        following = group.create_task(watch.follow(events))
        answer = group.create_task(turn)
        first: set[asyncio.Future[TurnFinished] | asyncio.Future[int]] = {answer, stopped}
        await asyncio.wait(first, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        late = not answer.done()
        if late:
            answer.cancel()
            await asyncio.wait({answer}, timeout=GRACE)
        await bus.publish_outbound(OutboundMessage(TERMINAL, watch.mark))
        await asyncio.wait({following}, timeout=GRACE)
        ticking.cancel()
        following.cancel()
    if answer.cancelled():
        return watch.finished or TurnFinished("cancelled", ""), late
    return answer.result(), late


def exit_code(result: TurnFinished) -> int:
    """0 for an answer, 75 where trying again may work, 130 for a stopped turn, else 1."""
    if result.outcome == "completed":
        return 0
    if result.outcome == "cancelled":
        return INTERRUPTED
    return TEMPORARY if result.temporary else FAILED


def _explained(result: TurnFinished, code: int, timeout: float | None) -> TurnFinished:
    if code == TIMED_OUT:
        error = _(
            "no answer within {seconds:g} s (--timeout). What was found so far is kept: nanobot agent --continue",
            seconds=timeout,
        )
        return replace(result, outcome="cancelled", error=error, temporary=True)
    if code >= INTERRUPTED - 1 and not result.error:
        return replace(result, outcome="cancelled", error=_("interrupted."))
    return result
