"""Puts the Telegram channel together from its parts. The only module of the room that knows them all."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path

import httpx
from msgspec import Struct, field

from nanobot.bus.alarms import Alarm, Alarms, Tell
from nanobot.bus.events import Address
from nanobot.channels.base import Agent
from nanobot.channels.documents import Documents
from nanobot.channels.telegram.access.claim_link import Announce, Claiming
from nanobot.channels.telegram.access.gate import Gate
from nanobot.channels.telegram.access.people import Access, access_commands
from nanobot.channels.telegram.access.refusals import Refusals
from nanobot.channels.telegram.addressing import CHANNEL
from nanobot.channels.telegram.bot import PollClient, TelegramLine
from nanobot.channels.telegram.channel import Running, Source, TelegramChannel
from nanobot.channels.telegram.health import Health
from nanobot.channels.telegram.menu import CommandMenu
from nanobot.channels.telegram.protocols import Line, Outbox, Say
from nanobot.channels.telegram.read.intake import IntakeSettings, Privacy, TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.read.old_media import OldMedia
from nanobot.channels.telegram.read.voice import Transcriber, VoiceSettings, choose_transcriber, endpoint_of
from nanobot.channels.telegram.receive.inbox import Inbox, InboxParts
from nanobot.channels.telegram.receive.poller import Accept, Poller
from nanobot.channels.telegram.receive.sharing import (
    ElectedSource,
    PollAndWork,
    PollingChannel,
    PollingParts,
    Work,
    keeping,
)
from nanobot.channels.telegram.receive.webhook import Webhook
from nanobot.channels.telegram.render.screen_messages import Slots
from nanobot.channels.telegram.send.calls import SHORT_SECONDS, Calls
from nanobot.channels.telegram.send.outbox import OutboxParts, ReplyTo, TelegramOutbox, no_reply
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.channels.telegram.settings import TelegramSettings, proxy_from, settings_of
from nanobot.channels.telegram.show.parts import ChatLooks, Looks, ProgressParts
from nanobot.channels.telegram.show.progress import TelegramProgress
from nanobot.cluster.share import Share
from nanobot.command.router import CommandRouter
from nanobot.command.settings import ChatSettings
from nanobot.config.schema import Config
from nanobot.security.network import no_cookies
from nanobot.session.ledger import Ledger
from nanobot.session.ledger_memory import now
from nanobot.session.lock import token_lock


class Sending(Struct, frozen=True):
    """Meets `protocols.ProgressRenderer` by `progress` and `protocols.Outbox` by `outbox`."""

    progress: TelegramProgress
    outbox: TelegramOutbox
    refusals: Refusals
    queues: ChatQueues


class SendingParts(Struct, frozen=True):
    """What sending needs. `channel` is the bot's name in the ledger; `queues` and `wall` bring the time."""

    ledger: Ledger
    channel: str
    line: TelegramLine
    looks: Looks
    reply_to: ReplyTo = no_reply
    queues: ChatQueues = field(default_factory=ChatQueues)
    wall: Callable[[], datetime] = now
    alarms: Alarms = field(default_factory=Alarms)


def sending(parts: SendingParts) -> Sending:
    slots = Slots()
    short = Calls(parts.line, parts.queues, SHORT_SECONDS)
    progress = ProgressParts(parts.ledger, parts.channel, short, parts.queues, slots, parts.looks)
    calls = Calls(parts.line, parts.queues)
    outbox = OutboxParts(
        parts.ledger, parts.channel, calls, parts.queues, slots, parts.reply_to, parts.wall, parts.alarms
    )
    return Sending(TelegramProgress(progress), TelegramOutbox(outbox), Refusals(calls, parts.queues), parts.queues)


class BuiltIntake(Struct, frozen=True):
    """The intake and what is to be closed after it."""

    intake: TelegramIntake
    close: tuple[Callable[[], Awaitable[None]], ...]


class IntakeNeeds(Struct, frozen=True):
    """What the intake asks of the program: showing a line, and the privacy of a chat."""

    say: Say
    privacy: Privacy | None = None


def build_intake(
    config: Config, settings: TelegramSettings, env: Mapping[str, str], line: Line, media: Path, wishes: IntakeNeeds
) -> BuiltIntake:
    """Opens no connection. Files come the way that Telegram is reached, speech goes the way to its own endpoint."""
    files = httpx.AsyncClient(proxy=settings.proxy, cookies=no_cookies(), trust_env=False, follow_redirects=False)
    transcriber, speech = _transcriber(config, env)
    telegram, documents = config.channels.telegram, Documents()
    intake = TelegramIntake(
        line,
        MediaFolder(media, files, own_server=settings.own_server),
        IntakeSettings(telegram.join_seconds, telegram.group_context),
        transcriber=transcriber,
        say=wishes.say,
        documents=documents,
        privacy=wishes.privacy,
    )
    return BuiltIntake(intake, (files.aclose, speech.aclose, documents.aclose))


def _transcriber(config: Config, env: Mapping[str, str]) -> tuple[Transcriber, httpx.AsyncClient]:
    wanted = config.channels.telegram.transcription
    voice = VoiceSettings(
        wanted.command,
        wanted.api_base,
        wanted.api_key,
        wanted.model,
        wanted.language,
        {name: one.api_key for name, one in config.providers.items()},
    )
    endpoint = endpoint_of(voice, env)
    proxy = proxy_from(env, endpoint.base) if endpoint is not None else None
    client = httpx.AsyncClient(proxy=proxy, cookies=no_cookies(), trust_env=False, follow_redirects=False)
    return choose_transcriber(voice, client, env), client


class TelegramSetup(Struct, frozen=True):
    """What the channel is made from. `chats` are the settings of chats; `announce` shows the link of the owner.

    `say` shows a line to who runs the gateway. `alarms` are told to the owner. `share` is the part of this process
    where several answer for the bot.
    """

    config: Config
    env: Mapping[str, str]
    agent: Agent
    ledger: Ledger
    router: CommandRouter
    chats: ChatSettings
    media: Path
    health_file: Path
    announce: Announce
    say: Callable[[str], None]
    alarms: Alarms = field(default_factory=Alarms)
    share: Share | None = None


def assemble(setup: TelegramSetup) -> TelegramChannel | PollingChannel:
    """The channel, ready to start. Raises `ChannelError` where its configuration cannot work. Opens no connection."""
    settings = settings_of(setup.config.channels.telegram, setup.env)
    line, health = TelegramLine(settings), Health(settings.base_url.removesuffix("/bot"), setup.say)
    access = Access(setup.ledger, settings.channel, settings.allow_from)

    def reply_to(turn: str) -> int:
        return inbox.message_of(turn) if settings.reply_to_message else 0

    parts = SendingParts(setup.ledger, settings.channel, line, ChatLooks(setup.chats), reply_to, alarms=setup.alarms)
    sender = sending(parts)
    say = _saying(setup, sender.outbox)
    for command in access_commands(access, say):
        setup.router.add(command)
    setup.alarms.through(_to_owner(setup, access, sender.outbox), setup.ledger)
    built = _intake_of(setup, settings, line, say)
    menu, claiming = CommandMenu(line, setup.router), Claiming(access, setup.announce, shared=setup.share is not None)
    gate = Gate(access, setup.router, settings.group_policy)
    outward = (sender.outbox, sender.refusals, setup.agent, menu.offer, setup.alarms)
    inbox = Inbox(InboxParts(settings.channel, setup.ledger, line, built.intake, gate, access, *outward))

    async def identify() -> None:
        await line.identify()
        inbox.identified()
        health.username = line.username
        claiming.known(line.username)
        await menu.start()

    polls = PollClient(settings)
    close = (polls.aclose, line.aclose, *built.close)
    share = setup.share
    if share is None:
        source = _source(settings, line, polls, inbox.accept, health, identify)
        return TelegramChannel(_running(setup, settings, inbox, source, sender, claiming, health, close))
    accept = keeping(setup.ledger, settings.channel)
    source = _source(settings, line, polls, accept, health, identify)
    polling = settings.webhook is None
    source = (
        ElectedSource(share.election(f"poller:{settings.channel}"), source, claiming)
        if polling
        else PollAndWork(source, claiming)
    )
    if not share.works:
        return PollingChannel(PollingParts(source, health, setup.health_file, close))
    dispatcher = share.dispatch(settings.channel)
    work = Work(dispatcher, inbox, health, sender.queues, identify)
    both = PollAndWork(source, work) if share.polls else work
    return TelegramChannel(_running(setup, settings, inbox, both, sender, None, health, (dispatcher.aclose, *close)))


def _running(
    setup: TelegramSetup,
    settings: TelegramSettings,
    inbox: Inbox,
    source: Source,
    sender: Sending,
    claiming: Claiming | None,
    health: Health,
    close: tuple[Callable[[], Awaitable[None]], ...],
) -> Running:
    return Running(
        settings.channel,
        setup.agent,
        setup.ledger,
        inbox,
        source,
        sender.progress,
        sender.outbox,
        claiming,
        health,
        token_lock(settings.token) if setup.share is None else nullcontext(),
        setup.health_file,
        close,
        shared=setup.share is not None,
        old_media=OldMedia(setup.media, setup.ledger, settings.channel) if setup.share is None else None,
    )


def _to_owner(setup: TelegramSetup, access: Access, outbox: Outbox) -> Tell:
    """Tells the owner in their private chat, whose number is their own."""

    async def tell(alarm: Alarm) -> bool:
        owner = await access.owner()
        if owner:
            await setup.ledger.put((outbox.compose_text(Address(CHANNEL, owner), alarm.key, f"⚠️ {alarm.text}"),))
            outbox.wake()
        return bool(owner)

    return tell


def _source(
    settings: TelegramSettings,
    line: TelegramLine,
    polls: PollClient,
    accept: Accept,
    health: Health,
    identify: Callable[[], Awaitable[None]],
) -> Source:
    if settings.webhook is not None:
        return Webhook(settings.webhook, line, accept, health, identify=identify)
    return Poller(polls, accept, health, identify=identify)


def _saying(setup: TelegramSetup, outbox: Outbox) -> Say:
    async def say(address: Address, text: str, key: str) -> None:
        await setup.ledger.put((outbox.compose_text(address, key, text),))
        outbox.wake()

    return say


def _intake_of(setup: TelegramSetup, settings: TelegramSettings, line: TelegramLine, say: Say) -> BuiltIntake:
    async def privacy(key: str) -> bool:
        return await setup.chats.get(key, "privacy") == "on"

    return build_intake(setup.config, settings, setup.env, line, setup.media, IntakeNeeds(say, privacy))
