"""Changes of a text by exact pieces of it, and what a change does, as a diff.

Edits are made all or none; where a piece is not found, the nearest place is told.
"""

import difflib
from collections.abc import Sequence

from msgspec import Struct

from nanobot.errors import EditMiss, PathError
from nanobot.utils.translation import _

#: Lines of a file in which the nearest place is looked for, characters of a line that are compared, and places told.
_LINES, _WIDTH, _PLACES = 20_000, 200, 8
#: How alike a line has to be so that a place is called near.
_ALIKE = 0.6
_BOM = "\ufeff"
#: Lines that are compared one by one, and lines that stand around a change.
_COMPARED, _AROUND = 2_000, 2


class Edit(Struct, frozen=True):
    """One change: `old` is replaced by `new` where it stands once, or everywhere with `all`."""

    old: str
    new: str
    all: bool = False


class Change(Struct, frozen=True):
    """What a write did, whole. `added` and `removed` count lines; both are -1 where the file is no text."""

    shown: str
    created: bool
    added: int
    removed: int
    diff: str = ""

    @property
    def receipt(self) -> str:
        """What was done, in a few words for people."""
        done = _("created {file}", file=self.shown) if self.created else _("wrote {file}", file=self.shown)
        return f"{done} ({self.counted})" if self.counted else done

    @property
    def counted(self) -> str:
        """How many lines came and went, such as `+12 −3`; empty for what is no text."""
        return f"+{self.added} −{self.removed}" if self.added >= 0 else ""


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """`text` after all edits, each made on what the one before it left.

    Raises `EditMiss`, which may show lines of the text, where one of them cannot be made.
    A text whose lines all end in CRLF, or in CR, is matched as if they ended in LF, and keeps its ends and its byte
    order mark.
    """
    mark = _BOM if text.startswith(_BOM) else ""
    end = line_end(text)
    now = text.removeprefix(_BOM).replace(end, "\n")
    for number, edit in enumerate(edits, 1):
        one = Edit(edit.old.replace(end, "\n"), edit.new.replace(end, "\n"), edit.all)
        why = _why_not(now, one)
        if why:
            # English: a model reads it
            which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
            # English: a model reads it
            raise EditMiss(f"{which}{why}\nNothing was changed.")
        now = now.replace(one.old, one.new)
    return mark + now.replace("\n", end)


def line_end(text: str) -> str:
    """What ends the lines of a text: CRLF where it ends all of them, CR where nothing else does, else LF."""
    feeds = text.count("\n")
    return "\r\n" if text.count("\r\n") == feeds > 0 else "\r" if not feeds and "\r" in text else "\n"


def _why_not(text: str, edit: Edit) -> str:  # English: a model reads it
    """Why an edit cannot be made; empty where it can."""
    if edit.old == edit.new:
        return "The new text is the same as the old one."
    count = text.count(edit.old)
    if count == 0:
        return _nearest(text, edit.old)
    if count > 1 and not edit.all:
        lines = _lines_of(text, edit.old)
        more = f" and {count - len(lines)} more" if count > len(lines) else ""
        where = ", ".join(map(str, lines))
        return (
            f"The text to replace stands there {count} times, in lines {where}{more}. Give more of the lines around "
            "the one that is meant, or set all to true."
        )
    return ""


def _lines_of(text: str, piece: str) -> list[int]:
    """The lines in which the first few places of `piece` begin."""
    found: list[int] = []
    at = text.find(piece)
    while at >= 0 and len(found) < _PLACES:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(piece, at + len(piece))
    return found


def _nearest(text: str, piece: str) -> str:  # English: a model reads it
    """What stands nearest to a piece that is not there, as a small diff."""
    lines, wanted = text.split("\n")[:_LINES], piece.strip("\n").split("\n")
    start = _place(lines, wanted)
    if start is None:
        return "The text to replace is not in the file, nor anything like it. Read the file again."
    there = lines[start : start + len(wanted)]
    diff = [line for line in difflib.ndiff(wanted, there) if not line.startswith("? ")]
    shown = [f"{line[:2]}{line[2:][:_WIDTH]}" for line in diff[:24]]
    more = [f"… {len(diff) - 24} more lines"] if len(diff) > 24 else []
    head = f"The text to replace is not in the file. Nearest are lines {start + 1} to {start + len(there)} "
    return "\n".join([f"{head}(-: what you gave, +: what stands there):", *shown, *more])


def _place(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """The line at which something like `wanted` begins, found by the line of it that says most."""
    anchor = max(range(len(wanted)), key=lambda at: len(wanted[at].strip()))
    key = wanted[anchor].strip()[:_WIDTH]
    if not key:
        return None
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(key)
    best, found = _ALIKE, None
    for at, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:_WIDTH])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (alike := matcher.ratio()) > best:
            best, found = alike, at
    return None if found is None else max(0, found - anchor)


def text_of(data: bytes, shown: str) -> str:
    """The text of a file, its byte order mark included. Raises `PathError` where it is none."""
    if b"\0" in data[:8_000]:
        raise PathError(_("{path} is no text: {size:,} bytes of something else.", path=shown, size=len(data)))
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PathError(_("{path} is no UTF-8 text, so it cannot be changed without loss.", path=shown)) from None


def compare(shown: str, before: bytes | None, after: bytes) -> Change:
    """What becomes of a file; `before` is None where it is new."""
    created = before is None
    try:
        texts = text_of(before or b"", shown), text_of(after, shown)
    except PathError:
        return Change(shown, created, -1, -1)
    end = "\r" if {line_end(text) for text in texts if text} == {"\r"} else "\n"
    old, new = (lines if lines[-1] else lines[:-1] for lines in (text.split(end) for text in texts))
    first = _alike(old, new)
    last = _alike(old[first:][::-1], new[first:][::-1])
    removed, added = old[first : len(old) - last], new[first : len(new) - last]
    if max(len(removed), len(added)) > _COMPARED:  # a rewrite; comparing it line by line takes minutes
        lines = [*(f"-{line}" for line in removed), *(f"+{line}" for line in added)]
        return Change(shown, created, len(added), len(removed), "\n".join(lines))
    near = slice(max(0, first - _AROUND), None)
    ends = (len(old) - last + min(last, _AROUND), len(new) - last + min(last, _AROUND))
    lines = list(difflib.unified_diff(old[: ends[0]][near], new[: ends[1]][near], lineterm="", n=_AROUND))[2:]
    plus = sum(line.startswith("+") for line in lines)
    minus = sum(line.startswith("-") for line in lines)
    return Change(shown, created, plus, minus, "\n".join(lines))


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines two texts begin with alike."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)
