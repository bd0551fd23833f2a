"""The tools of ours as the configuration has them: each is offered before it is imported, and imported when called."""

import asyncio
import contextlib
import io
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, tzinfo
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from nanobot.agent.tools.base import ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.offers import (
    ASK_DESCRIPTION,
    FILE_DESCRIPTIONS,
    LEARN_DESCRIPTION,
    LIBRARY_DESCRIPTION,
    MESSAGE_DESCRIPTION,
    RECALL_DESCRIPTION,
    REMEMBER_DESCRIPTION,
    SKILL_DESCRIPTION,
    TASK_DESCRIPTION,
    TODO,
    TODO_DESCRIPTION,
    exec_description,
)
from nanobot.bus.events import InboundMessage
from nanobot.config.paths import PEOPLE, Paths, folder_name
from nanobot.config.proxy import Proxies
from nanobot.config.schema import LibraryConfig
from nanobot.config.schema_tools import FileRootConfig, ToolsConfig
from nanobot.errors import NanobotError, SkipTool, UsageError
from nanobot.messages import Role
from nanobot.security.projects import Project, counts
from nanobot.session.ledger import Ledger
from nanobot.utils.host import shipped

if TYPE_CHECKING:
    from nanobot.agent.tools.commands.background import BackgroundTasks
    from nanobot.agent.tools.commands.execute import ExecTool
    from nanobot.agent.tools.files.read import ReadFileTool
    from nanobot.agent.tools.message import Messenger
    from nanobot.agent.tools.work.watch import WatchControl
    from nanobot.files.spaces import FileSpaces, FileUser
    from nanobot.library.forgotten import Forgets
    from nanobot.library.index import LibraryIndex
    from nanobot.library.known import KnownFacts
    from nanobot.library.memory import MemoryFiles
    from nanobot.library.talk import Conversations
    from nanobot.schedule.appointments import Appointments
    from nanobot.security.paths import Root
    from nanobot.security.sandbox import Sandbox
    from nanobot.skills.shelf import SkillShelf
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

    def factories(self) -> dict[str, Callable[[], ToolLike]]:
        """A factory for each tool; it raises `SkipTool` where files are switched off."""
        return {name: partial(self._offered, name) for name in FILE_DESCRIPTIONS}

    @property
    def offered(self) -> bool:
        """Whether there are tools for files."""
        return self._config.profile != "web"

    def _offered(self, name: str) -> ToolLike:
        if not self.offered:
            raise SkipTool('tools.profile is "web"')
        return DeferredTool(name, lambda: self._tools[name], FILE_DESCRIPTIONS[name])

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
        return FileSpaces(self._roots(), paths.home, (paths.config, paths.database), self.person, self._outside)

    def begin(self) -> None:
        """Open what is known of files, where something is: every prompt asks which of them came from outside."""
        if (self._paths.home / "files" / "files.db").exists():
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
        spaces, user, chat = self.spaces, _user_of(message), f"{message.address.key} {message.sender.id}"
        return await asyncio.to_thread(lambda: spaces.of(user).undo(chat))

    async def changes_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        """The files and commands that would be taken back; none where this person has no files here."""
        user, chat = _user_of(message), f"{message.address.key} {message.sender.id}"
        if not (self._paths.home / "files" / "files.db").exists() or not self.spaces.may(user):
            return ()
        spaces = self.spaces
        return await asyncio.to_thread(lambda: spaces.of(user).changes_since(chat, at.timestamp()))

    async def undo_since(self, message: InboundMessage, at: datetime) -> tuple[str, ...]:
        """Bring back what the files of this person were at a time, as far as this chat has changed them."""
        spaces, user, chat = self.spaces, _user_of(message), f"{message.address.key} {message.sender.id}"
        return await asyncio.to_thread(lambda: spaces.of(user).undo_since(chat, at.timestamp()))

    async def trust(self, message: InboundMessage, name: str) -> str:
        """Count a file as the person's own, who has read it, or list those that are not. Raises `NanobotError`."""
        spaces, user = self.spaces, _user_of(message)
        return await asyncio.to_thread(lambda: spaces.of(user).origins.trust(name))

    async def keep_result(self, message: InboundMessage, text: str, labels: tuple[str, ...]) -> str:
        """Keep a result that is too long for a request where `read_file` pages through it; its path, empty where the
        person has no files. Raises `NanobotError` and `OSError`."""
        from nanobot.files.outputs import keep_output
        from nanobot.files.versions import MAX_OUTPUT

        user = _user_of(message)
        if self._config.profile == "web" or not self.spaces.may(user):
            return ""
        whole, spaces = io.BytesIO(text.encode("utf-8", "replace")[:MAX_OUTPUT]), self.spaces
        return await asyncio.to_thread(lambda: keep_output(spaces.of(user), whole, labels))

    async def receive(self, message: InboundMessage, file: Path, name: str) -> str:
        """Put a file that came with a message where the tools of its sender reach it; its path there, empty where they
        have no files. Raises `NanobotError` and `OSError`."""
        user = _user_of(message)
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
    person = Path(env["HOME"]) if env.get("HOME") else Path.home()
    beside = (folder for place, folder in skill_folders(paths, project, env) if place in ("folder", "home"))
    return FileTools(config, paths, person, outside, tuple(beside))


def skill_folders(paths: Paths, project: Project | None, env: Mapping[str, str]) -> "tuple[tuple[Place, Path], ...]":
    """Where skills may lie, the first first; those of a project only when it is trusted."""
    person = Path(env["HOME"]) if env.get("HOME") else Path.home()
    own: list[tuple[Place, Path]] = [("workspace", paths.workspace / "skills")]
    if not counts(paths.workspace, project):
        own = []
    within: list[tuple[Place, Path]] = [("home", person)]
    if project is not None and not project.workspace and counts(project.folder, project):
        within.insert(0, ("folder", project.folder))
    others = [(place, top / name / "skills") for name in (".agents", ".claude") for place, top in within]
    return (*own, *others, ("shipped", shipped("skills/shipped")))


def talk_tools(
    files: FileTools, messengers: "Callable[[], Mapping[str, Messenger]]", media: Path
) -> dict[str, Callable[[], ToolLike]]:
    """A factory for each tool by which the agent speaks beside its answer, as in `MessageTool`."""

    def message() -> ToolLike:
        from nanobot.agent.tools.message import MessageTool

        return MessageTool(files.spaces, messengers(), media)

    def ask() -> ToolLike:
        from nanobot.agent.tools.talk import AskTool

        return AskTool()

    def todo() -> ToolLike:
        from nanobot.agent.tools.talk import TodoTool

        return TodoTool()

    return {
        "ask": lambda: DeferredTool("ask", ask, ASK_DESCRIPTION),
        "message": lambda: DeferredTool("message", message, MESSAGE_DESCRIPTION),
        TODO: lambda: DeferredTool(TODO, todo, TODO_DESCRIPTION),
    }


class SkillTools:
    """The skills in these folders, and the tools that read and write them; `files` says who has files. Without a ledger
    nothing is kept of them."""

    def __init__(self, folders: "tuple[tuple[Place, Path], ...]", files: FileTools) -> None:
        self._folders = folders
        self._files = files
        self.ledger: Ledger | None = None

    def factories(self) -> dict[str, Callable[[], ToolLike]]:
        """A factory for each tool; it raises `SkipTool` where nothing can be written."""
        return {"skill": lambda: DeferredTool("skill", self._tool, SKILL_DESCRIPTION), "learn": self._offer_learn}

    def _offer_learn(self) -> ToolLike:
        if not self._files.offered or self._folders[0][0] != "workspace":
            raise SkipTool("no skill can be written here, for there are no files or the workspace is not trusted")
        return DeferredTool("learn", self._learn, LEARN_DESCRIPTION)

    def _learn(self) -> ToolLike:
        from nanobot.agent.tools.knowledge.learn import LearnTool

        if self.ledger is None:
            raise SkipTool("nothing is kept here")
        return LearnTool(self._files.spaces, self.shelf, self.ledger.sessions)

    def _tool(self) -> ToolLike:
        from nanobot.agent.tools.knowledge.skill import SkillTool

        return SkillTool(self.shelf)

    @cached_property
    def shelf(self) -> "SkillShelf":
        from nanobot.skills.shelf import SkillShelf

        return SkillShelf(self._folders, self.ledger)

    async def listing(self) -> str:
        """What the owner's model is told of the skills; where there are none but ours, one line of their names."""
        own = [folder for place, folder in self._folders if place != "shipped"]
        if await asyncio.to_thread(_any_within, own):
            return await self.shelf.listing()
        names = await asyncio.to_thread(lambda: sorted(os.listdir(self._folders[-1][1])))  # noqa: PTH208 - names
        return f"There are: {', '.join(names)}." if names else ""


def _any_within(folders: Iterable[Path]) -> bool:
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            if any(one.is_dir() for one in entries):
                return True
    return False


class LibraryTools:
    """What finds text at hand, and notes it: recall, library and remember, and lines of memory beside a question.

    They share the one `index`, a file, or None where nothing is kept. The memory files of people are below `memory`, or
    None where they are not to be read. `zone` is that of the person; `ledger` holds the conversations.
    """

    def __init__(
        self, config: LibraryConfig, index: Path | None, memory: Path | None, files: FileTools, zone: tzinfo
    ) -> None:
        self._config = config
        self._file = index
        self._folder = memory
        self._files = files
        self._zone = zone
        self.ledger: Ledger | None = None
        self._lock = threading.Lock()
        self._index: LibraryIndex | None = None

    def docs_tool(self) -> ToolLike:
        from nanobot.agent.tools.docs import NanobotDocsTool

        return NanobotDocsTool(index=self.index)

    def factories(self) -> dict[str, Callable[[], ToolLike]]:
        """A factory for each tool; it raises `SkipTool` where there is nothing to find."""
        return {"recall": self._offer_recall, "library": self._offer_library, "remember": self._offer_remember}

    def _offer_recall(self) -> ToolLike:
        if self._file is None:
            raise SkipTool("this conversation leaves no trace, and finds none of others")
        return DeferredTool("recall", self._recall, RECALL_DESCRIPTION)

    def _offer_library(self) -> ToolLike:
        if not self._config.folders or self._file is None:
            raise SkipTool("no folder of documents is named; `nanobot library add FOLDER` adds one")
        return DeferredTool("library", self._library, LIBRARY_DESCRIPTION)

    def _offer_remember(self) -> ToolLike:
        if not self._files.offered or self._folder is None:
            raise SkipTool('tools.profile is "web"' if self._folder else "nobody has said that this folder is trusted")
        return DeferredTool("remember", self._remember, REMEMBER_DESCRIPTION)

    def _remember(self) -> ToolLike:
        from nanobot.agent.tools.knowledge.remember import RememberTool

        return RememberTool(self._files.spaces, self._zone)

    def _recall(self) -> ToolLike:
        from nanobot.agent.tools.library import RecallTool

        if self.ledger is None:
            raise SkipTool("there are no conversations")
        return RecallTool(self.index, self.ledger.sessions, self._talk(self.ledger), self._memory, self._zone)

    def _library(self) -> ToolLike:
        from nanobot.agent.tools.library import LibraryTool

        return LibraryTool(self.index)

    @property
    def index(self) -> "LibraryIndex":
        """The one connection of this process; threads ask for it too."""
        from nanobot.library.index import LibraryIndex

        with self._lock:
            if self._index is None:
                self._index = LibraryIndex(self._file)
            return self._index

    @cached_property
    def _memory(self) -> "MemoryFiles | None":
        from nanobot.library.memory import MemoryFiles

        return MemoryFiles(self._folder, self.index, self._files.foreign_below) if self._folder else None

    async def keep(self, config: Path, env: Mapping[str, str]) -> None:
        """Keep the index up to date until cancelled: conversations, and the documents that `config` names."""
        from nanobot.library.upkeep import LibraryUpkeep

        if self._file is None or self.ledger is None:
            return
        named = ("--config", str(config)) if self._config.folders else None
        await LibraryUpkeep(self._talk(self.ledger), self._config.minutes, named, env).run()

    def _talk(self, ledger: Ledger) -> "Conversations":
        from nanobot.library.forgotten import ForgottenFacts
        from nanobot.library.talk import Conversations

        return Conversations(ledger.sessions, self.index, ForgottenFacts(ledger))

    async def known(self, message: InboundMessage, words: str) -> str:
        """What is noted of the person who writes this message, as `KnownFacts.shown` has it."""
        return await self._facts().shown(_user_of(message), words)

    async def forget(self, message: InboundMessage, words: str) -> str:
        """Take something away of what is known of this person, as `KnownFacts.forget` has it."""
        chat = f"{message.address.key} {message.sender.id}"
        return await self._facts().forget(_user_of(message), chat, words)

    def _facts(self) -> "KnownFacts":
        from nanobot.library.forgotten import ForgottenFacts
        from nanobot.library.known import KnownFacts

        if self._file is None or self.ledger is None or self._memory is None:
            raise UsageError("There is no memory here: nothing of this talk is kept, or the folder is not trusted.")
        gone = ForgottenFacts(self.ledger)
        return KnownFacts(self._files.spaces, self._memory, self.index, self.ledger.sessions, gone)

    async def forgets(self, owner: str) -> "Forgets":
        """What a person, or the owner as the empty one, has taken away. Raises `StoreError`."""
        from nanobot.library.forgotten import ForgottenFacts

        return await ForgottenFacts(self.ledger).forgets(owner) if self.ledger is not None else lambda _text, _at: False

    async def remembered(self, message: InboundMessage, role: Role, shown: frozenset[str]) -> str:
        """The few lines of the person's memory that fit what they say, besides the files that are `shown`; or empty."""
        hidden = self._file is None or not message.direct or role == "guest"
        if hidden or self._folder is None or not message.content.strip():
            return ""
        owner = "" if role == "owner" else f"{message.address.channel}:{message.sender.id}"
        try:
            return await asyncio.to_thread(self._remembered, self._folder, message.content, owner, shown)
        except (OSError, sqlite3.Error) as error:
            logger.warning("memory could not be searched: {}", error)
            return ""

    def _remembered(self, workspace: Path, question: str, owner: str, shown: frozenset[str]) -> str:
        folder = workspace / (f"{PEOPLE}/{folder_name(owner)}" if owner else "") / "memory"
        try:
            names = {f"memory/{name}" for name in os.listdir(folder) if name.endswith(".md")}  # noqa: PTH208 - names
        except OSError:
            return ""
        if names <= shown or self._memory is None:
            return ""
        from nanobot.library.memory import remembered

        return remembered(self._memory.beside(question, owner, shown))

    def close(self) -> None:
        if self._index is not None:
            self._index.close()


def _user_of(message: InboundMessage) -> "FileUser":
    from nanobot.files.spaces import FileUser

    sender, channel = message.sender, message.address.channel
    return FileUser(sender.role, f"{channel}:{sender.id}", message.direct, "files" in sender.granted)


class CommandTools:
    """The tools for commands as the configuration has them, in the folders of `files`. `env` are nanobot's own
    variables; what runs in the background is noted in `folder`.
    """

    def __init__(self, config: ToolsConfig, files: FileTools, folder: Path | None, env: Mapping[str, str]) -> None:
        self._config = config
        self._files = files
        self._folder = folder
        self._env = env
        self._missing = ""
        self._sandbox: Sandbox | None = None
        self._exec: ExecTool | None = None
        #: What runs in the background, where there are commands.
        self.tasks: BackgroundTasks | None = None

    async def find_sandbox(self) -> None:
        """Try which sandbox works, where commands are wanted at all."""
        if self._config.profile != "full":
            self._missing = f'tools.profile is "{self._config.profile}"; commands belong to "full"'
        elif not self._config.exec.enable:
            self._missing = "tools.exec.enable is false"
        else:
            from nanobot.agent.tools.commands.background import BackgroundTasks
            from nanobot.security.sandbox import Reason, choose

            found = await choose(self._config.exec.sandbox)
            if isinstance(found, Reason):
                self._missing = found.text
            else:
                self._sandbox, self.tasks = found, BackgroundTasks(self._folder)

    def sandbox_line(self) -> str:
        """For /status: which sandbox it is, and why not another; empty where there are no commands."""
        return f"Sandbox for commands: {self._sandbox.note}" if self._sandbox else ""

    def factories(self) -> dict[str, Callable[[], ToolLike]]:
        """A factory for each tool; it raises `SkipTool` where there are no commands."""
        return {name: partial(self._offered, name) for name in ("exec", "task")}

    def _offered(self, name: str) -> ToolLike:
        if self.tasks is None:
            raise SkipTool(self._missing)
        about = exec_description(self._config.exec) if name == "exec" else TASK_DESCRIPTION
        return DeferredTool(name, self._make_exec if name == "exec" else self._make_task, about)

    def _make_exec(self) -> ToolLike:
        from nanobot.agent.tools.commands.execute import ExecSetup, ExecTool

        if self._sandbox is None or self.tasks is None:
            raise SkipTool(self._missing)
        find_proxy = Proxies(self._config.web.proxy, self._env).of
        setup = ExecSetup(self._files.spaces, self.tasks, self._env, self._config.ssrf_whitelist, find_proxy)
        self._exec = ExecTool(self._config.exec, self._sandbox, setup)
        return self._exec

    def _make_task(self) -> ToolLike:
        from nanobot.agent.tools.commands.background import TaskTool

        if self.tasks is None:
            raise SkipTool(self._missing)
        return TaskTool(self.tasks, self._config.exec.max_output_chars)

    async def aclose(self) -> None:
        """End what runs."""
        if self._exec is not None:
            await self._exec.aclose()


def spawn_tool() -> ToolLike:
    """The tool that gives a part of the work to a helper."""
    from nanobot.agent.tools.work.spawn import SpawnTool

    return SpawnTool()


def watch_tool(watches: "Callable[[], WatchControl]") -> ToolLike:
    """The tool that watches pages and more."""
    from nanobot.agent.tools.work.watch import WatchTool

    return WatchTool(watches())


def schedule_tool(appointments: "Callable[[], Appointments]") -> ToolLike:
    """The tool that keeps appointments."""
    from nanobot.agent.tools.work.schedule import ScheduleTool

    return ScheduleTool(appointments())
