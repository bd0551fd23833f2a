"""`nanobot library`: the folders of the owner's documents, and reading them into the index."""

import argparse
import asyncio
import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from nanobot.agent.tools.files.offered import FileTools
from nanobot.cli.agent_command import Setup, set_up
from nanobot.cli.options import INTERRUPTED
from nanobot.config.edit import ConfigFile
from nanobot.config.loader import load
from nanobot.config.paths import PEOPLE
from nanobot.config.schema import LibraryFolderConfig
from nanobot.errors import StoreError, UsageError
from nanobot.library.folders import FREE_BYTES, INDEX_BYTES, LibraryFolders
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document
from nanobot.library.walk import MOST_DOCUMENTS, DocumentFolder, in_time, is_downloads
from nanobot.session.lock import FileLock, home_lock
from nanobot.utils.text import counted, duration, printable, shorten

_PLACE = ("library", "folders")
#: Characters of the bar, unreadable documents that `status` names, and what the reading gives way to (as of `nice`).
_BAR, _NAMED, _NICE = 24, 20, 15
#: Seconds until a disk counts as away, and in which the folders are looked through.
_PATIENCE, _WALK_SECONDS = 3.0, 60.0
_FROM_OTHERS = (
    "What lies in a folder of downloads counts as content from outside. Where that is not so, write it in "
    'library.folders as {"path": "…", "outside": false}.'
)
_FIRST_FOLDER = "This is your first folder: the nanobot that runs looks into the library after its next start."
_TAKEN = "The documents are read already ({holder}). `nanobot library status` shows how far that is."


def run_library(args: argparse.Namespace) -> int:
    """Run one of add, list, remove, status and read; the exit code."""
    setup = set_up(args, os.environ)
    match args.library_action:
        case "add":
            return _add(setup, args.folder)
        case "remove":
            return _remove(setup, args.folder)
        case "status":
            return _status(setup, whole=True)
        case "read":
            return _read(setup, quiet=args.quiet)
        case _:
            return _status(setup, whole=False)


def _add(setup: Setup, text: str) -> int:
    folder = Path(os.path.realpath(_expanded(text, setup.env)))
    if not folder.is_dir():
        raise UsageError(f"There is no folder {text}.")
    before = _folders(setup)
    for named, one in before.items():
        if one.path == folder or one.path in folder.parents:
            _print(f"{text} belongs to the library already: {named} is in {setup.paths.config}. What is new is read.")
            return _read(setup, quiet=False)
    if setup.paths.home in (folder, *folder.parents) and setup.paths.workspace not in (folder, *folder.parents):
        raise UsageError(f"{text} belongs to nanobot itself, which is never read.")
    ConfigFile(setup.paths.config, os.environ).append(_PLACE, _short(folder, setup.env))
    _print(
        f"Added {_short(folder, setup.env)} to {setup.paths.config}. It is read now; Ctrl-C stops, and later goes on."
    )
    if is_downloads(folder.name):
        _print(_FROM_OTHERS)
    code = _read(_again(setup), quiet=False)
    if home_lock(setup.paths.home).held:
        _print("The nanobot that runs finds in it now." if before else _FIRST_FOLDER)
    return code


def _remove(setup: Setup, text: str) -> int:
    folder = Path(os.path.realpath(_expanded(text, setup.env)))
    named = next((named for named, one in _folders(setup).items() if one.path == folder or named == text), None)
    if named is None:
        raise UsageError(f"{text} is no folder of the library. `nanobot library list` shows those that are.")
    ConfigFile(setup.paths.config, os.environ).take(_PLACE, named)
    _print(f"Removed {named} from {setup.paths.config}. Its files stay; the index forgets them.")
    return _read(_again(setup), quiet=True)


def _status(setup: Setup, *, whole: bool) -> int:
    folders = _folders(setup)
    if not folders:
        _print("The library has no folder. `nanobot library add FOLDER` adds one.")
        return 0
    with closing(LibraryIndex(setup.paths.home / "index.db")) as index:
        known = index.documents("document", "")
        passages = index.count("document")
    for named, folder in folders.items():
        inside = [one for one in known if folder.path in Path(one.name).parents]
        broken = sum(bool(one.problem) for one in inside)
        unread = f", {broken} with a problem" if broken else ""
        outside = "; from outside" if folder.holds_outside(str(folder.path / "a")) else ""
        _print(f"{named}: {counted(len(inside), 'document')}{unread}{outside}{_away(folder.path)}")
    if whole:
        _unread(setup)
        size = (setup.paths.home / "index.db").stat().st_size / 1_000_000
        _print(f"{passages:,} passages; the index takes {size:,.1f} MB, conversations and memory included.")
        _problems([one for one in known if one.problem])
    return 0


def _away(folder: Path) -> str:
    """Whether a folder is there, as far as its disk says so in time."""
    try:
        return "" if in_time(_PATIENCE, folder.is_dir) else "; the folder is not there"
    except OSError:
        return "; its disk does not answer"


def _unread(setup: Setup) -> None:
    """Say how many documents are not read yet, how long that takes, and what keeps them from being read."""
    with closing(LibraryIndex(setup.paths.home / "index.db")) as index:
        full = index.is_full(FREE_BYTES, INDEX_BYTES)
        try:
            found = in_time(_WALK_SECONDS, _folders_of(setup, index).compared)
        except OSError:
            _print("How many documents are not read yet is not known: looking through the folders takes too long here.")
            return
    if found.changed:
        how_long = f"reading takes about {duration(max(1.0, found.seconds))}"
        _print(
            f"Not read yet: {counted(len(found.changed), 'document')}; {how_long}. `nanobot library read` does it now."
        )
    if found.beyond:
        _print(f"{found.beyond:,} more are never read: of a folder {MOST_DOCUMENTS:,} documents are.")
    if full:
        _print(f"Nothing more is read: {full}")


def _problems(broken: list[Document]) -> None:
    for one in broken[:_NAMED]:
        _print(f"  {one.name}: {one.problem}")
    if len(broken) > _NAMED:
        _print(f"  … and {len(broken) - _NAMED:,} more")


def _read(setup: Setup, *, quiet: bool) -> int:
    """Bring the index up to date, with a bar on a terminal where it is not `quiet`, which gives way to all others."""
    paths, begun = setup.paths, time.monotonic()
    if quiet:
        os.nice(_NICE)
    bar = _Bar(shown=not quiet and sys.stderr.isatty())
    try:
        with FileLock(paths.home / "library.lock", _TAKEN), closing(LibraryIndex(paths.home / "index.db")) as index:
            done = asyncio.run(_folders_of(setup, index).read(bar.show))
            broken = [one for one in index.documents("document", "") if one.problem]
    except KeyboardInterrupt:
        bar.clear()
        _print(f"Stopped after {bar.done:,} of {bar.total:,} documents. `nanobot library read` goes on there.")
        return INTERRUPTED
    except StoreError as error:
        if not isinstance(error.__cause__, sqlite3.Error):
            raise
        done_so_far = f"Stopped after {bar.done:,} of {counted(bar.total, 'document')}."
        raise StoreError(f"{done_so_far} {error} `nanobot library read` goes on.") from error
    finally:
        bar.clear()
    if not quiet:
        _print(f"Read {counted(done.count, 'document')} in {time.monotonic() - begun:.0f} s.")
        for folder in done.away:
            _print(f"{folder} is not there, or its disk does not answer; what was read of it stays.")
        if broken:
            _print(f"{len(broken):,} {'has' if len(broken) == 1 else 'have'} a problem:")
            _problems(broken)
    if done.why:
        raise StoreError(f"{done.left:,} documents were not read. {done.why}")
    return 0


def _folders_of(setup: Setup, index: LibraryIndex) -> LibraryFolders:
    """The folders of the configuration, without what is nanobot's own or came from outside."""
    paths, person = setup.paths, _person(setup.env)
    files = FileTools(setup.loaded.config.tools, paths, person)
    files.begin()
    forbidden = (paths.home, paths.config, paths.database)
    folders, others = tuple(_folders(setup).values()), setup.paths.workspace / PEOPLE
    return LibraryFolders(index, folders, forbidden, person, files.foreign_below, others)


class _Bar:
    """How far the reading is, on one line of the terminal."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self.done = self.total = 0
        self._drawn = 0.0

    def show(self, done: int, total: int, name: str) -> None:
        self.done, self.total = done, total
        if not self._shown or time.monotonic() - self._drawn < 0.1:
            return
        self._drawn = time.monotonic()
        full = _BAR * done // max(1, total)
        width = shutil.get_terminal_size().columns - 1
        line = f"[{'#' * full}{'-' * (_BAR - full)}] {done:,}/{total:,} {printable(Path(name).name)}"
        sys.stderr.write(f"\r\x1b[K{shorten(line, width)}")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _again(setup: Setup) -> Setup:
    """The same with the configuration as it is now."""
    return replace(setup, loaded=load(setup.paths.config, env=setup.env, must_exist=True))


def _folders(setup: Setup) -> dict[str, DocumentFolder]:
    """The folders of the library as the configuration names them, and where they really are."""
    listed = setup.loaded.config.library.folders
    named = [LibraryFolderConfig(one) if isinstance(one, str) else one for one in listed]
    return {
        one.path: DocumentFolder(Path(os.path.realpath(_expanded(one.path, setup.env))), one.outside) for one in named
    }


def _person(env: Mapping[str, str]) -> Path:
    return Path(env["HOME"]) if env.get("HOME") else Path.home()


def _expanded(text: str, env: Mapping[str, str]) -> Path:
    return _person(env) / text[2:] if text == "~" or text.startswith("~/") else Path(text)


def _short(folder: Path, env: Mapping[str, str]) -> str:
    """A path with `~` for the person's own folder."""
    person = Path(os.path.realpath(_person(env)))
    return f"~/{folder.relative_to(person)}" if person in folder.parents else str(folder)


def _print(text: str) -> None:
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()
