"""Telegram as a channel: puts its parts together, starts them and stops them in the right order."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger
from msgspec import Struct, field

from nanobot.bus.alarms import Alarm, Alarms
from nanobot.bus.events import Address, OutboundMessage
from nanobot.channels.base import Agent
from nanobot.channels.telegram.access.gate import Gate, access_commands
from nanobot.channels.telegram.access.people import Access, Announce, offer_link, watch_rights
from nanobot.channels.telegram.bot import POLL_SECONDS, CommandMenu, TelegramLine
from nanobot.channels.telegram.read.incoming import arrivals_of
from nanobot.channels.telegram.read.intake import Receive, TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder, OldMedia
from nanobot.channels.telegram.read.voice import transcriber_of
from nanobot.channels.telegram.receive.inbox import Inbox
from nanobot.channels.telegram.receive.poller import UNREACHED, Health, Poller, reached
from nanobot.channels.telegram.receive.webhook import Webhook
from nanobot.channels.telegram.render.answer import OutgoingMessage, outgoing_of
from nanobot.channels.telegram.render.markdown import render
from nanobot.channels.telegram.render.screen_messages import split, utf16_length
from nanobot.channels.telegram.send.calls import Sending
from nanobot.channels.telegram.send.messages import TelegramMessages, TelegramReports
from nanobot.channels.telegram.send.outbox import TelegramOutbox
from nanobot.channels.telegram.send.pacing import ChatQueues
from nanobot.channels.telegram.settings import CHANNEL, settings_of
from nanobot.channels.telegram.show.progress import TelegramProgress
from nanobot.cluster.share import Handlers, Share
from nanobot.command.router import CommandRouter
from nanobot.command.settings import ChatSettings
from nanobot.config.schema import Config
from nanobot.errors import StoreError
from nanobot.session.database import now, until_stored
from nanobot.session.ledger import Ledger
from nanobot.session.lock import token_lock
from nanobot.utils.host import settled
from nanobot.utils.translation import _, apart, speaking, spoken_at
from nanobot.utils.watchdog import StallWatch
from nanobot.web.client import trusted_client

if TYPE_CHECKING:
    from nanobot.cluster.worker import ClusterWorker

#: Seconds that running turns, and then the delivery of answers, get when the channel stops.
GRACE = 5.0
_HEALTH_EVERY = 15.0
_PURGE_EVERY = 3_600.0
Work = Callable[[], Coroutine[object, object, None]]


class TelegramSetup(Struct, frozen=True):
    """What the channel is made from. `chats` are the settings of chats; `announce` shows the link of the owner.

    `say` shows a line to who runs the gateway. `alarms` are told to the owner. `share` is the part of this process
    where several answer for the bot. Into `messengers` goes what brings messages to the chats of the bot. `prepare`
    does what answers need and a start does not, in a thread.
    """

    config: Config
    env: Mapping[str, str]
    agent: Agent
    ledger: Ledger
    router: CommandRouter
    chats: ChatSettings
    media: Path
    receive: Receive
    health_file: Path
    home: Path
    announce: Announce
    say: Callable[[str], None]
    alarms: Alarms = field(default_factory=Alarms)
    share: Share | None = None
    messengers: dict[str, TelegramMessages] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None


class TelegramChannel:
    """Meets `channels.base.BaseChannel`. Opens no connection before `start`.

    Raises `ChannelError` or `UsageError` where its configuration cannot work.
    """

    def __init__(self, setup: TelegramSetup) -> None:
        self._setup = setup
        self._share = setup.share
        telegram = setup.config.channels.telegram
        self._settings = settings = settings_of(telegram, setup.env)
        self._stop, self._identified = asyncio.Event(), asyncio.Event()
        self._line, self._polls = TelegramLine(settings), TelegramLine(settings)
        self._health = Health(settings.base_url.removesuffix("/bot"), setup.say)
        self._access = Access(setup.ledger, settings.channel, settings.allow_from)
        self._menu = CommandMenu(self._line, setup.router, setup.ledger)
        self._sending = Sending.over(self._line, setup.ledger, settings.channel, ChatQueues())
        self._outbox = TelegramOutbox(self._sending, replies=telegram.reply_to_message, alarms=setup.alarms)
        setup.messengers[CHANNEL] = TelegramMessages(self._access, settings.channel, self._outbox.put)
        self._progress = TelegramProgress(self._sending, setup.chats, self._access.owner)
        self._intake = self._made_intake()
        self._gate = Gate(self._access, setup.router, telegram.group_policy)
        self._inbox = Inbox(self._line, self._intake, self._gate, self._outbox, setup.agent, self._menu.offer)
        #: Brings what comes of the schedule to people.
        self.reports = TelegramReports(self._access, self._outbox, self._inbox.recall)
        self._dispatcher = setup.share.worker if setup.share else None
        for command in access_commands(self._access, self._outbox.say):
            setup.router.add(command)
        setup.alarms.through(self._tell_owner, setup.ledger)

    def _made_intake(self) -> TelegramIntake:
        """Files come the way that Telegram is reached, speech goes the way to its own endpoint."""
        setup, telegram = self._setup, self._setup.config.channels.telegram
        files = trusted_client(self._settings.proxy)
        keys = {name: one.api_key for name, one in setup.config.providers.items()}
        return TelegramIntake(
            self._line,
            MediaFolder(setup.media, files, own_server=self._settings.own_server),
            quiet=telegram.join_seconds,
            overheard=telegram.group_context,
            transcriber=transcriber_of(telegram.transcription, keys, setup.env),
            say=self._outbox.say,
            chats=setup.chats,
            receive=setup.receive,
        )

    @property
    def name(self) -> str:
        return CHANNEL

    def health_line(self) -> str:
        """One line for /status: how long ago Telegram last answered, and what waits."""
        waiting = self._inbox.waiting
        return apart([self._health.line(), *([_("{number} in the queue", number=waiting)] if waiting else [])])

    def take(self, config: Config) -> None:
        """Take over what may be of a configuration that has changed."""
        telegram = config.channels.telegram
        self._access.allow(telegram.allow_from)
        self._gate.policy, self._outbox.replies = telegram.group_policy, telegram.reply_to_message

    async def start(self) -> None:
        """Serve until `stop`. Raises `ChannelError` where Telegram refuses the token or another nanobot uses it."""
        lock = token_lock(self._settings.token) if self._share is None else nullcontext()
        with lock:
            events = self._setup.agent.bus.subscribe(self.name)
            try:
                with StallWatch(self._stalled):
                    async with asyncio.TaskGroup() as group:
                        problem = await self._serve(group, events)
            finally:
                await self._inbox.aclose(0)
                if self._dispatcher is not None:
                    await self._dispatcher.aclose()
                for part in (self._polls, self._line, self._intake):
                    await part.aclose()
                self._health.state = "stopped"
                self._write_health()
        if problem is not None:
            raise problem

    async def stop(self) -> None:
        self._stop.set()

    async def _serve(self, group: asyncio.TaskGroup, events: AsyncIterator[OutboundMessage]) -> Exception | None:
        """Run the parts; when updates end, let turns end and answers go out. Returns why updates ended, if in error."""
        running = [self._tell()]
        if self._share is None or self._dispatcher is not None:
            running += [self._progress.follow(events), self._progress.run(), self._outbox.run(), self._tidy()]
            running.append(self._beside())
            running.append(watch_rights(self._access, self._setup.agent.loop))
        if self._share is None:
            running.append(self._claim())
        else:
            running.append(until_stored(self._inbox.recall))
        work = [group.create_task(one) for one in running]
        if self._share is None:
            await self._inbox.recall()
        source = asyncio.ensure_future(self._source()())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({source, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            source.cancel()
            stopping.cancel()
            if self._share is not None:
                self._share.database.ending = True
        problem, _ = await asyncio.gather(source, stopping, return_exceptions=True)
        if isinstance(problem, StoreError) or (self._share is not None and self._share.database.is_away):
            await self._inbox.aclose(0)  # what this process had is another's, now or soon
        else:
            await self._inbox.aclose(GRACE)
            await self._outbox.drain(GRACE)
        for task in work:
            task.cancel()
        return problem if isinstance(problem, Exception) else None

    # Where updates come from

    def _source(self) -> Work:
        """Brings updates until it is cancelled: polls or listens, works on what others have taken in, or both."""
        share, settings = self._share, self._settings
        accept = self._inbox.accept if share is None else self._keep
        if settings.webhook is not None:
            bring = Webhook(settings.webhook, self._line, accept, self._health, begin=self._begin).run
        else:
            bring = Poller(self._polls, accept, self._health, begin=self._begin).run
        if share is None:
            return bring

        def take_in() -> Coroutine[object, object, None]:
            return both(bring, self._claim)

        def elected() -> Coroutine[object, object, None]:  # one process of many polls
            return share.database.elect(f"poller:{settings.channel}", take_in)

        taking = elected if settings.webhook is None else take_in
        if self._dispatcher is None:
            return taking
        worker = partial(self._work, self._dispatcher)
        return (lambda: both(taking, worker)) if share.polls else worker

    async def _begin(self) -> None:
        """Learn the name by which groups call the bot; then take up what an earlier process left."""
        await reached(self._identify, self._health, UNREACHED)
        if self._share is None:
            await self._inbox.resume()
            await self._setup.agent.loop.announce_lost(CHANNEL, self._outbox.say)

    async def _work(self, dispatcher: "ClusterWorker") -> None:
        """Work on the updates that this process is given where many answer for one bot.

        Raises `ChannelError` where Telegram refuses the token, `StoreError` where the work has gone to others.
        """
        await reached(self._identify, self._health, UNREACHED)
        self._sending.queues.pace.may_send = lambda: dispatcher.alive
        await dispatcher.run(Handlers(self._inbox.take, self._inbox.set_aside, self._living))

    def _living(self, workers: int) -> None:
        self._sending.queues.pace.share(workers)
        self._health.works("working", workers)

    async def _identify(self) -> None:
        async with asyncio.timeout(POLL_SECONDS):
            await self._line.identify()
        self._health.username = self._line.me.username
        self._write_health()  # who has started it waits for this name
        await self._access.keep_username(self._line.me.username)
        self._identified.set()

    async def _keep(self, updates: list[dict[str, object]]) -> None:
        """Keep updates for whoever works on them. Raises `StoreError`."""
        await self._setup.ledger.accept(self._settings.channel, arrivals_of(updates))

    # Beside it

    async def _claim(self) -> None:
        """Let the owner claim the bot, whose name is in the link."""
        await self._identified.wait()
        await offer_link(self._access, self._setup.announce, self._line.me.username)

    async def _tidy(self) -> None:
        """Forget what was settled long ago; files only where no other ledger may name those of the folder too."""
        setup = self._setup
        media = OldMedia(setup.media, setup.ledger, self._settings.channel) if self._share is None else None
        while True:
            try:
                await setup.ledger.purge()
                if media is not None:
                    await media.forget(settled(setup.media.parent, now()))
            except StoreError as error:
                logger.warning("old rows and files could not be forgotten: {}", error)
            await asyncio.sleep(_PURGE_EVERY)

    async def _beside(self) -> None:
        """What answers will need is loaded beside the first poll, which waits for none of it; then menus are set."""
        await self._identified.wait()
        await asyncio.to_thread(self._prepare)
        await self._menu.run()

    def _prepare(self) -> None:
        # English: nobody reads it
        shown = render("What *answers* take to be [shown](https://example.org).")  # its parser compiles its patterns
        outgoing_of(OutgoingMessage("text", split(shown)[0]).to_json())  # and its reader is made
        utf16_length(shown.text)  # its encoding is loaded
        self._setup.prepare()

    async def _tell_owner(self, alarm: Alarm) -> bool:
        """Tell the owner in their private chat, whose number is their own."""
        owner = await self._access.owner()
        if owner:
            private = Address(CHANNEL, owner)
            with speaking(spoken_at(private.key)):
                text = f"⚠️ {alarm.text}"
            try:
                await self._outbox.say(private, text, alarm.key)
            except StoreError:  # as on a full disk, of which this may tell
                return await self._outbox.say_unkept(private, text)
        return bool(owner)

    async def _tell(self) -> None:
        while True:
            self._write_health()
            await asyncio.sleep(_HEALTH_EVERY)

    def _stalled(self, seconds: float) -> None:
        """The program itself hangs since so many seconds; 0.0: it goes on."""
        self._health.stalled = seconds
        if seconds:  # while nothing else can write
            self._write_health()

    def _write_health(self) -> None:
        try:
            more = {"waiting": self._inbox.waiting, "home": str(self._setup.home)}
            self._health.write(self._setup.health_file, more)
        except OSError as error:
            logger.warning("the health file cannot be written: {}", error)


async def both(first: Work, second: Work) -> None:
    """Run two things side by side until `first` ends; an error of either ends both."""
    try:
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(second())
            await first()
            beside.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
