"""Splits a Markdown stream into finished blocks and an unfinished tail. Pure: text in, blocks out.

Finished means that no later text can change how the block looks, by the rules of CommonMark: every top-level block but
the last one, and that one too when a blank line has closed it. A long code block and a long list would keep everybody
waiting, so they are given out piece by piece.
"""

import re
from typing import Literal

from markdown_it.token import Token
from msgspec import Struct

from nanobot.archive.markdown import markdown_parser

PARSER = markdown_parser()
#: An unfinished code block or list longer than this many lines is given out in pieces.
LONGEST_TAIL = 6

_CLOSED_BY_BLANK = {"paragraph_open", "blockquote_open", "table_open"}

BlockKind = Literal["markdown", "code"]


class MarkdownBlock(Struct, frozen=True):
    """A finished piece. `source` is exactly the text it came from; the sources of all blocks are the whole text.

    A `code` block's `text` is the bare code and `language` its name; `opens` and `closes` tell whether this piece holds
    the first and the last fence line. `joined` pieces continue the block before them.
    """

    kind: BlockKind
    source: str
    text: str = ""
    language: str = ""
    opens: bool = True
    closes: bool = True
    joined: bool = False


class Splitter:
    """Takes deltas and gives finished blocks, each exactly once and in order."""

    def __init__(self) -> None:
        self.drop()

    @property
    def tail(self) -> str:
        """The text that is not finished yet."""
        return self._pending

    @property
    def divided(self) -> bool:
        """True while the last piece given out is only a part of its block: an open code block or a list."""
        return bool(self._fence) or self._in_list

    def feed(self, delta: str) -> list[MarkdownBlock]:
        """Add text. Only a line end can finish anything."""
        self._pending += delta
        found: list[MarkdownBlock] = []
        while "\n" in self._pending and "\n" in delta:
            step = self._finished()
            if not step:
                break
            found += step
        return found

    def end(self) -> list[MarkdownBlock]:
        """Everything that is left; the splitter is fresh afterwards."""
        text = self._fence + self._pending
        found = self._slices(PARSER.parse(text), text, keep_last=False) if text.strip() else []
        self.drop()
        return found

    def drop(self) -> None:
        """Forget the tail: it was taken back."""
        self._pending = ""
        self._fence = ""  # the first line of a code block whose beginning was given out
        self._in_list = False

    def _finished(self) -> list[MarkdownBlock]:
        whole = self._pending[: self._pending.rindex("\n") + 1]
        if not self._fence and not whole.strip():
            return []
        text = self._fence + whole
        tokens = PARSER.parse(text)
        found = self._slices(tokens, text, keep_last=not _ended(tokens, text)) or self._pieces(tokens, text)
        self._pending = self._pending[sum(len(block.source) for block in found) :]
        return found

    def _slices(self, tokens: list[Token], text: str, *, keep_last: bool) -> list[MarkdownBlock]:
        """The top-level blocks as slices of `text`; blank lines belong to the block before them."""
        tops = _tops(tokens)
        lines = _lines(text)
        starts = [0, *(start for _, start, _ in tops[1:]), len(lines)]
        found: list[MarkdownBlock] = []
        for index, (token, _, _) in enumerate(tops[:-1] if keep_last else tops):
            source = "".join(lines[starts[index] : starts[index + 1]])
            found.append(self._block(token, source, closes=True))
        if not tops and not keep_last:
            found.append(MarkdownBlock("markdown", text))
        return found

    def _block(self, token: Token, source: str, *, closes: bool) -> MarkdownBlock:
        """A block, or what is left of one that was given out in part; what comes after it begins anew."""
        fence, self._fence = self._fence, ""
        in_list, self._in_list = self._in_list, False
        if token.type != "fence":
            return MarkdownBlock("markdown", source, joined=in_list and token.type.endswith("list_open"))
        language = (token.info.split() or [""])[0]
        source = source.removeprefix(fence)
        return MarkdownBlock("code", source, token.content, language, not fence, closes, joined=bool(fence))

    def _pieces(self, tokens: list[Token], text: str) -> list[MarkdownBlock]:
        """What is there of a long last block: the lines of an open code block, or the first items of a list."""
        tops, lines = _tops(tokens), _lines(text)
        if not tops or (len(lines) <= LONGEST_TAIL and not self._fence):
            return []
        last, start, end = tops[-1]
        if last.type == "fence":
            closed = _closes(lines[end - 1], last.markup)
            if closed and not self._fence:
                return []  # it is finished as a whole when the next block begins
            block = self._block(last, text, closes=closed)
            self._fence = "" if closed else lines[start]
            return [block]
        items = [item.map[0] for item in tokens if item.type == "list_item_open" and item.level == 1 and item.map]
        if len(items) < 2:
            return []
        block = self._block(last, "".join(lines[: items[-1]]), closes=True)
        self._in_list = True
        return [block]


def _lines(text: str) -> list[str]:
    """The lines as the parser counts them, with their ends."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _tops(tokens: list[Token]) -> list[tuple[Token, int, int]]:
    """The top-level blocks, each with its first line and the line after its last one."""
    return [(one, one.map[0], one.map[1]) for one in tokens if one.level == 0 and one.nesting >= 0 and one.map]


def _closes(line: str, mark: str) -> bool:
    """True for the last line of a code block that began with `mark`."""
    line, bare = line.expandtabs(4), line.strip()
    return len(line) - len(line.lstrip(" ")) <= 3 and len(bare) >= len(mark) and set(bare) == {mark[0]}


def _ended(tokens: list[Token], text: str) -> bool:
    """True when a blank line has closed the last block for good; lists and code may go on after one."""
    last = next((token for token in reversed(tokens) if token.level == 0 and token.nesting >= 0), None)
    if last is None:
        return False
    return last.type in {"heading_open", "hr"} or (last.type in _CLOSED_BY_BLANK and text.endswith("\n\n"))
