"""Rendered text as messages that Telegram takes: at most 4096 UTF-16 units and 100 entities each, nothing lost."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from nanobot.channels.telegram.render.entities import Entity, EntityType, Rendered

LIMIT = 4096  # UTF-16 units of one message
ENTITIES = 100  # entities of one message; Telegram drops what is more
#: Which entities stay when a part has too many: the ones whose loss would change what is read come first.
PRIORITY: tuple[EntityType, ...] = ("pre", "text_link", "blockquote", "code", "bold", "strikethrough", "italic")


class TextPart(Struct, frozen=True):
    """One message. Offsets and lengths of the entities are in UTF-16 units."""

    text: str
    entities: tuple[Entity, ...] = ()


def utf16_length(text: str) -> int:
    """How long Telegram takes `text` to be."""
    return len(text) + sum(char > "\uffff" for char in text)


def split(rendered: Rendered, limit: int = LIMIT) -> tuple[TextPart, ...]:
    """The parts in order. Joined, they hold the text but for blanks at the cuts; an entity that is cut goes on."""
    text = rendered.text
    units = [0, *accumulate(2 if char > "\uffff" else 1 for char in text)]
    parts: list[TextPart] = []
    start = 0
    while start < len(text):
        start = _skip_blank(text, start, rendered.entities)
        if start >= len(text):
            break
        end = _end_of_part(rendered, units, start, limit)
        part = _part(rendered, units, start, end)
        if part.text:
            parts.append(part)
        start = end
    return tuple(parts)


def _skip_blank(text: str, start: int, entities: Sequence[Entity]) -> int:
    """Past newlines at the head of a part; the indentation of code stays."""
    while start < len(text) and text[start] == "\n":
        start += 1
    rest = text[start:].lstrip()
    blank_end = len(text) - len(rest)
    inside = any(entity.type == "pre" and entity.offset <= start < entity.end for entity in entities)
    return start if inside else blank_end


def _end_of_part(rendered: Rendered, units: list[int], start: int, limit: int) -> int:
    text = rendered.text
    end = bisect_right(units, units[start] + limit) - 1
    end = min(end, _end_by_entities(rendered.entities, start, len(text)))
    if end >= len(text):
        return len(text)
    return _good_cut(rendered, start, max(end, start + 1))


def _end_by_entities(entities: Sequence[Entity], start: int, whole: int) -> int:
    """Where the entities that must not be dropped would become too many."""
    vital = sorted(e.offset for e in entities if e.type in {"pre", "text_link", "blockquote"} and e.end > start)
    return max(vital[ENTITIES], start + 1) if len(vital) > ENTITIES else whole


def _good_cut(rendered: Rendered, start: int, end: int) -> int:
    """The best place to cut in the last part of the window: between blocks, lines, sentences, words, characters."""
    text = rendered.text
    least = start + (end - start) // 3
    solid = [entity for entity in rendered.entities if entity.offset < end < entity.end or least < entity.end <= end]
    pre = [entity for entity in solid if entity.type == "pre"]
    frozen = [entity for entity in solid if entity.type in {"text_link", "code"}]
    for mark in ("\n\n", "\n"):
        cut = _last(text, mark, least, end, [*pre, *frozen])
        if cut:
            return cut
    heads = [entity.offset for entity in pre if least < entity.offset < end < entity.end]
    if heads and heads[0] > least:
        return heads[0]
    for mark in ("\n", ". ", "。", "! ", "? ", " "):
        cut = _last(text, mark, least, end, frozen)
        if cut:
            return cut
    inside = [entity.offset for entity in frozen if start < entity.offset < end < entity.end]
    return inside[0] if inside else end


def _last(text: str, mark: str, least: int, end: int, avoid: Sequence[Entity]) -> int:
    """The end of the last `mark` between `least` and `end` that cuts none of `avoid`; 0 where there is none."""
    place = text.rfind(mark, least, end)
    while place >= 0:
        cut = place + len(mark)
        if not any(entity.offset < cut < entity.end for entity in avoid):
            return cut
        place = text.rfind(mark, least, place)
    return 0


def _part(rendered: Rendered, units: list[int], start: int, end: int) -> TextPart:
    text = rendered.text[start:end]
    text = text[: len(text.rstrip())]
    stop = start + len(text)
    inside: list[Entity] = []
    for entity in rendered.entities:
        low, high = max(entity.offset, start), min(entity.end, stop)
        if low < high and rendered.text[low:high].strip():
            offset, length = units[low] - units[start], units[high] - units[low]
            inside.append(replace(entity, offset=offset, length=length))
    return TextPart(text, _within_budget(inside))


def _within_budget(entities: list[Entity]) -> tuple[Entity, ...]:
    if len(entities) <= ENTITIES:
        return tuple(entities)
    ranked = sorted(range(len(entities)), key=lambda index: PRIORITY.index(entities[index].type))
    return tuple(entities[index] for index in sorted(ranked[:ENTITIES]))
