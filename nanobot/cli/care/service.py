"""`nanobot gateway --install` and `--uninstall`: a service of the user, of systemd or launchd."""

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from nanobot.builder.values import health_file
from nanobot.cli.agent_command import Setup
from nanobot.cli.terminal import say
from nanobot.config.paths import replace_file
from nanobot.doctor.gateway import gateway_at
from nanobot.errors import NanobotError, UsageError
from nanobot.providers.vendors import VENDORS
from nanobot.upkeep.environments import program
from nanobot.upkeep.service import LABEL, UNIT, Service, environment_text, needed
from nanobot.utils.host import shipped
from nanobot.utils.processes import ProgramOutput, run_program
from nanobot.utils.translation import N_, _
from nanobot.web.search.catalog import CATALOG

#: Seconds for one command of the service manager, and until the bot is asked for messages.
_COMMAND_SECONDS, _FIRST_POLL_SECONDS = 60.0, 60.0
_NOT_HERE = N_(
    "There is neither a systemd of your user nor launchd here, so nothing was set up. "
    "docs/running.md shows it with Docker; `nanobot gateway --install --dry-run` prints a "
    "unit to adapt."
)


def run_service(args: argparse.Namespace, setup: Setup) -> int:
    """Set the service up or take it away; the exit code."""
    if args.uninstall:
        return _uninstall(setup.env)
    command = [program(), "-m", "nanobot", "gateway"]
    command += ["--config", str(setup.paths.config)] if setup.paths.config_named else []
    command += ["--workspace", str(setup.paths.workspace)] if args.workspace else []
    command += ["--model", args.model] if args.model else []
    service = Service(tuple(command), setup.paths.home, shipped("docs") / "running.md")
    variables = needed(setup.env, _known(), _text(setup.paths.config))
    if args.dry_run:
        say(service.unit() if sys.platform != "darwin" else service.agent(dict.fromkeys(variables, "…")).decode())
        say(_("# {file} would hold: {variables}", file=service.environment, variables=", ".join(variables)))
        return 0
    return _agent(setup, service, variables) if sys.platform == "darwin" else _unit(setup, service, variables)


def _known() -> list[str]:
    """The names of variables that hold keys and addresses of services."""
    found = [name for vendor in VENDORS for name in (*vendor.keys, vendor.base_url_key)]
    found += [name for entry in CATALOG.values() for name in (entry.key_env, entry.url_env)]
    return [name for name in found if name]


def _text(config: Path) -> str:
    try:
        return config.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _unit(setup: Setup, service: Service, variables: Mapping[str, str]) -> int:
    if not _there("systemctl", "--user", "show-environment"):
        raise UsageError(_(_NOT_HERE))
    target = _unit_file(setup.env)
    replace_file(service.environment, environment_text(variables))
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(target, service.unit())
    _run("systemctl", "--user", "daemon-reload")
    _run("systemctl", "--user", "enable", UNIT)
    _run("systemctl", "--user", "restart", UNIT)
    _told(service, target, variables)
    if not _there("loginctl", "enable-linger"):
        say(_("It ends when you log out: `sudo loginctl enable-linger $USER` lets it go on."))
    return _wait(setup, f"journalctl --user -u {UNIT}")  # English: a command


def _agent(setup: Setup, service: Service, variables: Mapping[str, str]) -> int:
    target = _agent_file()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(target, service.agent(variables))
    domain = f"gui/{os.getuid()}"
    _there("launchctl", "bootout", f"{domain}/{LABEL}")
    _run("launchctl", "bootstrap", domain, str(target))
    _told(service, target, variables)
    return _wait(setup, f"tail {setup.paths.logs / 'gateway.out'}")


def _told(service: Service, target: Path, variables: Mapping[str, str]) -> None:
    say(_("Written: {file}", file=target))
    if variables:
        where = service.environment if target.suffix == ".service" else target
        say(
            _(
                "Variables that it needs are in {where}, which only you can read: {variables}",
                where=where,
                variables=", ".join(variables),
            )
        )


def _wait(setup: Setup, log: str) -> int:
    """Until the service asks for messages, or has said why not."""
    if bot := answers(health_file(setup.loaded.config, setup.paths), time.time()):
        say(_("It runs and answers as @{bot}. `nanobot status` says how it is, {log} what it says.", bot=bot, log=log))
        return 0
    say(_("It was started and does not ask for messages yet. `nanobot doctor` says why; its own words: {log}", log=log))
    return 1


def stop_service(env: Mapping[str, str]) -> bool:
    """Stop the service of the gateway; whether one ran. Raises `NanobotError` where it cannot be."""
    if _unit_file(env).exists() and _there("systemctl", "--user", "is-active", UNIT):
        _run("systemctl", "--user", "stop", UNIT)
        return True
    return _agent_file().exists() and _there("launchctl", "bootout", f"gui/{os.getuid()}/{LABEL}")


def start_service(env: Mapping[str, str]) -> None:
    """Start it again."""
    if _unit_file(env).exists():
        _run("systemctl", "--user", "restart", UNIT)
    else:
        _run("launchctl", "bootstrap", f"gui/{os.getuid()}", str(_agent_file()))


def answers(health: Path, since: float) -> str:
    """The name of the bot of a gateway that was started `since` and asks for messages; empty after a
    minute."""
    while time.time() - since < _FIRST_POLL_SECONDS:
        found = gateway_at(health)
        if found is not None and found.runs and found.bot and found.written >= since:
            return found.bot
        time.sleep(0.5)
    return ""


def _uninstall(env: Mapping[str, str]) -> int:
    unit, agent = _unit_file(env), _agent_file()
    if not (unit.exists() or agent.exists()):
        say(_("No service is set up here."))
        return 0
    if unit.exists():
        _there("systemctl", "--user", "disable", "--now", UNIT)
        unit.unlink()
        _there("systemctl", "--user", "daemon-reload")
    if agent.exists():
        _there("launchctl", "bootout", f"gui/{os.getuid()}/{LABEL}")
        agent.unlink()
    say(_("The service is stopped and taken away. Conversations, configuration and keys stay where they are."))
    return 0


def _unit_file(env: Mapping[str, str]) -> Path:
    config = env.get("XDG_CONFIG_HOME", "")
    return (Path(config) if config.startswith("/") else Path.home() / ".config") / "systemd" / "user" / UNIT


def _agent_file() -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"


def _there(*command: str) -> bool:
    """Whether a command is there and does what is asked."""
    return shutil.which(command[0]) is not None and _done(command).code == 0


def _run(*command: str) -> None:
    done = _done(command)
    if done.code:
        said = (done.error or done.out).decode(errors="replace").strip()
        why = said or _("exit code {code}", code=done.code)
        raise NanobotError(_("`{command}` failed: {why}", command=" ".join(command), why=why))


def _done(command: Sequence[str]) -> ProgramOutput:
    try:
        return asyncio.run(run_program(command, _COMMAND_SECONDS))
    except TimeoutError as error:
        raise NanobotError(
            _(
                "`{command}` takes more than {seconds:.0f} s.",
                command=" ".join(command),
                seconds=_COMMAND_SECONDS,
            )
        ) from error
