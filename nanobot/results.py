"""What a tool hands back: one value with a text for the model, a picture for people and figures for the log."""

from datetime import datetime
from typing import Literal

from msgspec import Struct, field

from nanobot.messages import Media
from nanobot.messages import Source as Source

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
    "login_wall",
    "service",
    "rate_limited",
    "quota",
    "auth",
    "repeated",
    "cancelled",
    "failed",
]


class ToolResult(Struct, frozen=True):
    """The outcome of one tool call.

    `text` is what the model reads, `message` one line about it for people, `sources` what may be
    cited, `extras` figures for the log and /status, `untrusted` marks content from outside. `partial`: some of what was
    asked for failed, so that `message` is worth telling though the call did not fail. `receipt` is what the call has
    really changed, in a few words in the past tense, such as `wrote notes/plan.md (+12 −3)`, `diff` the same line by
    line, for people, and `changed` how many lines of a file came and went, such as `+12 −3`. `did` are the kinds of
    effects that the calls of a helper have had.
    """

    text: str
    message: str = ""
    error: ToolErrorKind | None = None
    media: tuple[Media, ...] = ()
    sources: tuple[Source, ...] = ()
    extras: dict[str, object] = field(default_factory=dict)
    untrusted: bool = False
    partial: bool = False
    receipt: str = ""
    diff: str = ""
    changed: str = ""
    did: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def is_error(self) -> bool:
        return self.error is not None

    @property
    def success(self) -> bool:
        return self.error is None


def error_result(kind: ToolErrorKind, reason: str, *, message: str = "", **extras: object) -> ToolResult:
    """A failed call. The model's text starts with `Error: `; people see `message`, else the reason alone."""
    text = reason if reason.startswith("Error: ") else f"Error: {reason}"
    return ToolResult(
        text,
        message or reason.removeprefix("Error: "),
        kind,
        extras=extras,
    )


#: Most characters that a book keeps of one source, and of all of them.
SOURCE_CHARS = 400_000
BOOK_CHARS = 3_000_000


class SourceBook:
    """Numbers the sources of one turn and keeps what they say. The same URL keeps its number; numbers start at 1."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}
        self._texts: dict[int, str] = {}
        self._room = BOOK_CHARS

    def add(
        self, url: str, title: str = "", *, retrieved_at: datetime | None = None, read: bool = False, text: str = ""
    ) -> Source:
        """Note a page and return it with its number. A later read or a better title completes the entry.

        `text` is what the page, or the engine about it, says; an answer that cites the number is checked against it.
        """
        old = self._sources.get(url)
        source = Source(
            old.number if old else len(self._sources) + 1,
            url,
            title or (old.title if old else ""),
            retrieved_at or (old.retrieved_at if old else None),
            read or (old.read if old else False),
        )
        self._sources[url] = source
        self.note(source.number, text)
        return source

    def note(self, number: int, text: str) -> None:
        """Keep more of what source `number` says, as far as there is room; a text known already adds nothing."""
        known = self._texts.get(number, "")
        text = text[: max(0, min(self._room, SOURCE_CHARS - len(known)))]
        if text.strip() and text not in known:
            self._texts[number] = f"{known}\n\n{text}" if known else text
            self._room -= len(text)

    def restore(self, source: Source, text: str) -> None:
        """Take a source up again under the number that it had; `text` as in `add`."""
        old = self._sources.get(source.url)
        if old is None or not old.read:
            self._sources[source.url] = source
        self.note(source.number, text)

    def text(self, number: int) -> str:
        """What source `number` says as far as it is kept; empty where nothing is."""
        return self._texts.get(number, "")

    def __getitem__(self, number: int) -> Source:
        for source in self._sources.values():
            if source.number == number:
                return source
        raise KeyError(number)

    @property
    def all(self) -> tuple[Source, ...]:
        """Every source in the order of its number."""
        return tuple(self._sources.values())
