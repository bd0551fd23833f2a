"""What a model may ask of the tools of ours, and what it is told of them."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from nanobot.bus.events import TodoItem, TodoState
from nanobot.config.schema_tools import ExecConfig
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.errors import FetchError
from nanobot.results import SourceBook
from nanobot.security.policy import OWN, Access, Grant
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.text import one_line
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


#: How models spell the arguments of tools; a spelling means the first of these that a tool has.
_SPELLINGS: Mapping[str, str] = {
    "query": "question q search search_term text",
    "glob": "include file_pattern glob_pattern",
    "pattern": "glob_pattern query regex search",
    "ignore_case": "-i case_insensitive",
    "path": "file_path filename file_name filepath file target_file absolute_path",
    "offset": "start start_line from_line line start_index",
    "limit": "lines max_lines line_count count numResults num_results max_results maxResults",
    "content": "text contents file_text data body",
    "edits": "changes",
    "url": "URL uri link href",
    "format": "extractMode extract_mode",
    "max_chars": "maxChars max_length",
    "include_content": "includeContent",
    "include_domains": "includeDomains",
    "exclude_domains": "excludeDomains",
    "text": "content message body caption prompt task reminder",
    "files": "media attachments paths file path",
    "to": "chat recipient target channel chat_id",
    "command": "cmd",
    "cwd": "working_dir workdir working_directory dir_path",
    "background": "run_in_background is_background",
    "id": "task task_id bash_id job_id job number",
    "when": "time schedule at cron cron_expr rule",
    "do": "action kind type",
    "what": "url path query target id number",
    "part": "section near words",
    "every": "when interval schedule often",
    "task": "prompt description message",
    "fact": "text content memory note",
    "replaces": "old",
    "name": "skill skill_name",
    "file": "path",
}
#: The `path` of what looks below a folder. No tool knows these and those of a file: of two places it would take one.
_FOLDER_SPELLINGS = "dir directory folder dir_path directory_path root file_path"


def spellings_of(arguments: type[Struct]) -> dict[str, str]:
    """Other spellings of these arguments, each with the one that is meant."""
    known = set(arguments.__struct_fields__)
    below = {"path": _FOLDER_SPELLINGS} if arguments in (ListDirArguments, GlobArguments, GrepArguments) else {}
    found: dict[str, str] = {}
    for name, spellings in {**_SPELLINGS, **below}.items():
        for spelling in set(spellings.split()) - known if name in known else ():
            found.setdefault(spelling, name)
    return found


class Offer(Struct, frozen=True, kw_only=True):
    """What is known of a tool before it is imported: what a model is told of it, and the rest as in `ToolLike`."""

    arguments: type[Struct]
    description: str = ""
    aliases: tuple[str, ...] = ()
    access: Access = "public"
    grant: Grant = ""
    proposes: str = ""
    exclusive: bool = False
    ordered: bool = False
    interactive: bool = False
    idempotent: bool = False
    local: bool = False


_READING = partial(Offer, access="reads", grant="files", idempotent=True, local=True)
_CHANGING = partial(Offer, access="changes", grant="files", exclusive=True, local=True)
#: The tools for files.
FILE_OFFERS: Mapping[str, Offer] = {
    "read_file": _READING(
        arguments=ReadFileArguments,
        description="Read a file: text with its line numbers, PDF and office files as text, pictures as pictures.",
        aliases=("ReadFile", "Read", "view_file", "cat"),
    ),
    "list_dir": _READING(
        arguments=ListDirArguments, description="List a folder.", aliases=("ListDir", "LS", "ls", "list_directory")
    ),
    "glob": _READING(
        arguments=GlobArguments, description="Find files and folders by name.", aliases=("Glob", "find_files")
    ),
    "grep": _READING(
        arguments=GrepArguments,
        description="Find lines in files by a regular expression.",
        aliases=("Grep", "search_files"),
    ),
    "write_file": _CHANGING(
        arguments=WriteFileArguments,
        description="Write a whole file. What it held before is kept.",
        aliases=("WriteFile", "Write", "create_file"),
    ),
    "edit_file": _CHANGING(
        arguments=EditFileArguments,
        description="Change pieces of a text file: all of them or none.",
        aliases=("EditFile", "Edit", "str_replace", "MultiEdit"),
    ),
    "delete_file": _CHANGING(
        arguments=DeleteFileArguments,
        description="Move a file or folder to the trash.",
        aliases=("DeleteFile", "Delete", "remove_file"),
    ),
}
#: The tool whose last call is the list of a session, the one for commands, and the one that lets a helper do something.
TODO, EXEC, SPAWN = "todo", "exec", "spawn"
OFFERS: Mapping[str, Offer] = {
    **FILE_OFFERS,
    "message": Offer(
        arguments=MessageArguments,
        description="Send files to the person, or a message to another chat that the owner allowed. "
        "Your answer goes to this chat by itself and needs no message.",
        aliases=("send_message", "send_file", "SendMessage"),
        access="talks",
        proposes="text",
        idempotent=True,  # what is sent stands in the outbox under its own key
        local=True,
    ),
    "ask": Offer(
        arguments=AskArguments,
        description="Ask the person one question and wait for the answer: only where you cannot go on without their "
        "decision. They tap a choice or write something else.",
        aliases=("AskUserQuestion", "ask_user"),
        access="talks",
        ordered=True,
        interactive=True,
        idempotent=True,
    ),
    TODO: Offer(
        arguments=TodoArguments,
        description="Show the person your list of steps, for work of three steps or more. "
        "Send the whole list again when something changes.",
        aliases=("TodoWrite", "update_plan", "todo_write"),
        access="talks",
        idempotent=True,
    ),
    "nanobot_docs": Offer(
        arguments=DocsArguments,
        description="Search nanobot's own documentation: for every question about nanobot itself, and before you "
        "change its settings.",
        idempotent=True,
        local=True,
    ),
    "recall": Offer(
        arguments=FindArguments,
        description="Find what was said in earlier conversations, and what is noted in memory: who, when, the words.",
        aliases=("memory_search", "search_memory", "conversation_search"),
        access="talks",
        idempotent=True,
        local=True,
    ),
    "library": Offer(
        arguments=FindArguments,
        description="Search the person's own documents. Cite them by their numbers, as pages.",
        aliases=("search_documents", "file_search"),
        access="reads",
        idempotent=True,
        local=True,
    ),
    "remember": Offer(
        arguments=RememberArguments,
        description="Note a fact that the person told, in one sentence, for all conversations to come.",
        aliases=("save_memory", "memory", "update_memory"),
        access="changes",
        grant=OWN,
        exclusive=True,
        local=True,
    ),
    "learn": _CHANGING(
        arguments=LearnArguments,
        description="Keep how something is done as a skill, when the person wants that.",
        aliases=("save_skill", "create_skill"),
        interactive=True,
    ),
    "skill": _READING(
        arguments=SkillArguments,
        description="Read how something is done, before you do it.",
        aliases=("Skill", "load_skill", "use_skill", "activate_skill"),
    ),
    SPAWN: Offer(
        arguments=SpawnArguments,
        description="Let a helper do a part of the work that needs many lookups or much reading, and get its answer. "
        "Several in one step run together.",
        aliases=("Task", "Agent", "delegate", "subagent"),
        idempotent=True,  # a call that runs again goes on with the same helper
        local=True,
    ),
    "web_fetch": Offer(
        arguments=WebFetchArguments,
        aliases=("FetchURL", "fetch_url", "webfetch", "WebFetch", "fetch"),
        proposes="url",
        idempotent=True,
    ),
    "web_search": Offer(
        arguments=WebSearchArguments,
        aliases=("SearchWeb", "search_web", "google_web_search", "websearch", "webSearch", "WebSearch"),
        idempotent=True,
    ),
    EXEC: Offer(
        arguments=ExecArguments,
        aliases=("bash", "Bash", "shell", "run_shell_command", "run_command", "execute"),
        access="changes",
        grant="exec",
        proposes="command",
        ordered=True,
        local=True,  # what a command may reach is among its effects, and nothing else can be reached
    ),
    "task": Offer(
        arguments=TaskArguments,
        description="What runs in the background: its output, and how it ended.",
        aliases=("BashOutput", "bash_output", "KillShell", "kill_shell"),
        access="changes",
        grant="exec",
        local=True,
    ),
    "schedule": Offer(
        arguments=ScheduleArguments,
        description="Remind the person, or do a task, at set times in their zone.",
        aliases=("cron", "remind", "reminder", "set_reminder"),
        access="changes",
        grant=OWN,
        idempotent=True,  # a call that runs again finds what it has set, and sets nothing a second time
        local=True,  # an address in a reminder is text; a task that reads it is judged then
    ),
    "watch": Offer(
        arguments=WatchArguments,
        description="Tell the person when a page, feed, search, price or file changes.",
        aliases=("monitor", "watch_page", "track", "subscribe"),
        access="changes",
        grant=OWN,
    ),
}


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
        text = one_line(str(line)[mark.end() if mark else 0 :], _ITEM_WIDTH)
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
