"""Citations that are checked: a mark stays where its source was found or read in this turn and supports the claim."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nanobot.agent.citations.claims import Claim, read_claims
from nanobot.agent.citations.elsewhere import Turn
from nanobot.agent.citations.pages import PageText
from nanobot.results import Source, SourceBook
from nanobot.utils.marks import Mark, find_marks, numbers_used, own_list

#: Answers with more marks than this are checked as far as this goes; the rest stays.
_MOST_CLAIMS = 300


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer after the check. `removed` are the numbers that were taken out, once for every mark."""

    text: str
    removed: tuple[int, ...] = ()

    @property
    def notice(self) -> str:
        """What a person is told about it; empty where nothing was removed."""
        if not self.removed:
            return ""
        count = len(self.removed)
        numbers = ", ".join(f"[{number}]" for number in sorted(set(self.removed)))
        citations = "citation" if count == 1 else "citations"
        return f"Removed {count} {citations} that the pages do not support: {numbers}."


def check(text: str, book: SourceBook, asked: str = "") -> Checked:
    """`text` without the marks that its sources do not support. Pure, and CPU-bound for long pages.

    `asked` is what the person wrote: marks that stand there are theirs and stay. A turn without any source leaves
    lists such as `[1, 2, 3]` alone.
    """
    sources = {source.number: source for source in book.all}
    pages = {
        number: PageText(f"{source.title}\n{book.text(number)}\n{source.url}")
        for number, source in sources.items()
        if book.text(number)
    }
    turn = Turn(pages)
    theirs = {number for mark in find_marks(asked) for number in mark.numbers} - sources.keys()
    wrong: dict[Mark, set[int]] = {}
    for claim in read_claims(text)[:_MOST_CLAIMS]:
        named = {number for number in claim.numbers if number in sources}
        kept = _supporting(claim, named, pages)
        kept -= {number for number in kept & pages.keys() if not claim.quotes and turn.elsewhere(claim, number)}
        kept |= theirs
        for mark in claim.marks:
            plain_list = not sources and (len(mark.numbers) > 1 or _at_line_start(text, mark))
            if not plain_list and (bad := set(mark.numbers) - kept):
                wrong[mark] = bad
    cleaned = _without(text, wrong)
    removed = tuple(number for mark, numbers in wrong.items() for number in mark.numbers if number in numbers)
    return Checked(_without_wrong_list(cleaned, sources, changed=bool(removed)), removed)


def cited(text: str, sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources of a finished answer: those that it cites, by their first use, then those that were read besides."""
    known = {source.number: source for source in sources}
    used = [number for number in numbers_used(text) if number in known]
    return (*(known[number] for number in used), *(item for item in sources if item.read and item.number not in used))


def _supporting(claim: Claim, named: set[int], pages: Mapping[int, PageText]) -> set[int]:
    """Those of the sources that support a claim; together they must hold all of it, each a part of it at least."""
    # An image, or a result without words, is nothing to hold a claim against.
    kept = named - pages.keys()
    lacks = {
        number: set(pages[number].missing(claim)) for number in named - kept if not pages[number].contradicts(claim)
    }
    if not lacks:
        return kept
    parts = len(set(claim.quotes)) + len(claim.figures) + len(claim.names)
    nowhere = set.intersection(*lacks.values())
    if nowhere:
        return kept
    return kept | {number for number, missing in lacks.items() if not missing or len(missing) < parts}


def _at_line_start(text: str, mark: Mark) -> bool:
    return not text[text.rfind("\n", 0, mark.start) + 1 : mark.start].strip(" \t*->")


def _without(text: str, wrong: dict[Mark, set[int]]) -> str:
    """`text` without the wrong numbers; a mark that loses all of them goes with the blank before it."""
    for mark in sorted(wrong, key=lambda mark: -mark.start):
        left = [number for number in mark.numbers if number not in wrong[mark]]
        if left:
            text = f"{text[: mark.start]}[{', '.join(map(str, left))}]{text[mark.end :]}"
            continue
        before, after = text[: mark.start], text[mark.end :]
        if before.endswith(" ") and (not after or after[0] in " \n.,;:!?)]，。；：！？、）"):
            before = before.rstrip(" ")
        elif (not before or before.endswith("\n")) and after.startswith(" "):
            after = after.lstrip(" ")
        text = before + after
    return text


def _without_wrong_list(text: str, sources: dict[int, Source], *, changed: bool) -> str:
    """`text` without a closing list of its own where that names what was not found or read, or is no longer right."""
    place = own_list(text)
    if place is None:
        return text
    urls = {source.url.rstrip("/") for source in sources.values()}
    for line in text[place:].splitlines()[1:]:
        numbers = [int(number) for number in re.findall(r"^\W*\[(\d{1,3})\]", line)]
        links = [link.rstrip("/.,;") for link in re.findall(r"https?://[^\s<>()\]]+", line)]
        changed = changed or any(number not in sources for number in numbers) or any(link not in urls for link in links)
    return text[:place].rstrip() if changed else text
