"""Sorting what models write into plain content: `<think>` blocks, and tool calls written as text by local models."""

import json
import re
from collections.abc import Collection, Iterator
from typing import Literal

from nanobot import jsonval

_OPEN, _CLOSE = "<think>", "</think>"
#: What opens a call anywhere, and what may be one where the text begins with it.
_MARKS = ("<tool_call>", "<function=", "<|tool_call", "[TOOL_CALLS]", "<|python_tag|>")
_AT_START = ("{", "```json", "```\n{", "[{")
_FUNCTION = r"(?s)<function=([\w.-]+)>(.*?)</function>"
_PARAMETER = r"(?s)<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>"
_WRAPPERS = (
    r"</?tool_calls?>|<\|/?tool_call(?:_begin|_end|s)?\|?>|\[TOOL_CALLS\]|<\|python_tag\|>|```(?:json)?|<\|eom_id\|>"
)


class TextSplitter:
    """Splits a leading `<think>…</think>` from the text, and holds back text that looks like a call of one of `tools`
    until the end tells whether it was one, whatever the boundaries of the pieces."""

    def __init__(self, tools: Collection[str] = ()) -> None:
        self._tools = tools
        self._held = ""
        self._state: Literal["start", "thinking", "after", "begin", "text", "call"] = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """`(thinking, text)` that is certain after this piece."""
        if self._state == "text" and not self._tools:
            return "", piece
        self._held += piece
        thinking = ""
        if self._state == "start":
            lead = self._held.lstrip()
            if lead.startswith(_OPEN):
                self._held, self._state = lead[len(_OPEN) :].lstrip("\n"), "thinking"
            elif _OPEN.startswith(lead):
                return "", ""
            else:
                self._state = "begin"
        if self._state == "thinking":
            thinking, closed, rest = self._held.partition(_CLOSE)
            if not closed:
                return self._released(len(self._held) - _partial(self._held, _CLOSE)), ""
            self._held, self._state = rest, "after"
        if self._state == "after":  # the blank lines behind the block are no text
            self._held = self._held.lstrip("\n\r ")
            self._state = "begin" if self._held else "after"
        return thinking, self._text()

    def end(self) -> tuple[str, str, list[tuple[str, str]]]:
        """`(thinking, text, calls)` of what was held back; a call is its name and the JSON text of its arguments."""
        held = self._released(len(self._held))
        if self._state == "thinking" or not held:
            return held, "", []
        calls = [*self._functions(held)] or [*self._objects(held)]
        return "", "" if calls else held, calls

    def _text(self) -> str:
        """The part of what is held that is surely text."""
        if self._state == "begin":
            lead = self._held.lstrip() if self._tools else "-"
            if lead.startswith(_AT_START):
                self._state = "call"
            elif lead and not any(mark.startswith(lead) for mark in _AT_START):
                self._state = "text"
        if self._state != "text":
            return ""
        if not self._tools:
            return self._released(len(self._held))
        found = [at for mark in _MARKS if (at := self._held.find(mark)) >= 0]
        if found:
            self._state = "call"
            return self._released(min(found))
        return self._released(len(self._held) - max(_partial(self._held, mark) for mark in _MARKS))

    def _released(self, size: int) -> str:
        text, self._held = self._held[:size], self._held[size:]
        return text

    def _functions(self, held: str) -> Iterator[tuple[str, str]]:
        for name, inner in re.findall(_FUNCTION, held):
            if name in self._tools:
                arguments = {key: _scalar(value) for key, value in re.findall(_PARAMETER, inner)}
                yield name, jsonval.compact(arguments) if arguments else inner.strip()

    def _objects(self, held: str) -> Iterator[tuple[str, str]]:
        for value in _json_values(re.sub(_WRAPPERS, " ", held)) if self._tools else ():
            for item in jsonval.items(value) or [value]:
                call = jsonval.obj(item)
                call = jsonval.obj(call.get("function")) or call
                name = jsonval.text(call.get("name"))
                arguments = call.get("arguments", call.get("parameters"))
                if name in self._tools and isinstance(arguments, dict | str):
                    yield name, arguments if isinstance(arguments, str) else jsonval.compact(arguments)


def _partial(text: str, mark: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    sizes = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(mark[:size])), 0)


def _scalar(value: str) -> object:
    """A parameter written as text: JSON where it is a number, a list or the like, else the text."""
    parsed = jsonval.parse(value)
    return value if parsed is None or isinstance(parsed, str) else parsed


def _json_values(text: str) -> list[object]:
    """Every JSON value of `text`, or nothing where other text stands between them."""
    values: list[object] = []
    rest = text.strip()
    while rest:
        try:
            value, end = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError):
            return values if len(rest) < 3 else []
        values.append(value)
        rest = rest[end:].lstrip(" \n\r\t;,")
    return values
