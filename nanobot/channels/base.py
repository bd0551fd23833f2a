"""What a surface is, what it needs of the agent behind it, and running surfaces beside that.

A channel carries messages of people to the bus and paints the events that come back. It knows the agent only as
`Agent`, so that a scripted agent can stand in for the whole program.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from loguru import logger

from nanobot.bus.events import Address, ChatState, InboundMessage, MessageBus, Sender, TurnFinished
from nanobot.errors import ChannelError, NanobotError
from nanobot.messages import Citation, Role
from nanobot.providers.base import ProviderInfo
from nanobot.session.rows import Closing, OutboxItem
from nanobot.session.store import SessionStore
from nanobot.utils.translation import _

#: Keeps a turn's end with the last messages of its conversation. None as its end: an earlier turn read the message.
Settle = Callable[[InboundMessage, TurnFinished | None, Closing | None], Awaitable[None]]
#: Told when work on a message begins: its own turn, or the turn of an earlier one that reads it.
Begin = Callable[[InboundMessage], Awaitable[None]]


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


class TerminalTurns(Protocol):
    """The part of the agent loop that a terminal uses, here or in a gateway."""

    async def run(self) -> None:
        """Serve the bus until cancelled."""

    async def approve(self, session_key: str, key: str, choice: str, text: str = "", *, anywhere: bool = False) -> str:
        """Answer an open question of a tool and say so; `text` is why not, or what is to be done instead.

        `anywhere`: of any chat of this channel. Raises `UsageError` where none of this id is open.
        """

    async def choose(self, session_key: str, key: str, number: int, by: Sender) -> str:
        """Answer a question of the model with its choice `number`, from 1; 0 leaves a picker. Raises `UsageError` where
        it is over or for somebody else."""

    async def withdraw(self, session_key: str, *, last: bool = False) -> tuple[str, ...]:
        """Take back the messages of a terminal that no turn has read yet, or the `last` of them; their ids in order."""

    async def state(self, session_key: str) -> ChatState:
        """What is true of this chat now, beside its turns."""


class AgentTurns(TerminalTurns, Protocol):
    """The part of the agent loop that surfaces use."""

    async def process(
        self, message: InboundMessage, settle: Settle | None = None, begin: Begin | None = None, *, alone: bool = False
    ) -> TurnFinished:
        """Run one turn to its end; every event of it goes over the bus meanwhile.

        With `settle` the turn is durable: an end is kept by it, and a turn without an end goes on in the next process.
        `alone`: no other turn runs beside it.
        """

    async def cancel(self, session_key: str, turn_id: str = "", *, by: Sender | None = None) -> str:
        """Stop the running turn, only that of this id if given, and say what was kept or that none runs.

        Raises `UsageError` where `by` is neither the owner nor the person whose turn it is.
        """

    async def turn_page(self, session_key: str, key: str, page: int, by: Sender) -> None:
        """Have a picker show another page, from 0. Raises `UsageError` as `choose` does."""

    async def citations(self, session_key: str, turn: str = "") -> tuple[Citation, ...]:
        """What the marks of this chat's last answer, or of that of `turn`, were found to be; else empty."""

    async def recap(self, session_id: str) -> str:
        """The last exchanges of a session and what was done in them, as Markdown; empty where there are none."""

    def at_work(self, channel: str) -> tuple[InboundMessage, ...]:
        """The messages of a channel that are answered now or wait for that."""

    async def dismiss(self, person: Address, role: Role | None = None, granted: Collection[str] = ()) -> int:
        """End what runs and waits of who may do less from now on; how many messages are not answered for it.

        With a `role` they still have that and what is `granted`: what was begun with no more goes on.
        """

    def serving(self, session_key: str) -> tuple[InboundMessage, str] | None:
        """The message that this chat answers just now, and the session in which."""

    async def set_model(self, session_key: str, name: str) -> ProviderInfo:
        """Use another model in this chat. Raises `UsageError` with the nearest known name."""

    async def leave(self, session_key: str) -> None:
        """Nobody is in this chat any more: what runs is stopped, and what the process knows of it is forgotten."""

    def provider(self, session_key: str) -> ProviderInfo:
        """Who answers in this chat now."""

    def amend(self, message: InboundMessage) -> bool:
        """Replace a message of this id that no turn has read yet; False where it is too late."""

    async def announce_lost(self, channel: str, say: Callable[[Address, str, str], Awaitable[None]]) -> None:
        """Say in the chats of a channel, once, which of their commands ended with an earlier process.

        `say` takes the chat, the text, and what makes it this message and no other.
        """

    async def status_full(self, session_key: str) -> str:
        """The whole `/status` text, as Markdown. Bounded in time."""


class TerminalAgent(Protocol):
    """The agent as a terminal sees it: in its own process, or in a gateway that runs.

    `address` is that of the terminal's conversation.
    """

    @property
    def address(self) -> Address: ...

    @property
    def bus(self) -> MessageBus: ...

    @property
    def loop(self) -> TerminalTurns: ...

    @property
    def commands(self) -> Sequence[CommandSummary]: ...


class Agent(Protocol):
    """The whole program as a surface sees it. Met by `nanobot.app.Nanobot`."""

    @property
    def bus(self) -> MessageBus: ...

    @property
    def loop(self) -> AgentTurns: ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def commands(self) -> Sequence[CommandSummary]: ...

    @property
    def provider_info(self) -> ProviderInfo: ...


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
    sources = [f"[{one.number}] {one.title or one.url} <{one.url}>" for one in finished.sources if one.number]
    done = [f"✓ {line}" for line in finished.receipts]
    parts = (finished.text, *finished.notes, *finished.unbacked, finished.error, "\n".join(done), "  \n".join(sources))
    return "\n\n".join(filter(None, parts))
