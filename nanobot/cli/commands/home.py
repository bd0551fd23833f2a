"""What commands need of the home that they tell of: its database, and Markdown on the terminal."""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import Setup, set_up
from nanobot.config.paths import Paths
from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.translation import _

#: Commands of a chat that a shell has too.
_SLASH = re.compile(r"`/(schedule|watch|usage|people|invite|permissions|sessions|help)\b")


def own_ledger(paths: Paths) -> aclosing[Ledger]:
    """The ledger in the file of this home, until the end of the block."""
    return aclosing(Ledger(SqliteDatabase(paths.database)))


def show(text: str, setup: Setup) -> None:
    """Print Markdown."""
    sys.stdout.write(render_markdown(text, look_of(sys.stdout, setup.env)))


def answer(args: argparse.Namespace, said: Callable[[Setup, Ledger], Awaitable[int | str]]) -> int:
    """Print what is said of the database of this home, as Markdown in which commands stand as they are typed in a
    shell; the exit code, which `said` gives where it has printed by itself. Raises `UsageError`, in such words too."""
    setup = set_up(args, os.environ)
    if setup.loaded.config.gateway.ledger:
        shared = _(
            "Many gateways share a database here (gateway.ledger): write {command} to the bot instead.",
            command=f"/{args.command}",
        )
        raise UsageError(shared)

    async def run() -> int | str:
        async with own_ledger(setup.paths) as ledger:
            return await said(setup, ledger)

    try:
        done = asyncio.run(run())
    except UsageError as error:
        raise UsageError(in_shell(str(error))) from None
    if isinstance(done, int):
        return done
    show(in_shell(done), setup)
    return 0


def in_shell(text: str) -> str:
    """What is said in a chat, with its commands as they are typed in a shell."""
    return _SLASH.sub(lambda found: f"`nanobot {'people ' * (found[1] == 'invite')}{found[1]}", text)
