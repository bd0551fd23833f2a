"""A conversation as people remember it: questions and answers in order, each with its sources and what was really done.

What an export shows is this; records that steer the model alone, such as the notes of nanobot to itself, are left out.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from nanobot import jsonval
from nanobot.messages import ROLES, AssistantMessage, Citation, Media, Message, Role, ToolCall, ToolMessage, UserMessage
from nanobot.session.listing import name_in, own_words
from nanobot.session.store import Record
from nanobot.utils.text import printable
from nanobot.utils.tool_hints import tool_hint
from nanobot.utils.translation import _


class SourceLine(Struct, frozen=True):
    """A source of an answer under its number; `wrong` are claims that it was found not to carry."""

    number: int
    url: str
    title: str
    wrong: tuple[str, ...] = ()


class TalkExchange(Struct, frozen=True):
    """What a person said, and what came of it.

    `speaker` is their name in a group, else their role. `files` are names of what came with it. `steps` are lines of
    what was looked up or done on the way, `receipts` what was really changed, `unbacked` what the answer claims beyond.
    `summary`: it is what was said before, summed up, and nobody has asked it.
    """

    at: datetime
    speaker: str
    question: str
    files: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    answer: str = ""
    sources: tuple[SourceLine, ...] = ()
    receipts: tuple[str, ...] = ()
    unbacked: tuple[str, ...] = ()
    summary: bool = False


def exchanges_of(records: Iterable[Record]) -> tuple[TalkExchange, ...]:
    """The exchanges of a transcript in order."""
    found: list[TalkExchange] = []
    for record in records:
        message = record.message
        if record.kind == "compaction" and isinstance(message, UserMessage) and message.text:
            found.append(TalkExchange(record.at, "nanobot", printable(message.text), summary=True))
        elif record.kind != "message":
            continue
        elif isinstance(message, UserMessage):
            found += _said(record.at, message)
        elif found:
            found[-1] = _with(found[-1], message)
    return tuple(found)


def seen_by(records: Iterable[Record], role: Role) -> tuple[Record, ...]:
    """The records that somebody of this role may see: not what was said by who may do more, nor what came of that."""
    found: list[Record] = []
    hidden = False
    for record in records:
        message = record.message
        if isinstance(message, UserMessage):
            hidden = ROLES.index(message.speaker) > ROLES.index(role)
        if not hidden:
            found.append(record)
    return tuple(found)


def speaker_of(exchange: TalkExchange) -> str:
    """Who said it as a person reads it; empty where it was the owner, or nanobot itself."""
    if exchange.speaker in ("owner", "nanobot"):
        return ""
    return _(exchange.speaker) if exchange.speaker in ROLES else exchange.speaker


def _said(at: datetime, message: UserMessage) -> list[TalkExchange]:
    if message.kind == "notice":
        return []
    files = tuple(part.name or _("a file") for part in message.content if isinstance(part, Media))
    name = name_in(message)
    return [TalkExchange(at, name or message.speaker, printable(own_words(message)), tuple(map(printable, files)))]


def _with(exchange: TalkExchange, message: Message) -> TalkExchange:
    """The exchange with one more message that came after the question."""
    if isinstance(message, ToolMessage):
        done = tuple(printable(line) for line in message.receipt.splitlines())
        return replace(exchange, receipts=(*exchange.receipts, *done))
    if not isinstance(message, AssistantMessage):
        return exchange
    if message.calls:
        return replace(exchange, steps=(*exchange.steps, *map(_step, message.calls)))
    told = "\n\n".join(filter(None, (exchange.answer, printable(message.text.strip()))))
    receipts = tuple(map(printable, message.receipts)) or exchange.receipts
    return replace(
        exchange,
        answer=told,
        sources=(*exchange.sources, *_sources(message.citations)),
        receipts=receipts,
        unbacked=tuple(map(printable, message.unbacked)),
    )


def _sources(citations: Sequence[Citation]) -> tuple[SourceLine, ...]:
    found: dict[int, SourceLine] = {}
    for one in citations:
        known = found.get(one.number) or SourceLine(one.number, printable(one.url), printable(one.title))
        wrong = (printable(one.missing),) if one.missing else ()
        found[one.number] = replace(known, wrong=(*known.wrong, *wrong))
    return tuple(found[number] for number in sorted(found))


def _step(call: ToolCall) -> str:
    """What a call was about, in a line."""
    return printable(tool_hint(call.name, jsonval.obj(jsonval.parse(call.arguments))))
