"""`nanobot permissions`: what the owner has allowed for good, and taking it back. Asks no model."""

import argparse
import asyncio
import os
import sys

from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import Setup, set_up
from nanobot.command.builtin import permissions_text
from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.permissions import Permissions
from nanobot.session.sqlite import SqliteDatabase


def run_permissions(args: argparse.Namespace) -> int:
    """List them, or take back the one that is named; the exit code."""
    setup = set_up(args, os.environ)
    if setup.loaded.config.gateway.ledger:
        raise UsageError("Many gateways share a database here (gateway.ledger): write /permissions to the bot instead.")
    if args.action == "remove" and not args.id:
        raise UsageError("Name what to take back: nanobot permissions remove ID, or all.")
    text = asyncio.run(_text(setup, args.id if args.action == "remove" else ""))
    sys.stdout.write(render_markdown(text, look_of(sys.stdout, setup.env)))
    return 0


async def _text(setup: Setup, wanted: str) -> str:
    ledger = Ledger(SqliteDatabase(setup.paths.database))
    try:
        return await permissions_text(Permissions(ledger), wanted)
    finally:
        await ledger.aclose()
