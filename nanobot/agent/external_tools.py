"""What stands around `web_search`: its settings as the file has them now, the ledger of requests, the MCP servers."""

import importlib.util
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from nanobot.agent.tools.base import ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.offers import search_description
from nanobot.agent.tools.registry import ToolFactory, ToolRegistry, skipped
from nanobot.config.loader import Loaded
from nanobot.config.paths import Paths
from nanobot.config.schema_tools import McpServerConfig
from nanobot.errors import SkipTool, UsageError
from nanobot.session.pins import ServerState
from nanobot.utils.host import zone_of
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.translation import N_, Later, _

if TYPE_CHECKING:
    from nanobot.agent.tools.mcp.servers import McpServers
    from nanobot.agent.tools.web.search import PageReader, WebSearchTool
    from nanobot.utils.searchusage import SearchUsageInfo
    from nanobot.web.search.base import SearchBackend
    from nanobot.web.usage import UsageLedger

#: Seconds that the start of the agent waits for all MCP servers together.
START_SECONDS = 5.0
#: Seconds that /status waits for the slowest allowance.
USAGE_SECONDS = 5.0
NO_SDK = N_('MCP servers need the MCP SDK: pip install "nanobot[mcp]"')


class ExternalTools:
    """Makes `web_search` and the tools of MCP servers, and tells what is left of every allowance.

    `ephemeral` leaves no trace on disk. Call `connect` before `factories`, and `aclose` at the end.
    """

    def __init__(
        self,
        loaded: Loaded,
        paths: Paths,
        env: Mapping[str, str],
        *,
        templates: PromptTemplates,
        ephemeral: bool = False,
        read_page: "PageReader | None" = None,
    ) -> None:
        self._loaded = loaded
        self._env = env
        self._templates = templates
        self._read_page = read_page
        #: Search engines of plug-ins by `plugin:<name>`.
        self.engines: Mapping[str, Callable[[], SearchBackend]] = {}
        self._usage_file = None if ephemeral else paths.home / "usage.db"
        self._kept = not ephemeral
        self._paths = paths
        self._offers = False
        self._servers: McpServers | None = None
        self._why_no_servers: dict[str, str] = {}
        self._settings = loaded.config.tools.web.search

    @cached_property
    def ledger(self) -> "UsageLedger":
        """What was asked and read, and what it cost; opened by who first counts."""
        from nanobot.web.usage import UsageLedger

        return UsageLedger(self._usage_file, zone=zone_of(self._loaded.config.agents.defaults.timezone, self._env))

    async def connect(self, timeout: float = START_SECONDS) -> None:
        """Ask every MCP server for its tools, and wait `timeout` seconds at most; nothing where none is configured."""
        servers = {name: one for name, one in self._loaded.config.tools.mcp_servers.items() if one.enabled}
        prefix, off = "tools.mcpServers.", self._loaded.disabled  # what the loader has switched off
        self._why_no_servers = {at.removeprefix(prefix): why for at, why in off.items() if at.startswith(prefix)}
        if not servers:
            return
        if importlib.util.find_spec("mcp") is None:
            self._why_no_servers |= dict.fromkeys(servers, NO_SDK)
            return
        self._servers = mcp_servers(self._loaded, self._paths, self._env, servers, kept=self._kept)
        await self._servers.start(timeout)

    def factories(self) -> dict[str, ToolFactory]:
        """A factory for each tool; one that cannot be offered raises `SkipTool`."""
        return {"web_search": self._offered, **self._remote()}

    def renew(self, loaded: Loaded, read_page: "PageReader | None") -> list[Callable[[], Awaitable[None]]]:
        """Make `web_search` anew when it is next asked for, as this configuration has it; what closes the old one."""
        self._loaded, self._read_page = loaded, read_page
        self._settings, self._offers = loaded.config.tools.web.search, False
        spent: list[Callable[[], Awaitable[None]]] = [self._made.aclose] if "_made" in vars(self) else []
        vars(self).pop("_made", None)
        return spent

    def follow(self, registry: ToolRegistry) -> None:
        """Offer the tools of MCP servers that list them after the start, from the next turn on."""
        if self._servers is not None:
            self._servers.changed = lambda: registry.replace(self._remote(), "mcp_")

    # What /mcp asks

    def states(self) -> tuple[ServerState, ...]:
        known = self._servers.states() if self._servers is not None else ()
        off = (ServerState(name, "not used", why=why) for name, why in self._why_no_servers.items())
        return tuple(sorted((*known, *off), key=lambda one: one.name))

    def used(self, name: str) -> "McpServers":
        if self._servers is None or name in self._why_no_servers:
            why = _(self._why_no_servers.get(name, N_("none is started")))
            raise UsageError(_("The MCP server {name} is not used: {reason}.", name=repr(name), reason=why))
        return self._servers

    def _remote(self) -> dict[str, ToolFactory]:
        made: dict[str, ToolFactory] = self._servers.factories() if self._servers is not None else {}
        return made | {f"mcp_{name}": skipped(why) for name, why in self._why_no_servers.items()}

    def known(self) -> str:
        """What is known of every allowance, as Markdown, without asking anybody."""
        return self._with_lookups(self._made.chain.known_usage()) if self._offers else ""

    async def usage(self) -> str:
        """The allowance of every back end now, as Markdown; one that is slow stands with what it said last."""
        return self._with_lookups(await self._made.chain.usage(timeout=USAGE_SECONDS)) if self._offers else ""

    def _with_lookups(self, infos: "tuple[SearchUsageInfo, ...]") -> str:
        from nanobot.utils.searchusage import lookups_line, usage_lines

        block, line = usage_lines(infos), lookups_line(self.ledger.lookups())
        return f"{block}\n- {line}" if line else block

    async def aclose(self) -> None:
        if "_made" in vars(self):
            await self._made.aclose()
        if self._servers is not None:
            await self._servers.aclose()
        if "ledger" in vars(self):
            self.ledger.close()

    def _offered(self) -> ToolLike:
        """`web_search`; made at once where the settings name who is asked, and may leave nobody."""
        if not self._loaded.config.tools.web.enable:
            raise SkipTool(Later(N_("tools.web.enable is false")))
        description = search_description(self._settings, self._templates, fetch=self._read_page is not None)
        named = self._settings.provider not in {"auto", "duckduckgo"} or self._settings.fallback is not None
        limit = {"limit": self._settings.max_results}
        if named:
            _ = self._made
        self._offers = True
        return DeferredTool("web_search", lambda: self._made, description, limit)

    def search(self) -> "WebSearchTool":
        """The tool, for who watches searches. Raises `SkipTool` where nothing may be searched."""
        if not self._loaded.config.tools.web.enable:
            raise SkipTool(Later(N_("tools.web.enable is false")))
        return self._made

    @cached_property
    def _made(self) -> "WebSearchTool":
        from nanobot.agent.tools.web.search import WebSearchTool

        return WebSearchTool(
            self._settings,
            proxy=self._loaded.config.tools.web.proxy,
            env=self._env,
            read_page=self._read_page,
            ledger=self.ledger,
            mcp=self._servers.search if self._servers else None,
            fetch=self._loaded.config.tools.web.fetch,
            plugins=self.engines,
        )


def mcp_servers(
    loaded: Loaded,
    paths: Paths,
    env: Mapping[str, str],
    servers: Mapping[str, McpServerConfig],
    *,
    kept: bool,
) -> "McpServers":
    """These servers with what the configuration says of the way to them; `kept`: what they list and logins are kept.

    Loads the SDK. Raises `UsageError` without it.
    """
    if importlib.util.find_spec("mcp") is None:
        raise UsageError(_("{sentence}.", sentence=_(NO_SDK)))
    from nanobot.agent.tools.mcp.servers import servers_of

    return servers_of(loaded, paths, env, servers, kept=kept)
