"""`nanobot gateway`: the long-running service that answers on the channels."""

import argparse
import asyncio
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress

from nanobot import __version__
from nanobot.app import Launch, Nanobot
from nanobot.builder.values import no_channel
from nanobot.channels.base import ChannelManager
from nanobot.channels.telegram.access.people import ClaimLink
from nanobot.channels.telegram.access.rights import qr_text
from nanobot.channels.telegram.settings import CHANNEL, doubts
from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.oneshot import HANG_UP, INTERRUPT, on_signal
from nanobot.cli.options import INTERRUPTED
from nanobot.cli.terminal import say
from nanobot.cluster.share import Role
from nanobot.errors import UsageError
from nanobot.session.lock import home_lock
from nanobot.upkeep.service import keep_alive, notify
from nanobot.utils.text import encodable
from nanobot.utils.translation import N_, _, told

_ALONE = N_(
    "A {role} shares its work with other gateways, so all of them need one database. Write its address into {path}:\n"
    '  {{"gateway": {{"ledger": "postgresql://user:password@host/name"}}}}'
)


def run_gateway(args: argparse.Namespace) -> int:
    """Serve until a signal, or set it up as a service; the exit code."""
    setup = set_up(args, os.environ)
    enabled = setup.loaded.config.channels.telegram.enabled or setup.loaded.config.plugins.enabled
    if not (enabled or args.uninstall):
        raise UsageError(no_channel(setup.loaded, setup.paths))
    if args.install or args.uninstall:
        from nanobot.cli.care.service import run_service

        return run_service(args, setup)
    role = _role(args.role, setup)
    # Of many gateways on one database several may have one home; each session is still one worker's at a time.
    with home_lock(setup.paths.home) if role is None else nullcontext():
        return asyncio.run(_serve(setup, args.model or "", role))


def _role(named: Role | None, setup: Setup) -> Role | None:
    """The part of this gateway among many; None where it is the only one. Raises `UsageError`."""
    address = setup.loaded.config.gateway.ledger
    if address:
        return named or "all"
    if named in {"poller", "worker"}:
        raise UsageError(_(_ALONE, role=named, path=setup.paths.config))
    return None


async def _serve(setup: Setup, model: str, role: Role | None) -> int:
    launch = Launch(model, env=setup.env, role=role)
    async with await Nanobot.from_config(setup.loaded, paths=setup.paths, launch=launch) as app:
        manager = app.channels(_announce, _say)
        app.loop.runner.approvals.channels.add(CHANNEL)
        info = app.provider_info
        why = told(info.chosen_because)
        model = _("{model} ({why})", model=info.model, why=why) if why else info.model
        parts = (_("nanobot {version} gateway", version=__version__), role or "", ", ".join(manager.names), model)
        _say(" · ".join(filter(None, parts)))
        for problem in doubts(setup.loaded.config.channels.telegram):
            _say(problem)
        _say(_("log: {file} · Ctrl-C stops", file=setup.paths.logs / "nanobot.log"))
        async with app.at_work(gateway=True):
            return await _until_signal(manager, setup.env)


async def _until_signal(manager: ChannelManager, env: Mapping[str, str]) -> int:
    """The first signal stops in order, a second one at once. The service manager, where there is one, is told."""
    told: list[int] = []
    running = asyncio.create_task(manager.run())
    alive = asyncio.create_task(keep_alive(env))
    notify("READY=1", env)
    asked = asyncio.Event()

    def ask(number: int) -> None:
        told.append(number)
        asked.set()
        if len(told) > 1:
            running.cancel()

    with on_signal((*INTERRUPT, *HANG_UP), ask):
        waiting = asyncio.create_task(asked.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if not running.done():
            notify("STOPPING=1", env)
            _say(_("stopping: running turns get a moment, answers are delivered"))
            await manager.stop()
        try:
            await running
        except asyncio.CancelledError:
            return INTERRUPTED
        finally:
            alive.cancel()
    return 0


def _announce(link: ClaimLink | None) -> None:
    """Show how to become the owner. It goes to the screen alone and into no log file of ours."""
    if link is None:
        _say(_("The bot has its owner now."))
        return
    open_it = _(
        "@{bot} has no owner yet. Within {minutes} min, open this on your phone:",
        bot=link.username,
        minutes=link.minutes,
    )
    _say(f"\n{open_it}")
    _say(f"  {link.url}\n{_drawn(link.url)}")
    _say(_("Whoever opens it first owns the bot."))


def _drawn(url: str) -> str:
    """The code to scan, where the terminal is wide enough and its encoding has blocks."""
    code = qr_text(url)
    narrow = sys.stdout.isatty() and len(code.splitlines()[-1]) > shutil.get_terminal_size().columns
    return "" if narrow or encodable(code, sys.stdout.encoding) != code else f"\n{code}"


def _say(text: str) -> None:
    """Print it. Where that cannot be done (a full disk, a reader that went away), the gateway serves on."""
    with suppress(OSError):
        say(text)
