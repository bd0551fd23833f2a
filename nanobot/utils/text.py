"""Small pure functions on text."""

import difflib
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

from nanobot.utils.translation import N_, _

#: Control characters but tab, newline and carriage return; bidirectional marks, overrides and isolates; tag characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)
#: Complete terminal sequences: CSI; OSC (ended by BEL or ST); DCS, PM and APC strings; two-character escapes.
_ESCAPES = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[PX^_][^\x1b]*(?:\x1b\\\\)?|[ -/]*[0-~])"
)
#: The address key of whoever sits at this machine, with which those of single terminals begin.
_TERMINAL = "terminal:local"


def encodable(text: str, encoding: str) -> str:
    """`text` as an encoding can show it, with `?` for what it lacks."""
    return text.encode(encoding, "replace").decode(encoding, "replace")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like `word`, or None where none is near."""
    names = list(known)
    folded = {name.casefold().replace("_", ""): name for name in names}
    match = difflib.get_close_matches(word.casefold().replace("_", ""), list(folded), n=1, cutoff=0.6)
    return folded[match[0]] if match else None


def strip_unsafe(text: str) -> str:
    """`text` without terminal escapes, control, bidi-override and tag characters, and lone surrogates."""
    text = _UNSAFE.sub("", _ESCAPES.sub("", text))
    return text.encode("utf-8", "ignore").decode("utf-8")


def printable(text: str) -> str:
    """`text` as it may be written to a terminal, whoever wrote it: nothing but words, tabs and line ends."""
    return strip_unsafe(text.replace("\r\n", "\n")).replace("\r", "\n")


#: Units of time by their seconds.
_UNITS = {86_400: N_("{number} d"), 3_600: N_("{number} h"), 60: N_("{number} min"), 1: N_("{number} s")}


def duration(seconds: float) -> str:
    """Such as `0.4 s`, `42 s`, `3 min 5 s`, `3 h 20 min`, `2 d 4 h`: the two largest units that say something."""
    if seconds < 9.95:
        return _(_UNITS[1], number=f"{seconds:.1f}".removesuffix(".0"))
    whole = round(seconds)
    for size, smaller in ((86_400, 3_600), (3_600, 60), (60, 1)):
        if whole >= size:
            said, rest = _(_UNITS[size], number=whole // size), whole % size // smaller
            return f"{said} {_(_UNITS[smaller], number=rest)}" if rest else said
    return _(_UNITS[1], number=whole)


def file_size(size: int) -> str:
    """A number of bytes for people: `3 kB`, `2.5 MB`, `1.2 GB`."""
    for unit, name in ((1_000_000_000, "GB"), (1_000_000, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{max(1, round(size / 1000))} kB"


def retry_after(header: str) -> float | None:
    """The seconds that a `Retry-After` header asks to wait, as a number or as a date; None where it is neither."""
    header = header.strip()
    if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", header, re.ASCII):
        return float(header)
    from datetime import UTC, datetime  # a start needs neither
    from email.utils import parsedate_to_datetime

    try:
        until = parsedate_to_datetime(header)
    except (ValueError, IndexError, OverflowError):
        return None
    until = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())


def sendable(secret: str) -> bool:
    """Whether a key or a header value can stand in a request: printable ASCII, as all of HTTP's headers are."""
    return secret.isascii() and secret.isprintable()


def is_whole(text: str) -> bool:
    """Whether it holds no half of a character, and is thus no name of a file that is no UTF-8."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def squeeze(text: str) -> str:
    """`text` on one line with single blanks."""
    return " ".join(text.split())


def lasting_key(key: str) -> str:
    """The address key under which stands what outlasts a conversation, such as sessions, changes of files and jobs: a
    terminal is another one at each start, and all of them are of one person at one place."""
    return _TERMINAL if key.startswith(f"{_TERMINAL}:") else key


def one_line(text: str, width: int = sys.maxsize) -> str:
    """Text of others on one line, with nothing in it that could drive a terminal or forge a line; cut in its middle
    where it is longer than `width` characters."""
    return shorten(squeeze(strip_unsafe(text)), width)


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`, `1,000 files`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


#: A word, or a sign of a script without blanks, with the blank before it and the punctuation that belongs to it.
_WIDE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
_OPENING, _CLOSING = "（《「『【〈“‘", "，。：；！？、）》」』】〉”’…"
_PART = f" ?[{_OPENING}]*(?:[^ {_WIDE}{_OPENING}]+|[{_WIDE}])[{_CLOSING}]*| |[{_OPENING}]"


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def broken(line: str, columns: int) -> list[str]:
    """`line` as lines of at most so many columns; a part that is wider, such as an address, stays whole."""
    first, *parts = re.findall(_PART, line) or [""]  # compiling it takes 3 ms, which few starts need
    lines = [first]
    for part in parts:
        if columns_of(lines[-1]) + columns_of(part) <= columns:
            lines[-1] += part
        else:
            lines.append(part.removeprefix(" "))
    return lines


def shorten(text: str, width: int) -> str:
    """`text` cut in the middle to at most `width` characters, with one ellipsis."""
    if len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head = width // 2
    tail = width - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :] if tail else ''}"


def fold(text: str) -> str:
    """`text` for comparison: NFKC, case folded, blanks collapsed."""
    return squeeze(unicodedata.normalize("NFKC", text).casefold())


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as a Markdown table whose head is the first row; shorter rows are filled up."""
    width = max(map(len, rows), default=0)
    if not width:
        return ""
    filled = ([*row, *[""] * (width - len(row))] for row in rows)
    lines = ["| " + " | ".join(squeeze(cell).replace("|", "\\|") for cell in row) + " |" for row in filled]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def shares(sizes: Sequence[int], budget: int) -> list[int]:
    """How much of `budget` each of `sizes` gets: small ones all they want, the rest the same share of what is left."""
    room = [0] * len(sizes)
    left = max(0, budget)
    for done, at in enumerate(sorted(range(len(sizes)), key=lambda at: sizes[at])):
        room[at] = min(sizes[at], left // (len(sizes) - done))
        left -= room[at]
    return room
