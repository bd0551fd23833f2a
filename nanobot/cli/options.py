"""The words of the command line and its exit codes. Imports nothing heavy: `--help` and `--version` end here."""

import argparse
import signal
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from nanobot import __version__
from nanobot.cli import actions
from nanobot.errors import UsageError

FAILED = 1
USAGE = 2
TEMPORARY = 75
TIMED_OUT = 124
INTERRUPTED = 130
#: What a shell reports of a program whose reader went away.
BROKEN_PIPE = 128 + signal.SIGPIPE

_DESCRIPTION = "A personal AI agent that reads the web for you and says where it read what."
_EPILOG = """\
examples:
  nanobot onboard                          set up a model, Telegram and the time zone
  nanobot                                  talk in the terminal
  nanobot "what changed in Python 3.14?"   one question, one answer with its sources
  git diff | nanobot "review this"         what comes in through the pipe is the context
  nanobot -m "..." --json                  one JSON object instead of text
  nanobot agent --continue                 go on where you stopped
  nanobot gateway                          answer on Telegram
  nanobot help telegram                    read a page of the documentation

exit codes: 0 answered, 1 failed, 2 wrong usage or configuration, 75 try again later, 124 time limit, 130 interrupted
"""


class _Options(NamedTuple):
    """A command: what it is for, and who gives it its options."""

    about: str
    options: Callable[[argparse.ArgumentParser], None]


class _Actions(NamedTuple):
    """A command with actions of its own, such as `nanobot mcp add`."""

    about: str
    actions: Callable[[actions.Actions], None]


_COMMANDS: Mapping[str, _Options | _Actions] = {
    "gateway": _Options("answer on Telegram until stopped", actions.gateway_options),
    "demo": _Options(
        "see what nanobot does on a small web of its own: no key, no network, nothing kept", actions.demo_options
    ),
    "replay": _Options("repeat a recorded turn without a network", actions.replay_options),
    "onboard": _Options("set up a model, Telegram and your time zone, each tried at once", actions.onboard_options),
    "help": _Options("show the commands, or a page of the documentation", actions.help_options),
    "completion": _Options("print what lets a shell complete commands and options", actions.completion_options),
    "status": _Options("show version, configuration, model, tools and sessions", actions.status_options),
    "doctor": _Options(
        "try everything that nanobot needs, and say what is wrong and what to do (exit code 1: warnings, 2: faults)",
        actions.doctor_options,
    ),
    "permissions": _Options("show what you have allowed for good, or take it back", actions.permissions_options),
    "usage": _Options("show what was spent, by what, and what of the budget that is", actions.usage_options),
    "people": _Options("show who may talk on Telegram and what each may do, or change it", actions.people_options),
    "schedule": _Options("show what comes at set times, add or change it", actions.schedule_options),
    "watch": _Options("show what is watched and tells when it changes, add or change it", actions.watch_options),
    "backup": _Options("write all that nanobot keeps into one file", actions.backup_options),
    "restore": _Options("put a backup in the place of what is here; that is set aside", actions.restore_options),
    "update": _Options("install a newer nanobot beside this one, try it, and switch to it", actions.update_options),
    "mcp": _Actions("show, add, remove and try MCP servers", actions.mcp_actions),
    "library": _Actions("show, add, remove and read folders of your documents", actions.library_actions),
    "import": _Options("take over what another program has kept", actions.import_options),
    "sessions": _Actions("list, search, show, name, export and delete your sessions", actions.sessions_actions),
    "skill": _Actions("show, begin and check skills", actions.skill_actions),
    "soul": _Options("open SOUL.md in your editor, or show what a new version brings", actions.soul_options),
    "config": _Actions("look at the configuration, or change it", actions.config_actions),
}
#: The commands that there are.
COMMAND_NAMES = ("agent", *_COMMANDS)


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are `UsageError`s."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:].rstrip('.')}. See `{self.prog} --help`.")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = _top()
    parser.add_argument("--version", action="version", version=f"nanobot {__version__}")
    common = _common()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    about = "talk, or ask one question (the default)"
    agent = commands.add_parser("agent", help=about, parents=[common], epilog=_EPILOG, formatter_class=shape)
    actions.agent_options(agent)
    for name, one in _COMMANDS.items():
        said = f"{one.about[0].upper()}{one.about[1:]}."
        command = commands.add_parser(name, help=one.about, description=said, parents=[common])
        if isinstance(one, _Options):
            one.options(command)
        else:
            one.actions(command.add_subparsers(dest=f"{name}_action", metavar="ACTION", required=True))
    return parser


def wants_more(command: str) -> bool:
    """Whether a command does nothing without an action behind it."""
    return isinstance(_COMMANDS.get(command), _Actions)


def _top() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    return _Parser(prog="nanobot", description=_DESCRIPTION, epilog=_EPILOG, formatter_class=shape)


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group("where things are")
    group.add_argument("--config", metavar="FILE", help="the configuration file (default ~/.nanobot/config.json)")
    group.add_argument("--workspace", metavar="DIR", help="the folder that the agent works in")
    group.add_argument("--debug", action="store_true", help="show log lines and tracebacks")
    return common
