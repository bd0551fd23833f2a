"""Changing one place of the configuration file: comments, order and everything else stay as they are.

What is written is read first as the program would read it, and takes the place of the old file in one step.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nanobot.config.changes.text import find, plain, with_value, without, without_item
from nanobot.config.given import ALIASES, MILLISECONDS
from nanobot.config.jsonc import JsoncError, Node, line_of, parse
from nanobot.config.keys import KeyPath, ValueType, camel, find_key, type_at
from nanobot.config.loader import Loaded, load_text, read_text
from nanobot.config.paths import replace_file
from nanobot.errors import ConfigError, ConfigProblem, UsageError
from nanobot.utils.translation import _


class ConfigFile:
    """A configuration file that is changed. `env` is what variables in it are read from.

    Key paths are those of the schema; what the file writes in another way (`max_results`, `mcp`) is changed where it
    stands. Every change raises `ConfigError` where the result would not load, and `UsageError` where somebody else has
    written the file meanwhile; nothing is written then.
    """

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        self._env = env
        self._before = read_text(path)
        #: What stands in the file, or would first be written.
        self.text = self._before if self._before is not None and self._before.strip() else "{\n}\n"

    @property
    def _root(self) -> Node:
        try:
            return parse(self.text)
        except JsoncError as error:
            problem = ConfigProblem(str(self._path), line_of(self.text, error.offset), "", f"{error}.")
            raise ConfigError(problem) from None

    def has(self, path: Sequence[str]) -> bool:
        return self._node(path) is not None

    def value(self, path: Sequence[str]) -> object:
        """What the file says there, with its variables unread; None where it says nothing."""
        node = self._node(path)
        return plain(node) if node is not None else None

    def set(self, path: Sequence[str], value: object) -> Loaded:
        """Write a value, plain JSON data, under a key, whether it is there or not; of a list or an object only what
        differs. What the file says now."""
        place = self._place(path)
        if isinstance(value, int | float) and not isinstance(value, bool) and _in_milliseconds(place, path):
            value = round(value * 1000)
        return self.replace(with_value(self.text, place, value))

    def with_values(self, values: Iterable[tuple[Sequence[str], object]]) -> str:
        """The text as it would be with all these values, which are no times; for `replace`, in one step."""
        before = self.text
        try:
            for path, value in values:
                self.text = with_value(self.text, self._place(path), value)
            return self.text
        finally:
            self.text = before

    def remove(self, path: Sequence[str]) -> None:
        """Take out a key that is there."""
        self.replace(without(self.text, self._place(path)))

    def append(self, path: Sequence[str], value: str) -> None:
        """Write a text at the end of a list, which is made where there is none."""
        self.replace(with_value(self.text, self._place(path), [*map(plain, self._items(path)), value]))

    def take(self, path: Sequence[str], value: str) -> None:
        """Take a text, or what has it as its `path`, out of a list. Raises `UsageError` also where it stands there in
        another form, such as one with a variable."""
        items = self._items(path)
        index = next((index for index, one in enumerate(items) if value in (one.value, _path_of(one))), None)
        if index is None:
            where = f"{'.'.join(path)} in {self._path}"
            raise UsageError(
                _(
                    "{where} does not hold {value!r} in these very words. Take it out with an editor.",
                    where=where,
                    value=value,
                )
            )
        self.replace(without_item(self.text, items, index))

    def replace(self, text: str) -> Loaded:
        """Write this text in place of all that the file holds; what it says now."""
        loaded = load_text(text, self._path, env=self._env)
        target = self._path.resolve()
        if read_text(self._path) != self._before:
            raise UsageError(
                _("{path} was changed by somebody else meanwhile. Nothing was written; try again.", path=self._path)
            )
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(target, text)
        except OSError as error:
            message = _("the file cannot be written: {error}.", error=error.strerror)
            raise ConfigError(ConfigProblem(str(self._path), 0, "", message, _("Nothing was changed."))) from error
        self._before = self.text = text
        return loaded

    def _node(self, path: Sequence[str]) -> Node | None:
        return find(self._root, self._place(path))

    def _items(self, path: Sequence[str]) -> list[Node]:
        """What stands in a list. Raises `UsageError` where something else does."""
        node = self._node(path)
        if node is None:
            return []
        if not isinstance(node.value, list):
            raise UsageError(
                _('{key} in line {line} is no list. Write it as one first: ["…"]', key=".".join(path), line=node.line)
            )
        return node.value

    def _place(self, path: Sequence[str]) -> KeyPath:
        """A key path as the file spells it: the place where most of it is there already, the usual place first."""
        usual = tuple(path)
        root = self._root

        def missing(place: KeyPath) -> int:
            return sum(find(root, place[:end]) is None for end in range(1, len(place) + 1))

        return min([_spelled(root, usual), *_elsewhere(root, usual)], key=missing)


def _elsewhere(root: Node, path: KeyPath) -> Iterator[KeyPath]:
    """The other places in which files of the family write this key, where they are begun in this file."""
    for alias, target in ALIASES.items():
        if path[: len(target)] == target:
            place = _spelled(root, path, alias, len(target))
            if find(root, place[: len(alias)]) is not None:
                yield place


def _spelled(root: Node, path: KeyPath, alias: KeyPath = (), size: int = 0) -> KeyPath:
    """The canonical `path` in the words of the file as far as it is there; `alias` stands for its first `size` keys."""
    found: list[str] = []
    groups = [*(None for _ in alias), *(type_at(path[:end]) for end in range(size, len(path)))]
    for key, group in zip((*alias, *path[size:]), groups, strict=True):
        there = find(root, found)
        names = [one.key for one in there.value] if there is not None and isinstance(there.value, tuple) else []
        found.append(next((name for name in names if _means(name, key, group)), key))
    return tuple(found)


def _means(name: str, key: str, group: ValueType | None) -> bool:
    """Whether `name` in the file is `key` in a group of this type; of an alias it is None."""
    if name == key or (group is None and camel(name) == key):
        return True
    if group is None:
        return False
    if group.section is not None:
        return key in (find_key(group.section, name), find_key(group.section, camel(name).removesuffix("Ms")))
    if group.names is not None:
        with suppress(ValueError):
            return group.names.kind.check(name) == group.names.kind.check(key)
    return False


def _in_milliseconds(place: KeyPath, path: Sequence[str]) -> bool:
    """Whether the file writes this time in thousandths of a second."""
    last = camel(place[-1])
    return tuple(map(camel, place)) in MILLISECONDS or (last != path[-1] and last == f"{path[-1]}Ms")


def _path_of(node: Node) -> object:
    value = plain(node)
    return value.get("path") if isinstance(value, dict) else None
