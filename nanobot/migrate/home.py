"""What another program has kept, in our own terms."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from nanobot.jsonval import JsonObject
from nanobot.migrate.reading import inside, is_file, moment, words_of
from nanobot.utils.text import printable
from nanobot.utils.translation import _

Program = Literal["nanobot", "hermes", "openclaw"]


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

    def leave_jobs(self, path: Path) -> None:
        """Note that schedules stay with the program that keeps them."""
        if is_file(path):
            self.leave(_("the schedules"), _("Set them here with /schedule, and switch them off there."))


def message_of(row: JsonObject, at: object) -> ForeignMessage | None:
    """A message of a person or a model; what tools said is left out."""
    text, role = words_of(row.get("content")), row.get("role")
    if not text or role not in ("user", "assistant"):
        return None
    return ForeignMessage("user" if role == "user" else "assistant", text, moment(at))
