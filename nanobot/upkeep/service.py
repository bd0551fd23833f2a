"""A gateway as a service of its user: the unit of systemd, the agent of launchd, and the variables that it needs.

The directives are those of systemd.exec(5) and systemd.service(5), the keys those of launchd.plist(5).
"""

import asyncio
import contextlib
import os
import plistlib
import re
import shlex
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from nanobot.errors import UsageError
from nanobot.utils.translation import _

UNIT, LABEL = "nanobot.service", "nanobot.gateway"
#: The file of variables in the home; like a key itself, it is its owner's alone.
ENVIRONMENT = "environment"
#: Seconds that answers get to be finished when the service stops, and after which one that says nothing is restarted.
STOP_SECONDS, WATCHDOG_SECONDS = 90, 180
#: What every program on the machine may need to reach the network, and to speak the language of its owner.
_COMMON = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "LANG", "LC_ALL", "TZ", "PATH"),
)
# English: systemd reads it
_UNIT_TEXT = """\
[Unit]
Description=nanobot, a personal AI agent
Documentation={docs}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
WorkingDirectory={home}
Environment={variable}
EnvironmentFile=-{environment}
Restart=always
RestartSec=5
# What only its owner can put right, such as a wrong configuration, is not tried again and again.
RestartPreventExitStatus=2
WatchdogSec={watchdog}
KillMode=mixed
TimeoutStopSec={stop}
UMask=0077
# Commands of the model run in a sandbox of their own, which needs namespaces: none is taken from it here.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
TasksMax=1024
MemoryHigh=1G
MemoryMax=2G
OOMPolicy=continue

[Install]
WantedBy=default.target
"""


class Service(Struct, frozen=True):
    """What is run: the arguments of a program, in a home. `docs` is a page about it on this machine."""

    command: tuple[str, ...]
    home: Path
    docs: Path

    @property
    def environment(self) -> Path:
        """The file of variables."""
        return self.home / ENVIRONMENT

    def unit(self) -> str:
        """The text of a unit of `systemd --user`. Raises `UsageError` where a path or argument cannot stand in one."""
        self._judge()
        return _UNIT_TEXT.format(
            docs=_specifier(self.docs.as_uri()),
            command=" ".join(_unit_word(word) for word in self.command),
            home=_specifier(str(self.home)),
            variable=_unit_word(f"NANOBOT_HOME={self.home}", plain="$"),
            environment=_specifier(str(self.environment)),
            watchdog=WATCHDOG_SECONDS,
            stop=STOP_SECONDS,
        )

    def _judge(self) -> None:
        """Raise `UsageError` for a path or argument that would be read as something else, or as further lines."""
        for word in (*self.command, str(self.home), str(self.docs)):
            if not word.isprintable() or word != word.strip() or word.endswith("\\"):
                raise UsageError(
                    _(
                        "A service cannot name {word!a}: it holds a line break or another sign that is not printed, "
                        "or ends in a blank or backslash. Give that folder another name.",
                        word=word,
                    )
                )

    def agent(self, variables: Mapping[str, str]) -> bytes:
        """The property list of an agent of launchd, with its variables, for launchd reads no file of them.

        Raises `UsageError` as `unit` does.
        """
        self._judge()
        log = str(self.home / "logs" / "gateway.out")
        return plistlib.dumps(
            {
                "Label": LABEL,
                "ProgramArguments": list(self.command),
                "WorkingDirectory": str(self.home),
                "EnvironmentVariables": {**variables, "NANOBOT_HOME": str(self.home)},
                "RunAtLoad": True,
                "KeepAlive": True,
                "ThrottleInterval": 10,
                "ExitTimeOut": STOP_SECONDS,
                "ProcessType": "Background",
                "Umask": 0o077,
                "StandardOutPath": log,
                "StandardErrorPath": log,
            }
        )


def needed(env: Mapping[str, str], known: Iterable[str], config: str) -> dict[str, str]:
    """The variables of `env` that a service would miss: `known` ones, those named in the text of the configuration as
    `${NAME}`, and what reaching the network needs."""
    named = re.findall(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)", config)
    wanted = dict.fromkeys((*known, *named, *_COMMON))
    return {name: env[name] for name in wanted if env.get(name, "").strip() and _is_line(env[name])}


def _is_line(value: str) -> bool:
    """Whether a value can stand in a file of variables: one line of text."""
    return not any((sign < " " and sign != "\t") or "\ud800" <= sign <= "\udfff" for sign in value)


def environment_text(variables: Mapping[str, str]) -> str:
    """The variables as a file that systemd reads (`EnvironmentFile=`) and `sh` as well."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def notify(state: str, env: Mapping[str, str]) -> None:
    """Tell the service manager how it is, as sd_notify(3) has it; where there is none, nothing happens."""
    address = env.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.setblocking(False)  # a manager that does not listen holds nothing up
        to.sendto(state.encode(), address.replace("@", "\0", 1) if address[0] == "@" else address)


async def keep_alive(env: Mapping[str, str]) -> None:
    """Tell the service manager that the event loop turns, until cancelled: it restarts a process that hangs."""
    told = env.get("WATCHDOG_USEC", "")
    ours = env.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
    if not (told.isdecimal() and int(told) and ours):
        return
    while True:
        notify("WATCHDOG=1", env)
        await asyncio.sleep(int(told) / 2_000_000)


def _specifier(text: str) -> str:
    """A text in which no sign stands for something else to systemd."""
    return text.replace("%", "%%")


def _unit_word(word: str, plain: str = "$$") -> str:
    """One argument of a command line of systemd, which has quotes and signs of its own; `plain` stands for a `$`."""
    written = _specifier(word).replace("$", plain)
    if re.fullmatch(r"[\w@%+=:,./$-]+", written):
        return written
    escaped = written.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
