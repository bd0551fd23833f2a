"""From blocks to Markdown or plain text, in one pass and without parsing anything twice."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urljoin

from lxml.html import HtmlElement

from nanobot.web.extract.blocks import Block, Span
from nanobot.web.extract.dom import lineage, tag_of

_MISREAD = re.compile(r"`|<(?=[A-Za-z/!?])")
_MARKS = {"bold": "**", "italic": "*", "strike": "~~"}
_WIDE_TABLE = 24  # columns; a wider table is written as records


@dataclass(frozen=True, slots=True)
class Options:
    """`base` resolves relative addresses. `links` and `images` tell whether they are kept in Markdown.

    With `footnotes` the addresses of links are numbered in that dict instead of standing in the text.
    """

    base: str = ""
    links: bool = True
    images: bool = True
    footnotes: dict[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands: quote depth, and the list items around it, outermost first."""

    quotes: int
    items: tuple[HtmlElement, ...]


def place_of(block: Block) -> Place:
    quotes = 0
    items: list[HtmlElement] = []
    for element in lineage(block.element):
        tag = tag_of(element)
        if tag == "blockquote":
            quotes += 1
        elif tag == "li" or tag == "dd":
            items.append(element)
    return Place(quotes, tuple(reversed(items)))


def render_text(blocks: Sequence[Block]) -> str:
    """The words alone: no link targets, no images, no marks; one block a paragraph, a table row a line."""
    parts = []
    for block in blocks:
        if block.kind == "table":
            rows = [" | ".join(_plain(cell) for cell in row).strip(" |") for row in block.rows]
            parts.append("\n".join(row for row in rows if row))
        elif block.kind == "code":
            parts.append(block.text)
        elif block.kind != "rule":
            parts.append(_plain(block.spans))
    return "\n\n".join(part for part in parts if part.strip())


def render_markdown(blocks: Sequence[Block], options: Options) -> str:
    """Markdown with headings, nested lists with their numbers, fences with language, tables, quotes and links."""
    lines: list[str] = []
    opened: set[HtmlElement] = set()
    marker = _Markers()
    tight = False
    for block in blocks:
        body = _block(block, options)
        if not body.strip():
            continue
        place = place_of(block)
        fresh = [item for item in place.items if item not in opened]
        opened.update(fresh)
        markers = {item: marker.of(item) for item in place.items}
        indent = "".join(" " * len(markers[item]) for item in place.items if item not in fresh)
        lead = indent + "".join(markers[item] for item in fresh)
        quote = "> " * place.quotes
        in_list = bool(place.items) and bool(markers[place.items[-1]])
        if lines and not (tight and in_list and fresh):
            lines.append(quote.rstrip() if place.quotes and lines[-1].startswith(">") else "")
        hang = " " * len(lead)
        for number, line in enumerate(body.split("\n")):
            lines.append(quote + ((lead if number == 0 else hang) + line if line or number == 0 else ""))
        tight = in_list
    if options.footnotes:
        lines += ["", *(f"[^{number}]: {address}" for address, number in options.footnotes.items())]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


class _Markers:
    """The mark of a list item: a dash, or its number counted from the list's own start."""

    def __init__(self) -> None:
        self._numbers: dict[HtmlElement, dict[HtmlElement, int]] = {}

    def of(self, item: HtmlElement) -> str:
        if tag_of(item) != "li":
            return ""
        parent = item.getparent()
        if parent is None or tag_of(parent) != "ol":
            return "- "
        if parent not in self._numbers:
            first = parent.get("start") or ""
            number = int(first) - 1 if re.fullmatch(r"\d{1,6}", first) else 0
            numbers = self._numbers[parent] = {}
            for sibling in parent.iterchildren("li"):
                own = sibling.get("value") or ""
                number = int(own) if re.fullmatch(r"\d{1,6}", own) else number + 1
                numbers[sibling] = number
        return f"{self._numbers[parent].get(item, 1)}. "


def _block(block: Block, options: Options) -> str:
    if block.kind == "rule":
        return "---"
    if block.kind == "code":
        return fenced(block.text, block.language)
    if block.kind == "table":
        return _table(block, options)
    text = inline(block.spans, options)
    if block.kind == "heading":
        return f"{'#' * block.level} {' '.join(text.split())}" if text.strip() else ""
    return text


def fenced(text: str, language: str) -> str:
    """A fence longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def inline(spans: Sequence[Span], options: Options) -> str:
    """Spans as inline Markdown; neighbours of one style or one link become one piece."""
    spans = _merged(spans)
    pieces: list[str] = []
    index = 0
    while index < len(spans):
        span = spans[index]
        if not span.href or not options.links:
            end = index + 1
            pieces.append(_styled(span, options))
        else:
            end = index
            while end < len(spans) and spans[end].href == span.href:
                end += 1
            inner = "".join(_styled(part, options) for part in spans[index:end])
            pieces.append(_link(inner, span.href, options))
        index = end
    text = "".join(pieces)
    text = re.sub(r"[ \t]*\n[ \t]*", "\n", text)
    text = re.sub(r"\*\*(\s*)\*\*|~~(\s*)~~", lambda match: match[1] or match[2] or "", text)
    return re.sub(r"[ \t]+", " ", text).strip()


def _escaped(text: str) -> str:
    """`text` with what would be read as a tag or as code made literal; other marks are left, they read better so."""
    return _MISREAD.sub(r"\\\g<0>", text)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of the same style and link as one span: pages cut one word of code into several elements."""
    merged: list[Span] = []
    for span in spans:
        last = merged[-1] if merged else None
        if (
            last is not None
            and not last.image
            and not span.image
            and (last.styles, last.href) == (span.styles, span.href)
        ):
            merged[-1] = replace(last, text=last.text + span.text)
        else:
            merged.append(span)
    return merged


def _styled(span: Span, options: Options) -> str:
    if span.image:
        if not options.images:
            return span.text if span.href else f"[image: {_bracket_safe(span.text)}]"
        return f"![{_bracket_safe(span.text)}]({_address(span.image, options)})"
    core = span.text.strip()
    if not core or not span.styles:
        return _escaped(span.text)
    lead = span.text[: len(span.text) - len(span.text.lstrip())]
    trail = span.text[len(span.text.rstrip()) :]
    if "code" in span.styles:
        longest = max((len(run) for run in re.findall(r"`+", core)), default=0)
        ticks = "`" * (longest + 1)
        pad = " " if core.startswith("`") or core.endswith("`") else ""
        return f"{lead}{ticks}{pad}{core}{pad}{ticks}{trail}"
    core = _escaped(core)
    for style, mark in _MARKS.items():
        if style in span.styles:
            core = f"{mark}{core}{mark}"
    return f"{lead}{core}{trail}"


def _link(inner: str, href: str, options: Options) -> str:
    core = inner.strip()
    target = _address(href, options)
    if not core:
        return inner
    if href.startswith("#") or not re.match(r"(?:https?|mailto|ftp|tel):", target, re.IGNORECASE):
        return inner
    lead = inner[: len(inner) - len(inner.lstrip())]
    trail = inner[len(inner.rstrip()) :]
    label = core if core.startswith("![") else _bracket_safe(" ".join(core.split()))
    if options.footnotes is not None:
        return f"{lead}{label}[^{options.footnotes.setdefault(target, len(options.footnotes) + 1)}]{trail}"
    return f"{lead}[{label}]({target}){trail}"


def _bracket_safe(text: str) -> str:
    return text.replace("[", "\\[").replace("]", "\\]") if text.count("[") != text.count("]") else text


def _address(target: str, options: Options) -> str:
    try:
        full = urljoin(options.base, target.strip())
    except ValueError:
        full = target.strip()
    return full.replace(" ", "%20").replace("(", "%28").replace(")", "%29")


def _plain(spans: Sequence[Span]) -> str:
    text = "".join(span.text for span in spans if not span.image)
    return re.sub(r"[ \t]*\n[ \t]*", "\n", re.sub(r"[ \t]+", " ", text)).strip()


def _table(block: Block, options: Options) -> str:
    rows = [[inline(cell, options).replace("\n", " ").replace("|", "\\|") for cell in row] for row in block.rows]
    width = max(map(len, rows))
    if width > _WIDE_TABLE:
        return "\n".join("- " + "; ".join(cell for cell in row if cell) for row in rows)
    rows = [row + [""] * (width - len(row)) for row in rows]
    head, body = (rows[0], rows[1:]) if block.header else ([""] * width, rows)
    if not block.header and len(rows) > 1 and not any(not cell for cell in rows[0]):
        head, body = rows[0], rows[1:]
    lines = [head, ["---"] * width, *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)
