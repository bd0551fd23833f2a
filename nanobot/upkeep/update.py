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
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

from nanobot import __version__
from nanobot.config.edit import ConfigFile
from nanobot.errors import NanobotError, UsageError
from nanobot.upkeep.environments import MARK, Environment
from nanobot.upkeep.releases import SOURCE_NOTE, Release, run
from nanobot.utils.processes import run_program
from nanobot.utils.translation import N_, _

#: Seconds for one step of the self-test.
_TEST_SECONDS = 180.0
#: What an extra is known by where it is installed.
_EXTRAS = {"mcp": "mcp", "cluster": "procrastinate"}
#: AT_FDCWD and RENAME_EXCHANGE of renameat2(2).
_HERE, _EXCHANGE = -100, 2
# English: the pages that answer it are
_QUESTION = "When is the ferry?"
_NOT_PASSED = N_("The new version does not pass `nanobot {step}`: {why}")


def beside(own: Environment) -> Environment:
    """Where the next environment is made: named by this moment."""
    base = own.place.with_name(f"{own.place.name}-{datetime.now().astimezone():%Y-%m-%dT%H%M%S}")
    return Environment(base, base)


async def install_beside(release: Release, own: Environment, fresh: Environment) -> None:
    """Make a new environment with this release, beside the one that runs. Raises `NanobotError`; nothing stays then."""
    base = fresh.folder
    try:
        base.mkdir()
        (base / MARK).touch()
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


async def prove(fresh: Environment, backup: Path, arguments: Sequence[str], shared: Path | None = None) -> str:
    """Let the new version start, read the configuration, take over a copy of all that is kept, and answer a question
    without a network; its version. Raises `NanobotError` with what failed. `arguments` name the configuration.

    `shared` is the configuration where it names a database of many gateways, of which nothing is touched: what is tried
    reads a copy that names none.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        if shared is not None:
            arguments = ("--config", str(_without_shared(shared, Path(folder, "config.json"))))
        env = {**os.environ, "NANOBOT_HOME": str(home), "XDG_RUNTIME_DIR": folder}
        steps = (
            ("--version",),
            ("restore", str(backup), "--yes"),
            ("config", *arguments, "check"),
            ("usage", *arguments),
            ("demo", "--plain", _QUESTION),
        )
        version = ""
        for step in steps:
            shown = " ".join(one for one in step if one not in arguments)
            try:
                done = await run_program((fresh.python, "-P", "-m", "nanobot", *step), _TEST_SECONDS, env)
            except TimeoutError as error:
                why = _("it does not end within {seconds:.0f} s.", seconds=_TEST_SECONDS)
                raise NanobotError(_(_NOT_PASSED, step=shown, why=why)) from error
            except OSError as error:
                why = _("it cannot be started ({why}).", why=error.strerror)
                raise NanobotError(_(_NOT_PASSED, step=shown, why=why)) from error
            if done.code not in ((0, 1) if step[0] == "config" else (0,)):
                said = (done.error or done.out).decode(errors="replace").strip().splitlines()[-1:]
                raise NanobotError(_(_NOT_PASSED, step=shown, why=" ".join(said)))
            version = version or (done.out.decode(errors="replace").split() or ["unknown"])[-1]
    return version


def _without_shared(config: Path, copy: Path) -> Path:
    """A copy of a configuration that differs from it in this alone: it names no database of many gateways."""
    copy.touch(mode=0o600)
    copy.write_bytes(config.read_bytes())
    ConfigFile(copy, os.environ).remove(("gateway", "ledger"))
    return copy


def switch(own: Environment, fresh: Environment) -> Environment:
    """Let the place of this environment lead to the new one; where this one is now. Raises `UsageError` where the
    place leads elsewhere by now."""
    if own.place.resolve() != own.folder:
        raise UsageError(
            _(
                "Another update has put a version into {place} meanwhile. Nothing was changed by this one.",
                place=own.place,
            )
        )
    kept = own.folder
    if not own.place.is_symlink():
        kept = own.place.with_name(f"{own.place.name}-{__version__}")
        number = 2
        while os.path.lexists(kept):
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
