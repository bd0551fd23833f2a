"""What `nanobot mcp` does: the MCP servers of the configuration, and trying them."""

import argparse
import asyncio
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from nanobot.agent.tools.mcp.tokens import LoginFile
from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import TERMINAL_PERSON
from nanobot.cli.commands.home import own_ledger
from nanobot.cli.options import FAILED
from nanobot.cli.terminal import agreed, say, somebody_is_here
from nanobot.config.edit import ConfigFile
from nanobot.config.loader import Loaded, load, located
from nanobot.config.paths import Paths, prepare_home
from nanobot.config.schema_tools import McpServerConfig
from nanobot.errors import UsageError, WrongAddress
from nanobot.session.permissions import Permissions
from nanobot.session.pins import Pins, ToolWords, Unread, shown
from nanobot.utils.logs import add_secrets, configure_logging, without_secrets
from nanobot.utils.secrecy import mask_url
from nanobot.utils.text import nearest, shorten, squeeze
from nanobot.utils.translation import _, _n, listed, sentences

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
            return asyncio.run(_log_in(args))
        case "test":
            return _test(args)
        case _:
            return _list(paths)


def _add(paths: Paths, args: argparse.Namespace) -> int:
    if not _NAME.fullmatch(args.name):
        raise UsageError(_("The name of a server is made of letters, digits, `.`, `-` and `_`, such as `files`."))
    file = ConfigFile(paths.config, os.environ)
    place = (*_SERVERS, args.name)
    if file.has(place):
        raise UsageError(
            _("There is an MCP server {name!r} already; `nanobot mcp remove` takes it out.", name=args.name)
        )
    file.set(place, _entry(args))
    here = somebody_is_here()
    tries = _("It is tried now.") if here else _("`nanobot mcp test {name}` tries it.", name=args.name)
    say(sentences(_("Added {name} to {file}.", name=args.name, file=paths.config), tries))
    say(_("A running nanobot has it after its next start."))
    if here:
        try:
            _test(args)
        except UsageError as error:
            say(str(error))
    return 0


def _entry(args: argparse.Namespace) -> dict[str, object]:
    """What the words of a person mean as settings of a server."""
    first, *rest = args.words
    if first.startswith(("http://", "https://")):
        if rest or args.env:
            raise UsageError(
                _("An address has no further words and no --env. A program: nanobot mcp add NAME -- PROGRAM")
            )
        # English: somebody types it
        headers = {"headers": _pairs(args.header, ":", "--header 'Name: value'")} if args.header else {}
        return {**({"type": "sse"} if args.sse else {}), "url": first, **headers}
    if args.header or args.sse:
        raise UsageError(_("--header and --sse are for an address, which begins with http:// or https://."))
    if "://" in first:
        raise UsageError(
            _("The address of a server begins with http:// or https://, and this is neither: {first}", first=first)
        )
    env = {"env": _pairs(args.env, "=", "--env NAME=value")} if args.env else {}
    return {"command": first, **({"args": rest} if rest else {}), **env}


def _pairs(given: list[str], mark: str, shape: str) -> dict[str, str]:
    found = {}
    for one in given:
        name, there, value = one.partition(mark)
        if not there or not name.strip():
            raise UsageError(_("{name!r} is not of the form {shape}.", name=name, shape=shape))
        found[name.strip()] = value.strip()
    return found


def _remove(paths: Paths, name: str) -> int:
    file = ConfigFile(paths.config, os.environ)
    place = (*_SERVERS, name)
    if not file.has(place):
        raise UsageError(
            _(
                "{file} names no MCP server {name!r}. `nanobot mcp list` shows those that it names.",
                file=paths.config,
                name=name,
            )
        )
    file.remove(place)
    if LoginFile(paths.logins).forget(name):
        say(_("Removed {name} from {file} and its login.", name=name, file=paths.config))
    else:
        say(_("Removed {name} from {file}.", name=name, file=paths.config))
    return 0


def _list(paths: Paths) -> int:
    loaded = load(paths.config, env=os.environ, must_exist=paths.config_named)
    add_secrets(loaded.secrets)
    servers = loaded.config.tools.mcp_servers
    for name, one in sorted(servers.items()):
        where = f"tools.mcpServers.{name}"
        off = _("switched off: {why}; ", why=loaded.disabled[where]) if where in loaded.disabled else ""
        off = off or (_("switched off; ") if not one.enabled else "")
        say(f"{name:<16} {off}{_what(one)}")
    for where, why in sorted(loaded.disabled.items()):
        name = where.removeprefix("tools.mcpServers.")
        if name != where and name not in servers:
            say(f"{name:<16} {_('switched off: {why}', why=why)}")
    if not servers and not loaded.disabled:
        say(_("No MCP server is configured. `nanobot mcp add --help` shows how to add one."))
    return 0


def _what(one: McpServerConfig) -> str:
    """Where a server is, without what may be a key: values in its address, and known secrets."""
    if one.url and one.type not in ("stdio", "local"):
        return mask_url(one.url, "…").partition("?")[0]
    command = (one.command,) if isinstance(one.command, str) else one.command
    return shorten(without_secrets(squeeze(" ".join((*command, *one.args)))), 100)


def _test(args: argparse.Namespace) -> int:
    """Try the named server, or all, and ask about what they say of their tools."""
    loaded, paths = _found(args)
    servers = loaded.config.tools.mcp_servers
    chosen = {name: one for name, one in servers.items() if name == args.name or (not args.name and one.enabled)}
    if not chosen:
        say(_("No MCP server is configured. `nanobot mcp add --help` shows how to add one."))
        return 0
    failed, told = asyncio.run(_try(loaded, paths, chosen))
    if not loaded.config.gateway.ledger:  # there it is kept in the database of the gateways
        _let_count(paths, told)
    return FAILED if failed else 0


def _found(args: argparse.Namespace) -> tuple[Loaded, Paths]:
    """The configuration, with the places that it asks for. Raises `UsageError` where it has no server of that name."""
    loaded, paths = located(os.environ, args.config, args.workspace)
    add_secrets(loaded.secrets)
    servers = loaded.config.tools.mcp_servers
    if args.name and args.name not in servers:
        why = loaded.disabled.get(f"tools.mcpServers.{args.name}")
        raise UsageError(_missing(args.name, why or "", nearest(args.name, servers) or ""))
    paths.workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    configure_logging(paths.logs / "nanobot.log", loaded.secrets)
    return loaded, paths


def _missing(name: str, why: str, near: str) -> str:
    if why:
        return _("The MCP server {name!r} is not there: it is switched off: {why}", name=name, why=why)
    if near:
        return _("The MCP server {name!r} is not there: did you mean {near!r}?", name=name, near=near)
    return _("The MCP server {name!r} is not there: see `nanobot mcp list`", name=name)


async def _log_in(args: argparse.Namespace) -> int:
    """Log in to a server: the address at which the browser ends is pasted here."""
    from nanobot.agent.external_tools import mcp_servers

    if not sys.stdin.isatty():
        raise UsageError(_("Log in in a terminal: the address at which your browser ends is pasted there."))
    loaded, paths = _found(args)
    servers = mcp_servers(loaded, paths, os.environ, {args.name: loaded.config.tools.mcp_servers[args.name]}, kept=True)
    loop, pasted = asyncio.get_running_loop(), asyncio.Queue[str]()
    async with aclosing(servers):
        link = await servers.log_in(args.name)
        say(_("Open this to log in to {name}, in a browser that you trust:\n\n  {link}\n", name=args.name, link=link))
        say(_("Then paste the address here that the browser shows at the end (http://127.0.0.1…)."))
        loop.add_reader(sys.stdin, lambda: pasted.put_nowait(sys.stdin.readline()))
        while True:
            address = await pasted.get()
            try:
                tools = _count((await servers.logged_in(args.name, address)).tools)
            except WrongAddress as error:
                if not address:  # Ctrl-D
                    raise
                say(str(error))
            else:
                say(_("Logged in. {server}: {tools}.", server=args.name, tools=tools))
                return 0


async def _try(loaded: Loaded, paths: Paths, chosen: Mapping[str, McpServerConfig]) -> tuple[bool, tuple[Words, ...]]:
    """Whether one has failed, and what the others say of their tools."""
    from nanobot.agent.external_tools import mcp_servers

    began, failed = time.monotonic(), False
    async with aclosing(mcp_servers(loaded, paths, os.environ, chosen, kept=True)) as servers:
        await servers.start(_TRY_SECONDS)
        for state in servers.states():
            failed |= not state.ready
            say(_("{server}: {tools}", server=state.name, tools=_named(state.tools) if state.ready else state.why))
        say(_("Tried in {seconds:.1f} s.", seconds=time.monotonic() - began))
        told = tuple(servers.words(state.name) for state in servers.states() if state.ready and state.tools)
    return failed, told


def _let_count(paths: Paths, servers: Sequence[Words]) -> None:
    """Show what each of these servers says of its tools where that does not count yet, and ask whether it may."""
    if servers:
        prepare_home(paths)
    for words in servers:
        for unread in asyncio.run(_unread(paths, words)):
            name = unread.server
            if not somebody_is_here():
                how = _(
                    "`nanobot mcp test {name}` in a terminal, or `/mcp trust {name}`, shows it and lets it count.",
                    name=name,
                )
                say(sentences(_("What {name} says of its tools counts as content from outside.", name=name), how))
                continue
            sys.stdout.write("\n" + render_markdown(shown(unread, words), look_of(sys.stdout, os.environ)))
            say(_("\nDoes nothing there tell a model what to do besides using these tools?"))
            counts = _("y: it counts from now on. Enter: it is content from outside, as their answers always are.")
            if agreed(f"{counts}\n"):
                pinned = asyncio.run(_pin(paths, words))
                say(sentences(_("From now on {words}.", words=pinned), _("`nanobot permissions` takes it back.")))


async def _unread(paths: Paths, words: Words) -> tuple[Unread, ...]:
    async with own_ledger(paths) as ledger:
        return await Pins(Permissions(ledger)).unread(words)


async def _pin(paths: Paths, words: Words) -> str:
    async with own_ledger(paths) as ledger:
        return (await Pins(Permissions(ledger)).pin(TERMINAL_PERSON, words[0].server, words)).words


def _count(tools: Sequence[str]) -> str:
    return _n("{number} tool", "{number} tools", len(tools))


def _named(tools: Sequence[str]) -> str:
    names = listed((*tools[:_SHOWN], "…") if len(tools) > _SHOWN else tools)
    return _("{count}: {names}", count=_count(tools), names=names)
