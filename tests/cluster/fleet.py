"""Gateways as processes, each with a home of its own: several on one database, or one alone on its own file."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.channels.telegram.gateway import Gateway, start
from tests.cli.harness import Program, known_tools, program
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import TOKEN, TelegramServer

ADA, BOB = 5001, 5002


@dataclass(slots=True)
class Fleet:
    """`run(role)` starts a gateway; its name counts up. All are ended with the fleet.

    `address` is the database; empty for a gateway alone. `people` are the entries of allowFrom, `notes` the address of
    a tool server, `tools` further settings of tools. `cold`: each is started as people do, and none forked.
    """

    folder: Path
    telegram: TelegramServer
    llm: LlmServer
    address: str
    people: Sequence[int | str]
    concurrency: int = 8
    notes: str = ""
    tools: dict[str, object] = field(default_factory=dict)
    cold: bool = False
    homes: dict[str, Program] = field(default_factory=dict)
    started: list[Gateway] = field(default_factory=list)

    async def run(self, role: str, name: str = "") -> Gateway:
        """Start a gateway; the same `name` has the same home again."""
        name = name or f"{role}-{len(self.homes)}"
        new, home = name not in self.homes, self.home(name)
        if new and self.notes:
            await known_tools(home)
        gateway = await start(home, *(("--role", role) if self.address else ()), cold=self.cold)
        self.started.append(gateway)
        return gateway

    def home(self, name: str) -> Program:
        """The home of a gateway of that name, which need not have started."""
        if name not in self.homes:
            self.homes[name] = self._home(name)
        return self.homes[name]

    def log(self, name: str) -> str:
        return (self.homes[name].home / "logs" / "nanobot.log").read_text(encoding="utf-8")

    def _home(self, name: str) -> Program:
        place = self.folder / name
        place.mkdir()
        bot = {"enabled": True, "token": TOKEN, "apiBase": self.telegram.url, "joinSeconds": 0}
        return program(
            place,
            self.llm,
            channels={"telegram": {**bot, "allowFrom": [str(person) for person in self.people]}},
            gateway={"ledger": self.address, "concurrency": self.concurrency},
            tools={"mcpServers": {"notes": {"url": self.notes}} if self.notes else {}, **self.tools},
        )


@contextlib.asynccontextmanager
async def fleet(
    folder: Path,
    telegram: TelegramServer,
    llm: LlmServer,
    address: str,
    people: Sequence[int | str],
    concurrency: int = 8,
    notes: str = "",
    tools: dict[str, object] | None = None,
    *,
    cold: bool = False,
) -> AsyncIterator[Fleet]:
    made = Fleet(folder, telegram, llm, address, people, concurrency, notes, tools or {}, cold)
    try:
        yield made
    finally:
        await asyncio.gather(*(gateway.kill() for gateway in made.started))
