"""What a person has in their memory files, in the index: USER.md and the notes below `memory/`, line by line."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from nanobot.config.paths import PEOPLE, folder_name
from nanobot.errors import PathError
from nanobot.files.store import MAX_FILE
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document, DocumentPart, FoundPart
from nanobot.security.paths import ResolvedPath, Root, Roots
from nanobot.utils.passages import split_passages
from nanobot.utils.text import shorten, squeeze, strip_unsafe

#: Files of a person; each is read as far as one can be changed.
_FILES = 2_000
_FOLDER = "memory"
#: The share of a question that a line of memory must hold to be put beside it unasked, how many such lines there are,
#: the characters of one, and the bytes of all, which are less than 300 tokens.
_FITS, _LINES, _WIDTH, _BYTES = 0.45, 4, 190, 850
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})\.md$")


class MemoryFiles:
    """The memory files below `workspace`, brought into the index when somebody asks for a person's.

    `foreign_below` gives the files of a folder that hold content from outside. Every method waits for the disk.
    """

    def __init__(self, workspace: Path, index: LibraryIndex, foreign_below: Callable[[Path], frozenset[str]]) -> None:
        self._workspace = workspace
        self._index = index
        self._foreign_below = foreign_below

    def refresh(self, owner: str) -> None:
        """Read what was changed since the last time, and forget what is gone. `owner` as in a `Scope`."""
        folder = folder_of_owner(self._workspace, owner)
        known = {one.name: one for one in self._index.documents("memory", owner)}
        there: set[str] = set()
        real = folder.resolve()
        marked = self._foreign_below(real)
        roots: Roots | None = None
        for name, status in _files(folder):
            there.add(name)
            foreign = f"{real}/{name}" in marked
            state = f"{status.st_mtime_ns} {status.st_size} {foreign:d}"
            if name not in known or known[name].state != state:
                roots = roots or Roots((Root(real),))
                parts = list(_lines(name, _text(roots, name), foreign=foreign))
                self._index.put(Document("memory", owner, name, state=state), parts)
        self._index.drop(one for name, one in known.items() if name not in there)

    def texts(self, owner: str) -> Iterator[tuple[str, str, bool]]:
        """The files of a person: name, text, and whether content from outside stands in it."""
        folder = folder_of_owner(self._workspace, owner)
        marked, roots = self._foreign_below(folder.resolve()), Roots((Root(folder),))
        for name, _ in _files(folder):
            yield name, _text(roots, name), str(roots.workspace / name) in marked

    def beside(self, question: str, owner: str, shown: frozenset[str]) -> tuple[FoundPart, ...]:
        """The few lines that fit a question well, best first; none from outside, and none of files that are `shown`."""
        self.refresh(owner)
        found = self._index.search(question, [("memory", owner)], limit=2 * _LINES, among=2 * _LINES)
        fitting = (one for one in found if one.cover >= _FITS and not one.part.outside)
        return tuple(one for one in fitting if one.document.name not in shown)[:_LINES]


def remembered(found: tuple[FoundPart, ...]) -> str:
    """Lines of memory for the end of a request; empty where there are none."""
    # English: a model reads it
    lines: list[str] = ["From what you remember of this person:"]
    for one in found:
        line = f"- {shorten(squeeze(one.part.text), _WIDTH)} ({one.document.name})"
        if len("\n".join([*lines, line]).encode()) <= _BYTES:
            lines.append(line)
    return "\n".join(lines) if lines[1:] else ""


def folder_of_owner(workspace: Path, owner: str) -> Path:
    """Where in the workspace the files of a person are: the owner of the home has the workspace itself."""
    return workspace / PEOPLE / folder_name(owner) if owner else workspace


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The memory files by name, in order; what a link leads to is none."""
    names = ["USER.md"]
    inner = folder / _FOLDER
    if inner.is_dir() and not inner.is_symlink():
        names += sorted(f"{_FOLDER}/{one.name}" for one in os.scandir(inner) if one.name.endswith(".md"))[-_FILES:]
    for name in names:
        try:
            status = os.lstat(f"{folder}/{name}")
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield name, status


def _text(roots: Roots, name: str) -> str:
    """A file that is still where it was seen; empty where it is not, or may not be read."""
    try:
        place: ResolvedPath = roots.place(name)
        with os.fdopen(roots.open(place), "rb") as stream:
            return strip_unsafe(stream.read(MAX_FILE).decode(errors="replace"))
    except (PathError, OSError):
        return ""


def _lines(name: str, text: str, *, foreign: bool) -> Iterator[DocumentPart]:
    """A file as its lines and paragraphs, each with the heading above it and the day of the note."""
    day = _DAY.search(name)
    for passage in split_passages(text):
        yield DocumentPart(passage.text, passage.heading, day[1] if day else "", foreign)
