"""The list of hits as a model reads it."""

from collections.abc import Sequence
from dataclasses import dataclass

from nanobot.utils.text import shorten
from nanobot.web.search.base import Detail, SearchHit

EMPTY_HINT = "Try fewer words, another language, or a search without site: and time limits."
_INDENT = "   "
#: Characters of a snippet in a brief list.
BRIEF = 100


@dataclass(frozen=True, slots=True)
class Numbered:
    """A hit under the number by which it may be cited."""

    number: int
    hit: SearchHit


def results(
    query: str,
    hits: Sequence[Numbered],
    *,
    budget: int,
    notices: Sequence[str] = (),
    detail: Detail = "normal",
    answer: str = "",
) -> str:
    """`Results for: query`, then each hit with its address and snippet; page text under the hit it belongs to.

    All page texts together take at most `budget` characters, shared so that short ones stay whole. The engine's own
    `answer` is shown in full detail.
    """
    tail = [f"Note: {notice}" for notice in notices]
    if not hits:
        return "\n".join([f"No results for: {query}", "", EMPTY_HINT, *tail])
    lines = [f"Results for: {query}", ""]
    if answer and detail == "full":
        lines += [f"The engine's own answer, which names no source: {answer}", ""]
    shares = water_fill([len(item.hit.content) for item in hits], budget)
    for item, share in zip(hits, shares, strict=True):
        lines += _entry(item, share, detail)
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


def _entry(item: Numbered, share: int, detail: Detail) -> list[str]:
    hit = item.hit
    lines = [f"{item.number}. {hit.title}", f"{_INDENT}{hit.url}"]
    facts = [hit.published, hit.site] if detail != "brief" else []
    if detail == "full":
        facts += [f"score {hit.score:.2f}" if hit.score is not None else "", hit.mime]
    known = " · ".join(part for part in facts if part)
    words = shorten(hit.snippet, BRIEF) if detail == "brief" else hit.snippet
    snippet = f"{words} ({known})" if words and known else words or known
    if snippet:
        lines.append(f"{_INDENT}{snippet}")
    if hit.content:
        lines += [f"{_INDENT}{line}".rstrip() for line in hit.content[:share].splitlines()]
        if share < len(hit.content):
            lines.append(f"{_INDENT}[{share} of {len(hit.content)} characters; web_fetch reads the whole page]")
    return lines
