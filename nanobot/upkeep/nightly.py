"""Backups that are made by themselves: each night one, of which the last few are kept."""

import asyncio
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

from loguru import logger

from nanobot.config.paths import Paths
from nanobot.config.schema import BackupConfig
from nanobot.errors import StoreError
from nanobot.session.database import now
from nanobot.upkeep.archive import BY_HAND, NIGHTLY, SUFFIX, Backup, make_backup
from nanobot.utils.processes import run_nanobot
from nanobot.utils.text import file_size
from nanobot.utils.translation import _, language

_STAMP = "%Y-%m-%dT%H%M%S"
#: Hours of the night in which a backup is made, and the age after which one is made at any time.
_NIGHT, _OVERDUE = range(3, 6), timedelta(hours=26)
_YOUNG = timedelta(hours=12)
#: Backups of updates that are kept: each makes one before it tries the new version, and one before it switches to it.
_OF_UPDATES = 2
#: Seconds between two looks, before the first one, and for one backup.
_LOOK_SECONDS, _FIRST_SECONDS, _LONGEST_SECONDS = 900.0, 600.0, 7200.0
#: Told why a backup failed, or lacks something; empty where it holds everything.
Report = Callable[[str], None]


def backup_folder(config: BackupConfig, paths: Paths) -> Path:
    """Where backups lie."""
    return Path(config.folder).expanduser() if config.folder else paths.home / "backups"


def backups_in(folder: Path) -> list[Path]:
    """The backups of a folder, the newest first; one from a time to come, when the clock was ahead, is the oldest."""
    found = [one for one in folder.glob(f"*{SUFFIX}") if one.is_file() and not one.name.startswith(".")]
    made, at = {one: one.stat().st_mtime for one in found}, time.time()
    return sorted(found, key=lambda one: (made[one] <= at, made[one]), reverse=True)


def name_now(kind: str = BY_HAND) -> str:
    """The name of a backup that is made now, by local time."""
    return f"{kind}{datetime.now().astimezone():{_STAMP}}{SUFFIX}"


def make_unasked(kind: str, config: BackupConfig, paths: Paths, *, shared: bool) -> Backup:
    """Make a backup of a kind that nobody asked for, and delete the oldest of these. Raises `StoreError`.

    It is not begun where the disk might not hold it: a backup must not be what fills it. One without a database takes
    the place of no older one.
    """
    folder = backup_folder(config, paths)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    known = [one for one in backups_in(folder) if one.name.startswith(kind)]
    last = known[0].stat().st_size if known else 0
    free = shutil.disk_usage(folder).free
    if free < 2 * last + 200_000_000:
        raise StoreError(
            _(
                "Only {size} are free in {folder}, so no backup was made. Free some room.",
                size=file_size(free),
                folder=folder,
            )
        )
    made = make_backup(paths, folder / name_now(kind), shared=shared, whole=True, numbered=True)
    for old in known[(config.keep if kind == NIGHTLY else _OF_UPDATES) - 1 :]:
        with suppress(OSError):
            old.unlink()
    return made


class NightlyBackups:
    """Has a backup made each night by a program of its own, which gives way to others, while a gateway runs.

    It is made of what lies at `paths`, also where a command line named them. `env` are the variables of the program,
    `zone` says when it is night.
    """

    def __init__(self, folder: Path, paths: Paths, env: Mapping[str, str], zone: tzinfo, report: Report) -> None:
        named = ("--config", str(paths.config)) if paths.config_named else ()
        self._folder = folder
        self._arguments = ("backup", "--nightly", *named, "--workspace", str(paths.workspace))
        self._env = env
        self._zone = zone
        self._report = report

    async def run(self, first: float = _FIRST_SECONDS) -> None:
        """Look again and again until cancelled."""
        await asyncio.sleep(first)
        while True:
            if await asyncio.to_thread(self.due, now()):
                await self.make()
            await asyncio.sleep(_LOOK_SECONDS)

    def due(self, at: datetime) -> bool:
        """Whether it is time: in the night, or where the machine was off at night."""
        made = [one.stat().st_mtime for one in self._folder.glob(f"{NIGHTLY}*{SUFFIX}")]
        past = (one for one in made if one <= at.timestamp())  # the clock may have been ahead, and is right now
        age = at - datetime.fromtimestamp(max(past, default=0), at.tzinfo)
        return age > _OVERDUE or (age > _YOUNG and at.astimezone(self._zone).hour in _NIGHT)

    async def make(self) -> None:
        """Make one now; what fails is reported, and tried again at the next look."""
        try:
            env = {**self._env, "LANGUAGE": language()}
            done = await run_nanobot(self._arguments, _LONGEST_SECONDS, env)
            why = (done.last_words or _("exit code {code}", code=done.code)) if done.code else ""
        except (OSError, TimeoutError) as error:
            why = str(error) or _("it took more than two hours")
        if why:
            logger.warning("the nightly backup: {}", why)
        self._report(why)
