"""Puts the Telegram channel together from its parts. The only module of the room that knows them all."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from nanobot.bus.events import Address
from nanobot.channels.base import Agent
from nanobot.channels.telegram.access import Access
from nanobot.channels.telegram.access_commands import access_commands
from nanobot.channels.telegram.bot import PollClient, TelegramLine
from nanobot.channels.telegram.channel import Running, Source, TelegramChannel
from nanobot.channels.telegram.claiming import Announce, Claiming
from nanobot.channels.telegram.gate import Gate
from nanobot.channels.telegram.health import Health
from nanobot.channels.telegram.inbox import Inbox, InboxParts
from nanobot.channels.telegram.intake import IntakeSettings, TelegramIntake
from nanobot.channels.telegram.media import MediaFolder
from nanobot.channels.telegram.menu import CommandMenu
from nanobot.channels.telegram.plain import PlainOutbox, PlainPainter
from nanobot.channels.telegram.poller import Poller
from nanobot.channels.telegram.seams import Outbox
from nanobot.channels.telegram.settings import TelegramSettings, settings_of
from nanobot.channels.telegram.voice import Transcriber, VoiceSettings, choose_transcriber
from nanobot.channels.telegram.webhook import Webhook
from nanobot.command.dispatch import CommandRouter
from nanobot.command.settings import SettingsControl
from nanobot.config.schema import Config
from nanobot.session.ledger import Ledger
from nanobot.session.lock import token_lock


@dataclass(frozen=True, slots=True)
class TelegramSetup:
    """What the channel is made from. `chats` are the settings of chats; `announce` shows the link of the owner."""

    config: Config
    env: Mapping[str, str]
    agent: Agent
    ledger: Ledger
    router: CommandRouter
    chats: SettingsControl
    media: Path
    health_file: Path
    announce: Announce


def assemble(setup: TelegramSetup) -> TelegramChannel:
    """The channel, ready to start. Raises `ChannelError` where its configuration cannot work. Opens no connection."""
    settings = settings_of(setup.config.channels.telegram, setup.env)
    line = TelegramLine(settings)
    client = httpx.AsyncClient(proxy=settings.proxy, trust_env=False, follow_redirects=False)
    access = Access(setup.ledger, settings.channel, settings.allow_from)
    for command in access_commands(access):
        setup.router.add(command)
    outbox = PlainOutbox(setup.ledger, settings.channel, line)
    health = Health()
    menu = CommandMenu(line, setup.router)
    parts = InboxParts(
        settings.channel,
        setup.ledger,
        line,
        _intake(setup, settings, line, client, outbox),
        Gate(access, setup.router, settings.group_policy),
        access,
        outbox,
        setup.agent,
        menu.offer,
    )
    inbox = Inbox(parts)
    claiming = Claiming(access, setup.announce)

    async def identify() -> None:
        await line.identify()
        health.username = line.username
        claiming.known(line.username)
        await menu.start()

    polls = PollClient(settings)
    source: Source = Poller(polls, inbox.accept, health, identify=identify)
    if settings.webhook is not None:
        source = Webhook(settings.webhook, line, inbox.accept, health, identify=identify)
    return TelegramChannel(
        Running(
            settings.channel,
            setup.agent,
            setup.ledger,
            inbox,
            source,
            PlainPainter(),
            outbox,
            claiming,
            health,
            token_lock(settings.token),
            setup.health_file,
            (polls.aclose, line.aclose, client.aclose),
        )
    )


def _intake(
    setup: TelegramSetup, settings: TelegramSettings, line: TelegramLine, client: httpx.AsyncClient, outbox: Outbox
) -> TelegramIntake:
    telegram = setup.config.channels.telegram

    async def say(address: Address, text: str) -> None:
        await setup.ledger.put((outbox.compose_text(address, f"say-{uuid.uuid4().hex}", text),))
        outbox.wake()

    return TelegramIntake(
        line,
        MediaFolder(setup.media, client, own_server=settings.own_server),
        IntakeSettings(telegram.join_seconds, telegram.group_context),
        transcriber=_transcriber(setup, client),
        say=say,
    )


def _transcriber(setup: TelegramSetup, client: httpx.AsyncClient) -> Transcriber:
    wanted = setup.config.channels.telegram.transcription
    keys = {name: one.api_key.get_secret_value() for name, one in setup.config.providers.items()}
    voice = VoiceSettings(
        wanted.command,
        wanted.api_base,
        wanted.api_key.get_secret_value(),
        wanted.model,
        wanted.language,
        keys,
    )
    return choose_transcriber(voice, client, setup.env)
