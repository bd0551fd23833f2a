"""The terminals that joined a gateway, and what is shown in them of other chats and of jobs."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.bus.events import (
    Address,
    ApprovalAsked,
    ApprovalClosed,
    InboundMessage,
    Notice,
    OutboundMessage,
    QuestionAsked,
    QuestionClosed,
    Sender,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.base import PERSON
from nanobot.channels.socket import wire
from nanobot.session.rows import OutboxItem
from nanobot.utils.text import shorten, squeeze, strip_unsafe
from nanobot.utils.translation import _, speaking, spoken_at

if TYPE_CHECKING:
    from nanobot.agent.loop import AgentLoop
    from nanobot.agent.work.runs import Reports

#: Bytes that may wait for a terminal that does not read.
MOST_WAITING = 64_000_000
#: Characters of a message that are shown.
_SHOWN = 400


class JoinedTerminal(Struct, eq=False):
    """One connection. `session` is the one that its conversation is in; `asks`: it has one question and leaves.

    `language` is that of its person.
    """

    address: Address
    writer: asyncio.StreamWriter
    asks: bool = False
    session: str = ""
    language: str = ""
    works: dict[int, "asyncio.Task[None]"] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return self.address.key

    def said(self, message: InboundMessage) -> InboundMessage:
        """What its person says, as theirs and said here."""
        return replace(message, address=self.address, sender=replace(PERSON, language=self.language), direct=True)

    def send(self, line: wire.SocketLine) -> None:
        """Hand a line over. Whoever does not read for long loses the connection."""
        transport = self.writer.transport
        if transport.is_closing():
            return
        self.writer.write(wire.encoded(line))
        if transport.get_write_buffer_size() > MOST_WAITING:
            logger.warning("a terminal has not read for {:,} bytes and is left", MOST_WAITING)
            transport.abort()


class SessionMirror:
    """Sees every event of the agent (`see`) and shows those of the terminals' sessions that come from elsewhere."""

    def __init__(self, loop: "AgentLoop", joined: Mapping[str, JoinedTerminal]) -> None:
        self._loop = loop
        self._joined = joined
        self._followed: dict[str, tuple[JoinedTerminal, ...]] = {}

    def see(self, message: OutboundMessage) -> None:
        """Take an event in. A turn is shown from its begin on, so that what is typed meanwhile waits for it."""
        event, turn = message.event, message.turn
        if not turn or not self._joined:
            return
        if isinstance(event, TurnStarted):
            self._follow(message)
            return
        shown = self._followed.pop(turn, ()) if isinstance(event, TurnFinished) else self._followed.get(turn, ())
        for terminal in shown:
            self._show(terminal, message)

    def _follow(self, begin: OutboundMessage) -> None:
        serving = self._loop.serving(begin.address.key)
        if serving is None:
            return
        said, session = serving
        others = tuple(one for one in self._joined.values() if one.session == session and one.key != begin.address.key)
        if not others:
            return
        self._followed[begin.turn] = others
        words = shorten(squeeze(strip_unsafe(said.content)), _SHOWN)
        here, where = said.address.channel == "terminal", said.address.channel.capitalize()
        for terminal in others:
            terminal.send(wire.event_line(begin))
            with speaking(spoken_at(terminal.key)):
                told = _("On another terminal: {words}", words=words)
                told = told if here else _("On {channel}: {words}", channel=where, words=words)
            self._show(terminal, OutboundMessage(begin.address, Notice(told), begin.turn))

    @staticmethod
    def _show(terminal: JoinedTerminal, message: OutboundMessage) -> None:
        match message.event:
            case ApprovalAsked() | QuestionAsked():
                where = message.address.channel.capitalize()
                with speaking(spoken_at(terminal.key)):
                    notice = Notice(_("A question waits for its answer on {channel}.", channel=where))
                terminal.send(wire.event_line(OutboundMessage(message.address, notice, message.turn)))
            case ApprovalClosed() | QuestionClosed():
                return
            case _:
                terminal.send(wire.event_line(message))


class SeatedReports:
    """Brings what comes of the terminal's jobs to a terminal that joined, and elsewhere while nobody sits at one."""

    def __init__(self, here: "Reports", elsewhere: "Reports", seated: Callable[[], bool]) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._seated = seated

    async def sender(self, person: str) -> Sender | None:
        return await self._elsewhere.sender(person)

    async def line(self, address: Address, key: str, text: str) -> tuple[OutboxItem, ...]:
        return await self._reports.line(address, key, text)

    async def answer(self, message: InboundMessage, finished: TurnFinished) -> tuple[OutboxItem, ...]:
        return await self._reports.answer(message, finished)

    async def place(self, address: Address) -> Address:
        return await self._reports.place(address)

    def wake(self) -> None:
        self._here.wake()
        self._elsewhere.wake()

    @property
    def _reports(self) -> "Reports":
        return self._here if self._seated() else self._elsewhere
