"""Changing one key of the configuration file without touching anything else in it.

Comments, order, blanks and unknown keys stay as they are. The new text is checked before it replaces the file, and it
replaces it in one step, so that a crash leaves the old file or the new one.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from nanobot.config.jsonc import JsoncError, Member, ObjectNode, line_end, line_of, parse, plain, skip_blank
from nanobot.config.loader import load_text, read_text
from nanobot.config.shapes import Group, KeyPath, find_key, shape_at
from nanobot.errors import ConfigError, ConfigProblem

_MODE = 0o600
_SHORT = 80


def set_key(path: Path, key: str, value: object, *, env: Mapping[str, str]) -> None:
    """Write `value` (plain JSON data) at the dotted key path `key`, such as `tools.web.search.provider`.

    A missing file or group is created. A name that stands in the file in snake_case keeps that spelling. A `$` in a
    text opens a variable, as in the file; write `$$` for the sign itself. Raises `ConfigError`, and changes nothing,
    where the file cannot be read or the result would not load.
    """
    text = read_text(path)
    edited = with_key("{}\n" if text is None else text, _split(path, key), value, file=str(path))
    load_text(edited, path, env=env)
    write_private(path, edited)


def remove_key(path: Path, key: str, *, env: Mapping[str, str]) -> bool:
    """Take the dotted key path `key` out of the file; False where it is not there. Raises `ConfigError`."""
    text = read_text(path)
    if text is None:
        return False
    edited = without_key(text, _split(path, key), file=str(path))
    if edited == text:
        return False
    load_text(edited, path, env=env)
    write_private(path, edited)
    return True


def with_key(text: str, key: KeyPath, value: object, *, file: str = "configuration") -> str:
    """`text` with `value` at `key`; everything else is the same, byte for byte."""
    node = _root(text, file)
    where: KeyPath = ()
    for depth, name in enumerate(key):
        member = _member(node, where, name)
        if member is None:
            return _insert(text, node, name, _nested(key[depth + 1 :], value))
        rest = key[depth + 1 :]
        if rest and isinstance(member.node, ObjectNode):
            node, where = member.node, (*where, name)
            continue
        if rest and plain(member.node) is not None:
            message = "this is no group of keys, so nothing can be set inside it."
            raise ConfigError(ConfigProblem(file, line_of(text, member.start), ".".join(key[: depth + 1]), message))
        rendered = _render(_nested(rest, value), _indent_at(text, member.start), _unit(text))
        return text[: member.node.start] + rendered + text[member.node.end :]
    return text


def without_key(text: str, key: KeyPath, *, file: str = "configuration") -> str:
    """`text` without the member at `key` and its comma; comments on other lines stay."""
    node = _root(text, file)
    where: KeyPath = ()
    for name in key[:-1]:
        member = _member(node, where, name)
        if member is None or not isinstance(member.node, ObjectNode):
            return text
        node, where = member.node, (*where, name)
    member = _member(node, where, key[-1])
    if member is None:
        return text
    start, end = member.start, member.node.end
    comma = skip_blank(text, end)
    if text[comma : comma + 1] == ",":
        end = comma + 1
    line = re.compile(r"[ \t]*\r?\n?").match(text, end)
    alone = text[text.rfind("\n", 0, start) + 1 : start].strip() == ""
    if alone and line and line[0].endswith("\n"):
        return text[: text.rfind("\n", 0, start) + 1] + text[line.end() :]
    return text[:start] + text[end:].lstrip(" ")


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step; readable by its owner alone. A symbolic link is followed, not replaced."""
    target = path.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_MODE)
        temporary.replace(target)
    except OSError as error:
        message = f"the file cannot be written: {error.strerror}."
        raise ConfigError(ConfigProblem(str(path), 0, "", message, "It is unchanged.")) from error
    finally:
        temporary.unlink(missing_ok=True)


def _split(path: Path, key: str) -> KeyPath:
    parts = tuple(key.split("."))
    if not all(parts):
        message = f'"{key}" is no key path.'
        raise ConfigError(ConfigProblem(str(path), 0, "", message, "Write it like tools.web.search.provider."))
    return parts


def _root(text: str, file: str) -> ObjectNode:
    try:
        node = parse(text)
    except JsoncError as error:
        raise ConfigError(ConfigProblem(file, line_of(text, error.offset), "", f"{error}.")) from None
    if not isinstance(node, ObjectNode):
        raise ConfigError(ConfigProblem(file, 1, "", "the file holds no object.", "It begins with { and ends with }."))
    return node


def _member(node: ObjectNode, where: KeyPath, name: str) -> Member | None:
    """The member that means `name` in the group at `where`, in whatever spelling it stands there."""
    shape = shape_at(where)
    for member in node.members:
        if member.key == name:
            return member
        if isinstance(shape, Group) and find_key(shape.model, member.key) == find_key(shape.model, name) is not None:
            return member
    return None


def _insert(text: str, node: ObjectNode, name: str, value: object) -> str:
    """`name: value` as the last member of `node`."""
    outer = _indent_at(text, node.start)
    inner = _indent_at(text, node.members[0].start) if node.members else outer + _unit(text)
    one_line = "\n" not in text[node.start : node.end] and bool(node.members)
    member = f"{json.dumps(name, ensure_ascii=False)}: {_render(value, inner, _unit(text))}"
    if not node.members:
        # A comment may stand between the braces; it stays in front of the new member.
        body = text[node.start + 1 : node.end - 1].rstrip()
        return f"{text[: node.start + 1]}{body}\n{inner}{member}\n{outer}{text[node.end - 1 :]}"
    last = node.members[-1].node.end
    after = skip_blank(text, last)
    trailing = text[after : after + 1] == ","
    stop = after + 1 if trailing else last
    head = text[:stop] + ("" if trailing else ",")
    if one_line:
        return f"{head} {member}{text[stop:]}"
    # A comment behind the last member stays behind it.
    end = line_end(text, stop)
    tail = text[end:] if text[end] in "\r\n" else f"\n{outer}{text[end:]}"
    return f"{head}{text[stop:end].rstrip()}\n{inner}{member}{',' if trailing else ''}{tail}"


def _render(value: object, indent: str, unit: str) -> str:
    """`value` as it would be written by hand: a short list on one line, a group on several."""
    short = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) and len(short) <= _SHORT:
        return short
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", f"\n{indent}")


def _indent_at(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """One level of indentation as the file has it; two blanks where it has none."""
    match = re.search(r"\{\s*?\n([ \t]+)\S", text)
    return match[1] if match else "  "


def _nested(keys: KeyPath, value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value
