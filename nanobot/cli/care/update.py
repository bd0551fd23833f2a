"""`nanobot update`: a backup, the new version beside this one, a self-test, the switch, and back where it fails."""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

from nanobot import __version__
from nanobot.builder.values import health_file
from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.care.service import answers, start_service, stop_service
from nanobot.cli.options import FAILED
from nanobot.cli.terminal import agreed, say
from nanobot.errors import NanobotError, StoreError
from nanobot.session.lock import home_lock, terminal_jobs_lock
from nanobot.upkeep.archive import BEFORE_UPDATE, Backup
from nanobot.upkeep.environments import Environment, discard, making, own_environment, sweep, taken_place
from nanobot.upkeep.nightly import make_unasked
from nanobot.upkeep.releases import Release, newest
from nanobot.upkeep.restoring import restore
from nanobot.upkeep.update import beside, install_beside, prove, switch, switch_back
from nanobot.utils.translation import _, sentences


def run_update(args: argparse.Namespace) -> int:
    """Update; the exit code."""
    setup = set_up(args, os.environ)
    release = asyncio.run(newest(args.source, Path(sys.prefix)))
    if not release.newer:
        say(
            _(
                "nanobot {version} is up to date: {words} is the newest, asked just now.",
                version=__version__,
                words=release.words,
            )
        )
        return 0
    say(_("This is nanobot {version}. There is {words}.", version=__version__, words=release.words))
    if args.check:
        return 0
    own = own_environment()
    unasked = _("There is no terminal to ask in. Say --yes to update, or --check to only ask what there is.")
    if not args.yes and not agreed(_("Update now? It is tried on a copy first. y/N "), unasked):
        say(_("Nothing was changed."))
        return 0
    return asyncio.run(_update(setup, release, own, ("--config", args.config) if args.config else ()))


async def _update(setup: Setup, release: Release, own: Environment, arguments: tuple[str, ...]) -> int:
    for line in await asyncio.to_thread(sweep, own):
        say(line)
    shared = setup.loaded.path if setup.loaded.config.gateway.ledger else None
    made = await asyncio.to_thread(_backup, setup)
    say(_("Backup: {file}", file=made.file))
    fresh = beside(own)
    with making(fresh.folder):
        say(_("Installing it beside this one …"))
        await install_beside(release, own, fresh)
        try:
            say(_("Trying it on a copy of what is kept …"))
            version = await prove(fresh, made.file, arguments, shared)
        except BaseException as error:
            await asyncio.to_thread(discard, fresh, own.place)
            if not isinstance(error, NanobotError):  # it was interrupted
                raise
            raise NanobotError(
                sentences(str(error), _("Nothing was changed; nanobot {version} stays.", version=__version__))
            ) from error
        return await asyncio.to_thread(_exchange, setup, own, fresh, version)


def _backup(setup: Setup) -> Backup:
    config = setup.loaded.config
    return make_unasked(BEFORE_UPDATE, config.backup, setup.paths, shared=bool(config.gateway.ledger))


def _exchange(setup: Setup, own: Environment, fresh: Environment, version: str) -> int:
    """Put the new version in the place of this one while nothing of it runs; back where it takes no messages in."""
    served = stop_service(setup.env)
    try:
        with home_lock(setup.paths.home), terminal_jobs_lock(setup.paths.home):
            # What came in since the first backup is in this one; nothing comes in until the new version runs.
            last = _backup(setup)
            kept = switch(own, fresh)
    except (NanobotError, OSError):
        discard(fresh, own.place)
        if served:
            start_service(setup.env)
        raise
    if not served:
        taken_place(Environment(own.place, fresh.folder))
        say(
            _(
                "Updated to nanobot {version}. Start the gateway again where you have one; {folder} is the old one.",
                version=version,
                folder=kept.folder,
            )
        )
        return 0
    started = time.time()
    start_service(setup.env)
    if bot := answers(health_file(setup.loaded.config, setup.paths), started):
        taken_place(Environment(own.place, fresh.folder))
        say(
            _(
                "Updated to nanobot {version}, which answers as @{bot}. {folder} is the old one.",
                version=version,
                bot=bot,
                folder=kept.folder,
            )
        )
        return 0
    return _go_back(setup, fresh, kept, last.file)


def _go_back(setup: Setup, fresh: Environment, kept: Environment, backup: Path) -> int:
    """Let the old version run again, with what was kept before."""
    say(_("It does not ask for messages within a minute: going back."))
    stop_service(setup.env)
    switch_back(kept)
    discard(fresh, kept.place)  # before anything is put back, which may need the room
    try:
        with home_lock(setup.paths.home):
            restore(backup, setup.paths.home, settle=False)
    except StoreError as error:
        told = _("What is kept could not be put back: {why} The backup is {file}.", why=error, file=backup)
    else:
        told = _(
            "nanobot {version} runs again, with what was kept before. The log says what the new one missed.",
            version=__version__,
        )
    start_service(setup.env)
    say(told)
    return FAILED
