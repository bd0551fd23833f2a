"""JSON with comments and trailing commas, read into a tree that knows where everything stands.

Strict beyond these two: every deviation is named with its place and what to write instead. Duplicate keys are kept in
the tree; whoever reads it judges them.
"""

import json
import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from msgspec import Struct

from nanobot.utils.translation import _

Scalar = str | int | float | bool | None
_T = TypeVar("_T")

_DECODER = json.JSONDecoder()
_DEPTH = 64
_DIGITS = 300
_BLANK = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORD = re.compile(r"[^\s,:\[\]{}\"'/#]+")
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None}


class JsoncError(Exception):
    """The text is not JSONC. `offset` counts characters; `str(error)` says what stands there and what is wanted."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class Node(Struct, frozen=True):
    """A value and the line in which it begins: a list of an array, a tuple of an object's members.

    `start` and `end` are its offsets in the text.
    """

    value: "Scalar | list[Node] | tuple[Member, ...]"
    line: int
    start: int = 0
    end: int = 0


class Member(Struct, frozen=True):
    """One key of an object; `line` is that of its quotes, `start` their offset."""

    key: str
    line: int
    node: Node
    start: int = 0


def parse(text: str) -> Node:
    """The tree of `text`. Raises `JsoncError`."""
    reader = _Reader(text)
    if not reader.next():
        raise JsoncError(_("the file is empty; write {} for a configuration with nothing but defaults"), 0)
    node = reader.value(0)
    if reader.next():
        raise JsoncError(_("found {seen} after the end; the file holds one object", seen=reader.seen()), reader.at)
    return node


def line_of(text: str, offset: int) -> int:
    """The line, from 1, that `offset` is in."""
    return text.count("\n", 0, offset) + 1


class _Reader:
    """A recursive descent over one text; `at` is the offset of what comes next, `lines` those up to `counted`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.counted = 0
        self.lines = 1

    def next(self) -> str:
        """The first character behind blanks and comments, empty at the end."""
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        if self.text.startswith("/*", self.at):
            raise JsoncError(_("a comment begins here with /* and never ends; close it with */"), self.at)
        return self.text[self.at : self.at + 1]

    def line(self) -> int:
        """The line of what comes next."""
        self.counted, before = self.at, self.counted
        self.lines += self.text.count("\n", before, self.at)
        return self.lines

    def seen(self) -> str:
        """What comes next, for a message: one character or a short word, never a whole value."""
        mark, word = self.text[self.at : self.at + 1], _WORD.match(self.text, self.at)
        if not mark:
            return _("the end of the file")
        if mark == '"':
            return "another text"
        if word and word[0].isalpha() and len(word[0]) <= 9:
            return _("the word {word}", word=word[0])
        return json.dumps(mark, ensure_ascii=not mark.isprintable())

    def value(self, depth: int) -> Node:
        if depth > _DEPTH:
            raise JsoncError(_("nested deeper than {depth} levels", depth=_DEPTH), self.at)
        mark, line, start = self.next(), self.line(), self.at
        value: Scalar | list[Node] | tuple[Member, ...]
        if mark == "{":
            value = tuple(self.inside("}", depth, self.member))
        elif mark == "[":
            value = self.inside("]", depth, self.value)
        else:
            value = self.string() if mark == '"' else self.bare()
        return Node(value, line, start, self.at)

    def inside(self, closer: str, depth: int, read: Callable[[int], _T]) -> list[_T]:
        """What stands between two brackets, separated by commas."""
        start, found = self.at, list[_T]()
        self.at += 1
        while (mark := self.next()) != closer:
            if mark:
                found.append(read(depth + 1))
            end, mark = self.at, self.next()
            if mark == ",":
                self.at += 1
                if self.next() == ",":
                    raise JsoncError(_("two commas follow each other; take one away"), self.at)
            elif not mark:
                opened = f'"{self.text[start]}" in line {line_of(self.text, start)}'
                raise JsoncError(_("the file ends early: {opened} is never closed", opened=opened), start)
            elif mark != closer:
                # The comma is missing where the last value ended, which is where a person looks for it.
                raise JsoncError(
                    _('found {seen}; a "," or "{closer}" belongs before it', seen=self.seen(), closer=closer), end
                )
        self.at += 1
        return found

    def member(self, depth: int) -> Member:
        start = self.at
        if self.text[start] != '"':
            self.judge_quotes()
            raise JsoncError(_("found {seen}; a key in double quotes belongs there", seen=self.seen()), start)
        line, key = self.line(), self.string()
        if self.next() != ":":
            raise JsoncError(
                _('found {seen} after the key "{key}"; a ":" belongs there', seen=self.seen(), key=key), self.at
            )
        self.at += 1
        return Member(key, line, self.value(depth), start)

    def judge_quotes(self) -> None:
        mark = self.text[self.at : self.at + 1]
        if mark and mark in "'“”„«‘’`":
            raise JsoncError(_('found {seen}; text stands in straight double quotes: "', seen=self.seen()), self.at)
        if mark == "#":
            raise JsoncError(_("found #; a comment begins with //"), self.at)

    def bare(self) -> Scalar:
        """A number or one of the three words."""
        start, word, number = self.at, _WORD.match(self.text, self.at), _NUMBER.match(self.text, self.at)
        if start == len(self.text):
            raise JsoncError(_("the file ends where a value belongs"), start)
        if number and word and number.end() == word.end():
            self.at = number.end()
            return self.number(number[0], start)
        if word and word[0] in _WORDS:
            self.at = word.end()
            return _WORDS[word[0]]
        self.judge_quotes()
        if word and word[0].lower() in {*_WORDS, "none", "nan", "infinity", "-infinity", "undefined"}:
            right = {"true": "true", "false": "false"}.get(word[0].lower(), "null")
            raise JsoncError(_("found the word {word}; JSON writes {right}", word=word[0], right=right), start)
        if number:
            advice = _("write it like 42, -1.5 or 2e3, or put it in double quotes")
            raise JsoncError(_("this is no JSON number; {advice}", advice=advice), start)
        raise JsoncError(_("found {seen}; a value belongs there, text in double quotes", seen=self.seen()), start)

    def number(self, text: str, start: int) -> int | float:
        if len(text) > _DIGITS:
            raise JsoncError(_("this number has more than {digits} digits", digits=_DIGITS), start)
        value: int | float = json.loads(text)
        if value in (float("inf"), float("-inf")):
            raise JsoncError(_("this number is too large"), start)
        return value

    def string(self) -> str:
        """The text whose opening quote comes next."""
        start = self.at
        try:
            text, self.at = _DECODER.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            self.judge_string(start, error.pos)
        if any("\ud800" <= mark <= "\udfff" for mark in text):
            raise JsoncError(_("text holds half of a \\u pair; write the character itself"), start)
        return str(text)

    def judge_string(self, start: int, wrong: int) -> NoReturn:
        if wrong == start or self.text[wrong] in "\r\n":
            raise JsoncError(_('the text that begins here is never closed; a " is missing in this line'), start)
        if self.text[wrong] < " ":
            raise JsoncError(_("text holds a control character; write a tab as \\t"), wrong)
        raise JsoncError(_("a backslash in text is written \\\\; in Windows paths use / instead"), wrong)
