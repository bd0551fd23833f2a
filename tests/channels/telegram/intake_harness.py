"""An intake with a real client library against the fake Bot API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from telegram import Bot, Update
from telegram.request import HTTPXRequest

from nanobot.bus.events import Address, InboundMessage
from nanobot.channels.documents import Documents
from nanobot.channels.telegram.read.incoming import IncomingMessage, whole
from nanobot.channels.telegram.read.intake import IntakeSettings, Privacy, TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.read.voice import Transcriber
from tests.fakes.telegram_server import BOT, TOKEN, Json, TelegramServer


@dataclass(frozen=True, slots=True)
class PlainLine:
    """Meets `protocols.Line`."""

    bot: Bot

    @property
    def bot_id(self) -> int:
        return int(str(BOT["id"]))

    @property
    def username(self) -> str:
        return str(BOT["username"])

    async def renew(self) -> None:
        return None


@dataclass(slots=True)
class IntakeStage:
    """The intake, the server behind it, and what was said in the chats."""

    server: TelegramServer
    bot: Bot
    intake: TelegramIntake
    folder: Path
    said: list[tuple[Address, str]] = field(default_factory=list)

    def read(self, update: Json) -> Update:
        found = Update.de_json(update, self.bot)
        assert found is not None
        return found

    def incoming(self, *updates: Json) -> IncomingMessage:
        incoming = whole(map(self.describe, updates))
        assert incoming is not None
        return incoming

    def describe(self, update: Json) -> IncomingMessage:
        """One update for itself, also an edit."""
        incoming = self.intake.describe(self.read(update))
        assert incoming is not None
        return incoming

    async def take(self, *updates: Json) -> InboundMessage:
        return await self.intake.complete(self.incoming(*updates))


@asynccontextmanager
async def intake_stage(
    folder: Path,
    *,
    settings: IntakeSettings | None = None,
    transcriber: Transcriber | None = None,
    own_server: bool = False,
    limit: int = 0,
    privacy: Privacy | None = None,
) -> AsyncIterator[IntakeStage]:
    said: list[tuple[Address, str]] = []

    async def say(address: Address, text: str, key: str) -> None:
        assert key.startswith("say-")
        said.append((address, text))

    def request() -> HTTPXRequest:
        return HTTPXRequest(httpx_kwargs={"trust_env": False})

    async with TelegramServer() as server, httpx.AsyncClient(trust_env=False) as client:
        bot = Bot(
            TOKEN,
            base_url=f"{server.url}/bot",
            base_file_url=f"{server.url}/file/bot",
            request=request(),
            get_updates_request=request(),
        )
        async with bot:
            documents = Documents()
            media = MediaFolder(folder, client, own_server=own_server, limit=limit)
            intake = TelegramIntake(
                PlainLine(bot), media, settings, transcriber=transcriber, say=say, documents=documents, privacy=privacy
            )
            try:
                yield IntakeStage(server, bot, intake, folder, said)
            finally:
                await documents.aclose()
