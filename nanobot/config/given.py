"""From the tree of a file to what it gives for each key: names made canonical, aliases moved, variables filled in.

Nothing is guessed: a key that is unknown is reported with the nearest known one and left alone, a value that stands
twice is an error, a variable that is unset is remembered where it stands.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from nanobot.config.jsonc import Member, Node, Scalar
from nanobot.config.keys import KeyPath, camel, find_key, keys_of, path_of, type_at, walk_keys
from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.errors import ConfigProblem
from nanobot.utils.secrecy import mask_keys
from nanobot.utils.text import nearest
from nanobot.utils.translation import _


class _Family(Struct, frozen=True, rename="camel"):
    """What files of the other programs of the family hold, read from `family.json`; paths are in camelCase with dots.

    `aliases` are other places that keys are read from, and where they belong. Of `for_all`, the values for all
    channels, one that stands in the channel itself wins. `habits` are keys that people write at the top of the file,
    with where they belong. `milliseconds` are times in that unit, as are those whose key ends in `Ms`. `engines` are
    search engines whose settings load and are left out. `no_effect` has keys that are left alone whatever they hold, by
    what that means; `<name>` is any name.
    """

    aliases: Mapping[str, str]
    for_all: frozenset[str]
    habits: Mapping[str, str]
    milliseconds: frozenset[str]
    engines: frozenset[str]
    no_effect: Mapping[str, Sequence[str]]


_FAMILY = msgspec.json.decode(Path(__file__).with_name("family.json").read_bytes(), type=_Family)
ALIASES = {path_of(key): path_of(place) for key, place in _FAMILY.aliases.items()}
_ALIAS_PARENTS = {path[:size] for path in ALIASES for size in range(1, len(path))}
_NO_EFFECT = {path_of(key): meaning for meaning, keys in _FAMILY.no_effect.items() for key in keys}
HABITS = _FAMILY.habits
_MILLISECONDS = {path_of(key) for key in _FAMILY.milliseconds}
_SEARCH: KeyPath = ("tools", "web", "search")
_MARK = re.compile(r"\$(?:\$|\{([^}]*)(\}?))")
_INSIDE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Given(Struct):
    """What a file gives in one place: its line, the key path as it is written there, and the value before any check.

    `missing` are the variables without which there is no value; `filled` says that a variable stood in the text.
    """

    line: int
    spelled: str
    value: "Scalar | list[Given] | dict[str, Given]"
    missing: tuple[str, ...] = ()
    filled: bool = False


class Expanded(Struct, frozen=True):
    """A text with its variables filled in. `missing` names those that are unset or empty and have no default."""

    text: str
    used: bool
    missing: tuple[str, ...]


def expand(text: str, env: Mapping[str, str]) -> Expanded:
    """`text` with `${VAR}`, `${env:VAR}`, `${VAR:-default}` and `$$` filled in from `env`.

    Raises `ValueError` where `${` opens something else.
    """
    missing: list[str] = []
    used = False

    def fill(match: re.Match[str]) -> str:
        nonlocal used
        if match[0] == "$$":
            return "$"
        inside = _INSIDE.fullmatch(match[1])
        if not match[2] or inside is None:
            raise ValueError(
                _("a variable is written ${NAME} or ${NAME:-default}; a $ before { that is meant so is $$")
            )
        used = True
        value = env.get(inside[1], "")
        if value or inside[2] is not None:
            return value or inside[2]
        missing.append(inside[1])
        return ""

    filled = _MARK.sub(fill, text)
    return Expanded(filled, used, tuple(missing))


def number_or_switch(text: str) -> Scalar:
    """The number or the true/false that a variable held; else the text, which the schema then refuses."""
    try:
        value: object = json.loads(text.strip().lower())
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)) else text


class Findings(Struct):
    """What is wrong in one file, in the order in which it was found. What looks like a key, which may stand in a wrong
    place, is not told."""

    file: str
    errors: list[ConfigProblem] = field(default_factory=list)
    warnings: list[ConfigProblem] = field(default_factory=list)

    def error(self, line: int, spelled: str, message: str, hint: str = "") -> None:
        self.errors.append(ConfigProblem(self.file, line, *map(mask_keys, (spelled, message, hint))))

    def warning(self, line: int, spelled: str, message: str, hint: str = "") -> None:
        self.warnings.append(ConfigProblem(self.file, line, *map(mask_keys, (spelled, message, hint))))


class FileReading(Struct):
    """One pass over one file. `data` holds what it gives under canonical keys, `places` where that stands, in the words
    of the file; the times of `thousandths` are in milliseconds there."""

    found: Findings
    env: Mapping[str, str]
    data: dict[str, Given] = field(default_factory=dict)
    places: dict[KeyPath, KeyPath] = field(default_factory=dict)
    thousandths: set[KeyPath] = field(default_factory=set)

    def run(self, root: Node) -> None:
        if isinstance(root.value, tuple):
            self._group(root.value, Config, (), (), ())
            self._leave_out_engines()
        else:
            self.found.error(root.line, "", _("the file holds no object."), _("It begins with { and ends with }."))

    def group(self, path: KeyPath) -> dict[str, Given]:
        """What is given in the group at `path`, made where it is missing; a stray one where a value is in its way."""
        level = self.data
        for key in path:
            inner = level.setdefault(key, Given(0, "", {})).value
            if not isinstance(inner, dict):
                return {}
            level = inner
        return level

    def unset(self) -> Iterator[tuple[KeyPath, Given]]:
        """The values that need variables which are not set."""
        waiting: list[tuple[KeyPath, Given]] = [((name,), given) for name, given in self.data.items()]
        while waiting:
            path, given = waiting.pop(0)
            if given.missing:
                yield path, given
            elif isinstance(given.value, dict):
                waiting[:0] = [((*path, name), inner) for name, inner in given.value.items()]

    def _group(
        self, members: tuple[Member, ...], model: type[Section], path: KeyPath, source: KeyPath, spelled: KeyPath
    ) -> None:
        """The keys of one section. `source` is the canonical path of where it stands, `path` of where it belongs."""
        seen: dict[str, str] = {}
        for member in members:
            at = (*spelled, member.key)
            name = ".".join(at)
            written, key = camel(member.key), find_key(model, member.key)
            here, in_seconds = (*source, written), find_key(model, written.removesuffix("Ms"))
            if self._twice(member.line, name, key or written, seen):
                continue
            if key:
                self._value(member.node, (*path, key), here, at, thousandths=here in _MILLISECONDS)
            elif here in ALIASES:
                self._value(member.node, ALIASES[here], here, at)
            elif here in _ALIAS_PARENTS and isinstance(member.node.value, tuple):
                self._group(member.node.value, Section, (), here, at)
            elif here in _NO_EFFECT:
                self.found.warning(member.line, name, _("this key has no effect."), _(_NO_EFFECT[here]))
            elif in_seconds:
                self._value(member.node, (*path, in_seconds), here, at, thousandths=True)
            else:
                self._unknown(member, model, source, name)

    def _twice(self, line: int, name: str, key: str, seen: dict[str, str]) -> bool:
        if key in seen:
            told = (
                _("the same key stands above already.")
                if seen[key] == name
                else _("the same key stands as {key} already.", key=seen[key])
            )
            self.found.error(line, name, told, _("Keep one of them."))
            return True
        seen[key] = name
        return False

    def _unknown(self, member: Member, model: type[Section], source: KeyPath, name: str) -> None:
        key, siblings = camel(member.key), [path[-1] for path in (*ALIASES, *_ALIAS_PARENTS) if path[:-1] == source]
        group = isinstance(member.node.value, tuple)
        keys = ((path, path[:-1] if group else path[-1:]) for path, _key in walk_keys())
        elsewhere = {path[: path.index(key) + 1] for path, among in keys if key in among}
        hint = ""
        if not source and key in HABITS and not group:
            hint = _("That key belongs in {place}.", place=HABITS[key])
        elif near := nearest(member.key, [*keys_of(model), *siblings]):
            hint = _('Did you mean "{near}"?', near=near)
        elif len(elsewhere) == 1:
            hint = _("That key belongs in {place}.", place=".".join(*elsewhere))
        self.found.warning(member.line, name, _("unknown key, not used."), hint)

    def _value(self, node: Node, path: KeyPath, source: KeyPath, at: KeyPath, *, thousandths: bool = False) -> None:
        slot, name = type_at(path), ".".join(at)
        if path not in self.places or camel(name) not in _FAMILY.for_all:
            self.places[path] = at
        self.thousandths |= {path} if thousandths else set()
        if node.value is None or slot is None:
            return
        if slot.section is None and slot.named is None:
            self._leaf(node, path, name)
        elif not isinstance(node.value, tuple):
            shown = _("a list") if isinstance(node.value, list) else _("a single value")
            self.found.error(
                node.line,
                name,
                _("got {shown}, wants a group of keys.", shown=shown),
                _("Write { … } with keys inside."),
            )
        else:
            # A group that is given exists, even where it stays empty.
            self.group(path[:-1]).setdefault(path[-1], Given(node.line, name, {}))
            if slot.section is not None:
                self._group(node.value, slot.section, path, source, at)
                return
            seen: dict[str, str] = {}
            for member in node.value:
                key = slot.name(member.key)
                if not self._twice(member.line, f"{name}.{member.key}", key, seen):
                    self._value(member.node, (*path, key), (*source, "<name>"), (*at, member.key))

    def _leaf(self, node: Node, path: KeyPath, name: str) -> None:
        missing: list[str] = []
        given = self._plain(node, name, missing)
        given.missing = tuple(dict.fromkeys(missing))
        if path in self.thousandths:
            value = number_or_switch(given.value) if given.filled and isinstance(given.value, str) else given.value
            given.value = value / 1000 if isinstance(value, int | float) and not isinstance(value, bool) else value
        group = self.group(path[:-1])
        before = group.get(path[-1])
        if before is not None and camel(name) in _FAMILY.for_all:
            return
        if before is not None and camel(before.spelled) not in _FAMILY.for_all:
            self.found.error(
                node.line, name, _("the same value stands in {key} too.", key=before.spelled), _("Keep one.")
            )
            return
        group[path[-1]] = given

    def _plain(self, node: Node, name: str, missing: list[str]) -> Given:
        """A value with its variables filled in; nulls inside a group are left out, like everywhere."""
        given = Given(node.line, name, None)
        match node.value:
            case tuple(members):
                seen: dict[str, str] = {}
                given.value = {
                    member.key: self._plain(member.node, inner, missing)
                    for member in members
                    if not self._twice(member.line, inner := f"{name}.{member.key}", member.key, seen)
                    and member.node.value is not None
                }
            case list(items):
                given.value = [self._plain(item, f"{name}[{at}]", missing) for at, item in enumerate(items)]
            case str(text):
                try:
                    expanded = expand(text, self.env)
                except ValueError as error:
                    self.found.error(node.line, name, _("{words}.", words=error))
                    return given
                given.value, given.filled = expanded.text, expanded.used
                missing.extend(expanded.missing)
            case scalar:
                given.value = scalar
        return given

    def _leave_out_engines(self) -> None:
        """Search engines that other programs know: named and left out, with the key and the address beside them."""
        search = self.group(_SEARCH)
        if (named := search.get("provider")) and _not_yet(named.value):
            self._leave_out(named, named.value, _("Searches use `auto`."))
            for key in ("provider", "apiKey", "apiKeyCommand", "baseUrl"):
                search.pop(key, None)
        providers = self.group((*_SEARCH, "providers"))
        for name in filter(_not_yet, [*providers]):
            self._leave_out(providers.pop(name), name, _("It is left out."))
        fallback = search.get("fallback")
        if fallback is not None and isinstance(fallback.value, list):
            found = [one for one in fallback.value if _not_yet(one.value)]
            if found:
                self._leave_out(fallback, found[0].value, _("It is left out."))
                fallback.value = [one for one in fallback.value if one not in found]

    def _leave_out(self, given: Given, name: object, hint: str) -> None:
        message = _("the search engine {name} is not supported yet.", name=name)
        self.found.warning(given.line, given.spelled, message, hint)


def _not_yet(name: object) -> bool:
    return isinstance(name, str) and name.strip().lower() in _FAMILY.engines
