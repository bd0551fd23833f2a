"""The start of the process in which pages are taken apart, with half of what its libraries would import."""

import gc
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType, SimpleNamespace

_PROGRAM = "nanobot.web.extract.sandbox:main"
_SILENT = SimpleNamespace(**dict.fromkeys(("setLevel", "debug", "info", "exception"), lambda *_: None))
#: What the libraries import and never ask for where a page is read: downloads, logs, types that no page has.
_UNUSED: dict[str, dict[str, object]] = {
    **{key: {} for key in ("chardet", "difflib", "urllib.error", "urllib.request")},
    "decimal": {"Decimal": type("Decimal", (), {})},
    "gzip": {"GzipFile": None},
    "inspect": {"getfullargspec": None},
    "logging": {"CRITICAL": 50, "getLogger": lambda _: _SILENT},
    "uuid": {"UUID": type("UUID", (), {}), "SafeUUID": SimpleNamespace(unknown=None)},
}


def main() -> None:
    gc.disable()  # a tenth of the time of a page goes into looking for cycles; the process lives for 60 pages
    for unused, held in _UNUSED.items():
        sys.modules[unused] = ModuleType(unused)
        vars(sys.modules[unused]).update(held)
    sys.modules["typing_extensions"] = None  # type: ignore[assignment] # msgspec takes `typing` where there is none
    module, _, name = _PROGRAM.partition(":")
    run: Callable[[], None] = getattr(import_module(module), name)
    for unused in (*_UNUSED, "typing_extensions"):
        del sys.modules[unused]  # readers of files may take the real ones
    run()


if __name__ == "__main__":
    main()
