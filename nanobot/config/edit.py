"""Changing one place of the configuration file: comments, order and everything else stay as they are.

What is written is read first as the program would read it, and takes the place of the old file in one step.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from nanobot.config.changes.text import find, plain, with_value, without, without_item
from nanobot.config.given import FileReading, Findings
from nanobot.config.jsonc import JsoncError, Node, line_of, parse
from nanobot.config.keys import KeyPath
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

    @property
    def _reading(self) -> FileReading:
        reading = FileReading(Findings(""), {})
        reading.run(self._root)
        return reading

    def has(self, path: Sequence[str]) -> bool:
        return self._node(path) is not None

    def value(self, path: Sequence[str]) -> object:
        """What the file says there, with its variables unread; None where it says nothing."""
        node = self._node(path)
        return plain(node) if node is not None else None

    def set(self, path: Sequence[str], value: object) -> Loaded:
        """Write a value, plain JSON data, under a key, whether it is there or not; of a list or an object only what
        differs. What the file says now."""
        if isinstance(value, int | float) and not isinstance(value, bool) and tuple(path) in self._reading.thousandths:
            value = round(value * 1000)
        return self.replace(with_value(self.text, self._place(path), value))

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
        """A key path as the file spells it, as far as it is there."""
        places = self._reading.places
        size = next((size for size in range(len(path), 0, -1) if tuple(path[:size]) in places), 0)
        return (*places.get(tuple(path[:size]), ()), *path[size:])


def _path_of(node: Node) -> object:
    value = plain(node)
    return value.get("path") if isinstance(value, dict) else None
