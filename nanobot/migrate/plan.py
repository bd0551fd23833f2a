"""What an import would do, line by line: each thing of the other home, what it becomes here, and what stays behind.

Each item is done whole or not at all, and one that was done before is known again: an import can be repeated, also
after it was killed. Nothing here is ever overwritten, and nothing there is changed.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from nanobot.config.changes.asked import literal
from nanobot.config.edit import ConfigFile
from nanobot.config.paths import Paths
from nanobot.errors import NanobotError
from nanobot.migrate.home import ForeignHome
from nanobot.migrate.put import copy_skill, known_sessions, put_file, put_job, put_session, same_folder, session_id
from nanobot.migrate.reading import read_text
from nanobot.schedule.appointments import Appointments
from nanobot.session.store import SessionStore
from nanobot.utils.host import shipped
from nanobot.utils.text import printable, shorten
from nanobot.utils.translation import _, _n

ImportKind = Literal["config", "secrets", "files", "sessions", "schedules", "skills"]
KINDS: tuple[ImportKind, ...] = ("config", "secrets", "files", "sessions", "schedules", "skills")
#: Characters of a value in a line.
_VALUE = 60


class ImportItem(Struct, frozen=True):
    """One thing that can be taken: `what` it is there, what it `becomes` here. `there`: it is here already.

    `act` does it, and raises `NanobotError` where it cannot be done; then nothing has changed.
    """

    kind: ImportKind
    what: str
    becomes: str
    act: Callable[[], Awaitable[object]]
    there: bool = False

    @property
    def line(self) -> str:
        return f"{self.what} → {self.becomes}"


class ImportTarget(Struct, frozen=True):
    """This home, into which is imported."""

    config: ConfigFile
    paths: Paths
    store: SessionStore
    appointments: Appointments


class ImportPlan(Struct, frozen=True):
    """What would be taken, in order, and what not with the reasons."""

    items: tuple[ImportItem, ...]
    left: tuple[tuple[str, str], ...]

    def chosen(self, kinds: frozenset[ImportKind]) -> tuple[ImportItem, ...]:
        """What is new of these kinds."""
        return tuple(one for one in self.items if one.kind in kinds and not one.there)


async def plan_of(home: ForeignHome, target: ImportTarget) -> ImportPlan:
    """The plan for one home. Raises `NanobotError` where this home cannot be read."""
    left = list(home.left)
    items = [
        *_config_items(home, target, left, secret=False),
        *_config_items(home, target, left, secret=True),
        *await asyncio.to_thread(_file_items, home, target, left),
        *await _session_items(home, target),
        *await _job_items(home, target),
        *await asyncio.to_thread(_skill_items, home, target),
    ]
    return ImportPlan(tuple(items), tuple(left))


def _config_items(
    home: ForeignHome, target: ImportTarget, left: list[tuple[str, str]], *, secret: bool
) -> list[ImportItem]:
    """Keys of the configuration; of a secret no value is ever shown."""
    found: list[ImportItem] = []
    for path, given in (home.secrets if secret else home.config).items():
        key, value = ".".join(path), given if home.program == "nanobot" else _literal(given)
        shown = "***" if secret else shorten(printable(json.dumps(value, ensure_ascii=False)), _VALUE)
        said = f"{home.sources.get(path, key)} = {shown}"
        there = target.config.has(path)
        if there and target.config.value(path) != value:
            left.append((said, _("{key} is set to something else here, which stays.", key=key)))
            continue
        act = partial(asyncio.to_thread, target.config.set, path, value)
        found.append(ImportItem("secrets" if secret else "config", said, key, act, there))
    return found


def _literal(value: object) -> object:
    """A value as our file writes it: no dollar sign of another program's begins a variable."""
    if isinstance(value, dict):
        return {name: _literal(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_literal(one) for one in value]
    return literal(value) if isinstance(value, str) else value


def _file_items(home: ForeignHome, target: ImportTarget, left: list[tuple[str, str]]) -> list[ImportItem]:
    """Markdown files: in their place where nothing stands there but a template, else beside it."""
    found: list[ImportItem] = []
    for name, source in home.files.items():
        try:
            text = read_text(source)
        except NanobotError as error:
            left.append((str(source), str(error)))
            continue
        text = text.replace("\n§\n", "\n\n")  # how hermes parts what it has noted
        place = _place(target.paths.workspace, name, text, home.program)
        there = _text(place) == text
        what = str(source.relative_to(home.folder) if source.is_relative_to(home.folder) else source)
        becomes = str(place.relative_to(target.paths.workspace))
        if becomes != name:
            becomes = _("{file} (beside {name}, which is yours)", file=becomes, name=name)
        act = partial(asyncio.to_thread, put_file, place, text, _template(name))
        found.append(ImportItem("files", printable(what), becomes, act, there))
    return found


def _place(workspace: Path, name: str, text: str, program: str) -> Path:
    """Where a file goes, so that nothing of the person is in its way."""
    place = workspace / name
    if _text(place) in (None, text, _template(name)):
        return place
    beside = place.with_name(f"{place.stem}.from-{program}{place.suffix}")
    if _text(beside) in (None, text):
        return beside
    return place.with_name(f"{place.stem}.from-{program}-{hashlib.sha256(text.encode()).hexdigest()[:8]}{place.suffix}")


def _text(path: Path) -> str | None:
    """What a file holds; None where there is none, and nothing where it cannot be read."""
    if not path.exists() and not path.is_symlink():
        return None
    try:
        return read_text(path)
    except NanobotError:
        return ""


def _template(name: str) -> str | None:
    """What a fresh workspace has under this name."""
    path = shipped("templates") / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


async def _session_items(home: ForeignHome, target: ImportTarget) -> list[ImportItem]:
    known = await known_sessions(target.store)
    found: list[ImportItem] = []
    for one in home.sessions:
        own, count = session_id(home.program, one.id), len(one.messages)
        have = known.get(own, 0)
        title = shorten(printable(one.title or one.messages[0].text.replace("\n", " ")), _VALUE)
        what = _n("“{title}” ({number} message)", "“{title}” ({number} messages)", count, title=title)
        more = _("session {id}, {number} more", id=own, number=count - have)
        becomes = more if have else _("session {id}", id=own)
        act = partial(put_session, target.store, home.program, one)
        found.append(ImportItem("sessions", what, becomes, act, have >= count))
    return found


async def _job_items(home: ForeignHome, target: ImportTarget) -> list[ImportItem]:
    known = {job.origin for job in await target.appointments.jobs.all()}
    found: list[ImportItem] = []
    for one in home.jobs:
        origin = f"import {home.program} {one.id or hashlib.sha256(one.text.encode()).hexdigest()[:12]}"
        what = shorten(printable(one.text.replace("\n", " ")), _VALUE)
        act = partial(put_job, target.appointments, one, origin)
        becomes = _("a reminder, paused") if one.says else _("a task, paused")
        found.append(ImportItem("schedules", what, becomes, act, origin in known))
    return found


def _skill_items(home: ForeignHome, target: ImportTarget) -> list[ImportItem]:
    """Skills: they count as from outside until the owner has said yes to one."""
    found: list[ImportItem] = []
    for source in home.skills:
        place = target.paths.workspace / "skills" / source.name
        if place.exists() and not same_folder(source, place):
            place = place.with_name(f"{source.name}-{home.program}")
        there = place.exists()
        becomes = _("{folder}, which counts once you say yes to it", folder=f"skills/{place.name}")
        act = partial(asyncio.to_thread, copy_skill, source, place)
        found.append(ImportItem("skills", printable(source.name), becomes, act, there))
    return found
