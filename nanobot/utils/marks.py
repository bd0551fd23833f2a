"""Citation marks such as `[2]`, or `[2?]` where the source does not carry the words: where they stand in a text, where
a mark is none, how one is put in, and what those of an answer rest on.

Every place is an index into the Python string, so Chinese and emoji count as the characters they are. Services that
count in UTF-8 bytes are converted by `index_of`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from nanobot.messages import Citation, Source
from nanobot.utils.text import one_line
from nanobot.utils.translation import _

Unit = Literal["utf8", "characters"]

_MARK = re.compile(r"\[(\d{1,3}\??(?:\s*[,;，、–-]\s*\d{1,3}\??)*)\]|【(\d{1,3})(?:†[^】\n]{0,80})?】")
_FENCE = re.compile(r"^[ \t>]*(?P<fence>`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_TICKS = re.compile(r"`+")
_URL = re.compile(r"(?:https?|ftp)://[^\s<>\"'，。、）】」]+", re.IGNORECASE)
_LINK_TARGET = re.compile(r"\]\([^()\n]{0,2000}(?:\([^()\n]{0,500}\)[^()\n]{0,2000})?\)|\]\[[^\]\n]{1,100}\](?=\()")
_SUBSCRIPT = re.compile(r"(?:(?<![A-Za-z0-9_.])[A-Za-z]|[_$.][A-Za-z_][A-Za-z0-9_]*)\Z")
_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s*)?[*_]{0,3}(?:sources?|references|citations|quellen|sources? :|fuentes|fontes|fonti|источники"
    r"|来源|參考資料|参考资料|参考来源|資料來源|出典|参考文献|출처)[*_:：\s]*$",
    re.IGNORECASE,
)
_ENTRY = re.compile(r"\[\d+\]|https?://|^\s*(?:[-*+]|\d+[.)])\s")
#: The widest range of numbers, such as `[2-5]`, that is read as marks.
_WIDEST = 20


class Mark(Struct, frozen=True):
    """A mark of one or several numbers at `text[start:end]`."""

    start: int
    end: int
    numbers: tuple[int, ...]


class Support(Struct, frozen=True):
    """What a service says of a stretch of its answer: it ends at `end` and rests on the sources `numbers`."""

    end: int
    numbers: tuple[int, ...]


def find_marks(text: str) -> tuple[Mark, ...]:
    """The marks of `text` in order; none from code, addresses, links, subscripts such as `sys.argv[1]`, or `[0]`."""
    kept_out = shielded(text)
    found: list[Mark] = []
    at = 0
    for match in _MARK.finditer(text):
        while at < len(kept_out) and kept_out[at][1] <= match.start():
            at += 1
        inside = at < len(kept_out) and kept_out[at][0] < match.end()
        numbers = _numbers(match[1] or match[2])
        if inside or not numbers or _is_link(text, match.end()):
            continue
        if _SUBSCRIPT.search(text[max(0, match.start() - 40) : match.start()]):
            continue
        found.append(Mark(match.start(), match.end(), numbers))
    return tuple(found)


def shielded(text: str) -> list[tuple[int, int]]:
    """The stretches in which brackets are no marks: code blocks, code in a line, addresses and links; in order."""
    spans = code_spans(text)
    for match in _URL.finditer(text):
        spans.append(match.span())
    for match in _LINK_TARGET.finditer(text):
        spans.append((_opening(text, match.start()), match.end()))
    return _merged(spans)


def code_spans(text: str) -> list[tuple[int, int]]:
    """The stretches of code: blocks, then code in a line."""
    blocks = _fenced(text)
    return blocks + _in_ticks(text, blocks)


def own_list(text: str) -> int | None:
    """Where the list of sources begins that closes `text`, or None where it has none of its own."""
    lines = text.rstrip().splitlines(keepends=True)
    place = sum(map(len, lines))
    for at in range(len(lines) - 1, -1, -1):
        place -= len(lines[at])
        if _HEADING.match(lines[at]):
            entries = [line for line in lines[at + 1 :] if line.strip()]
            return place if entries and all(_ENTRY.search(line) for line in entries) else None
    return None


def numbers_used(text: str) -> tuple[int, ...]:
    """The numbers that `text` cites, each once, by their first use; a closing list of its own does not count."""
    marks = find_marks(text[: own_list(text)])
    return tuple(dict.fromkeys(number for mark in marks for number in mark.numbers))


def cited(text: str, sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources of a finished answer: those that it cites or links to, by their first use, then those that were read
    besides."""
    known = {source.number: source for source in sources}
    used = dict.fromkeys(number for number in numbers_used(text) if number in known)
    used |= {source.number: None for source in sources if source.read and f"]({source.url})" in text}
    return (*(known[number] for number in used), *(one for one in sources if one.read and one.number not in used))


def passages(citations: Iterable[Citation], number: int = 0) -> str:
    """What the marks of an answer rest on, as Markdown; of source `number` alone unless it is 0."""
    shown: dict[int, list[str]] = {}
    for one in citations:
        if number in (0, one.number):
            head = f"**[{one.number}] {one_line(one.title) or _('Untitled')}** {one_line(one.url)}".rstrip()
            found = one.missing or one.passage or _("It has no text to compare.")
            lines = shown.setdefault(one.number, [head])
            lines.append(f"- {one_line(one.claim)}\n  {'✗' if one.missing else '→'} {one_line(found)}")
    return "\n\n".join("\n".join(dict.fromkeys(lines)) for lines in shown.values())


def index_of(text: str, offset: int, unit: Unit = "utf8") -> int:
    """The index in `text` for an offset counted in `unit`; one inside a character moves to the character's end."""
    if unit == "characters":
        return max(0, min(offset, len(text)))
    width = 0
    for index, sign in enumerate(text):
        if width >= offset:
            return index
        width += len(sign.encode("utf-8", "replace"))
    return len(text)


def with_marks(text: str, supports: Iterable[Support], unit: Unit = "utf8") -> str:
    """`text` with `[n]` after every stretch that a service supports.

    Marks are put in from the end backwards; one that would fall into code, an address or a link goes behind it, and
    one that would tear a sign of several code points (a flag, a skin tone) goes behind the sign.
    """
    kept_out = shielded(text)
    places: dict[int, list[int]] = {}
    for support in supports:
        place = index_of(text, support.end, unit)
        for start, end in kept_out:
            place = end if start < place < end else place
        numbers = places.setdefault(_whole_sign(text, place), [])
        numbers.extend(number for number in support.numbers if number not in numbers)
    for place in sorted(places, reverse=True):
        marks = "".join(f"[{number}]" for number in places[place])
        text = f"{text[:place]}{marks}{text[place:]}"
    return text


def _numbers(inside: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in re.split(r"[,;，、]", inside.replace("?", "")):
        ends = [int(end) for end in re.split(r"[–-]", part)]
        first, last = ends[0], ends[-1]
        if 0 in ends or len(ends) > 2 or not first <= last <= first + _WIDEST:
            return ()
        numbers.extend(range(first, last + 1))
    return tuple(dict.fromkeys(numbers))


def _is_link(text: str, place: int) -> bool:
    """True when what follows a bracket makes it a link or the definition of one."""
    return bool(re.match(r"\((?:https?:|/|#|\w+\.\w|<|mailto:)|:\s*(?:<?https?:)", text[place : place + 40]))


def _fenced(text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    start, fence = -1, ""
    for match in _FENCE.finditer(text):
        sign = match["fence"]
        if start < 0:
            start, fence = match.start(), sign
        elif sign[0] == fence[0] and len(sign) >= len(fence) and match[0].strip(" \t>") == sign:
            spans.append((start, match.end()))
            start = -1
    if start >= 0:
        spans.append((start, len(text)))
    return spans


def _in_ticks(text: str, fenced: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Code in a line: from a run of backticks to the next run of the same length within the paragraph."""
    spans: list[tuple[int, int]] = []
    waiting: dict[int, int] = {}
    border, starts = 0, [start for start, _ in fenced]
    for match in _TICKS.finditer(text):
        block = bisect_right(starts, match.start())
        if block and match.start() < fenced[block - 1][1]:
            continue
        if "\n\n" in text[border : match.start()]:
            waiting.clear()
        border = match.end()
        size = len(match[0])
        if size in waiting:
            spans.append((waiting[size], match.end()))
            waiting.clear()
        else:
            waiting[size] = match.start()
    return spans


def _opening(text: str, close: int) -> int:
    """Where the bracket opens that closes at `close`; `close` itself where none does on the line."""
    depth = 0
    for at in range(close, max(-1, close - 2_000), -1):
        if text[at] == "\n":
            break
        if text[at] == "]":
            depth += 1
        elif text[at] == "[":
            depth -= 1
            if depth == 0:
                return at
    return close


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _whole_sign(text: str, place: int) -> int:
    """`place`, moved behind what belongs to the sign before it: joiners, variation selectors, skin tones, accents."""
    while 0 < place < len(text) and (
        re.match("[\u0300-\u036f\u200d\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]", text[place])
        or text[place - 1] == "\u200d"
    ):
        place += 1
    flags = re.search("[\U0001f1e6-\U0001f1ff]*\\Z", text[:place])
    torn = flags is not None and len(flags[0]) % 2 == 1
    return place + 1 if torn and re.match("[\U0001f1e6-\U0001f1ff]", text[place : place + 1]) else place
