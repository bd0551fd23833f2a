"""A conversation as a file of Markdown for people, or of JSON lines for programs."""

from collections.abc import Iterator, Sequence
from datetime import tzinfo

import msgspec

from nanobot.archive.exchanges import TalkExchange, exchanges_of, speaker_of
from nanobot.session.listing import SessionEntry
from nanobot.session.store import Record
from nanobot.utils.text import squeeze
from nanobot.utils.translation import _, listed


def markdown_of(entry: SessionEntry, records: Sequence[Record], zone: tzinfo | None) -> str:
    """Questions as quotations, answers as they were written, sources under their numbers, and what was done."""
    parts = [f"# {_heading(entry.title)}", about(entry, zone)]
    for one in exchanges_of(records):
        parts += [f"## {one.at.astimezone(zone):%Y-%m-%d %H:%M}", *_exchange(one)]
    return "\n\n".join(parts) + "\n"


def about(entry: SessionEntry, zone: tzinfo | None) -> str:
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
    return "\n".join(msgspec.json.encode(one).decode() for one in (head, *map(_line, records))) + "\n"


def _line(record: Record) -> dict[str, object]:
    return {
        "type": "record",
        "seq": record.seq,
        "kind": record.kind,
        "at": record.at,
        "turn": record.turn,
        "message": record.message,
    }


def _exchange(one: TalkExchange) -> Iterator[str]:
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
        yield "\n".join([_("Sources:"), "", *(_source(mark.number, mark.title, mark.url) for mark in one.sources)])
    wrong = [f"- [{mark.number}] {text}" for mark in one.sources for text in mark.wrong]
    if wrong:
        yield "\n".join([_("Marks whose source does not carry the words:"), "", *wrong])
    if one.receipts:
        yield "\n".join([_("Done:"), "", *(f"- {_heading(line)}" for line in one.receipts)])
    if one.unbacked:
        yield "\n".join(
            [_("Claimed, and not done by any call:"), "", *(f"- {_heading(line)}" for line in one.unbacked)]
        )


def _source(number: int, title: str, url: str) -> str:
    return f"- [{number}] {_heading(title)} <{squeeze(url)}>" if title else f"- [{number}] <{squeeze(url)}>"


def _heading(text: str) -> str:
    """A text on one line, without what Markdown would take for more than words."""
    return squeeze(text).replace("<", "\\<").replace("`", "\\`").replace("[", "\\[").replace("*", "\\*")
