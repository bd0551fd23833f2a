"""The start of the process in which pages are taken apart.

readability imports libraries for downloads, one for bytes whose charset nobody knows, and one for a log: it gets text,
and nobody reads a log of it. lxml and msgspec import what looks at functions and describes types, msgspec decimals and
other formats than JSON, and our functions on text a library that compares texts. All are left out, and a pattern is
compiled when a page first takes it: a third of what such a process costs to start.
"""

import gc
import re
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

_PROGRAM = "nanobot.web.extract.sandbox:main"
_UNUSED = (
    "chardet urllib.request urllib.error logging difflib inspect platform decimal gzip msgspec.inspect "
    "msgspec.msgpack msgspec.toml msgspec.yaml msgspec._json_schema"
).split()
#: What of these is asked for by name, and what a library does without where it is missing.
_NAMES = "schema schema_components getfullargspec system Decimal GzipFile CRITICAL".split()
_MISSING = "typing_extensions"


class _Log:
    """The log of a library that nobody reads."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return lambda *_said, **_more: None


class _Pattern:
    """A pattern that is compiled when it is first used."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> object:
        self.__dict__[name] = value = getattr(_compile(*self._given), name)
        return value


_compile = re.compile


def main() -> None:
    gc.disable()  # a tenth of the time of a page goes into looking for cycles; the process lives for 60 pages
    for unused in _UNUSED:
        sys.modules[unused] = empty = ModuleType(unused)
        empty.__dict__.update(dict.fromkeys(_NAMES, str), getLogger=lambda _name: _Log())
    sys.modules["datetime"] = import_module("_datetime")  # without what stands in for it where it is missing
    sys.modules[_MISSING] = None  # type: ignore[assignment]  # None is how Python marks "not to be had"
    setattr(re, "compile", _Pattern)  # noqa: B010 - what is imported here asks for its patterns one by one
    module, _, name = _PROGRAM.partition(":")
    work: Callable[[], None] = getattr(import_module(module), name)
    setattr(re, "compile", _compile)  # noqa: B010
    for unused in (*_UNUSED, "datetime", _MISSING):
        del sys.modules[unused]  # readers of files may take the real ones
    work()


if __name__ == "__main__":
    main()
