"""Texts taken apart for the index: Markdown into sections under their headings, anything else into pieces."""

import re
from collections.abc import Iterator

from msgspec import Struct

from nanobot.utils.passages import Passage, split_passages
from nanobot.utils.text import strip_unsafe

#: Characters of a section, from which on it is parted between passages, and the most of one piece.
SECTION_CHARS, _PIECE_CHARS = 1_800, 2_400
#: Where a piece may end, the best first.
_ENDS = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"(?<=[.!?…])\s|(?<=[。！？])", r"\s")))


class TextSection(Struct, frozen=True):
    """What stands under one heading; `heading` is the path of headings above it, joined by ` › `."""

    heading: str
    text: str


def pieces(text: str, size: int = SECTION_CHARS) -> Iterator[str]:
    """A text in pieces of about `size` characters, parted where a paragraph, a line, a sentence or a word ends."""
    return (text for _, text in _cut(strip_unsafe(text), size))


def by_line(text: str) -> Iterator[TextSection]:
    """A text that has no headings, in pieces; in the place of a heading stands the line at which each begins."""
    line, before = 1, 0
    for start, piece in _cut(strip_unsafe(text), SECTION_CHARS):
        line += text.count("\n", before, start)
        before = start
        yield TextSection(f"line {line}", piece)


def _cut(text: str, size: int) -> Iterator[tuple[int, str]]:
    """The pieces, each with the offset at which it begins."""
    at = 0
    while at < len(text):
        end = len(text)
        if end - at > _PIECE_CHARS:
            ends = ([match.end() for match in wanted.finditer(text, at + size // 2, at + size)] for wanted in _ENDS)
            end = next(filter(None, ends), [at + size])[-1]
        piece = text[at:end]
        if piece.strip():
            yield at + len(piece) - len(piece.lstrip()), piece.strip()
        at = end


def sections(markdown: str) -> Iterator[TextSection]:
    """A page in sections of one heading each; long ones are parted between passages, long passages between words."""
    passages: list[Passage] = []
    size = 0
    for passage in split_passages(markdown):
        if passages and (passage.heading != passages[-1].heading or size + len(passage.text) > SECTION_CHARS):
            yield from _joined(passages)
            passages, size = [], 0
        passages.append(passage)
        size += len(passage.text)
    if passages:
        yield from _joined(passages)


def _joined(passages: list[Passage]) -> Iterator[TextSection]:
    whole = "".join(_blocks(passages)).strip("\n")
    if len(whole) <= _PIECE_CHARS:
        yield TextSection(passages[0].heading, whole)
    else:
        yield from (TextSection(passages[0].heading, piece) for piece in pieces(whole))


def _blocks(passages: list[Passage]) -> Iterator[str]:
    """Passages as they stood: the rows of a table and the items of a list below each other, others apart."""
    group = -1
    for item in passages:
        beside = item.kind in ("row", "item") and item.group == group
        yield ("\n" if beside else "\n\n") + item.markdown
        if item.kind == "row" and not item.lead:
            yield "\n|" + "---|" * (item.markdown.count("|") - 1)
        group = item.group if item.kind in ("row", "item") else -1
