"""`nanobot backup` and `nanobot restore`."""

import argparse
import os
import sys
from datetime import tzinfo
from pathlib import Path

from nanobot.cli.terminal import agreed, say, warn
from nanobot.config.loader import located
from nanobot.config.paths import Paths
from nanobot.config.schema import BackupConfig
from nanobot.errors import ConfigError, UsageError
from nanobot.session.lock import home_lock, restore_lock, terminal_jobs_lock
from nanobot.upkeep.archive import NIGHTLY, SUFFIX, Backup, Manifest, make_backup
from nanobot.upkeep.nightly import backup_folder, backups_in, make_unasked, name_now
from nanobot.upkeep.restoring import CONFIG, WORKSPACE, read_manifest, restore
from nanobot.utils.host import typed_path, zone_of
from nanobot.utils.text import file_size, printable
from nanobot.utils.translation import N_, _, _n, day_of, listed, weekday_of

#: Files that could not be read, of which so many are named; what a nightly backup gives way to (as of `nice`).
_NAMED, _NICE = 10, 15
#: The exit code of a backup that lacks what cannot be read.
_PARTLY = 3
_NONE = N_("There is no backup in {folder}. `nanobot backup` makes one.")
_SHARED = N_(
    "The conversations are not in it: they are in the database that gateway.ledger names. Back that up with pg_dump."
)
_WITHOUT = N_(
    "nanobot: what cannot be read is not in the backup ({number}). Give yourself the right to read it, or move it "
    "elsewhere.\n"
)


def run_backup(args: argparse.Namespace) -> int:
    """Make a backup, or list those that there are; the exit code, of its own where it lacks what cannot be read."""
    paths, config, shared, _zone = _places(args)
    folder = backup_folder(config, paths)
    if args.list:
        _list(folder)
        return 0
    if args.nightly:
        os.nice(_NICE)
        made = make_unasked(NIGHTLY, config, paths, shared=shared)
    else:
        target, named = _target(args.target, folder)
        made = make_backup(paths, target, shared=shared, numbered=not named)
    _tell(made, shared=shared)
    return _PARTLY if made.unread else 0


def run_restore(args: argparse.Namespace) -> int:
    """Take a backup back; the exit code."""
    paths, config, _shared, zone = _places(args)
    if not args.file:
        _list(backup_folder(config, paths))
        return 0
    file = _found(args.file, backup_folder(config, paths))
    manifest = read_manifest(file)
    say(_about(manifest, file, zone))
    question = _("What {home} holds now is set aside, and the backup takes its place. Go on? y/N ", home=paths.home)
    unasked = _("There is no terminal to ask in. Say --yes to put the backup in the place of what is here.")
    if not args.yes and not agreed(question, unasked):
        say(_("Nothing was changed."))
        return 0
    paths.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with home_lock(paths.home), terminal_jobs_lock(paths.home), restore_lock(paths.home):
        done = restore(file, paths.home)
    say(_("Restored into {home}.", home=paths.home))
    if done.aside is not None:
        say(_("What was there is in {aside}; delete it when all is well.", aside=done.aside))
    if done.settled:
        say(
            _(
                "Messages that were on their way then, and are not sent or answered again: {settled}.",
                settled=done.settled,
            )
        )
    for line in (*_workspace(args, manifest), *_config(manifest, paths)):
        say(line)
    say(_("`nanobot doctor` says whether all is well; `nanobot gateway` goes on where the backup was made."))
    return 0


def _places(args: argparse.Namespace) -> tuple[Paths, BackupConfig, bool, tzinfo]:
    """Where things are, what is said of backups, whether the conversations are elsewhere, and the time zone.
    A configuration that cannot be read is no reason to make no backup: then its defaults count."""
    try:
        loaded, paths = located(os.environ, args.config, args.workspace, must_exist=False)
    except ConfigError as error:
        warn(error)
        return Paths.resolve(os.environ, args.config, args.workspace), BackupConfig(), False, zone_of()
    zone = zone_of(loaded.config.agents.defaults.timezone)
    return paths, loaded.config.backup, bool(loaded.config.gateway.ledger), zone


def _target(text: str, folder: Path) -> tuple[Path, bool]:
    """The file of a backup, and whether a person named it."""
    place = typed_path(text) if text else folder
    own = not text or place.is_dir() or text.endswith("/")
    return (place / name_now(), False) if own else (place, True)


def _found(text: str, folder: Path) -> Path:
    """The backup that a person names: a path, a name in the folder of backups, or `last`."""
    there = backups_in(folder)
    if text == "last" and there:
        return there[0]
    if text == "last":
        raise UsageError(_(_NONE, folder=folder))
    for place in (typed_path(text), folder / text, folder / f"{text}{SUFFIX}"):
        if place.is_file():
            return place
    raise UsageError(_("There is no backup {text}. `nanobot backup --list` shows those that there are.", text=text))


def _list(folder: Path) -> None:
    found = backups_in(folder)
    for one in found:
        say(f"{one}  {file_size(one.stat().st_size)}")
    if found:
        say(_("\n`nanobot restore FILE` puts one in the place of what is here, `nanobot restore last` the newest."))
    else:
        say(_(_NONE, folder=folder))


def _tell(made: Backup, *, shared: bool) -> None:
    number = _n("{number} file", "{number} files", made.count)
    say(f"{made.file}  {listed((file_size(made.size), number))}")
    say(_("It holds your keys, conversations and files: keep it where nobody else can read it."))
    if shared:
        say(_(_SHARED))
    if made.unread:
        sys.stderr.write(_(_WITHOUT, number=len(made.unread)))
    for line in made.unread[:_NAMED]:
        sys.stderr.write(printable(_("nanobot: not in it, for it cannot be read: {line}\n", line=line)))


def _about(manifest: Manifest, file: Path, zone: tzinfo) -> str:
    made = manifest.made.astimezone(zone)
    return _(
        "{file}: made {weekday} {day} {year}, {time} by nanobot {version} on {host}.",
        file=file,
        weekday=weekday_of(made),
        day=day_of(made),
        year=made.year,
        time=f"{made:%H:%M}",
        version=manifest.version,
        host=manifest.host,
    )


def _workspace(args: argparse.Namespace, manifest: Manifest) -> list[str]:
    """Bring a workspace that lay outside the home to the place that the configuration names, where nothing is."""
    paths = _places(args)[0]
    held = paths.home / WORKSPACE
    if not manifest.workspace or not held.is_dir():
        return []
    place = paths.workspace
    if place.is_dir() and any(place.iterdir()):
        return [
            _("The workspace of the backup is in {held}, because {place} holds files already.", held=held, place=place)
        ]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            place.rmdir()
        held.rename(place)
    except OSError as error:
        return [
            _(
                "The workspace of the backup is in {held}; it could not be moved to {place}: {strerror}.",
                held=held,
                place=place,
                strerror=error.strerror,
            )
        ]
    return [_("The workspace is in {place}.", place=place)]


def _config(manifest: Manifest, paths: Paths) -> list[str]:
    held = paths.home / CONFIG
    if not manifest.config or not held.is_dir():
        return []
    return [
        _(
            "The configuration was in {config}, outside the home. It lies in {held}; put it in its place.",
            config=manifest.config,
            held=held,
        )
    ]
