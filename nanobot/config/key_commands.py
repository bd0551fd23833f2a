"""Keys that a command prints: `apiKeyCommand` in any section that has an `apiKey`."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from nanobot.config.keys import KeyPath, sections_in, with_value
from nanobot.config.loader import Loaded
from nanobot.config.section import Section
from nanobot.errors import ConfigError, ConfigProblem, plain_reason
from nanobot.utils.processes import run_program
from nanobot.utils.text import sendable
from nanobot.utils.translation import _


async def with_command_keys(loaded: Loaded) -> Loaded:
    """`loaded` with every `apiKeyCommand` run and its output in `apiKey`; the commands run at the same time.

    An `apiKey` that is given wins, and its command is not run. A command that fails leaves the key empty and is named
    in `disabled`. New keys are among `secrets`.
    """
    disabled, keys = dict(loaded.disabled), dict[KeyPath, str]()

    async def run(path: KeyPath, command: tuple[str, ...]) -> None:
        where = ".".join(path)
        try:
            keys[path] = await key_from_command(command, where=f"{where}.apiKeyCommand")
        except ConfigError as error:
            disabled[where] = error.problems[0].message

    async with asyncio.TaskGroup() as group:
        for path, section in sections_in(loaded.config):
            if command := _command_of(section):
                group.create_task(run(path, command))
    config = loaded.config
    for path, key in keys.items():
        config = with_value(config, (*path, "apiKey"), key)
    return replace(loaded, config=config, disabled=disabled, secrets=(*loaded.secrets, *keys.values()))


def _command_of(section: Section) -> tuple[str, ...]:
    """The command that prints the key of a section; empty where it has none, or the key itself."""
    command: object = getattr(section, "api_key_command", ())
    return command if isinstance(command, tuple) and not getattr(section, "api_key", "") else ()


async def key_from_command(command: Sequence[str], *, where: str, timeout: float = 5.0) -> str:
    """What `command` prints, without the line end. Runs without a shell; `where` is the key path for errors.

    Raises `ConfigError` where the command cannot start, fails, prints nothing, or takes longer than `timeout` seconds.
    Its output is never part of an error.
    """

    def refused(why: str) -> ConfigError:
        return ConfigError(ConfigProblem("configuration", 0, where, why, _("Run it by hand to see why.")))

    try:
        ended = await run_program(command, timeout)
    except TimeoutError:
        raise refused(
            _("the command {command} took longer than {timeout:g} s.", command=command[0], timeout=timeout)
        ) from None
    except (OSError, ValueError) as error:
        raise refused(
            _("the command {command} cannot start: {error}.", command=command[0], error=plain_reason(error))
        ) from error
    key = ended.out.decode("utf-8", "replace").strip()
    if ended.code != 0:
        raise refused(_("the command {command} failed with exit code {code}.", command=command[0], code=ended.code))
    if not key or not sendable(key):
        what = (
            _("the command {command} printed no key, or more than one line.", command=command[0])
            if not key or "\n" in key
            else _("the command {command} printed a key that no request can carry.", command=command[0])
        )
        raise refused(what)
    return key
