"""A skill: a folder with a SKILL.md, whose head names it and says when it is of use. What is wrong with one, and what a
new one begins with.

The head is a few lines of the public format (`name`, `description`); what else stands there is left alone.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct

from nanobot.errors import UsageError
from nanobot.utils.text import one_line, shorten
from nanobot.utils.translation import N_, _

FILE = "SKILL.md"
#: Where a skill was found, in the order in which a name counts.
Place = Literal["workspace", "folder", "home", "shipped"]
#: Characters of a description, bytes of a SKILL.md, and what of a folder is read: files, bytes of all, folders deep.
MAX_DESCRIPTION, MAX_FILE = 1_024, 100_000
MOST_FILES, MOST_BYTES, _DEEPEST = 500, 10_000_000, 6
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_FIELD = re.compile(r"([A-Za-z][\w-]*)\s*:(?:\s+(.*))?")
#: Files of a skill that are named to who reads it.
_NAMED = 40
#: Of no skill: what tools leave behind. Compiled Python is not among it, for it would run in the place of its source.
_LEFT_OUT = frozenset({".git", ".DS_Store"})
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_NEW = N_(
    "Write here what to do, step by step, as you would tell somebody who is clever and new to it.\n\n"
    "1. Which tools are called, with which arguments.\n"
    "2. What is done with what they answer.\n"
    "3. How one sees that it worked, and what to do where it did not.\n"
)


class Skill(Struct, frozen=True):
    """A skill as its SKILL.md describes it. `text` is what follows the head; `problems` are sentences on what is wrong
    with it, and one with problems in its name is never offered. `mark` stands for every byte of its folder, and is
    empty where that is too large to be judged."""

    name: str
    description: str
    folder: Path
    place: Place
    text: str
    mark: str = ""
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def beside(self) -> str:
        """The names of its first files besides SKILL.md on one line; the names are as little ours as the files."""
        return ", ".join(one_line(name) for name in self.files[:_NAMED]) or _("none besides SKILL.md")

    @property
    def seal(self) -> str:
        """Eight characters by which a person names this very content."""
        return self.mark[:8]


def read_skill(folder: Path, place: Place) -> Skill:
    """The skill in a folder. Waits for the disk. Raises `UsageError` where it has no SKILL.md that can be read."""
    try:
        raw = _read(folder / FILE, MAX_FILE)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(_("{path} cannot be read: {why}.", path=folder / FILE, why=why)) from error
    head, text = front_matter(raw.decode("utf-8", "replace"))
    name = one_line(head.get("name", "") or folder.name)
    description = one_line(head.get("description", ""))
    mark, files = _mark(folder)
    found = tuple(_problems(folder, head, description, raw, mark))
    return Skill(name, shorten(description, MAX_DESCRIPTION), folder, place, text.strip(), mark, files, found)


def _problems(folder: Path, head: Mapping[str, str], description: str, raw: bytes, mark: str) -> Iterator[str]:
    name = head.get("name", "")
    if not head:
        yield _("SKILL.md does not begin with a head: a line ---, then name: and description:, then a line ---.")
    elif not name:
        yield _("The head has no name.")
    if not NAME.fullmatch(name or folder.name):
        yield _("The name is made of small letters, digits and hyphens, at most 64 of them.")
    if name and name != folder.name:
        shown = one_line(name, 80)
        yield _("The name {name!r} is not that of its folder, {folder!r}.", name=shown, folder=folder.name)
    if not description:
        yield _("The head has no description, by which a model tells when the skill is of use.")
    elif len(description) > MAX_DESCRIPTION:
        yield _(
            "The description has {length:,} characters, of which {most:,} are shown.",
            length=len(description),
            most=MAX_DESCRIPTION,
        )
    if len(raw) > MAX_FILE:
        yield _(
            "SKILL.md is longer than {most:,} bytes, and is cut there. Move parts into files beside it.", most=MAX_FILE
        )
    if not mark:
        yield _(
            "The folder holds more than {files} files or {bytes:,} bytes, so it never counts as read.",
            files=MOST_FILES,
            bytes=MOST_BYTES,
        )


def front_matter(text: str) -> tuple[dict[str, str], str]:
    """The fields of the head as texts, and what follows it; no fields where the text does not begin with a head.

    Read are `name: words`, quoted words, words that go on in indented lines, and blocks after `|` and `>`. Lists and
    fields in fields are left out.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        return {}, text
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return {}, text
    head, found = lines[1:end], dict[str, str]()
    for number, line in enumerate(head):
        match = _FIELD.fullmatch(line.rstrip())
        if match is not None:
            below = []
            for further in head[number + 1 :]:
                if further.strip() and not further.startswith((" ", "\t")):
                    break
                below.append(further.strip())
            found.setdefault(match[1].lower(), _value((match[2] or "").strip(), below))
    return found, "\n".join(lines[end + 1 :])


def _value(said: str, below: list[str]) -> str:
    """What a field holds: `said` on its line, and the indented lines `below` it."""
    if said[:1] in ("|", ">"):
        return ("\n" if said[0] == "|" else " ").join(below).strip()
    whole = " ".join(filter(None, (said, *below)))
    if whole[:1] == '"' and whole.rstrip()[-1:] == '"' and len(whole) > 1:
        return whole.rstrip()[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if whole[:1] == "'" and whole.rstrip()[-1:] == "'" and len(whole) > 1:
        return whole.rstrip()[1:-1].replace("''", "'")
    return whole.partition(" #")[0].strip()


def new_text(name: str, description: str) -> str:
    """The SKILL.md of a skill that is still to be written. Raises `UsageError` for a name that none can have."""
    if not NAME.fullmatch(name):
        raise UsageError(_("The name of a skill is made of small letters, digits and hyphens, such as weekly-report."))
    said = one_line(description) or _("What it does, and when it is of use.")
    title = name.replace("-", " ").capitalize()
    return f"---\nname: {name}\ndescription: {said}\n---\n\n# {title}\n\n{_(_NEW)}"


def skill_text(name: str, description: str, text: str) -> str:
    """A whole SKILL.md; a head that `text` begins with is replaced."""
    said = json.dumps(one_line(description), ensure_ascii=False)
    return f"---\nname: {name}\ndescription: {said}\n---\n\n{front_matter(text)[1].strip()}\n"


def read_beside(skill: Skill, name: str) -> str:
    """The text of a file of a skill. Raises `UsageError` where it has no such file, or it is no text."""
    if name not in skill.files:
        held = skill.beside
        raise UsageError(
            _("The skill {skill} has no file {name!r}. It has: {files}.", skill=skill.name, name=name, files=held)
        )
    try:
        raw = _read(skill.folder / name, MAX_FILE)
    except OSError as error:
        why = error.strerror or error
        raise UsageError(_("{path} cannot be read: {why}.", path=name, why=why)) from error
    if b"\0" in raw[:8_192]:
        raise UsageError(_("{name} is no text.", name=name))
    return raw.decode("utf-8", "replace")


def _mark(folder: Path) -> tuple[str, tuple[str, ...]]:
    """A mark of the names and bytes of everything in a folder, and its files besides SKILL.md."""
    held = held_in(folder)
    if held is None:
        return "", ()
    digest = hashlib.sha256()
    for name, told in held.items():
        digest.update(f"{len(os.fsencode(name))} {len(told)} ".encode() + os.fsencode(name) + told)
    names = (name for name in held if name != FILE and not (folder / name).is_symlink())
    return digest.hexdigest()[:32], tuple(names)


def held_in(folder: Path) -> dict[str, bytes] | None:
    """Everything in a folder by its name; None where that is too much, or cannot be read.

    A link counts with where it leads, and is no file of the skill.
    """
    held, size = dict[str, bytes](), 0
    entries = list(islice(_entries(folder, "", 0), MOST_FILES + 1))
    if len(entries) > MOST_FILES:
        return None
    for name, path in entries:
        try:
            held[name] = b"link " + os.fsencode(path.readlink()) if path.is_symlink() else _read(path, MOST_BYTES)
        except OSError:
            return None
        size += len(held[name])
        if size > MOST_BYTES:
            return None
    return dict(sorted(held.items()))


def _entries(folder: Path, above: str, depth: int) -> Iterator[tuple[str, Path]]:
    """Everything that is no folder, by its path below the skill; a folder too deep counts as one thing."""
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda one: one.name)
    except OSError:
        return
    for one in entries[: MOST_FILES + 1]:
        name = f"{above}{one.name}"
        if one.name in _LEFT_OUT:
            continue
        if one.is_dir(follow_symlinks=False) and depth < _DEEPEST:
            yield from _entries(Path(one.path), f"{name}/", depth + 1)
        else:
            yield name, Path(one.path)


def _read(path: Path, most: int) -> bytes:
    """At most one byte more than `most` of a plain file, through no link. Raises `OSError`."""
    with os.fdopen(os.open(path, _READ_FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileNotFoundError(_("{name} is no file", name=path.name))
        return file.read(most + 1)
