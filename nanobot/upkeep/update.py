"""Another version beside this one: installed in an environment of its own, tried on a copy of all that is kept, and
put in the place of this one by a link. What does not prove itself never takes the place, or gives it back.
"""

import ctypes
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from nanobot import __version__
from nanobot.errors import NanobotError, UsageError
from nanobot.upkeep.releases import SOURCE_NOTE, Release, noted, run
from nanobot.utils.processes import run_program

#: Seconds for one step of the self-test.
_TEST_SECONDS = 180.0
#: What an extra is known by where it is installed.
_EXTRAS = {"mcp": "mcp", "cluster": "procrastinate"}
#: AT_FDCWD and RENAME_EXCHANGE of renameat2(2).
_HERE, _EXCHANGE = -100, 2
_QUESTION = "When is the ferry?"
_NO_ENVIRONMENT = (
    "This nanobot is not in a virtual environment of its own ({prefix}), so nothing can be installed beside it. Update "
    "it with the program that installed it; `nanobot backup` first."
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
        raise UsageError(_NO_ENVIRONMENT.format(prefix=sys.prefix))
    return Environment(place, place.resolve())


def program() -> str:
    """The Python of this environment by the name that stays when another version takes its place."""
    try:
        return str(own_environment().place / "bin" / Path(sys.executable).name)
    except UsageError:
        return sys.executable


async def install_beside(release: Release, own: Environment) -> Environment:
    """A new environment with this release, beside the one that runs. Raises `NanobotError`; nothing stays then."""
    base = own.place.with_name(f"{own.place.name}-{datetime.now().astimezone():%Y-%m-%dT%H%M%S}")
    fresh = Environment(base, base)
    try:
        await run(sys.executable, "-m", "venv", str(base))
        with tempfile.TemporaryDirectory() as folder:
            wanted = release.requirement
            if release.checkout:
                wanted = str(Path(folder, "source"))
                await run("git", "-C", release.checkout, "worktree", "add", "--detach", wanted, release.commit)
            try:
                extras = ",".join(name for name, module in _EXTRAS.items() if find_spec(module) is not None)
                await run(fresh.python, "-m", "pip", "install", "--quiet", f"{wanted}[{extras}]" if extras else wanted)
            finally:
                if release.checkout:
                    await run("git", "-C", release.checkout, "worktree", "remove", "--force", wanted)
        note = {"place": str(own.place), **({"checkout": release.checkout} if release.checkout else {})}
        (base / SOURCE_NOTE).write_text(json.dumps(note), encoding="utf-8")
    except BaseException:
        shutil.rmtree(base, ignore_errors=True)
        raise
    return fresh


async def prove(fresh: Environment, backup: Path, arguments: Sequence[str]) -> str:
    """Let the new version start, read the configuration, take over a copy of all that is kept, and answer a question
    without a network; its version. Raises `NanobotError` with what failed. `arguments` name the configuration."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        env = {**os.environ, "NANOBOT_HOME": str(home), "XDG_RUNTIME_DIR": folder}
        steps = (
            ("--version",),
            ("restore", str(backup), "--yes"),
            ("config", "check", *arguments),
            ("usage", *arguments),
            ("demo", "--plain", _QUESTION),
        )
        version = ""
        for step in steps:
            said_by = f"The new version does not pass `nanobot {' '.join(step[:2])}`: "
            try:
                done = await run_program((fresh.python, "-P", "-m", "nanobot", *step), _TEST_SECONDS, env)
            except TimeoutError as error:
                raise NanobotError(f"{said_by}it does not end within {_TEST_SECONDS:.0f} s.") from error
            except OSError as error:
                raise NanobotError(f"{said_by}it cannot be started ({error.strerror}).") from error
            if done.code not in ((0, 1) if step[0] == "config" else (0,)):
                said = (done.error or done.out).decode(errors="replace").strip().splitlines()[-1:]
                raise NanobotError(f"{said_by}{' '.join(said)}")
            version = version or (done.out.decode(errors="replace").split() or ["unknown"])[-1]
    return version


def switch(own: Environment, fresh: Environment) -> Environment:
    """Let the place of this environment lead to the new one; where this one is now. Raises `UsageError` where the
    place leads elsewhere by now."""
    if own.place.resolve() != own.folder:
        raise UsageError(
            f"Another update has put a version into {own.place} meanwhile. Nothing was changed by this one."
        )
    kept = own.folder
    if not own.place.is_symlink():
        kept = own.place.with_name(f"{own.place.name}-{__version__}")
        number = 2
        while kept.exists():
            kept = own.place.with_name(f"{own.place.name}-{__version__}-{number}")
            number += 1
        _link(kept, fresh.folder)
        if _swapped(kept, own.place):  # in one step: a kill at any moment leaves an environment in this place
            return Environment(own.place, kept)
        kept.unlink()
        own.place.rename(kept)
    _lead(own.place, fresh.folder)
    return Environment(own.place, kept)


def switch_back(kept: Environment) -> None:
    """Let the place lead to the old environment again."""
    _lead(kept.place, kept.folder)


def discard(environment: Environment, place: Path) -> None:
    """Delete an environment that nothing leads to."""
    if environment.folder != place.resolve():
        with suppress(OSError):
            shutil.rmtree(environment.folder)


def _lead(place: Path, folder: Path) -> None:
    fresh = place.with_name(f".{place.name}.new")
    fresh.unlink(missing_ok=True)
    _link(fresh, folder)
    fresh.replace(place)


def _link(link: Path, folder: Path) -> None:
    link.symlink_to(folder.name if folder.parent == link.parent else folder)


def _swapped(one: Path, other: Path) -> bool:
    """Let two paths change places at once, as renameat2(2) does; False where this system or disk cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
