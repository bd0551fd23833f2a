"""`python -m nanobot` and the `nanobot` command. Every Python 3 can read this module, so that an old one says so."""

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import SourceFileLoader
    from types import CodeType

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout is started without the judgement of an installer
    # English: no catalogue can be read by an old Python
    sys.stderr.write(
        f"nanobot needs Python 3.11 or later, and this is Python {sys.version.split()[0]} ({sys.executable}). Make its "
        "environment with a newer one, such as: python3.12 -m venv .venv\n"
    )
    sys.exit(2)


def mend_compiled() -> None:
    """Have a module compiled again whose compiled file is cut off.

    A disk that is full keeps half of such a file, and Python would end at it at every start until somebody finds it. It
    knows modules that are imported from here on.
    """
    loader = type(__spec__.loader) if __spec__ is not None else None
    read = getattr(loader, "get_code", None)
    if loader is None or read is None:
        return

    def get_code(self: "SourceFileLoader", name: str) -> "CodeType | None":
        try:
            found: CodeType | None = read(self, name)
        except EOFError:
            from importlib.util import cache_from_source

            with suppress(OSError, NotImplementedError):
                os.unlink(cache_from_source(self.path))  # noqa: PTH108 - pathlib is not imported yet
            found = self.source_to_code(self.get_data(self.path), self.path)
        return found

    setattr(loader, "get_code", get_code)  # noqa: B010 - a method of the library is replaced


# While modules are imported there is nothing to tell of Ctrl-C, which a program in the background does not hear at all.
HEARD = signal.getsignal(signal.SIGINT)
if HEARD is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
mend_compiled()

from nanobot.cli.main import main as run  # noqa: E402 - it is what may have to be mended


def main() -> None:
    """Run the command line and leave with its exit code."""
    signal.signal(signal.SIGINT, HEARD)
    sys.exit(run())


if __name__ == "__main__":
    main()
