"""An MCP server that is a program on this machine: one JSON message a line, in and out.

It gets a small environment with nothing in it but what programs need and what its own settings say, and a process
group of its own, which ends with the connection.
"""

import asyncio
import os
import shutil
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from loguru import logger
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage, jsonrpc_message_adapter
from msgspec import Struct
from msgspec.structs import replace

from nanobot import jsonval
from nanobot.agent.tools.mcp.transport import MAX_ANSWER, TOO_MUCH, size_of
from nanobot.security.sandbox import Confinement, Lifeline, Reason, choose
from nanobot.utils.text import one_line, shorten
from nanobot.web.host_proxy import HostProxy

#: Variables of ours that every program gets, where they are set: none of them is a secret.
PASSED = ("HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
#: Seconds that a program has to leave by itself, and again after it was asked to.
LEAVE_SECONDS = 1.0
_BLOCK, _LAST_WORDS = 65_536, 2_000

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
    transport: asyncio.SubprocessTransport, process: Process, lost: Callable[[str], None]
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


async def _start(program: Program) -> tuple[asyncio.SubprocessTransport, Process]:
    loop = asyncio.get_running_loop()
    if not program.folder.is_dir():
        raise OSError(f"check its `cwd`, there is no folder {program.folder}")
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(MAX_ANSWER, loop),
            *await _line(program),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
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
    return transport, Process(transport, protocol, loop)


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
    process: Process,
    said: MemoryObjectSendStream[SessionMessage | Exception],
    last_words: bytearray,
    lost: Callable[[str], None],
) -> None:
    """Hand on what the program says until it ends, and then tell why it did."""
    reason = ""
    try:
        while process.stdout is not None and (line := await process.stdout.readline()):
            if (message := _message(line)) is not None:
                await said.send(SessionMessage(message))
            await asyncio.sleep(0)  # others go on, however much it prints
    except ValueError:
        reason = TOO_MUCH
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # nobody listens any more
    if not reason:
        await _gone(process)
        reason = f"its program ended{_how(process, last_words)}"
    lost(reason)
    said.close()


async def _tell(process: Process, sending: MemoryObjectReceiveStream[SessionMessage]) -> None:
    """Hand what is sent to the program. One that does not read makes its own calls wait."""
    with suppress(ConnectionError, anyio.ClosedResourceError):
        async for message in sending:
            if process.stdin is None:
                return
            process.stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()


async def _overhear(process: Process, last_words: bytearray) -> None:
    """Keep the end of what the program complains about."""
    while process.stderr is not None and (block := await process.stderr.read(_BLOCK)):
        last_words += block
        del last_words[:-_LAST_WORDS]


def _how(process: Process, last_words: bytearray) -> str:
    """How a program ended, with its last line."""
    code = process.returncode
    how = "" if code is None else f" (exit code {code})" if code >= 0 else f" ({signal.Signals(-code).name})"
    lines = [line for line in last_words.decode(errors="replace").splitlines() if line.strip()]
    if not lines:
        return how
    return f"{how}; the last line of its error output: “{one_line(lines[-1], 160)}”"


async def _end(process: Process) -> None:
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


async def _gone(process: Process) -> bool:
    """True once it has ended. Not `wait`, which also waits for whoever holds its pipes."""
    for _ in range(100):
        if process.returncode is not None:
            return True
        await asyncio.sleep(LEAVE_SECONDS / 100)
    return False


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _message(line: bytes) -> JSONRPCMessage | None:
    """The message in a line; None for anything else, such as what was meant for a screen. Raises `ValueError`."""
    if not line.lstrip().startswith(b"{"):
        return None
    if size_of(line) > MAX_ANSWER:
        raise ValueError(TOO_MUCH)
    with suppress(ValueError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    try:  # without halves of characters, as programs leave them that cut a text
        return jsonrpc_message_adapter.validate_json(jsonval.dump(jsonval.parse(line)), by_name=False)
    except ValueError as error:
        logger.debug("a line of an MCP server is no message: {}", shorten(str(error), 200))
        return None
