"""An intake with a real client library against the fake Bot API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from telegram import Update

from nanobot.bus.events import Address, InboundMessage
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.incoming import IncomingMessage, place_of, whole
from nanobot.channels.telegram.read.intake import TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.read.voice import Transcriber
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.command.settings import ChatSettings
from nanobot.web.client import trusted_client
from tests.fakes.telegram_server import TOKEN, Json, TelegramServer


@dataclass(slots=True)
class IntakeStage:
    """The intake, the server behind it, and what was said in the chats."""

    server: TelegramServer
    line: TelegramLine
    intake: TelegramIntake
    folder: Path
    said: list[tuple[Address, str]] = field(default_factory=list)

    def read(self, update: Json) -> Update:
        found = Update.de_json(update, self.line.bot)
        assert found is not None
        return found

    def incoming(self, *updates: Json) -> IncomingMessage:
        incoming = whole(map(self.describe, updates))
        assert incoming is not None
        return incoming

    def describe(self, update: Json) -> IncomingMessage:
        """One update for itself, also an edit."""
        incoming = self.told(update)
        assert incoming is not None
        return incoming

    def told(self, update: Json) -> IncomingMessage | None:
        """What an update says; None where no person says anything."""
        return self.intake.describe(self.read(update), place_of(update))

    async def take(self, *updates: Json) -> InboundMessage:
        return await self.intake.complete(self.incoming(*updates))


@asynccontextmanager
async def intake_stage(
    folder: Path,
    *,
    quiet: float = 0.0,
    overheard: int = 0,
    transcriber: Transcriber | None = None,
    own_server: bool = False,
    limit: int = 0,
    chats: ChatSettings | None = None,
    place: str = "",
) -> AsyncIterator[IntakeStage]:
    """`place` is where the tools reach every file that is kept."""

    async def receive(_message: InboundMessage, _file: Path, _name: str) -> str:
        return place

    said: list[tuple[Address, str]] = []

    async def say(address: Address, text: str, key: str) -> None:
        assert key.startswith("say-")
        said.append((address, text))

    async with TelegramServer() as server, trusted_client() as client:
        line = TelegramLine(
            TelegramSettings(TOKEN, base_url=f"{server.url}/bot", base_file_url=f"{server.url}/file/bot")
        )
        await line.identify()
        media = MediaFolder(folder, client, own_server=own_server, limit=limit)
        intake = TelegramIntake(
            line,
            media,
            quiet=quiet,
            overheard=overheard,
            transcriber=transcriber,
            say=say,
            chats=chats,
            receive=receive,
        )
        try:
            yield IntakeStage(server, line, intake, folder, said)
        finally:
            await intake.aclose()
            await line.aclose()
