"""Finding files by their names and lines by a pattern, below a folder that the model may use.

It runs as a program of its own, because a pattern can keep Python busy for hours: it ends with its time. Files are
opened by descriptors, as everywhere. ripgrep, where it is there, only tells which files are worth opening: answers and
their order are the same without it.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import time
import warnings
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from nanobot.errors import PathError
from nanobot.security.paths import FOLDER, ResolvedPath, Root, Roots, holds_keys, is_in

#: Folders that are not looked into unless a search begins in one: what tools keep for themselves, and others' code.
SKIPPED = frozenset(
    ".git .hg .svn node_modules __pycache__ .venv venv .tox .nox .mypy_cache .pytest_cache .ruff_cache".split()
)
#: Bytes of a file that is searched, characters of a line that are shown, folders within each other, ways to write `{}`.
MAX_SEARCHED, _WIDTH, _DEEPEST, _BRACES = 20_000_000, 300, 60, 64
_MEMORY = 2_000_000_000
_KEYS_NAMED = 20
#: The part of Python's patterns that ripgrep understands alike.
_TOKEN = re.compile(
    r"(?P<kind>\\[dsw])|(?P<dot>\.)|\\[.^$*+?()\[\]{}|\\/\-]|\[[A-Za-z0-9_., \\dsw-]+\]|\(\?:|\((?!\?)|\)"
    r"|\{[0-9]{1,4}(?:,[0-9]{0,4})?\}|[^\\\[\](){}.]"
)
_KINDS = {r"\d": r"\d", r"\s": r"[\s\x1c-\x1f]", r"\w": r"[\p{L}\p{N}_]"}
_ANY = r"(?:.|(?-u:[\x80-\xff]))"


class SearchJob(Struct, frozen=True):
    """What is looked for below `path`: files whose name matches `names`, and with `pattern` the lines in them.

    `roots` and `forbidden` are those of `Roots`; paths are bytes, since a name may be no UTF-8. `hide_keys`: files that
    usually hold keys are not searched. At most `most` hits within `seconds`.
    """

    path: bytes
    roots: tuple[tuple[bytes, bool], ...]
    forbidden: tuple[bytes, ...]
    home: bytes
    pattern: str = ""
    names: str = ""
    ignore_case: bool = False
    hide_keys: bool = False
    most: int = 200
    seconds: float = 10.0
    ripgrep: bool = True


class Hit(Struct, frozen=True):
    """A file or a folder (its `shown` ends in /), and with a pattern the line that matched; `path` is absolute."""

    path: bytes
    shown: str
    line: int = 0
    text: str = ""


class Found(Struct, frozen=True):
    """The hits by path and line; `cut` tells what ended the search early, `problem` why there was none.

    `large` counts the files that were not searched because they are longer than `MAX_SEARCHED` bytes; `keys` names some
    that were not because they usually hold keys.
    """

    hits: tuple[Hit, ...] = ()
    cut: Literal["", "most", "time"] = ""
    problem: str = ""
    large: int = 0
    keys: tuple[str, ...] = ()


class _Entry(Struct, frozen=True):
    """A file or folder below the start, by the descriptor of the folder that it lies in."""

    folder: int
    parts: tuple[str, ...]
    is_folder: bool


def _path(raw: bytes) -> Path:
    return Path(os.fsdecode(raw))


def find(job: SearchJob) -> Found:
    """Do a job. What keeps it from being done is the `problem`."""
    folders = tuple(Root(_path(path), writable) for path, writable in job.roots)
    roots = Roots(folders, tuple(map(_path, job.forbidden)), _path(job.home))
    try:
        place = roots.place(_path(job.path))
        return _collect(job, roots, place, _compiled(job))
    except PathError as error:
        return Found(problem=str(error))
    except OSError as error:
        # English: a model reads it
        return Found(problem=f"{roots.shown(_path(job.path))} cannot be searched: {error.strerror or error}.")
    except (re.error, FutureWarning, RecursionError, OverflowError) as error:
        # English: a model reads it
        return Found(problem=f"{job.pattern!r} is no pattern of Python's re: {error}.")


def _compiled(job: SearchJob) -> re.Pattern[str] | None:
    if not job.pattern:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        return re.compile(job.pattern, re.IGNORECASE if job.ignore_case else 0)


def _collect(job: SearchJob, roots: Roots, place: ResolvedPath, line: re.Pattern[str] | None) -> Found:
    end = time.monotonic() + job.seconds
    worth = _worth_opening(job, place.path) if line is not None else None
    found: list[Hit] = []
    large, keys = 0, list[str]()
    for entry in _entries(roots, place):
        if time.monotonic() > end:
            return Found(tuple(found), "time", large=large, keys=tuple(keys))
        below = entry.parts[len(place.parts) :] or entry.parts[-1:]
        if job.names and not is_named(below, job.names):
            continue
        if line is not None and job.hide_keys and not entry.is_folder and holds_keys(entry.parts):
            keys += [roots.shown(place.root.path.joinpath(*entry.parts))] if len(keys) < _KEYS_NAMED else []
            continue
        if line is not None and _is_large(entry):
            large += 1
            continue
        if worth is not None and "/".join(below) not in worth:
            continue
        for hit in _hits(roots, place, entry, line):
            if len(found) == job.most:
                return Found(tuple(found), "most", large=large, keys=tuple(keys))
            found.append(hit)
    return Found(tuple(found), large=large, keys=tuple(keys))


def _is_large(entry: _Entry) -> bool:
    try:
        status = os.stat(entry.parts[-1], dir_fd=entry.folder, follow_symlinks=False)
    except OSError:
        return False  # gone meanwhile
    return not entry.is_folder and status.st_size > MAX_SEARCHED


def _hits(roots: Roots, place: ResolvedPath, entry: _Entry, line: re.Pattern[str] | None) -> Iterator[Hit]:
    path = place.root.path.joinpath(*entry.parts)
    shown = roots.shown(path) + ("/" if entry.is_folder else "")
    if line is None:
        yield Hit(bytes(path), shown)
    elif not entry.is_folder:
        for number, text in enumerate(_lines(roots, entry, shown), 1):
            if match := line.search(text):
                yield Hit(bytes(path), shown, number, _around(text, match.start()))


def _around(text: str, at: int) -> str:
    """A line, and of a long one what stands around a place in it."""
    start = max(0, min(at - _WIDTH // 3, len(text) - _WIDTH))
    end = start + _WIDTH
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def _lines(roots: Roots, entry: _Entry, shown: str) -> list[str]:
    """The lines of a text; none of a file that is no text, too large, or not to be opened."""
    try:
        with os.fdopen(roots.open_in(entry.folder, entry.parts[-1], shown), "rb") as file:
            data = file.read(MAX_SEARCHED + 1)
    except (PathError, OSError):
        return []
    wide = data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    if len(data) > MAX_SEARCHED or (b"\0" in data and not wide):
        return []
    whole = data.decode("utf-16" if wide else "utf-8-sig", "replace")
    lines = whole.split("\n") if "\0" not in whole else [""]
    return [text.removesuffix("\r") for text in (lines if lines[-1] else lines[:-1])]


def _entries(roots: Roots, place: ResolvedPath) -> Iterator[_Entry]:
    """What lies below a place, in the order of its paths; links are left out. Descriptors live until the next one."""
    if not place.path.is_dir():
        with roots.parent(place) as (folder, _):
            yield _Entry(folder, place.parts, is_folder=False)
        return
    with roots.folder(place) as folder:
        yield from _below(folder, place.parts, roots.barred(), len(place.parts) + _DEEPEST)


def _below(folder: int, parts: tuple[str, ...], barred: set[tuple[int, int]], deepest: int) -> Iterator[_Entry]:
    with os.scandir(folder) as entries:
        sorted_ones = sorted(entries, key=lambda one: os.fsencode(one.name))
    for one in sorted_ones:
        inside = (*parts, one.name)
        if one.is_file(follow_symlinks=False):
            yield _Entry(folder, inside, is_folder=False)
        elif one.is_dir(follow_symlinks=False) and one.name not in SKIPPED and len(inside) < deepest:
            try:
                inner = os.open(one.name, FOLDER, dir_fd=folder)
            except OSError:
                continue  # closed to us, or gone, or a link by now
            try:
                if not is_in(os.fstat(inner), barred):
                    yield _Entry(folder, inside, is_folder=True)
                    yield from _below(inner, inside, barred, deepest)
            finally:
                os.close(inner)


# Names


def is_named(parts: tuple[str, ...], pattern: str) -> bool:
    """Whether a path matches: `*.md` at any depth, `notes/*.md` from the start; `**` is any folders, `{a,b}` either."""
    return any(_meets(parts, one) for one in _ways(pattern))


@lru_cache(maxsize=64)
def _ways(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The patterns that braces stand for, each in its parts."""
    waiting, found = [pattern.strip().removeprefix("./")], list[tuple[str, ...]]()
    while waiting and len(found) < _BRACES:
        one = waiting.pop()
        match = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if match:
            waiting += [one[: match.start()] + choice + one[match.end() :] for choice in match[1].split(",")][:_BRACES]
        else:
            parts = tuple(part for part in one.split("/") if part)
            found.append(parts if "/" in one.strip("/") else ("**", *parts))
    return tuple(found)


def _meets(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Each set holds the places in the pattern that may come next."""
    at = _with_stars({0}, pattern)
    for part in parts:
        fits = {one for one in at if one < len(pattern) and _fits(part, pattern[one])}
        at = _with_stars({one if pattern[one] == "**" else one + 1 for one in fits}, pattern)
    return len(pattern) in at


def _with_stars(at: set[int], pattern: tuple[str, ...]) -> set[int]:
    for place, part in enumerate(pattern):
        if part == "**" and place in at:
            at.add(place + 1)
    return at


def _fits(part: str, pattern: str) -> bool:
    return pattern == "**" or fnmatchcase(part, pattern)


# ripgrep


def _worth_opening(job: SearchJob, folder: Path) -> frozenset[str] | None:
    """The files below a folder in which ripgrep finds the pattern; None where it cannot tell for sure."""
    program, pattern = shutil.which("rg") if job.ripgrep else None, _for_ripgrep(job.pattern)
    if program is None or pattern is None or not folder.is_dir():
        return None
    skipped = [word for name in sorted(SKIPPED) for word in ("--glob", f"!**/{name}/**")]
    flags = ["--files-with-matches", "--null", "--no-config", "--no-ignore", "--hidden", "--no-messages", "--crlf"]
    flags += ["--color", "never", *(["--ignore-case"] if job.ignore_case else [])]
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the pattern stands behind its flag
            [program, *flags, *skipped, "--regexp", pattern, "."],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=job.seconds / 2,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in (0, 1):
        return None
    names = (os.fsdecode(name) for name in done.stdout.split(b"\0") if name)
    return frozenset(name.removeprefix("./") for name in names)


def _for_ripgrep(pattern: str) -> str | None:
    """The pattern as ripgrep means it; None where the two may differ."""
    found: list[str] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        at = token.end()
        said = token[0]
        if said.startswith("["):
            said = re.sub(r"\\[dsw]", lambda kind: _KINDS[kind[0]], said)
        elif token["kind"]:
            said = _KINDS[said]
        found.append(_ANY if token["dot"] else said)
    return "".join(found)


def main() -> None:
    """Read the job from the command line, and print what was found as JSON."""
    job = msgspec.json.decode(sys.argv[1], type=SearchJob)
    resource.setrlimit(resource.RLIMIT_CPU, (int(job.seconds) + 2, int(job.seconds) + 3))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.stdout.buffer.write(msgspec.json.encode(find(job)))


if __name__ == "__main__":
    main()
