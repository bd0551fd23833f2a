"""The file of a recorded turn: one JSON object a line, without secrets.

The first line is a `Head`, the last one an `End`; between them stand the `Answer`s of the model and the `Call`s of
tools in the order in which they ended. Every text has passed the scrubber of the logs before it is written.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from nanobot.agent.limits import TurnLimits
from nanobot.bus.events import Outcome
from nanobot.errors import ProviderError, ProviderErrorKind, UsageError
from nanobot.messages import AssistantMessage
from nanobot.providers.base import ProviderInfo, ToolSpec
from nanobot.results import Source, ToolResult
from nanobot.security.policy import Access
from nanobot.utils.logs import scrub

#: Of the lines. It grows when a reader of the old lines would misread the new ones.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class RecordedTool:
    """A tool as the model and the runner saw it."""

    spec: ToolSpec
    aliases: tuple[str, ...] = ()
    exclusive: bool = False
    lock: str = ""
    access: Access = "public"


@dataclass(frozen=True, slots=True)
class Head:
    """What the turn began with. `nanobot` is the version that recorded it, `context` what came through the pipe."""

    format: int
    nanobot: str
    recorded_at: datetime
    question: str
    context: str
    provider: ProviderInfo
    limits: TurnLimits
    tools: tuple[RecordedTool, ...]
    type: Literal["recording"] = "recording"


@dataclass(frozen=True, slots=True)
class Failure:
    """A `ProviderError` as a value; the fields are the error's own."""

    kind: ProviderErrorKind
    message: str
    status: int = 0
    code: str = ""
    retry_after: float | None = None
    partial: str = ""
    window: int | None = None
    provider: str = ""
    detail: str = ""
    key_hint: str = ""

    @classmethod
    def of(cls, error: ProviderError) -> "Failure":
        return cls(
            error.kind,
            str(error),
            error.status,
            error.code,
            error.retry_after,
            error.partial,
            error.window,
            error.provider,
            error.detail,
            error.key_hint,
        )

    def error(self) -> ProviderError:
        return ProviderError(
            self.kind,
            self.message,
            status=self.status,
            code=self.code,
            retry_after=self.retry_after,
            partial=self.partial,
            window=self.window,
            provider=self.provider,
            detail=self.detail,
            key_hint=self.key_hint,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model gave for one request: a message, or else a failure.

    `within` is the id of the call of a tool that asked; it is empty for the requests of the turn itself.
    """

    message: AssistantMessage | None = None
    failure: Failure | None = None
    within: str = ""
    type: Literal["answer"] = "answer"


@dataclass(frozen=True, slots=True)
class Noted:
    """A source that a call put into the turn's book, and what the call said that it says."""

    source: Source
    text: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, under its canonical name, and what came of it.

    `id` is unique in the file; `offline` tells that the call needed no network.
    """

    id: str
    name: str
    arguments: dict[str, object]
    result: ToolResult
    noted: tuple[Noted, ...] = ()
    offline: bool = False
    type: Literal["call"] = "call"


@dataclass(frozen=True, slots=True)
class End:
    """How the turn ended, as the person saw it."""

    outcome: Outcome
    text: str
    error: str = ""
    sources: tuple[Source, ...] = ()
    type: Literal["end"] = "end"


Line = Head | Answer | Call | End


@dataclass(frozen=True, slots=True)
class Cassette:
    """A whole recording."""

    head: Head
    end: End
    answers: tuple[Answer, ...] = field(default=())
    calls: tuple[Call, ...] = field(default=())


@cache
def _adapter() -> TypeAdapter[Head | Answer | Call | End]:
    return TypeAdapter(Annotated[Head | Answer | Call | End, Field(discriminator="type")])


def encode(line: Line) -> str:
    """One line of the file, without secrets. What JSON does not know is written as its text."""
    body = _adapter().dump_python(line, mode="python")
    return json.dumps(clean(body), ensure_ascii=False, default=_told)


def clean(value: object) -> object:
    """The same JSON value with every text scrubbed, those inside texts of JSON as well.

    What only the provider of the recording understands (`replay`) is left out: nobody can tell what it holds.
    """
    if isinstance(value, str):
        return scrub(value.encode("utf-8", "replace").decode())
    if isinstance(value, Mapping):
        made = {str(clean(str(key))): clean(item) for key, item in value.items()}
        if value.get("type") in ("thinking", "tool_call"):
            made["replay"] = ""
        raw = value.get("arguments")
        if value.get("type") == "tool_call" and isinstance(raw, str):
            made["arguments"] = _clean_json(raw)
        return made
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    return value


def _clean_json(text: str) -> object:
    """Raw arguments: scrubbed value by value where they are JSON, so that they stay JSON."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return clean(text)
    return json.dumps(clean(value), ensure_ascii=False)


def _told(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else scrub(str(value))


def read(path: Path) -> Cassette:
    """The recording in a file. Raises `UsageError` that names the line which cannot be used."""
    try:
        # Texts in a line may hold separators of their own (U+2028), so only the line feed ends one.
        texts = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"The recording {path} cannot be read: {why}.") from error
    if texts == [""]:
        raise UsageError(f"{path}:1: the file is empty; it is no recording.")
    _check_format(path, texts[0])
    lines = [_line(path, number, text) for number, text in enumerate(texts, 1)]
    head, end = lines[0], lines[-1]
    if not isinstance(head, Head):
        raise UsageError(f"{path}:1: a recording begins with a line of the type 'recording', not {head.type!r}.")
    if not isinstance(end, End):
        raise UsageError(f"{path}:{len(lines)}: the recording breaks off here: the end of the turn is missing.")
    if end.outcome == "cancelled":
        raise UsageError(f"{path}:{len(lines)}: the recorded turn was stopped before its end. Record it again.")
    answers = tuple(line for line in lines if isinstance(line, Answer))
    return Cassette(head, end, answers, tuple(line for line in lines if isinstance(line, Call)))


def _check_format(path: Path, text: str) -> None:
    """A newer file is refused before its lines are judged by rules that are not its own."""
    try:
        first: object = json.loads(text)
    except (ValueError, RecursionError):
        return
    found = first.get("format") if isinstance(first, dict) else None
    if isinstance(first, dict) and isinstance(found, int) and found > FORMAT:
        by = clean(str(first.get("nanobot", "?")))
        raise UsageError(
            f"{path}: nanobot {by} recorded this in format {found}, and this one reads up to {FORMAT}; update nanobot."
        )


def _line(path: Path, number: int, text: str) -> Line:
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}:{number}: {place + ': ' if place else ''}{first['msg']}.") from error
