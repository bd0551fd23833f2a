"""Keys that a command prints: `apiKeyCommand` in any section that has an `apiKey`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from pydantic import SecretStr

from nanobot.config.loader import Loaded
from nanobot.config.schema import Config
from nanobot.errors import ConfigError, ConfigProblem

_Resolve = Callable[[tuple[str, ...], SecretStr, str], Awaitable[SecretStr]]


async def with_command_keys(loaded: Loaded) -> Loaded:
    """`loaded` with every `apiKeyCommand` run and its output in `apiKey`; the commands run at the same time.

    An `apiKey` that is given wins, and its command is not run. A command that fails leaves the key empty and is named
    in `disabled`. New keys are among `secrets`.
    """
    disabled = dict(loaded.disabled)
    secrets: list[str] = []

    async def resolve(command: tuple[str, ...], key: SecretStr, where: str) -> SecretStr:
        if not command or key.get_secret_value():
            return key
        try:
            printed = await key_from_command(command, where=where)
        except ConfigError as error:
            disabled[where.rpartition(".")[0]] = error.problems[0].message
            return key
        secrets.append(printed)
        return SecretStr(printed)

    config = await _filled(loaded.config, resolve)
    if config is loaded.config:
        return loaded
    return replace(loaded, config=config, disabled=disabled, secrets=(*loaded.secrets, *secrets))


async def _filled(config: Config, resolve: _Resolve) -> Config:
    search, service = config.tools.web.search, config.tools.web.fetch.service
    wanted = {
        **{f"providers.{name}.apiKeyCommand": one for name, one in config.providers.items()},
        **{f"tools.web.search.providers.{name}.apiKeyCommand": one for name, one in search.providers.items()},
        "tools.web.search.apiKeyCommand": search,
        "tools.web.fetch.service.apiKeyCommand": service,
    }
    if not any(section.api_key_command for section in wanted.values()):
        return config
    async with asyncio.TaskGroup() as group:
        tasks = {
            where: group.create_task(_resolved(resolve, section.api_key_command, section.api_key, where))
            for where, section in wanted.items()
        }
    keys = {where.removesuffix(".apiKeyCommand"): {"api_key": task.result()} for where, task in tasks.items()}
    prefix = "tools.web.search.providers."
    new_search = search.model_copy(
        update={
            **keys["tools.web.search"],
            "providers": {
                name: one.model_copy(update=keys[f"{prefix}{name}"]) for name, one in search.providers.items()
            },
        }
    )
    new_service = service.model_copy(update=keys["tools.web.fetch.service"])
    fetch = config.tools.web.fetch.model_copy(update={"service": new_service})
    web = config.tools.web.model_copy(update={"search": new_search, "fetch": fetch})
    providers = {name: one.model_copy(update=keys[f"providers.{name}"]) for name, one in config.providers.items()}
    return config.model_copy(update={"providers": providers, "tools": config.tools.model_copy(update={"web": web})})


async def _resolved(resolve: _Resolve, command: tuple[str, ...], key: SecretStr, where: str) -> SecretStr:
    return await resolve(command, key, where)


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
        )
    except (OSError, ValueError) as error:
        raise _command_error(where, f"the command {command[0]} cannot start: {error}.") from error
    try:
        async with asyncio.timeout(timeout):
            output, _ = await process.communicate()
    except TimeoutError:
        raise _command_error(where, f"the command {command[0]} took longer than {timeout:g} s.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    key = output.decode("utf-8", "replace").strip()
    if process.returncode != 0:
        raise _command_error(where, f"the command {command[0]} failed with exit code {process.returncode}.")
    if not key or "\n" in key:
        raise _command_error(where, f"the command {command[0]} printed no key, or more than one line.")
    return key


def _command_error(where: str, message: str) -> ConfigError:
    return ConfigError(ConfigProblem("configuration", 0, where, message, "Run it by hand to see why."))
