"""What a terminal and a gateway say to each other over a Unix socket: one JSON object a line, each of a known form.

Only the user of this process may open the socket, and is the owner. A line is bounded; one that is
longer, or no line of this form, ends its connection and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from nanobot.bus.events import ChatState, Event, InboundMessage, OutboundMessage, ToolFinished, TurnFinished
from nanobot.channels.base import CallResult, TerminalCall
from nanobot.errors import ChannelError, NanobotError, TemporaryError, UsageError
from nanobot.jsonval import dump
from nanobot.utils.translation import _

T = TypeVar("T")

#: The form of the lines. A terminal and a gateway that speak different ones do not talk.
PROTOCOL = 2
#: Most bytes of a line.
MOST_BYTES = 16_000_000
#: Most characters of the result of a tool that a terminal is given, to be unfolded.
RESULT_CHARS = 100_000
#: Seconds for a first line, which both sides send at once.
GREETING_SECONDS = 5.0
#: Errors that a terminal tells apart, for its exit code.
_KINDS: Mapping[str, type[NanobotError]] = {"usage": UsageError, "temporary": TemporaryError}


class SocketLine(Struct, frozen=True, tag_field="type", tag=lambda name: name.removesuffix("Line").lower()):
    """A line of either side."""


class HelloLine(SocketLine, frozen=True):
    """The first line of a terminal. It goes on with the session `resume`, with the last one, or begins a fresh one.

    `asks`: it asks one question and leaves. `model` is to answer instead of the gateway's. `config` is the file that
    its person means, `language` what they read.
    """

    protocol: int
    version: str
    config: str
    resume: str = ""
    go_on: bool = False
    asks: bool = False
    model: str = ""
    language: str = ""


class SayLine(SocketLine, frozen=True):
    """A message of the person. One with a `number` is answered with the end of the turn that read it.

    Where it is said and by whom the gateway knows; the rest of it counts.
    """

    message: InboundMessage
    number: int = 0


class CancelLine(SocketLine, frozen=True):
    """Nobody waits any more for the answer `number`: its turn ends."""

    number: int


class CallLine(SocketLine, frozen=True):
    """What is asked of the conversation beside its messages."""

    number: int
    call: TerminalCall


class CommandLine(Struct, frozen=True):
    """A slash command as a completion list shows it."""

    name: str
    summary: str


class WelcomeLine(SocketLine, frozen=True):
    """The first line of a gateway.

    `recap` is how the session ended that is gone on with, `why` tells for what reason it has this model.
    """

    protocol: int
    version: str
    state: ChatState
    model: str
    why: str = ""
    recap: str = ""
    commands: tuple[CommandLine, ...] = ()


class RefusedLine(SocketLine, frozen=True):
    """The gateway does not serve this terminal. `wrong`: what was asked for is wrong, and not only now."""

    reason: str
    wrong: bool = False


class EventLine(SocketLine, frozen=True):
    """Something has happened in the conversation."""

    event: Event
    turn: str = ""
    seq: int = 0


class AnswerLine(SocketLine, frozen=True):
    """The answer to the line with this `number`: what it asks for, or an `error` of a kind."""

    number: int
    result: CallResult = CallResult()
    finished: TurnFinished | None = None
    error: str = ""
    kind: str = ""

    @classmethod
    def failed(cls, number: int, error: NanobotError | OSError) -> "AnswerLine":
        """The answer that tells of an error."""
        said = f"{error.strerror or error}." if isinstance(error, OSError) else str(error)
        return cls(number, error=said, kind=next((kind for kind, of in _KINDS.items() if isinstance(error, of)), ""))

    def judged(self) -> "AnswerLine":
        """Itself. Raises the `NanobotError` that it carries."""
        if not self.error:
            return self
        raise _KINDS.get(self.kind, NanobotError)(self.error)


TerminalLine = HelloLine | CancelLine | SayLine | CallLine
GatewayLine = WelcomeLine | RefusedLine | EventLine | AnswerLine
FROM_TERMINAL = json.Decoder(TerminalLine)
FROM_GATEWAY = json.Decoder(GatewayLine)


def event_line(message: OutboundMessage) -> EventLine:
    """An event as it is sent: the result of a tool without what only the log and the model need."""
    event = message.event
    if isinstance(event, ToolFinished):
        result = event.result
        short = replace(result, text=result.text[:RESULT_CHARS], extras={}, media=(), sources=())
        event = replace(event, result=short)
    return EventLine(event, message.turn, message.seq)


def encoded(line: SocketLine) -> bytes:
    return dump(line) + b"\n"


async def next_line(reader: asyncio.StreamReader, decoder: "json.Decoder[T]") -> T | None:
    """The next line; None at the end of the connection. Raises `ChannelError` for what is no such line."""
    try:
        data = await reader.readuntil(b"\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError:
        raise ChannelError(_("a line is longer than {most:,} bytes", most=MOST_BYTES)) from None
    try:
        return decoder.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ChannelError(_("a line is none of this protocol ({problem})", problem=error)) from None


async def listen(
    path: Path, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> asyncio.Server:
    """Listen at a path, for this user alone; what an earlier gateway left there goes. Raises `OSError`."""
    server = await asyncio.start_unix_server(serve, path, limit=MOST_BYTES, start_serving=False)
    try:
        path.chmod(0o600)  # noqa: ASYNC240 - at once, and nobody can connect before
        await server.start_serving()
    except BaseException:  # a start that is ended meanwhile leaves nothing open
        server.close()
        raise
    return server


async def connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """A connection to the gateway at a path; None where none listens."""
    try:
        return await asyncio.open_unix_connection(path, limit=MOST_BYTES)
    except OSError:
        return None
