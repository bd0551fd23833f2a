"""Reading the configuration file: every problem with its line and key path, nothing guessed, nothing overwritten."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import field
from msgspec.structs import replace
from pydantic import ValidationError

from nanobot.config.explain import json_schema, problem
from nanobot.config.jsonc import JsoncError, line_of, parse
from nanobot.config.paths import Paths
from nanobot.config.schema import Config
from nanobot.config.secrets import ENV_NAMES, known_secrets
from nanobot.config.shapes import KeyPath
from nanobot.config.walk import Unset, Walk
from nanobot.errors import ConfigError, ConfigProblem
from nanobot.utils.reticent import Reticent
from nanobot.utils.text import nearest

_LARGEST = 4_000_000


class Loaded(Reticent, frozen=True):
    """A configuration that can be used.

    `problems` are warnings (unknown keys). `disabled` says what is switched off because of an unset variable: key path
    of the provider, back end, server or channel → reason. `secrets` are the values that no log may show. `exists` is
    False where there was no file and everything is a default.
    """

    unprinted = ("secrets",)

    config: Config
    path: Path
    problems: tuple[ConfigProblem, ...] = ()
    disabled: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    exists: bool = True


def load(path: Path | None = None, *, env: Mapping[str, str], must_exist: bool = False) -> Loaded:
    """The configuration in `path`, or in the file that `env` points to. A file that is not there means all defaults.

    With `must_exist` a missing file is an error, for a path that a person has named. Raises `ConfigError` with every
    problem found. Never writes.
    """
    path = path or Paths.resolve(env).config
    text = read_text(path, must_exist=must_exist)
    if text is None:
        config = Config()
        return Loaded(config, path, secrets=known_secrets(config, env), exists=False)
    loaded = load_text(text, path, env=env)
    return replace(loaded, problems=(*loaded.problems, *_open_to_others(loaded, text)))


def _open_to_others(loaded: Loaded, text: str) -> tuple[ConfigProblem, ...]:
    """A warning where other people of this machine can read a file that holds a key."""
    held = [secret for secret in known_secrets(loaded.config, {}) if secret in text]
    if not held or not loaded.path.stat().st_mode & 0o077:
        return ()
    message = "others on this machine can read this file, and it holds a key."
    return (ConfigProblem(str(loaded.path), 0, "", message, f"chmod 600 {shlex.quote(str(loaded.path))}"),)


def load_text(text: str, path: Path, *, env: Mapping[str, str]) -> Loaded:
    """The configuration that `text` holds; `path` is its name in messages. Raises `ConfigError`."""
    file = str(path)
    try:
        root = parse(text)
    except JsoncError as error:
        raise ConfigError(ConfigProblem(file, line_of(text, error.offset), "", f"{error}.")) from None
    walk = Walk(file, text, env)
    walk.run(root)
    disabled: dict[str, str] = {}
    for unset in walk.unset:
        _disable(unset, walk, disabled)
    config = _validated(walk)
    if config is None or walk.errors:
        raise ConfigError(*sorted([*walk.errors, *walk.warnings], key=lambda one: one.line))
    return Loaded(config, path, tuple(walk.warnings), disabled, known_secrets(config, env))


def read_text(path: Path, *, must_exist: bool = False) -> str | None:
    """The text of a configuration file, None where there is none. Raises `ConfigError`."""

    def refuse(message: str, hint: str = "") -> ConfigError:
        return ConfigError(ConfigProblem(str(path), 0, "", message, hint))

    try:
        if not path.exists() and not path.is_symlink():
            if must_exist:
                raise refuse("the file does not exist.", "Check the path, or leave it out to use the usual file.")
            return None
        if not path.is_file():
            raise refuse("this is not a file.", "Name the configuration file itself, such as config.json.")
        if path.stat().st_size > _LARGEST:
            raise refuse("the file is larger than 4 MB; that is no configuration.")
        data = path.read_bytes()
    except OSError as error:
        raise refuse(f"the file cannot be read: {error.strerror}.", "Check its permissions and its path.") from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refuse("the file is encoded as UTF-16.", "Save it as UTF-8.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            ConfigProblem(str(path), line, "", "the file is not UTF-8 text.", "Save it as UTF-8.")
        ) from None
    return text


def _validated(walk: Walk) -> Config | None:
    try:
        return Config.model_validate_json(json.dumps(walk.data), strict=True)
    except ValidationError as error:
        root = json_schema()
        refused = error.errors(include_url=False, include_input=False)
        problems = [problem(one, walk.file, walk.places, root) for one in refused]
        walk.errors.extend(dict.fromkeys(problems))
        return None


def _disable(unset: Unset, walk: Walk, disabled: dict[str, str]) -> None:
    """Switch off what needs the unset variable; where that is nothing smaller than the agent, it is an error."""
    names = " and ".join(unset.variables)
    verb = "are" if len(unset.variables) > 1 else "is"
    kind = "variables" if len(unset.variables) > 1 else "variable"
    reason = f"the environment {kind} {names} {verb} not set ({unset.place.spelled}, line {unset.place.line})"
    if near := _nearest_variable(unset, walk.env):
        reason += f"; did you mean {near}?"
    scope = _switch_off(unset.path, walk.data)
    if scope is None:
        hint = f"Set it, or give a default: ${{{unset.variables[0]}:-…}}."
        message = f"the environment {kind} {names} {verb} not set."
        walk.errors.append(ConfigProblem(walk.file, unset.place.line, unset.place.spelled, message, hint))
    elif scope:
        disabled.setdefault(".".join(scope), reason)


def _nearest_variable(unset: Unset, env: Mapping[str, str]) -> str:
    """A variable whose name is near: one that is set, or the usual one of the provider that the key belongs to."""
    usual = [f"{part.upper()}_API_KEY" for part in unset.path[:-1]] + ["TELEGRAM_BOT_TOKEN"]
    found = nearest(unset.variables[0], [name for name in env if ENV_NAMES.search(name)])
    return found or next((name for name in usual if nearest(unset.variables[0], [name])), "") or ""


def _switch_off(path: KeyPath, data: dict[str, object]) -> KeyPath | None:
    """Take the part that needs the value at `path` out of `data`.

    The key path of what is now off; empty where it was off already; None where nothing can be switched off.
    """
    match path:
        case ("providers" as top, name, *_):
            _group(data, ()).setdefault(top, {})
            _group(data, (top,)).pop(name, None)
            return (top, name)
        case ("tools", "mcpServers", name, *_):
            off = _group(data, path[:3]).get("enabled") is False
            _group(data, path[:2]).pop(name, None)
            return () if off else path[:3]
        case ("tools", "web", "search", "providers", *_):
            _group(data, path[:4]).pop(path[4], None)
            return path[:5]
        case ("tools", "web", "search", "apiKey" | "apiKeyCommand" | "baseUrl", *_):
            for key in ("apiKey", "apiKeyCommand", "baseUrl"):
                _group(data, path[:3]).pop(key, None)
            return path
        case ("tools", "web", "fetch", "service", *_):
            _group(data, path[:3]).pop("service", None)
            return path[:4]
        case ("tools", "web", "fetch", "readerKey" | "readerUrl"):
            _group(data, path[:3])["reader"] = "none"
            return (*path[:3], "reader")
        case ("tools", "web", "proxy"):
            return _flag_off(data, path[:2], "enable")
        case ("channels", name, *_) if name:
            return _flag_off(data, path[:2], "enabled", default=False)
        case _:
            return None


def _flag_off(data: dict[str, object], scope: KeyPath, flag: str, *, default: bool = True) -> KeyPath:
    group = _group(data, scope)
    off = group.get(flag, default) is False
    group[flag] = False
    return () if off else scope


def _group(data: dict[str, object], path: KeyPath) -> dict[str, object]:
    """The group at `path`, made where it is missing; an empty stray one where a value stands in its way."""
    level = data
    for key in path:
        inner = level.setdefault(key, {})
        if not isinstance(inner, dict):
            return {}
        level = inner
    return level
