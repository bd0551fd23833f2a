"""One question, one answer, one exit code."""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.bus.events import Address, InboundMessage, Notice, OutboundMessage, Sender, TurnFinished
from nanobot.cli.options import FAILED, INTERRUPTED, TEMPORARY, TIMED_OUT
from nanobot.cli.output import Writer
from nanobot.errors import StoreError, UsageError
from nanobot.messages import Media
from nanobot.session.store import SessionInfo, SessionStore

if TYPE_CHECKING:
    from nanobot.channels.base import Agent

TERMINAL = Address("terminal", "local")
INTERRUPT = (signal.SIGINT,)
HANG_UP = (signal.SIGTERM, signal.SIGHUP)
#: Seconds that a cancelled turn gets to close its conversation.
GRACE = 5.0
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


class _Ending(Struct):
    """Why the wait for the answer ended early: an exit code, or 0."""

    code: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self, number: int) -> None:
        self.code = self.code or 128 + number
        self.asked.set()


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


async def choose_session(store: SessionStore, choice: SessionChoice) -> SessionInfo:
    """Make the chosen session the terminal's current one. Raises `UsageError` when there is no such session."""
    if choice.resume:
        try:
            return await store.resume(TERMINAL.key, choice.resume)
        except StoreError as error:
            raise UsageError(f"{error} (That is a command inside `nanobot agent`.)") from error
    if choice.go_on:
        return await store.current(TERMINAL.key)
    return await store.start(TERMINAL.key)


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


async def ask(agent: "Agent", question: UserPrompt, writer: Writer) -> int:
    """Ask, write what happens, return the exit code. Ctrl-C and SIGTERM cancel the turn, which keeps what it has."""
    session = await choose_session(agent.sessions, question.session)
    writer.started(session.id, agent.provider_info.model)
    ending = _Ending()
    with on_signal((*INTERRUPT, *HANG_UP), ending.ask):
        result = await _answer(agent, question, _Watch(writer), ending)
    code = ending.code or exit_code(result)
    writer.finished(_explained(result, code, question.timeout), code)
    return code


async def _answer(agent: "Agent", question: UserPrompt, watch: _Watch, ending: _Ending) -> TurnFinished:
    events = agent.bus.subscribe(TERMINAL.channel)
    message = InboundMessage(
        TERMINAL,
        Sender("local", role="owner"),
        question.text,
        question.media,
        id=uuid.uuid4().hex,
        context=question.context,
        direct=True,
        revisable=watch.writer.revisable,
    )
    async with asyncio.TaskGroup() as group:
        ticking = group.create_task(watch.tick())
        following = group.create_task(watch.follow(events))
        asked = group.create_task(ending.asked.wait())
        answer = group.create_task(agent.loop.process(message))
        await asyncio.wait({answer, asked}, timeout=question.timeout, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            ending.code = ending.code or TIMED_OUT
            answer.cancel()
            await asyncio.wait({answer}, timeout=GRACE)
        await agent.bus.publish_outbound(OutboundMessage(TERMINAL, watch.mark))
        await asyncio.wait({following}, timeout=GRACE)
        for task in (ticking, following, asked):
            task.cancel()
    if answer.cancelled():
        return watch.finished or TurnFinished("cancelled", "")
    return answer.result()


def exit_code(result: TurnFinished) -> int:
    """0 for an answer, 75 where trying again may work, 130 for a stopped turn, else 1."""
    if result.outcome == "completed":
        return 0
    if result.outcome == "cancelled":
        return INTERRUPTED
    return TEMPORARY if result.temporary else FAILED


def _explained(result: TurnFinished, code: int, timeout: float | None) -> TurnFinished:
    if code == TIMED_OUT:
        error = f"no answer within {timeout:g} s (--timeout). What was found so far is kept: nanobot agent --continue"
        return replace(result, outcome="cancelled", error=error, temporary=True)
    if code >= INTERRUPTED - 1 and not result.error:
        return replace(result, outcome="cancelled", error="interrupted.")
    return result
