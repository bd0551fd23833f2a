"""The start of the process in which pages are taken apart.

readability imports one library for downloads and one for bytes whose charset nobody knows. It gets text, so it asks for
neither, and both are left out.
"""

import gc
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

_PROGRAM = "nanobot.web.extract.sandbox:main"
_UNUSED = ("chardet", "urllib.request")


def main() -> None:
    gc.disable()  # a tenth of the time of a page goes into looking for cycles; the process lives for 60 pages
    for unused in _UNUSED:
        sys.modules[unused] = ModuleType(unused)
    module, _, name = _PROGRAM.partition(":")
    work: Callable[[], None] = getattr(import_module(module), name)
    for unused in _UNUSED:
        del sys.modules[unused]  # readers of files may take the real ones
    work()


if __name__ == "__main__":
    main()
