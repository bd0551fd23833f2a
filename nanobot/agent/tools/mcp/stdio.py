"""An MCP server that is a program on this machine: one JSON message a line, in and out.

It gets a small environment with nothing in it but what programs need and what its own settings say, and a process
group of its own, which ends with the connection. What it prints is counted while it comes, and read no faster than it
may send.
"""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from loguru import logger
from mcp.shared.message import SessionMessage
from mcp.types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from msgspec import Struct
from msgspec.structs import replace

from nanobot import jsonval
from nanobot.agent.tools.mcp.transport import IncomingPace, excess_of, parts_of
from nanobot.security.sandbox import Confinement, Lifeline, Reason, choose
from nanobot.utils.text import one_line, shorten
from nanobot.web.host_proxy import HostProxy

#: Variables of ours that every program gets, where they are set: none of them is a secret.
PASSED = ("HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
#: Seconds that a program has to leave by itself, and again after it was asked to.
LEAVE_SECONDS = 1.0
#: The code of the answer that stands for one which was too large.
TOO_LARGE = -32_099
#: Most bytes that are read of one line and thrown away; after that the program is ended.
MAX_LINE = 500_000_000
#: What programs tell unasked, of no use here; each that is not as it should be would cost a traceback in the log.
_UNHEARD = ("notifications/progress", "notifications/message")
_BLOCK, _EDGE, _LAST_WORDS = 65_536, 300, 2_000
#: Where the id of an answer stands: behind the version at its beginning, or at its very end.
_ID = rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,100}")'
_ID_FIRST = re.compile(rb'\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*' + _ID)
_ID_LAST = re.compile(_ID + rb'\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')

_Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


class Program(Struct, frozen=True):
    """What is started: its words, its whole environment and its folder, and what it may reach where it is confined.

    `way` leads to the hosts that a confined one may reach.
    """

    words: tuple[str, ...]
    env: Mapping[str, str]
    folder: Path
    confined: Confinement | None = None
    way: HostProxy | None = None


def environment(ours: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program: what all need of ours, and what its settings give it."""
    return {name: ours[name] for name in PASSED if ours.get(name)} | dict(own)


@asynccontextmanager
async def stdio_streams(program: Program, lost: Callable[[str], None]) -> AsyncIterator[_Streams]:
    """Start a program and talk to it; it is ended on leaving. `lost` is told why it ended by itself.

    Raises `OSError` with a sentence where it cannot be started.
    """
    async with AsyncExitStack() as stack:
        lifeline = Lifeline()
        stack.callback(lifeline.cut)
        socket = await stack.enter_async_context(program.way.serve()) if program.way else None
        if program.confined is not None:
            given = replace(program.confined, proxy_socket=socket, lifeline=lifeline.inside)
            program = replace(program, confined=given)
        transport, process = await _start(program)
        lifeline.started()
        yield await stack.enter_async_context(_streams(transport, process, lost))


@asynccontextmanager
async def _streams(
    transport: asyncio.SubprocessTransport, process: "_Process", lost: Callable[[str], None]
) -> AsyncIterator[_Streams]:
    said, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_send, sending = anyio.create_memory_object_stream[SessionMessage](0)
    last_words = bytearray()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_listen(process, said, last_words, lost)),
                group.create_task(_tell(process, sending)),
                group.create_task(_overhear(process, last_words)),
            ]
            try:
                yield received, to_send
            finally:
                await _end(process)
                for task in tasks:
                    task.cancel()
    finally:
        transport.close()
        for stream in (said, received, to_send, sending):
            stream.close()


async def _start(program: Program) -> "tuple[asyncio.SubprocessTransport, _Process]":
    loop, pipe = asyncio.get_running_loop(), asyncio.subprocess.PIPE
    if not program.folder.is_dir():
        raise OSError(f"check its `cwd`, there is no folder {program.folder}")
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: _Exit(_BLOCK, loop),
            *await _line(program),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=program.folder,
            env=dict(program.env),
            start_new_session=True,
            pass_fds=() if program.confined is None else (program.confined.lifeline,),
        )
    except FileNotFoundError:
        advice = "install it, or write its whole path into `command`"
        raise OSError(f"its program {program.words[0]!r} was not found; {advice}") from None
    except PermissionError:
        raise OSError(f"its program {program.words[0]!r} may not be run") from None
    return transport, _Process(transport, protocol, loop)


async def _line(program: Program) -> Sequence[str]:
    """The whole command line of a program. Raises `OSError` where it is to be confined and nothing here does that."""
    if program.confined is None:
        return program.words
    if shutil.which(program.words[0], path=program.env.get("PATH")) is None:
        raise FileNotFoundError
    found = await choose("auto")
    if isinstance(found, Reason):
        raise OSError(f"its `sandbox` is true, and none works here ({found.text})")
    return found.command(program.words, program.folder, program.confined)


async def _listen(
    process: "_Process",
    said: MemoryObjectSendStream[SessionMessage | Exception],
    last_words: bytearray,
    lost: Callable[[str], None],
) -> None:
    """Hand on what the program says until it ends, and then tell why it did."""
    lines, pace, reason = _Lines(), IncomingPace(), ""
    try:
        while process.stdout is not None and (block := await process.stdout.read(_BLOCK)):
            for line in lines.feed(block):
                message = _message(line)
                if not isinstance(message, JSONRPCResponse | JSONRPCError):
                    await pace.take(len(line.text))
                if message is not None and getattr(message, "method", "") not in _UNHEARD:
                    await said.send(SessionMessage(message))
    except _EndlessLine as error:
        reason = str(error)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # nobody listens any more
    if not reason:
        await _gone(process)
        reason = f"its program ended{_how(process, last_words)}"
    lost(reason)
    said.close()


async def _tell(process: "_Process", sending: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Hand what is sent to the program. One that does not read makes its own calls wait."""
    with suppress(ConnectionError, anyio.ClosedResourceError):
        async for message in sending:
            if process.stdin is None:
                return
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _overhear(process: "_Process", last_words: bytearray) -> None:
    """Keep the end of what the program complains about, at 6 MB a second at most."""
    while process.stderr is not None and (block := await process.stderr.read(_BLOCK)):
        last_words += block
        del last_words[:-_LAST_WORDS]
        await asyncio.sleep(len(block) / 6_000_000)


def _how(process: "_Process", last_words: bytearray) -> str:
    """How a program ended, with its last line."""
    code = process.returncode
    how = "" if code is None else f" (exit code {code})" if code >= 0 else f" ({signal.Signals(-code).name})"
    lines = [line for line in last_words.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return how
    return f"{how}; the last line of its error output: “{one_line(lines[-1], 160)}”"


async def _end(process: "_Process") -> None:
    """End a program and all of its group: it may leave by itself, then it is asked to, then it is killed."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        if not await _gone(process):
            _signal(process, signal.SIGTERM)
            await _gone(process)
    finally:
        _signal(process, signal.SIGKILL)  # what it left behind, too
        await _gone(process)


async def _gone(process: "_Process") -> bool:
    """True once it has ended. Not `wait`, which also waits for whoever holds its pipes."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await process.exited.wait()
    return process.exited.is_set()


def _signal(process: "_Process", number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


class _Exit(asyncio.subprocess.SubprocessStreamProtocol):
    """Knows when a program has ended, though others may still hold its pipes."""

    def __init__(self, limit: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit, loop)
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class _Process(asyncio.subprocess.Process):
    """A program that runs; `exited` is set when it has ended."""

    def __init__(
        self, transport: asyncio.SubprocessTransport, protocol: _Exit, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(transport, protocol, loop)
        self.exited = protocol.exited


class _EndlessLine(Exception):
    """A line that has no end."""


class _TextLine(Struct, frozen=True):
    """A line; of one that is too long its beginning and its end, and what it has too much of."""

    text: bytes
    excess: str = ""


class _Lines:
    """Cuts what a program prints into lines, and holds no more of one than an answer may have."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._size = self._parts = 0
        self._excess = ""

    def feed(self, block: bytes) -> Iterator[_TextLine]:
        """The lines that end here. Raises `_EndlessLine`."""
        *ended, rest = block.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield _TextLine(bytes(self._held), self._excess)
            self._held.clear()
            self._size = self._parts = 0
            self._excess = ""
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if not self._excess:
            self._parts += parts_of(piece)
            self._excess = excess_of(self._size, self._parts)
        elif self._size > MAX_LINE:
            raise _EndlessLine(f"{self._excess} and does not end")
        self._held += piece
        if self._excess:
            del self._held[_EDGE : max(_EDGE, len(self._held) - _EDGE)]


def _message(line: _TextLine) -> JSONRPCMessage | None:
    """The message in a line, an error in the place of an answer that is too large or none; None for anything else."""
    if line.excess:
        return _refusal(line.text, TOO_LARGE, line.excess)
    if not line.text.lstrip().startswith(b"{"):
        return None  # what was meant for a screen
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line.text, by_name=False)
    said = jsonval.parse(line.text)
    try:  # without halves of characters, as programs leave them that cut a text
        return jsonrpc_message_adapter.validate_json(jsonval.dump(said), by_name=False)
    except ValueError as error:
        logger.debug("a line of an MCP server is no message: {}", shorten(str(error), 200))
    if "method" in jsonval.obj(said) or b'"jsonrpc"' not in line.text:  # a line of its log may end with an id, too
        return None
    return _refusal(line.text, PARSE_ERROR, "its answer is not one of MCP")


def _refusal(text: bytes, code: int, why: str) -> JSONRPCError | None:
    """An error in the place of an answer of which the beginning or the end is known."""
    found = _ID_FIRST.match(text) or _ID_LAST.search(text)
    if found is None:
        return None
    number = int(found[1]) if found[1].isdigit() else found[1].strip(b'"').decode(errors="replace")
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=why))
