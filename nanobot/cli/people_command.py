"""`nanobot people`: who may talk on Telegram and what each may do. Asks no model, and no gateway need run."""

import argparse
import asyncio
import os
import sys

from nanobot.app import people_of
from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.agent_command import set_up


def run_people(args: argparse.Namespace) -> int:
    """Print what was asked for or became of it; the exit code."""
    setup = set_up(args, os.environ)
    text = asyncio.run(people_of(setup.loaded, setup.paths, setup.env, args.words))
    sys.stdout.write(render_markdown(text, look_of(sys.stdout, setup.env)))
    return 0
