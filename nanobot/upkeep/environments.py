"""The virtual environments of nanobot: the one that it runs in, and what an update that was broken off left beside it.

An environment that is being made holds a lock of the update that makes it, and its mark until it has taken its place.
"""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from nanobot.errors import StoreError, UsageError, plain_reason
from nanobot.session.lock import FileLock
from nanobot.upkeep.releases import noted
from nanobot.utils.translation import N_, _

#: What stands in an environment until it has taken its place, and the lock beside it of the update that makes it.
MARK = "nanobot-unfinished"
_NO_ENVIRONMENT = N_(
    "This nanobot is not in a virtual environment of its own ({prefix}), so nothing can be "
    "installed beside it. Update it with the program that installed it; `nanobot backup` "
    "first."
)


class Environment(Struct, frozen=True):
    """A virtual environment: `place` is where people start it, `folder` where it is, the same or where a link leads."""

    place: Path
    folder: Path

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")


def own_environment() -> Environment:
    """The one that this process runs in. Raises `UsageError` where it is none, or nothing can be put beside it."""
    place = Path(noted(Path(sys.prefix)).get("place", sys.prefix))
    if place.resolve() != Path(sys.prefix).resolve():  # it was moved, or copied
        place = Path(sys.prefix)
    if sys.prefix == sys.base_prefix or not os.access(place.parent, os.W_OK):
        raise UsageError(_(_NO_ENVIRONMENT, prefix=sys.prefix))
    return Environment(place, place.resolve())


def program() -> str:
    """The Python of this environment by the name that stays when another version takes its place."""
    try:
        return str(own_environment().place / "bin" / Path(sys.executable).name)
    except UsageError:
        return sys.executable


def discard(environment: Environment, place: Path) -> None:
    """Delete an environment that nothing leads to."""
    if environment.folder != place.resolve():
        with suppress(OSError):
            shutil.rmtree(environment.folder)


def making(folder: Path) -> FileLock:
    """The lock of the update that makes an environment; it ends with that process."""
    return FileLock(folder.with_name(f".{folder.name}.lock"), N_("{folder} is being made by {holder}."), folder=folder)


def taken_place(own: Environment) -> None:
    """An environment to which its place leads is finished, also where a kill came between the two."""
    if own.place.resolve() == own.folder:
        (own.folder / MARK).unlink(missing_ok=True)


def sweep(own: Environment) -> list[str]:
    """Delete environments beside this one that an update left half done, and which none makes now; a sentence for
    each."""
    taken_place(own)
    done = []
    for mark in sorted(own.place.parent.glob(f"{own.place.name}-*/{MARK}")):
        folder = mark.parent
        if folder.is_symlink() or folder.resolve() == own.folder:
            continue
        lock = making(folder)
        try:
            if lock.take():
                continue
            shutil.rmtree(folder)
        except (OSError, StoreError) as error:
            done.append(
                _(
                    "{folder}, left by an update that was broken off, could not be deleted: {error}.",
                    folder=folder,
                    error=plain_reason(error),
                )
            )
        else:
            done.append(_("What an update that was broken off had left is gone: {folder}.", folder=folder))
        finally:
            lock.release()
    return done
