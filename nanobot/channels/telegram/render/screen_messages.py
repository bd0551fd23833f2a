"""One message as it is to stand in a chat, and which of them stand there."""

import uuid
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from telegram import InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity

from nanobot.channels.telegram.render.entities import Entity
from nanobot.channels.telegram.render.markdown import render
from nanobot.channels.telegram.render.split import LIMIT, TextPart, split

#: UTF-16 units of a part: a little less than Telegram takes, so that a mark has room.
PART = LIMIT - 16
#: Stands before a message that may be in the chat already, because nobody can tell whether its first sending arrived.
REPEAT = "↻ "
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
        if self.buttons:
            made = [InlineKeyboardButton(label, callback_data=data) for label, data in self.buttons]
            return InlineKeyboardMarkup([made[place : place + 2] for place in range(0, len(made), 2)])
        if not self.stop:
            return None
        return InlineKeyboardMarkup([[InlineKeyboardButton("Stop", callback_data=self.stop, style="danger")]])

    @property
    def wire(self) -> list[MessageEntity]:
        return [
            MessageEntity(one.type, one.offset, one.length, url=one.url or None, language=one.language or None)
            for one in self.entities
        ]

    def looks_like(self, other: "ScreenMessage | None") -> bool:
        """True where an edit from one to the other would change nothing."""
        return other is not None and replace(self, silent=False) == replace(other, silent=False)


def screen_message_of(part: TextPart, *, silent: bool = False) -> ScreenMessage:
    return ScreenMessage(part.text, part.entities, silent=silent)


def screen_messages_of(markdown: str) -> tuple[ScreenMessage, ...]:
    """The messages of a text; those after the first make no sound. The same for a piece of an answer and the whole."""
    return tuple(
        screen_message_of(part, silent=number > 0) for number, part in enumerate(split(render(markdown), PART))
    )


def plainer(screen: ScreenMessage) -> ScreenMessage | None:
    """The next try after a refusal of entities: without links, then without any; None where nothing is left to drop."""
    if not screen.entities:
        return None
    kept = tuple(one for one in screen.entities if one.type != "text_link")
    return replace(screen, entities=kept if len(kept) < len(screen.entities) else ())


def as_repeat(screen: ScreenMessage) -> ScreenMessage:
    """The message with the mark of a possible repeat."""
    moved = tuple(replace(one, offset=one.offset + len(REPEAT)) for one in screen.entities)
    return replace(screen, text=REPEAT + screen.text, entities=moved)


def pieces(screen: ScreenMessage, limit: int = LIMIT // 2) -> tuple[ScreenMessage, ...]:
    """A message that was too long after all, in plain smaller ones."""
    text, cuts = screen.text, []
    while text:
        cut = len(text) if len(text) <= limit else text.rfind("\n", limit // 2, limit) + 1 or limit
        cuts.append(text[:cut].strip("\n"))
        text = text[cut:]
    return tuple(
        ScreenMessage(cut, silent=screen.silent or number > 0) for number, cut in enumerate(cuts) if cut.strip()
    )


#: The part under which the ledger knows the status message of a turn, so that no process leaves one behind.
STATUS_PART = 1_000


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
