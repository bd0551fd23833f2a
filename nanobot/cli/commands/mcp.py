"""What `nanobot mcp` does: the MCP servers of the configuration, and trying them."""

import argparse
import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from nanobot.agent.tools.mcp.tokens import LoginFile
from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import TERMINAL_PERSON
from nanobot.cli.options import FAILED
from nanobot.config.edit import ConfigFile
from nanobot.config.loader import Loaded, load
from nanobot.config.paths import Paths, prepare_home
from nanobot.config.schema_tools import McpServerConfig
from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.permissions import Permissions
from nanobot.session.pins import Pins, ToolWords, Unread, shown
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.logs import add_secrets, configure_logging, without_secrets
from nanobot.utils.secrecy import mask_url
from nanobot.utils.text import nearest, printable, shorten, squeeze

if TYPE_CHECKING:
    from nanobot.agent.tools.mcp.servers import McpServers

#: Seconds that a server has to list its tools when it is tried.
_TRY_SECONDS = 60.0
_NAME = re.compile(r"[\w.-]{1,40}", re.ASCII)
_SHOWN = 20
_SERVERS = ("tools", "mcpServers")
Words = Sequence[ToolWords]


def run_mcp(args: argparse.Namespace) -> int:
    """Run one of list, add, remove and test; the exit code."""
    paths = Paths.resolve(os.environ, args.config, args.workspace)
    match args.mcp_action:
        case "add":
            return _add(paths, args)
        case "remove":
            return _remove(paths, args.name)
        case "login":
            return asyncio.run(_log_in(paths, args))
        case "test":
            return _test(paths, args)
        case _:
            return _list(paths)


def _add(paths: Paths, args: argparse.Namespace) -> int:
    if not _NAME.fullmatch(args.name):
        raise UsageError("The name of a server is made of letters, digits, `.`, `-` and `_`, such as `files`.")
    file = ConfigFile(paths.config, os.environ)
    place = (*_SERVERS, args.name)
    if file.has(place):
        raise UsageError(f"There is an MCP server {args.name!r} already; `nanobot mcp remove` takes it out.")
    file.add(place, _entry(args))
    here = _somebody_is_here()
    tries = "It is tried now." if here else f"`nanobot mcp test {args.name}` tries it."
    _print(f"Added {args.name} to {paths.config}. {tries}")
    _print("A running nanobot has it after its next start.")
    if here:
        try:
            _test(paths, args)
        except UsageError as error:
            _print(str(error))
    return 0


def _entry(args: argparse.Namespace) -> dict[str, object]:
    """What the words of a person mean as settings of a server."""
    first, *rest = args.words
    if first.startswith(("http://", "https://")):
        if rest or args.env:
            raise UsageError("An address has no further words and no --env. A program: nanobot mcp add NAME -- PROGRAM")
        headers = {"headers": _pairs(args.header, ":", "--header 'Name: value'")} if args.header else {}
        return {**({"type": "sse"} if args.sse else {}), "url": first, **headers}
    if args.header or args.sse:
        raise UsageError("--header and --sse are for an address, which begins with http:// or https://.")
    if "://" in first:
        raise UsageError(f"The address of a server begins with http:// or https://, and this is neither: {first}")
    env = {"env": _pairs(args.env, "=", "--env NAME=value")} if args.env else {}
    return {"command": first, **({"args": rest} if rest else {}), **env}


def _pairs(given: list[str], mark: str, shape: str) -> dict[str, str]:
    found = {}
    for one in given:
        name, there, value = one.partition(mark)
        if not there or not name.strip():
            raise UsageError(f"{name!r} is not of the form {shape}.")
        found[name.strip()] = value.strip()
    return found


def _remove(paths: Paths, name: str) -> int:
    file = ConfigFile(paths.config, os.environ)
    place = (*_SERVERS, name)
    if not file.has(place):
        raise UsageError(f"{paths.config} names no MCP server {name!r}. `nanobot mcp list` shows those that it names.")
    file.remove(place)
    login = " and its login" if LoginFile(paths.logins).forget(name) else ""
    _print(f"Removed {name} from {paths.config}{login}.")
    return 0


def _list(paths: Paths) -> int:
    loaded = _loaded(paths)
    servers = loaded.config.tools.mcp_servers
    for name, one in sorted(servers.items()):
        where = f"tools.mcpServers.{name}"
        off = f"switched off: {loaded.disabled[where]}; " if where in loaded.disabled else ""
        off = off or ("switched off; " if not one.enabled else "")
        _print(f"{name:<16} {off}{_what(one)}")
    for where, why in sorted(loaded.disabled.items()):
        name = where.removeprefix("tools.mcpServers.")
        if name != where and name not in servers:
            _print(f"{name:<16} switched off: {why}")
    if not servers and not loaded.disabled:
        _print("No MCP server is configured. `nanobot mcp add --help` shows how to add one.")
    return 0


def _what(one: McpServerConfig) -> str:
    """Where a server is, without what may be a key: values in its address, and known secrets."""
    if one.url and one.type not in ("stdio", "local"):
        return mask_url(one.url, "…").partition("?")[0]
    command = (one.command,) if isinstance(one.command, str) else one.command
    return shorten(without_secrets(squeeze(" ".join((*command, *one.args)))), 100)


def _test(paths: Paths, args: argparse.Namespace) -> int:
    """Try the named server, or all, and ask about what they say of their tools."""
    loaded, paths = _found(paths, args)
    servers = loaded.config.tools.mcp_servers
    chosen = {name: one for name, one in servers.items() if name == args.name or (not args.name and one.enabled)}
    if not chosen:
        _print("No MCP server is configured. `nanobot mcp add --help` shows how to add one.")
        return 0
    failed, told = asyncio.run(_try(loaded, paths, chosen))
    if not loaded.config.gateway.ledger:  # there it is kept in the database of the gateways
        _let_count(paths, told)
    return FAILED if failed else 0


def _found(paths: Paths, args: argparse.Namespace) -> tuple[Loaded, Paths]:
    """The configuration, with the places that it asks for. Raises `UsageError` where it has no server of that name."""
    loaded = _loaded(paths)
    servers = loaded.config.tools.mcp_servers
    if args.name and args.name not in servers:
        why = loaded.disabled.get(f"tools.mcpServers.{args.name}")
        near = nearest(args.name, servers)
        hint = f"it is switched off: {why}" if why else f"did you mean {near!r}?" if near else "see `nanobot mcp list`"
        raise UsageError(f"The MCP server {args.name!r} is not there: {hint}")
    paths = Paths.resolve(os.environ, args.config, args.workspace or loaded.config.agents.defaults.workspace)
    paths.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    configure_logging(paths.logs / "nanobot.log", loaded.secrets)
    return loaded, paths


async def _log_in(paths: Paths, args: argparse.Namespace) -> int:
    """Log in to a server: the browser comes back by itself, or its address is pasted here."""
    from nanobot.agent.external_tools import mcp_servers

    loaded, paths = _found(paths, args)
    servers = mcp_servers(loaded, paths, os.environ, {args.name: loaded.config.tools.mcp_servers[args.name]}, kept=True)
    lines: asyncio.Queue[str] = asyncio.Queue()
    try:
        link = await servers.log_in(args.name, listen=True)
        _print(f"Open this to log in to {args.name}, in a browser that you trust:\n\n  {link}\n")
        _print("On another machine: paste the address here that the browser shows at the end (http://127.0.0.1…).")
        sys.stdout.flush()
        if sys.stdin.isatty():
            asyncio.get_running_loop().add_reader(sys.stdin, lambda: lines.put_nowait(sys.stdin.readline().strip()))
        done = asyncio.ensure_future(servers.logged_in(args.name))
        while not done.done():
            typing = asyncio.ensure_future(lines.get())
            await asyncio.wait({done, typing}, return_when=asyncio.FIRST_COMPLETED)
            if not typing.cancel() and typing.result():
                _give(servers, args.name, typing.result())
        _print(f"Logged in. {args.name}: {_count((await done).tools)}.")
    finally:
        await servers.aclose()
    return 0


def _give(servers: "McpServers", name: str, address: str) -> None:
    try:
        servers.give(name, address)
    except UsageError as error:
        _print(str(error))


async def _try(loaded: Loaded, paths: Paths, chosen: Mapping[str, McpServerConfig]) -> tuple[bool, tuple[Words, ...]]:
    """Whether one has failed, and what the others say of their tools."""
    from nanobot.agent.external_tools import mcp_servers

    began, failed = time.monotonic(), False
    servers = mcp_servers(loaded, paths, os.environ, chosen, kept=True)
    try:
        await servers.start(_TRY_SECONDS)
        for state in servers.states():
            failed |= not state.ready
            names = ", ".join(state.tools[:_SHOWN]) + (", …" if len(state.tools) > _SHOWN else "")
            count = _count(state.tools)
            _print(f"{state.name}: {f'{count}: {names}' if state.ready else state.why}")
        _print(f"Tried in {time.monotonic() - began:.1f} s.")
        told = tuple(servers.words(state.name) for state in servers.states() if state.ready and state.tools)
    finally:
        await servers.aclose()
    return failed, told


def _let_count(paths: Paths, servers: Sequence[Words]) -> None:
    """Show what each of these servers says of its tools where that does not count yet, and ask whether it may."""
    if servers:
        prepare_home(paths)
    for words in servers:
        for unread in asyncio.run(_unread(paths, words)):
            name = unread.server
            if not _somebody_is_here():
                how = f"`nanobot mcp test {name}` in a terminal, or `/mcp trust {name}`, shows it and lets it count."
                _print(f"What {name} says of its tools counts as content from outside. {how}")
                continue
            sys.stdout.write("\n" + render_markdown(shown(unread, words), look_of(sys.stdout, os.environ)))
            _print("\nDoes nothing there tell a model what to do besides using these tools?")
            _print("y: it counts from now on. Enter: it is content from outside, as their answers always are.")
            sys.stdout.flush()
            if sys.stdin.readline().strip().casefold() in {"y", "yes"}:
                _print(f"From now on {asyncio.run(_pin(paths, words))}. /permissions takes it back.")


async def _unread(paths: Paths, words: Words) -> tuple[Unread, ...]:
    async with _pins(paths) as pins:
        return await pins.unread(words)


async def _pin(paths: Paths, words: Words) -> str:
    async with _pins(paths) as pins:
        return (await pins.pin(TERMINAL_PERSON, words[0].server, words)).words


@asynccontextmanager
async def _pins(paths: Paths) -> AsyncIterator[Pins]:
    ledger = Ledger(SqliteDatabase(paths.database))
    try:
        yield Pins(Permissions(ledger))
    finally:
        await ledger.aclose()


def _somebody_is_here() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _count(tools: Sequence[str]) -> str:
    return f"{len(tools)} tool{'s' * (len(tools) != 1)}"


def _loaded(paths: Paths) -> Loaded:
    loaded = load(paths.config, env=os.environ, must_exist=paths.config_named)
    add_secrets(loaded.secrets)
    return loaded


def _print(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
