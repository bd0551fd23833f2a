"""Markdown as models write it, read without losing a word."""

from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_core import StateCore

#: Marks of quotations and blanks that stand before a row.
_BEFORE = " \t>"


def markdown_parser(**options: object) -> MarkdownIt:
    """CommonMark with tables and struck-through words. Definitions of links and HTML, which it would swallow without a
    trace, stay visible as text, and what a row has more than its head stands in its last cell."""
    parser = MarkdownIt("commonmark", {"html": False, **options})
    parser.enable(["table", "strikethrough"]).disable("reference")
    parser.core.ruler.after("block", "whole_rows", _whole_rows)
    return parser


def _whole_rows(state: StateCore) -> None:
    """Give the last cell of each row what stands behind it: one such as `a | b` in code is two for the reader."""
    lines: list[str] = []
    row, cells = 0, 0
    for place, token in enumerate(state.tokens):
        if token.type == "tr_open" and token.map:
            row, cells = token.map[0], 0
        elif token.type == "td_close":
            cells += 1
        elif token.type == "tr_close" and cells:
            lines = lines or state.src.split("\n")
            told = escapedSplit(lines[row].strip(_BEFORE).removeprefix("|").removesuffix("|"))
            last = state.tokens[place - 2]
            last.content = " | ".join((last.content, *(cell.strip() for cell in told[cells:] if cell.strip())))
