"""Pages taken apart into passages and sentences, in any language."""

import re
from textwrap import dedent
from typing import Literal

from msgspec import Struct

# Pages are strangers': no pattern may look again and again over a line, so what is inside a mark holds no such mark.
# Those of Markdown are compiled where passages are read, which an answer whose marks are judged does not.
_HEADING = r"^(#{1,6})\s+(.*)$"
_FENCE = r"^\s*(```+|~~~+)"
_COLON = r"[:：]$"
_LONGEST_LEAD = 300
_IMAGE = r"!\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)?)\]\([^()]*(?:\([^()]*\)[^()]*)?\)"
_LINK = r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?:[^()\s]|\([^()]*\))*(?:\s+\"[^\"]*\")?\)"
_EMPHASIS = (
    r"(\*{1,3})(?=\S)([^*\n]+)(?<=\S)\1(?!\w)"
    r"|(?<!\w)(_{1,3})(?=\S)([^_\n]+(?:_+(?=\w)[^_\n]+){0,8})(?<=\S)\3(?!\w)"
)
_ESCAPED = r"\\([\\`*_{}\[\]()#+\-.!|<>~])"
_LIST = r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+"
_RULE = r"^\s*(?:[-*_]\s*){3,}$|^\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*(?::?-{2,}:?)?\s*$"
#: The end of a sentence: a Western mark with a blank after it, or a CJK mark, with the closing quotes behind it.
#: It begins with the signs that begin one, which is how Python finds the next place where one may be.
_END = re.compile(
    r"[.!?…。！？｡।۔؟\n](?:(?<=[.!?…])[.!?…]*[\"'”’»)\]]*(?=\s)|(?<=[。！？｡])[。！？｡]*[」』”）]*"
    r"|(?<=[।۔؟])[।۔؟]*(?=\s|$)|(?<=\n)\n*)"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"“‘'])(?:\w|\w\.\w|mr|mrs|ms|dr|st|prof|gov|gen|sen|rep|lt|col|sgt|capt|rev|hon|jr|sr|vs|etc|inc|ltd|corp|co"
    r"|no|nos|vol|fig|al|approx|est|dept|univ|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|ca|bzw|usw|z\.b|d\.h|nr|bd"
    r"|art|mio|mrd|mme|mlle|av|sra?|dra?|ing|г|гг|ул|им|т|см|млн|млрд|тыс|руб)\.$",
    re.IGNORECASE,
)
#: Letters of the longest abbreviation, what stands before it, and its dot.
_SHORT = 8

PassageKind = Literal["text", "item", "row", "code"]


class Passage(Struct, frozen=True):
    """One block of a page: a paragraph, a list item, a table row or a code block.

    `heading` is the path of headings above it, joined by ` › `. `markdown` is the text with its marks of code and
    emphasis; `lead` the line before a list or code that ends in a colon, or the head of the table; a list, a table, or
    code with its lead is one `group`.
    """

    text: str
    heading: str = ""
    kind: PassageKind = "text"
    markdown: str = ""
    lead: str = ""
    group: int = 0


def plain_text(markdown: str) -> str:
    """One block of Markdown as a reader sees it: no link targets, no images, no emphasis marks."""
    text = re.sub(_LINK, r"\1", re.sub(_IMAGE, "", markdown))
    for _ in range(2):
        text = re.sub(_EMPHASIS, r"\2\4", text)
    text = re.sub(_ESCAPED, r"\1", text.replace("`", ""))
    return " ".join(text.split())


def without_links(markdown: str) -> str:
    """One block of Markdown on one line, with its marks of code and emphasis, without link targets and images."""
    return " ".join(re.sub(_ESCAPED, r"\1", re.sub(_LINK, r"\1", re.sub(_IMAGE, "", markdown))).split())


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
        self._fence = ""
        self._kind: PassageKind = "text"
        self._lead = self._head = ""
        self._group = 0

    def take(self, line: str) -> None:
        fence = re.match(_FENCE, line)
        if self._fence and not (fence and fence[1].startswith(self._fence)):
            self._lines.append(line)
        elif fence:
            self.flush()
            self._fence = "" if self._fence else fence[1]
            self._kind = "code" if self._fence else "text"
        elif heading := re.match(_HEADING, line):
            self.flush()
            level = len(heading[1])
            self._headings = [item for item in self._headings if item[0] < level]
            self._headings.append((level, plain_text(heading[2].rstrip().rstrip("#").rstrip())))
            self._lead, self._group = "", self._group + 1
        elif not line.strip() or re.match(_RULE, line.strip()):
            self.flush()
            self._head = self._head if line.strip() else ""
        elif line.lstrip().startswith("|"):
            self._row(line.strip())
        else:
            if marked := re.match(_LIST, line):
                self.flush()
                self._kind, self._lines = "item", [marked[0].lstrip()]
                line = line[marked.end() :]
            self._lines.append(line.lstrip("> "))

    def flush(self) -> None:
        lines, self._lines, kind, self._kind = self._lines, [], self._kind, "text"
        marker = lines.pop(0) if kind == "item" else ""
        text = dedent("\n".join(lines)).strip("\n") if kind == "code" else plain_text("\n".join(lines))
        if not text.strip():
            return
        markdown = f"```\n{text}\n```" if kind == "code" else marker + without_links("\n".join(lines))
        if kind == "text":
            self._lead, self._group = "", self._group + 1
        self._add(kind, text, markdown, self._lead)
        if kind == "text" and re.search(_COLON, text) and len(text) < _LONGEST_LEAD:
            self._lead = markdown

    def _row(self, line: str) -> None:
        self.flush()
        text = " · ".join(cell.strip() for cell in line.strip("|").split("|") if cell.strip())
        self._group += not self._head
        if plain := plain_text(text):
            self._add("row", plain, without_links(line), self._head)
        self._head = self._head or without_links(line)

    def _add(self, kind: PassageKind, text: str, markdown: str, lead: str) -> None:
        heading = " › ".join(title for _, title in self._headings)
        self.passages.append(Passage(text, heading, kind, markdown, lead, self._group))


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
        if match[0].startswith(".") and (_ABBREVIATION.search(piece, len(piece) - _SHORT) or follows[:1].islower()):
            continue
        found.append((start, match.end()))
        start = match.end()
    if start < len(text):
        found.append((start, len(text)))
    return tuple(found)
