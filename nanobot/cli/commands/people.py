"""`nanobot people`, `nanobot permissions` and `nanobot schedule`: who may talk on Telegram, what each may do, what the
owner has allowed for good, and what comes at set times. Ask no model, and no gateway need run."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine

from nanobot.agent.work.watches import watches_of
from nanobot.app import no_channel
from nanobot.bus.events import TERMINAL, InboundMessage, Sender
from nanobot.channels.telegram.access.rights import rights_of
from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import Setup, set_up
from nanobot.command.builtin import permissions_text
from nanobot.config.paths import PEOPLE
from nanobot.errors import UsageError
from nanobot.schedule.appointments import Who, appointments_of
from nanobot.session.ledger import Ledger
from nanobot.session.permissions import Permissions
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.translation import _

#: Commands of a chat that a shell has too.
_SLASH = re.compile(r"`/(schedule|watch|usage|people|invite|permissions|help)\b")


def run_people(args: argparse.Namespace) -> int:
    """Print what was asked for or became of it; the exit code."""
    setup = set_up(args, os.environ)
    write(setup, lambda: _said(setup, args.words))
    return 0


async def _said(setup: Setup, words: list[str]) -> str:
    """What is told, as Markdown. Raises `UsageError`."""
    config, paths = setup.loaded.config, setup.paths
    if not config.channels.telegram.token:
        raise UsageError(no_channel(setup.loaded, paths))
    if config.gateway.ledger:
        raise UsageError(_("The gateways share a database. Write /people or /invite in your chat with the bot."))
    ledger = Ledger(SqliteDatabase(paths.database))
    try:
        rights = rights_of(config, setup.env, ledger, paths.workspace / PEOPLE)
        if words[:1] == ["invite"]:
            return await rights.invite(" ".join(words[1:]), drawn=True)
        return await rights.people(" ".join(words))
    finally:
        await ledger.aclose()


def run_permissions(args: argparse.Namespace) -> int:
    """List what is allowed for good, or take back the one that is named; the exit code."""
    setup = set_up(args, os.environ)
    if setup.loaded.config.gateway.ledger:
        raise UsageError(
            _("Many gateways share a database here (gateway.ledger): write /permissions to the bot instead.")
        )
    if args.action == "remove" and not args.id:
        raise UsageError(_("Name what to take back: nanobot permissions remove ID, or all."))
    wanted = args.id if args.action == "remove" else ""
    return _print(setup, lambda ledger: permissions_text(Permissions(ledger), wanted))


def run_schedule(args: argparse.Namespace) -> int:
    """Show what comes at set times, or change it; the exit code."""
    setup = set_up(args, os.environ)
    if setup.loaded.config.gateway.ledger:
        raise UsageError(_("Many gateways share a database here (gateway.ledger): write /schedule to the bot instead."))
    zone, who = setup.loaded.config.agents.defaults.timezone, Who("terminal:local", TERMINAL.key, "owner")

    def said(ledger: Ledger) -> Awaitable[str]:
        return appointments_of(ledger, setup.paths.home, zone, setup.env).say(" ".join(args.words), who)

    return _print(setup, said)


def run_watch(args: argparse.Namespace) -> int:
    """Show what is watched, or change it; the exit code."""
    setup = set_up(args, os.environ)
    if setup.loaded.config.gateway.ledger:
        raise UsageError(_("Many gateways share a database here (gateway.ledger): write /watch to the bot instead."))
    zone = setup.loaded.config.agents.defaults.timezone
    owner = InboundMessage(TERMINAL, Sender("local", role="owner"), "")

    def said(ledger: Ledger) -> Awaitable[str]:
        watches = watches_of(appointments_of(ledger, setup.paths.home, zone, setup.env), ledger.database)
        return watches.say(owner, " ".join(args.words))

    return _print(setup, said)


def _print(setup: Setup, said: Callable[[Ledger], Awaitable[str]]) -> int:
    """Print what is said of the ledger of this home, as Markdown."""

    async def run() -> str:
        ledger = Ledger(SqliteDatabase(setup.paths.database))
        try:
            return await said(ledger)
        finally:
            await ledger.aclose()

    write(setup, run)
    return 0


def write(setup: Setup, said: Callable[[], Coroutine[None, None, str]]) -> None:
    """Print Markdown in which commands stand as they are typed in a shell. Raises `UsageError`, in such words too."""
    try:
        text = asyncio.run(said())
    except UsageError as error:
        raise UsageError(_in_shell(str(error))) from None
    sys.stdout.write(render_markdown(_in_shell(text), look_of(sys.stdout, setup.env)))


def _in_shell(text: str) -> str:
    return _SLASH.sub(lambda found: f"`nanobot {'people ' * (found[1] == 'invite')}{found[1]}", text)
