"""`nanobot gateway` as a process, between a Bot API server and a model server on loopback."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.harness import BOUND, Program, judge_warnings, program
from tests.fakes import forks
from tests.fakes.llm_server import LlmServer, ReplySource
from tests.fakes.telegram_server import TOKEN, TelegramServer, User

OWNER = 4242


@dataclass(slots=True)
class Gateway:
    """One run of the program. `output` is what it has printed so far."""

    process: asyncio.subprocess.Process | forks.Forked
    output: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        return self.output.decode("utf-8", "replace")

    async def stop(self) -> int:
        """Ask it to end, as a supervisor does, and wait."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        code = await self.ended()
        judge_warnings(self.text)
        return code

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)
        await self.ended()

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), BOUND)


def configured(tmp_path: Path, telegram: TelegramServer, llm: LlmServer | None, **keys: object) -> Program:
    """A home whose bot lives on `telegram`; `keys` are further ones of channels.telegram. `OWNER` owns the bot."""
    bot: dict[str, object] = {"enabled": True, "token": TOKEN, "apiBase": telegram.url, "allowFrom": [str(OWNER)]}
    return program(tmp_path, llm, channels={"telegram": {**bot, **keys}})


async def start(home: Program, *arguments: str, env: dict[str, str] | None = None, cold: bool = False) -> Gateway:
    """Start the program and read what it prints in the background. It is forked, unless it is to start `cold`."""
    variables = {**home.env, **_coverage(), **(env or {})}
    if not cold and not _coverage() and forks.forkable(variables):
        gateway = Gateway(await forks.start(["gateway", *arguments], variables, together=True))
    else:
        process = await asyncio.create_subprocess_exec(
            *home.command("gateway", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=variables,
        )
        gateway = Gateway(process)
    task = asyncio.ensure_future(_read(gateway))
    task.add_done_callback(lambda _done: None)
    _READERS.add(task)
    return gateway


@contextlib.asynccontextmanager
async def running(
    home: Program, *arguments: str, env: dict[str, str] | None = None, cold: bool = False
) -> AsyncIterator[Gateway]:
    """A gateway that is stopped at the end, by force if need be."""
    gateway = await start(home, *arguments, env=env, cold=cold)
    try:
        yield gateway
        await gateway.stop()
    finally:
        await gateway.kill()


@contextlib.asynccontextmanager
async def furnished(
    tmp_path: Path, *replies: ReplySource, after: ReplySource | None = None, **keys: object
) -> AsyncIterator[tuple[TelegramServer, LlmServer, User, Program]]:
    """The two servers, Ada who owns the bot, and a home between them as `configured` makes it."""
    async with TelegramServer() as telegram, LlmServer(*replies, after=after) as llm:
        yield telegram, llm, telegram.user("Ada", OWNER), configured(tmp_path, telegram, llm, **keys)


@contextlib.asynccontextmanager
async def serving(
    tmp_path: Path, *replies: ReplySource, after: ReplySource | None = None, **keys: object
) -> AsyncIterator[tuple[TelegramServer, LlmServer, User, Gateway]]:
    """The same with the gateway that runs between them."""
    furniture = furnished(tmp_path, *replies, after=after, **keys)
    async with furniture as (telegram, llm, ada, home), running(home) as gateway:
        yield telegram, llm, ada, gateway


_READERS: set["asyncio.Future[None]"] = set()


async def _read(gateway: Gateway) -> None:
    assert gateway.process.stdout is not None
    while block := await gateway.process.stdout.read(4096):
        gateway.output += block


def _coverage() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}
