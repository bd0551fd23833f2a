"""Sorting what models write into plain content: `<think>` blocks, and tool calls written as text by local models."""

import re
from collections.abc import Collection

from nanobot.providers import jsonval

_OPEN = "<think>"
_CLOSE = "</think>"


class ThinkSplitter:
    """Splits a leading `<think>…</think>` from the text, whatever the boundaries of the pieces.

    Only at the very start of an answer; later the mark is text like any other.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"

    def feed(self, piece: str) -> tuple[str, str]:
        """`(thinking, text)` that is certain after this piece."""
        if self._state == "text":
            return "", piece
        self._held += piece
        if self._state == "start":
            lead = self._held.lstrip()
            if lead.startswith(_OPEN):
                self._state = "thinking"
                self._held = lead[len(_OPEN) :].lstrip("\n")
            elif _OPEN.startswith(lead):
                return "", ""
            else:
                return "", self._release("text")
        if self._state == "thinking":
            return self._thinking()
        return "", self._after()

    def _thinking(self) -> tuple[str, str]:
        thought, mark, rest = self._held.partition(_CLOSE)
        if mark:
            self._held = rest
            self._state = "after"
            return thought, self._after()
        keep = _partial(self._held, _CLOSE)
        sure, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return sure, ""

    def _after(self) -> str:
        """The text behind the block, without the blank lines between them."""
        self._held = self._held.lstrip("\n\r ")
        return self._release("text") if self._held else ""

    def _release(self, state: str) -> str:
        self._state = state
        text, self._held = self._held, ""
        return text

    def end(self) -> tuple[str, str]:
        """What was held back when the answer ended."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "thinking" else ("", held)


def _partial(text: str, mark: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    for size in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0


_MARKS = ("<tool_call>", "<function=", "<|tool_call", "[TOOL_CALLS]", "<|python_tag|>")
_AT_START = ("{", "```json", "```\n{", "[{")
_FUNCTION = r"(?s)<function=([\w.-]+)>(.*?)</function>"
_PARAMETER = r"(?s)<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>"
_WRAPPERS = (
    r"</?tool_calls?>|<\|/?tool_call(?:_begin|_end|s)?\|?>|\[TOOL_CALLS\]|<\|python_tag\|>|```(?:json)?|<\|eom_id\|>"
)


class TextCalls:
    """Holds back text that looks like a tool call until the end tells whether it was one.

    Only names of `tools` count; anything else is given back as text.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._held = ""
        self._holding = not tools
        self._begun = False

    def feed(self, piece: str) -> str:
        """The part of the text that is surely text."""
        if not self._tools:
            return piece
        self._held += piece
        if self._holding:
            return ""
        if not self._begun:
            lead = self._held.lstrip()
            if not lead or any(mark.startswith(lead) for mark in _AT_START if mark != lead):
                return ""
            self._begun = True
            if lead.startswith(_AT_START):
                self._holding = True
                return ""
        return self._pass()

    def _pass(self) -> str:
        found = [at for mark in _MARKS if (at := self._held.find(mark)) >= 0]
        if found:
            self._holding = True
            at = min(found)
        else:
            at = len(self._held) - max(_partial(self._held, mark) for mark in _MARKS)
        sure, self._held = self._held[:at], self._held[at:]
        return sure

    def end(self) -> tuple[str, list[tuple[str, str]]]:
        """`(text, calls)` of what was held back; a call is its name and the JSON text of its arguments."""
        held, self._held = self._held, ""
        calls = self._functions(held) or self._objects(held)
        return ("", calls) if calls else (held, [])

    def _functions(self, held: str) -> list[tuple[str, str]]:
        calls = []
        for name, inner in re.findall(_FUNCTION, held):
            if name in self._tools:
                arguments = {key: _scalar(value) for key, value in re.findall(_PARAMETER, inner)}
                calls.append((name, jsonval.compact(arguments) if arguments else inner.strip()))
        return calls

    def _objects(self, held: str) -> list[tuple[str, str]]:
        calls = []
        for value in _json_values(re.sub(_WRAPPERS, " ", held)):
            for item in jsonval.items(value) or [value]:
                call = jsonval.obj(item)
                call = jsonval.obj(call.get("function")) or call
                name = jsonval.text(call.get("name"))
                arguments = call.get("arguments", call.get("parameters"))
                if name in self._tools and isinstance(arguments, dict | str):
                    calls.append((name, arguments if isinstance(arguments, str) else jsonval.compact(arguments)))
        return calls


def _scalar(value: str) -> object:
    """A parameter written as text: JSON where it is a number, a list or the like, else the text."""
    parsed = jsonval.parse(value)
    return value if parsed is None or isinstance(parsed, str) else parsed


def _json_values(text: str) -> list[object]:
    """Every JSON value of `text`, or nothing where other text stands between them."""
    values: list[object] = []
    rest = text.strip()
    while rest:
        value, end = jsonval.leading(rest)
        if not end:
            return values if not values or len(rest) < 3 else []
        values.append(value)
        rest = rest[end:].lstrip(" \n\r\t;,")
    return values
