"""A conversation as people remember it: questions and answers in order, each with its sources and what was really done.

An export shows this as Markdown for people; records that steer the model alone, such as the notes of nanobot to itself,
are left out of it. As JSON lines for programs it holds everything.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nanobot import jsonval
from nanobot.messages import ROLES, AssistantMessage, Citation, Media, Message, Role, ToolCall, ToolMessage, UserMessage
from nanobot.session.listing import SessionEntry, name_in, own_words
from nanobot.session.store import Record
from nanobot.utils.text import printable, squeeze
from nanobot.utils.tool_hints import tool_hint
from nanobot.utils.translation import _, listed


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


def markdown_of(entry: SessionEntry, records: Sequence[Record], zone: tzinfo | None) -> str:
    """Questions as quotations, answers as they were written, sources under their numbers, and what was done."""
    parts = [f"# {_heading(entry.title)}", _about(entry, zone)]
    for one in exchanges_of(records):
        parts += [f"## {one.at.astimezone(zone):%Y-%m-%d %H:%M}", *_shown(one)]
    return "\n\n".join(parts) + "\n"


def _about(entry: SessionEntry, zone: tzinfo | None) -> str:
    """Where and when it was, in a line."""
    info = entry.info
    begun, last = (f"{at.astimezone(zone):%Y-%m-%d %H:%M}" for at in (info.created_at, info.updated_at))
    told = _(
        "{place}, {begun} to {last} ({zone}), session {id}, {messages} messages",
        place=entry.place,
        begun=begun,
        last=last,
        zone=zone or _("local time"),
        id=info.id,
        messages=info.messages,
    )
    return _("{session}, {cost:.4f} USD", session=told, cost=entry.cost) if entry.cost else told


def lines_of(entry: SessionEntry, records: Sequence[Record]) -> str:
    """Everything that is kept, a JSON object a line: first of the session, then of each record in order."""
    info = entry.info
    head = {
        "type": "session",
        "id": info.id,
        "key": info.key,
        "title": info.title,
        "messages": info.messages,
        "createdAt": info.created_at,
        "updatedAt": info.updated_at,
        "costUsd": round(entry.cost, 6),
    }
    return "\n".join(msgspec.json.encode(one).decode() for one in (head, *map(_record, records))) + "\n"


def _record(record: Record) -> dict[str, object]:
    return {
        "type": "record",
        "seq": record.seq,
        "kind": record.kind,
        "at": record.at,
        "turn": record.turn,
        "message": record.message,
    }


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


def _shown(one: TalkExchange) -> Iterator[str]:
    if one.summary:
        yield _("*What was said before, summed up:*")
    if one.question:
        name = speaker_of(one)
        speaker = f"**{_heading(name)}:** " if name else ""
        yield "\n".join(f"> {line}".rstrip() for line in f"{speaker}{one.question}".splitlines())
    if one.files:
        yield _("Files: {files}", files=listed(map(_heading, one.files)))
    if one.steps:
        yield "\n".join(f"- {_heading(step)}" for step in one.steps)
    if one.answer:
        yield one.answer
    if one.sources:
        yield "\n".join([_("Sources:"), "", *(_source_line(mark.number, mark.title, mark.url) for mark in one.sources)])
    wrong = [f"- [{mark.number}] {text}" for mark in one.sources for text in mark.wrong]
    if wrong:
        yield "\n".join([_("Marks whose source does not carry the words:"), "", *wrong])
    if one.receipts:
        yield "\n".join([_("Done:"), "", *(f"- {_heading(line)}" for line in one.receipts)])
    if one.unbacked:
        yield "\n".join(
            [_("Claimed, and not done by any call:"), "", *(f"- {_heading(line)}" for line in one.unbacked)]
        )


def _source_line(number: int, title: str, url: str) -> str:
    return f"- [{number}] {_heading(title)} <{squeeze(url)}>" if title else f"- [{number}] <{squeeze(url)}>"


def _heading(text: str) -> str:
    """A text on one line, without what Markdown would take for more than words."""
    return squeeze(text).replace("<", "\\<").replace("`", "\\`").replace("[", "\\[").replace("*", "\\*")
