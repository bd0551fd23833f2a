"""`python -m nanobot` and the `nanobot` command."""

import sys

from nanobot.cli.main import main as run


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
