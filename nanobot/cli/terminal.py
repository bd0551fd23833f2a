"""Lines that a command prints, and questions that it asks in a terminal. Imports nothing heavy."""

import sys

from nanobot.errors import UsageError
from nanobot.utils.text import printable
from nanobot.utils.translation import _, yes_or_no


def say(text: str) -> None:
    """Print it at once, before what is said on stderr next."""
    sys.stdout.write(f"{printable(text)}\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Say it on stderr, beside what is printed."""
    sys.stderr.write(printable(f"nanobot: {text}\n"))


def warn(problem: object) -> None:
    """Say on stderr what does not keep a command from going on."""
    sys.stderr.write(printable(_("nanobot: warning: {problem}", problem=problem) + "\n"))


def somebody_is_here() -> bool:
    """Whether a person reads and types at a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str) -> str:
    """The line that is typed behind a question."""
    sys.stdout.write(printable(question))
    sys.stdout.flush()
    return sys.stdin.readline().strip()


def agreed(question: str, unasked: str = "") -> bool:
    """Whether the answer is yes. Where nobody can be asked, it is no; with `unasked` a `UsageError` says that."""
    if somebody_is_here():
        return yes_or_no(ask(question)) == "yes"
    if unasked:
        raise UsageError(unasked)
    return False
