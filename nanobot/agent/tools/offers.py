"""What a model may ask of the tools of ours, and what it is told of them."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from nanobot.bus.events import TodoItem, TodoState
from nanobot.config.schema_tools import ExecConfig
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.errors import FetchError
from nanobot.results import SourceBook
from nanobot.security.policy import Access, Grant
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.text import shorten, squeeze, strip_unsafe
from nanobot.web.urls import with_scheme

_MARKED = re.compile(r"\s*(?:[-*+]\s+)?\[(.?)\]\s*")
_STATES: Mapping[str, TodoState] = {"x": "done", "✓": "done", ">": "doing", "~": "doing", "-": "doing"}
#: Characters of an item of a list.
_ITEM_WIDTH = 160
_NUMBER = re.compile(r"#([0-9]{1,6})|\[([0-9]{1,6})\]")


class DocsArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=500, description="What to look up, in a few words.")]


class FindArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=500)]


class RememberArguments(Struct, frozen=True, forbid_unknown_fields=True):
    fact: Annotated[str, Meta(min_length=1)]
    replaces: Annotated[str, Meta(description="Words of the old line.")] = ""
    today: Annotated[bool, Meta(description="Only of this day.")] = False


class SkillArguments(Struct, frozen=True, forbid_unknown_fields=True):
    name: str = ""
    file: Annotated[str, Meta(description="A file beside it.")] = ""


class LearnArguments(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str
    text: str


class WebFetchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=1, description="An http(s) URL, or #n for result n of a search.")] = ""
    urls: Annotated[tuple[str, ...], Meta(min_length=1, description="Up to 20 at once.")] = ()
    prompt: Annotated[str, Meta(description="What to find out in them.")] = ""
    format: Annotated[Literal["markdown", "text", "html"], Meta(description="How to give an HTML page.")] = "markdown"
    max_chars: Annotated[Annotated[int, Meta(ge=100, le=1_000_000)] | None, Meta(description="Most characters.")] = None
    offset: Annotated[int, Meta(ge=0, description="Character to read on at.")] = 0
    find: Annotated[str, Meta(max_length=300, description="Only the places that speak of this.")] = ""
    section: Annotated[
        str,
        Meta(max_length=300, description="Only what stands under this heading, or at this path of JSON."),
    ] = ""
    raw: Annotated[bool, Meta(description="With format=html: keep scripts and styles.")] = False
    fresh: Annotated[bool, Meta(description="Load it again.")] = False


class WebSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="What to search for.")]
    limit: Annotated[int, Meta(ge=1, le=20, description="Number of results.")] = 5
    include_content: Annotated[bool, Meta(description="Also return page text.")] = False
    freshness: Annotated[str, Meta(description="day, week, month, year or YYYY-MM-DD..YYYY-MM-DD.")] = ""
    include_domains: Annotated[tuple[str, ...], Meta(description="Only these sites.")] = ()
    exclude_domains: Annotated[tuple[str, ...], Meta(description="Not these sites.")] = ()
    country: Annotated[str, Meta(description="Such as DE.")] = ""
    language: Annotated[str, Meta(description="Such as de or zh.")] = ""
    fresh: Annotated[bool, Meta(description="Ask again.")] = False


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
    to: Annotated[str, Meta(description='"owner", a name or a number; empty: this chat.')] = ""


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
    cwd: Annotated[str, Meta(description="Folder to run in.")] = ""
    timeout: Annotated[int, Meta(ge=1, le=86_400)] | None = None
    background: Annotated[bool, Meta(description="Goes on after this call; task reads and stops it.")] = False
    network: Annotated[tuple[str, ...], Meta(description="Hosts it has to reach.")] = ()


class TaskArguments(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[int, Meta(ge=0, description="0 lists all.")] = 0
    offset: Annotated[int, Meta(ge=0, description="Byte to read from.")] | None = None
    wait: Annotated[int, Meta(ge=0, le=600, description="Seconds to wait.")] = 0
    stop: bool = False


class ScheduleArguments(Struct, frozen=True, forbid_unknown_fields=True):
    when: Annotated[str, Meta(description="In words, or as cron.")] = ""
    text: str = ""
    do: Annotated[
        Literal["remind", "task", "briefing", "list", "remove", "pause", "resume"],
        Meta(description="task: you do the text then. briefing: text is feeds and `search: words`."),
    ] = "remind"
    id: int = 0


class SpawnArguments(Struct, frozen=True, forbid_unknown_fields=True):
    task: Annotated[str, Meta(min_length=1, max_length=20_000, description="All it has to know: it sees nothing else.")]
    tools: Annotated[tuple[str, ...], Meta(description="Only these of your tools.")] = ()
    background: Annotated[bool, Meta(description="Go on meanwhile; its answer comes later.")] = False


class WatchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    what: Annotated[str, Meta(description="URL, `search: words`, `file: path`, or a number.")] = ""
    part: Annotated[str, Meta(description="A heading or words; `price`.")] = ""
    every: str = ""
    do: Annotated[
        Literal["add", "list", "remove", "pause", "resume", "news"], Meta(description="news: what is new, once.")
    ] = "add"


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
#: The name of the tool that lets a helper do something.
EXEC = "exec"
SPAWN = "spawn"
OFFERS: Mapping[str, Offer] = {
    "message": Offer(MessageArguments, ("send_message", "send_file", "SendMessage"), "talks", proposes="text"),
    "ask": Offer(AskArguments, ("AskUserQuestion", "ask_user"), "talks", interactive=True),
    "nanobot_docs": Offer(DocsArguments),
    "recall": Offer(FindArguments, ("memory_search", "search_memory", "conversation_search"), "talks"),
    "library": Offer(FindArguments, ("search_documents", "file_search"), "reads"),
    "remember": Offer(RememberArguments, ("save_memory", "memory", "update_memory"), "changes", "own"),
    "learn": Offer(LearnArguments, ("save_skill", "create_skill"), "changes", "files", interactive=True),
    "skill": Offer(SkillArguments, ("Skill", "load_skill", "use_skill", "activate_skill"), "reads", "files"),
    SPAWN: Offer(SpawnArguments, ("Task", "Agent", "delegate", "subagent")),
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
    "schedule": Offer(ScheduleArguments, ("cron", "remind", "reminder", "set_reminder"), "changes", "own"),
    "watch": Offer(WatchArguments, ("monitor", "watch_page", "track", "subscribe"), "changes", "own"),
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
RECALL_DESCRIPTION = "Find what was said in earlier conversations, and what is noted in memory: who, when, the words."
REMEMBER_DESCRIPTION = "Note a fact that the person told, in one sentence, for all conversations to come."
LIBRARY_DESCRIPTION = "Search the person's own documents. Cite them by their numbers, as pages."
WATCH_DESCRIPTION = "Tell the person when a page, feed, search, price or file changes."
SCHEDULE_DESCRIPTION = "Remind the person, or do a task, at set times in their zone."
LEARN_DESCRIPTION = "Keep how something is done as a skill, when the person wants that."
SKILL_DESCRIPTION = "Read how something is done, before you do it."
SPAWN_DESCRIPTION = (
    "Let a helper do a part of the work that needs many lookups or much reading, and get its answer. "
    "Several in one step run together."
)
DOCS_DESCRIPTION = (
    "Search nanobot's own documentation: for every question about nanobot itself, and before you change its settings."
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


def todo_items(lines: Iterable[object]) -> tuple[TodoItem, ...]:
    """The list that a call of `todo` gives, as people see it; a line without a mark is still to be done."""
    items = []
    for line in lines:
        mark = _MARKED.match(str(line))
        text = shorten(squeeze(strip_unsafe(str(line)[mark.end() if mark else 0 :])), _ITEM_WIDTH)
        if text:
            items.append(TodoItem(text, _STATES.get(mark[1].casefold() if mark else "", "open")))
    return tuple(items)


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
