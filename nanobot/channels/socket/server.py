"""The gateway's side: terminals that joined it, each a conversation of its own with the one agent.

Each terminal has an address of its own, `terminal:local:1` and on, as long as it is there; `terminal:local` points at
the session that a terminal had last. Nobody waits for a terminal: one that does not read is left.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot import __version__
from nanobot.bus.events import (
    TERMINAL,
    Address,
    ApprovalAsked,
    ApprovalClosed,
    InboundMessage,
    Notice,
    OutboundMessage,
    QuestionAsked,
    QuestionClosed,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.base import PERSON, Agent, AgentHere, CallResult, Locate, StateCall, TerminalCall
from nanobot.channels.socket import wire
from nanobot.config.paths import Paths
from nanobot.errors import ChannelError, NanobotError, UsageError
from nanobot.session.store import SessionInfo
from nanobot.utils.text import one_line
from nanobot.utils.translation import _, heard, speak, speaking, spoken_at, told

if TYPE_CHECKING:
    from nanobot.agent.loop import AgentLoop

#: Bytes that may wait for a terminal that does not read.
MOST_WAITING = 64_000_000
#: Characters of a message of another surface that are shown.
_SHOWN = 400
#: Seconds that the terminals which are there get when the gateway ends.
LEAVE_SECONDS = 3.0


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
        words = one_line(said.content, _SHOWN)
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


class GatewaySocket:
    """Serves terminals while `run` runs.

    `attended` are the conversations in which somebody can be asked; each terminal in which somebody talks adds itself.
    `reports` prints what comes of jobs while somebody sits there.
    """

    def __init__(
        self,
        agent: Agent,
        paths: Paths,
        locate: Locate,
        attended: set[str],
        reports: Callable[[], Awaitable[None]],
    ) -> None:
        self._agent = agent
        self._path = paths.socket
        self._config = paths.config
        self._locate = locate
        self._attended = attended
        self._reports = reports
        self._printing: asyncio.Task[None] | None = None
        self._joined: dict[str, JoinedTerminal] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._mirror = SessionMirror(agent.loop, self._joined)

    @property
    def talking(self) -> bool:
        """Whether somebody sits at a terminal that joined."""
        return any(not one.asks for one in self._joined.values())

    async def run(self) -> None:
        """Listen until cancelled. Where that cannot be, the log says why, and terminals work alone as before."""
        try:
            server = await wire.listen(self._path, self._serve)
        except OSError as error:
            logger.warning("no terminal can join: {} cannot be made: {}", self._path, error)
            return
        events = self._agent.bus.subscribe(TERMINAL.channel)
        self._agent.bus.watch(self._mirror.see)
        try:
            async for message in events:
                self._tell(message)
        finally:
            self._agent.bus.unwatch(self._mirror.see)
            server.close()
            self._path.unlink(missing_ok=True)
            await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        """Leave every terminal, and wait a moment until what runs there is stopped."""
        for one in self._joined.values():
            one.writer.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=LEAVE_SECONDS)

    def _tell(self, message: OutboundMessage) -> None:
        """An event of one terminal, or one for whoever sits at a terminal."""
        here = self._joined.get(message.address.key)
        for one in [here] if here is not None else self._joined.values() if message.address == TERMINAL else ():
            if one is here or not one.asks:
                one.send(wire.event_line(message))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first line to its end."""
        task = asyncio.ensure_future(self._conversation(reader, writer))
        self._serving.add(task)
        try:
            await task
        finally:
            self._serving.discard(task)
            writer.close()

    async def _conversation(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(wire.GREETING_SECONDS):
                hello = await wire.next_line(reader, wire.FROM_TERMINAL)
            if not isinstance(hello, wire.HelloLine):
                return
            speak(hello.language)
            async with self._place(hello, writer) as terminal:
                await self._listen(terminal, reader)
        except NanobotError as error:
            logger.info("a terminal was left: {}", error)
            with suppress(OSError):
                writer.write(wire.encoded(wire.RefusedLine(str(error), isinstance(error, UsageError))))
        except (TimeoutError, OSError) as error:
            logger.info("a terminal was left: {}", str(error) or "it said nothing")

    @asynccontextmanager
    async def _place(self, hello: wire.HelloLine, writer: asyncio.StreamWriter) -> AsyncIterator[JoinedTerminal]:
        """A place for a terminal; afterwards what runs in it is stopped, and the place is free.

        Raises `NanobotError` where it is not served.
        """
        if hello.protocol != wire.PROTOCOL:
            raise ChannelError(_("it is nanobot {version} and speaks another protocol", version=__version__))
        if hello.config != str(self._config):
            raise ChannelError(_("it runs with another configuration, {file}", file=self._config))
        places = (Address(TERMINAL.channel, TERMINAL.chat, str(number)) for number in count(1))
        address = next(one for one in places if one.key not in self._joined)
        terminal = self._joined[address.key] = JoinedTerminal(address, writer, hello.asks, language=hello.language)
        heard(hello.language, address.key)
        try:
            await self._welcome(terminal, hello)
            if not hello.asks:
                self._attended.add(terminal.key)
                if self._printing is None:
                    self._printing = asyncio.ensure_future(self._reports())
            yield terminal
        finally:
            del self._joined[terminal.key]
            self._attended.discard(terminal.key)
            if self._printing is not None and not self.talking:
                self._printing.cancel()
                self._printing = None
            await asyncio.shield(self._leave(terminal))

    async def _welcome(self, terminal: JoinedTerminal, hello: wire.HelloLine) -> None:
        loop, store = self._agent.loop, self._agent.sessions
        session = await store.open(TERMINAL.key, hello.resume, go_on=hello.go_on, once=hello.asks)
        await store.resume(terminal.key, session.id)
        if hello.model:
            await loop.set_model(terminal.key, hello.model)
        info = loop.provider(terminal.key)
        why = told(info.chosen_because) if not hello.model else ""
        recap = await loop.recap(session.id) if session.messages and not hello.asks else ""
        commands = tuple(wire.CommandLine(one.name, one.summary) for one in self._agent.commands)
        state = await loop.state(terminal.key)
        terminal.session = session.id
        terminal.send(wire.WelcomeLine(wire.PROTOCOL, __version__, state, info.model, why, recap, commands))

    async def _leave(self, terminal: JoinedTerminal) -> None:
        """Nobody sits there any more."""
        for work in terminal.works.values():
            work.cancel()
        with suppress(NanobotError):
            await self._agent.loop.leave(terminal.key)
            if not terminal.session:
                return  # it was never served
            await self._point(await self._agent.sessions.current(terminal.key))

    async def _point(self, session: SessionInfo) -> None:
        """Let the session be the one with which the next terminal goes on."""
        await self._agent.sessions.resume(TERMINAL.key, session.id)

    async def _listen(self, terminal: JoinedTerminal, reader: asyncio.StreamReader) -> None:
        while (line := await wire.next_line(reader, wire.FROM_TERMINAL)) is not None:
            match line:
                case wire.HelloLine():
                    # English: the log alone tells it
                    raise ChannelError("a terminal said hello twice")
                case wire.CancelLine():
                    if line.number in terminal.works:
                        terminal.works[line.number].cancel()
                case wire.SayLine(number=0):
                    await self._agent.bus.publish_inbound(terminal.said(line.message))
                case wire.SayLine() | wire.CallLine():
                    self._begin(terminal, line)

    def _begin(self, terminal: JoinedTerminal, line: wire.SayLine | wire.CallLine) -> None:
        """Work on a line that wants an answer, beside the others."""
        work = asyncio.ensure_future(self._work(terminal, line))
        terminal.works[line.number] = work
        work.add_done_callback(lambda _: terminal.works.pop(line.number, None))

    async def _work(self, terminal: JoinedTerminal, line: wire.SayLine | wire.CallLine) -> None:
        try:
            if isinstance(line, wire.SayLine):
                finished = await self._agent.loop.process(terminal.said(line.message))
                answer = wire.AnswerLine(line.number, finished=finished)
            else:
                answer = wire.AnswerLine(line.number, await self._call(terminal, line.call))
        except (NanobotError, OSError) as error:
            answer = wire.AnswerLine.failed(line.number, error)
        terminal.send(answer)

    async def _call(self, terminal: JoinedTerminal, call: TerminalCall) -> CallResult:
        result = await AgentHere(self._agent, terminal.address, self._locate).call(call)
        if isinstance(call, StateCall) and result.state.session != terminal.session:
            terminal.session = result.state.session
            await self._point(await self._agent.sessions.current(terminal.key))
        return result
