"""The list of hits as a model reads it."""

from collections.abc import Sequence
from dataclasses import dataclass

from nanobot.web.search.base import SearchHit

EMPTY_HINT = "Try fewer words, another language, or a search without site: and time limits."
_INDENT = "   "


@dataclass(frozen=True, slots=True)
class Numbered:
    """A hit under the number by which it may be cited."""

    number: int
    hit: SearchHit


def results(query: str, hits: Sequence[Numbered], *, budget: int, notices: Sequence[str] = ()) -> str:
    """`Results for: query`, then each hit with its address and snippet; page text under the hit it belongs to.

    All page texts together take at most `budget` characters, shared so that short ones stay whole.
    """
    tail = [f"Note: {notice}" for notice in notices]
    if not hits:
        return "\n".join([f"No results for: {query}", "", EMPTY_HINT, *tail])
    lines = [f"Results for: {query}", ""]
    shares = water_fill([len(item.hit.content) for item in hits], budget)
    for item, share in zip(hits, shares, strict=True):
        lines += _entry(item, share)
    return "\n".join([*lines, *([""] if tail else []), *tail])


def water_fill(sizes: Sequence[int], budget: int) -> list[int]:
    """How much of `budget` each of `sizes` gets: small ones all they want, the rest the same share of what is left."""
    shares = [0] * len(sizes)
    left = max(0, budget)
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for done, index in enumerate(by_size):
        shares[index] = min(sizes[index], left // (len(sizes) - done))
        left -= shares[index]
    return shares


def _entry(item: Numbered, share: int) -> list[str]:
    hit = item.hit
    lines = [f"{item.number}. {hit.title}", f"{_INDENT}{hit.url}"]
    known = " · ".join(part for part in (hit.published, hit.site) if part)
    snippet = f"{hit.snippet} ({known})" if hit.snippet and known else hit.snippet or known
    if snippet:
        lines.append(f"{_INDENT}{snippet}")
    if hit.content:
        lines += [f"{_INDENT}{line}".rstrip() for line in hit.content[:share].splitlines()]
        if share < len(hit.content):
            lines.append(f"{_INDENT}[{share} of {len(hit.content)} characters; web_fetch reads the whole page]")
    return lines
