"""`nanobot update`: a backup, the new version beside this one, a self-test, the switch, and back where it fails."""

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

from nanobot import __version__
from nanobot.app import health_file
from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.care.service import answers, start_service, stop_service
from nanobot.cli.options import FAILED
from nanobot.errors import NanobotError, StoreError, UsageError
from nanobot.session.lock import home_lock, terminal_jobs_lock
from nanobot.upkeep.archive import BEFORE_UPDATE, make_backup
from nanobot.upkeep.environments import Environment, discard, making, own_environment, sweep, taken_place
from nanobot.upkeep.nightly import backup_folder, name_now
from nanobot.upkeep.releases import Release, newest
from nanobot.upkeep.restoring import restore
from nanobot.upkeep.update import beside, install_beside, prove, switch, switch_back
from nanobot.utils.text import printable


def run_update(args: argparse.Namespace) -> int:
    """Update; the exit code."""
    setup = set_up(args, os.environ)
    release = asyncio.run(newest(args.source, Path(sys.prefix)))
    if not release.newer:
        _print(f"nanobot {__version__} is up to date: {release.words} is the newest, asked just now.")
        return 0
    _print(f"This is nanobot {__version__}. There is {release.words}.")
    if args.check:
        return 0
    own = own_environment()
    if not args.yes and not _agreed():
        _print("Nothing was changed.")
        return 0
    return asyncio.run(_update(setup, release, own, _config(args)))


async def _update(setup: Setup, release: Release, own: Environment, arguments: tuple[str, ...]) -> int:
    for line in await asyncio.to_thread(sweep, own):
        _print(line)
    target = backup_folder(setup.loaded.config.backup, setup.paths) / name_now()
    shared = setup.loaded.path if setup.loaded.config.gateway.ledger else None
    made = await asyncio.to_thread(make_backup, setup.paths, target, shared=shared is not None, whole=True)
    _print(f"Backup: {made.file}")
    fresh = beside(own)
    with making(fresh.folder):
        _print("Installing it beside this one …")
        await install_beside(release, own, fresh)
        try:
            _print("Trying it on a copy of what is kept …")
            version = await prove(fresh, made.file, arguments, shared)
        except BaseException as error:
            await asyncio.to_thread(discard, fresh, own.place)
            if not isinstance(error, NanobotError):  # it was interrupted
                raise
            raise NanobotError(f"{error} Nothing was changed; nanobot {__version__} stays.") from error
        return await asyncio.to_thread(_exchange, setup, own, fresh, version)


def _exchange(setup: Setup, own: Environment, fresh: Environment, version: str) -> int:
    """Put the new version in the place of this one while nothing of it runs; back where it takes no messages in."""
    served = stop_service(setup.env)
    try:
        with home_lock(setup.paths.home), terminal_jobs_lock(setup.paths.home):
            # What came in since the first backup is in this one; nothing comes in until the new version runs.
            place = setup.paths.home / "backups" / f"{BEFORE_UPDATE}{name_now()}"
            last = make_backup(setup.paths, place, whole=True)
            kept = switch(own, fresh)
    except (NanobotError, OSError):
        discard(fresh, own.place)
        if served:
            start_service(setup.env)
        raise
    if not served:
        taken_place(Environment(own.place, fresh.folder))
        _print(
            f"Updated to nanobot {version}. Start the gateway again where you have one; {kept.folder} is the old one."
        )
        return 0
    started = time.time()
    start_service(setup.env)
    if bot := answers(health_file(setup.loaded.config, setup.paths), started):
        taken_place(Environment(own.place, fresh.folder))
        _print(f"Updated to nanobot {version}, which answers as @{bot}. {kept.folder} is the old one.")
        return 0
    _print("It does not ask for messages within a minute: going back.")
    stop_service(setup.env)
    switch_back(kept)
    try:
        with home_lock(setup.paths.home):
            restore(last.file, setup.paths.home, settle=False)
    except StoreError as error:
        _print(f"What is kept could not be put back: {error} The backup is {last.file}.")
    start_service(setup.env)
    discard(fresh, own.place)
    _print(f"nanobot {__version__} runs again, with what was kept before. The log says what the new one missed.")
    return FAILED


def _config(args: argparse.Namespace) -> tuple[str, ...]:
    return ("--config", args.config) if args.config else ()


def _agreed() -> bool:
    """Whether the person agrees; where nobody can be asked, that is a mistake in the command."""
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask in. Say --yes to update, or --check to only ask what there is.")
    sys.stdout.write("Update now? It is tried on a copy first. y/N ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().casefold() in {"y", "yes"}


def _print(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()
