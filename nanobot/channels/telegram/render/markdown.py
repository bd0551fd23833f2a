"""Markdown to what Telegram shows: plain text with a list of entities, without a parse mode.

Tables, task lists, nested lists, quotes and fences have a form of their own; HTML stays visible. Offsets are in code
points here; `screen_messages.py` turns them into UTF-16 units, which Telegram counts.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.emphasis import tokenize as emphasis
from markdown_it.rules_inline.strikethrough import tokenize as strikethrough
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len

from nanobot.archive.markdown import markdown_parser

InlineRule = Callable[[StateInline, bool], bool]
EntityType = Literal[
    "bold", "italic", "strikethrough", "code", "pre", "text_link", "blockquote", "expandable_blockquote"
]

MAX_NESTING = 100
_INLINE: dict[str, EntityType] = {"strong": "bold", "em": "italic", "s": "strikethrough"}
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: What looks like the name of a host, with or without a scheme before it.
_HOST = re.compile(r"(?<![\w@.-])(?:[\w-]+\.)+[^\W\d_]{2,24}(?![\w-])")
#: Which of two styles of one range is the outer one.
_ORDER: tuple[EntityType, ...] = (
    *("blockquote", "expandable_blockquote", "text_link", "bold", "italic", "strikethrough", "pre", "code"),
)
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
#: What tells how code is to be shown, as in `py title="a.py"` and `js {1,3}`; `x = 5` is code itself.
_OPTION = re.compile(r"\s*(?:[\w-]+=[\"'{]|\{[\d,\s-]*\}(?:\s|$))")
_TASK = re.compile(r"\[([ xX])\] ")


class Entity(Struct, frozen=True):
    """A styled range. `url` belongs to text_link, `language` to pre."""

    type: EntityType
    offset: int
    length: int
    url: str = ""
    language: str = ""

    @property
    def end(self) -> int:
        return self.offset + self.length


class Rendered(Struct, frozen=True):
    """Text as a person sees it, and its entities in order of their start, outer ones first."""

    text: str
    entities: tuple[Entity, ...] = ()


def render(markdown: str) -> Rendered:
    """Never raises and never loses words: what cannot be styled is shown plain."""
    source = clean(markdown)
    tokens = _parser(_links_are_real(source)).parse(source)
    if any(map(_too_deep, tokens)):
        return Rendered(source.strip("\n"))
    whole = _blocks(SyntaxTreeNode(tokens).children)
    return Rendered(whole.text, normalise(whole.entities, whole.text))


def clean(text: str) -> str:
    """`text` without control characters (but newline and tab) and lone surrogates."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text).encode("utf-8", "replace").decode("utf-8")


def linkable(url: str) -> bool:
    """Whether `url` may hide behind a text, and Telegram takes it there: http or https with a dotted or IPv6 host."""
    if any(char.isspace() for char in url):
        return False
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    dotted = "." in host.strip(".") and not host.startswith(".") and ".." not in host
    return parts.scheme in {"http", "https"} and (dotted or ":" in host)


def honest(label: str, url: str) -> bool:
    """False where `label` shows the address of another host than the one that `url` leads to."""
    target = (urlsplit(url).hostname or "").removeprefix("www.")
    shown = (found[0].casefold().removeprefix("www.") for found in _HOST.finditer(label))
    return all(host == target for host in shown)


def _links_are_real(source: str) -> bool:
    """False for walls of brackets, on which looking for links takes quadratic time."""
    brackets = source.count("[")
    return brackets < 1_000 or source.count("](") * 4 > brackets


@lru_cache(maxsize=2)
def _parser(links: bool) -> MarkdownIt:
    parser = markdown_parser(maxNesting=MAX_NESTING)
    parser.inline.ruler.at("emphasis", _for_cjk(emphasis))
    parser.inline.ruler.at("strikethrough", _for_cjk(strikethrough))
    if not links:
        parser.disable(["link", "image"])
    return parser


def _for_cjk(tokenize: InlineRule) -> InlineRule:
    """The rule, with delimiters next to CJK characters judged by blanks alone: CommonMark leaves the stars there."""

    def rule(state: StateInline, silent: bool) -> bool:
        start, before = state.pos, len(state.delimiters)
        done = bool(tokenize(state, silent))
        if not done or len(state.delimiters) == before or state.src[start] == "_":
            return done
        previous = state.src[start - 1] if start else " "
        following = state.src[state.pos] if state.pos < state.posMax else " "
        if _is_cjk(previous) or _is_cjk(following):
            for delimiter in state.delimiters[before:]:
                delimiter.open = not following.isspace()
                delimiter.close = not previous.isspace()
        return done

    return rule


def _is_cjk(char: str) -> bool:
    return (
        unicodedata.east_asian_width(char) in "WF"
        and not ("\U0001f000" <= char <= "\U0001faff")
        and unicodedata.category(char)[0] in "LP"
    )


def _too_deep(token: Token) -> bool:
    nested = accumulate(child.nesting for child in token.children or ())
    return token.level >= MAX_NESTING - 1 or max(nested, default=0) >= MAX_NESTING


def _joined(pieces: Iterable[Rendered], gap: str = "") -> Rendered:
    texts: list[str] = []
    entities: list[Entity] = []
    length = 0
    for piece in pieces:
        if texts and gap:
            texts.append(gap)
            length += len(gap)
        entities += [replace(one, offset=one.offset + length) for one in piece.entities] if length else piece.entities
        texts.append(piece.text)
        length += len(piece.text)
    return Rendered("".join(texts), tuple(entities))


def _styled(kind: EntityType, inner: Rendered, url: str = "", language: str = "") -> Rendered:
    return Rendered(inner.text, (Entity(kind, 0, len(inner.text), url, language), *inner.entities))


def _blocks(nodes: Sequence[SyntaxTreeNode], lists: int = 0, *, quoted: bool = False) -> Rendered:
    """Blocks inside so many lists; `quoted`: in a quote, of which Telegram shows one level."""
    shown = (_block(node, lists, quoted=quoted) for node in nodes)
    return _joined((one for one in shown if one.text), "\n" if lists else "\n\n")


def _block(node: SyntaxTreeNode, lists: int, *, quoted: bool) -> Rendered:
    match node.type:
        case "paragraph" | "inline":
            return _inline(node.children, lists)
        case "heading":
            return _styled("bold", _inline(node.children, lists))
        case "fence" | "code_block":
            return _code(node)
        case "hr":
            return Rendered("———")
        case "blockquote":
            inner = _blocks(node.children, lists, quoted=True)
            return inner if quoted else _styled("blockquote", inner)
        case "table":
            rows = [row for part in node.children for row in part.children]
            return table_of([[_inline(cell.children, 0) for cell in row.children] for row in rows])
        case _:
            first = int(node.attrs.get("start", 1))
            marks = ("• " if node.type == "bullet_list" else f"{first + at}. " for at in range(len(node.children)))
            items = (_item(item, mark, lists, quoted=quoted) for item, mark in zip(node.children, marks, strict=True))
            return _joined(items, "\n")


def _item(node: SyntaxTreeNode, mark: str, lists: int, *, quoted: bool) -> Rendered:
    """An item of a list that stands in `lists` others: its mark, and what follows as far to the right as its words."""
    indent, shown = "  " * lists, list[Rendered]()
    for place, child in enumerate(node.children):
        box = _box(child) if place == 0 else ""
        block = _block(child, lists + 1, quoted=quoted)
        if child.type.endswith("_list"):
            shown.append(block)
        else:
            begin = f"{indent}{mark}{box}" if place == 0 else f"{indent}  " if child.type == "paragraph" else ""
            shown.append(_joined((Rendered(begin), block)))
    return _joined(shown or [Rendered(indent + mark)], "\n")


def _box(paragraph: SyntaxTreeNode) -> str:
    """The box of a task, which is taken out of its text; empty where there is none."""
    node = paragraph
    while node.type in {"paragraph", "heading", "inline"} and node.children:
        node = node.children[0]
    task = _TASK.match(node.content) if node.type == "text" and node.token is not None else None
    if task is None or node.token is None:
        return ""
    node.token.content = node.content[task.end() :]
    return "☑ " if task[1] in "xX" else "☐ "


def _inline(nodes: Sequence[SyntaxTreeNode], lists: int) -> Rendered:
    return _joined(_piece(node, lists) for node in nodes)


def _piece(node: SyntaxTreeNode, lists: int) -> Rendered:
    match node.type:
        case "softbreak" | "hardbreak":
            return Rendered("\n" + "  " * lists)
        case "code_inline":
            return _styled("code", Rendered(node.content))
        case "image":
            source = str(node.attrs.get("src") or "")
            return _linked(Rendered(_inline(node.children, lists).text or source), source)
        case "link":
            return _linked(_inline(node.children, lists), str(node.attrs.get("href") or ""))
        case "inline":
            return _inline(node.children, lists)
        case _ if (style := _INLINE.get(node.tag)) is not None:
            return _styled(style, _inline(node.children, lists))
        case _:
            return Rendered(node.content)


def _linked(label: Rendered, url: str) -> Rendered:
    """A link, or its words with the address behind them where it may not be hidden."""
    if linkable(url) and honest(label.text, url):
        return _styled("text_link", label, url)
    shown = not url or label.text.endswith(url.removeprefix("mailto:"))
    return label if shown else _joined((label, Rendered(f" ({url})")))


def _code(node: SyntaxTreeNode) -> Rendered:
    """Code, with the language that stands before it; other words that stand there are shown, as is one without code."""
    said, content = node.info.strip(), node.content.rstrip("\n")
    named, _, more = said.partition(" ")
    language = named if _LANGUAGE.fullmatch(named) and (not more or _OPTION.match(more)) and content else ""
    code = _styled("pre", Rendered(content), language=language)
    return _joined([Rendered(said), code][: 1 + bool(content)], "\n") if said and not language else code


def normalise(entities: Sequence[Entity], text: str) -> tuple[Entity, ...]:
    """Entities as Telegram wants them: none empty or blank, other styles cut out of code, sorted, outer first."""
    code = sorted((e.offset, e.end) for e in entities if e.type in {"pre", "code"})
    starts, ends = [low for low, _ in code], [high for _, high in code]
    kept: list[Entity] = []
    for entity in entities:
        if entity.type in {"pre", "code", "blockquote"}:
            kept.append(entity)
            continue
        start = entity.offset
        for low, high in code[bisect_right(ends, entity.offset) : bisect_left(starts, entity.end)]:
            kept.append(replace(entity, offset=start, length=max(0, low - start)))
            start = max(start, high)
        kept.append(replace(entity, offset=start, length=max(0, entity.end - start)))
    whole = [_trimmed(entity, text) for entity in kept]
    return tuple(sorted((e for e in whole if e.length > 0), key=lambda e: (e.offset, -e.length, _ORDER.index(e.type))))


def _trimmed(entity: Entity, text: str) -> Entity:
    """`entity` without blanks at its ends; a fence and what may hold one keep their leading blanks."""
    piece = text[entity.offset : entity.end]
    right = len(piece.rstrip())
    left = 0 if entity.type in {"pre", "blockquote"} else len(piece) - len(piece.lstrip())
    return replace(entity, offset=entity.offset + left, length=max(0, right - left))


TABLE_COLUMNS = 42  # display columns that a phone shows in one line

Row = Sequence[Rendered]


def table_of(rows: Sequence[Row]) -> Rendered:
    """A table whose first row is its head."""
    columns = [max(cell_len(row[i].text) if i < len(row) else 0 for row in rows) for i in range(len(rows[0]))]
    if sum(columns) + 3 * (len(columns) - 1) <= TABLE_COLUMNS:
        return _aligned(rows, columns)
    return _records(rows)


def _aligned(rows: Sequence[Row], columns: Sequence[int]) -> Rendered:
    lines = [
        " | ".join(cell.text + " " * (size - cell_len(cell.text)) for cell, size in zip(row, columns, strict=False))
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * size for size in columns))
    text = "\n".join(line.rstrip() for line in lines)
    return Rendered(text, (Entity("pre", 0, len(text)),))


def _records(rows: Sequence[Row]) -> Rendered:
    head, *body = rows
    return _joined((_record(head if body else (), row) for row in body or [head]), "\n\n")


def _record(head: Row, row: Row) -> Rendered:
    """`header: value` lines, the first value in bold."""
    lines = []
    for index, cell in enumerate(row):
        named = f"{head[index].text}: " if index < len(head) and head[index].text else ""
        lines.append(_joined((Rendered(named), cell if index else _styled("bold", cell))))
    return _joined(lines, "\n")
