"""`nanobot agent` where a gateway of the same home runs: the conversation is in that gateway."""

import argparse
import asyncio
import sys

from nanobot import __version__
from nanobot.channels.socket.client import GatewayLink, Refused
from nanobot.channels.socket.wire import PROTOCOL, HelloLine
from nanobot.cli.agent_command import Setup, writer_for
from nanobot.cli.oneshot import UserPrompt, answered
from nanobot.cli.terminal import note
from nanobot.utils.translation import N_, _, language, listed

_PROJECT = N_(
    "{folder} has instructions of its own ({held}), which a gateway does not read: this conversation is apart from it."
)
_REFUSED = N_("A gateway runs, and this terminal has not joined it: {reason}. The conversation is apart from it.")
_FOREIGN = N_("The gateway is nanobot {version}, this program is {own}. Start the gateway again to have the same.")


async def ask_gateway(args: argparse.Namespace, setup: Setup, question: UserPrompt) -> int | None:
    """Ask one question there; the exit code, or None where no gateway answers it."""
    link = await _join(args, setup, asks=True)
    if link is None:
        return None
    carrying = asyncio.create_task(link.run())
    try:
        writer = writer_for(args, setup.env)
        writer.started(link.welcome.state.session, link.welcome.model)
        return await answered(link.bus, link.process, question, writer)
    finally:
        carrying.cancel()
        await asyncio.wait({carrying})
        link.close()


async def talk_in_gateway(args: argparse.Namespace, setup: Setup) -> int | None:
    """Talk there until the person leaves; the exit code, or None where no gateway serves this terminal, or not any
    more: then the same session goes on."""
    link = await _join(args, setup, asks=False)
    if link is None:
        return None
    from nanobot.channels.terminal.look import look_of
    from nanobot.cli.interactive import Beginning, converse

    state, begun = link.welcome.state, bool(link.welcome.state.messages)
    place = _("in the gateway that runs here; --alone talks apart from it")
    title, config = state.title if begun else "", setup.loaded.config.channels.terminal
    begin = Beginning(link.welcome.model, link.welcome.why, title, link.welcome.recap, place, config=config)
    look = look_of(sys.stdout, setup.env, color=args.color, plain=args.plain)
    channel, args.typed = await converse(link, begin, setup.paths, look)
    if not link.over:
        return channel.exit_code
    note(_("This terminal goes on alone."))
    args.session, args.go_on = channel.state.session or state.session, False
    return None


async def _join(args: argparse.Namespace, setup: Setup, *, asks: bool) -> GatewayLink | None:
    """A connection; None where no gateway runs, or where one does not serve this, which is said."""
    if setup.project is not None:
        note(_(_PROJECT, folder=setup.project.folder, held=listed(setup.project.holds)))
        return None
    known = (PROTOCOL, __version__, str(setup.paths.config), args.session or "", args.go_on, asks, args.model or "")
    try:
        link = await GatewayLink.open(setup.paths.socket, HelloLine(*known, language()))
    except Refused as error:
        note(_(_REFUSED, reason=error))
        return None
    if link is not None and link.welcome.version != __version__:
        note(_(_FOREIGN, version=link.welcome.version, own=__version__))
    return link
