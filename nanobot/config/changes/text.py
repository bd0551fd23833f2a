"""Changes of one place of a JSONC text: a value written, changed or taken out; every other byte stays as it is."""

import json
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from nanobot.config.jsonc import Member, Node, parse

#: Blanks and comments, and those of them that stand in the same line.
_BLANK = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_REST_OF_LINE = re.compile(r"(?:[ \t]+|/\*[^\n]*?\*/|//[^\n]*)*(?=\n|\Z)")
_INDENT = "  "


def find(node: Node, path: Sequence[str]) -> Node | None:
    """What stands under these keys, spelled as the text spells them; of a key that stands twice the last."""
    for key in path:
        members = node.value if isinstance(node.value, tuple) else ()
        found = [one.node for one in members if one.key == key]
        if not found:
            return None
        node = found[-1]
    return node


def plain(node: Node) -> object:
    """The value as `json` reads it."""
    match node.value:
        case tuple(members):
            return {one.key: plain(one.node) for one in members}
        case list(items):
            return [plain(one) for one in items]
        case scalar:
            return scalar


def with_value(text: str, path: Sequence[str], value: object) -> str:
    """`text` with this value under this key, whether it is there or not.

    Of a list or an object that is there, only what differs is written, so that its comments stay.
    """
    root = parse(text)
    node = find(root, path)
    if node is None:
        return _added(text, root, path, value)
    if plain(node) == value and type(plain(node)) is type(value):
        return text
    if isinstance(value, Mapping) and isinstance(node.value, tuple):
        return _as_object(text, path, node.value, value)
    if isinstance(value, Sequence) and not isinstance(value, str) and isinstance(node.value, list):
        return _as_list(text, node, node.value, value)
    return f"{text[: node.start]}{_shown(value, _indent_at(text, node.start))}{text[node.end :]}"


def without(text: str, path: Sequence[str]) -> str:
    """`text` without a key that is there, its comma and what its lines hold besides it."""
    parent = find(parse(text), path[:-1])
    members = parent.value if parent is not None and isinstance(parent.value, tuple) else ()
    index = next(index for index, one in enumerate(members) if one.key == path[-1])
    return _without(text, members, index)


def without_item(text: str, items: Sequence[Node], index: int) -> str:
    """`text` without one of the items of a list."""
    return _without(text, [Member("", one.line, one, one.start) for one in items], index)


def _as_object(text: str, path: Sequence[str], members: Sequence[Member], value: Mapping[str, object]) -> str:
    for gone in [one.key for one in members if one.key not in value]:
        text = without(text, (*path, gone))
    for key, inner in value.items():
        text = with_value(text, (*path, key), inner)
    return text


def _as_list(text: str, node: Node, items: Sequence[Node], value: Sequence[object]) -> str:
    """`text` with a list as it is to be, changed from its end on, so that what is before keeps its place."""
    before, after = [json.dumps(plain(one)) for one in items], [json.dumps(one) for one in value]
    if not value:
        return f"{text[: node.start]}[]{text[node.end :]}"
    if not items and "\n" not in (shown := _shown(value, "")):
        return f"{text[: node.start + 1]}{shown[1:-1]}{text[node.start + 1 :]}"
    steps = SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes()
    if steps[0][0] == "insert":  # nothing before it to stand behind
        return f"{text[: node.start]}{_shown(value, _indent_at(text, node.start))}{text[node.end :]}"
    for kind, old, old_end, new, new_end in reversed(steps):
        if kind == "equal":
            continue
        kept = min(old_end - old, new_end - new)
        for index in range(old_end - 1, old + kept - 1, -1):
            text = without_item(text, items, index)
        for one in reversed(value[new + kept : new_end]):
            text = _behind_item(text, node, items[old + kept - 1], one)
        for index in range(old + kept - 1, old - 1, -1):
            place, indent = items[index], _indent_at(text, items[index].start)
            text = f"{text[: place.start]}{_shown(value[new + index - old], indent)}{text[place.end :]}"
    return text


def _behind_item(text: str, node: Node, item: Node, value: object) -> str:
    if "\n" in text[node.start : item.start]:
        indent = _indent_at(text, item.start)
        return _behind(text, item.end, f"\n{indent}{_shown(value, indent)}")
    return f"{text[: item.end]}, {json.dumps(value, ensure_ascii=False)}{text[item.end :]}"


def _shown(value: object, indent: str) -> str:
    short = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping) and len(short) <= 80 and "{" not in short:
        return short
    return json.dumps(value, ensure_ascii=False, indent=len(_INDENT)).replace("\n", f"\n{indent}")


def _added(text: str, root: Node, path: Sequence[str], value: object) -> str:
    """`text` with a new key in the deepest object of `path` that is there already."""
    depth = next(size for size in range(len(path) - 1, -1, -1) if find(root, path[:size]) is not None)
    node = find(root, path[:depth]) or root
    for key in reversed(path[depth + 1 :]):
        value = {key: value}
    if not isinstance(node.value, tuple):  # null, or what is no group: it becomes one
        shown = _shown({path[depth]: value}, _indent_at(text, node.start))
        return f"{text[: node.start]}{shown}{text[node.end :]}"
    members, key = node.value, json.dumps(path[depth], ensure_ascii=False)
    outer = _indent_at(text, node.start)
    if members and "\n" not in text[node.start : members[0].start]:
        end = members[-1].node.end
        return f"{text[:end]}, {key}: {json.dumps(value, ensure_ascii=False)}{text[end:]}"
    indent = _indent_at(text, members[0].start) if members else outer + _INDENT
    shown = json.dumps(value, ensure_ascii=False, indent=len(_INDENT)).replace("\n", f"\n{indent}")
    line = f"\n{indent}{key}: {shown}"
    if not members:
        inside = text[node.start + 1 : node.end - 1].rstrip()
        return f"{text[: node.start + 1]}{inside}{line}\n{outer}{text[node.end - 1 :]}"
    return _behind(text, members[-1].node.end, line)


def _behind(text: str, end: int, line: str) -> str:
    """`text` with a new line behind a value of a list or an object, which ends at `end`, and a comma between."""
    comma = _comma_after(text, end)
    last = end if comma is None else comma + 1
    rest = _REST_OF_LINE.match(text, last)
    behind = rest.end() if rest else last
    first = text[:end] + ("," if comma is None else text[end:last]) + text[last:behind]
    return f"{first}{line}{',' if comma is not None else ''}{text[behind:]}"


def _without(text: str, members: Sequence[Member], index: int) -> str:
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
