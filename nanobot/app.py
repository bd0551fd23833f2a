"""The composition root: from a configuration to a running agent. The only module that knows every concrete class."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from loguru import logger

from nanobot.agent.chats.chat import Settle
from nanobot.agent.chats.services import AgentServices
from nanobot.agent.loop import AgentLoop
from nanobot.agent.monitoring import in_the_terminal, watched_bus
from nanobot.agent.receipts import unbacked
from nanobot.agent.tools.files.offered import FileTools
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.builder.agent import Builder
from nanobot.builder.launch import Launch as Launch
from nanobot.builder.values import health_file, limits_of
from nanobot.bus.alarms import Trouble
from nanobot.bus.events import TERMINAL, InboundMessage, MessageBus, TurnFinished
from nanobot.command.router import Command
from nanobot.config.loader import Loaded
from nanobot.config.paths import Paths, folder_name, prepare_home
from nanobot.config.schema import Config
from nanobot.providers.base import ProviderInfo
from nanobot.providers.failures import finish_of
from nanobot.security.trust import wrap
from nanobot.session.database import until_stored
from nanobot.session.store import SessionStore
from nanobot.utils.host import zone_of
from nanobot.utils.translation import N_, Later

if TYPE_CHECKING:
    from nanobot.agent.work.runs import ScheduleServices
    from nanobot.builder.live import LiveConfig
    from nanobot.channels.base import BaseChannel, ChannelManager
    from nanobot.channels.telegram.access.people import Announce
    from nanobot.channels.telegram.send.messages import TelegramReports

#: Seconds after which a gateway among many sees what another has changed in the schedule.
SHARED_SECONDS = 5.0


class Nanobot:
    """A whole agent. Use it as an async context manager; leaving it ends turns, closes connections and the store."""

    def __init__(
        self,
        config: Config,
        loop: AgentLoop,
        services: AgentServices,
        bus: MessageBus,
        builder: Builder,
    ) -> None:
        self.config = config
        self.loop = loop
        self.bus = bus
        self._services = services
        self._builder = builder
        self._stack = AsyncExitStack()
        for close in (builder.ledger.aclose, services.provider.aclose, builder.aclose, self._close_spent, loop.aclose):
            self._stack.push_async_callback(close)

    @classmethod
    async def from_config(cls, loaded: Loaded, *, paths: Paths, launch: Launch | None = None) -> Self:
        """Build the agent that `loaded` describes. Raises `ConfigError`, `UsageError` or `StoreError`.

        Makes the home and seeds the workspace on the first start. Opens no connection but the short probe for a local
        model server and those to configured MCP servers.
        """
        launch = launch or Launch()
        env = os.environ if launch.env is None else launch.env
        prepare_home(paths)
        builder = await Builder.begin(loaded, paths, launch, env)
        provider = await builder.models.provider(launch.model)
        loaded = builder.loaded
        for warning in builder.warnings():
            logger.warning("{}", warning)
        if launch.recorder is not None:
            provider = launch.recorder.provider(provider)
        bus = watched_bus(builder.alarms)
        builder.alarms.through(in_the_terminal(bus, TERMINAL))
        builder.open()
        await builder.external.connect()
        await builder.commands.find_sandbox()
        builder.examine = partial(_examined, builder)
        services = builder.services(bus, provider)
        loop = builder.loop(services)
        if launch.recorder is not None:
            launch.recorder.begin(bus, loop.registry, provider.info, limits_of(loaded.config))
        else:  # a recording names its tools at the beginning
            builder.external.follow(loop.registry)
        return cls(loaded.config, loop, services, bus, builder)

    @cached_property
    def _live(self) -> "LiveConfig":
        from nanobot.builder.live import LiveConfig

        return LiveConfig(self._builder, self._services, self.loop)

    async def _close_spent(self) -> None:
        if "_live" in vars(self):
            await self._live.aclose()

    @property
    def sessions(self) -> SessionStore:
        return self._services.store

    @property
    def files(self) -> FileTools:
        """The files of everybody."""
        return self._builder.files

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands a terminal offers."""
        return self._services.router.commands()

    @property
    def provider_info(self) -> ProviderInfo:
        return self._services.provider.info

    def channels(self, announce: "Announce", say: Callable[[str], None]) -> "ChannelManager":
        """The channels that are switched on, ready to run. Raises `ChannelError` where one cannot work.

        `announce` shows the link by which a person becomes the owner of a bot, `say` a line on how the channels are.
        """
        from nanobot.channels.base import ChannelManager

        if self._builder.share is not None:
            self._builder.share.database.say = say
        made: list[BaseChannel] = []
        reports: dict[str, TelegramReports] = {}
        if self.config.channels.telegram.enabled:
            from nanobot.channels.telegram.channel import TelegramChannel, TelegramSetup

            builder = self._builder
            setup = TelegramSetup(
                self.config,
                builder.env,
                self,
                builder.ledger,
                self._services.router,
                builder.chats,
                builder.paths.media,
                builder.files.receive,
                health_file(self.config, builder.paths),
                builder.paths.home,
                announce,
                say,
                builder.alarms,
                builder.share,
                builder.messengers,
                partial(prepare, self.loop.registry),
            )
            channel = TelegramChannel(setup)
            self.loop.add_status(channel.health_line)
            self._live.follows.append(channel.take)
            self._live.say = say
            made.append(channel)
            reports[channel.name] = channel.reports
        if self._builder.plugins is not None:
            made += [cast("BaseChannel", one) for _, one in self._builder.plugins.made("nanobot.channels", self)]
        if self._builder.share is not None:
            return ChannelManager(self, made, *self._keeping(reports))
        return ChannelManager(self, made, self._terminals(reports), *self._keeping(reports))

    def _terminals(self, reports: "Mapping[str, TelegramReports]") -> "Callable[[], Awaitable[None]]":
        """What serves terminals that join this gateway, to which the results of their jobs go."""
        from nanobot.channels.socket.server import GatewaySocket
        from nanobot.channels.terminal.appointments import TerminalReports

        builder = self._builder
        here = TerminalReports(builder.ledger, self.bus)
        locate = partial(builder.files.locate, copy=True)
        socket = GatewaySocket(self, builder.paths, locate, self.loop.runner.approvals.channels, here.run)
        for one in reports.values():
            one.beside(lambda: socket.talking, here.wake)
        return socket.run

    def _keeping(self, reports: "Mapping[str, TelegramReports]") -> "tuple[Callable[[], Awaitable[None]], ...]":
        """What keeps the appointments of a gateway: of many that share a database one does."""
        from nanobot.agent.scheduler import READ_SECONDS, JobSurface, Scheduler
        from nanobot.session.lock import terminal_jobs_lock

        builder, scheduling = self._builder, self._scheduling()
        share = builder.share
        if scheduling is None or (share is not None and share.worker is None):
            return ()
        from nanobot.channels.telegram.settings import settings_of

        lock = terminal_jobs_lock(builder.paths.home) if share is None else None
        surfaces = [JobSurface(*one) for one in reports.items()]  # of many, the terminal's are those of HEARTBEAT.md
        surfaces += [JobSurface("terminal", one, lock) for one in reports.values()]
        read = READ_SECONDS if share is None else SHARED_SECONDS
        scheduler = Scheduler(scheduling, surfaces, file=builder.heartbeat(), read_seconds=read)

        async def keep() -> None:
            for one in reports.values():
                await until_stored(one.recall)
            if share is None or share.worker is None:
                await scheduler.run()
                return
            await share.worker.joined.wait()  # what is written is written under its name
            channel = settings_of(self.config.channels.telegram, builder.env).channel
            await share.database.elect(f"scheduler:{channel}", scheduler.run)

        return (keep,)

    def _scheduling(self) -> "ScheduleServices | None":
        """What jobs are done with; None where nothing is kept."""
        from nanobot.agent.work.runs import ScheduleServices

        builder = self._builder
        if builder.appointments is None or builder.watches is None:
            return None
        kept = (builder.appointments().jobs, builder.ledger, self.bus, self._process, builder.templates)
        return ScheduleServices(*kept, self.loop.cancel, builder.watches)

    async def _process(self, message: InboundMessage, settle: Settle) -> TurnFinished:
        """A turn of the schedule; one of a helper takes a place among those that run at once."""
        if message.errand is None:
            return await self.loop.process(message, settle)
        async with self.loop.runner.helper_slots:
            return await self.loop.process(message, settle)

    @asynccontextmanager
    async def at_work(self, *, gateway: bool = False) -> AsyncIterator[None]:
        """Do meanwhile what goes on by itself: keep the index of what can be found again, take what changes in the
        configuration file, and make backups in a `gateway`, or else keep the appointments of the terminal where no
        other process does."""
        builder = self._builder
        works = [builder.library.keep(builder.paths.config, builder.env), self._live.run()]
        works += self._backups() if gateway else self._jobs_of_terminal()
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield
        finally:
            for task in reversed(tasks):
                task.cancel()
                await asyncio.wait({task})

    def _jobs_of_terminal(self) -> list[Coroutine[object, None, None]]:
        from nanobot.agent.scheduler import JobSurface, Scheduler
        from nanobot.channels.terminal.appointments import TerminalReports
        from nanobot.session.lock import terminal_jobs_lock

        builder, scheduling = self._builder, self._scheduling()
        if scheduling is None:
            return []
        reports = TerminalReports(builder.ledger, self.bus)
        surface = JobSurface("terminal", reports, terminal_jobs_lock(builder.paths.home))
        return [reports.run(), Scheduler(scheduling, [surface], file=builder.heartbeat()).run()]

    def _backups(self) -> list[Coroutine[object, None, None]]:
        """What makes a backup each night, where the configuration wants it."""
        if not self.config.backup.nightly:
            return []
        from nanobot.upkeep.nightly import NightlyBackups, backup_folder

        builder, zone = self._builder, zone_of(self.config.agents.defaults.timezone, self._builder.env)
        folder = backup_folder(self.config.backup, builder.paths)
        return [NightlyBackups(folder, builder.paths, builder.env, zone, self._backed_up).run()]

    def _backed_up(self, why: str) -> None:
        if why:
            what, advice = Later(N_("The nightly backup")), Later(N_("`nanobot backup` shows what is wrong."))
            self._builder.alarms.failed(Trouble("backup", what, why, advice))
        else:
            self._builder.alarms.well("backup")

    async def aclose(self) -> None:
        """End what runs, then close everything in the opposite order of its making."""
        await self._stack.aclose()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._builder.alarms.running())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def prepare(tools: ToolRegistry) -> None:
    """Import what these tools need and make what every answer needs, which takes a tenth of a second.

    For a thread, beside the first poll of a gateway.
    """
    import nanobot.agent.tools.docs
    import nanobot.agent.tools.files.change
    import nanobot.agent.tools.files.find
    import nanobot.agent.tools.files.read
    import nanobot.agent.tools.knowledge.remember
    import nanobot.agent.tools.web.fetch
    import nanobot.agent.tools.web.search  # noqa: F401 - imported for those who ask next

    finish_of("stop")
    wrap(folder_name("telegram:1"), "telegram")  # their patterns are compiled
    unbacked("", ())  # and those by which it is judged
    tools.specs()  # their schemas are made, and no tool


async def _examined(builder: Builder, fix: bool) -> str:
    """What `/doctor` tells, within a process that talks."""
    from nanobot.doctor.checkup import Patient, examine
    from nanobot.doctor.home import repair
    from nanobot.doctor.report import as_markdown

    done = await asyncio.to_thread(repair, builder.paths) if fix else []
    told = as_markdown(await examine(Patient(builder, talking=True)))
    return "\n".join([*(f"- {line}" for line in done), *([""] if done else []), told])
