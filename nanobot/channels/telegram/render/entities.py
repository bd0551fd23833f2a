"""Text as Telegram shows it: characters, and styled ranges of them."""

import unicodedata
from typing import Literal

from msgspec import Struct

EntityType = Literal[
    "bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote", "expandable_blockquote"
]


class Entity(Struct, frozen=True):
    """A styled range. `url` belongs to text_link, `language` to pre."""

    type: EntityType
    offset: int
    length: int
    url: str = ""
    language: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.length


class Rendered(Struct, frozen=True):
    """Text as a person sees it, and its entities in order of their start, outer ones first."""

    text: str
    entities: tuple[Entity, ...] = ()


def width(text: str) -> int:
    """Columns in a fixed-width font."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
