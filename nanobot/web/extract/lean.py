"""The start of the process in which pages are taken apart.

readability imports libraries for downloads and one for bytes whose charset nobody knows; it gets text, so it asks for
neither. lxml and msgspec import what looks at functions and describes types, msgspec other formats than JSON, and our
functions on text a library that compares texts. All are left out: a sixth of what such a process costs to start.
"""

import gc
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

_PROGRAM = "nanobot.web.extract.sandbox:main"
_UNUSED = (
    "chardet urllib.request urllib.error difflib inspect platform msgspec.inspect msgspec.msgpack msgspec.toml "
    "msgspec.yaml msgspec._json_schema"
).split()
#: What of these is asked for by name, and what a library does without where it is missing.
_NAMES, _MISSING = ("schema", "schema_components", "getfullargspec", "system"), "typing_extensions"


def main() -> None:
    gc.disable()  # a tenth of the time of a page goes into looking for cycles; the process lives for 60 pages
    for unused in _UNUSED:
        sys.modules[unused] = empty = ModuleType(unused)
        empty.__dict__.update(dict.fromkeys(_NAMES, str))
    sys.modules[_MISSING] = None  # type: ignore[assignment]  # None is how Python marks "not to be had"
    module, _, name = _PROGRAM.partition(":")
    work: Callable[[], None] = getattr(import_module(module), name)
    for unused in (*_UNUSED, _MISSING):
        del sys.modules[unused]  # readers of files may take the real ones
    work()


if __name__ == "__main__":
    main()
