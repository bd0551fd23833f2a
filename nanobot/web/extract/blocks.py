"""One walk over the tree: the page as a list of blocks with their inline spans, and as the parts that hold them."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

from lxml import etree
from lxml.html import HtmlElement
from msgspec import Struct, field
from msgspec.structs import replace

from nanobot.web.extract.dom import (
    INLINE,
    SILENT,
    body_of,
    count_tokens,
    formula,
    is_hidden,
    is_tex,
    language_of,
    list_kind,
    names_of,
    numeral,
    script_mark,
    stand_apart,
    tag_of,
)

Kind = Literal["text", "heading", "code", "table", "rule"]
Style = Literal["bold", "italic", "code", "strike", "formula", "embedded"]

STYLES: dict[str, Style] = {
    **dict.fromkeys(("strong", "b"), "bold"),
    **dict.fromkeys(("em", "i", "cite", "dfn"), "italic"),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), "code"),
    **dict.fromkeys(("del", "s", "strike"), "strike"),
}
PLAIN: frozenset[Style] = frozenset()
_CODE: frozenset[Style] = frozenset(("code",))
_EMBEDDED: frozenset[Style] = frozenset(("embedded",))
_FORMULA: frozenset[Style] = frozenset(("formula",))
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_PERMALINK = re.compile(r"headerlink|heading-?anchor|anchor-?link|permalink|hash-link|header-anchor", re.IGNORECASE)
_SPACES = re.compile(r"\s{2,}|[^\S ]")
_GUTTER = re.compile(r"linenos|gutter|line-numbers|lineno", re.IGNORECASE)
_LONGEST_CELL = 1200  # characters; a table with a longer cell lays the page out
WIDEST = 24  # columns; a wider table is written as records, where no cell stands under another
_NUMBER = re.compile(r"\d{1,6}")
_HERE = re.compile("#.")
_CAPTION = re.compile(r"(?:^|[-_ ])captions?(?:[-_ ]|$)", re.IGNORECASE)
_LONGEST_CAPTION = 120  # words
_LABEL = 8  # words; a caption with no more is a label, which the text around it leans on
#: Where the address of a picture stands: what a program of the page loads goes before what stands in its place.
_SOURCES = tuple("data-src data-original data-lazy-src data-lazy src data-srcset data-lazy-srcset srcset".split())
#: What a page shows without words of its own; that of which one knows by its label alone, and by no more characters.
_PICTURES = frozenset("img amp-img svg iframe video audio amp-video amp-iframe".split())
_FILMS = frozenset("iframe video audio amp-video amp-iframe".split())
#: Widths and heights of what only counts who reads, where it has no title.
_UNSEEN = frozenset(("0", "1", "0px", "1px"))
_MOST_INSIDE = 20  # elements in one that are looked at
_DEEPEST = 40  # items or quotations in each other; those deeper stand on that level, as each costs signs on a line
_LABELLED = frozenset(("i", "span", "div"))
_LONGEST_LABEL = 600
_NUMBERED = etree.XPath("boolean(.//@data-line-number)")
_LINES_OF_CODE = frozenset(("div", "li", "p", "tr"))
_MOST_LINKS = 200
_GUTTERS = frozenset(("td", "div", "pre"))
_ATOMIC = frozenset("pre hr table textarea xmp listing".split())
_FIELDS = frozenset("a b label small span strong time".split())  # what shows parts of a row, each in a style of its own
_ROWS = frozenset("div section header article main footer figure fieldset li dt dd td th".split())
_BEGUN = frozenset(("q", "rt", "sup", "sub")) | _FIELDS
_CELLS = frozenset(("td", "th"))
_NOTES = frozenset("*†‡§")


class Span(NamedTuple):
    """A run of text in one style. `href` is the raw link target; `image` the raw source of an image, `text` its alt."""

    text: str
    styles: frozenset[Style] = PLAIN
    href: str = ""
    image: str = ""


class Item(Struct, eq=False):
    """A list item, with the mark of its first line."""

    mark: str


class Part(Struct, eq=False):
    """An element that stands on lines of its own. Its blocks are `blocks[first:last]`; `names` are its class and id."""

    tag: str
    names: str
    element: HtmlElement
    above: "Part | None"
    first: int
    last: int = 0
    hidden: bool = False


class Block(Struct, eq=False):
    """A piece of the page that stands on lines of its own.

    `tokens` counts its words and `link_tokens` those inside links. `rows` are the cells of a table, the first row being
    the head when `header` is set; `language` belongs to code. `quotes` and `items` say where it stands: how deep in
    quotations, and in which list items, outermost first.
    """

    kind: Kind
    part: Part
    spans: list[Span] = field(default_factory=list)
    level: int = 0
    quotes: int = 0
    items: tuple[Item, ...] = ()
    text: str = ""
    tokens: int = 0
    link_tokens: int = 0
    language: str = ""
    rows: list[list[list[Span]]] = field(default_factory=list)
    header: bool = False

    def measure(self) -> None:
        """Fill `text` and the token counts from the spans or the rows."""
        spans: list[Span] = self.spans or [span for row in self.rows for cell in row for span in (*cell, Span(" "))]
        joined = (
            spans[0].text
            if len(spans) == 1 and not spans[0].image
            else "".join([span.text for span in spans if not span.image])
        )
        self.text = joined if self.kind == "code" else " ".join(joined.split())
        self.tokens = count_tokens(self.text)
        self.link_tokens = sum(
            [count_tokens(span.text) for span in spans if span.href and not _HERE.match(span.href) and not span.image]
        )


class _Frame:
    """An element that is being walked, and what holds for everything inside it."""

    __slots__ = (
        "apart", "before", "block", "child", "children", "counted", "element", "end", "href", "items", "kind",
        "level", "part", "quotes", "styles", "tag",
    )  # fmt: skip

    def __init__(self, element: HtmlElement, tag: str, part: Part, above: "_Frame | None") -> None:
        self.element, self.tag, self.part = element, tag, part
        self.children: Iterator[HtmlElement] = iter(element)
        self.block = tag not in INLINE
        self.styles: frozenset[Style] = above.styles if above else PLAIN
        self.href: str = above.href if above else ""
        self.level: int = _HEADINGS.get(tag) or (above.level if above else 0)
        self.quotes: int = min((above.quotes if above else 0) + (tag == "blockquote"), _DEEPEST)
        self.items: tuple[Item, ...] = above.items if above else ()
        self.counted = 0
        self.apart: bool | None = None
        self.before: HtmlElement | None = None
        self.child: HtmlElement | None = None
        self.end = self.kind = ""


class Walk:
    """Collects `blocks` and `parts`. Iterative: depth costs nothing."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.parts: list[Part] = []
        self._spans: list[Span] = []
        self._stack: list[_Frame] = []

    def run(self, top: HtmlElement) -> "Walk":
        self._stack = [self._frame(top, tag_of(top), {}, None)]
        self._text(top.text, self._stack[0])
        while self._stack:
            frame = self._stack[-1]
            child = next(frame.children, None)
            if child is not None:
                frame.before, frame.child = frame.child, child
                if not self._enter(child, frame):
                    self._text(child.tail, frame)
                continue
            self._leave(frame)
            if len(self._stack) > 1:
                self._text(frame.element.tail, self._stack[-2])
            self._stack.pop()
        return self

    def _frame(self, element: HtmlElement, tag: str, attributes: dict[str, str], above: _Frame | None) -> _Frame:
        if above is None or tag not in INLINE:
            self._flush(above)
            part = Part(tag, names_of(attributes), element, above.part if above else None, len(self.blocks))
            part.hidden = bool(above and above.part.hidden) or is_hidden(attributes, tag)
            self.parts.append(part)
        else:
            part = above.part
        frame = _Frame(element, tag, part, above)
        if tag == "li":
            frame.items = (*frame.items, Item(_mark(attributes, above)))[:_DEEPEST]
        elif tag == "ol":
            frame.kind = list_kind(attributes) if attributes else ""
            if _NUMBER.fullmatch(attributes.get("start", "")):
                frame.counted = int(attributes["start"]) - (-1 if frame.kind == "reversed" else 1)
            elif frame.kind == "reversed":
                frame.counted = len(element.findall("li")) + 1
        if tag in STYLES:
            frame.styles = _CODE if STYLES[tag] == "code" or "code" in frame.styles else frame.styles | {STYLES[tag]}
        elif tag == "a":
            frame.href = attributes.get("href", "")
        return frame

    def _leave(self, frame: _Frame) -> None:
        if frame.end:
            self._spans.append(Span(frame.end, frame.styles, frame.href))
        if frame.block:
            self._flush(frame)
            frame.part.last = len(self.blocks)

    def _enter(self, element: HtmlElement, above: _Frame) -> bool:
        """Begin `element`; False where nothing inside it is to be walked."""
        tag = tag_of(element)
        if not tag:
            return False
        attributes = dict(element.items())
        if (tag in _PICTURES or (attributes and tag in _LABELLED)) and self._shown(element, tag, attributes, above):
            return False
        if tag == "input" and attributes.get("type") == "checkbox" and above.items:
            self._spans.append(Span("[x] " if "checked" in attributes else "[ ] "))
        if tag in SILENT and not _speaks(tag, attributes, element, above):
            return False
        if tag in {"math", "script"} or (attributes and tag in INLINE and is_hidden(attributes, tag)):
            self._formulas(element, above)
            return False
        if tag == "br":
            self._line_break(above)
            return False
        if tag in _ATOMIC and self._atomic(element, tag, attributes, above):
            return False
        if tag == "a" and _is_permalink(element, attributes, above):
            return False
        if tag in _GUTTERS and "class" in attributes and _numbers_lines(element, attributes["class"]):
            return False
        frame = self._frame(element, tag, attributes, above)
        self._stack.append(frame)
        if tag in _BEGUN and (begin := self._begin(element, tag, frame)):
            self._spans.append(begin)
        self._text(element.text, frame)
        return True

    def _text(self, text: str | None, frame: _Frame) -> None:
        if text:
            if "  " in text or not text.isprintable():  # a blank is the only space that can be printed
                text = _SPACES.sub(" ", text).replace("\xad", "")
            self._spans.append(Span(text, frame.styles, frame.href))

    def _is_apart(self, element: HtmlElement, above: _Frame) -> bool:
        """Whether an element shows something else than the one right before it, which only the page's styles say: where
        their parent has no words of its own."""
        before = above.before
        if above.apart is False or before is None or before.tail or not self._spans or "code" in above.styles:
            return False
        if before.tag not in _FIELDS:
            return False
        last, first = self._spans[-1].text, element.text or next(filter(None, element.itertext()), "")
        if len(last) == len(first) == 1 and before.items() == element.items() != []:  # signs that are set one by one
            return False
        if above.apart is None:
            texts = (above.element.text, *(one.tail for one in above.element))
            above.apart = not any(text and text.strip() for text in texts)
        return above.apart and stand_apart(last, first, row=above.tag in _ROWS)

    def _line_break(self, frame: _Frame) -> None:
        """A line break; the second in a row begins a new paragraph."""
        for span in reversed(self._spans):
            if span.text == "\n":
                self._flush(frame)
                return
            if span.text.strip():
                break
        self._spans.append(Span("\n", frame.styles - _CODE, frame.href))

    def _shown(self, element: HtmlElement, tag: str, attributes: dict[str, str], above: _Frame) -> bool:
        """Whether an element is a picture, a film or a label, and shown with that."""
        if tag in _LABELLED and not _is_labelled(tag, attributes, element, above):
            return False
        self._image(element, tag, attributes, above.href)
        # to the parser, one of AMP that is not closed has the rest of the page in it
        return not (tag.startswith("amp-") and element.text_content().strip())

    def _image(self, element: HtmlElement, tag: str, attributes: dict[str, str], href: str) -> None:
        """A picture, or what is shown like one, with its words and its address, where that is known."""
        if attributes.get("aria-hidden") == "true" or is_hidden(attributes, tag):
            return
        label = attributes.get("alt") or attributes.get("aria-label") or attributes.get("title") or ""
        near = [attributes]
        around = element.getparent()
        if not label and around is not None and around.tag == "a" and not _words(around):
            label = around.get("aria-label") or around.get("title") or ""
        if tag == "svg":
            label = self._drawing(element, label)
        elif tag in _FILMS:
            near += [dict(one.items()) for one in islice(element.iterchildren("source"), _MOST_INSIDE)]
            if not label and (attributes.get("width") in _UNSEEN or attributes.get("height") in _UNSEEN):
                return
            label = label or tag
        sources = (told.get(name, "").strip() for told in near for name in _SOURCES)
        source = next((one.split()[0] for one in sources if one and not one.startswith(("data:", "about:", "{"))), "")
        label = " ".join(label.split())[:_LONGEST_LABEL]
        if source or (label and label != tag and not href):
            self._spans.append(Span(label, _EMBEDDED if tag in _FILMS else PLAIN, href, source or "#"))

    def _drawing(self, element: HtmlElement, label: str) -> str:
        """The words in a drawing, and its label; that of an icon counts in a cell alone."""
        drawn = " ".join(element.itertext("text", "tspan", "textpath", "a")).strip()
        label = label or element.findtext("title") or ""
        return f"{label} {drawn}" if drawn or len(label.split()) > 2 or self._stack[0].tag in _CELLS else ""

    def _formulas(self, element: HtmlElement, frame: _Frame) -> None:
        """The formulas in an element whose other content is not shown: pages hide what their own program draws."""
        for math in element.iter("math", "script"):
            if text := formula(math):
                self._spans.append(Span(text, _FORMULA, frame.href))

    def _begin(self, element: HtmlElement, tag: str, frame: _Frame) -> Span | None:
        """The sign that says what an inline element is, where its words alone would be read as something else."""
        if tag in _FIELDS:
            return Span(" ", frame.styles, frame.href) if self._is_apart(element, self._stack[-2]) else None
        if tag == "q":
            frame.end = '"'
            return Span('"', frame.styles, frame.href)
        if tag == "rt":
            beside = (element.getprevious(), element.getnext(), element.getparent())
            frame.end = "" if any(one is not None and one.tag == "rp" for one in beside) else ")"
            return Span("(") if frame.end else None
        inside = _words(element)
        last = next((span for span in reversed(self._spans) if span.text), None)
        inside_link = frame.href and last and last.href == frame.href  # km² that is a link, and no link to a note
        if (frame.href and not inside_link) or next(element.iter("a"), None) is not None:
            if tag == "sup" and (inside.isdigit() or inside in _NOTES):
                frame.end = "]"
                return Span("[", frame.styles, frame.href)
            return None
        mark = script_mark(tag, last.text if last else "", inside)
        return Span(mark, frame.styles - {"italic", "bold"}, frame.href) if mark else None

    def _flush(self, frame: _Frame | None) -> None:
        spans, self._spans = self._spans, []
        if frame is None or not any(span.image or (span.text and not span.text.isspace()) for span in spans):
            return
        block = Block("text", frame.part, spans, frame.level, frame.quotes, frame.items)
        if frame.level:
            block.kind = "heading"
        block.measure()
        self.blocks.append(block)

    def _atomic(self, element: HtmlElement, tag: str, attributes: dict[str, str], above: _Frame) -> bool:
        """A rule, code or a table of data as one block; False for a table that is walked like anything else."""
        part = Part(tag, names_of(attributes), element, above.part, 0)
        part.hidden = above.part.hidden or is_hidden(attributes, tag)
        block: Block | None = Block("rule", part)
        if tag != "hr":
            block = table_block(element, part) if tag == "table" else code_block(element, part)
        if block is None:
            return False
        self._flush(above)
        part.first = len(self.blocks)
        captions = (Block("text", part, _cell(caption)) for caption in element.iterchildren("caption"))
        self.blocks += [*captions, block, Block("text", part, _links_in(element) if tag == "pre" else [])]
        for one in self.blocks[part.first :]:
            one.quotes, one.items = above.quotes, above.items
            one.measure()
        self.blocks[part.first :] = [one for one in self.blocks[part.first :] if one.kind == "rule" or one.text.strip()]
        part.last = len(self.blocks)
        self.parts.append(part)
        return True


def walk(root: HtmlElement) -> Walk:
    """The blocks and parts of the page in document order."""
    return Walk().run(body_of(root))


def _mark(attributes: dict[str, str], above: _Frame | None) -> str:
    """The mark of a list item: a dash, or its number counted from the list's own start."""
    if above is None or above.tag != "ol":
        return "- "
    own = attributes.get("value", "")
    above.counted = int(own) if _NUMBER.fullmatch(own) else above.counted + (-1 if above.kind == "reversed" else 1)
    number = numeral(above.counted, above.kind.lower())
    return f"- {number.upper() if above.kind.isupper() else number}. " if number else f"{above.counted}. "


def _speaks(tag: str, attributes: dict[str, str], element: HtmlElement, above: _Frame) -> bool:
    """Whether an element that mostly has no text for readers has some here."""
    if tag == "button":
        opens = "aria-expanded" in attributes or "aria-controls" in attributes
        if above.level or above.tag in {"summary", *_CELLS} or (above.tag == "p" and (element.tail or "").strip()):
            return True  # a heading, or in a sentence
        return opens and len(element.text_content().split()) > 1
    if tag == "script":
        return is_tex(element)
    return (tag == "template" and "shadowrootmode" in attributes) or (tag == "dialog" and "open" in attributes)


def _is_labelled(tag: str, attributes: dict[str, str], element: HtmlElement, above: _Frame) -> bool:
    """Whether an element without words is known by its label alone, as stars and ticks are."""
    label = attributes.get("aria-label") or (attributes.get("title") if tag == "i" else "")
    if not label or above.href:
        return False
    inside = list(islice(element.iter(), _MOST_INSIDE))
    shown = any(tag_of(one) in _FILMS or (one.get("alt") and tag_of(one) in _PICTURES) for one in inside)
    return not (shown or len(inside) == _MOST_INSIDE or _words(element))


def _numbers_lines(element: HtmlElement, named: str) -> bool:
    return bool(_GUTTER.search(named)) and "".join(element.text_content().split()).isdigit()


def _is_permalink(element: HtmlElement, attributes: dict[str, str], above: _Frame) -> bool:
    """A link of a heading to itself, which says nothing."""
    if not above.level and len(element) > 1:
        return False
    said = element.text_content().strip()
    if said in {"¶", "#", "§", "🔗"}:
        return True
    named = "class" in attributes and _PERMALINK.search(attributes["class"])
    outermost = element.getprevious() is None or element.getnext() is None  # else a heading of links is read too often
    return bool(named) and outermost and len(above.element.text_content().strip()) > len(said)


def _visible(element: HtmlElement) -> Iterator[str]:
    stack: list[HtmlElement | str] = [element]
    while stack:
        current = stack.pop()
        if isinstance(current, str):
            yield current
            continue
        tag = tag_of(current)
        if tag == "br":
            yield "\n"
        elif tag and tag not in SILENT and not _GUTTER.search(current.get("class") or ""):
            yield current.get("data-code-marker", "") + (current.text or "")
            for child in reversed(list(current)):
                tail = child.tail or ""
                ends = tag_of(child) in _LINES_OF_CODE and not tail.startswith("\n")
                stack += ["\n" + tail if ends else tail, child]


def code_block(element: HtmlElement, part: Part, *parts: HtmlElement) -> Block:
    """A `pre`, or these parts of a table, with line breaks, indentation and the marks of a diff as they are."""
    said = "\n".join("".join(_visible(one)) for one in parts or (element,))
    lines = said.replace("\r\n", "\n").replace("\xa0", " ").split("\n")
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    return Block("code", part, [Span(text)], language=language_of(element))


def _words(element: HtmlElement) -> str:
    """What an element says, as far as one looks where many may stand in each other."""
    near = islice(element.iter(), _MOST_INSIDE)
    said = (text for one in near for text in (one.text, one.tail if one is not element else "") if text)
    return "".join(text[:_LONGEST_LABEL] for text in said).strip()


def _links_in(text: HtmlElement) -> list[Span]:
    """The links of a text with its own line breaks, such as a list of files or an old standard: code has none."""
    found: dict[str, str] = {}
    if text.find(".//code") is None and not text.get("class"):
        for link in text.iter("a"):
            said = " ".join(link.text_content().split())
            if said and said not in link.get("href", said) and len(found) < _MOST_LINKS:
                found.setdefault(link.get("href", ""), said)
    return [span for href, said in found.items() for span in (Span(said, PLAIN, href), Span("\n"))]


def table_block(table: HtmlElement, part: Part) -> Block | None:
    """A data table as rows of cells, and one that numbers lines as code; None where it only lays the page out."""
    if table.get("role") in {"presentation", "none"} or next(table.iterdescendants("table", "pre"), None) is not None:
        return None
    if _NUMBERED(table):
        return code_block(table, part, *(row[-1] for row in table.iter("tr") if len(row)))
    rows: list[list[list[Span]]] = []
    header = False
    down: dict[int, int] = {}  # column → rows that a cell of it still spans
    for row in table.iter("tr"):
        cells = [
            cell
            for cell in row
            if cell.tag in {"td", "th"} and not (cell.items() and is_hidden(dict(cell.items()), "td"))
        ]
        if not cells:
            continue
        if not rows:
            header = all(tag_of(cell) == "th" for cell in cells)
        found = _row(cells, down)
        if not rows or found != rows[0]:  # a head that is repeated says nothing
            rows.append(found)
    if not rows or max(map(len, rows)) < 2 or (len(rows) < 2 and not header):
        return None
    longest = max(sum(len(span.text) for span in cell) for row in rows for cell in row)
    if longest > _LONGEST_CELL or (not header and sum(len(cell) > 0 for row in rows for cell in row) < 3):
        return None
    return Block("table", part, rows=rows, header=header)


def _row(cells: list[HtmlElement], down: dict[int, int]) -> list[list[Span]]:
    """The cells of a row in their columns: empty ones stand where a cell before them spans several columns or rows."""
    row: list[list[Span]] = []
    column = 0
    for cell in cells:
        while down.get(column, 0):
            column += 1
        row += [[] for _ in range(len(row), column)] + [_cell(cell)]
        wide, high = _span(cell.get("colspan")), _span(cell.get("rowspan"))
        down.update(dict.fromkeys(range(column, min(column + wide, WIDEST + 1)), high))
        column = max(len(row), min(column + wide, WIDEST + 1))
    down.update({covered: rows - 1 for covered, rows in down.items() if rows})
    return row


def _span(said: str | None) -> int:
    return max(1, min(int(said), 100)) if said and _NUMBER.fullmatch(said) else 1


def _cell(cell: HtmlElement) -> list[Span]:
    if not len(cell):
        text = " ".join((cell.text or "").split())
        return [Span(text)] if text else []
    spans: list[Span] = []
    before: Block | None = None
    for block in Walk().run(cell).blocks:
        if not block.part.hidden:
            if before and spans:
                spans[-1] = spans[-1]._replace(text=spans[-1].text.rstrip())
                spans.append(Span("; " if before.items and block.items else " "))
            spans.extend(block.spans)
            before = block
    return spans


def with_captions(blocks: list[Block]) -> list[Block]:
    """Long captions as the words of their pictures: of the one right before, else of one whose address is not known."""
    kept: list[Block] = []
    for block in blocks:
        if block.tokens <= _LABEL or not is_caption(block):
            kept.append(block)
            continue
        last = kept[-1] if kept and not kept[-1].tokens else None
        place = max((number for number, span in enumerate(last.spans) if span.image), default=-1) if last else -1
        alt = last.spans[place].text if last and place >= 0 else ""
        words = block.text if alt in block.text else f"{alt}. {block.text}"
        if last and place >= 0:
            picture = last.spans[place]._replace(text=words)
            kept[-1] = replace(last, spans=[*last.spans[:place], picture, *last.spans[place + 1 :]])
        elif not any(block.text in one.spans[0].text for one in kept[-3:] if one.spans and one.spans[0].image):
            kept.append(replace(block, spans=[Span(words, image="#")], tokens=0))
    return kept


def is_caption(block: Block) -> bool:
    part: Part | None = block.part
    for _ in range(3):
        if part is not None and block.kind == "text" and 0 < block.tokens <= _LONGEST_CAPTION:
            if part.tag == "figcaption" or _CAPTION.search(part.names):
                return True
            part = part.above
    return False
