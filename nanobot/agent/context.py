"""What a model is told: a stable prompt, a volatile tail, and as much of the conversation as its window holds.

The same conversation is always cut alike, and without asking a model.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import islice, pairwise
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.config.paths import PEOPLE, folder_name
from nanobot.messages import AssistantMessage, Media, Message, Role, Text, ToolCall, ToolMessage, UserMessage, UserPart
from nanobot.providers.base import ToolSpec
from nanobot.security.projects import INSTRUCTIONS
from nanobot.security.trust import wrap
from nanobot.session.database import Clock, now
from nanobot.session.window import first_kept
from nanobot.utils.prompt_templates import PromptTemplates
from nanobot.utils.text import shorten, strip_unsafe

#: The files of a workspace that belong to the system prompt, in their order, and the heading each gets.
CONTEXT_FILES: tuple[tuple[str, str], ...] = (
    ("SOUL.md", "Who you are"),
    ("AGENTS.md", "Instructions of the owner"),
    ("USER.md", "About the user"),
    ("memory/MEMORY.md", "What you remember"),
)
#: The one of which the newest lines count, and the characters of it that are looked at.
_MEMORY, _MEMORY_READ = CONTEXT_FILES[-1][0], 2_000_000
#: Those that belong to one person, and are shown to the model where nobody else reads the answer.
PERSONAL_FILES = frozenset({"USER.md", "memory/MEMORY.md"})

#: Most files of the workspace's own templates that are looked at.
_TEMPLATES = 1_000
#: Most characters that one file may bring.
FILE_LIMIT = 20_000
#: Bytes that all AGENTS.md may bring together, and those that each may at least.
_INSTRUCTIONS, _LEAST_INSTRUCTIONS = 32_768, 500

IMAGE_TOKENS = 1_500
#: Bytes of a PDF that a model reads by itself for which another such picture is counted.
_PAGE_BYTES = 50_000
#: What a token of text is taken for everywhere; errs on the high side for English.
BYTES_PER_TOKEN = 3
_OVERHEAD = 8
#: How far each rung of the ladder cuts old tool results, and then those of the running turn, in characters.
_OLD_RESULT = 400
_RUNNING_RESULTS = (8_000, 2_000, 500)
_LONG_TEXT, _LEAST_TEXT = 20_000, 100


class ContextFile(Struct, frozen=True):
    """One file of the workspace as it went into the prompt; `size` is the file's length in bytes, and `left` counts
    the lines of a memory that are not shown."""

    name: str
    text: str
    size: int
    cut: bool
    left: int = 0

    @property
    def note(self) -> str:
        """What is told below a file that is not shown whole."""
        if self.left:
            return f"\n\n[The pinned and the newest lines are shown. `recall` finds the other {self.left}.]"
        return f"\n\n[Cut: {self.name} is longer than what is shown.]" if self.cut else ""


class Instructions(Struct, frozen=True):
    """What one folder tells the agent; `shared`: it is told to all agents of the owner."""

    folder: Path
    file: ContextFile
    shared: bool = False


class PromptFiles(Struct, frozen=True):
    """What the files of the workspace and of the project say now: a prompt is made from one look at each."""

    files: tuple[ContextFile, ...] = ()
    instructions: tuple[Instructions, ...] = ()


class ContextBuilder:
    """Builds the system prompt from the workspace, at every turn anew, and the tail from the clock and the channel.

    The prefix depends on files alone, so it stays the same
    byte for byte until somebody edits one. `zone` is that of the person. `files`: there are tools for files. `shared`
    is the folder with the owner's instructions for all agents; `project` are the folders, from its top down to where
    the owner works, of a project whose instructions they trust. `doubted` names the files that a command which runs may
    have written: no prompt is made from them. All that builds a prompt waits for the disk.
    """

    def __init__(
        self,
        workspace: Path | None = None,
        *,
        zone: tzinfo = UTC,
        files: bool = True,
        clock: Clock = now,
        foreign_below: Callable[[Path], frozenset[str]] = lambda _: frozenset(),
        doubted: Callable[[Iterable[Path]], frozenset[Path]] = lambda _: frozenset(),
        shared: Path | None = None,
        project: tuple[Path, ...] = (),
    ) -> None:
        self.workspace = workspace
        self._foreign_below = foreign_below
        self._doubted = doubted
        self._files = files
        self._shared = shared
        self._project = project
        self._clock = clock
        self._templates = PromptTemplates(workspace)
        self._read_before: dict[str, tuple[tuple[int, ...], ContextFile | None]] = {}  # and how the file was then
        self.zone = zone

    def files(self, window: int = 0, *, role: Role = "owner", folder: str | None = "") -> tuple[ContextFile, ...]:
        """The context files that exist and say something, read now; together at most about half of `window` tokens.

        `folder` is that of the person, as `folder_of` names it. The files that steer the agent are the owner's, and
        no guest's turn sees one.
        """
        if self.workspace is None:
            return ()
        limit = min(FILE_LIMIT, window * BYTES_PER_TOKEN // 2 // len(CONTEXT_FILES) or FILE_LIMIT)
        named = (
            (folder if one in PERSONAL_FILES else None if role == "guest" else "", one) for one, _ in CONTEXT_FILES
        )
        places = {f"{place}/{name}".lstrip("/"): (place, name) for place, name in named if place is not None}
        doubted = self._doubted_in(self.workspace, places)
        found = [self._read(self.workspace, *one, limit) for path, one in places.items() if path not in doubted]
        return tuple(file for file in found if file is not None)

    def read(self, window: int = 0, *, role: Role = "owner", folder: str | None = None) -> PromptFiles:
        """What is told to a turn of this `role`, read now; the instructions of a project to the owner's own alone."""
        files = self.files(window, role=role, folder=folder)
        return PromptFiles(files, self._instructions(window, files) if folder == "" else ())

    def system(self, reading: PromptFiles, *, own: bool = False, skills: str = "") -> str:
        """The stable prefix of a turn: identity, then what `reading` found under its headings.

        `own`: it is the owner's own turn, which knows the workspace; `skills` tells of the skills.
        """
        headings = dict(CONTEXT_FILES)
        workspace = str(self.workspace or "") if own and self._files else ""
        templates = PromptTemplates() if self._doubted(islice(self._own_templates(), _TEMPLATES)) else self._templates
        parts = [templates.render("agent/identity.md", workspace=workspace)]
        parts += [f"## {headings[file.name]} ({file.name})\n\n{file.text}{file.note}" for file in reading.files]
        for one in reading.instructions:
            head = "Instructions of the owner for all agents" if one.shared else "Instructions of this project"
            where = f"{one.file.name} {'in' if one.shared else 'of the project in'} {one.folder}"
            parts.append(f"## {head} ({where})\n\n{one.file.text}{one.file.note}")
        if skills:
            parts.append(f"## Skills (read one with `skill` before such work)\n\n{skills}")
        return "\n\n".join(parts)

    def helper(self, workspace: bool) -> str:
        """The system prompt of a helper, which knows nothing of the person; `workspace`: it has tools for files."""
        return self._templates.render("agent/helper.md", workspace=str(self.workspace or "") if workspace else "")

    def summing(self, words: int) -> str:
        """The task of a request that sums up a conversation."""
        return self._templates.render("agent/compaction.md", words=words)

    def foreign(self, reading: PromptFiles, folder: str | None) -> tuple[str, ...]:
        """Labels of the files in `system` that were written while content from outside stood in a conversation."""
        top = Path(os.path.realpath(self.workspace)) if self.workspace is not None else Path()
        marked = self._foreign_below(top) if self.workspace is not None else frozenset[str]()
        shown = [file.name for file in reading.files] if marked else []
        places = {name: top / (folder or "") / name if name in PERSONAL_FILES else top / name for name in shown}
        labels = [f"file {name}" for name, place in places.items() if str(place) in marked]
        for one in reading.instructions:
            path = one.folder.resolve() / one.file.name
            labels += [f"file {path}"] if str(path) in self._foreign_below(path.parent) else []
        return tuple(labels)

    def _instructions(self, window: int, files: Iterable[ContextFile]) -> tuple[Instructions, ...]:
        """What AGENTS.md says besides that of the workspace, or CLAUDE.md where there is none: of the owner for all
        agents, then of the project from its top down. All of them share a room, in which the nearest one is first.

        These are for the owner's own turns alone.
        """
        room = min(_INSTRUCTIONS, window * BYTES_PER_TOKEN // 4 or _INSTRUCTIONS)
        room -= sum(len(file.text.encode()) for file in files if file.name == INSTRUCTIONS[0])
        found: list[Instructions] = []
        for folder in reversed((*filter(None, (self._shared,)), *self._project)):
            limit = max(room, _LEAST_INSTRUCTIONS)
            doubted = self._doubted_in(folder, INSTRUCTIONS)
            sure = (name for name in INSTRUCTIONS if name not in doubted)
            file = next(filter(None, (self._read(folder, "", name, limit) for name in sure)), None)
            if file is not None:
                text = file.text.encode()[:limit].decode("utf-8", "ignore")
                shown = replace(file, text=text, cut=file.cut or text != file.text)
                found.append(Instructions(folder, shown, shared=folder == self._shared))
                room -= len(text.encode())
        return tuple(reversed(found))

    def nested(self, one: Instructions) -> bool:
        """Whether these are of a folder inside the project, which nobody was asked about by name."""
        return one.folder in self._project[1:]

    def tail(self, address: Address, sender: Sender | None = None) -> str:
        """What changes between requests: the time in the user's zone, the channel, the person."""
        now = self._clock().astimezone(self.zone)
        name = getattr(self.zone, "key", None) or now.tzname()
        lines = [f"Now: {now:%A}, {now:%Y-%m-%d %H:%M} ({name})", f"Channel: {address.channel}"]
        if sender is not None and sender.name:
            name = strip_unsafe(sender.name)[:80]
            lines.append(f"Speaking, {sender.role}: {repr(name) if sender.role == 'owner' else wrap(name, 'name')}")
        return "\n".join(lines)

    def midnight(self) -> datetime:
        """When the day began in the user's zone."""
        return self._clock().astimezone(self.zone).replace(hour=0, minute=0, second=0, microsecond=0)

    def user_message(self, message: InboundMessage, *, steer: bool = False) -> UserMessage:
        """What a person sent, as the model sees it. Quoted and piped text is marked as content from outside, and so is
        the name before what is said in a group."""
        parts: list[UserPart] = []
        if message.sender.name and not message.direct:  # many speak there, each under a name of their own choice
            parts.append(Text(f"{wrap(strip_unsafe(message.sender.name)[:80], 'name')}\n\n"))
        if message.context.strip():
            parts.append(Text(f"{wrap(message.context, 'context')}\n\n"))
        if message.content.strip():
            parts.append(Text(message.content))
        parts.extend(message.media)
        content = tuple(parts) or (Text("(empty message)"),)
        kind: Literal["steer", "user"] = "steer" if steer else "user"
        foreign = bool(message.context.strip())
        return UserMessage(content, kind, message.id if steer else "", message.sender.role, foreign)

    def _own_templates(self) -> Iterator[Path]:
        """What stands in the workspace in the place of shipped prompts, looked for when somebody asks for the first."""
        if self.workspace is not None:
            yield from (self.workspace.resolve() / "templates").rglob("*")

    def _doubted_in(self, folder: Path, names: Iterable[str]) -> frozenset[str]:
        """Those of these files of a folder that a command which runs may have written."""
        doubted = self._doubted(folder.resolve() / name for name in names)
        return frozenset(str(path.relative_to(folder.resolve())) for path in doubted)

    def _read(self, root: Path, folder: str, name: str, limit: int) -> ContextFile | None:
        """A context file, and nothing but a file: a pipe would be waited for."""
        place = f"{root}/{folder}/{name}"
        try:
            opened = _opened(root, folder, name)
            try:
                now = os.fstat(opened)
                if not stat.S_ISREG(now.st_mode) or (folder and now.st_nlink != 1):
                    return None
                state = (now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_size, limit)
                before, file = self._read_before.get(place, ((), None))
                if before == state:
                    return file
                with os.fdopen(opened, encoding="utf-8", errors="replace", closefd=False) as stream:
                    text = stream.read(_MEMORY_READ if name == _MEMORY else limit + 1)
            finally:
                os.close(opened)
        except OSError:
            return None
        cut, left = len(text) > limit, 0
        if cut and name == _MEMORY:
            from nanobot.library.lines import fitting

            text, left = fitting(text, limit)
        text = text[:limit].strip()
        file = ContextFile(name, text, max(now.st_size, len(text)), cut, left) if text else None
        self._read_before[place] = (state, file)
        return file


def folder_of(message: InboundMessage, role: Role) -> str | None:
    """Where in the workspace the files of the person are whose turn this is: empty for the owner, whose workspace it
    is; None for guests, and wherever others read along."""
    if not message.direct or role == "guest":
        return None
    key = message.person
    return "" if role == "owner" else f"{PEOPLE}/{folder_name(key)}"


def _opened(workspace: Path, folder: str, name: str) -> int:
    """A context file, opened. What a user can change is no way to the files of somebody else: no link is followed in a
    `folder`. Raises `OSError`."""
    if not folder:
        return os.open(f"{workspace}/{name}", os.O_RDONLY | os.O_NONBLOCK)
    *above, last = *folder.split("/"), *name.split("/")
    at = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in above:
            at, left = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at), at
            os.close(left)
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
    finally:
        os.close(at)


def estimate_text(text: str) -> int:
    """Tokens of a text, estimated without a vocabulary."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "ignore"))) // BYTES_PER_TOKEN


def estimate(message: Message) -> int:
    """Tokens of one message."""
    total = _OVERHEAD
    for part in message.content:
        if isinstance(part, Media):
            total += IMAGE_TOKENS * (1 + part.size // _PAGE_BYTES if part.inline else 1)
        elif isinstance(part, ToolCall):
            total += estimate_text(part.name) + estimate_text(part.arguments) + _OVERHEAD
        else:
            total += estimate_text(part.text)
    return total


def estimate_all(messages: Sequence[Message], system: str = "", tools: Sequence[ToolSpec] = ()) -> int:
    """Tokens of a whole request: messages, system prompt and tool schemas."""
    return sum(map(estimate, messages)) + estimate_text(system) + sum(estimate_text(tool.text) for tool in tools)


def window_of(history: Sequence[Message], limit: int) -> tuple[Message, ...]:
    """The newest turns of `history` within `limit` tokens; the cut moves in jumps, as `first_kept` has it."""
    starts = [index for index, message in enumerate(history) if isinstance(message, UserMessage)]
    sizes = [sum(map(estimate, history[start:end])) for start, end in pairwise([*starts, len(history)])]
    first = first_kept(sizes, limit)
    return tuple(history[starts[first] :]) if first else tuple(history)


def trim(history: Sequence[Message], turn: Sequence[Message], limit: int) -> tuple[tuple[Message, ...], list[Message]]:
    """`history` and the running `turn` made smaller, rung by rung, until both are within `limit` tokens."""
    kept, running = tuple(history), list(turn)
    for kept, running in _rungs(history, turn, limit):
        if estimate_all([*kept, *running]) <= limit:
            break
    return kept, running


def _rungs(
    history: Sequence[Message], turn: Sequence[Message], limit: int
) -> Iterator[tuple[tuple[Message, ...], list[Message]]]:
    """First old tool results shrink and old pictures go, then the oldest turns, then the results, the pictures and at
    last the texts of the running turn."""
    kept, running = tuple(_cut_results(history, _OLD_RESULT)), list(turn)
    yield kept, running
    kept = without_pictures(kept)
    yield kept, running
    yield window_of(kept, max(0, limit - estimate_all(running))), running
    for width in _RUNNING_RESULTS:
        running = _cut_results(running, width)
        yield (), running
    last = max((place for place, one in enumerate(running) if _has_media(one)), default=0)
    whole = running = [*without_pictures(running[:last]), *running[last:]]
    yield (), running
    width = _LONG_TEXT
    while width >= _LEAST_TEXT:
        running = [message if isinstance(message, AssistantMessage) else _cut(message, width) for message in whole]
        yield (), running
        width //= 2
    yield (), list(without_pictures(running))


def _cut_results(messages: Iterable[Message], width: int) -> list[Message]:
    return [_cut(message, width) if isinstance(message, ToolMessage) else message for message in messages]


def _has_media(message: Message) -> bool:
    return any(isinstance(part, Media) for part in message.content)


def cut_result_text(text: str, limit: int, kept: str = "") -> str:
    """A tool's text with at most `limit` characters and a note about what is missing, which is in the file `kept`."""
    if len(text) <= limit:
        return text
    advice = f"read_file pages through the whole: {kept}" if kept else "Ask for less at a time."
    return f"{text[:limit]}\n\n[Cut: the first {limit} of {len(text)} characters are shown. {advice}]"


def without_pictures(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The same messages with a note in the place of every picture and document."""
    made: list[Message] = []
    for message in messages:
        if not isinstance(message, AssistantMessage) and any(isinstance(part, Media) for part in message.content):
            parts = (Text(_gone(part)) if isinstance(part, Media) else part for part in message.content)
            message = replace(message, content=tuple(parts))  # noqa: PLW2901
        made.append(message)
    return tuple(made)


def _gone(media: Media) -> str:
    name = strip_unsafe(media.name) or media.mime
    place = f" It is in your files as {media.place}." if media.place else ""
    return f"[{name} was here. It is not shown any more, because the conversation has no room for it.{place}]"


def _cut(message: Message, width: int) -> Message:
    parts = (
        replace(part, text=shorten(part.text, width)) if isinstance(part, Text) else part for part in message.content
    )
    return replace(message, content=tuple(parts))
