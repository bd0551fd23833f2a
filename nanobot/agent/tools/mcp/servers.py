"""The configured MCP servers: which tools each offers now, and asking those again that fail.

Servers are asked for their tools at the start, all at the same time; one that takes longer than the start waits is
listed in the background, and one that fails is asked again, ever later. What a server listed is kept in the cache
folder: one that is down later keeps its tools in their place, and each answers that the server is down.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import msgspec
from loguru import logger
from msgspec import Struct, field

from nanobot.agent.tools.mcp.connection import McpFailure, RemoteTool, SdkConnection
from nanobot.agent.tools.mcp.login import LOGIN_SECONDS, Login, judge_other, provider_of
from nanobot.agent.tools.mcp.stdio import Program, environment, stdio_streams
from nanobot.agent.tools.mcp.tokens import LoginFile
from nanobot.agent.tools.mcp.tool import McpResources, McpTool, object_schema, offered, tool_name
from nanobot.agent.tools.mcp.transport import FindProxy, http_streams
from nanobot.agent.tools.registry import ToolFactory, skipped
from nanobot.config.loader import Loaded
from nanobot.config.paths import Paths, replace_file
from nanobot.config.proxy import Proxies
from nanobot.config.schema_tools import McpServerConfig
from nanobot.errors import SearchError, SearchErrorKind, UsageError
from nanobot.results import ToolErrorKind
from nanobot.security.network import Exceptions
from nanobot.security.paths import SECRET_PLACES
from nanobot.security.sandbox import Confinement
from nanobot.session.pins import ServerOffer, ServerState, ToolWords
from nanobot.utils.text import shorten
from nanobot.utils.translation import _
from nanobot.web.client import Guard
from nanobot.web.host_proxy import HostProxy

#: Seconds that a server has to list its tools, and those until one that failed is asked again: each time twice as long.
LIST_SECONDS = 60.0
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 5.0, 600.0
#: Seconds before a server that says that its tools have changed is asked for them, however often it says so.
CHANGED_SECONDS = 30.0
RECONNECT_SECONDS = 45.0
#: Why a server that has neither answered nor failed offers no tools.
STARTING = "still starting; its tools come with the first message after it has listed them"
_KINDS: Mapping[ToolErrorKind, SearchErrorKind] = {
    "auth": "auth",
    "rate_limited": "rate_limited",
    "timeout": "timeout",
    "network": "network",
    "invalid_input": "bad_request",
}


class Surroundings(Struct, frozen=True):
    """What servers are given: the way to a URL, our environment, the folder that programs start in.

    `secret` are the places that a confined program never reads, `media` is the folder of files of answers, `logins` the
    file of logins (None: nowhere), and `guard` judges where a server sends a login.
    """

    proxy: FindProxy = lambda _url: None
    env: Mapping[str, str] = field(default_factory=dict)
    workspace: Path = Path()
    secret: tuple[Path, ...] = ()
    media: Path | None = None
    logins: LoginFile | None = None
    guard: Guard = Guard()


class McpServer:
    """One configured server, its connection and what it lists. `key` names it with its place.

    `down` is why it has not listed its tools itself, `asked` is set once it was asked for them, and `again` when it has
    others now. `media` is where files of answers are kept; None: nowhere.
    """

    def __init__(self, name: str, settings: McpServerConfig, around: Surroundings) -> None:
        self.name = name
        self.settings = settings
        self.key = f"{name} {settings.url or ' '.join(words_of(settings))}"
        self.tools: tuple[RemoteTool, ...] = ()
        self.down = STARTING
        self.media = around.media
        self.asked, self.again = asyncio.Event(), asyncio.Event()
        self.login: Login | None = None
        self.logging_in: asyncio.Task[str] | None = None
        self._around = around
        self.connection = SdkConnection(f"The MCP server {name!r}", self._streams, self.again.set)

    def allowed(self) -> list[RemoteTool]:
        return [tool for tool in self.tools if offered(tool.name, self.settings.enabled_tools)]

    async def log_in(self, login: Login) -> str:
        """Ask the server as somebody who logs in; why that failed, empty where the login is kept."""
        asking = SdkConnection(f"The MCP server {self.name!r}", lambda lost: self._remote(lost, login))
        try:
            await asking.tools(timeout=LOGIN_SECONDS)
        except McpFailure as failure:
            return str(failure)
        finally:
            login.aclose()
            await asking.aclose()
        await self.connection.aclose()
        return ""

    @asynccontextmanager
    async def _remote(
        self, lost: Callable[[str], None], login: Login | None = None
    ) -> AsyncIterator[tuple[object, object]]:
        """The way to an address, logged in where a login is kept."""
        settings, around, auth = self.settings, self._around, None
        if around.logins is not None and (login or (await asyncio.to_thread(around.logins.get, self.key)).tokens):
            auth = provider_of(settings.url, around.logins, self.key, login)

        async def judge(request: httpx2.Request) -> None:
            await judge_other(settings.url, request, around.guard)

        async with http_streams(settings, around.proxy, auth, judge if auth else None, lost) as streams:
            yield streams

    def _streams(self, lost: Callable[[str], None]) -> AbstractAsyncContextManager[tuple[object, object]]:
        settings, around = self.settings, self._around
        if not is_program(settings):
            return self._remote(lost)
        folder = around.workspace / Path(settings.cwd).expanduser()
        hidden = tuple(one for one in around.secret if folder in one.parents)
        confined = Confinement((folder,), hidden=hidden) if settings.sandbox else None
        way = HostProxy(around.guard, settings.network, around.proxy) if settings.sandbox and settings.network else None
        program = Program(words_of(settings), environment(around.env, settings.env), folder, confined, way)
        return stdio_streams(program, lost)


class McpServers:
    """All configured servers. `start` asks each for its tools, `factories` offers them, `aclose` ends it all.

    `changed` is called whenever a server has listed its tools or fails in a new way, which may be long after the start.
    """

    def __init__(
        self,
        settings: Mapping[str, McpServerConfig],
        around: Surroundings | None = None,
        *,
        cache: Path | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._cache = cache
        self._sleep = sleep
        self._logins = around.logins if around is not None else None
        self._skipped = {name: why for name, one in settings.items() if (why := _unusable(one))}
        usable = {name: one for name, one in settings.items() if one.enabled and name not in self._skipped}
        self._servers = {name: McpServer(name, one, around or Surroundings()) for name, one in usable.items()}
        self._tasks: list[asyncio.Task[None]] = []
        self.changed: Callable[[], object] = lambda: None

    async def start(self, timeout: float, limit: float = LIST_SECONDS) -> None:
        """Ask for every server's tools and wait for that `timeout` seconds; a server has `limit` seconds to list them.

        Until it has, and where it does not, those that it listed at an earlier start are offered.
        """
        known = _read(self._cache)
        for server in self._servers.values():
            server.tools = tuple(known.get(server.key, ()))
            self._tasks.append(asyncio.create_task(self._follow(server, limit), name=f"list {server.name}"))
        try:
            async with asyncio.timeout(timeout):
                for server in self._servers.values():
                    await server.asked.wait()
        except TimeoutError:
            for server in self._servers.values():
                if not server.asked.is_set():
                    logger.warning("The MCP server {!r} is {}", server.name, STARTING)
        except asyncio.CancelledError:
            await self.aclose()
            raise

    async def _list(self, server: McpServer, limit: float) -> None:
        before = server.down, server.tools
        try:
            server.tools, server.down = await server.connection.tools(timeout=limit), ""
        except McpFailure as failure:
            server.down = str(failure)
        if (server.down, server.tools) == before:
            return
        if server.down:
            logger.warning("{}", server.down)
        else:
            _write(self._cache, _read(self._cache) | {server.key: list(server.tools)})
        self.changed()

    async def _follow(self, server: McpServer, limit: float) -> None:
        """Ask a server for its tools, one that fails until it lists them, and one that has others now for those."""
        await self._list(server, limit)
        server.asked.set()
        while True:
            wait = FIRST_RETRY_SECONDS
            while server.down:
                await self._sleep(wait)
                await self._list(server, limit)
                wait = min(2 * wait, LAST_RETRY_SECONDS)
            await server.again.wait()
            await self._sleep(CHANGED_SECONDS)
            server.again.clear()
            await self._list(server, limit)

    def factories(self) -> dict[str, ToolFactory]:
        """A factory for every tool; a server that cannot be used stands there with the reason."""
        made: dict[str, ToolFactory] = {tool_name(name): skipped(why) for name, why in sorted(self._skipped.items())}
        for name, server in sorted(self._servers.items()):
            if server.down and not server.tools:
                made[tool_name(name)] = skipped(server.down)
            for remote in server.allowed():
                full = tool_name(name, remote.name)
                if full in made:
                    logger.warning("the tool {} of the MCP server {} is left out: {} is taken", remote.name, name, full)
                    continue
                made[full] = partial(McpTool, full, remote, server)
            reader = tool_name(name, "resources")
            if server.settings.resources and reader not in made:
                made[reader] = partial(McpResources, reader, server)
        return made

    def words(self, name: str) -> tuple[ToolWords, ...]:
        """What a server says of the tools that it offers now."""
        server = self._servers.get(name)
        offered = [McpTool(tool_name(name, one.name), one, server) for one in server.allowed()] if server else []
        return tuple(tool.foreign_words for tool in offered if tool.foreign_words)

    def states(self) -> tuple[ServerState, ...]:
        """How every server is that is switched on."""
        found = [ServerState(name, "not used", why=why) for name, why in self._skipped.items()]
        for name, server in self._servers.items():
            why = server.down or server.connection.trouble
            tools = tuple(tool_name(name, one.name) for one in server.allowed())
            found.append(ServerState(name, _place(server.settings), not why, tools, why))
        return tuple(found)

    async def reconnect(self, name: str) -> ServerState:
        """Close the connection to a server, and list its tools anew."""
        if server := self._servers.get(name):
            await server.connection.aclose()
            await self._list(server, RECONNECT_SECONDS)
            if server.down:
                server.again.set()
        return next(one for one in self.states() if one.name == name)

    async def log_in(self, name: str) -> str:
        """Begin a login and return the link that a person opens.

        Raises `UsageError` where the server takes none, and `McpFailure` where it fails at once.
        """
        server = self._servers.get(name)
        if server is None or is_program(server.settings):
            raise UsageError(f"The MCP server {name!r} takes no login: it is a program, or it is not used.")
        if self._logins is None:
            raise UsageError("Nothing of this conversation is kept, and neither is a login.")
        await self._stop_login(server)
        login = server.login = Login()
        task = server.logging_in = asyncio.create_task(server.log_in(login), name=f"log in {name}")
        await asyncio.wait({task, login.link}, return_when=asyncio.FIRST_COMPLETED)
        if login.link.done() and not login.link.cancelled():
            return login.link.result()
        raise UsageError(task.result() or f"The MCP server {name!r} wants no login; it answers as it is.")

    async def logged_in(self, name: str, address: str) -> ServerState:
        """Wait for the end of a login whose browser came to `address`.

        Raises `UsageError` where none is waited for and where the login failed, `WrongAddress` for another address.
        """
        server = self._servers.get(name)
        if server is None or server.login is None or server.logging_in is None or server.logging_in.done():
            raise UsageError(
                _("No login at the MCP server {name!r} is waited for. `/mcp login {name}` begins one.", name=name)
            )
        server.login.give(address)
        if problem := await asyncio.shield(server.logging_in):
            raise UsageError(problem)
        return await self.reconnect(name)

    async def _stop_login(self, server: McpServer) -> None:
        if server.logging_in is not None:
            server.logging_in.cancel()
            await asyncio.wait({server.logging_in})
            server.logging_in = server.login = None

    async def prompts(self, name: str) -> tuple[ServerOffer, ...]:
        """What a server offers. Raises `UsageError` where the owner does not allow it, `McpFailure` where it fails."""
        server = self._with_prompts(name)
        return await server.connection.prompts(timeout=server.settings.tool_timeout)

    async def prompt(self, name: str, prompt: str, arguments: Mapping[str, str]) -> str:
        """The text of a prompt. Raises as `prompts` does."""
        server = self._with_prompts(name)
        return await server.connection.prompt(prompt, arguments, timeout=server.settings.tool_timeout)

    def _with_prompts(self, name: str) -> McpServer:
        server = self._servers.get(name)
        if server is None:
            raise UsageError(f"The MCP server {name!r} is not used: {self._skipped.get(name, 'it is switched off')}.")
        if not server.settings.prompts:
            raise UsageError(
                f'Its prompts are not allowed. Write "prompts": true to the server {name!r} and start again.'
            )
        return server

    async def search(
        self,
        server: str,
        tool: str,
        arguments: Callable[[frozenset[str]], Mapping[str, object]],
        timeout: float,
    ) -> str:
        """The text of a search tool. Raises `SearchError` only."""
        found = self._servers.get(server)
        remote = next((one for one in found.allowed() if one.name == tool), None) if found else None
        if found is None or remote is None:
            raise SearchError("not_configured", f"there is no tool {tool} of an MCP server {server}")
        properties = object_schema(remote.schema).get("properties")
        names = frozenset(map(str, properties)) if isinstance(properties, dict) else frozenset()
        limit = min(timeout, found.settings.tool_timeout)
        try:
            said = await found.connection.call(tool, arguments(names), timeout=limit)
        except McpFailure as failure:
            raise SearchError(_KINDS.get(failure.kind, "unavailable"), str(failure)) from None
        if said.failed:
            raise SearchError("unavailable", f"{server}/{tool} failed: {shorten(said.text, 200)}")
        return said.text

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for server in self._servers.values():
            await self._stop_login(server)
        await asyncio.gather(*(server.connection.aclose() for server in self._servers.values()))


def servers_of(
    loaded: Loaded, paths: Paths, env: Mapping[str, str], servers: Mapping[str, McpServerConfig], *, kept: bool
) -> McpServers:
    """These servers with what the configuration says of the way to them; `kept`: what they list and logins are kept."""
    tools = loaded.config.tools
    logins = LoginFile(paths.logins) if kept else None
    guard = Guard(Exceptions.parse(tools.ssrf_whitelist))
    proxy = Proxies(tools.web.proxy, env).of
    person = Path(env.get("HOME") or Path.home())
    secret = (paths.home, paths.config, *(person / one for one in SECRET_PLACES))
    around = Surroundings(proxy, env, paths.workspace, secret, paths.media, logins, guard)
    return McpServers(servers, around, cache=paths.cache / "mcp_tools.json" if kept else None)


def is_program(settings: McpServerConfig) -> bool:
    """True for a server that is started here; one with a program and an address is what its `type` says."""
    return settings.type in ("stdio", "local") or not settings.url


def words_of(settings: McpServerConfig) -> tuple[str, ...]:
    """The program of a server with its arguments."""
    command = (settings.command,) if isinstance(settings.command, str) else settings.command
    first = tuple(str(Path(word).expanduser()) if word.startswith("~") else word for word in command[:1])
    return (*first, *command[1:], *settings.args)


def _place(settings: McpServerConfig) -> str:
    """Where a server is, without what may be a key."""
    if is_program(settings):
        return f"program {Path(words_of(settings)[0]).name}"
    return f"address {urlsplit(settings.url).hostname}"


def _unusable(settings: McpServerConfig) -> str:
    if settings.enabled and is_program(settings) and not any(words_of(settings)[:1]):
        return f"its type is {settings.type}, and it has no `command`"
    return ""


def _read(cache: Path | None) -> dict[str, list[RemoteTool]]:
    if cache is None:
        return {}
    try:
        known: dict[str, list[RemoteTool]] = msgspec.json.decode(cache.read_bytes(), type=dict[str, list[RemoteTool]])
    except (OSError, msgspec.DecodeError):
        return {}
    return known


def _write(cache: Path | None, known: Mapping[str, list[RemoteTool]]) -> None:
    if cache is None:
        return
    try:
        cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(cache, msgspec.json.encode(known))
    except OSError as error:
        logger.warning("the list of MCP tools is not kept: {}", error)
