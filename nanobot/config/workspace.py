"""The first start: the home, and a workspace filled from the templates that travel with the package."""

import errno
import os
from pathlib import Path

from nanobot.config.paths import Paths, closed, not_writable

#: Files of a new workspace, relative to it and to the templates.
SEEDS = ("SOUL.md", "AGENTS.md", "USER.md", "memory/MEMORY.md")


def templates_dir() -> Path:
    """The templates: inside the installed package, else beside it in a checkout. Raises `FileNotFoundError`."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "templates", package.parent / "templates"):
        if (folder / SEEDS[0]).is_file():
            return folder
    raise FileNotFoundError(f"the templates are missing from {package}; install nanobot again")


def prepare_home(paths: Paths) -> tuple[Path, ...]:
    """Make the home and the workspace usable; the files that were created, none on a later start.

    Raises `ConfigError` where a folder cannot be made or written.
    """
    judge_home(paths)
    paths.prepare()
    try:
        return seed_workspace(paths.workspace)
    except OSError as error:
        raise not_writable(error, paths.workspace) from error


def judge_home(paths: Paths) -> None:
    """Say whether a start can make and write its folders, and create nothing. Raises `ConfigError`."""
    for folder in (paths.home, *(() if _seeded(paths.workspace) else (paths.workspace,))):
        there = next(place for place in (folder, *folder.parents) if os.path.lexists(place))
        if not there.is_dir():
            raise not_writable(NotADirectoryError(errno.ENOTDIR, f"{there} is no folder", str(folder)), folder)
        if not os.access(there, os.W_OK | os.X_OK):
            raise not_writable(closed(folder, there), folder)


def _seeded(workspace: Path) -> bool:
    return all((workspace / seed).exists() for seed in SEEDS)


def seed_workspace(workspace: Path) -> tuple[Path, ...]:
    """Put every seed that is missing into `workspace`; the files that were created.

    A file that exists is never touched: an edit stays, and so does a file that was emptied on purpose.
    """
    if _seeded(workspace):
        return ()
    source = templates_dir()
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    created: list[Path] = []
    for seed in SEEDS:
        target = workspace / seed
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # "x" leaves a file alone that another process has made in the meantime.
            with target.open("x", encoding="utf-8") as file:
                file.write((source / seed).read_text(encoding="utf-8"))
        except FileExistsError:
            continue
        created.append(target)
    return tuple(created)
