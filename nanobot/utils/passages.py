"""Pages taken apart into passages and sentences, in any language."""

import re
from dataclasses import dataclass

_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)")
_IMAGE = re.compile(r"!\[([^\]]*)\]\([^)]*\)")
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)")
_EMPHASIS = re.compile(r"(\*{1,3}|(?<!\w)_{1,3})(\S(?:.*?\S)?)\1(?!\w)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~])")
_LIST = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_RULE = re.compile(r"^\s*(?:[-*_]\s*){3,}$|^\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*(?::?-{2,}:?)?\s*$")
#: The end of a sentence: a Western mark with a blank after it, or a CJK mark, with the closing quotes behind it.
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”）]*|[।۔؟]+(?=\s|$)|\n+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"“‘'])(?:\w|\w\.\w|mr|mrs|ms|dr|st|prof|gov|gen|sen|rep|lt|col|sgt|capt|rev|hon|jr|sr|vs|etc|inc|ltd|corp|co"
    r"|no|nos|vol|fig|al|approx|est|dept|univ|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|ca|bzw|usw|z\.b|d\.h|nr|bd"
    r"|art|mme|mlle|av|sra?|dra?|ing|г|гг|ул|им|т|см|млн|млрд|тыс|руб)\.$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Passage:
    """One block of a page: a paragraph, a list item, a table row or a code block.

    `heading` is the path of headings above it, joined by ` › `; `index` counts the passages of the page from 0; `code`
    tells that line breaks matter.
    """

    text: str
    heading: str = ""
    index: int = 0
    code: bool = False


def plain_text(markdown: str) -> str:
    """One block of Markdown as a reader sees it: no link targets, no images, no emphasis marks."""
    text = _IMAGE.sub("", markdown)
    text = _LINK.sub(r"\1", text)
    for _ in range(2):
        text = _EMPHASIS.sub(r"\2", text)
    text = _ESCAPED.sub(r"\1", text.replace("`", ""))
    return " ".join(text.split())


def split_passages(markdown: str) -> tuple[Passage, ...]:
    """A Markdown page as passages in reading order, each with the headings it stands under."""
    splitter = _Splitter()
    for line in markdown.splitlines():
        splitter.take(line)
    splitter.flush()
    return tuple(splitter.passages)


class _Splitter:
    """Reads lines and gathers them into passages."""

    def __init__(self) -> None:
        self.passages: list[Passage] = []
        self._headings: list[tuple[int, str]] = []
        self._lines: list[str] = []
        self._fenced = False

    def take(self, line: str) -> None:
        if _FENCE.match(line):
            self.flush()
            self._fenced = not self._fenced
        elif self._fenced:
            self._lines.append(line)
        elif heading := _HEADING.match(line):
            self.flush()
            level = len(heading[1])
            self._headings = [item for item in self._headings if item[0] < level]
            self._headings.append((level, plain_text(heading[2])))
        elif not line.strip() or _RULE.match(line):
            self.flush()
        elif line.lstrip().startswith("|"):
            self.flush()
            self._lines.append(" · ".join(cell.strip() for cell in line.strip().strip("|").split("|") if cell.strip()))
            self.flush()
        else:
            if _LIST.match(line):
                self.flush()
                line = _LIST.sub("", line)
            self._lines.append(line.lstrip("> "))

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        text = "\n".join(lines).strip("\n") if self._fenced else plain_text("\n".join(lines))
        if text.strip():
            heading = " › ".join(title for _, title in self._headings)
            self.passages.append(Passage(text, heading, len(self.passages), self._fenced))


def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, in order. Abbreviations, initials and decimal points do not end one."""
    return tuple(piece for start, end in sentence_spans(text) if (piece := text[start:end].strip()))


def sentence_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Where each sentence begins and ends; the spans touch and together are the whole text."""
    found: list[tuple[int, int]] = []
    start = 0
    for match in _END.finditer(text):
        piece = text[start : match.end()]
        follows = text[match.end() : match.end() + 2].strip()
        if match[0].startswith(".") and (_ABBREVIATION.search(piece[-40:]) or follows[:1].islower()):
            continue
        found.append((start, match.end()))
        start = match.end()
    if start < len(text):
        found.append((start, len(text)))
    return tuple(found)
