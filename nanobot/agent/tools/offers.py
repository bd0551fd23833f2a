"""What a model may ask of the tools of ours, and tools that are offered before they are imported.

Most questions need no tool or one, and importing those that search and read takes a third of a start.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from loguru import logger
from msgspec import Meta, Struct

from nanobot.agent.tools.base import ToolContext, ToolLike, schema_of
from nanobot.bus.events import InboundMessage, TodoItem, TodoState
from nanobot.config.paths import Paths
from nanobot.config.schema import ExecConfig, FileRootConfig, ToolsConfig, WebFetchConfig, WebSearchConfig
from nanobot.errors import FetchError, NanobotError, SkipTool
from nanobot.providers.base import ToolSpec
from nanobot.results import SourceBook, ToolResult
from nanobot.security.policy import Access, Effect, Grant
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.text import shorten, squeeze, strip_unsafe
from nanobot.web.urls import with_scheme

if TYPE_CHECKING:
    from nanobot.agent.tools.commands.background import BackgroundTasks
    from nanobot.agent.tools.commands.execute import ExecTool
    from nanobot.agent.tools.files.read import ReadFileTool
    from nanobot.agent.tools.message import Messenger
    from nanobot.files.spaces import FileSpaces, FileUser
    from nanobot.security.paths import Root
    from nanobot.security.sandbox import Sandbox

_MARKED = re.compile(r"\s*(?:[-*+]\s+)?\[(.?)\]\s*")
_STATES: Mapping[str, TodoState] = {"x": "done", "✓": "done", ">": "doing", "~": "doing", "-": "doing"}
#: Characters of an item of a list.
_ITEM_WIDTH = 160
_NUMBER = re.compile(r"#([0-9]{1,6})|\[([0-9]{1,6})\]")


class DocsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=500, description="What to look up, in a few words.")]


class WebFetchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=1, description="The page: an http(s) URL, or #n for result n of a search.")] = (
        ""
    )
    urls: Annotated[tuple[str, ...], Meta(min_length=1, description="Up to 20 pages at once, instead of url.")] = ()
    prompt: Annotated[str, Meta(description="What to find out: alone with its URLs in it, or beside url or urls.")] = ""
    format: Annotated[Literal["markdown", "text", "html"], Meta(description="How to give an HTML page.")] = "markdown"
    max_chars: Annotated[
        Annotated[int, Meta(ge=100, le=1_000_000)] | None, Meta(description="Most characters to return.")
    ] = None
    offset: Annotated[int, Meta(ge=0, description="Character to start at, to read on in a long page.")] = 0
    find: Annotated[str, Meta(max_length=300, description="Give only the places of the page that speak of this.")] = ""
    section: Annotated[
        str,
        Meta(max_length=300, description="Give only the section under this heading; of JSON, the part at this path."),
    ] = ""
    raw: Annotated[bool, Meta(description="With format=html: keep scripts and styles.")] = False
    fresh: Annotated[bool, Meta(description="Load the page again, even if it was read a moment ago.")] = False


class WebSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="What to search for.")]
    limit: Annotated[int, Meta(ge=1, le=20, description="Number of results.")] = 5
    include_content: Annotated[bool, Meta(description="Also return page text. Costs many tokens.")] = False
    freshness: Annotated[str, Meta(description="day, week, month, year or YYYY-MM-DD..YYYY-MM-DD.")] = ""
    include_domains: Annotated[tuple[str, ...], Meta(description="Only these sites.")] = ()
    exclude_domains: Annotated[tuple[str, ...], Meta(description="Not these sites.")] = ()
    country: Annotated[str, Meta(description="Two-letter country code such as DE.")] = ""
    language: Annotated[str, Meta(description="Language code such as de or zh.")] = ""
    fresh: Annotated[bool, Meta(description="Ask again, even if this turn did so already.")] = False


_Path = Annotated[str, Meta(min_length=1, description="Below the workspace, or absolute.")]
_Folder = Annotated[str, Meta(min_length=1, description="Where to begin.")]


class ReadFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path
    offset: Annotated[int, Meta(ge=1, description="First line.")] = 1
    limit: Annotated[int, Meta(ge=1, description="Most lines.")] = 2_000


class WriteFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path
    content: str


class EditPart(Struct, frozen=True, forbid_unknown_fields=True):
    old: Annotated[str, Meta(min_length=1, description="As it stands there, and there once.")]
    new: str
    all: Annotated[bool, Meta(description="Replace it everywhere.")] = False


class EditFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path
    edits: Annotated[tuple[EditPart, ...], Meta(min_length=1)]


class ListDirArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1)] = "."


class GlobArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, max_length=500, description="Such as *.md or src/**/*.{js,ts}.")]
    path: _Folder = "."


class GrepArguments(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, Meta(min_length=1, max_length=1_000)]
    path: _Folder = "."
    glob: Annotated[str, Meta(max_length=500, description="Only files of such names.")] = ""
    ignore_case: bool = False


class DeleteFileArguments(Struct, frozen=True, forbid_unknown_fields=True):
    path: _Path


class MessageArguments(Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    files: Annotated[tuple[str, ...], Meta(max_length=10, description="Paths of files to send.")] = ()
    to: Annotated[str, Meta(description='"owner", the name of a person or group, or a number; empty: this chat.')] = ""


class AskArguments(Struct, frozen=True, forbid_unknown_fields=True):
    question: Annotated[str, Meta(min_length=1, description="One question.")]
    choices: Annotated[tuple[str, ...], Meta(min_length=2, max_length=6, description="Short answers to choose from.")]


class TodoArguments(Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[
        tuple[str, ...],
        Meta(
            max_length=30, description='The whole list: "[x] done", "[>] in work", "[ ] left", then a few words each.'
        ),
    ]


class ExecArguments(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(max_length=50_000, description="A shell command line.")] = ""
    argv: Annotated[tuple[str, ...], Meta(description="A program and its arguments, instead of command.")] = ()
    cwd: Annotated[str, Meta(description="Folder to run in; the workspace if not given.")] = ""
    timeout: Annotated[int, Meta(ge=1, le=86_400)] | None = None
    background: Annotated[bool, Meta(description="Let it go on after this call; task reads and stops it.")] = False
    network: Annotated[tuple[str, ...], Meta(description="Hosts it has to reach; there are no others.")] = ()


class TaskArguments(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[int, Meta(ge=0, description="0 lists all.")] = 0
    offset: Annotated[int, Meta(ge=0, description="Byte to read from; what is new if not given.")] | None = None
    wait: Annotated[int, Meta(ge=0, le=600, description="Seconds to wait for its end.")] = 0
    stop: bool = False


class Offer(Struct, frozen=True):
    """What is known of a tool before it is imported: its arguments, its other names, and what it does.

    `interactive` and `proposes` as in `ToolLike`.
    """

    arguments: type[Struct]
    aliases: tuple[str, ...] = ()
    access: Access = "public"
    grant: Grant = ""
    interactive: bool = False
    proposes: str = ""


#: The name of the tool whose last call is the list of a session.
TODO = "todo"
OFFERS: Mapping[str, Offer] = {
    "message": Offer(MessageArguments, ("send_message", "send_file", "SendMessage"), "talks", proposes="text"),
    "ask": Offer(AskArguments, ("AskUserQuestion", "ask_user"), "talks", interactive=True),
    "nanobot_docs": Offer(DocsArguments),
    TODO: Offer(TodoArguments, ("TodoWrite", "update_plan", "todo_write"), "talks"),
    "web_fetch": Offer(WebFetchArguments, ("FetchURL", "fetch_url", "webfetch", "WebFetch", "fetch"), proposes="url"),
    "web_search": Offer(
        WebSearchArguments,
        ("SearchWeb", "search_web", "google_web_search", "websearch", "webSearch", "WebSearch"),
    ),
    "read_file": Offer(ReadFileArguments, ("ReadFile", "Read", "view_file", "cat"), "reads", "files"),
    "list_dir": Offer(ListDirArguments, ("ListDir", "LS", "ls", "list_directory"), "reads", "files"),
    "glob": Offer(GlobArguments, ("Glob", "find_files"), "reads", "files"),
    "grep": Offer(GrepArguments, ("Grep", "search_files"), "reads", "files"),
    "write_file": Offer(WriteFileArguments, ("WriteFile", "Write", "create_file"), "changes", "files"),
    "edit_file": Offer(EditFileArguments, ("EditFile", "Edit", "str_replace", "MultiEdit"), "changes", "files"),
    "exec": Offer(
        ExecArguments,
        ("bash", "Bash", "shell", "run_shell_command", "run_command", "execute"),
        "changes",
        "exec",
        proposes="command",
    ),
    "task": Offer(TaskArguments, ("BashOutput", "bash_output", "KillShell", "kill_shell"), "changes", "exec"),
    "delete_file": Offer(DeleteFileArguments, ("DeleteFile", "Delete", "remove_file"), "changes", "files"),
}

MESSAGE_DESCRIPTION = (
    "Send files to the person, or a message to another chat that the owner allowed. "
    "Your answer goes to this chat by itself and needs no message."
)
ASK_DESCRIPTION = (
    "Ask the person one question and wait for the answer: only where you cannot go on without their decision. "
    "They tap a choice or write something else."
)
TODO_DESCRIPTION = (
    "Show the person your list of steps, for work of three steps or more. "
    "Send the whole list again when something changes."
)
DOCS_DESCRIPTION = (
    "Search nanobot's own documentation: set-up, configuration keys, models and providers, Telegram, the terminal, "
    "commands, tools, security. Use it for every question about nanobot itself, and before you change its settings."
)


#: What a model is told of the tools for files.
FILE_DESCRIPTIONS: Mapping[str, str] = {
    "read_file": "Read a file: text with its line numbers, PDF and office files as text, pictures as pictures.",
    "list_dir": "List a folder.",
    "glob": "Find files and folders by name.",
    "grep": "Find lines in files by a regular expression.",
    "write_file": "Write a whole file. What it held before is kept.",
    "edit_file": "Change pieces of a text file: all of them or none.",
    "delete_file": "Move a file or folder to the trash.",
}


TASK_DESCRIPTION = "What runs in the background: its output, and how it ended."


def exec_description(config: ExecConfig) -> str:
    """What a model is told of `exec` with these settings."""
    if config.sandbox == "none":
        return "Run a command. It reaches all that the owner reaches, so the owner is asked."
    return "Run a command in a sandbox: the workspace, no network."


def fetch_description(config: WebFetchConfig, templates: PromptTemplates) -> str:
    """What a model is told of `web_fetch` with these settings."""
    return templates.render("tools/web_fetch.md", max_chars=config.max_chars)


def search_description(config: WebSearchConfig, templates: PromptTemplates, *, fetch: bool) -> str:
    """What a model is told of `web_search` with these settings; `fetch`: `web_fetch` can be called."""
    today = datetime.now(UTC).date().isoformat()
    values = {"max_results": config.max_results, "content_budget": config.content_budget, "date": today, "fetch": fetch}
    return templates.render("tools/web_search.md", **values)


class DeferredTool(ToolLike):
    """A tool that imports and makes the real one when it is called, or asked about a call.

    `description` and the `defaults` of arguments are those of the settings in force.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ToolLike],
        description: str,
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        self._offer = OFFERS[name]
        self._spec = ToolSpec(name, description, schema_of(self._offer.arguments, defaults or {}))
        self._make = make

    @cached_property
    def tool(self) -> ToolLike:
        return self._make()

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._offer.aliases

    @property
    def access(self) -> Access:
        return self._offer.access

    @property
    def grant(self) -> Grant:
        return self._offer.grant

    @property
    def interactive(self) -> bool:
        return self._offer.interactive

    @property
    def proposes(self) -> str:
        return self._offer.proposes

    async def prepare(self, arguments: Mapping[str, object], context: ToolContext) -> None:
        await self.tool.prepare(arguments, context)

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        return self.tool.effects(arguments, context)

    @property
    def exclusive(self) -> bool:
        return self.tool.exclusive

    @property
    def ordered(self) -> bool:
        return self.tool.ordered

    @property
    def lock(self) -> str:
        return self.tool.lock

    @property
    def idempotent(self) -> bool:
        return self.tool.idempotent

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        return self.tool.addresses(arguments, context)

    def asks(self, url: str) -> bool:
        return self.tool.asks(url)

    def refuses(self, url: str) -> str:
        return self.tool.refuses(url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        return self.tool.needs_no_network(arguments, context)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        return await self.tool.call(arguments, context)


class FileTools:
    """The tools for files as the configuration has them, and what they share; nothing is imported before one is called.

    `person` is the folder of who runs nanobot, which `~` stands for; `outside` one whose files are of others.
    """

    def __init__(self, config: ToolsConfig, paths: Paths, person: Path, outside: Path | None = None) -> None:
        self._outside = outside
        self._config = config
        self._paths = paths
        self._person = person

    def factories(self) -> dict[str, Callable[[], ToolLike]]:
        """A factory for each tool; it raises `SkipTool` where files are switched off."""
        return {name: partial(self._offered, name) for name in FILE_DESCRIPTIONS}

    def _offered(self, name: str) -> ToolLike:
        if self._config.profile == "web":
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
        return FileSpaces(self._roots(), paths.home, (paths.config, paths.database), self._person, self._outside)

    def begin(self) -> None:
        """Open what is known of files, where something is: every prompt asks which of them came from outside."""
        if (self._paths.home / "files" / "files.db").exists():
            _ = self.spaces

    def foreign_below(self, folder: Path) -> frozenset[str]:
        """The files of a folder that hold content from outside, as absolute paths. Waits for the disk."""
        known: FileSpaces | None = vars(self).get("spaces")  # nothing was changed where there is none
        return known.foreign_below(folder) if known is not None else frozenset()

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
        return (Root(self._paths.workspace, writable=True), *others)

    def problems(self) -> list[str]:
        """What is wrong with the folders that the configuration names."""
        named = [one if isinstance(one, str) else one.path for one in self._config.files.roots]
        missing = [name for name in named if not self._folder(name).is_dir()]
        return [f"tools.files.roots: there is no folder {name}, so nothing can be read there" for name in missing]

    def _folder(self, text: str) -> Path:
        """A folder as the configuration writes it: `~` is the person's, and a short path begins in the workspace."""
        inside = text == "~" or text.startswith("~/")
        return self._person / text[2:] if inside else self._paths.workspace / text

    async def undo(self, message: InboundMessage) -> str:
        """Bring back the last change of files that was made for this person in this chat. Raises `NanobotError`."""
        spaces, user, chat = self.spaces, _user_of(message), f"{message.address.key} {message.sender.id}"
        return await asyncio.to_thread(lambda: spaces.of(user).undo(chat))

    async def trust(self, message: InboundMessage, name: str) -> str:
        """Count a file as the person's own, who has read it, or list those that are not. Raises `NanobotError`."""
        spaces, user = self.spaces, _user_of(message)
        return await asyncio.to_thread(lambda: spaces.of(user).trust(name))

    async def aclose(self) -> None:
        if "_reading" in vars(self):
            await self._reading.aclose()
        if "_tools" in vars(self):
            await self._pruning
        if "spaces" in vars(self):
            self.spaces.close()


def talk_tools(
    files: FileTools, messengers: "Mapping[str, Messenger]", media: Path
) -> dict[str, Callable[[], ToolLike]]:
    """A factory for each tool by which the agent speaks beside its answer, as in `MessageTool`."""

    def message() -> ToolLike:
        from nanobot.agent.tools.message import MessageTool

        return MessageTool(files.spaces, messengers, media)

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


def todo_items(lines: Iterable[object]) -> tuple[TodoItem, ...]:
    """The list that a call of `todo` gives, as people see it; a line without a mark is still to be done."""
    items = []
    for line in lines:
        mark = _MARKED.match(str(line))
        text = shorten(squeeze(strip_unsafe(str(line)[mark.end() if mark else 0 :])), _ITEM_WIDTH)
        if text:
            items.append(TodoItem(text, _STATES.get(mark[1].casefold() if mark else "", "open")))
    return tuple(items)


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
        setup = ExecSetup(self._files.spaces, self.tasks, self._env, self._config.ssrf_whitelist)
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


def named(url: str, sources: SourceBook) -> str:
    """The URL of a page: itself (`www.` is read over https), or for `#2` and `[2]` that of source 2 of this turn.

    Raises `FetchError` where no source has the number.
    """
    match = _NUMBER.fullmatch(url)
    if match is None:
        return with_scheme(url)
    try:
        return sources[int(match[1] or match[2])].url
    except KeyError:
        known = len(sources.all)
        have = f"results #1 to #{known} are known" if known else "nothing was found in this turn yet"
        raise FetchError("invalid_input", f"There is no result {url}: {have}. Search first or give a URL.") from None


def with_addresses(tool_name: str, arguments: Mapping[str, object], sources: SourceBook) -> dict[str, object]:
    """The arguments of a call with the numbers of pages replaced by their URLs, for people and for counting lookups.

    What stands for nothing stays as it is, and so do the arguments of every tool but `web_fetch`.
    """
    if tool_name != "web_fetch":
        return dict(arguments)

    def known(value: object) -> object:
        if isinstance(value, list):
            return [known(one) for one in value]
        try:
            return named(value.strip(), sources) if isinstance(value, str) else value
        except FetchError:
            return value

    return {key: value if key in ("find", "section", "prompt") else known(value) for key, value in arguments.items()}
