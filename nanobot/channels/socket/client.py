"""The terminal's side: a conversation in a gateway that runs."""

import asyncio
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Self

from nanobot.bus.events import TERMINAL, InboundMessage, MessageBus, OutboundMessage, TurnFinished
from nanobot.channels.base import CallResult, TerminalCall, WithdrawCall
from nanobot.channels.socket import wire
from nanobot.errors import ChannelError, NanobotError, TemporaryError, UsageError
from nanobot.utils.translation import N_, _

_GONE = N_("The gateway has ended before it answered. Ask again.")
_ENDED = N_("The gateway has ended. What was done so far is kept.")


class Refused(NanobotError):
    """There is a gateway, and it does not serve this terminal; the text says why."""


class GatewayLink:
    """A connection to a gateway. It meets `TerminalAgent`, and is its own `loop`.

    Its events come over its own bus, as those of an agent in this process do.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, welcome: wire.WelcomeLine) -> None:
        self.bus = MessageBus()
        self.address = TERMINAL  # the gateway knows which terminal this is
        self.welcome = welcome
        self._reader = reader
        self._writer = writer
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[wire.AnswerLine]] = {}
        self.over = False  # the gateway has ended

    @classmethod
    async def open(cls, path: Path, hello: wire.HelloLine) -> Self | None:
        """Join the gateway at a path; None where none runs. Raises `Refused`, or `UsageError` for a wrong wish."""
        connection = await wire.connect(path)
        if connection is None:
            return None
        reader, writer = connection
        try:
            writer.write(wire.encoded(hello))
            async with asyncio.timeout(wire.GREETING_SECONDS):
                first = await wire.next_line(reader, wire.FROM_GATEWAY)
        except TimeoutError:
            writer.close()
            raise Refused(_("it has not answered for {seconds:.0f} s", seconds=wire.GREETING_SECONDS)) from None
        except ChannelError as error:
            writer.close()
            raise Refused(_("it is of another version: {problem}", problem=error)) from None
        if isinstance(first, wire.WelcomeLine):
            return cls(reader, writer, first)
        writer.close()
        if isinstance(first, wire.RefusedLine):
            raise UsageError(first.reason) if first.wrong else Refused(first.reason)
        return None

    @property
    def commands(self) -> Sequence[wire.CommandLine]:
        return self.welcome.commands

    async def run(self) -> None:
        """Carry messages and events until the gateway ends; its end is that of the turn that ran here."""
        sending = asyncio.create_task(self._send_messages())
        try:
            while (line := await wire.next_line(self._reader, wire.FROM_GATEWAY)) is not None:
                match line:
                    case wire.EventLine():
                        message = OutboundMessage(TERMINAL, line.event, line.turn, line.seq)
                        await self.bus.publish_outbound(message)
                    case wire.AnswerLine() if (waiting := self._answers.pop(line.number, None)) is not None:
                        if not waiting.done():
                            waiting.set_result(line)
        except ChannelError:
            pass  # a gateway that says what is none of the protocol is as good as gone
        finally:
            sending.cancel()
            self.close()
        self.over = True
        ended = TurnFinished("cancelled", "", error=_(_ENDED), model=self.welcome.model)
        await self.bus.publish_outbound(OutboundMessage(TERMINAL, ended))

    def close(self) -> None:
        """End the connection; whoever waits for an answer hears that none comes."""
        self._writer.close()
        answers, self._answers = self._answers, {}
        for waiting in answers.values():
            if not waiting.done():
                waiting.set_exception(TemporaryError(_(_GONE)))
                waiting.exception()  # whoever was cancelled meanwhile does not look

    async def process(self, message: InboundMessage) -> TurnFinished:
        """Serve one message and return the end of the turn that read it. Cancelling the caller cancels the turn."""
        number = next(self._numbers)
        try:
            answer = await self._ask(wire.SayLine(message, number))
        except asyncio.CancelledError:
            self._write(wire.CancelLine(number))
            raise
        except TemporaryError as error:
            return TurnFinished("failed", "", error=str(error), temporary=True)
        return answer.finished or TurnFinished("failed", "", error=_(_GONE), temporary=True)

    async def call(self, call: TerminalCall) -> CallResult:
        if isinstance(call, WithdrawCall):  # what was said before is on its way before it
            for message in self.bus.pending():
                self._write(wire.SayLine(message))
        return (await self._ask(wire.CallLine(next(self._numbers), call))).result

    async def _ask(self, line: wire.SayLine | wire.CallLine) -> wire.AnswerLine:
        if self._writer.transport.is_closing():
            raise TemporaryError(_(_GONE))
        waiting: asyncio.Future[wire.AnswerLine] = asyncio.get_running_loop().create_future()
        self._answers[line.number] = waiting
        self._write(line)
        return (await waiting).judged()

    async def _send_messages(self) -> None:
        while True:
            self._write(wire.SayLine(await self.bus.consume_inbound()))

    def _write(self, line: wire.SocketLine) -> None:
        if not self._writer.transport.is_closing():
            self._writer.write(wire.encoded(line))
