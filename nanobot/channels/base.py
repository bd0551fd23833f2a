"""What a surface is, what it needs of the agent behind it, and running surfaces beside that.

A channel carries messages of people to the bus and paints the events that come back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loguru import logger
from msgspec import Struct

from nanobot.bus.events import Address, ChatState, MessageBus, Sender, TurnFinished
from nanobot.channels.citations import with_sources
from nanobot.errors import ChannelError, NanobotError
from nanobot.providers.base import ProviderInfo
from nanobot.session.rows import OutboxItem
from nanobot.session.store import SessionStore
from nanobot.utils.translation import _

if TYPE_CHECKING:
    from nanobot.agent.loop import AgentLoop

#: Whoever sits at a terminal of this machine owns it.
PERSON = Sender("local", role="owner")
#: From a file that somebody names to the path by which the tools reach it, empty where none does. Raises `NanobotError`
#: and `OSError`.
Locate = Callable[[Path], Awaitable[str]]


class BaseChannel(Protocol):
    """A surface that lives as long as the program. Raises `ChannelError` and nothing else (besides cancellation)."""

    @property
    def name(self) -> str:
        """The channel part of its addresses, such as `telegram`."""

    async def start(self) -> None:
        """Connect, and run until `stop` or cancellation."""

    async def stop(self) -> None:
        """Take no more messages, deliver what is written, and let `start` return."""


class CommandSummary(Protocol):
    """A slash command as a completion list and `/help` show it."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...


class Agent(Protocol):
    """The whole program as a surface sees it. Met by `nanobot.app.Nanobot`."""

    @property
    def bus(self) -> MessageBus: ...

    @property
    def loop(self) -> "AgentLoop": ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def commands(self) -> Sequence[CommandSummary]: ...

    @property
    def provider_info(self) -> ProviderInfo: ...


class ApproveCall(Struct, frozen=True, tag="approve"):
    """The owner's answer to a question about a call; `text` is why not, or what is to be done instead."""

    id: str
    choice: str
    text: str = ""


class ChooseCall(Struct, frozen=True, tag="choose"):
    """The person's answer to a question of the model: the `number` of a choice, from 1; 0 leaves a picker."""

    id: str
    number: int


class WithdrawCall(Struct, frozen=True, tag="withdraw"):
    """Take back the messages that no turn has read yet, or the `last` of them. Their ids come back, in order."""

    last: bool = False


class StateCall(Struct, frozen=True, tag="state"):
    """What is true of this conversation beside its turns?"""


class LocateCall(Struct, frozen=True, tag="locate"):
    """Where do the tools for files reach this file? It is copied to them where they do not."""

    path: str


TerminalCall = ApproveCall | ChooseCall | WithdrawCall | StateCall | LocateCall


class CallResult(Struct, frozen=True):
    """What comes of a call: ids, a sentence or a path as `texts`, or the `state` that was asked for."""

    texts: tuple[str, ...] = ()
    state: ChatState = ChatState()


class TerminalAgent(Protocol):
    """The agent as a terminal sees it: in its own process, or in a gateway that runs.

    `address` is that of the terminal's conversation.
    """

    @property
    def address(self) -> Address: ...

    @property
    def bus(self) -> MessageBus: ...

    @property
    def commands(self) -> Sequence[CommandSummary]: ...

    async def run(self) -> None:
        """Serve the bus until cancelled, or until the agent is gone."""

    async def call(self, call: TerminalCall) -> CallResult:
        """Raises `NanobotError`: `UsageError` where a question is over, or for somebody else; and `OSError`."""


class AgentHere:
    """The agent of this process in one conversation of a terminal. Meets `TerminalAgent`."""

    def __init__(self, agent: Agent, address: Address, locate: Locate) -> None:
        self.address = address
        self.bus = agent.bus
        self.commands = agent.commands
        self.run = agent.loop.run
        self._loop = agent.loop
        self._locate = locate

    async def call(self, call: TerminalCall) -> CallResult:
        loop, key = self._loop, self.address.key
        match call:
            case ApproveCall():
                return CallResult((await loop.approve(key, call.id, call.choice, call.text),))
            case ChooseCall():
                return CallResult((loop.questions.answer(key, call.id, call.number, PERSON),))
            case WithdrawCall():
                return CallResult(await loop.withdraw(key, last=call.last))
            case LocateCall():
                return CallResult((await self._locate(Path(call.path)),))
            case StateCall():
                return CallResult(state=await loop.state(key))


class ChannelManager:
    """`run` serves until `stop`, or until no channel is left; what is `beside` runs meanwhile."""

    def __init__(self, agent: Agent, channels: Sequence[BaseChannel], *beside: Callable[[], Awaitable[None]]) -> None:
        self._agent = agent
        self._channels = tuple(channels)
        self._beside = beside

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self._channels)

    async def run(self) -> None:
        """Serve all channels. One that ends with an error leaves the others alone; the last one's error is raised."""
        if not self._channels:
            raise ChannelError(_("No channel is switched on."))
        beside = {asyncio.ensure_future(work()) for work in self._beside}
        serving = asyncio.create_task(self._agent.loop.run())
        try:
            ends = await asyncio.gather(*(self._serve(channel) for channel in self._channels))
        finally:
            for work in (*beside, serving):  # what runs beside gives its turns back before the agent ends
                work.cancel()
                await asyncio.wait({work})
                if not work.cancelled() and (error := work.exception()) is not None:
                    logger.opt(exception=error).error("what ran beside the channels had broken off")
        problems = [problem for problem in ends if problem is not None]
        if len(problems) == len(self._channels):
            raise problems[0]

    async def stop(self) -> None:
        """Let every channel end in order: nothing new is taken, what runs gets a moment, answers are delivered."""
        for channel in self._channels:
            await channel.stop()

    @staticmethod
    async def _serve(channel: BaseChannel) -> NanobotError | None:
        try:
            await channel.start()
        except NanobotError as error:
            logger.error("{} has stopped: {}", channel.name, error)
            return error
        return None


def terminal_lines(address: Address, key: str, text: str) -> tuple[OutboxItem, ...]:
    """A text (Markdown) as a row that the next open terminal prints."""
    return (OutboxItem(key, 0, address.channel, address.chat, text),) if text else ()


def answer_text(finished: TurnFinished) -> str:
    """The end of a turn as one text: the answer, what is to be known with it, and what was done."""
    done = "\n".join(f"✓ {line}" for line in finished.receipts)
    return "\n\n".join(filter(None, (with_sources(finished), *finished.notes, finished.error, done)))
