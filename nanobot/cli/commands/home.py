"""What commands need of the home that they tell of: its database, and Markdown on the terminal."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import Setup
from nanobot.config.paths import Paths
from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.translation import _


@asynccontextmanager
async def own_ledger(paths: Paths) -> AsyncIterator[Ledger]:
    """The ledger in the file of this home."""
    ledger = Ledger(SqliteDatabase(paths.database))
    try:
        yield ledger
    finally:
        await ledger.aclose()


def judge_alone(setup: Setup, command: str) -> None:
    """Raises `UsageError` where what a command tells of is not in this home."""
    if setup.loaded.config.gateway.ledger:
        raise UsageError(
            _(
                "Many gateways share a database here (gateway.ledger): write {command} to the bot instead.",
                command=command,
            )
        )


def show(text: str, setup: Setup) -> None:
    """Print Markdown."""
    sys.stdout.write(render_markdown(text, look_of(sys.stdout, setup.env)))
