"""What `nanobot config` does. Output goes to stdout, sentences about a failure to stderr."""

import argparse
import json
import os

from msgspec.structs import fields

from nanobot.cli.care.settings import run_settings
from nanobot.cli.options import USAGE
from nanobot.cli.terminal import say
from nanobot.config.generate import editor_schema
from nanobot.config.loader import load
from nanobot.config.paths import Paths
from nanobot.errors import ConfigError, UsageError
from nanobot.utils.secrecy import mask_keys
from nanobot.utils.translation import _


def run_config(args: argparse.Namespace) -> int:
    """Run what is done with the configuration; the exit code: 0, 1 for warnings, 2 for errors."""
    try:
        return _run(args)
    except UsageError as error:  # it may name what was typed, and a key may have been typed in a wrong place
        raise UsageError(mask_keys(str(error))) from error


def _run(args: argparse.Namespace) -> int:
    paths = Paths.resolve(os.environ, args.config, args.workspace)
    match args.config_action:
        case "schema":
            say(json.dumps(editor_schema(), ensure_ascii=False, indent=2))
            return 0
        case "path":
            return _path(paths, every=args.all)
        case "check":
            return _check(paths, args)
        case _:
            return run_settings(paths, args)


def _path(paths: Paths, *, every: bool) -> int:
    if not every:
        say(str(paths.config))
        return 0
    for field in fields(paths):
        if field.name != "config_named":
            say(f"{field.name + ':':<11}{getattr(paths, field.name)}")
    return 0


def _check(paths: Paths, args: argparse.Namespace) -> int:
    try:
        loaded = load(paths.config, env=os.environ, must_exist=paths.config_named)
    except ConfigError as error:
        for problem in error.problems:
            say(str(problem))
        return USAGE
    import asyncio

    from nanobot.builder.judging import judged

    wanted = args.workspace or loaded.config.agents.defaults.workspace
    paths = Paths.resolve(os.environ, args.config, wanted)
    refused, warned = asyncio.run(judged(loaded, paths, os.environ))
    for words in [_("{path}: it would not start: {why}", path=loaded.path, why=why) for why in refused] + warned:
        say(mask_keys(words))
    if refused or warned:
        return USAGE if refused else 1
    if loaded.exists:
        say(_("{path}: everything is in order.", path=loaded.path))
    else:
        say(_("{path}: there is no file, so every key has its default.", path=loaded.path))
    return 0
