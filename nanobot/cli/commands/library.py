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
from nanobot.cli.terminal import say
from nanobot.config.edit import ConfigFile
from nanobot.config.loader import load
from nanobot.config.paths import PEOPLE, named_folder, person_home
from nanobot.config.schema import LibraryFolderConfig
from nanobot.errors import StoreError, UsageError
from nanobot.library.folders import FREE_BYTES, INDEX_BYTES, LibraryFolders
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document
from nanobot.library.walk import MOST_DOCUMENTS, DocumentFolder, in_time, is_downloads
from nanobot.session.lock import FileLock, home_lock
from nanobot.utils.text import printable, shorten
from nanobot.utils.translation import N_, _, _n, sentences

_PLACE = ("library", "folders")
#: Characters of the bar, unreadable documents that `status` names, and what the reading gives way to (as of `nice`).
_BAR, _NAMED, _NICE = 24, 20, 15
#: Seconds in which the folders are looked through.
_WALK_SECONDS = 60.0
_FROM_OTHERS = N_(
    "What lies in a folder of downloads counts as content from outside. Where that is not "
    'so, write it in library.folders as {"path": "…", "outside": false}.'
)
_FIRST_FOLDER = N_("This is your first folder: the nanobot that runs looks into the library after its next start.")
_TAKEN = N_("The documents are read already ({holder}). `nanobot library status` shows how far that is.")


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
    folder = named_folder(text, setup.env)
    if not folder.is_dir():
        raise UsageError(_("There is no folder {folder}.", folder=text))
    before = _folders(setup)
    for named, one in before.items():
        if one.path == folder or one.path in folder.parents:
            say(
                _(
                    "{folder} belongs to the library already: {named} is in {file}. What is new is read.",
                    folder=text,
                    named=named,
                    file=setup.paths.config,
                )
            )
            return _read(setup, quiet=False)
    if setup.paths.home in (folder, *folder.parents) and setup.paths.workspace not in (folder, *folder.parents):
        raise UsageError(_("{folder} belongs to nanobot itself, which is never read.", folder=text))
    ConfigFile(setup.paths.config, os.environ).append(_PLACE, _short(folder, setup.env))
    say(
        _(
            "Added {folder} to {file}. It is read now; Ctrl-C stops, and later goes on.",
            folder=_short(folder, setup.env),
            file=setup.paths.config,
        )
    )
    if is_downloads(folder.name):
        say(_(_FROM_OTHERS))
    code = _read(_again(setup), quiet=False)
    if home_lock(setup.paths.home).held:
        say(_("The nanobot that runs finds in it now.") if before else _(_FIRST_FOLDER))
    return code


def _remove(setup: Setup, text: str) -> int:
    folder = named_folder(text, setup.env)
    named = next((named for named, one in _folders(setup).items() if one.path == folder or named == text), None)
    if named is None:
        raise UsageError(
            _("{folder} is no folder of the library. `nanobot library list` shows those that are.", folder=text)
        )
    ConfigFile(setup.paths.config, os.environ).take(_PLACE, named)
    say(
        _(
            "Removed {folder} from {file}. Its files stay; the index forgets them.",
            folder=named,
            file=setup.paths.config,
        )
    )
    return _read(_again(setup), quiet=True)


def _status(setup: Setup, *, whole: bool) -> int:
    folders = _folders(setup)
    if not folders:
        say(_("The library has no folder. `nanobot library add FOLDER` adds one."))
        return 0
    with closing(LibraryIndex(setup.paths.home / "index.db")) as index:
        known = index.documents("document", "")
        passages = index.count("document")
    for named, folder in folders.items():
        inside = [one for one in known if folder.path in Path(one.name).parents]
        told = _counted(len(inside))
        if broken := sum(bool(one.problem) for one in inside):
            told = _("{documents}, {number} with a problem", documents=told, number=broken)
        outside = _("; from outside") if folder.holds_outside(str(folder.path / "a")) else ""
        told += outside + ("" if folder.path.is_dir() else _("; the folder is not there"))
        say(_("{folder}: {told}", folder=named, told=told))
    if whole:
        _unread(setup)
        size = (setup.paths.home / "index.db").stat().st_size / 1_000_000
        say(
            _(
                "Passages: {passages:,}. The index takes {size:,.1f} MB, conversations and memory included.",
                passages=passages,
                size=size,
            )
        )
        _problems([one for one in known if one.problem])
    return 0


def _unread(setup: Setup) -> None:
    """Say how many documents are not read yet, and what keeps them from being read."""
    with closing(LibraryIndex(setup.paths.home / "index.db")) as index:
        full = index.is_full(FREE_BYTES, INDEX_BYTES)
        try:
            found = in_time(_WALK_SECONDS, _folders_of(setup, index).compared)
        except OSError:
            say(_("How many documents are not read yet is not known: looking through the folders takes too long here."))
            return
    if found.changed:
        say(
            _(
                "Not read yet: {documents}. `nanobot library read` does it now.",
                documents=_counted(len(found.changed)),
            )
        )
    if found.beyond:
        say(
            _(
                "{number:,} more are never read: of a folder {most:,} documents are.",
                number=found.beyond,
                most=MOST_DOCUMENTS,
            )
        )
    if full:
        say(_("Nothing more is read: {why}", why=full))


def _problems(broken: list[Document]) -> None:
    for one in broken[:_NAMED]:
        say(_("  {what}: {why}", what=one.name, why=one.problem))
    if len(broken) > _NAMED:
        say(_("  … and {number:,} more", number=len(broken) - _NAMED))


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
        say(
            _(
                "Stopped after {done:,} of {total:,} documents. `nanobot library read` goes on there.",
                done=bar.done,
                total=bar.total,
            )
        )
        return INTERRUPTED
    except StoreError as error:
        if not isinstance(error.__cause__, sqlite3.Error):
            raise
        done_so_far = _("Stopped after {done:,} of {documents}.", done=bar.done, documents=_counted(bar.total))
        raise StoreError(sentences(done_so_far, str(error), _("`nanobot library read` goes on."))) from error
    finally:
        bar.clear()
    if not quiet:
        say(
            _(
                "Read {documents} in {seconds:.0f} s.",
                documents=_counted(done.count),
                seconds=time.monotonic() - begun,
            )
        )
        for folder in done.away:
            say(_("{folder} is not there, or its disk does not answer; what was read of it stays.", folder=folder))
        if broken:
            say(_n("{number:,} has a problem:", "{number:,} have a problem:", len(broken)))
            _problems(broken)
    if done.why:
        raise StoreError(sentences(_("{number:,} documents were not read.", number=done.left), done.why))
    return 0


def _counted(number: int) -> str:
    return _n("{number:,} document", "{number:,} documents", number)


def _folders_of(setup: Setup, index: LibraryIndex) -> LibraryFolders:
    """The folders of the configuration, without what is nanobot's own or came from outside."""
    paths, person = setup.paths, person_home(setup.env)
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
    return {one.path: DocumentFolder(named_folder(one.path, setup.env), one.outside) for one in named}


def _short(folder: Path, env: Mapping[str, str]) -> str:
    """A path with `~` for the person's own folder."""
    person = named_folder("~", env)
    return f"~/{folder.relative_to(person)}" if person in folder.parents else str(folder)
