"""Putting a backup in the place of what a home holds, so that a kill at any moment leaves the one or the other.

Everything happens inside the home, which may be a mounted volume. The backup is unpacked whole first; what the home
holds moves aside, then the new moves in. A note says how far that is, and whoever starts next goes on.
"""

import os
import shutil
import sqlite3
import stat
import tarfile
import zlib
from datetime import datetime
from pathlib import Path, PurePosixPath

from msgspec import DecodeError, Struct
from msgspec.json import decode

from nanobot.config.paths import replace_file
from nanobot.errors import StoreError, UsageError, plain_reason
from nanobot.files.versions import remove_tree
from nanobot.session.layout import settle_copy
from nanobot.upkeep.archive import FORMAT, MANIFEST, Manifest
from nanobot.utils.translation import _

#: Where a backup is unpacked in the home, and what notes how far a restore has come.
STAGE = ".restore"
_PHASE, _NEW, _OLD = "phase", "new", "old"
#: What a backup holds of places outside the home, by the name under which it is put into it.
WORKSPACE, CONFIG = "workspace-from-backup", "config-from-backup"
_ASIDE = "before-restore-"
_STAYING = frozenset({STAGE, "backups"})


def read_manifest(file: Path) -> Manifest:
    """What a backup says of itself. Raises `UsageError` where it is none, or one of a newer nanobot."""
    try:
        with tarfile.open(file, "r:gz") as archive:
            member = archive.next()
            held = archive.extractfile(member) if member is not None and member.name == MANIFEST else None
            manifest = decode(held.read(100_000), type=Manifest) if held is not None else None
    except OSError as error:
        raise UsageError(_("{path} cannot be read: {error}.", path=file, error=error.strerror or error)) from error
    except (tarfile.TarError, EOFError, zlib.error, DecodeError) as error:
        raise UsageError(_("{file} is no whole backup of nanobot: {error}.", file=file, error=error)) from error
    if manifest is None:
        raise UsageError(_("{file} is no backup of nanobot: `nanobot backup` writes them.", file=file))
    if manifest.format > FORMAT:
        raise UsageError(
            _(
                "{file} was written by nanobot {version}, which is newer. Update this one first.",
                file=file,
                version=manifest.version,
            )
        )
    return manifest


class Restored(Struct, frozen=True):
    """Where what the home held is now, None where it held nothing; how many messages were on their way in the copy."""

    aside: Path | None
    settled: int


def restore(file: Path, home: Path, *, settle: bool = True) -> Restored:
    """Put a backup into a home that nobody uses. `settle`: the bot may have gone on since it was made.

    Raises `UsageError` and `StoreError`; the home is then as it was.
    """
    stage = home / STAGE
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stage.exists():
            finish(home)  # what an earlier restore, that was broken off, has moved aside may be all there is of it
        stage.mkdir(mode=0o700)
        _unpack(file, stage / _NEW)
        database = stage / _NEW / "nanobot.db"
        settled = settle_copy(database) if settle and database.exists() else 0
        replace_file(stage / _PHASE, "out")
    except (OSError, tarfile.TarError, EOFError, zlib.error, sqlite3.Error, ValueError, OverflowError) as error:
        remove_tree(stage)
        raise StoreError(
            _("{file} could not be unpacked: {error}. Nothing was changed.", file=file, error=plain_reason(error))
        ) from error
    return Restored(finish(home), settled)


def finish(home: Path) -> Path | None:
    """Go on with a restore that was broken off; where what the home held is now. Raises `StoreError`."""
    stage = home / STAGE
    try:
        phase = (stage / _PHASE).read_text(encoding="ascii") if (stage / _PHASE).exists() else ""
        if phase == "out":
            _move_out(home)
            replace_file(stage / _PHASE, "in")
            phase = "in"
        if phase == "in":
            for one in [*(stage / _NEW).iterdir()]:
                one.rename(home / one.name)
        aside = _set_aside(home) if (stage / _OLD).is_dir() else None
        shutil.rmtree(stage)
    except OSError as error:
        raise StoreError(
            _(
                "The restore in {stage} cannot go on: {error}. Mend that and start nanobot again.",
                stage=stage,
                error=plain_reason(error),
            )
        ) from error
    return aside


def _move_out(home: Path) -> None:
    """Move what the home holds aside. Where one thing of it cannot be moved, as a place at which a disk is mounted,
    all comes back and the restore is given up: raises `StoreError`."""
    stage = home / STAGE
    (stage / _OLD).mkdir(exist_ok=True)
    try:
        for one in [*home.iterdir()]:
            if not _stays(one.name):
                one.rename(stage / _OLD / one.name)
    except OSError as error:
        for one in [*(stage / _OLD).iterdir()]:
            one.rename(home / one.name)
        shutil.rmtree(stage)
        raise StoreError(
            _(
                "{filename} cannot be moved: {why}. Nothing was changed. Where a disk or volume is "
                "mounted there, restore into another home (NANOBOT_HOME) and copy from it what belongs "
                "there.",
                filename=error.filename,
                why=error.strerror,
            )
        ) from error


def _stays(name: str) -> bool:
    return name in _STAYING or name.startswith(_ASIDE) or name.endswith(".lock")


def _set_aside(home: Path) -> Path | None:
    old = home / STAGE / _OLD
    if not any(old.iterdir()):
        return None
    name = f"{_ASIDE}{datetime.now().astimezone():%Y-%m-%dT%H%M%S}"
    names = (name, *(f"{name}-{number}" for number in range(2, 100)))
    aside = next(home / one for one in names if not (home / one).exists())
    old.rename(aside)
    return aside


def _unpack(file: Path, new: Path) -> None:
    new.mkdir(mode=0o700)
    places = {"home": new, "workspace": new / WORKSPACE, "config": new / CONFIG}
    with tarfile.open(file, "r:gz") as archive:
        for member in archive:
            if member.name == MANIFEST:
                continue
            top, rest = member.name.partition("/")[::2]
            parts = PurePosixPath(rest).parts
            staying = top == "home" and bool(parts) and _stays(parts[0])
            if top not in places or not parts or ".." in parts or rest.startswith("/") or staying:
                raise tarfile.TarError(_("it holds {name!r}, which no backup does", name=member.name))
            _put(archive, member, places[top].joinpath(*parts), new)


def _put(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path, new: Path) -> None:
    """Write one member; nothing goes through a link, nothing lands outside."""
    if not target.parent.is_dir():
        for folder in reversed(target.parents):  # one by one: `parents` goes a thousand folders deep at most
            folder.mkdir(mode=0o700, exist_ok=True)
    if not target.parent.resolve().is_relative_to(new.resolve()):
        raise tarfile.TarError(_("{name!r} lies behind a link", name=member.name))
    if member.isdir():
        target.mkdir(mode=0o700, exist_ok=True)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.isreg() and (held := archive.extractfile(member)) is not None:
        with target.open("xb") as file:
            shutil.copyfileobj(held, file)
            file.flush()
            os.fsync(file.fileno())
        target.chmod(stat.S_IMODE(member.mode) & 0o700)
        os.utime(target, (member.mtime, member.mtime))
    else:
        raise tarfile.TarError(_("{name!r} is neither a file, a folder nor a link", name=member.name))
