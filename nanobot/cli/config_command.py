"""`nanobot config check|path|schema|show`: the command line of the configuration.

This half knows the words only and imports nothing heavy, because every `--help` asks for it; the work is in
`config_actions`.
"""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import _SubParsersAction

_ABOUT = {
    "check": "say what is wrong in the configuration file (exit code 0: nothing, 1: warnings, 2: errors)",
    "path": "print where the configuration file is",
    "schema": "print the JSON Schema of the file, for editors",
    "show": "print the configuration in force, secrets hidden",
}


def add_parser(subparsers: "_SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add `config` with its four words. The parent parser may offer `--config` and `--workspace`; both are obeyed."""
    parser = subparsers.add_parser("config", help="look at the configuration", description="Look at the configuration.")
    words = parser.add_subparsers(dest="config_action", metavar="ACTION", required=True)
    actions = {name: words.add_parser(name, help=about, description=about) for name, about in _ABOUT.items()}
    actions["path"].add_argument("--all", action="store_true", help="print every folder and file, with its name")
    actions["show"].add_argument("key", nargs="?", default="", help="show this key alone, such as tools.web.search")
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what was asked; the exit code."""
    from nanobot.cli.config_actions import act

    return act(args)
