"""Puts the Telegram channel together from its parts. The only module of the room that knows them all."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

from msgspec import Struct, field

from nanobot.bus.alarms import Alarm, Alarms, Tell
from nanobot.bus.events import Address
from nanobot.channels.base import Agent
from nanobot.channels.telegram.access import Access
from nanobot.channels.telegram.access_commands import access_commands
from nanobot.channels.telegram.addressing import CHANNEL
from nanobot.channels.telegram.bot import PollClient, TelegramLine
from nanobot.channels.telegram.channel import Running, Source, TelegramChannel
from nanobot.channels.telegram.claiming import Announce, Claiming
from nanobot.channels.telegram.gate import Gate
from nanobot.channels.telegram.health import Health
from nanobot.channels.telegram.inbox import Inbox, InboxParts
from nanobot.channels.telegram.menu import CommandMenu
from nanobot.channels.telegram.old_media import OldMedia
from nanobot.channels.telegram.poller import Accept, Poller
from nanobot.channels.telegram.reception import Reception, Wishes, receive
from nanobot.channels.telegram.seams import Outbox, Say
from nanobot.channels.telegram.sending import Sending, SendingParts, sending
from nanobot.channels.telegram.settings import TelegramSettings, settings_of
from nanobot.channels.telegram.sharing import Both, PollingChannel, PollingParts, Turnstile, Work, keeping
from nanobot.channels.telegram.showing import ChatLooks
from nanobot.channels.telegram.webhook import Webhook
from nanobot.cluster.share import Share
from nanobot.command.dispatch import CommandRouter
from nanobot.command.settings import SettingsControl
from nanobot.config.schema import Config
from nanobot.session.ledger import Ledger
from nanobot.session.lock import token_lock


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
    chats: SettingsControl
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
    reception = _reception(setup, settings, line, say)
    menu, claiming = CommandMenu(line, setup.router), Claiming(access, setup.announce, shared=setup.share is not None)
    gate = Gate(access, setup.router, settings.group_policy)
    outward = (sender.outbox, sender.refusals, setup.agent, menu.offer, setup.alarms)
    inbox = Inbox(InboxParts(settings.channel, setup.ledger, line, reception.intake, gate, access, *outward))

    async def identify() -> None:
        await line.identify()
        inbox.identified()
        health.username = line.username
        claiming.known(line.username)
        await menu.start()

    polls = PollClient(settings)
    close = (polls.aclose, line.aclose, *reception.close)
    share = setup.share
    if share is None:
        source = _source(settings, line, polls, inbox.accept, health, identify)
        return TelegramChannel(_running(setup, settings, inbox, source, sender, claiming, health, close))
    accept = keeping(setup.ledger, settings.channel)
    source = _source(settings, line, polls, accept, health, identify)
    polling = settings.webhook is None
    source = (
        Turnstile(share.election(f"poller:{settings.channel}"), source, claiming) if polling else Both(source, claiming)
    )
    if not share.works:
        return PollingChannel(PollingParts(source, health, setup.health_file, close))
    dispatcher = share.dispatch(settings.channel)
    work = Work(dispatcher, inbox, health, sender.lanes, identify)
    both = Both(source, work) if share.polls else work
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
        sender.painter,
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


def _reception(setup: TelegramSetup, settings: TelegramSettings, line: TelegramLine, say: Say) -> Reception:
    async def privacy(key: str) -> bool:
        return await setup.chats.get(key, "privacy") == "on"

    return receive(setup.config, settings, setup.env, line, setup.media, Wishes(say, privacy))
