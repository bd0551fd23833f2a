"""Rendered text as messages that Telegram takes: 4096 UTF-16 units and 100 entities each, nothing lost.

Also which of them stand in a chat.
"""

import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace
from telegram import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity

from nanobot.channels.telegram.render.markdown import Entity, Rendered, render
from nanobot.utils.translation import _

LIMIT = 4096  # UTF-16 units of one message
ENTITIES = 100  # entities of one message; Telegram drops what is more
#: UTF-16 units of a part: a little less than Telegram takes, so that a mark has room.
PART = LIMIT - 16
#: Stands before a message that may be in the chat already, because nobody can tell whether its first sending arrived.
REPEAT = "↻ "
#: The part under which the ledger knows the status message of a turn, so that no process leaves one behind.
STATUS_PART = 1_000
#: How many turns are remembered whose last word was said.
_REMEMBERED = 2_000


class ScreenMessage(Struct, frozen=True):
    """Text with entities (UTF-16 units). `stop` is the data of a Stop button, empty for none; `silent`: no sound.

    `buttons` are further ones, label and data, two in a row.
    """

    text: str
    entities: tuple[Entity, ...] = ()
    stop: str = ""
    silent: bool = False
    buttons: tuple[tuple[str, str], ...] = ()

    @property
    def keyboard(self) -> InlineKeyboardMarkup | None:
        made = [InlineKeyboardButton(label, callback_data=data) for label, data in self.buttons]
        if self.stop:
            made.append(InlineKeyboardButton(_("Stop"), callback_data=self.stop, style="danger"))
        return InlineKeyboardMarkup([made[place : place + 2] for place in range(0, len(made), 2)]) if made else None

    @property
    def wire(self) -> list[MessageEntity]:
        return [
            MessageEntity(one.type, one.offset, one.length, url=one.url or None, language=one.language or None)
            for one in self.entities
        ]

    def looks_like(self, other: "ScreenMessage | None") -> bool:
        """True where an edit from one to the other would change nothing."""
        return other is not None and replace(self, silent=False) == replace(other, silent=False)

    def plainer(self) -> "ScreenMessage | None":
        """The next try after a refusal of entities: without links, then without any; None with nothing left to drop."""
        if not self.entities:
            return None
        kept = tuple(one for one in self.entities if one.type != "text_link")
        return replace(self, entities=kept if len(kept) < len(self.entities) else ())

    def as_repeat(self) -> "ScreenMessage":
        """The message with the mark of a possible repeat."""
        moved = tuple(replace(one, offset=one.offset + len(REPEAT)) for one in self.entities)
        return replace(self, text=REPEAT + self.text, entities=moved)


def screen_messages_of(markdown: str) -> tuple[ScreenMessage, ...]:
    """The messages of a text. The same for a piece of an answer and the whole."""
    return split(render(markdown))


def utf16_length(text: str) -> int:
    """How long Telegram takes `text` to be."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def split(rendered: Rendered, limit: int = PART) -> tuple[ScreenMessage, ...]:
    """The parts in order, of which those after the first make no sound.

    Joined, they hold the text but for blanks at the cuts; an entity that is cut goes on.
    """
    text = rendered.text
    units = [0, *accumulate(2 if char > "\uffff" else 1 for char in text)]
    offsets = [entity.offset for entity in rendered.entities]
    pre = [entity for entity in rendered.entities if entity.type == "pre"]
    parts: list[ScreenMessage] = []
    near: list[Entity] = []  # those that begin before the end of the part and have not ended before it
    start = known = 0
    while (start := _skip_blank(text, start, pre)) < len(text):
        end = bisect_right(units, units[start] + limit) - 1
        found = bisect_left(offsets, end)
        near = [entity for entity in (*near, *rendered.entities[known:found]) if entity.end > start]
        known = max(known, found)
        if len(near) > ENTITIES:
            end = min(end, max(near[ENTITIES].offset, start + 1))
        if end < len(text):
            end = _good_cut(text, near, start, max(end, start + 1))
        part = _part(text, near, units, start, end)
        if part.text:
            parts.append(replace(part, silent=bool(parts)))
        start = end
    return tuple(parts)


def _skip_blank(text: str, start: int, pre: Sequence[Entity]) -> int:
    """Past newlines at the head of a part; the indentation of code stays."""
    while start < len(text) and text[start] == "\n":
        start += 1
    inside = any(entity.offset <= start < entity.end for entity in pre)
    return start if inside else len(text) - len(text[start:].lstrip())


def _good_cut(text: str, entities: Sequence[Entity], start: int, end: int) -> int:
    """The best place to cut in the last part of the window: between blocks, lines, sentences, words, characters."""
    least = start + (end - start) // 3
    solid = [entity for entity in entities if entity.offset < end < entity.end or least < entity.end <= end]
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


def _part(whole: str, entities: Sequence[Entity], units: list[int], start: int, end: int) -> ScreenMessage:
    text = whole[start:end].rstrip()
    stop = start + len(text)
    inside: list[Entity] = []
    for entity in entities:
        low, high = max(entity.offset, start), min(entity.end, stop)
        if low < high and whole[low:high].strip():
            offset, length = units[low] - units[start], units[high] - units[low]
            inside.append(replace(entity, offset=offset, length=length))
    return ScreenMessage(text, tuple(inside[:ENTITIES]))


class MessageSlot(Struct):
    """The place of one part of an answer in the chat. `screen` is what stands there as far as known.

    `row` is its row in the ledger. `unsure`: it was sent, and nobody knows whether it arrived.
    """

    message_id: int = 0
    screen: ScreenMessage | None = None
    unsure: bool = False
    row: int = 0

    def clear(self) -> None:
        self.message_id, self.screen = 0, None


class Slots:
    """What `show` and `send` know together. Both look here while they hold the queue, so neither sends a part twice."""

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex  # tells the drafts of this process from those of one that is gone
        self._slots: dict[str, dict[int, MessageSlot]] = {}
        self._closed: dict[str, None] = {}

    def slot(self, turn: str, part: int) -> MessageSlot:
        return self._slots.setdefault(turn, {}).setdefault(part, MessageSlot())

    def shown(self, turn: str) -> Sequence[tuple[int, MessageSlot]]:
        """The parts of the answer that stand in the chat, in order."""
        known = sorted(self._slots.get(turn, {}).items())
        return [(part, slot) for part, slot in known if slot.message_id and part != STATUS_PART]

    def close(self, turn: str) -> None:
        """The final text exists: from now on it is the outbox alone that writes it."""
        self._closed[turn] = None
        if len(self._closed) > _REMEMBERED:
            del self._closed[next(iter(self._closed))]

    def closed(self, turn: str) -> bool:
        return turn in self._closed

    def forget(self, turn: str) -> None:
        self._slots.pop(turn, None)
