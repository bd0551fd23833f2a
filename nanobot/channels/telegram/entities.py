"""Text as Telegram shows it: characters, and styled ranges of them."""

import unicodedata
from dataclasses import dataclass
from typing import Literal

EntityType = Literal[
    "bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote", "expandable_blockquote"
]


@dataclass(frozen=True, slots=True)
class Entity:
    """A styled range. `url` belongs to text_link, `language` to pre."""

    type: EntityType
    offset: int
    length: int
    url: str = ""
    language: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class Rendered:
    """Text as a person sees it, and its entities in order of their start, outer ones first."""

    text: str
    entities: tuple[Entity, ...] = ()


def width(text: str) -> int:
    """Columns in a fixed-width font."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
