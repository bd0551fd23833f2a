"""From a configuration to the parts of an agent: with `app.py`, the only module that knows every concrete class."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.agent.chats.services import AgentServices
from nanobot.agent.context import ContextBuilder
from nanobot.agent.external_tools import ExternalTools
from nanobot.agent.loop import AgentLoop
from nanobot.agent.monitoring import WatchedDatabase
from nanobot.agent.runner import AgentRunner, Spawner
from nanobot.agent.tools.base import HelperTask, ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.files.offered import files_of, skill_folders
from nanobot.agent.tools.knowledge.offered import LibraryTools, SkillTools
from nanobot.agent.tools.offers import SPAWN, fetch_description
from nanobot.agent.tools.own_tools import CommandTools, SpawnTool, schedule_tool, talk_tools, watch_tool
from nanobot.agent.tools.registry import ToolFactory
from nanobot.agent.turn import BudgetOf, Turn
from nanobot.builder.launch import Launch
from nanobot.builder.models import Models
from nanobot.builder.values import chat_defaults, limits_of, not_counted, policy_of, settings_of
from nanobot.bus.alarms import Alarms, Trouble
from nanobot.bus.events import MessageBus
from nanobot.command.builtin import builtin_router
from nanobot.command.services import CommandServices
from nanobot.command.settings import ChatSettings
from nanobot.config.keys import sections_in
from nanobot.config.loader import Loaded
from nanobot.config.paths import PEOPLE, Paths
from nanobot.config.schema import AgentDefaults
from nanobot.config.schema_tools import HooksConfig
from nanobot.errors import SkipTool, UsageError
from nanobot.messages import ToolCall
from nanobot.providers.base import LLMProvider, ProviderInfo
from nanobot.results import ToolResult
from nanobot.security.projects import counts
from nanobot.session.ledger import HEARD, Ledger
from nanobot.session.permissions import Permissions
from nanobot.session.sqlite import MemoryDatabase
from nanobot.utils.host import zone_of
from nanobot.utils.logs import add_secrets
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.translation import N_, Later, _

if TYPE_CHECKING:
    from nanobot.agent.tools.web.fetch import WebFetchTool
    from nanobot.agent.work.background import BackgroundHelpers
    from nanobot.agent.work.subagents import SubagentManager
    from nanobot.agent.work.watches import Watches
    from nanobot.archive.kept import KeptSessions
    from nanobot.channels.telegram.access.rights import Rights
    from nanobot.channels.telegram.send.messages import TelegramMessages
    from nanobot.cluster.share import Role, Share
    from nanobot.money.budget import Budget
    from nanobot.schedule.appointments import Appointments
    from nanobot.schedule.heartbeat import Heartbeat
    from nanobot.session.heard import Heard


#: The tools that are made anew where a part of the configuration has changed that they are made from.
RENEWED = frozenset({"web_search", "web_fetch", "watch", SPAWN})
NO_CLUSTER = N_('gateway.ledger needs Procrastinate and a driver of PostgreSQL: pip install "nanobot[cluster]"')


class Builder:
    """Translates the configuration into the plain arguments that the rooms take, and holds what all parts of a running
    agent share. `ledger`, `chats` and `share` are there once it is `opened`."""

    ledger: Ledger
    chats: ChatSettings
    share: "Share | None" = None

    def __init__(self, loaded: Loaded, paths: Paths, launch: Launch, env: Mapping[str, str]) -> None:
        self.loaded = loaded
        self.paths = paths
        self.env = env
        self.launch = launch
        self.templates = PromptTemplates(self._steering)
        self.alarms = Alarms()
        self.messengers: dict[str, TelegramMessages] = {}
        #: Tries everything that nanobot needs, perhaps after what is safe was put right, and tells of it in Markdown.
        self.examine: Callable[[bool], Awaitable[str]] | None = None
        #: The schedule; None where nothing is kept.
        self.appointments: Callable[[], Appointments] | None = None
        self._helpers: BackgroundHelpers | None = None  # where the schedule is looked after
        self.watches: Callable[[], Watches] | None = None
        self.files = files_of(loaded.config.tools, paths, launch.project, env)
        self.commands = CommandTools(loaded.config.tools, self.files, None if launch.ephemeral else paths.tasks, env)
        zone = zone_of(self.defaults.timezone, env)
        index = None if launch.ephemeral else paths.home / "index.db"
        self.library = LibraryTools(loaded.config.library, index, self._steering, self.files, zone)
        self.hooks = self.plugins = None
        if loaded.config.hooks != HooksConfig() or loaded.config.plugins.enabled:
            from nanobot.plugins.entry_points import begin

            self.hooks, self.plugins = begin(loaded.config, env, paths.home)
        self.models = self.models_of(loaded)
        self.budgets: list[Budget] = []  # one where it was asked for
        self.skills = SkillTools(skill_folders(paths, launch.project, env), self.files)
        self.external = ExternalTools(
            loaded,
            paths,
            env,
            templates=self.templates,
            ephemeral=launch.ephemeral,
            read_page=self._read_page if self._reads else None,
        )
        if self.plugins is not None:
            self.external.engines = self.plugins.engines()

    @classmethod
    async def begin(cls, loaded: Loaded, paths: Paths, launch: Launch, env: Mapping[str, str]) -> "Builder":
        """A start, and `nanobot config check`, begin with this and go on with `models.provider`."""
        loaded = await cls.with_keys(loaded)
        add_secrets(loaded.secrets)
        return cls(loaded, paths, launch, env)

    @staticmethod
    async def with_keys(loaded: Loaded) -> Loaded:
        """A configuration with the keys that its commands print."""
        if any(getattr(section, "api_key_command", ()) for _, section in sections_in(loaded.config)):
            from nanobot.config.key_commands import with_command_keys

            return await with_command_keys(loaded)
        return loaded

    @property
    def defaults(self) -> AgentDefaults:
        return self.loaded.config.agents.defaults

    def models_of(self, loaded: Loaded) -> Models:
        """The models as this configuration has them."""
        introduced = None if self.launch.ephemeral else self.paths.home / "introduced"
        return Models(loaded, self.env, self.alarms, self.plugins, introduced)

    def warnings(self) -> list[str]:
        """What does not keep the agent from starting, and is not what the file says."""
        config = self.loaded.config
        found = not_counted(self.loaded, [*self.tools()] if config.tools.policy.rules else [])
        found += self.files.problems()
        if self.plugins is not None:
            problems = self.plugins.problems.items()
            found += [_("plugins.enabled: {name}: {reason}", name=name, reason=why) for name, why in problems]
        search = config.tools.web.search
        if search.provider not in {"auto", "duckduckgo"}:
            from nanobot.web.search.catalog import Catalog

            lacks = Catalog(search, self.env).missing(search.provider)
            if lacks:
                line = N_("tools.web.search.provider: {engine} is not asked, it lacks {what}")
                found.append(_(line, engine=search.provider, what=lacks))
        return found

    def open(self) -> None:
        """Open what this agent keeps that outlives a turn."""
        if self.launch.role is not None:
            self.ledger, self.share = self._join(self.launch.role)
        elif self.launch.ephemeral:
            self.ledger = Ledger(MemoryDatabase())
        else:
            self.ledger = Ledger(WatchedDatabase(self.paths.database, self.alarms))
        self.files.begin()
        self.library.ledger = self.skills.ledger = self.ledger
        if not self.launch.ephemeral:
            self.appointments = cache(self._appointments)
            self.watches = cache(partial(self._watches, self.appointments))
        self.chats = ChatSettings(self.ledger, *chat_defaults(self.loaded.config))

    def _appointments(self) -> "Appointments":
        from nanobot.agent.work.background import BackgroundHelpers
        from nanobot.schedule.appointments import appointments_of

        made = appointments_of(self.ledger, self.paths.home, self.defaults.timezone, self.env)
        self._helpers = BackgroundHelpers(made.jobs, self.ledger.sessions)
        return made

    def heartbeat(self) -> "Heartbeat | None":
        """The file of the workspace whose lines are tasks; that of no other folder is one."""
        from nanobot.schedule.heartbeat import Heartbeat

        project = self.launch.project
        if self.appointments is None or self._steering is None or (project is not None and project.workspace):
            return None
        made, minutes = self.appointments(), self.loaded.config.schedule.heartbeat_minutes
        return Heartbeat(made.jobs, self._steering, made.zone, minutes, foreign=self.files.foreign_below)

    def _schedule(self) -> ToolLike:
        if self.appointments is None:
            raise SkipTool(Later(N_("nothing is kept here after the end of this conversation")))
        return DeferredTool("schedule", partial(schedule_tool, self.appointments))

    def _watches(self, appointments: "Callable[[], Appointments]") -> "Watches":
        from nanobot.agent.work.sight import AgentSight, seeing

        sight = AgentSight(self._reader, self.external.search, self.files, lambda: self.loaded.config.tools.web.privacy)
        return seeing(appointments(), self.ledger, sight)

    def _reader(self) -> "WebFetchTool | None":
        return self._fetch if self._reads else None

    def _watch(self) -> ToolLike:
        if self.watches is None or not self.loaded.config.tools.web.enable:
            raise SkipTool(Later(N_("tools.web.enable is false, or nothing is kept here")))
        return DeferredTool("watch", partial(watch_tool, self.watches))

    def _join(self, role: "Role") -> "tuple[Ledger, Share]":
        try:
            from nanobot.cluster.worker import join
        except ImportError as error:
            raise UsageError(_(NO_CLUSTER)) from error
        from nanobot.channels.telegram.settings import settings_of

        gateway = self.loaded.config.gateway
        channel = settings_of(self.loaded.config.channels.telegram, self.env).channel
        return join(gateway.ledger, role, gateway.concurrency, channel)

    @property
    def _steering(self) -> Path | None:
        """The workspace where what steers the agent may be read in it; that of a project only when it is trusted."""
        return self.paths.workspace if counts(self.paths.workspace, self.launch.project) else None

    def context(self) -> ContextBuilder:
        project = self.launch.project
        beside = project is not None and not project.workspace and counts(project.folder, project)
        return ContextBuilder(
            self._steering,
            zone=zone_of(self.defaults.timezone, self.env),
            files=self.loaded.config.tools.profile != "web",
            foreign_below=self.files.foreign_below,
            doubted=self.files.doubted,
            shared=self.files.person / ".agents",
            project=(*project.above, project.folder) if project is not None and beside else (),
        )

    def services(self, bus: MessageBus, provider: LLMProvider) -> AgentServices:
        """What the agent works with."""
        context = self.context()
        budget = self.budget(context.midnight)
        return AgentServices(
            bus,
            self.ledger.sessions,
            provider,
            context,
            builtin_router(
                CommandServices(
                    self.chats,
                    self.people(budget),
                    self.external,
                    self.appointments,
                    lambda: self.skills.shelf,
                    self.watches,
                    None if self.launch.ephemeral else self._archive,
                    self.examine,
                    self.files,
                    self.library,
                )
            ),
            self.tools(),
            switch_model=self.models.switch,
            search_usage=self.external.usage,
            search_known=self.external.known,
            chats=self.chats,
            model_fixed=bool(self.launch.model),
            offered_models=self.models.offered,
            model_facts=self.models.facts,
            undo=self.files.undo,
            forgets=self.library.forgets,
            keep_result=None if self.launch.ephemeral else self.files.keep_result,
            permissions=Permissions(self.ledger),
            budget=budget,
            tasks=self.commands.tasks,
            tasks_folder=self.paths.tasks,
            remember=self.library.remembered,
            helpers=lambda: self._helpers,
            skills=self.skills.listing,
            turn_ended=self.hooks.turn_ended if self.hooks is not None else None,
            heard=partial(_said_in, self.ledger),
        )

    def _archive(self) -> "KeptSessions":
        from nanobot.archive.kept import KeptSessions

        zone = zone_of(self.defaults.timezone, self.env)
        return KeptSessions(self.ledger.sessions, lambda: self.library.index, self.paths, zone, self._reached)

    def people(self, budget: BudgetOf) -> "Callable[[], Rights] | None":
        """Who may talk on Telegram, loaded when a command asks; None where it has no bot."""
        alone = self.launch.role is None
        if not self.loaded.config.channels.telegram.token:
            return None

        def rights() -> "Rights":
            from nanobot.channels.telegram.access.rights import rights_of

            config = self.loaded.config
            if config.gateway.ledger and alone:
                raise UsageError(
                    _("The gateways share a database. Write /people or /invite in your chat with the bot.")
                )
            return rights_of(config, self.env, self.ledger, self.paths.workspace / PEOPLE, budget(None))

        return rights

    def budget(self, midnight: Callable[[], datetime]) -> BudgetOf:
        """What may be spent, loaded when a model that costs something is asked; one of the owner's own has a price only
        where the configuration sets one."""
        made = self.budgets

        def report(why: str, advice: str) -> None:
            if why:
                self.alarms.failed(Trouble("budget", Later(N_("Asking a model for others than you")), why, advice))
            else:
                self.alarms.well("budget")

        def budget_of(info: ProviderInfo | None) -> "Budget | None":
            config = self.loaded.config
            if info is not None and (not info.capabilities.language_model or (info.local and not config.prices)):
                return None
            if not made:
                from nanobot.money.budget import Budget

                made.append(Budget(config, self.ledger, midnight, report))
            return made[0]

        return budget_of

    def loop(self, services: AgentServices) -> AgentLoop:
        """The agent with the limits, the settings and the policy of the configuration."""
        config = self.loaded.config
        limits, settings = limits_of(config), settings_of(config)
        loop = AgentLoop(services, limits=limits, settings=settings, concurrency=config.gateway.concurrency)
        loop.runner.approvals.policy = policy_of(config)
        self.equip(loop.runner, services)
        loop.add_status(self.reading_problems)
        if self.hooks is not None:
            loop.registry.run = self.hooks.around(loop.registry.run)
        for line in self.plugins.lines() if self.plugins is not None else ():
            loop.add_status(partial(str, line))
        loop.add_status(self.commands.sandbox_line)
        return loop

    def equip(self, runner: AgentRunner, services: AgentServices) -> None:
        """Give a runner its helpers."""
        limits = self.loaded.config.agents.subagents
        if limits != runner.helpers:
            runner.bound(limits)
        runner.spawn = self._spawner(runner, services)

    def _spawner(self, runner: AgentRunner, services: AgentServices) -> Spawner | None:
        """What runs helpers, imported for the first of them."""
        made: list[SubagentManager] = []

        async def spawn(parent: Turn, call: ToolCall, task: HelperTask) -> ToolResult:
            if not made:
                from nanobot.agent.work.subagents import SubagentManager

                made.append(SubagentManager(runner, services.store, services.context, services.helpers))
            return await made[0].run(parent, call, task)

        return spawn if self.loaded.config.agents.subagents.max else None

    def renew_tools(self) -> list[Callable[[], Awaitable[None]]]:
        """Have `RENEWED` tools made as the configuration is now; what closes those that there were."""
        spent = [self._fetch.aclose] if "_fetch" in vars(self) else []
        vars(self).pop("_fetch", None)
        return spent + self.external.renew(self.loaded, self._read_page if self._reads else None)

    def tools(self) -> dict[str, ToolFactory]:
        """A factory for every tool there is; one that is switched off or cannot work raises `SkipTool`."""
        return {
            **(self.plugins.tools() if self.plugins is not None else {}),
            **talk_tools(self.files, self._reached, self.paths.media),
            "nanobot_docs": lambda: DeferredTool("nanobot_docs", self.library.docs_tool),
            SPAWN: self._spawn,
            "web_fetch": self._web_fetch,
            "schedule": self._schedule,
            "watch": self._watch,
            **self.files.factories(),
            **self.commands.factories(),
            **self.library.factories(),
            **self.skills.factories(),
            **self.external.factories(),
        }

    def _reached(self) -> "Mapping[str, TelegramMessages]":
        """What brings messages to other chats: a gateway's own, else what hands them to the gateway of this home."""
        config = self.loaded.config
        alone = self.launch.ephemeral or config.gateway.ledger or not config.channels.telegram.enabled
        if not self.messengers and not alone:
            from nanobot.channels.telegram.send.messages import beside_the_gateway

            with suppress(UsageError):  # the gateway says what is wrong with the bot
                self.messengers["telegram"] = beside_the_gateway(config, self.env, self.ledger, self.paths.home)
        return self.messengers

    def reading_problems(self) -> str:
        """What keeps pages from being read."""
        return self._fetch.problems() if self._reads else ""

    async def _read_page(self, url: str, timeout: float) -> str:
        """The text of a page, for searches that want it."""
        from nanobot.web.fetch.page import PageRequest

        return (await self._fetch.look(PageRequest(url), timeout)).content.text

    @property
    def _reads(self) -> bool:
        web = self.loaded.config.tools.web
        return web.enable and web.fetch.enable

    def _spawn(self) -> ToolLike:
        if not self.loaded.config.agents.subagents.max:
            raise SkipTool(Later(N_("agents.subagents.max is 0")))
        return SpawnTool()

    def _web_fetch(self) -> ToolLike:
        web = self.loaded.config.tools.web
        if not self._reads:
            raise SkipTool(
                Later(N_("{key} is false"), key="tools.web.enable" if not web.enable else "tools.web.fetch.enable")
            )
        return DeferredTool("web_fetch", lambda: self._fetch, fetch_description(web.fetch, self.templates))

    @cached_property
    def _fetch(self) -> "WebFetchTool":
        from nanobot.agent.tools.web.fetch import WebFetchTool

        web = self.loaded.config.tools.web
        return WebFetchTool(
            web.fetch,
            proxy=web.proxy,
            whitelist=self.loaded.config.tools.ssrf_whitelist,
            media_dir=self.paths.media,
            env=self.env,
            privacy=web.privacy,
            ledger=self.external.ledger,
            readers=self.plugins.readers() if self.plugins is not None else (),
        )

    async def aclose(self) -> None:
        if self.hooks is not None:
            await self.hooks.aclose()
        await self.commands.aclose()
        await self.files.aclose()
        self.library.close()
        if "_fetch" in vars(self):
            await self._fetch.aclose()
        await self.external.aclose()


async def _said_in(ledger: Ledger, chat: str) -> "tuple[Heard, ...]":
    """What reminders, watches and tasks have said in a chat since this was asked last."""
    if await ledger.note(f"{HEARD}{chat}") is None:
        return ()
    from nanobot.session.heard import take

    return await take(ledger.database, chat)
