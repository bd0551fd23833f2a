"""From blocks to Markdown or plain text, in one pass and without parsing anything twice."""

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from urllib.parse import urljoin

from msgspec import Struct

from nanobot.utils.text import markdown_table
from nanobot.web.extract.blocks import WIDEST, Block, Item, Span, Style

_MISREAD = re.compile(r"`|<(?=[A-Za-z/!?])")
_MARKS = {"bold": "**", "italic": "*", "strike": "~~"}
_AROUND_BREAKS = re.compile(r"[ \t]*\n[ \t]*")
_EMPTY_MARKS = re.compile(r"\*\*(\s*)\*\*|~~(\s*)~~")
_BLANKS = re.compile(r"[ \t]{2,}|\t")
_BALANCED = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*+")
_LINK = re.compile(r"(?:https?|mailto|ftp|tel):", re.IGNORECASE)


class Options(Struct, frozen=True):
    """`base` resolves relative addresses. `links` and `images` tell whether they are kept in Markdown.

    With `footnotes` the addresses of links are numbered in that dict instead of standing in the text.
    """

    base: str = ""
    links: bool = True
    images: bool = True
    footnotes: dict[str, int] | None = None


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
    opened: set[Item] = set()
    tight = False
    for block in blocks:
        body = _block(block, options)
        if not body.strip():
            continue
        fresh = [item for item in block.items if item not in opened]
        opened.update(fresh)
        indent = sum(2 if item.mark[0] == "-" else len(item.mark) for item in block.items if item not in fresh)
        lead = " " * indent + "".join(item.mark for item in fresh)
        quote = "> " * block.quotes
        if lines and not (tight and fresh):
            lines.append(quote.rstrip() if block.quotes and lines[-1].startswith(">") else "")
        first, *others = body.split("\n")
        lines.append(quote + lead + first)
        hang = quote + " " * len(lead)
        lines.extend(hang + line if line else quote for line in others)
        tight = bool(block.items)
    if options.footnotes:
        lines += ["", *(f"[^{number}]: {address}" for address, number in options.footnotes.items())]
    return "\n".join([line.rstrip() for line in lines]).strip("\n")


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
    if len(spans) == 1 and not (spans[0].href or spans[0].styles or spans[0].image or "\n" in spans[0].text):
        return _escaped(spans[0].text).strip()
    pieces: list[str] = []
    for href, some in groupby(_merged(spans), key=lambda span: span.href if options.links else ""):
        inner = "".join([_styled(span, options) for span in some])
        pieces.append(_link(inner, href, options) if href else inner)
    text = "".join(pieces)
    if "\n" in text:
        text = _AROUND_BREAKS.sub("\n", text)
    if "**" in text or "~~" in text:
        text = _EMPTY_MARKS.sub(lambda match: match[1] or match[2] or "", text)
    return (_BLANKS.sub(" ", text) if "  " in text or "\t" in text else text).strip()


def _escaped(text: str) -> str:
    """`text` with what would be read as a tag or as code made literal; other marks are left, they read better so."""
    return _MISREAD.sub(r"\\\g<0>", text) if "`" in text or "<" in text else text


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Neighbours of the same style and link as one span: pages cut one word of code into several elements."""
    merged: list[Span] = []
    for (_, styles, href), some in groupby(enumerate(spans), key=_look):
        group = [span for _, span in some]
        merged.append(group[0] if len(group) == 1 else Span("".join([span.text for span in group]), styles, href))
    return merged


def _look(numbered: tuple[int, Span]) -> tuple[int, frozenset[Style], str]:
    """What makes neighbours one span; a picture is none with anything."""
    number, span = numbered
    return (number if span.image else -1, span.styles, span.href)


def _styled(span: Span, options: Options) -> str:
    if span.image:
        if not span.text:
            return ""
        if not options.images and not (options.links and "embedded" in span.styles):
            return span.text if span.href else f"[image: {_bracket_safe(span.text)}]"
        return f"![{_bracket_safe(span.text)}]({_address(span.image, options) if span.image != '#' else ''})"
    core = span.text.strip()
    if not core or not span.styles or "formula" in span.styles:
        return span.text if span.styles else _escaped(span.text)
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
    if href.startswith("#") or not _LINK.match(target):
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
    """`target` from the page's base."""
    with suppress(ValueError):
        target = urljoin(options.base, target.strip())
    target = target.strip().replace(" ", "%20")
    return target if _BALANCED.fullmatch(target) else target.replace("(", "%28").replace(")", "%29")


def _plain(spans: Sequence[Span]) -> str:
    text = "".join(span.text for span in spans if not span.image)
    return _AROUND_BREAKS.sub("\n", _BLANKS.sub(" ", text)).strip()


def _table(block: Block, options: Options) -> str:
    rows = [[inline(cell, options) for cell in row] for row in block.rows]
    width = max(map(len, rows))
    if width > WIDEST:
        return "\n".join("- " + "; ".join(cell.replace("\n", " ") for cell in row if cell) for row in rows)
    named = block.header or (len(rows) > 1 and len(rows[0]) == width and all(rows[0]))
    return markdown_table(rows if named else [[""] * width, *rows])
