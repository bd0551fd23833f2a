"""From the tree of a file to the data that the schema judges: names made canonical, aliases moved, variables filled in.

Nothing is guessed: a key that is unknown is reported with the nearest known one and left alone, a value that stands
twice is an error, a variable that is unset is remembered with its key path.
"""

import json
import re
from collections.abc import Mapping

from msgspec import Struct, field
from pydantic import SecretStr
from pydantic.alias_generators import to_camel

from nanobot.config.jsonc import ArrayNode, Node, ObjectNode, ScalarNode, line_of
from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.config.shapes import (
    ALIASES,
    FOR_ALL,
    HABITS,
    MILLISECOND_GROUPS,
    NOT_YET,
    WORDS,
    Group,
    KeyPath,
    Leaf,
    Named,
    Shape,
    find_key,
    holds,
    is_secret,
    keys_of,
    shape_at,
    shape_of,
    walk_keys,
)
from nanobot.config.variables import expand
from nanobot.config.web_schema import ENGINES_NOT_YET
from nanobot.errors import ConfigProblem
from nanobot.utils.text import nearest

_BARE_VARIABLE = re.compile(r"\$[A-Za-z_][A-Za-z0-9_]*")
_SEARCH: KeyPath = ("tools", "web", "search")
_ALIAS_PARENTS = {path[:size] for path in ALIASES for size in range(1, len(path))}


class Place(Struct, frozen=True):
    """Where a value stands: its line, the key path as it was written, and the value before any check."""

    line: int
    spelled: str
    value: object


class Unset(Struct, frozen=True):
    """A value that needs variables which are not set."""

    path: KeyPath
    place: Place
    variables: tuple[str, ...]


class Walk(Struct):
    """One pass over one file. `data` has canonical keys; `places` finds a canonical path in the file again."""

    file: str
    text: str
    env: Mapping[str, str]
    data: dict[str, object] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)
    warnings: list[ConfigProblem] = field(default_factory=list)
    errors: list[ConfigProblem] = field(default_factory=list)
    unset: list[Unset] = field(default_factory=list)

    def run(self, root: Node) -> None:
        if isinstance(root, ObjectNode):
            self._group(root, Config, (), (), "")
            self._leave_out_engines()
        else:
            self._error(root.start, "", "the file holds no object.", "It begins with { and ends with }.")

    def _error(self, offset: int, spelled: str, message: str, hint: str = "") -> None:
        self.errors.append(ConfigProblem(self.file, line_of(self.text, offset), spelled, message, hint))

    def _warning(self, offset: int, spelled: str, message: str, hint: str = "") -> None:
        self.warnings.append(ConfigProblem(self.file, line_of(self.text, offset), spelled, message, hint))

    def _group(self, node: ObjectNode, model: type[Section], path: KeyPath, source: KeyPath, spelled: str) -> None:
        """The keys of one section. `source` is the canonical path of where it stands, `path` of where it belongs."""
        seen: dict[str, str] = {}
        for member in node.members:
            name = f"{spelled}.{member.key}" if spelled else member.key
            camel = to_camel(member.key) if "_" in member.key else member.key
            key = find_key(model, member.key)
            target = ALIASES.get((*source, camel))
            if self._twice(member.start, name, key or camel, seen):
                continue
            if key is not None:
                self._value(member.node, shape_of(keys_of(model)[key]), (*path, key), (*source, camel), name)
            elif target is not None:
                shape = shape_at(target)
                if shape is not None:
                    self._value(member.node, shape, target, (*source, camel), name)
            elif (*source, camel) in _ALIAS_PARENTS and isinstance(member.node, ObjectNode):
                self._group(member.node, Section, (), (*source, camel), name)
            elif meaning := NOT_YET.get((*source, camel)):
                self._warning(member.start, name, "this key has no effect yet.", meaning)
            elif not self._milliseconds(member.node, model, camel, path, name):
                self._unknown(member.start, member.key, model, source, name)

    def _twice(self, offset: int, name: str, key: str, seen: dict[str, str]) -> bool:
        if key in seen:
            first = "above" if seen[key] == name else f"as {seen[key]}"
            self._error(offset, name, f"the same key stands {first} already.", "Keep one of them.")
            return True
        seen[key] = name
        return False

    def _unknown(self, offset: int, key: str, model: type[Section], source: KeyPath, name: str) -> None:
        siblings = [path[-1] for path in (*ALIASES, *_ALIAS_PARENTS) if path[:-1] == source]
        near = nearest(key, [*keys_of(model), *siblings])
        habit = HABITS.get(to_camel(key) if "_" in key else key, "") if not source else ""
        hint = f"That key belongs in {habit}." if habit else f'Did you mean "{near}"?' if near else self._elsewhere(key)
        self._warning(offset, name, "unknown key, not used.", hint)

    def _elsewhere(self, key: str) -> str:
        camel = to_camel(key) if "_" in key else key
        found = [".".join(path) for path, _ in walk_keys() if path[-1] == camel]
        return f"That key belongs in {found[0]}." if len(found) == 1 else ""

    def _milliseconds(self, node: Node, model: type[Section], camel: str, path: KeyPath, name: str) -> bool:
        """`timeoutMs` is read as `timeout`, in milliseconds."""
        stem = camel.removesuffix("Ms")
        if stem == camel or find_key(model, stem) is None:
            return False
        self._leaf(node, keys_of(model)[stem].annotation, (*path, stem), name, milliseconds=True)
        return True

    def _value(self, node: Node, shape: Shape, path: KeyPath, source: KeyPath, name: str) -> None:
        if isinstance(node, ScalarNode) and node.value is None:
            return
        match shape:
            case Leaf(info):
                milliseconds = source[:-1] in MILLISECOND_GROUPS and path[-1] == "timeout"
                self._leaf(node, info.annotation, path, name, milliseconds=milliseconds)
            case _ if not isinstance(node, ObjectNode):
                got = "a list" if isinstance(node, ArrayNode) else json.dumps(node.value)
                shown = got if len(got) < 20 and not isinstance(node, ScalarNode) else "a single value"
                self._error(node.start, name, f"got {shown}, wants a group of keys.", "Write { … } with keys inside.")
            case Group(model):
                self._remember(path, node, name)
                self._group(node, model, path, source, name)
            case Named(model):
                self._remember(path, node, name)
                self._named(node, model, path, source, name)

    def _named(self, node: ObjectNode, model: type[Section], path: KeyPath, source: KeyPath, spelled: str) -> None:
        seen: dict[str, str] = {}
        for member in node.members:
            name = f"{spelled}.{member.key}"
            if not self._twice(member.start, name, member.key, seen):
                self._value(member.node, Group(model), (*path, member.key), (*source, member.key), name)

    def _leave_out_engines(self) -> None:
        """Search engines that other programs know: named and left out, with the key and the address beside them."""
        search = self.data
        for key in _SEARCH:
            inner = search.get(key)
            if not isinstance(inner, dict):
                return
            search = inner
        if _not_yet(search.get("provider")):
            self._leave_out(search, "provider", (*_SEARCH, "provider"), "Searches use `auto`.")
            for key in ("apiKey", "apiKeyCommand", "baseUrl"):
                search.pop(key, None)
                self.unset = [one for one in self.unset if one.path != (*_SEARCH, key)]
        providers, fallback = search.get("providers"), search.get("fallback")
        for name in [*providers] if isinstance(providers, dict) else ():
            if isinstance(providers, dict) and _not_yet(name):
                self._leave_out(providers, name, (*_SEARCH, "providers", name), "It is left out.")
                self.unset = [one for one in self.unset if one.path[:5] != (*_SEARCH, "providers", name)]
        if isinstance(fallback, list) and any(map(_not_yet, fallback)):
            self._leave_out({"fallback": fallback}, "fallback", (*_SEARCH, "fallback"), "It is left out.")
            search["fallback"] = [name for name in fallback if not _not_yet(name)]

    def _leave_out(self, group: dict[str, object], key: str, path: KeyPath, hint: str) -> None:
        place, value = self.places[path], group.pop(key)
        named = [one for one in (value if isinstance(value, list) else [value, key]) if _not_yet(one)]
        message = f"the search engine {named[0]} is not supported yet."
        self.warnings.append(ConfigProblem(self.file, place.line, place.spelled, message, hint))

    def _remember(self, path: KeyPath, node: ObjectNode, name: str) -> None:
        """A group that is given exists, even where it stays empty."""
        self.places.setdefault(path, Place(line_of(self.text, node.start), name, {}))
        self._into(path)

    def _into(self, path: KeyPath) -> dict[str, object]:
        level = self.data
        for key in path:
            inner = level.setdefault(key, {})
            if not isinstance(inner, dict):
                raise TypeError(f"{path} runs through a value")
            level = inner
        return level

    def _leaf(self, node: Node, annotation: object, path: KeyPath, name: str, *, milliseconds: bool = False) -> None:
        missing: list[str] = []
        value = self._plain(node, path, name, missing)
        text_fits = holds(annotation, str) or holds(annotation, SecretStr)
        if not text_fits and isinstance(node, ScalarNode) and isinstance(value, str) and "${" in str(node.value):
            value = _number_or_switch(value)
        if isinstance(value, str) and _BARE_VARIABLE.fullmatch(value) and is_secret(path):
            hint = f"A variable is written ${{{value[1:]}}}."
            self._warning(node.start, name, "this is taken as it stands, with its $.", hint)
        if milliseconds and isinstance(value, int | float) and not isinstance(value, bool):
            value = value / 1000
        if path in WORDS and isinstance(value, bool | str):
            value = WORDS[path].get(value, value)
        place = Place(line_of(self.text, node.start), name, value)
        if path in self.places and name in FOR_ALL:
            return
        if path in self.places and self.places[path].spelled not in FOR_ALL:
            self._error(node.start, name, f"the same value stands in {self.places[path].spelled} too.", "Keep one.")
            return
        self.places[path] = place
        if missing:
            self.unset.append(Unset(path, place, tuple(dict.fromkeys(missing))))
        else:
            self._into(path[:-1])[path[-1]] = value

    def _plain(self, node: Node, path: KeyPath, name: str, missing: list[str]) -> object:
        """`node` as plain data with variables filled in; nulls inside a group are left out, like everywhere."""
        match node:
            case ObjectNode(members):
                plain: dict[str, object] = {}
                seen: dict[str, str] = {}
                for member in members:
                    inner = f"{name}.{member.key}"
                    if self._twice(member.start, inner, member.key, seen):
                        continue
                    value = self._plain(member.node, (*path, member.key), inner, missing)
                    self.places[(*path, member.key)] = Place(line_of(self.text, member.node.start), inner, value)
                    if value is not None:
                        plain[member.key] = value
                return plain
            case ArrayNode(items):
                return [self._item(item, (*path, str(at)), f"{name}[{at}]", missing) for at, item in enumerate(items)]
            case ScalarNode(str() as text):
                return self._text(text, node.start, name, missing)
            case ScalarNode(scalar):
                return scalar

    def _item(self, node: Node, path: KeyPath, name: str, missing: list[str]) -> object:
        value = self._plain(node, path, name, missing)
        self.places[path] = Place(line_of(self.text, node.start), name, value)
        return value

    def _text(self, text: str, offset: int, name: str, missing: list[str]) -> str:
        try:
            expanded = expand(text, self.env)
        except ValueError as error:
            self._error(offset, name, f"{error}.")
            return ""
        missing.extend(expanded.missing)
        return expanded.text


def _not_yet(name: object) -> bool:
    return isinstance(name, str) and name.strip().lower() in ENGINES_NOT_YET


def _number_or_switch(text: str) -> object:
    """The number or the true/false that a variable held; else the text, which the schema then refuses."""
    try:
        value: object = json.loads(text.strip().lower())
    except ValueError:
        return text
    return value if isinstance(value, int | float) else text
