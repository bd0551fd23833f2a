"""`nanobot soul`: the files of the workspace that say who the agent is, in an editor, and what a new version brings."""

import argparse
import os
from pathlib import Path

from nanobot.agent.context import FILE_LIMIT
from nanobot.cli.agent_command import set_up
from nanobot.cli.care.editor import edited_well
from nanobot.cli.terminal import say
from nanobot.config.changes.seeds import difference, seed_named
from nanobot.config.paths import SEEDS, replace_file
from nanobot.errors import UsageError
from nanobot.utils.translation import _, listed

_ACTIONS = ("edit", "diff", "show")


def run_soul(args: argparse.Namespace) -> int:
    """Open a file in the editor, or show it or what is new of it; the exit code."""
    words = list(args.words)
    action = words.pop(0) if words and words[0] in _ACTIONS else "edit"
    if len(words) > 1:
        raise UsageError(_("Name one file at a time: `nanobot soul diff AGENTS.md`."))
    workspace = set_up(args, os.environ).paths.workspace
    if action == "diff":
        return _diff(workspace, [seed_named(words[0])] if words else [*SEEDS[:3]])
    file = workspace / seed_named(words[0] if words else "SOUL.md")
    if action == "show":
        say(_text(file).rstrip())
        return 0
    return _edit(file)


def _edit(file: Path) -> int:
    before = _text(file)
    made = edited_well(before, file.name, os.environ, lambda text: _problems(text, file.name))
    if made is None:
        say(_("{file} is as it was.", file=file))
        return 0
    if _text(file) != before:
        raise UsageError(_("{file} was changed by somebody else meanwhile. Nothing was written; try again.", file=file))
    replace_file(file, made)
    say(_("{file} is changed, and the next message knows it.", file=file))
    return 0


def _diff(workspace: Path, seeds: list[str]) -> int:
    told = [text for text in (difference(workspace, seed) for seed in seeds) if text]
    say("\n\n".join(told) if told else _("{files}: as they came with this version.", files=listed(seeds)))
    return 0


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8") if file.exists() else ""
    except UnicodeDecodeError:
        raise UsageError(_("{file} is not UTF-8 text. Save it as UTF-8 first.", file=file)) from None


def _problems(text: str, name: str) -> list[str]:
    if "\x00" in text:
        return [_("{name} holds a zero character, which is no text.", name=name)]
    if len(text) > FILE_LIMIT:
        return [
            _(
                "{name} has {number:,} characters, and the prompt takes {most:,}: the end would be cut off.",
                name=name,
                number=len(text),
                most=FILE_LIMIT,
            )
        ]
    return []
