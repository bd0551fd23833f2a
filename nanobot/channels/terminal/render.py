"""Finished pieces of a conversation as terminal text: rich makes the ANSI codes, the terminal keeps the result.

Nothing is cropped and no line is padded, so that what is copied out of the terminal is what was written. Links show
their address: a reader should see where a link of a web page leads.
"""

import io
import re
from collections.abc import Iterator
from typing import ClassVar

from markdown_it.token import Token
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListItem, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from nanobot.channels.terminal.blocks import PARSER, MarkdownBlock
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.transcript import Piece, PieceKind
from nanobot.utils.text import broken, printable

WIDEST = 110
#: Columns that each cell of a table gets at least.
NARROWEST = 8
_ADDRESS = re.compile(r"https?://[^\s<>]+")
#: Marks for long addresses: private characters that no font uses. Lists may take `_NESTING` columns of a line.
_FIRST_MARK, _MOST_MARKS, _MARK_WIDTH, _NESTING = 0xFF000, 0xF00, 6, 20
_PADDING = re.compile(r"[ \t]+((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
#: Lines without a visible character at the start and at the end.
_EMPTY_EDGE = re.compile(r"\A(?:(?:\x1b\[[0-9;]*m|[ \t])*\n)+|(?:\n(?:\x1b\[[0-9;]*m|[ \t])*)+\Z")
_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "bold italic",
        "markdown.code": "cyan",
        "markdown.code_block": "none",
        "markdown.link": "none",
        "markdown.link_url": "cyan underline",
        "markdown.item.bullet": "none",
        "markdown.item.number": "none",
        "markdown.block_quote": "italic",
        "markdown.table.header": "bold",
        "markdown.table.border": "dim",
    }
)

#: What stands before each kind of piece, and its style.
_MARKS: dict[PieceKind, tuple[str, str]] = {
    "hint": ("  ✓ ", "dim"),
    "failed": ("  ✗ ", "red"),
    "info": ("  ", "dim"),
    "diff": ("      ", "dim"),
    "receipt": ("  ☑ ", ""),
    "warning": ("  ! ", "yellow"),
    "error": ("  ✗ ", "bold red"),
    "sources": ("", "dim"),
    "asked": ("  ", ""),
}
#: Kinds that stand together without a blank line.
_LINES: frozenset[PieceKind] = frozenset({"hint", "failed", "info", "warning", "error", "receipt", "diff", "asked"})


class _Heading(Heading):
    """A heading at the left, whatever its level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        yield text


class _InnerCode(CodeBlock):
    """Code inside a list or a quotation, without a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _highlighted(str(self.text).rstrip(), self.lexer_name, color=not console.no_color)


class _Table(TableElement):
    """A table whose cells break where they are too wide; one that is too narrow for its columns is a list of rows."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        head = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        rows = [[cell.content for cell in row.cells] for row in self.body.rows] if self.body else []
        if head and options.max_width // len(head) < NARROWEST:
            yield from _rows(head, rows)
            return
        table = Table(box=box.SIMPLE, pad_edge=False, style="markdown.table.border", collapse_padding=True)
        for heading in head:
            heading.stylize("markdown.table.header")
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(*row)
        yield table


def _rows(head: list[Text], rows: list[list[Text]]) -> Iterator[Text]:
    """Each row as lines of `heading: cell`, with a blank line between rows; the headings alone where there is none."""
    if not rows:
        yield Text(" · ").join(head)
    for number, row in enumerate(rows):
        if number:
            yield Text("")
        for heading, cell in zip(head, row, strict=False):
            yield Text.assemble((heading.plain, "markdown.table.header"), ": ", cell)


class _ListItem(ListItem):
    """A numbered item as it was written: `3.`"""

    def render_number(self, console: Console, options: ConsoleOptions, number: int, last_number: int) -> RenderResult:
        width = len(str(last_number)) + 3
        lines = console.render_lines(self.elements, options.update(width=options.max_width - width), style=self.style)
        for index, line in enumerate(lines):
            yield Segment(f"{number}. ".rjust(width) if index == 0 else " " * width)
            yield from line
            yield Segment("\n")


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "list_item_open": _ListItem,
        "table_open": _Table,
        "fence": _InnerCode,
        "code_block": _InnerCode,
    }

    def __init__(self, source: str, width: int) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = PARSER.parse(source)
        self._width = width
        self._long: list[str] = []
        in_table = False
        for token in self.parsed:
            in_table = token.type == "table_open" or (in_table and token.type != "table_close")
            if token.type == "inline":
                token.children = _visible(token.children or [])
                for child in () if in_table else token.children:
                    self._set_aside(child)

    def _set_aside(self, token: Token) -> None:
        """Put a mark in the place of an address that would be broken: it stays whole, and the terminal wraps it."""
        if token.type in {"text", "code_inline"}:
            token.content = _ADDRESS.sub(lambda found: self._mark(found[0]), token.content)
        elif token.type == "link_open":
            token.attrs["href"] = self._mark(str(token.attrs.get("href", "")))

    def _mark(self, address: str) -> str:
        if cell_len(address) <= self._width - _NESTING or len(self._long) > _MOST_MARKS:
            return address
        self._long.append(address)
        return chr(_FIRST_MARK + len(self._long) - 1) * _MARK_WIDTH

    def whole(self, rendered: str) -> str:
        """`rendered` with the addresses in their places."""
        for number, address in enumerate(self._long):
            mark = chr(_FIRST_MARK + number)
            rendered = re.sub(rf"{mark}(?:\s*{mark})*", address.replace("\\", r"\\"), rendered)
        return rendered


class Printer:
    """Turns pieces into text with the right blank lines between them. Remembers only what came last."""

    def __init__(self) -> None:
        self._last: PieceKind | None = None

    def reset(self) -> None:
        """Something else was printed: no blank line is due before the next piece."""
        self._last = None

    def __call__(self, piece: Piece, look: TextLook) -> str:
        if piece.kind == "said":
            return self._said(piece.text, look)
        body = self._body(piece, look)
        if not body:
            return ""
        together = piece.joined or (piece.kind in _LINES and self._last in _LINES)
        gap = "" if self._last is None or together else "\n"
        self._last = piece.kind
        return gap + body

    def _said(self, text: str, look: TextLook) -> str:
        self._last = None
        first, *rest = text.split("\n")
        lines = [f"❯ {first}", *(f"  {line}" for line in rest)]
        return "\n" + "".join(render_line(line, "bold", look) for line in lines) + "\n"

    def _body(self, piece: Piece, look: TextLook) -> str:
        if piece.block is not None:
            return render_block(piece.block, look)
        mark, style = _MARKS.get(piece.kind, ("", "none"))
        lines = piece.text.splitlines()
        if piece.kind in _LINES and look.ansi:
            lines = [part for line in lines for part in broken(line, look.width - len(mark))]
        marks = (mark, *[" " * len(mark)] * len(lines))
        return "".join(render_line(f"{lead}{line}", style, look) for lead, line in zip(marks, lines, strict=False))


def render_block(block: MarkdownBlock, look: TextLook) -> str:
    """The block as text for the terminal, ending with a line end; empty where there is nothing to see."""
    if not look.ansi:
        return _ended(printable(block.source).strip("\n")) if block.source.strip() else ""
    if block.kind == "code":
        return _code(block, look)
    return render_markdown(block.source, look)


def render_markdown(source: str, look: TextLook) -> str:
    """A whole Markdown text."""
    source = printable(source)
    if not look.ansi:
        return _ended(source.strip("\n"))
    console = _console(look)
    markdown = _Markdown(source, console.width)
    console.print(markdown)
    return _ended(markdown.whole(_EMPTY_EDGE.sub("", _PADDING.sub(r"\1", _read(console)))))


def render_line(text: str, style: str, look: TextLook) -> str:
    """Plain text in one style, not wrapped: the terminal wraps it."""
    text = printable(text)
    if not look.ansi:
        return _ended(text)
    console = _console(look)
    console.print(Text(text, style=style), soft_wrap=True)
    return _ended(_read(console).rstrip("\n"))


def _code(block: MarkdownBlock, look: TextLook) -> str:
    parts: list[str] = []
    if block.opens:
        parts.append(render_line(f"```{block.language}", "dim", look))
    if block.text:
        console = _console(look)
        code = _highlighted(printable(block.text).removesuffix("\n"), block.language, color=look.color)
        console.print(code, soft_wrap=True)
        parts.append(_ended(_read(console).removesuffix("\n")))
    if block.closes:
        parts.append(render_line("```", "dim", look))
    return "".join(parts)


def _highlighted(code: str, language: str, *, color: bool) -> Text:
    if not color or language in {"", "text", "plain", "txt"}:
        return Text(code)
    text = Syntax(code, language, theme="ansi_dark", background_color="default").highlight(code)
    text.rstrip()
    text.no_wrap, text.overflow = False, "fold"  # the highlighter's own would cut a long line
    return text


def _console(look: TextLook) -> Console:
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
        no_color=not look.color,
        width=max(20, min(look.width, WIDEST)),
        theme=_THEME,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )


def _read(console: Console) -> str:
    file = console.file
    return file.getvalue() if isinstance(file, io.StringIO) else ""


def _ended(text: str) -> str:
    return f"{text}\n" if text else ""


def _visible(children: list[Token]) -> list[Token]:
    """Line ends stay line ends, and a bare address is not shown twice."""
    shown: list[Token] = []
    bare = False
    for token in children:
        if token.type == "softbreak":
            token.type = "hardbreak"
        if token.type == "link_open" and token.info == "auto":
            bare = True
            continue
        if token.type == "link_close" and bare:
            bare = False
            continue
        shown.append(token)
    return shown
