"""`python -m nanobot` and the `nanobot` command. Every Python 3 can read this module, so that an old one says so."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - a checkout is started without the judgement of an installer
    sys.stderr.write(
        f"nanobot needs Python 3.11 or later, and this is Python {sys.version.split()[0]} ({sys.executable}). Make its "
        "environment with a newer one, such as: python3.12 -m venv .venv\n"
    )
    sys.exit(2)

from nanobot.cli.main import main as run


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
