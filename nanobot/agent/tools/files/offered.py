"""The tools for files as the configuration has them, and where files and skills lie."""

import asyncio
import io
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from nanobot.agent.tools.base import ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.offers import FILE_OFFERS
from nanobot.agent.tools.registry import ToolFactory, skipped
from nanobot.bus.events import InboundMessage
from nanobot.config.paths import Paths, person_home
from nanobot.config.schema_tools import FileRootConfig, ToolsConfig
from nanobot.errors import NanobotError
from nanobot.security.projects import Project, counts
from nanobot.utils.host import shipped
from nanobot.utils.translation import N_, Later

if TYPE_CHECKING:
    from nanobot.agent.tools.files.read import ReadFileTool
    from nanobot.files.spaces import FileSpaces, FileUser
    from nanobot.security.paths import Root
    from nanobot.skills.skill import Place


class FileTools:
    """The tools for files as the configuration has them, and what they share; nothing is imported before one is called.

    `person` is the folder of who runs nanobot, which `~` stands for; `outside` one whose files are of others. `beside`
    are folders of skills, which may be read.
    """

    def __init__(
        self,
        config: ToolsConfig,
        paths: Paths,
        person: Path,
        outside: Path | None = None,
        beside: tuple[Path, ...] = (),
    ) -> None:
        self._outside = outside
        self._beside = beside
        self._config = config
        self._paths = paths
        self.person = person

    def factories(self) -> dict[str, ToolFactory]:
        """A factory for each tool; it raises `SkipTool` where files are switched off."""
        if not self.offered:
            return dict.fromkeys(FILE_OFFERS, skipped(Later(N_('tools.profile is "web"'))))
        return {name: partial(DeferredTool, name, partial(self._tool, name)) for name in FILE_OFFERS}

    @property
    def offered(self) -> bool:
        """Whether there are tools for files."""
        return self._config.profile != "web"

    def _tool(self, name: str) -> ToolLike:
        return self._tools[name]

    @cached_property
    def _tools(self) -> dict[str, ToolLike]:
        """Ours; when one is first called, what was kept too long goes in the background."""
        from nanobot.agent.tools.files.change import DeleteFileTool, EditFileTool, WriteFileTool
        from nanobot.agent.tools.files.find import GlobTool, GrepTool, ListDirTool

        spaces = self.spaces
        self._pruning = asyncio.create_task(self._prune(spaces))
        changing = (WriteFileTool(spaces), EditFileTool(spaces), DeleteFileTool(spaces))
        finding = (ListDirTool(spaces), GlobTool(spaces), GrepTool(spaces))
        return {tool.name: tool for tool in (self._reading, *changing, *finding)}

    @cached_property
    def _reading(self) -> "ReadFileTool":
        from nanobot.agent.tools.files.read import ReadFileTool

        return ReadFileTool(self.spaces, media=self._paths.media, limit=self._config.files.max_read_bytes)

    @cached_property
    def spaces(self) -> "FileSpaces":
        """The files of everybody."""
        from nanobot.files.spaces import FileSpaces

        paths = self._paths
        forbidden, most = (paths.config, paths.database), self._config.files.max_snapshot_bytes
        return FileSpaces(self._roots(), paths.home, forbidden, self.person, self._outside, snapshot_bytes=most)

    def begin(self) -> None:
        """Open what is known of files, where something is: every prompt asks which of them came from outside."""
        if "spaces" not in vars(self) and Path(f"{self._paths.home}/files/files.db").exists():
            _ = self.spaces

    def foreign_below(self, folder: Path) -> frozenset[str]:
        """The files of a folder that hold content from outside, as absolute paths. Waits for the disk."""
        self.begin()  # another process may have written the first of them
        known: FileSpaces | None = vars(self).get("spaces")  # nothing was changed where there is none
        return known.foreign_below(folder) if known is not None else frozenset()

    def doubted(self, paths: Iterable[Path]) -> frozenset[Path]:
        """Those of these files that a command which runs may have written. Waits for the disk."""
        known: FileSpaces | None = vars(self).get("spaces")
        return known.doubted(paths) if known is not None else frozenset()

    @staticmethod
    async def _prune(spaces: "FileSpaces") -> None:
        try:
            await asyncio.to_thread(spaces.prune)
        except (NanobotError, OSError) as error:
            logger.warning("old versions of files could not be deleted: {}", error)

    def _roots(self) -> "tuple[Root, ...]":
        from nanobot.security.paths import Root

        listed = () if self._config.restrict_to_workspace else self._config.files.roots
        roots = [FileRootConfig(one) if isinstance(one, str) else one for one in listed]
        others = (Root(self._folder(one.path), one.access == "write") for one in roots)
        skills = () if self._config.restrict_to_workspace else tuple(Root(one) for one in self._beside if one.is_dir())
        return (Root(self._paths.workspace, writable=True), *others, *skills)

    def problems(self) -> list[str]:
        """What is wrong with the folders that the configuration names."""
        named = [one if isinstance(one, str) else one.path for one in self._config.files.roots]
        missing = [name for name in named if not self._folder(name).is_dir()]
        return [f"tools.files.roots: there is no folder {name}, so nothing can be read there" for name in missing]

    def _folder(self, text: str) -> Path:
        """A folder as the configuration writes it: `~` is the person's, and a short path begins in the workspace."""
        inside = text == "~" or text.startswith("~/")
        return self.person / text[2:] if inside else self._paths.workspace / text

    async def undo(self, message: InboundMessage) -> str:
        """Bring back the last change of files that was made for this person in this chat. Raises `NanobotError`."""
        spaces, user, chat = self.spaces, user_of(message), f"{message.address.lasting} {message.sender.id}"
        return await asyncio.to_thread(lambda: spaces.of(user, own=True).undo(chat))

    async def changes_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        """The files and commands that would be taken back; none where this person has no files here."""
        spaces, user, chat = self.spaces, user_of(message), f"{message.address.lasting} {message.sender.id}"
        if not (self._paths.home / "files" / "files.db").exists() or not spaces.may(user, own=True):
            return ()
        return await asyncio.to_thread(lambda: spaces.of(user, own=True).changes_since(chat, at.timestamp()))

    async def undo_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        """Bring back what the files of this person were at a time, as far as this chat has changed them."""
        spaces, user, chat = self.spaces, user_of(message), f"{message.address.lasting} {message.sender.id}"
        return await asyncio.to_thread(lambda: spaces.of(user, own=True).undo_since(chat, at.timestamp()))

    async def trust(self, message: InboundMessage, name: str) -> str:
        """Count a file as the person's own, who has read it, or list those that are not. Raises `NanobotError`."""
        spaces, user = self.spaces, user_of(message)
        return await asyncio.to_thread(lambda: spaces.of(user).origins.trust(name))

    async def keep_result(self, message: InboundMessage, text: str, labels: tuple[str, ...]) -> str:
        """Keep a result that is too long for a request where `read_file` pages through it; its path, empty where the
        person has no files. Raises `NanobotError` and `OSError`."""
        from nanobot.files.outputs import keep_output
        from nanobot.files.versions import MAX_OUTPUT

        user = user_of(message)
        if self._config.profile == "web" or not self.spaces.may(user):
            return ""
        whole, spaces = io.BytesIO(text.encode("utf-8", "replace")[:MAX_OUTPUT]), self.spaces
        return await asyncio.to_thread(lambda: keep_output(spaces.of(user), whole, labels))

    async def receive(self, message: InboundMessage, file: Path, name: str) -> str:
        """Put a file that came with a message where the tools of its sender reach it; its path there, empty where they
        have no files. Raises `NanobotError` and `OSError`."""
        user = user_of(message)
        if self._config.profile == "web" or not self.spaces.may(user):
            return ""
        return await asyncio.to_thread(self.spaces.receive, user, file, name)

    async def locate(self, file: Path, *, copy: bool) -> str:
        """The path by which the tools reach a file of this machine that its owner names, as `receive` has it."""
        return "" if self._config.profile == "web" else await asyncio.to_thread(self.spaces.locate, file, copy=copy)

    async def aclose(self) -> None:
        if "_reading" in vars(self):
            await self._reading.aclose()
        if "_tools" in vars(self):
            await self._pruning
        if "spaces" in vars(self):
            self.spaces.close()


def files_of(config: ToolsConfig, paths: Paths, project: Project | None, env: Mapping[str, str]) -> FileTools:
    """The tools for files; what lies in a project that nobody trusts is of others."""
    outside = project.folder if project is not None and not counts(project.folder, project) else None
    person = person_home(env)
    beside = (folder for place, folder in skill_folders(paths, project, env) if place in ("folder", "home"))
    return FileTools(config, paths, person, outside, tuple(beside))


def skill_folders(paths: Paths, project: Project | None, env: Mapping[str, str]) -> "tuple[tuple[Place, Path], ...]":
    """Where skills may lie, the first first; those of a project only when it is trusted."""
    person = person_home(env)
    own: list[tuple[Place, Path]] = [("workspace", paths.workspace / "skills")]
    if not counts(paths.workspace, project):
        own = []
    within: list[tuple[Place, Path]] = [("home", person)]
    if project is not None and not project.workspace and counts(project.folder, project):
        within.insert(0, ("folder", project.folder))
    others = [(place, top / name / "skills") for name in (".agents", ".claude") for place, top in within]
    return (*own, *others, ("shipped", shipped("skills/shipped")))


def user_of(message: InboundMessage) -> "FileUser":
    """Who sent a message, as the files know people."""
    from nanobot.files.spaces import FileUser

    return FileUser(message.sender.role, message.person, message.direct, "files" in message.sender.granted)
