"""Splits a Markdown stream into finished blocks and an unfinished tail. Pure: text in, blocks out.

Finished means that no later text can change how the block looks, by the rules of CommonMark: every top-level block but
the last one, and that one too when a blank line has closed it. A long code block and a long list would keep everybody
waiting, so they are given out piece by piece.
"""

import re
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct

#: Reference definitions and HTML would be swallowed without a trace; both stay visible as text.
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("reference")
#: An unfinished code block or list longer than this many lines is given out in pieces.
LONGEST_TAIL = 6

_FENCE = re.compile(r"^( {0,3})(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n]*$")

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


class _Fence(Struct, frozen=True):
    indent: int
    mark: str
    language: str

    def closes(self, line: str) -> bool:
        bare = line.strip()
        outer = len(line) - len(line.lstrip(" ")) <= 3
        return outer and len(bare) >= len(self.mark) and set(bare) == {self.mark[0]}

    def inner(self, line: str) -> str:
        """A code line without the indent of its fence."""
        room = len(line) - len(line.lstrip(" "))
        return line[min(self.indent, room) :]


class Splitter:
    """Takes deltas and gives finished blocks, each exactly once and in order."""

    def __init__(self) -> None:
        self._pending = ""
        self._longest = LONGEST_TAIL
        self._fence: _Fence | None = None
        self._in_list = False

    @property
    def tail(self) -> str:
        """The text that is not finished yet."""
        return self._pending

    @property
    def divided(self) -> bool:
        """True while the last piece given out is only a part of its block: an open code block or a list."""
        return self._fence is not None or self._in_list

    def feed(self, delta: str) -> list[MarkdownBlock]:
        """Add text. Only a line end can finish anything."""
        self._pending += delta
        if "\n" not in delta:
            return []
        found: list[MarkdownBlock] = []
        while True:
            step = self._code_lines() if self._fence else self._finished()
            if not step:
                return found
            found += step

    def end(self) -> list[MarkdownBlock]:
        """Everything that is left; the splitter is fresh afterwards."""
        found: list[MarkdownBlock] = []
        if self._fence:
            found += self._code_lines(whole=True)
        if self._pending.strip():
            found += self._slices(PARSER.parse(self._pending), self._pending, keep_last=False)
        self.drop()
        return found

    def drop(self) -> None:
        """Forget the tail: it was taken back."""
        self._pending = ""
        self._fence = None
        self._in_list = False

    def _finished(self) -> list[MarkdownBlock]:
        whole, _, rest = self._pending.rpartition("\n")
        if not whole.strip():
            return []
        text = f"{whole}\n"
        tokens = PARSER.parse(text)
        found = self._slices(tokens, text, keep_last=not _ended(tokens, text))
        used = sum(len(block.source) for block in found)
        self._pending = text[used:] + rest
        return found or self._pieces()

    def _slices(self, tokens: list[Token], text: str, *, keep_last: bool) -> list[MarkdownBlock]:
        """The top-level blocks as slices of `text`; blank lines belong to the block before them."""
        tops = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
        lines = text.splitlines(keepends=True) or [""]
        starts = [0, *(token.map[0] for token in tops[1:] if token.map), len(lines)]
        found: list[MarkdownBlock] = []
        for index, token in enumerate(tops[:-1] if keep_last else tops):
            source = "".join(lines[starts[index] : starts[index + 1]])
            joined = index == 0 and self._in_list and token.type.endswith("list_open")
            found.append(_block(token, source, joined=joined))
        if found:
            self._in_list = False
        if not tops and not keep_last:
            found.append(MarkdownBlock("markdown", text))
        return found

    def _pieces(self) -> list[MarkdownBlock]:
        """Pieces of a long last block: the first lines of an open code block, or the first items of a list."""
        if self._pending.count("\n") <= self._longest:
            return []
        whole = self._pending[: self._pending.rindex("\n") + 1]
        tokens = PARSER.parse(whole)
        last = next((token for token in tokens if token.level == 0 and token.map), None)
        if last is None:
            return []
        if last.type == "fence":
            return self._open_fence()
        if last.type.endswith("list_open"):
            return self._items(tokens, whole)
        return []

    def _open_fence(self) -> list[MarkdownBlock]:
        lead = len(self._pending) - len(self._pending.lstrip("\n"))
        first, _, rest = self._pending[lead:].partition("\n")
        match = _FENCE.match(first)
        if match is None:
            return []
        fence = _Fence(len(match[1]), match[2], match[3])
        if any(fence.closes(line) for line in rest.split("\n")[:-1]):
            return []  # closed already: it is finished as a whole when the next block begins
        source = self._pending[: lead + len(first) + 1]
        self._pending, self._fence = rest, fence
        return [MarkdownBlock("code", source, "", fence.language, closes=False)]

    def _code_lines(self, *, whole: bool = False) -> list[MarkdownBlock]:
        fence = self._fence
        if fence is None:
            return []
        lines = self._pending.splitlines(keepends=True)
        code: list[str] = []
        for line in lines:
            complete = line.endswith("\n")
            if not complete and not whole:
                break
            code.append(line)
            if fence.closes(line):
                self._fence = None
                break
        source = "".join(code)
        self._pending = self._pending[len(source) :]
        closed = self._fence is None
        shown = code[:-1] if closed else code
        if not source and not (whole and not closed):
            return []
        text = "".join(fence.inner(line) for line in shown)
        return [MarkdownBlock("code", source, text, fence.language, opens=False, closes=closed or whole, joined=True)]

    def _items(self, tokens: list[Token], whole: str) -> list[MarkdownBlock]:
        starts = [token.map[0] for token in tokens if token.type == "list_item_open" and token.level == 1 and token.map]
        if len(starts) < 2:
            return []
        lines = whole.splitlines(keepends=True)
        source = "".join(lines[: starts[-1]])
        self._pending = self._pending[len(source) :]
        joined, self._in_list = self._in_list, True
        return [MarkdownBlock("markdown", source, joined=joined)]


def _ended(tokens: list[Token], text: str) -> bool:
    """True when a blank line has closed the last block for good; lists and code may go on after one."""
    last = next((token for token in reversed(tokens) if token.level == 0 and token.nesting >= 0), None)
    if last is None:
        return False
    return last.type in {"heading_open", "hr"} or (last.type in _CLOSED_BY_BLANK and text.endswith("\n\n"))


def _block(token: Token, source: str, *, joined: bool) -> MarkdownBlock:
    if token.type == "fence":
        language = token.info.split()[0] if token.info.strip() else ""
        return MarkdownBlock("code", source, token.content, language, joined=joined)
    return MarkdownBlock("markdown", source, joined=joined)
