"""The tools for skills, documents and memory as the configuration has them."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterable, Mapping
from datetime import tzinfo
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from nanobot.agent.tools.base import ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.files.offered import FileTools, user_of
from nanobot.agent.tools.registry import ToolFactory, skipped
from nanobot.bus.events import InboundMessage
from nanobot.config.paths import PEOPLE, folder_name
from nanobot.config.schema import LibraryConfig
from nanobot.errors import StoreError, UsageError
from nanobot.messages import Role
from nanobot.session.ledger import Ledger
from nanobot.utils.translation import N_, Later

if TYPE_CHECKING:
    from nanobot.library.forgotten import Forgets
    from nanobot.library.index import LibraryIndex
    from nanobot.library.known import KnownFacts
    from nanobot.library.memory import MemoryFiles
    from nanobot.library.session_search import FoundSessions
    from nanobot.library.talk import Conversations
    from nanobot.session.listing import SessionHolder
    from nanobot.skills.shelf import SkillShelf
    from nanobot.skills.skill import Place


class SkillTools:
    """The skills in these folders, and the tools that read and write them; `files` says who has files. What is kept of
    them is in the `ledger`, which is there when a tool is called."""

    ledger: Ledger

    def __init__(self, folders: "tuple[tuple[Place, Path], ...]", files: FileTools) -> None:
        self._folders = folders
        self._files = files

    def factories(self) -> dict[str, ToolFactory]:
        """A factory for each tool; it raises `SkipTool` where nothing can be written."""
        learn: ToolFactory = partial(DeferredTool, "learn", self._learn)
        if not self._files.offered or self._folders[0][0] != "workspace":
            learn = skipped(
                Later(N_("no skill can be written here, for there are no files or the workspace is not trusted"))
            )
        return {"skill": partial(DeferredTool, "skill", self._tool), "learn": learn}

    def _learn(self) -> ToolLike:
        from nanobot.agent.tools.knowledge.learn import LearnTool

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
    None where they are not to be read. `zone` is that of the person; `ledger`, which holds the conversations, is there
    when a tool is called.
    """

    ledger: Ledger

    def __init__(
        self, config: LibraryConfig, index: Path | None, memory: Path | None, files: FileTools, zone: tzinfo
    ) -> None:
        self._config = config
        self._file = index
        self._folder = memory
        self._files = files
        self._zone = zone
        self._lock = threading.Lock()
        self._index: LibraryIndex | None = None

    def docs_tool(self) -> ToolLike:
        from nanobot.agent.tools.docs import NanobotDocsTool

        return NanobotDocsTool(index=self.index)

    def factories(self) -> dict[str, ToolFactory]:
        """A factory for each tool; it raises `SkipTool` where there is nothing to find."""
        recall: ToolFactory = partial(DeferredTool, "recall", self._recall)
        library: ToolFactory = partial(DeferredTool, "library", self._library)
        remember: ToolFactory = partial(DeferredTool, "remember", self._remember)
        if self._file is None:
            recall = skipped(Later(N_("this conversation leaves no trace, and finds none of others")))
        if not self._config.folders or self._file is None:
            library = skipped(Later(N_("no folder of documents is named; `nanobot library add FOLDER` adds one")))
        if self._folder is None:
            remember = skipped(Later(N_("nobody has said that this folder is trusted")))
        elif not self._files.offered:
            remember = skipped(Later(N_('tools.profile is "web"')))
        return {"recall": recall, "library": library, "remember": remember}

    def _remember(self) -> ToolLike:
        from nanobot.agent.tools.knowledge.remember import RememberTool

        return RememberTool(self._files.spaces, self._zone)

    def _recall(self) -> ToolLike:
        from nanobot.agent.tools.knowledge.library import RecallTool

        return RecallTool(self.index, self.ledger.sessions, self._talk(), self._memory, self._zone)

    def _library(self) -> ToolLike:
        from nanobot.agent.tools.knowledge.library import LibraryTool

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

        if self._file is None:
            return
        named = ("--config", str(config)) if self._config.folders else None
        await LibraryUpkeep(self._talk(), self._config.minutes, named, env).run()

    def _talk(self) -> "Conversations":
        from nanobot.library.forgotten import ForgottenFacts
        from nanobot.library.talk import Conversations

        return Conversations(self.ledger.sessions, self.index, ForgottenFacts(self.ledger))

    async def find_sessions(self, holder: "SessionHolder", words: str) -> "FoundSessions":
        """The sessions that this person may see that have the words, as `SessionSearch.find` has it."""
        from nanobot.library.session_search import SessionSearch

        if self._file is None:
            raise UsageError("There are no sessions here: nothing of this talk is kept.")
        return await SessionSearch(self.ledger.sessions, self.index, self._talk()).find(words, holder)

    async def known(self, message: InboundMessage, words: str) -> str:
        """What is noted of the person who writes this message, as `KnownFacts.shown` has it."""
        return await self._facts().shown(user_of(message), words)

    async def forget(self, message: InboundMessage, words: str) -> str:
        """Take something away of what is known of this person, as `KnownFacts.forget` has it."""
        chat = f"{message.address.lasting} {message.sender.id}"
        return await self._facts().forget(user_of(message), chat, words, message.id)

    def _facts(self) -> "KnownFacts":
        from nanobot.library.forgotten import ForgottenFacts
        from nanobot.library.known import KnownFacts

        if self._file is None or self._memory is None:
            raise UsageError("There is no memory here: nothing of this talk is kept, or the folder is not trusted.")
        gone = ForgottenFacts(self.ledger)
        return KnownFacts(self._files.spaces, self._memory, self.index, self.ledger.sessions, gone)

    async def forgets(self, owner: str) -> "Forgets":
        """What a person, or the owner as the empty one, has taken away. Raises `StoreError`."""
        from nanobot.library.forgotten import ForgottenFacts

        return await ForgottenFacts(self.ledger).forgets(owner)

    def remembered(self, message: InboundMessage, role: Role, shown: frozenset[str]) -> str:
        """The few lines of the person's memory that fit what they say, besides the files that are `shown`; or empty.

        It reads, so it is for a thread.
        """
        hidden = self._file is None or not message.direct or role == "guest"
        if hidden or self._folder is None or not message.content.strip():
            return ""
        owner = "" if role == "owner" else message.person
        try:
            return self._remembered(self._folder, message.content, owner, shown)
        except (OSError, StoreError) as error:
            logger.warning("memory could not be searched: {}", error)
            return ""

    def _remembered(self, workspace: Path, question: str, owner: str, shown: frozenset[str]) -> str:
        folder = f"{workspace}/{PEOPLE}/{folder_name(owner)}/memory" if owner else f"{workspace}/memory"
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
