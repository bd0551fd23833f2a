"""The places of a long page that speak of something."""

import re
from collections.abc import Iterator

from nanobot.utils.ranking import best_passages

MOST_CHARS = 2_000_000
_LEAST = 300
_MOST = 1_500
_PLACES = 12


def find_in(text: str, query: str, most: int) -> str:
    """The best places in reading order, each under its character range; at most about `most` characters, maybe none."""
    places = list(_places(text[:MOST_CHARS]))
    budget = most
    chosen: list[tuple[int, str]] = []
    for hit in best_passages(query, [words for _, words in places], _PLACES):
        start, words = places[hit.index]
        if chosen and len(words) > budget:
            break
        budget -= len(words)
        chosen.append((start, words[:most]))
    return "\n\n".join(f"(characters {start} to {start + len(words)})\n{words}" for start, words in sorted(chosen))


def _places(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs with their offsets; short ones joined, long ones cut at a line or a blank."""
    start = 0
    while start < len(text):
        ends = (match.start() for match in re.finditer(r"\n\s*\n", text[start + _LEAST : start + _MOST]))
        end = start + _LEAST + next(ends, _MOST - _LEAST)
        if end - start >= _MOST:
            blank = max(text.rfind("\n", start + _LEAST, end), text.rfind(" ", start + _LEAST, end))
            end = blank if blank > start else end
        piece = text[start:end]
        if piece.strip():
            lead = len(piece) - len(piece.lstrip())
            yield start + lead, piece.strip()
        start = end
