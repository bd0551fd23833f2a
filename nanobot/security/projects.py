"""Folders of projects, and what in them could steer the agent.

A project's instructions come from whoever made the project. They count after one question for its folder; until then
they are content from outside like any other.
"""

import os
from pathlib import Path

from msgspec import Struct

from nanobot.errors import UsageError
from nanobot.utils.translation import _

#: What of a workspace steers the agent or runs by itself, here or in other programs of the family.
STEERING = (
    "AGENTS.md",
    "CLAUDE.md",
    "SOUL.md",
    "USER.md",
    "HEARTBEAT.md",
    "memory",
    "skills",
    "templates",
    "hooks",
    ".agents",
    ".claude",
    ".mcp.json",
)
#: The instructions of a project, of which the first that is there counts.
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
#: Folders of skills in a project.
SKILLS = (".agents/skills", ".claude/skills")
#: The kinds under which the answers stand among the permissions of the owner.
TRUSTED, NOT_TRUSTED = "folder", "folder-no"


class Project(Struct, frozen=True):
    """A folder that is not nanobot's own. `holds` is what of it would steer; `workspace`: it is the workspace, too.

    `above` are the folders of its git repository above it, from the top down, whose instructions count with its own.
    `trusted` is what the owner has said of all this.
    """

    folder: Path
    holds: tuple[str, ...]
    workspace: bool = False
    trusted: bool = False
    above: tuple[Path, ...] = ()


def counts(folder: Path, project: Project | None) -> bool:
    """Whether what stands in a folder may tell nanobot what to do or make it start something, of whatever kind:
    instructions, memory, templates, and likewise skills, hooks or MCP servers where something reads those.

    What is nanobot's own may; what is the `project` in which the owner works may after their yes.
    """
    return project is None or project.trusted or folder.resolve() != project.folder


def project_of(here: Path, workspace: Path, own: Path, home: Path) -> Project | None:
    """The project in which a person works: the `workspace` that they named, else the folder `here` where they are.

    None where that is nanobot's `own` workspace or in its `home`, or holds nothing that would steer.
    """
    work, own, home = (Path(os.path.realpath(one)) for one in (workspace, own, home))  # bears a link to itself
    named = work != own
    folder = work if named else here.resolve()
    if any(one in (folder, *folder.parents) for one in (own, home)):
        return None
    try:
        there = [name for name in (STEERING if named else (*INSTRUCTIONS, *SKILLS)) if (folder / name).exists()]
    except PermissionError as error:
        raise UsageError(_("{path} cannot be read: {why}.", path=folder, why=error.strerror)) from error
    holds = [f"{name}/" if (folder / name).is_dir() else name for name in there]
    above = () if named else _above(folder, (own, home))
    found = (next((one / name for name in INSTRUCTIONS if (one / name).is_file()), None) for one in above)
    holds += [str(path) for path in found if path is not None]
    return Project(folder, tuple(holds), named, above=above) if holds or named else None


def _above(folder: Path, own: tuple[Path, ...]) -> tuple[Path, ...]:
    """The folders above this one from the top of its git repository down; none where nanobot's own are in that."""
    at = folder
    while not (at / ".git").exists():
        at = at.parent
        if at == at.parent or any(one.is_relative_to(at) for one in own):
            return ()
    return tuple(one for one in reversed(folder.parents) if one.is_relative_to(at))
