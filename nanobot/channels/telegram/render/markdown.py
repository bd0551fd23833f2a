"""Markdown to what Telegram shows: plain text with a list of entities, without a parse mode.

Tables, task lists, nested lists, quotes and fences have a form of their own; HTML stays visible. Offsets are in code
points here; `split.py` turns them into UTF-16 units, which Telegram counts.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import takewhile
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.emphasis import tokenize as emphasis
from markdown_it.rules_inline.strikethrough import tokenize as strikethrough
from markdown_it.token import Token
from msgspec.structs import replace

from nanobot.channels.telegram.render.entities import Entity, EntityType, Rendered, width

InlineRule = Callable[[StateInline, bool], bool]

MAX_NESTING = 100
_INLINE: dict[str, EntityType] = {"strong": "bold", "em": "italic", "s": "strikethrough"}
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: What looks like the name of a host, with or without a scheme before it.
_HOST = re.compile(r"(?<![\w@.-])(?:[\w-]+\.)+[^\W\d_]{2,24}(?![\w-])")
_TASK = re.compile(r"\[([ xX])\] ")


def render(markdown: str) -> Rendered:
    """Never raises and never loses words: what cannot be styled is shown plain."""
    source = clean(markdown)
    tokens = _parser(_links_are_real(source)).parse(source)
    if any(token.level >= MAX_NESTING - 1 for token in tokens):
        return Rendered(source.strip("\n"))
    writer = _Writer()
    writer.blocks(tokens)
    return writer.finish()


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
    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.inline.ruler.at("emphasis", _for_cjk(emphasis))
    parser.inline.ruler.at("strikethrough", _for_cjk(strikethrough))
    if not links:
        parser.disable(["link", "image", "reference"])
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


class _Writer:
    """Builds the text from left to right, remembering where styles began."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._entities: list[Entity] = []
        self._open: list[tuple[EntityType, int, str]] = []
        self._lists: list[int | None] = []
        self._gap = ""  # the break that stands before the next block
        self._tight: list[bool] = []
        self._prefix = ""
        self._quotes = 0
        self._rows: list[list[Rendered]] = []
        self._saved: tuple[list[str], int, list[Entity]] | None = None

    def finish(self) -> Rendered:
        text = "".join(self._parts)
        entities = normalise(self._entities, text)
        return Rendered(text, entities)

    def _write(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._length += len(text)

    def _begin_block(self) -> None:
        if self._length:
            self._write(self._gap or "\n")
        self._gap = ""
        self._write(self._prefix)
        self._prefix = ""

    def _end_block(self) -> None:
        self._gap = "\n" if self._tight and self._tight[-1] else "\n\n"

    @property
    def _indent(self) -> str:
        return "  " * max(0, len(self._lists) - 1)

    def blocks(self, tokens: Sequence[Token]) -> None:
        for token in tokens:
            kind = token.type
            if kind == "inline":
                self._inline_block(token)
            elif kind in {"fence", "code_block"}:
                self._code(token)
            elif kind == "hr":
                self._begin_block()
                self._write("———")
                self._end_block()
            elif kind in {"heading_open", "heading_close"}:
                self._mark("bold", opening=kind == "heading_open")
            elif kind.startswith("blockquote"):
                self._quote(opening=kind.endswith("open"))
            elif "list" in kind:
                self._list(token)
            elif kind.split("_")[0] in {"table", "tr", "td", "th"}:
                self._table(token)

    def _mark(self, kind: EntityType, *, opening: bool, url: str = "") -> None:
        if opening:
            self._open.append((kind, -1, url))
            return
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == kind:
                _, start, target = self._open.pop(index)
                if 0 <= start < self._length:
                    self._entities.append(Entity(kind, start, self._length - start, target))
                return

    def _settle(self) -> None:
        """Open marks begin where text comes next."""
        self._open = [(kind, self._length if start < 0 else start, url) for kind, start, url in self._open]

    def _quote(self, *, opening: bool) -> None:
        self._quotes += 1 if opening else -1
        if opening and self._quotes == 1:
            self._mark("blockquote", opening=True)
        elif not opening and self._quotes == 0:
            self._mark("blockquote", opening=False)
            self._gap = "\n\n"

    def _list(self, token: Token) -> None:
        match token.type:
            case "bullet_list_open":
                self._lists.append(None)
                self._tight.append(True)
            case "ordered_list_open":
                start = token.attrGet("start")
                self._lists.append(int(start) if start is not None else 1)
                self._tight.append(True)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._tight.pop()
                self._end_block()
            case "list_item_open":
                number = self._lists[-1]
                self._prefix = self._indent + ("• " if number is None else f"{number}. ")
                if number is not None:
                    self._lists[-1] = number + 1
            case "list_item_close" if self._prefix:  # an empty item keeps its mark
                self._begin_block()
                self._end_block()

    def _inline_block(self, token: Token) -> None:
        first = bool(self._prefix)
        self._begin_block()
        if self._lists and not first:
            self._write(self._indent + "  ")
        children = token.children or []
        if first and children and children[0].type == "text" and (task := _TASK.match(children[0].content)):
            self._write("☑ " if task[1] in "xX" else "☐ ")
            children[0].content = children[0].content[task.end() :]
        self._settle()
        self._inline(children)
        self._end_block()

    def _inline(self, children: Sequence[Token]) -> None:
        shown = ""
        for place, token in enumerate(children):
            match token.type:
                case "text" | "html_inline" | "text_special":
                    self._write(token.content)
                case "code_inline":
                    start = self._length
                    self._write(token.content)
                    if token.content:
                        self._entities.append(Entity("code", start, len(token.content)))
                case "softbreak" | "hardbreak":
                    self._write("\n" + ("  " * len(self._lists)))
                case "image":
                    self._image(token)
                case "link_open":
                    shown = str(token.attrGet("href") or "")
                    if linkable(shown) and honest(_label(children[place + 1 :]), shown):
                        self._mark("text_link", opening=True, url=shown)
                        self._settle()
                        shown = ""
                case "link_close":
                    self._mark("text_link", opening=False)
                    if shown and not "".join(self._parts[-3:]).endswith(shown.removeprefix("mailto:")):
                        self._write(f" ({shown})")
                    shown = ""
                case _ if (style := _INLINE.get(token.tag)) is not None:
                    self._mark(style, opening=token.nesting == 1)
                    self._settle()

    def _image(self, token: Token) -> None:
        source = str(token.attrGet("src") or "")
        label = "".join(child.content or "" for child in token.children or []) or source
        start = self._length
        self._write(label)
        if linkable(source) and honest(label, source):
            self._entities.append(Entity("text_link", start, len(label), source))
        elif label != source:
            self._write(f" ({source})")

    def _code(self, token: Token) -> None:
        self._begin_block()
        text = token.content.rstrip("\n")
        words = token.info.split()
        language = words[0] if token.type == "fence" and words and re.fullmatch(r"[\w+#.-]{1,40}", words[0]) else ""
        if token.info.strip() and not language:
            self._write(token.info.strip() + "\n")
        start = self._length
        self._settle()
        self._write(text)
        if text.strip():
            self._entities.append(Entity("pre", start, len(text), language=language))
        self._end_block()

    def _table(self, token: Token) -> None:
        match token.type:
            case "table_open":
                self._rows = []
            case "tr_open":
                self._rows.append([])
            case "td_open" | "th_open":
                self._saved = (self._parts, self._length, self._entities)
                self._parts, self._length, self._entities = [], 0, []
            case "td_close" | "th_close" if self._saved is not None:
                cell = Rendered("".join(self._parts), tuple(self._entities))
                self._rows[-1].append(cell)
                self._parts, self._length, self._entities = self._saved
                self._saved = None
            case "table_close":
                self._put_table(self._rows)

    def _put_table(self, rows: list[list[Rendered]]) -> None:
        if not rows:
            return
        self._gap = "\n\n"
        self._begin_block()
        start = self._length
        table = table_of(rows)
        self._write(table.text)
        self._entities.extend(replace(entity, offset=entity.offset + start) for entity in table.entities)
        self._gap = "\n\n"


def _label(after: Sequence[Token]) -> str:
    """What a link shows; `after` are the tokens behind its beginning."""
    inside = takewhile(lambda token: token.type != "link_close", after)
    return "".join("\n" if token.type.endswith("break") else token.content for token in inside)


def normalise(entities: Sequence[Entity], text: str) -> tuple[Entity, ...]:
    """Entities as Telegram wants them: none empty or blank, other styles cut out of code, sorted, outer first."""
    code = sorted((e.offset, e.end) for e in entities if e.type in {"pre", "code"})
    kept: list[Entity] = []
    for entity in entities:
        if entity.type in {"pre", "code", "blockquote"}:
            kept.append(entity)
            continue
        start = entity.offset
        for low, high in [span for span in code if span[0] < entity.end and span[1] > entity.offset]:
            kept.append(replace(entity, offset=start, length=max(0, low - start)))
            start = max(start, high)
        kept.append(replace(entity, offset=start, length=max(0, entity.end - start)))
    whole = [_trimmed(entity, text) for entity in kept]
    order = {
        "blockquote": 0,
        "expandable_blockquote": 0,
        "text_link": 1,
        "bold": 2,
        "italic": 3,
        "strikethrough": 4,
        "pre": 5,
        "code": 6,
    }
    return tuple(sorted((e for e in whole if e.length > 0), key=lambda e: (e.offset, -e.length, order[e.type])))


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
    columns = [max(width(row[i].text) if i < len(row) else 0 for row in rows) for i in range(len(rows[0]))]
    if sum(columns) + 3 * (len(columns) - 1) <= TABLE_COLUMNS:
        return _aligned(rows, columns)
    return _records(rows)


def _aligned(rows: Sequence[Row], columns: Sequence[int]) -> Rendered:
    lines = [
        " | ".join(cell.text + " " * (size - width(cell.text)) for cell, size in zip(row, columns, strict=False))
        for row in rows
    ]
    lines.insert(1, "-+-".join("-" * size for size in columns))
    text = "\n".join(line.rstrip() for line in lines)
    return Rendered(text, (Entity("pre", 0, len(text)),))


def _records(rows: Sequence[Row]) -> Rendered:
    head, *body = rows
    records = [_record(head if body else (), row) for row in body or [head]]
    text, entities = "", []
    for record in records:
        text += "\n\n" if text else ""
        entities += [replace(entity, offset=entity.offset + len(text)) for entity in record.entities]
        text += record.text
    return Rendered(text, tuple(entities))


def _record(head: Row, row: Row) -> Rendered:
    """`header: value` lines, the first value in bold."""
    text, entities = "", []
    for index, cell in enumerate(row):
        text += "\n" if index else ""
        if index < len(head) and head[index].text:
            text += head[index].text + ": "
        entities += [replace(entity, offset=entity.offset + len(text)) for entity in cell.entities]
        if index == 0 and cell.text:
            entities.append(Entity("bold", len(text), len(cell.text)))
        text += cell.text
    return Rendered(text, tuple(entities))
