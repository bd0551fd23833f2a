"""One walk over the tree: the page as a list of blocks, each with its inline spans and its place in the structure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from lxml.html import HtmlElement

from nanobot.web.extract.dom import INLINE, SILENT, body_of, count_tokens, is_hidden, lineage, names_of, tag_of

Kind = Literal["text", "heading", "code", "table", "rule"]
Style = Literal["bold", "italic", "code", "strike"]

STYLES: dict[str, Style] = {
    "strong": "bold",
    "b": "bold",
    "em": "italic",
    "i": "italic",
    "cite": "italic",
    "dfn": "italic",
    "code": "code",
    "kbd": "code",
    "samp": "code",
    "tt": "code",
    "del": "strike",
    "s": "strike",
    "strike": "strike",
}
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_PERMALINK = re.compile(r"headerlink|heading-?anchor|anchor-?link|permalink|hash-link|header-anchor", re.IGNORECASE)
_LANGUAGE = re.compile(
    r"(?:^|[\s-])(?:language|lang|highlight-source|highlight|source|brush:\s*|code)-?([\w+#]+)", re.IGNORECASE
)
_NO_LANGUAGE = {
    "text",
    "none",
    "default",
    "notranslate",
    "block",
    "plain",
    "plaintext",
    "nohighlight",
    "code",
    "source",
}
_GUTTER = re.compile(r"linenos|gutter|line-numbers|lineno", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text in one style. `href` is the raw link target; `image` the raw source of an image, `text` its alt."""

    text: str
    styles: frozenset[Style] = frozenset()
    href: str = ""
    image: str = ""


@dataclass(slots=True)
class Block:
    """A piece of the page that stands on lines of its own.

    `element` is the innermost element that holds it; `tokens` counts its words and `link_tokens` those inside links.
    `rows` are the cells of a table, the first row being the head when `header` is set; `language` belongs to code.
    """

    kind: Kind
    element: HtmlElement
    spans: list[Span] = field(default_factory=list)
    level: int = 0
    text: str = ""
    tokens: int = 0
    link_tokens: int = 0
    language: str = ""
    rows: list[list[list[Span]]] = field(default_factory=list)
    header: bool = False

    def measure(self) -> None:
        """Fill `text` and the token counts from the spans or the rows."""
        spans = self.spans or [span for row in self.rows for cell in row for span in (*cell, Span(" "))]
        joined = "".join(span.text for span in spans if not span.image)
        self.text = joined if self.kind == "code" else " ".join(joined.split())
        self.tokens = count_tokens(self.text)
        self.link_tokens = sum(count_tokens(span.text) for span in spans if span.href and not span.image)


class _Walk:
    """Collects blocks; iterative, so that depth costs nothing."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._spans: list[Span] = []
        self._owner: HtmlElement | None = None

    def run(self, top: HtmlElement) -> list[Block]:
        stack: list[tuple[str, HtmlElement, frozenset[Style], str]] = [("enter", top, frozenset(), "")]
        while stack:
            step, element, styles, href = stack.pop()
            if step == "leave":
                self._flush(element)
            elif step == "tail":
                self._text(element.tail, styles, href, element.getparent())
            else:
                stack.extend(reversed(self._enter(element, styles, href)))
        self._flush(top)
        return self.blocks

    def _enter(
        self, element: HtmlElement, styles: frozenset[Style], href: str
    ) -> list[tuple[str, HtmlElement, frozenset[Style], str]]:
        tag = tag_of(element)
        if not tag or tag in SILENT or is_hidden(element):
            return []
        if tag == "br":
            if self._spans and self._breaks():
                self._flush(element)
            else:
                self._spans.append(Span("\n"))
            return []
        if tag == "img":
            self._image(element, href)
            return []
        if tag in {"pre", "hr", "table"} and self._atomic(element, tag):
            return []
        if tag == "a" and (_PERMALINK.search(names_of(element)) or (element.text_content().strip() in {"¶", "#", "§"})):
            return []
        block = tag not in INLINE
        if block:
            self._flush(element)
        inner_styles = styles | {STYLES[tag]} if tag in STYLES else styles
        inner_href = element.get("href", "") if tag == "a" else href
        self._text(element.text, inner_styles, inner_href, element)
        steps: list[tuple[str, HtmlElement, frozenset[Style], str]] = []
        for child in element:
            steps.append(("enter", child, inner_styles, inner_href))
            steps.append(("tail", child, inner_styles, inner_href))
        if block:
            steps.append(("leave", element, styles, href))
        return steps

    def _text(self, text: str | None, styles: frozenset[Style], href: str, owner: HtmlElement | None) -> None:
        if not text:
            return
        if self._owner is None and text.strip():
            self._owner = owner
        self._spans.append(Span(re.sub(r"\s+", " ", text), styles, href))

    def _breaks(self) -> bool:
        """Whether the open run ends with a line break, so that one more makes a new paragraph."""
        for span in reversed(self._spans):
            if span.text == "\n":
                return True
            if span.text.strip():
                return False
        return False

    def _image(self, element: HtmlElement, href: str) -> None:
        alt = " ".join((element.get("alt") or "").split())
        source = element.get("src") or element.get("data-src") or ""
        if alt and source and not source.startswith("data:"):
            if self._owner is None:
                self._owner = element
            self._spans.append(Span(alt, frozenset(), href, source))

    def _flush(self, element: HtmlElement) -> None:
        spans, self._spans = self._spans, []
        owner, self._owner = self._owner, None
        if not any(span.text.strip() for span in spans):
            return
        holder = owner if owner is not None else element
        block = Block("text", holder, spans)
        for ancestor in lineage(holder):
            tag = tag_of(ancestor)
            if tag in _HEADINGS:
                block.kind, block.level = "heading", _HEADINGS[tag]
                break
            if tag not in INLINE and tag not in {"p", "div"}:
                break
        block.measure()
        self.blocks.append(block)

    def _atomic(self, element: HtmlElement, tag: str) -> bool:
        block: Block | None
        if tag == "hr":
            block = Block("rule", element)
        elif tag == "pre":
            block = code_block(element)
        else:
            block = table_block(element)
        if block is None:
            return False
        self._flush(element)
        block.measure()
        if block.kind == "rule" or block.text.strip():
            self.blocks.append(block)
        return True


def walk(root: HtmlElement) -> list[Block]:
    """Every visible block of the page in document order."""
    return _Walk().run(body_of(root))


def _visible(element: HtmlElement) -> Iterator[str]:
    stack: list[tuple[HtmlElement, bool]] = [(element, False)]
    while stack:
        current, tail = stack.pop()
        if tail:
            yield current.tail or ""
            continue
        tag = tag_of(current)
        if tag == "br":
            yield "\n"
        elif tag and tag not in SILENT and not _GUTTER.search(names_of(current)):
            yield current.text or ""
            for child in reversed(list(current)):
                stack.append((child, True))
                stack.append((child, False))


def language_of(element: HtmlElement) -> str:
    """The language that class names give a code element, its child or its close ancestors."""
    near = [element, *element.iter("code"), *[a for n, a in enumerate(lineage(element)) if 0 < n <= 3]]
    for candidate in near:
        explicit = candidate.get("data-lang") or candidate.get("data-language")
        if explicit and explicit.lower() not in _NO_LANGUAGE:
            return str(explicit).lower()
        for name in (candidate.get("class") or "").split():
            match = _LANGUAGE.match(name)
            if match and match[1].lower() not in _NO_LANGUAGE:
                return str(match[1]).lower().removeprefix("source-")
    return ""


def code_block(element: HtmlElement) -> Block:
    """A `pre` with its line breaks and indentation as they are."""
    lines = "".join(_visible(element)).replace("\r\n", "\n").replace("\xa0", " ").split("\n")
    while lines and not lines[0].strip():
        lines.pop(0)
    while lines and not lines[-1].strip():
        lines.pop()
    text = "\n".join(line.rstrip() for line in lines)
    return Block("code", element, [Span(text)], language=language_of(element))


def table_block(table: HtmlElement) -> Block | None:
    """A data table as rows of cells; None for a table that only lays the page out, or that numbers lines of code."""
    if next(table.iterdescendants("table"), None) is not None:
        return None
    if table.get("role") in {"presentation", "none"} or next(table.iterdescendants("pre"), None) is not None:
        return None
    rows: list[list[list[Span]]] = []
    header = False
    for row in table.iter("tr"):
        cells = [cell for cell in row if tag_of(cell) in {"td", "th"} and not is_hidden(cell)]
        if not cells:
            continue
        if not rows:
            header = all(tag_of(cell) == "th" for cell in cells)
        rows.append([_cell(cell) for cell in cells])
    if not rows or max(map(len, rows)) < 2 or (len(rows) < 2 and not header):
        return None
    longest = max(len("".join(span.text for span in cell)) for row in rows for cell in row)
    if longest > 1200 or (not header and sum(len(cell) > 0 for row in rows for cell in row) < 3):
        return None
    return Block("table", table, rows=rows, header=header)


def _cell(cell: HtmlElement) -> list[Span]:
    walk_ = _Walk()
    inner = walk_.run(cell)
    spans: list[Span] = []
    for block in inner:
        if spans:
            spans.append(Span(" "))
        spans.extend(block.spans)
    return spans
