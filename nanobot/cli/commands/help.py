"""`nanobot help`: the commands, or a page of the documentation in the terminal."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress

from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.options import COMMAND_NAMES, build_parser
from nanobot.command.pages import no_topic, page_of, unwrapped
from nanobot.errors import UsageError
from nanobot.utils.text import broken, printable

#: How `less` shows a page that has colours: none that fits the screen is paged.
_LESS = "-FRX"
#: Columns of a page that is no terminal's.
_WIDTH = 80
#: What begins a line of a list or a quotation: its further lines stand below its text.
_BEGINS = re.compile(r" *(?:[-*>] |\d+\. )?")


def run_help(args: argparse.Namespace) -> int:
    """Show the page on a topic, or how a command is used; the exit code. Raises `UsageError` for another word."""
    words = " ".join(args.words)
    page = page_of(words)
    if page is None and words in COMMAND_NAMES:
        build_parser().parse_args([words, "--help"])  # prints, and leaves
    if page is None:
        raise UsageError(no_topic(words))
    _show(page.read_text(encoding="utf-8"))
    return 0


def _show(text: str) -> None:
    """Print Markdown, in a terminal rendered and through $PAGER."""
    if not sys.stdout.isatty():
        sys.stdout.write(printable(_narrow(text)))
        return
    shown = render_markdown(unwrapped(text), look_of(sys.stdout, os.environ))
    try:
        words = shlex.split(os.environ.get("PAGER", "less"))
    except ValueError:
        words = []
    if words and shutil.which(words[0]) and os.environ.get("TERM") != "dumb":
        env = {"LESS": _LESS, **os.environ}
        with suppress(KeyboardInterrupt):  # the person's own program, as their shell would start it
            subprocess.run(words, input=shown.encode(sys.stdout.encoding, "replace"), env=env, check=False)  # noqa: S603
        return
    sys.stdout.write(shown)


def _narrow(text: str) -> str:
    """Markdown with paragraphs of `_WIDTH` columns; code and tables, which cannot be broken, stay as they are."""
    parts = re.split(r"(?ms)(^ *```.*?^ *```$)", unwrapped(text))
    parts[::2] = ["\n".join(map(_broken, part.split("\n"))) for part in parts[::2]]
    return "".join(parts)


def _broken(line: str) -> str:
    begins = _BEGINS.match(line)
    indent = len(begins[0]) if begins else 0
    lines = [line] if line.startswith("|") else broken(line[indent:], _WIDTH - indent)
    return f"\n{' ' * indent}".join([line[:indent] * (not line.startswith("|")) + lines[0], *lines[1:]])
