"""The program as a person starts it: a process with a home of its own and a scripted model server on loopback."""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from nanobot.config.schema_tools import McpServerConfig
from tests.conftest import WARNINGS
from tests.fakes import forks
from tests.fakes.ledger import rows
from tests.fakes.llm_server import LlmServer, ReplySource
from tests.fakes.sections import section

BOUND = 120.0


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, object]]:
        """The standard output as one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass(frozen=True, slots=True)
class Program:
    """`python -m nanobot` with this home."""

    home: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            "HOME": str(self.home.parent),
            "NANOBOT_HOME": str(self.home),
            "PATH": os.environ.get("PATH", ""),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "TMPDIR": tempfile.gettempdir(),
            # The lock of a bot's token lies here: two runs of the tests on one machine share none.
            "XDG_RUNTIME_DIR": str(self.home.parent / "runtime"),
            "PYTHONWARNINGS": WARNINGS,
        }

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        """What a statement finds or changes in its database."""
        return rows(self.home / "nanobot.db", query, *values)

    def change(self, **more: object) -> "Program":
        """Put further keys into its configuration, in which an object keeps what is not named here."""
        path = self.home / "config.json"
        path.write_text(json.dumps(_merged(json.loads(path.read_text(encoding="utf-8")), more)), encoding="utf-8")
        return self

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "nanobot", *arguments]

    async def start(
        self, *arguments: str, piped: bool = False, env: dict[str, str] | None = None
    ) -> asyncio.subprocess.Process:
        stdin = asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL
        return await asyncio.create_subprocess_exec(
            *self.command(*arguments),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self.env, **(env or {})},
        )

    async def run(
        self, *arguments: str, stdin: bytes | None = None, env: dict[str, str] | None = None, cold: bool = False
    ) -> Ran:
        """Run to the end, within `BOUND` seconds; forked, unless it has a Python of its own or is to start `cold`."""
        variables = {**self.env, **(env or {})}
        if not cold and type(self).command is Program.command and forks.forkable(variables, stdin):
            return await finish(await forks.start(arguments, variables, given=stdin))
        process = await self.start(*arguments, piped=stdin is not None, env=env)
        return await finish(process, stdin)


def _merged(known: object, more: object) -> object:
    if not isinstance(known, dict) or not isinstance(more, dict):
        return more
    return {**known, **{name: _merged(known.get(name), value) for name, value in more.items()}}


async def finish(process: asyncio.subprocess.Process | forks.Forked, stdin: bytes | None = None) -> Ran:
    try:
        out, err = await asyncio.wait_for(process.communicate(stdin), BOUND)
    except TimeoutError:
        process.send_signal(signal.SIGKILL)
        raise
    judge_warnings(err.decode())
    return Ran(process.returncode or 0, out.decode(), err.decode())


def judge_warnings(printed: str) -> None:
    """A warning is an error in a program that tests start; one in a destructor is only printed."""
    found = re.search(r"^(?:\w+\.)*\w*Warning: .*$", printed, re.MULTILINE)
    assert found is None, printed


def program(tmp_path: Path, server: LlmServer | None = None, **more: object) -> Program:
    """A program whose model is `server`; `more` are further top-level keys of the configuration."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    config: dict[str, object] = {"agents": {"defaults": {"model": "fake", "provider": "custom"}}, **more}
    if server is not None:
        config["providers"] = {"custom": {"apiKey": "k-for-tests", "apiBase": f"{server.url}/v1"}}
    path = home / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    path.chmod(0o600)
    return Program(home)


@asynccontextmanager
async def modelled(
    tmp_path: Path, *replies: ReplySource, after: ReplySource | None = None, **more: object
) -> AsyncIterator[tuple[Program, LlmServer]]:
    """A program and its model, which says this; `more` as of `program`."""
    async with LlmServer(*replies, after=after) as server:
        yield program(tmp_path, server, **more), server


async def known_tools(home: Program) -> None:
    """List the tools of this home's MCP servers, as a start does that has more than five seconds for it."""
    from nanobot.agent.tools.mcp.servers import McpServers  # loads the SDK, which most tests do not need

    config = json.loads((home.home / "config.json").read_text(encoding="utf-8"))
    settings = {name: section(McpServerConfig, one) for name, one in config["tools"]["mcpServers"].items()}
    servers = McpServers(settings, cache=home.home / "cache" / "mcp_tools.json")
    await servers.start(BOUND)
    await servers.aclose()
