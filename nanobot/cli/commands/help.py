"""`nanobot help`: the commands, or a page of the documentation in the terminal."""

import argparse
import os
import pydoc
import sys

from nanobot.channels.terminal.look import look_of
from nanobot.channels.terminal.render import render_markdown
from nanobot.cli.actions import BY_NAME
from nanobot.cli.options import build_parser
from nanobot.command.pages import no_topic, page_of, unwrapped
from nanobot.errors import UsageError
from nanobot.utils.text import printable

#: How `less` shows a page that has colours: none that fits the screen is paged.
_LESS = "-FRX"


def run_help(args: argparse.Namespace) -> int:
    """Show the page on a topic, or how a command is used; the exit code. Raises `UsageError` for another word."""
    words = " ".join(args.words)
    page = page_of(words)
    if page is None and words in BY_NAME:
        build_parser().parse_args([words, "--help"])  # prints, and leaves
    if page is None:
        raise UsageError(no_topic(words))
    _show(page.read_text(encoding="utf-8"))
    return 0


def _show(text: str) -> None:
    """Print Markdown, in a terminal rendered and through $PAGER."""
    if not sys.stdout.isatty():
        sys.stdout.write(printable(text))
        return
    os.environ.setdefault("LESS", _LESS)
    os.environ.pop("MANPAGER", None)  # a pager for manuals is none for colours
    pydoc.pager(render_markdown(unwrapped(text), look_of(sys.stdout, os.environ)))
