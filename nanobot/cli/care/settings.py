"""`nanobot config get|set|unset|edit`: one key after another, or the whole file in an editor."""

import argparse
import getpass
import json
import os
import sys
from collections.abc import Iterator, Mapping

from nanobot.cli.care.editor import edited_well
from nanobot.cli.options import FAILED, USAGE
from nanobot.cli.terminal import say
from nanobot.config.changes.asked import dotted, is_secret, key_path, literal, value_of
from nanobot.config.changes.taken import taken
from nanobot.config.edit import ConfigFile
from nanobot.config.given import expand
from nanobot.config.keys import KeyPath, masked
from nanobot.config.loader import Loaded, load, load_text
from nanobot.config.paths import Paths
from nanobot.config.section import When
from nanobot.errors import ConfigError, UsageError
from nanobot.utils.secrecy import mask_keys, url_secrets
from nanobot.utils.text import printable
from nanobot.utils.translation import N_, _, sentences

#: What a secret given on the command line would be: in the history of the shell, and in the list of processes.
_SEEN = N_(
    "{key} is a secret, which everybody here could read in the list of processes and in the "
    "history of your shell. `nanobot config set {key}` asks for it without showing it; "
    "`--stdin` reads it from a pipe."
)
_SEEN_IN_URL = N_(
    "What {key} would be holds a password or a key ({where}), which everybody here could "
    "read in the list of processes and in the history of your shell. `nanobot config set "
    "{key} --stdin` reads it from a pipe, or from what you paste and end with Ctrl-D; a "
    "variable (`${{NAME}}`) may stand in its place."
)
_IN_FORCE: Mapping[When, str] = {
    "next turn": N_("A running nanobot takes it with its next turn."),
    "next terminal": N_("The next terminal has it; one that is open goes on as it is."),
    "next start": N_("A running nanobot has it after its next start."),
}


def run_settings(paths: Paths, args: argparse.Namespace) -> int:
    """Run one of show, get, set, unset and edit; the exit code. Raises `ConfigError` or `UsageError`."""
    if args.config_action == "edit":
        return _edit(paths)
    if args.config_action == "show":
        return _show(paths, args.key)
    path = key_path(args.key)
    match args.config_action:
        case "get":
            return _get(paths, path)
        case "unset":
            return _unset(paths, path)
        case _:
            return _set(paths, path, args)


def _loaded(paths: Paths) -> Loaded:
    return load(paths.config, env=os.environ, must_exist=paths.config_named)


def _show(paths: Paths, key: str) -> int:
    """Print all of the configuration, or what stands under a key."""
    value = _shown(_loaded(paths), key_path(key) if key else (), indent=2)
    if value is None:
        raise UsageError(_("There is no key {key}.", key=mask_keys(key)))
    say(value)
    return 0


def _get(paths: Paths, path: KeyPath) -> int:
    value = _shown(_loaded(paths), path)
    if value is None:
        sys.stderr.write(printable(_("nanobot: {key} is not set.\n", key=mask_keys(dotted(path)))))
        return FAILED
    say(json.loads(value) if value.startswith('"') else value)
    return 0


def _set(paths: Paths, path: KeyPath, args: argparse.Namespace) -> int:
    key, file = dotted(path), ConfigFile(paths.config, os.environ)
    value = _asked(path, args)
    before = file.text
    loaded = file.set(path, value)
    named = isinstance(value, str) and is_secret(path) and _is_reference(value)
    shown = json.dumps(value) if named else _shown(loaded, path) or _("what you gave")
    if file.text == before:
        say(_("{key} is {value} already in {file}.", key=mask_keys(key), value=mask_keys(shown), file=paths.config))
    else:
        changed = _("{change} in {file}.", change=mask_keys(f"{key} = {shown}"), file=paths.config)
        say(sentences(changed, _(_IN_FORCE[taken(path)])))
    return _told(loaded, path)


def _asked(path: KeyPath, args: argparse.Namespace) -> object:
    """The value that a person gives, in whichever way. A secret is taken as it stands."""
    secret, key = is_secret(path), dotted(path)
    if args.stdin and args.value:
        raise UsageError(_("With --stdin the value comes from standard input; leave it out of the command line."))
    if args.value:
        value = value_of(args.value, path)
        for place, text in _texts(value, path):
            if is_secret(place) and not _is_reference(text):
                raise UsageError(_(_SEEN, key=dotted(place)))
            if "${" not in text and (found := url_secrets(text)):
                raise UsageError(_(_SEEN_IN_URL, key=dotted(place), where=found[0].where))
        return value
    if args.stdin:
        text = sys.stdin.read().strip()
    elif secret and sys.stdin.isatty():
        text = getpass.getpass(_("{key} (is not shown): ", key=key)).strip()
    else:
        raise UsageError(_("Which value? `nanobot config set {key} VALUE`; `--stdin` reads it from a pipe.", key=key))
    if not text:
        raise UsageError(_("There was no value, so nothing was changed."))
    return literal(text) if secret else value_of([text], path)


def _texts(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """The texts in a value, each with its key path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, (*path, name))
    elif isinstance(value, str):
        yield path, value


def _is_reference(text: str) -> bool:
    """Whether a text is nothing, or names a variable in place of a secret."""
    try:
        return not text or expand(text, {}).used
    except ValueError:
        return False


def _shown(loaded: Loaded, path: KeyPath, indent: int | None = None) -> str | None:
    """The value in force there as JSON, without what is secret; None where there is none."""
    value = masked(loaded.config)
    for part in path:
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict) else indent)


def _told(loaded: Loaded, path: KeyPath = ()) -> int:
    """Print what the file warns of below a key; the exit code: 0, or 1 for warnings."""
    key = ".".join(path)
    told = [str(one) for one in loaded.problems if f"{one.path}.".startswith(f"{key}.") or not key]
    off = {where: why for where, why in loaded.disabled.items() if key.startswith(where)}
    told += [_("{key} is switched off: {why}", key=where, why=why) for where, why in off.items()]
    for words in told:
        sys.stderr.write(printable(f"{mask_keys(words)}\n"))
    return FAILED if told else 0


def _unset(paths: Paths, path: KeyPath) -> int:
    file, key = ConfigFile(paths.config, os.environ), mask_keys(dotted(path))
    if not file.has(path):
        say(_("{key} is not in {file}: it has its default already.", key=key, file=paths.config))
        return 0
    file.remove(path)
    told = _("{key} is taken out of {file} and has its default again.", key=key, file=paths.config)
    say(sentences(told, _(_IN_FORCE[taken(path)])))
    return 0


def _edit(paths: Paths) -> int:
    file = ConfigFile(paths.config, os.environ)
    problems: list[str] = []

    def judge(made: str) -> list[str]:
        problems.clear()
        try:
            load_text(made, paths.config, env=os.environ)
        except ConfigError as error:
            problems.extend(str(problem) for problem in error.problems)
        return problems

    made = edited_well(file.text, paths.config.name, os.environ, judge)
    if made is None:
        say(_("{file} is as it was.", file=paths.config))
        return USAGE if problems else 0
    loaded = file.replace(made)
    say(
        _(
            "{file} is changed. A running nanobot takes it with its next turn, and says what needs a restart.",
            file=paths.config,
        )
    )
    return _told(loaded)
