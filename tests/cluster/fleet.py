"""Several gateways on one database, as processes, each with a home of its own."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.channels.telegram.gateway import Gateway, start
from tests.cli.harness import Program, program
from tests.fakes.llm_server import LlmServer
from tests.fakes.telegram_server import TOKEN, TelegramServer


@dataclass(slots=True)
class Fleet:
    """`run(role)` starts a gateway; its name counts up. All are ended with the fleet."""

    folder: Path
    telegram: TelegramServer
    llm: LlmServer
    address: str
    people: list[int]
    concurrency: int = 8
    homes: dict[str, Program] = field(default_factory=dict)
    started: list[Gateway] = field(default_factory=list)

    async def run(self, role: str, name: str = "") -> Gateway:
        """Start a gateway; the same `name` has the same home again."""
        name = name or f"{role}-{len(self.homes)}"
        gateway = await start(self._home(name), "--role", role)
        self.started.append(gateway)
        return gateway

    def log(self, name: str) -> str:
        return (self.homes[name].home / "logs" / "nanobot.log").read_text(encoding="utf-8")

    def _home(self, name: str) -> Program:
        if name not in self.homes:
            place = self.folder / name
            place.mkdir()
            bot = {"enabled": True, "token": TOKEN, "apiBase": self.telegram.url, "joinSeconds": 0}
            self.homes[name] = program(
                place,
                self.llm,
                channels={"telegram": {**bot, "allowFrom": [str(person) for person in self.people]}},
                gateway={"ledger": self.address, "concurrency": self.concurrency},
            )
        return self.homes[name]


@contextlib.asynccontextmanager
async def fleet(
    folder: Path, telegram: TelegramServer, llm: LlmServer, address: str, people: list[int], concurrency: int = 8
) -> AsyncIterator[Fleet]:
    made = Fleet(folder, telegram, llm, address, people, concurrency)
    try:
        yield made
    finally:
        await asyncio.gather(*(gateway.kill() for gateway in made.started))
