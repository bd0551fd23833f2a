"""Changing one place of the configuration file: comments, order and everything else stay as they are.

What is written is read first as the program would read it, and takes the place of the old file in one step.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from nanobot.config.jsonc import JsoncError, Member, Node, line_of, parse
from nanobot.config.loader import load_text, read_text
from nanobot.errors import ConfigError, ConfigProblem, UsageError

#: Blanks and comments, and those of them that stand in the same line.
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]+|/\*[^\n]*?\*/|//[^\n]*)*(?=\n|\Z)")
_INDENT = "  "
#: Where MCP servers may stand, the usual place first.
SERVER_PLACES = (("tools", "mcpServers"), ("tools", "mcp_servers"), ("mcpServers",), ("mcp",))


class ConfigFile:
    """A configuration file that is changed. `env` is what variables in it are read from."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        self._env = env
        self._before = read_text(path)
        self._text = self._before if self._before is not None and self._before.strip() else "{}\n"
        try:
            self._root = parse(self._text)
        except JsoncError as error:
            problem = ConfigProblem(str(path), line_of(self._text, error.offset), "", f"{error}.")
            raise ConfigError(problem) from None

    def place_of_server(self, name: str) -> tuple[str, ...]:
        """Where the MCP server of this name stands, or would be written; empty parts are made when it is."""
        there = [place for place in SERVER_PLACES if _find(self._root, place) is not None]
        return next((place for place in there if _find(self._root, (*place, name))), (there or SERVER_PLACES)[0])

    def has(self, path: Sequence[str]) -> bool:
        return _find(self._root, path) is not None

    def add(self, path: Sequence[str], value: object) -> None:
        """Write a value under a key that is not there yet. Raises `ConfigError` where the result would not load."""
        self._write(_with(self._text, self._root, path, value))

    def remove(self, path: Sequence[str]) -> None:
        """Take a key out. Raises `ConfigError` where the result would not load."""
        parent = _find(self._root, path[:-1])
        members = parent.value if parent is not None and isinstance(parent.value, tuple) else ()
        index = next(index for index, one in enumerate(members) if one.key == path[-1])
        self._write(_without(self._text, members, index))

    def append(self, path: Sequence[str], value: str) -> None:
        """Write a text at the end of a list, which is made where there is none. Raises `ConfigError` as `add` does."""
        node = _find(self._root, path)
        if node is None:
            self.add(path, [value])
            return
        items = _items(node, path)
        text, shown = self._text, json.dumps(value, ensure_ascii=False)
        if items and "\n" in text[node.start : items[-1].start]:
            line = f"\n{_indent_at(text, items[-1].start)}{shown}"
            self._write(_behind(text, items[-1].end, line))
        else:
            end = items[-1].end if items else node.start + 1
            self._write(f"{text[:end]}{', ' if items else ''}{shown}{text[end:]}")

    def take(self, path: Sequence[str], value: str) -> None:
        """Take a text out of a list. Raises `ConfigError` as `remove` does, and `UsageError` where it stands there in
        another form, such as one with a variable."""
        node = _find(self._root, path)
        items = _items(node, path) if node is not None else []
        members = [Member("", one.line, one, one.start) for one in items]
        index = next((index for index, one in enumerate(items) if one.value == value), None)
        if index is None:
            where = f"{'.'.join(path)} in {self._path}"
            raise UsageError(f"{where} does not hold {value!r} in these very words. Take it out with an editor.")
        self._write(_without(self._text, members, index))

    def _write(self, text: str) -> None:
        load_text(text, self._path, env=self._env)
        target = self._path.resolve()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if read_text(self._path) != self._before:
            raise UsageError(f"{self._path} was changed by somebody else meanwhile. Nothing was written; try again.")
        try:
            number, fresh = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # readable by us alone
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(fresh).replace(target)
        except OSError as error:
            message = f"the file cannot be written: {error.strerror}."
            raise ConfigError(ConfigProblem(str(self._path), 0, "", message, "Nothing was changed.")) from error


def _items(node: Node, path: Sequence[str]) -> list[Node]:
    """What stands in a list. Raises `UsageError` where something else does."""
    if not isinstance(node.value, list):
        raise UsageError(f'{".".join(path)} in line {node.line} is no list. Write it as one first: ["…"]')
    return node.value


def _find(node: Node, path: Sequence[str]) -> Node | None:
    for key in path:
        members = node.value if isinstance(node.value, tuple) else ()
        found = [one.node for one in members if one.key == key]
        if not found:
            return None
        node = found[-1]
    return node


def _with(text: str, root: Node, path: Sequence[str], value: object) -> str:
    """`text` with a new key in the deepest object of `path` that is there already."""
    depth = next(size for size in range(len(path) - 1, -1, -1) if _find(root, path[:size]) is not None)
    node = _find(root, path[:depth]) or root
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    members = node.value if isinstance(node.value, tuple) else ()
    outer = _indent_at(text, node.start)
    if members and "\n" not in text[node.start : members[0].start]:
        end = members[-1].node.end
        return f"{text[:end]}, {json.dumps(path[depth])}: {json.dumps(value, ensure_ascii=False)}{text[end:]}"
    indent = _indent_at(text, members[0].start) if members else outer + _INDENT
    shown = json.dumps(value, ensure_ascii=False, indent=len(_INDENT)).replace("\n", f"\n{indent}")
    line = f"\n{indent}{json.dumps(path[depth])}: {shown}"
    if not members:
        inside = text[node.start + 1 : node.end - 1].rstrip()
        return f"{text[: node.start + 1]}{inside}{line}\n{outer}{text[node.end - 1 :]}"
    return _behind(text, members[-1].node.end, line)


def _behind(text: str, end: int, line: str) -> str:
    """`text` with a new line behind the last value of a list or an object, which ends at `end`, and a comma between."""
    comma = _comma_after(text, end)
    last = end if comma is None else comma + 1
    rest = _REST_OF_LINE.match(text, last)
    behind = rest.end() if rest else last
    first = text[:end] + ("," if comma is None else text[end:last]) + text[last:behind]
    return f"{first}{line}{',' if comma is not None else ''}{text[behind:]}"


def _without(text: str, members: Sequence[Member], index: int) -> str:
    """`text` without one key, its comma and what its lines hold besides it."""
    one = members[index]
    start, end = one.start, one.node.end
    comma = _comma_after(text, end)
    if comma is not None:
        end = comma + 1
    elif index:
        before = _comma_after(text, members[index - 1].node.end)
        if before is not None:
            text = text[:before] + text[before + 1 :]
            start, end = start - 1, end - 1
    line_start = text.rfind("\n", 0, start) + 1
    if text[line_start:start].strip():
        return text[:start].rstrip(" \t") + text[end:]
    rest = _REST_OF_LINE.match(text, end)
    if rest is None:
        return text[:start] + text[end:].lstrip(" \t")
    return text[: max(line_start - 1, 0)] + text[rest.end() :]


def _comma_after(text: str, at: int) -> int | None:
    """Where the comma behind a value stands; None where there is none."""
    blank = _BLANK.match(text, at)
    place = blank.end() if blank else at
    return place if text[place : place + 1] == "," else None


def _indent_at(text: str, at: int) -> str:
    """The blanks at the beginning of the line of `at`."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]
