"""`/mcp`: how the MCP servers are, reconnecting one, what of their words counts, and the prompts that they offer."""

from collections.abc import Sequence

from msgspec.structs import replace

from nanobot.command.router import CommandContext
from nanobot.command.services import ServerControl, ServerList
from nanobot.errors import UsageError
from nanobot.session.pins import Pins, ServerState, ToolWords, Unread, seal, shown
from nanobot.utils.text import nearest, one_line
from nanobot.utils.translation import N_, _, _n, sentences

_WIDTH = 160
_UNREAD = N_("; what it says of its tools counts as content from outside until `/mcp trust {server}`")
_CHANGED = N_(
    "; its tools have changed, what it says of them counts as content from outside until `/mcp trust {server}`"
)


async def answer_mcp(ctx: CommandContext) -> None:
    """`/mcp`: what becomes of the words behind it."""
    if not ctx.for_owner_alone:
        raise UsageError(_("Ask for the MCP servers in a chat of your own: others read along here."))
    servers, (verb, *words) = ctx.services.servers, ctx.args.split() or [""]
    if servers is None or not servers.states():
        await ctx.reply(_("No MCP server is configured. `nanobot mcp add` adds one; docs/tools.md tells how."))
    elif not verb:
        states = servers.states()
        told = [word for one in states if one.tools for word in servers.used(one.name).words(one.name)]
        await ctx.reply(_listed(states, await Pins(ctx.control.permissions).unread(told)))
    elif verb == "reconnect" and len(words) == 1:
        state = await _used(servers, words[0]).reconnect(words[0])
        await ctx.reply(_("{server}: {how}.", server=state.name, how=_how(state)))
    elif verb == "login" and words:
        await _log_in(ctx, _used(servers, words[0]), words[0], " ".join(words[1:]))
    elif verb == "trust" and 1 <= len(words) <= 2:
        await _trust(ctx, words[0], _used(servers, words[0]).words(words[0]), "".join(words[1:]))
    elif verb == "prompt" and words:
        await _prompt(ctx, _used(servers, words[0]), words[0], words[1:])
    else:
        raise UsageError(_("/mcp alone shows the servers; besides there is `/mcp {usage}`.", usage=ctx.usage))


def _listed(states: Sequence[ServerState], unread: Sequence[Unread]) -> str:
    counts = {one.server: _CHANGED if one.known else _UNREAD for one in unread}
    lines = [
        f"- `{one.name}` ({_shown(one.place)}): {_how(one)}{_(counts.get(one.name, ''), server=one.name)}"
        for one in states
    ]
    closing = [] if all(one.ready for one in states) else ["", _("A server that failed is asked again by itself.")]
    return "\n".join([_("**MCP servers**"), "", *lines, *closing])


def _how(state: ServerState) -> str:
    """How a server is, in a person's words."""
    count = len(state.tools)
    if state.ready:
        return _n("ready, {number} tool", "ready, {number} tools", count)
    kept = _n("; its {number} tool stay listed", "; its {number} tools stay listed", count) if count else ""
    return _shown(state.why.rstrip(".。")) + kept


def _used(servers: ServerList, name: str) -> ServerControl:
    names = [one.name for one in servers.states()]
    if name in names:
        return servers.used(name)
    near = nearest(name, names)
    hint = _("Did you mean {near!r}?", near=near) if near else ""
    raise UsageError(sentences(_("There is no MCP server {name!r}.", name=name), hint))


async def _log_in(ctx: CommandContext, servers: ServerControl, server: str, address: str) -> None:
    """Show the link of a login, or take the address that the browser came to."""
    if address:
        how = _how(await servers.logged_in(server, address))
        await ctx.reply(_("Logged in. {server}: {how}.", server=server, how=how))
        return
    link = await servers.log_in(server)
    steps = [
        _("Open this within ten minutes to log in to {server}, in a browser that you trust:", server=server),
        "",
        f"<{link}>",
        "",
    ]
    how = f"`/mcp login {server} <address>`"  # English: it is typed
    pasted = _("Your browser comes to an address that begins with `http://127.0.0.1`. Send it: {how}.", how=how)
    await ctx.reply("\n".join([*steps, pasted]))


async def _trust(ctx: CommandContext, server: str, tools: Sequence[ToolWords], given: str) -> None:
    """Show what a server says of its tools, and let it count where exactly that was shown before."""
    pins = Pins(ctx.control.permissions)
    if not tools:
        raise UsageError(
            _("The MCP server {server!r} offers no tools now, so there is nothing to let count.", server=server)
        )
    unread = next(iter(await pins.unread(tools)), None)
    if unread is None:
        await ctx.reply(
            _(
                "What {server} says of its tools counts already. `/permissions` shows it and takes it back.",
                server=server,
            )
        )
        return
    if given == seal(tools):
        kept = await pins.pin(ctx.message.person, server, tools)
        await ctx.reply(
            _(
                "From the next message on {words}. Conversations that have read it before stay as they are; /new "
                "begins another.",
                words=kept.words,
            )
        )
        return
    closing = _(
        "Let it count only if you find nothing there that tells a model what to do besides using the tools: "
        "`/mcp trust {server} {seal}`",
        server=server,
        seal=seal(tools),
    )
    shell = f"nanobot mcp test {server}"  # English: a command
    await ctx.show_before_it_counts(shown(unread, tools), closing, shell, again=bool(given))


async def _prompt(ctx: CommandContext, servers: ServerControl, server: str, words: list[str]) -> None:
    """List the prompts of a server, or let the agent work on one. What it says is content from outside."""
    if not words:
        offered = await servers.prompts(server)
        lines = [f"- `{_shown(one.key)}` {_shown(' '.join((*one.arguments, one.about)))}" for one in offered]
        how = _("`/mcp prompt {server} <name> [key=value …]` uses one.", server=server)
        await ctx.reply(
            "\n".join([_("**Prompts of {server}**", server=server), "", *lines, "", how])
            if lines
            else _("It offers none.")
        )
        return
    given = dict(one.partition("=")[::2] for one in words[1:])
    text = await servers.prompt(server, words[0], given)
    # English: a model reads it
    asked = f"I have chosen the prompt {words[0]!r} of the MCP server {server!r}. Do what it says."
    ctx.hand_on(replace(ctx.message, content=asked, context=text))


def _shown(text: str) -> str:
    """What a server says of itself, on one line."""
    return one_line(text, _WIDTH)
