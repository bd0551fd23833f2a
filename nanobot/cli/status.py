"""`nanobot status`: what would answer, from which files, and what is left of the search allowance. Asks no model."""

import argparse
import asyncio
import os
import sys

from nanobot.app import Nanobot
from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.paint import paint_markdown
from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.sessions import TERMINAL

#: Seconds after which a part that does not answer is given up.
_PATIENCE = 20.0


def run_status(args: argparse.Namespace) -> int:
    """Print it; the exit code."""
    setup = set_up(args, os.environ)
    text = asyncio.run(_text(setup))
    sys.stdout.write(paint_markdown(text, look_of(sys.stdout, setup.env)))
    return 0


async def _text(setup: Setup) -> str:
    paths, loaded = setup.paths, setup.loaded
    there = "" if loaded.exists else " (not there; everything is at its default)"
    lines = [
        f"- Configuration: {loaded.path}{there}",
        f"- Workspace: {paths.workspace}",
        f"- Data: {paths.database}",
        f"- Log: {paths.logs / 'nanobot.log'}",
        *(f"- Switched off: {key}: {reason}" for key, reason in sorted(loaded.disabled.items())),
    ]
    async with asyncio.timeout(_PATIENCE), await Nanobot.from_config(loaded, paths=paths) as app:
        told = await app.loop.status_full(TERMINAL.key)
    return "\n".join([told, "", *lines])
