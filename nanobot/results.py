"""What a tool hands back: one value with a text for the model, a picture for people and figures for the log."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from nanobot.messages import Media

ToolErrorKind = Literal[
    "invalid_input",
    "blocked",
    "denied",
    "not_found",
    "http_status",
    "network",
    "timeout",
    "too_large",
    "unsupported_type",
    "no_content",
    "service",
    "rate_limited",
    "quota",
    "auth",
    "repeated",
    "cancelled",
    "failed",
]
TOOL_ERROR_KINDS: tuple[ToolErrorKind, ...] = get_args(ToolErrorKind)


@dataclass(frozen=True, slots=True)
class Source:
    """A page that was found or read in this turn.

    `number` is the mark `[n]` under which it may be cited; it is 0 until a `SourceBook` gave one. `read` tells that the
    page itself was read, not only its snippet. `retrieved_at` is in UTC.
    """

    number: int
    url: str
    title: str = ""
    retrieved_at: datetime | None = None
    read: bool = False


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Plain text for people."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class DiffBlock:
    """A change to a file: unified diff text."""

    path: str
    diff: str
    type: Literal["diff"] = "diff"


@dataclass(frozen=True, slots=True)
class ListBlock:
    """A titled list: search hits, files, entries."""

    title: str
    items: tuple[str, ...]
    type: Literal["list"] = "list"


DisplayBlock = TextBlock | DiffBlock | ListBlock


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of one tool call.

    `text` is what the model reads, `message` one line about it, `display` what a person sees, `sources` what may be
    cited, `extras` figures for the log and /status, `untrusted` marks content from outside.
    """

    text: str
    message: str = ""
    error: ToolErrorKind | None = None
    display: tuple[DisplayBlock, ...] = ()
    media: tuple[Media, ...] = ()
    sources: tuple[Source, ...] = ()
    extras: dict[str, object] = field(default_factory=dict)
    untrusted: bool = False

    def __str__(self) -> str:
        return self.text

    @property
    def is_error(self) -> bool:
        return self.error is not None

    @property
    def success(self) -> bool:
        return self.error is None


def error_result(kind: ToolErrorKind, reason: str, *, message: str = "", **extras: object) -> ToolResult:
    """A failed call. The model's text starts with `Error: `; people see the reason alone."""
    text = reason if reason.startswith("Error: ") else f"Error: {reason}"
    return ToolResult(
        text,
        message or reason.removeprefix("Error: "),
        kind,
        (TextBlock(reason.removeprefix("Error: ")),),
        extras=extras,
    )


class SourceBook:
    """Numbers the sources of one turn. The same URL keeps its number; numbers start at 1."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def add(self, url: str, title: str = "", *, retrieved_at: datetime | None = None, read: bool = False) -> Source:
        """Note a page and return it with its number. A later read or a better title completes the entry."""
        old = self._sources.get(url)
        source = Source(
            old.number if old else len(self._sources) + 1,
            url,
            title or (old.title if old else ""),
            retrieved_at or (old.retrieved_at if old else None),
            read or (old.read if old else False),
        )
        self._sources[url] = source
        return source

    def __getitem__(self, number: int) -> Source:
        for source in self._sources.values():
            if source.number == number:
                return source
        raise KeyError(number)

    @property
    def all(self) -> tuple[Source, ...]:
        """Every source in the order of its number."""
        return tuple(self._sources.values())
