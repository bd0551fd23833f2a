"""Reading the configuration file: every problem with its line and key path, nothing guessed, nothing overwritten."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import UnsetType, field
from msgspec.structs import replace

from nanobot.config.given import FileReading, Findings, Given
from nanobot.config.jsonc import JsoncError, line_of, parse
from nanobot.config.keys import ENV_NAMES, KeyPath, known_secrets
from nanobot.config.paths import Paths
from nanobot.config.schema import Config
from nanobot.config.values import Validator
from nanobot.errors import ConfigError, ConfigProblem
from nanobot.utils.secrecy import Reticent
from nanobot.utils.text import nearest
from nanobot.utils.translation import _, _n, settle, together

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
    problem found. Never writes. From here on this process speaks the language that it names.
    """
    path = path or Paths.resolve(env).config
    text = read_text(path, must_exist=must_exist)
    if text is None:
        config = Config()
        return Loaded(config, path, secrets=known_secrets(config, env), exists=False)
    loaded = load_text(text, path, env=env)
    settle(wanted=loaded.config.agents.defaults.language)
    return replace(loaded, problems=(*loaded.problems, *_open_to_others(loaded, text)))


def located(
    env: Mapping[str, str], config: str | None, workspace: str | None, *, must_exist: bool = True
) -> tuple[Loaded, Paths]:
    """The configuration, and the places that it and a command line ask for. Raises `ConfigError`, also where a file is
    named that is not there, unless that is to be made."""
    first = Paths.resolve(env, config)
    loaded = load(first.config, env=env, must_exist=must_exist and first.config_named)
    return loaded, Paths.resolve(env, config, workspace or loaded.config.agents.defaults.workspace)


def _open_to_others(loaded: Loaded, text: str) -> tuple[ConfigProblem, ...]:
    """A warning where other people of this machine can read a file that holds a key."""
    held = [secret for secret in known_secrets(loaded.config, {}) if secret in text]
    if not held or not loaded.path.stat().st_mode & 0o077:
        return ()
    message = _("others on this machine can read this file, and it holds a key.")
    return (ConfigProblem(str(loaded.path), 0, "", message, f"chmod 600 {shlex.quote(str(loaded.path))}"),)


def load_text(text: str, path: Path, *, env: Mapping[str, str]) -> Loaded:
    """The configuration that `text` holds; `path` is its name in messages. Raises `ConfigError`."""
    file = str(path)
    try:
        root = parse(text)
    except JsoncError as error:
        raise ConfigError(ConfigProblem(file, line_of(text, error.offset), "", _("{words}.", words=error))) from None
    found = Findings(file)
    reading = FileReading(found, env)
    reading.run(root)
    disabled = _disabled(reading)
    config = Validator(found).section(Given(0, "", reading.data), Config)
    if isinstance(config, UnsetType) or found.errors:
        raise ConfigError(*sorted([*found.errors, *found.warnings], key=lambda one: one.line))
    return Loaded(config, path, tuple(found.warnings), disabled, known_secrets(config, env))


def read_text(path: Path, *, must_exist: bool = False) -> str | None:
    """The text of a configuration file, None where there is none. Raises `ConfigError`."""

    def refuse(message: str, hint: str = "") -> ConfigError:
        return ConfigError(ConfigProblem(str(path), 0, "", message, hint))

    try:
        if not path.exists() and not path.is_symlink():
            if must_exist:
                raise refuse(_("the file does not exist."), _("Check the path, or leave it out to use the usual file."))
            return None
        if not path.is_file():
            raise refuse(_("this is not a file."), _("Name the configuration file itself, such as config.json."))
        if path.stat().st_size > _LARGEST:
            raise refuse(_("the file is larger than 4 MB; that is no configuration."))
        data = path.read_bytes()
    except OSError as error:
        raise refuse(
            _("the file cannot be read: {error}.", error=error.strerror), _("Check its permissions and its path.")
        ) from error
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise refuse(_("the file is encoded as UTF-16."), _("Save it as UTF-8."))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            ConfigProblem(str(path), line, "", _("the file is not UTF-8 text."), _("Save it as UTF-8."))
        ) from None
    return text


def _disabled(reading: FileReading) -> dict[str, str]:
    """Switch off what needs a variable that is not set; where that is nothing smaller than the agent, it is an error.

    What is off, by its key path, and why.
    """
    disabled: dict[str, str] = {}
    for path, given in [*reading.unset()]:
        reason = _n(
            "the environment variable {names} is not set",
            "the environment variables {names} are not set",
            len(given.missing),
            names=together(given.missing),
        )
        scope = _switch_off(path, reading)
        if scope is None:
            hint = _("Set it, or give a default: ${{{variable}:-…}}.", variable=given.missing[0])
            reading.found.error(given.line, given.spelled, _("{words}.", words=reason), hint)
        elif scope:
            near = _nearest_variable(path, given.missing[0], reading.env)
            told = _("{reason} ({key}, line {line})", reason=reason, key=given.spelled, line=given.line)
            disabled.setdefault(
                ".".join(scope), _("{reason}; perhaps {near} is meant", reason=told, near=near) if near else told
            )
    return disabled


def _nearest_variable(path: KeyPath, name: str, env: Mapping[str, str]) -> str:
    """A variable whose name is near: one that is set, or the usual one of the provider that the key belongs to."""
    usual = {f"{part.upper()}_API_KEY" for part in path[:-1]} | {"TELEGRAM_BOT_TOKEN"}
    if name in usual:
        return ""
    found = nearest(name, [known for known in env if ENV_NAMES.search(known)])
    return found or next((known for known in sorted(usual) if nearest(name, [known])), "")


def _switch_off(path: KeyPath, reading: FileReading) -> KeyPath | None:
    """Take out the part that needs the value at `path`.

    The key path of what is now off; empty where it was off already; None where nothing can be switched off.
    """
    match path:
        case ("providers", _, *_):
            return _out(path[:2], reading)
        case ("tools", "mcpServers", _, *_):
            return _out(path[:3], reading)
        case ("tools", "web", "search", "providers", _, *_):
            return _out(path[:5], reading)
        case ("tools", "web", "fetch", "service", *_):
            return _out(path[:4], reading)
        case ("tools", "web", "search", "apiKey" | "apiKeyCommand" | "baseUrl", *_):
            for key in ("apiKey", "apiKeyCommand", "baseUrl"):
                reading.group(path[:3]).pop(key, None)
            return path
        case ("tools", "web", "fetch", "readerKey" | "readerUrl"):
            reading.group(path[:3])["reader"] = Given(0, "", "none")
            return (*path[:3], "reader")
        case ("tools", "web", "proxy"):
            return _flag_off(reading.group(path[:2]), "enable", path[:2])
        case ("channels", _, *_):
            return _flag_off(reading.group(path[:2]), "enabled", path[:2])
        case _:
            return None


def _out(path: KeyPath, reading: FileReading) -> KeyPath:
    gone = reading.group(path[:-1]).pop(path[-1], None)
    off = gone is None or (isinstance(gone.value, dict) and _is_off(gone.value.get("enabled")))
    return () if off else path


def _flag_off(group: dict[str, Given], flag: str, scope: KeyPath) -> KeyPath:
    off = _is_off(group.get(flag, Given(0, "", flag == "enable")))  # a channel is off unless it is switched on
    group[flag] = Given(0, "", False)
    return () if off else scope


def _is_off(flag: Given | None) -> bool:
    return flag is not None and flag.value is False
