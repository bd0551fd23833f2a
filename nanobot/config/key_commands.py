"""Keys that a command prints: `apiKeyCommand` in any section that has an `apiKey`."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace
from pydantic import SecretStr

from nanobot.config.loader import Loaded
from nanobot.config.section import Section
from nanobot.errors import ConfigError, ConfigProblem
from nanobot.utils.processes import end_session
from nanobot.utils.text import sendable

_S = TypeVar("_S", bound=Section)


async def with_command_keys(loaded: Loaded) -> Loaded:
    """`loaded` with every `apiKeyCommand` run and its output in `apiKey`; the commands run at the same time.

    An `apiKey` that is given wins, and its command is not run. A command that fails leaves the key empty and is named
    in `disabled`. New keys are among `secrets`.
    """
    disabled, keys = dict(loaded.disabled), dict[str, str]()

    async def run(where: str, command: tuple[str, ...]) -> None:
        try:
            keys[where] = await key_from_command(command, where=f"{where}.apiKeyCommand")
        except ConfigError as error:
            disabled[where] = error.problems[0].message

    async with asyncio.TaskGroup() as group:
        for where, command in _commands(loaded.config, ""):
            group.create_task(run(where, command))
    return replace(
        loaded,
        config=_filled(loaded.config, "", keys),
        disabled=disabled,
        secrets=(*loaded.secrets, *keys.values()),
    )


def _parts(section: Section) -> Iterator[tuple[str, str, Section]]:
    """The sections inside `section`: field name, name within a named group (or empty), and the section."""
    for name in type(section).model_fields:
        value: object = getattr(section, name)
        if isinstance(value, Section):
            yield name, "", value
        elif isinstance(value, dict):
            for key, inner in value.items():
                if isinstance(inner, Section):
                    yield name, str(key), inner


def _join(section: Section, path: str, name: str, key: str) -> str:
    alias = type(section).model_fields[name].alias or name
    return ".".join(part for part in (path, alias, key) if part)


def _commands(section: Section, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    command: object = getattr(section, "api_key_command", ())
    key: object = getattr(section, "api_key", None)
    if isinstance(command, tuple) and command and isinstance(key, SecretStr) and not key.get_secret_value():
        yield path, command
    for name, named, inner in _parts(section):
        yield from _commands(inner, _join(section, path, name, named))


def _filled(section: _S, path: str, keys: Mapping[str, str]) -> _S:
    """A copy of `section` with the keys at their places; `section` itself where none belongs into it."""
    if not any(where == path or not path or where.startswith(f"{path}.") for where in keys):
        return section
    update: dict[str, object] = {"api_key": SecretStr(keys[path])} if path in keys else {}
    for name, named, inner in _parts(section):
        new = _filled(inner, _join(section, path, name, named), keys)
        if named:
            group = update.setdefault(name, {})
            if isinstance(group, dict):
                group[named] = new
        else:
            update[name] = new
    return section.model_copy(update=update)


async def key_from_command(command: Sequence[str], *, where: str, timeout: float = 5.0) -> str:
    """What `command` prints, without the line end. Runs without a shell; `where` is the key path for errors.

    Raises `ConfigError` where the command cannot start, fails, prints nothing, or takes longer than `timeout` seconds.
    Its output is never part of an error.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _command_error(where, f"the command {command[0]} cannot start: {error}.") from error
    try:
        async with asyncio.timeout(timeout):
            output, _ = await process.communicate()
    except TimeoutError:
        await end_session(process)
        raise _command_error(where, f"the command {command[0]} took longer than {timeout:g} s.") from None
    except asyncio.CancelledError:
        await end_session(process)
        raise
    key = output.decode("utf-8", "replace").strip()
    if process.returncode != 0:
        raise _command_error(where, f"the command {command[0]} failed with exit code {process.returncode}.")
    if not key or not sendable(key):
        why = "no key, or more than one line" if not key or "\n" in key else "a key that no request can carry"
        raise _command_error(where, f"the command {command[0]} printed {why}.")
    return key


def _command_error(where: str, message: str) -> ConfigError:
    return ConfigError(ConfigProblem("configuration", 0, where, message, "Run it by hand to see why."))
