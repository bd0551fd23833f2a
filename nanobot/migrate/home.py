"""What another program has kept, in our own terms."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from nanobot import jsonval
from nanobot.errors import UsageError
from nanobot.jsonval import JsonObject
from nanobot.migrate.reading import inside, instant, is_file, moment, read_text, text_of, words_of
from nanobot.schedule.job import Cron, Every, Once, When
from nanobot.utils.text import printable
from nanobot.utils.translation import _

Program = Literal["nanobot", "hermes", "openclaw"]
_CRON = re.compile(r"\S+( \S+){4}")
_MINUTE = 60


class ForeignMessage(Struct, frozen=True):
    """A message of a person or of the other program's model, with the time where that is known."""

    role: Literal["user", "assistant"]
    text: str
    at: datetime | None = None


class ForeignSession(Struct, frozen=True):
    """A conversation of the owner with the other program. `id` is its own."""

    id: str
    title: str
    messages: tuple[ForeignMessage, ...]


class ForeignJob(Struct, frozen=True):
    """Something that the other program does at set times. `says`: a text for the person; else a task for the agent."""

    id: str
    text: str
    when: When
    zone: str = ""
    says: bool = False


class ForeignHome(Struct):
    """All of a home that there is a place for here, and what is `left` with the reason.

    `config` and `secrets` are values by our own keys, and `sources` what they are called there, where that is something
    else; `files` are Markdown files by where they belong in the workspace.
    """

    program: Program
    folder: Path
    config: dict[tuple[str, ...], object] = field(default_factory=dict)
    secrets: dict[tuple[str, ...], object] = field(default_factory=dict)
    sources: dict[tuple[str, ...], str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    sessions: list[ForeignSession] = field(default_factory=list)
    jobs: list[ForeignJob] = field(default_factory=list)
    skills: list[Path] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)

    def take(self, source: str, place: tuple[str, ...], value: object, *, secret: bool = False) -> None:
        """Note a value of the configuration, under what it is called there; the first of a place counts."""
        if value not in (None, "", [], {}) and place not in self.config and place not in self.secrets:
            (self.secrets if secret else self.config)[place] = value
            self.sources[place] = source

    def leave(self, what: str, why: str) -> None:
        """Note something that is not taken."""
        self.left.append((printable(what)[:200], why))

    def take_files(self, workspace: Path, names: Mapping[str, str]) -> None:
        """Note the Markdown files that are there, by where they go, and the memory files of the workspace."""
        for name, target in names.items():
            if is_file(workspace / name):
                self.files.setdefault(target, workspace / name)
        if is_file(workspace / "HEARTBEAT.md"):  # beside ours, whose lines are tasks that begin by themselves
            self.files[f"HEARTBEAT.from-{self.program}.md"] = workspace / "HEARTBEAT.md"
        for path in inside(workspace / "memory"):
            if path.suffix == ".md" and is_file(path) and f"memory/{path.name}" not in self.files:
                self.files[f"memory/{path.name}"] = path

    def take_skills(self, folder: Path, *, deep: bool = False) -> None:
        """Note the folders with a SKILL.md; those of a `deep` folder stand in groups."""
        for path in inside(folder):
            if path.name.startswith(".") or path.is_symlink() or not path.is_dir():
                continue
            if is_file(path / "SKILL.md"):
                self.skills.append(path)
            elif deep:
                self.take_skills(path)

    def take_jobs(self, path: Path, of: "Callable[[JsonObject], ForeignJob | str]") -> None:
        """Note the jobs of a file `{"jobs": [...]}`, as `of` reads one."""
        if not is_file(path):
            return
        try:
            rows = jsonval.rows(jsonval.obj(json.loads(read_text(path))).get("jobs"))
        except (UsageError, ValueError) as error:
            self.leave(str(path), _("It cannot be read: {error}", error=error))
            return
        for row in rows:
            name = text_of(row.get("name")) or text_of(row.get("id"))
            try:
                job = of(row)
            except (UsageError, ValueError, OverflowError, KeyError) as error:
                self.leave(_("schedule {name}", name=name), _("Its time cannot be read: {error}", error=error))
                continue
            if isinstance(job, str):
                self.leave(_("schedule {name}", name=name), job)
            else:
                self.jobs.append(job)


def message_of(row: JsonObject, at: object) -> ForeignMessage | None:
    """A message of a person or a model; what tools said is left out."""
    text, role = words_of(row.get("content")), row.get("role")
    if not text or role not in ("user", "assistant"):
        return None
    return ForeignMessage("user" if role == "user" else "assistant", text, moment(at))


def claw_job(row: JsonObject) -> ForeignJob | str:
    """A job as nanobot's family and openclaw write it: `schedule` with `kind` at, every or cron, and a `payload`."""
    payload, schedule = jsonval.obj(row.get("payload")), jsonval.obj(row.get("schedule"))
    text = text_of(payload.get("message")) or text_of(payload.get("text"))
    if row.get("enabled") is False:
        return _("It is switched off there.")
    if not text:
        return _("It has no text: what it does is no task for an agent.")
    says = text_of(payload.get("kind")).casefold() in {"systemevent", "system_event"}
    when = claw_time(schedule)
    if isinstance(when, Once) and when.at <= datetime.now(UTC):
        return _("Its time is over.")
    return ForeignJob(text_of(row.get("id")), text, when, text_of(schedule.get("tz")), says)


def claw_time(schedule: JsonObject) -> When:
    """When it comes. Raises ValueError for what is no time."""
    kind = text_of(schedule.get("kind"))
    if kind == "cron":
        return cron(text_of(schedule.get("expr")))
    if kind == "every":
        number = schedule.get("everyMs", schedule.get("every_ms"))
        return every(float(number) / 1000 if isinstance(number, int | float) else 0.0)
    number = schedule.get("atMs", schedule.get("at_ms"))
    if isinstance(number, int | float):
        return Once(datetime.fromtimestamp(number / 1000, UTC))
    return Once(instant(text_of(schedule.get("at"))))


def cron(expression: str) -> Cron:
    """Raises ValueError for what has not five fields."""
    if not _CRON.fullmatch(expression):
        raise ValueError(_("{expression!r} has not the five fields of cron", expression=expression))
    return Cron(expression)


def every(seconds: float) -> Every:
    """Raises ValueError for what is less than a minute."""
    if seconds < _MINUTE:
        raise ValueError(_("{seconds:g} seconds are no interval", seconds=seconds))
    return Every(int(seconds), datetime.now(UTC) + timedelta(seconds=seconds))
