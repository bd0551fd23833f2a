"""Lines of memory: one fact each, with the day on which it was noted and where it came from.

`- 2026-11-22: The boiler was serviced by Kowalski. (noted on telegram)` is what the agent writes; what people write by
hand has perhaps neither a day nor an origin. A line that begins with `- !` is pinned.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import date

from msgspec import Struct

from nanobot.errors import PathError
from nanobot.utils.ranking import terms
from nanobot.utils.text import one_line, shorten
from nanobot.utils.translation import _

#: What is to be known in every conversation, and what is of one day: that stands in a note of the day.
MEMORY, PERSON = "memory/MEMORY.md", "USER.md"
#: Characters of a fact, and of its origin.
FACT_WIDTH, _ORIGIN_WIDTH = 500, 80
#: The first line of a file that the agent makes.
_HEAD = "# Memory\n\n"
_LINE = re.compile(
    r"\s*[-*+] +(?P<pin>! ?)?(?:(?P<at>\d{4}-\d{2}-\d{2})\b:? *)?(?P<text>.*?)(?: \(noted on (?P<origin>[^()]*)\))?\s*"
)


class MemoryLine(Struct, frozen=True):
    """A line of a memory file. `place` is its number in the file, from 0; `at` the day as text, perhaps empty, and
    `origin` where it was said, such as `telegram`, perhaps with what stood beside it."""

    place: int
    text: str
    at: str = ""
    origin: str = ""
    pinned: bool = False

    @property
    def words(self) -> list[str]:
        return terms(self.text)


def day_note(day: date) -> str:
    """The file for what is of a day."""
    return f"memory/{day.isoformat()}.md"


def lines_of(text: str) -> tuple[MemoryLine, ...]:
    """The facts of a file: its list items and other lines, without headings, comments and fields left empty."""
    found = []
    for place, line in enumerate(text.splitlines()):
        match = _LINE.fullmatch(line)
        said = match["text"] if match else line.strip()
        if not terms(said) or line.lstrip().startswith(("#", "<!--")) or said.endswith(":"):
            continue
        if match:
            found.append(MemoryLine(place, said, match["at"] or "", match["origin"] or "", bool(match["pin"])))
        else:
            found.append(MemoryLine(place, said))
    return tuple(found)


def fact_of(text: str) -> str:
    """What is to be noted, on one line. Raises `PathError` where it says nothing, or too much."""
    fact = one_line(text).lstrip("-*+#!> ").strip()
    if not terms(fact):
        raise PathError(_("The fact says nothing. Give one sentence that stands by itself."))
    if len(fact) > FACT_WIDTH:
        long = _(
            "One fact has at most {most} characters. Longer texts belong into a file of their own.", most=FACT_WIDTH
        )
        raise PathError(long)
    return fact


def origin_of(channel: str, taint: Iterable[str]) -> str:  # English: it is written into a file
    """Where a fact was said, and what content from outside stood beside it."""
    beside = ", ".join(taint)
    said = f"{channel} beside {beside}" if beside else channel
    return shorten(re.sub(r"[()\[\]]", " ", one_line(said)), _ORIGIN_WIDTH)


def same(lines: Iterable[MemoryLine], fact: str) -> MemoryLine | None:
    """The line that says just that already."""
    wanted = terms(fact)
    return next((one for one in lines if one.words == wanted), None)


def added(text: str, fact: str, day: date, origin: str) -> str:
    """The file with one more fact, at its end."""
    body = text.rstrip() or _HEAD.rstrip()
    last = body.splitlines()[-1]
    gap = "\n" if _LINE.fullmatch(last) else "\n\n"
    return f"{body}{gap}{_written(fact, day, origin)}\n"


def replaced(text: str, old: str, fact: str, day: date, origin: str) -> str:
    """The file with a fact in the place of the one line that holds the words `old`; a pinned one stays so.

    Raises `PathError` where there is no such line, or more than one.
    """
    line = _only(lines_of(text), old)
    all_lines = text.splitlines()
    all_lines[line.place] = _written(fact, day, origin, pinned=line.pinned)
    return "\n".join(all_lines) + "\n"


def without(text: str, places: Iterable[int]) -> str:
    """The file without these lines."""
    gone = set(places)
    return "".join(line for place, line in enumerate(text.splitlines(keepends=True)) if place not in gone)


def fitting(text: str, limit: int) -> tuple[str, int]:
    """What of a memory file may stand in a prompt of `limit` characters: the pinned lines and the newest ones, in their
    order and with their headings; and how many other lines there are."""
    rows, heads, head = text.splitlines(), dict[int, int](), -1
    ranked: list[tuple[bool, str, int]] = []
    last = ""
    for place, row in enumerate(rows):
        match = _LINE.fullmatch(row)
        last = (match["at"] if match else "") or last
        if row.startswith("#"):
            head = place
        elif row.strip():
            heads[place] = head
            ranked.append((bool(match and match["pin"]), last, place))
    kept: set[int] = set()
    room = limit
    for _pinned, _last, place in sorted(ranked, reverse=True):
        more = {place, heads[place]} - kept - {-1}
        room -= sum(len(rows[one]) + 1 for one in more)
        if room < 0:
            break
        kept |= more
    return "\n".join(rows[place] for place in sorted(kept)), len(ranked) - sum(place in heads for place in kept)


def _written(fact: str, day: date, origin: str, *, pinned: bool = False) -> str:  # English: as it is read again
    return f"- {'! ' if pinned else ''}{day.isoformat()}: {fact} (noted on {origin})"


def _only(lines: Sequence[MemoryLine], old: str) -> MemoryLine:
    wanted = set(terms(old))
    found = [one for one in lines if wanted and wanted <= set(terms(f"{one.at} {one.text}"))]
    found = [one for one in found if one.words == terms(old)] or found
    if not found:
        # English: a model reads it
        raise PathError(f"No line of {MEMORY} holds the words {old!r}. Without `replaces` the fact is added.")
    if len(found) > 1:
        listed = "; ".join(shorten(one.text, 80) for one in found[:5])
        # English: a model reads it
        raise PathError(f"{len(found)} lines hold the words {old!r}: {listed}. Name more of the one that is meant.")
    return found[0]
