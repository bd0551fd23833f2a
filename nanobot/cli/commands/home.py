"""What commands need of the home that they tell of: its database, and Markdown on the terminal."""

import sys
from contextlib import aclosing

from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import Setup
from nanobot.config.paths import Paths
from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from nanobot.utils.translation import _


def own_ledger(paths: Paths) -> aclosing[Ledger]:
    """The ledger in the file of this home, until the end of the block."""
    return aclosing(Ledger(SqliteDatabase(paths.database)))


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
