"""JSON with comments and trailing commas, read into a tree that knows where everything stands.

Strict beyond these two: every deviation is named with its place and what to write instead. Duplicate keys are kept in
the tree; the loader judges them.
"""

import json
import re
from typing import NoReturn

from msgspec import Struct

Scalar = str | int | float | bool | None

_DEPTH = 64
_BLANK = re.compile(r"[ \t\r\n\ufeff]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_WORD = re.compile(r"[^\s,:\[\]{}\"'/#]+")
_STRING_STOP = re.compile(r'["\\\x00-\x1f]')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
_DIGITS = 300


class JsoncError(Exception):
    """The text is not JSONC. `offset` counts characters; `str(error)` says what stands there and what is wanted."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class ScalarNode(Struct, frozen=True):
    """A string, number, true, false or null at `start` to `end` (character offsets)."""

    value: Scalar
    start: int
    end: int


class ArrayNode(Struct, frozen=True):
    items: tuple["Node", ...]
    start: int
    end: int


class Member(Struct, frozen=True):
    """One key of an object; `start` and `end` are those of the key with its quotes."""

    key: str
    start: int
    end: int
    node: "Node"


class ObjectNode(Struct, frozen=True):
    members: tuple[Member, ...]
    start: int
    end: int

    def last(self, key: str) -> Member | None:
        """The member named `key`; the last one where there are several."""
        return next((member for member in reversed(self.members) if member.key == key), None)


Node = ScalarNode | ArrayNode | ObjectNode


def parse(text: str) -> Node:
    """The tree of `text`. Raises `JsoncError`."""
    reader = _Reader(text)
    position = reader.skip(0)
    if position == len(text):
        raise JsoncError("the file is empty; write {} for a configuration with nothing but defaults", 0)
    node = reader.value(position, 0)
    rest = reader.skip(node.end)
    if rest != len(text):
        raise JsoncError(f"found {reader.seen(rest)} after the end; the file holds one object", rest)
    return node


def line_of(text: str, offset: int) -> int:
    """The line, from 1, that `offset` is in."""
    return text.count("\n", 0, offset) + 1


class _Reader:
    """A recursive descent over one text; every method takes an offset and returns what ends at another."""

    def __init__(self, text: str) -> None:
        self.text = text

    def seen(self, offset: int) -> str:
        """What stands at `offset`, for a message: one character or a short word, never a whole value."""
        if offset >= len(self.text):
            return "the end of the file"
        if self.text[offset] == '"':
            return "another text"
        word = _WORD.match(self.text, offset)
        if word and word[0].isalpha() and len(word[0]) <= 9:
            return f"the word {word[0]}"
        return json.dumps(self.text[offset], ensure_ascii=not self.text[offset].isprintable())

    def skip(self, position: int) -> int:
        while True:
            blank = _BLANK.match(self.text, position)
            position = blank.end() if blank else position
            if self.text.startswith("//", position):
                end = self.text.find("\n", position)
                position = len(self.text) if end < 0 else end
            elif self.text.startswith("/*", position):
                position = self.comment_end(position)
            else:
                return position

    def comment_end(self, position: int) -> int:
        end = self.text.find("*/", position + 2)
        if end < 0:
            raise JsoncError("a comment begins here with /* and never ends; close it with */", position)
        return end + 2

    def value(self, position: int, depth: int) -> Node:
        if depth > _DEPTH:
            raise JsoncError(f"nested deeper than {_DEPTH} levels", position)
        mark = self.text[position : position + 1]
        if mark == "{":
            return self.object(position, depth)
        if mark == "[":
            return self.array(position, depth)
        if mark == '"':
            text, end = self.string(position)
            return ScalarNode(text, position, end)
        return self.bare(position)

    def object(self, start: int, depth: int) -> ObjectNode:
        members: list[Member] = []
        position = self.skip(start + 1)
        while self.text[position : position + 1] != "}":
            key_start = position
            if self.text[position : position + 1] != '"':
                self._fail_key(position, start)
            key, key_end = self.string(position)
            position = self.skip(key_end)
            if self.text[position : position + 1] != ":":
                raise JsoncError(f'found {self.seen(position)} after the key "{key}"; a ":" belongs there', position)
            node = self.value(self.skip(position + 1), depth + 1)
            members.append(Member(key, key_start, key_end, node))
            position = self._next(node.end, start, "}")
        return ObjectNode(tuple(members), start, position + 1)

    def array(self, start: int, depth: int) -> ArrayNode:
        items: list[Node] = []
        position = self.skip(start + 1)
        while self.text[position : position + 1] != "]":
            node = self.value(position, depth + 1)
            items.append(node)
            position = self._next(node.end, start, "]")
        return ArrayNode(tuple(items), start, position + 1)

    def _next(self, end: int, start: int, closer: str) -> int:
        """Past the comma after a value, or at the closing bracket."""
        position = self.skip(end)
        mark = self.text[position : position + 1]
        if mark == ",":
            after = self.skip(position + 1)
            if self.text[after : after + 1] == ",":
                raise JsoncError("two commas follow each other; take one away", after)
            return after
        if mark == closer:
            return position
        if not mark:
            line = line_of(self.text, start)
            raise JsoncError(f'the file ends early: "{self.text[start]}" in line {line} is never closed', start)
        # The comma is missing where the last value ended, which is where a person looks for it.
        raise JsoncError(f'found {self.seen(position)}; a "," or "{closer}" belongs before it', end)

    def _fail_key(self, position: int, start: int) -> NoReturn:
        if position >= len(self.text):
            line = line_of(self.text, start)
            raise JsoncError(f'the file ends early: "{{" in line {line} is never closed', start)
        self._fail_quotes(position)
        raise JsoncError(f"found {self.seen(position)}; a key in double quotes belongs there", position)

    def _fail_quotes(self, position: int) -> None:
        if self.text[position] in "'“”„«‘’`":
            raise JsoncError(f'found {self.seen(position)}; text stands in straight double quotes: "', position)
        if self.text[position] == "#":
            raise JsoncError("found #; a comment begins with //", position)

    def bare(self, position: int) -> ScalarNode:
        """A number or one of the three words."""
        if position >= len(self.text):
            raise JsoncError("the file ends where a value belongs", position)
        word = _WORD.match(self.text, position)
        number = _NUMBER.match(self.text, position)
        if number and word and number.end() == word.end():
            return ScalarNode(self._number(number, position), position, number.end())
        if word and word[0] in _WORDS:
            return ScalarNode(_WORDS[word[0]], position, word.end())
        self._fail_quotes(position)
        if word and word[0].lower() in {*_WORDS, "none", "nan", "infinity", "-infinity", "undefined"}:
            right = {"true": "true", "false": "false"}.get(word[0].lower(), "null")
            raise JsoncError(f"found the word {word[0]}; JSON writes {right}", position)
        if number:
            raise JsoncError(
                "this is no JSON number; write it like 42, -1.5 or 2e3, or put it in double quotes", position
            )
        raise JsoncError(f"found {self.seen(position)}; a value belongs there, text in double quotes", position)

    def _number(self, number: re.Match[str], position: int) -> int | float:
        if len(number[0]) > _DIGITS:
            raise JsoncError(f"this number has more than {_DIGITS} digits", position)
        if not number[1] and not number[2]:
            return int(number[0])
        value = float(number[0])
        if value in (float("inf"), float("-inf")):
            raise JsoncError("this number is too large", position)
        return value

    def string(self, start: int) -> tuple[str, int]:
        """The text that begins with the quote at `start`, and the offset after its closing quote."""
        parts: list[str] = []
        position = start + 1
        while True:
            stop = _STRING_STOP.search(self.text, position)
            if stop is None or stop[0] in "\r\n":
                raise JsoncError('the text that begins here is never closed; a " is missing in this line', start)
            parts.append(self.text[position : stop.start()])
            if stop[0] == '"':
                return self._checked("".join(parts), start), stop.end()
            if stop[0] != "\\":
                raise JsoncError("text holds a control character; write a tab as \\t", stop.start())
            piece, position = self._escape(stop.end())
            parts.append(piece)

    def _checked(self, text: str, start: int) -> str:
        if any("\ud800" <= mark <= "\udfff" for mark in text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if "\ufffd" in text:
                raise JsoncError("text holds half of a \\u pair; write the character itself", start)
        return text

    def _escape(self, position: int) -> tuple[str, int]:
        mark = self.text[position : position + 1]
        if mark in _ESCAPES and mark:
            return _ESCAPES[mark], position + 1
        code = self.text[position + 1 : position + 5]
        if mark == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", code):
            return chr(int(code, 16)), position + 5
        raise JsoncError("a backslash in text is written \\\\; in Windows paths use / instead", position - 1)
