"""`nanobot status`: what would answer, from which files, and what is left of the search allowance. Asks no model."""

import argparse
import asyncio
import os

from nanobot import __version__
from nanobot.app import Nanobot
from nanobot.builder.values import health_file
from nanobot.bus.events import TERMINAL
from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.commands.home import show
from nanobot.cli.options import FAILED, USAGE
from nanobot.cli.terminal import say
from nanobot.config.loader import load
from nanobot.config.paths import Paths
from nanobot.config.schema_tools import ToolsConfig
from nanobot.doctor.gateway import gateway, told_in_status
from nanobot.errors import NanobotError
from nanobot.security.sandbox import Reason, choose
from nanobot.utils.translation import _

#: Seconds after which a part that does not answer is given up.
_PATIENCE = 20.0


def run_status(args: argparse.Namespace) -> int:
    """Print it; the exit code. `--healthy` asks for one thing alone, and builds nothing: whether messages arrive."""
    if args.healthy:
        return _healthy(args)
    setup = set_up(args, os.environ)
    text, code = asyncio.run(_text(setup))
    show(text, setup)
    return code


def _healthy(args: argparse.Namespace) -> int:
    """Whether the gateway of this home takes messages in: what it has written of itself says it."""
    paths = Paths.resolve(os.environ, args.config)
    config = load(paths.config, env=os.environ).config
    found = gateway(health_file(config, paths), paths.home, telegram=True)
    say(found.words)
    return 0 if found.state == "ok" else FAILED


async def _sandbox(tools: ToolsConfig) -> list[str]:
    """Which one would work here, or why none does, where commands are not offered; else the tools tell it."""
    if tools.profile == "full" and tools.exec.enable:
        return []
    found = await choose(tools.exec.sandbox)
    told = _("none. {why}", why=found.text) if isinstance(found, Reason) else found.note
    return [_("- Sandbox for commands, which are not offered: {told}", told=told)]


async def _text(setup: Setup) -> tuple[str, int]:
    """Markdown and the exit code. Who asks because nothing starts is told the rest all the same."""
    code, paths, loaded = 0, setup.paths, setup.loaded
    config = _("- Configuration: {file}", file=loaded.path)
    if not loaded.exists:
        config = _("- Configuration: {file} (not there; everything is at its default)", file=loaded.path)
    off = sorted(loaded.disabled.items())
    lines = [
        config,
        _("- Workspace: {folder}", folder=paths.workspace),
        _("- Data: {file}", file=paths.database),
        _("- Log: {file}", file=paths.logs / "nanobot.log"),
        *told_in_status(health_file(loaded.config, paths), telegram=loaded.config.channels.telegram.enabled),
        *await _sandbox(loaded.config.tools),
        *(_("- Switched off: {key}: {why}", key=key, why=why) for key, why in off),
    ]
    try:
        async with asyncio.timeout(_PATIENCE), await Nanobot.from_config(loaded, paths=paths) as app:
            told = await app.loop.status(TERMINAL.key, ask=True)
        about = told.partition("\n")[2]  # its first line says how long this process runs, which is no gateway's
    except NanobotError as error:
        code, about = USAGE, _("- It would not start: {why}", why=error)
    return "\n".join([f"**nanobot {__version__}**", about, "", *lines]), code
