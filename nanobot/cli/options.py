"""The words of the command line and its exit codes. Imports nothing heavy: `--help` and `--version` end here."""

import argparse
import shutil
import signal
from collections.abc import Callable, Mapping
from textwrap import fill
from typing import NamedTuple, NoReturn

from nanobot import __version__
from nanobot.cli import actions
from nanobot.errors import UsageError
from nanobot.utils.text import nearest

FAILED = 1
USAGE = 2
TEMPORARY = 75
TIMED_OUT = 124
INTERRUPTED = 130
#: What a shell reports of a program whose reader went away.
BROKEN_PIPE = 128 + signal.SIGPIPE

_PROGRAM = "nanobot"
_DESCRIPTION = "A personal AI agent that reads the web for you and says where it read what."
_EPILOG = """\
examples:
  nanobot onboard                    set up a model, Telegram and the time zone
  nanobot                            talk in the terminal
  nanobot "what is new in Python?"   one question, one answer with its sources
  git diff | nanobot "review this"   what comes through the pipe is the context
  nanobot -m "..." --json            one JSON object instead of text
  nanobot agent --continue           go on where you stopped
  nanobot gateway                    answer on Telegram
  nanobot help telegram              read a page of the documentation

exit codes: 0 answered, 1 failed, 2 wrong usage or configuration,
  75 try again later, 124 time limit, 130 interrupted
"""
#: Columns of the list of commands: that of their names, and the longest line where no terminal is narrower.
_NAMES, _WIDTH = 15, 80


class _Options(NamedTuple):
    """A command: what it is for, and who gives it its options."""

    about: str
    options: Callable[[argparse.ArgumentParser], None]


class _Actions(NamedTuple):
    """A command with actions of its own, such as `nanobot mcp add`."""

    about: str
    actions: Callable[[actions.Actions], None]


_ABOUT_AGENT = "talk, or ask one question (the default)"
#: Heading → the commands below it, in the order in which they are shown; `agent` stands before all of them.
_COMMANDS: Mapping[str, Mapping[str, _Options | _Actions]] = {
    "start": {
        "onboard": _Options("set up a model, Telegram and your time zone, each tried at once", actions.onboard_options),
        "demo": _Options(
            "see what nanobot does on a small web of its own: no key, no network, nothing kept", actions.demo_options
        ),
        "gateway": _Options("answer on Telegram until stopped", actions.gateway_options),
        "status": _Options("show version, configuration, model, tools and sessions", actions.status_options),
        "doctor": _Options(
            "try everything that nanobot needs, and say what to do (exit code 0: well, 1: warnings, 2: faults)",
            actions.doctor_options,
        ),
        "help": _Options("show the commands, or a page of the documentation", actions.help_options),
    },
    "model and configuration": {
        "config": _Actions("look at the configuration, or change it", actions.config_actions),
        "soul": _Options("open SOUL.md in your editor, or show what a new version brings", actions.soul_options),
        "usage": _Options("show what was spent, by what, and what of the budget that is", actions.usage_options),
        "mcp": _Actions("show, add, remove and try MCP servers", actions.mcp_actions),
        "completion": _Options("print what lets a shell complete commands and options", actions.completion_options),
    },
    "memory and library": {
        "sessions": _Actions("list, search, show, name, export and delete your sessions", actions.sessions_actions),
        "library": _Actions("show, add, remove and read folders of your documents", actions.library_actions),
        "skill": _Actions("show, begin and check skills", actions.skill_actions),
        "replay": _Options("repeat a recorded turn without a network", actions.replay_options),
    },
    "tasks and watches": {
        "schedule": _Options("show what comes at set times, add or change it", actions.schedule_options),
        "watch": _Options("show what is watched and tells when it changes, add or change it", actions.watch_options),
    },
    "people and safety": {
        "people": _Options("show who may talk on Telegram and what each may do, or change it", actions.people_options),
        "permissions": _Options("show what you have allowed for good, or take it back", actions.permissions_options),
    },
    "care": {
        "backup": _Options("write all that nanobot keeps into one file", actions.backup_options),
        "restore": _Options("put a backup in the place of what is here; that is set aside", actions.restore_options),
        "update": _Options("install a newer nanobot beside this one, try it, and switch to it", actions.update_options),
        "import": _Options("take over what another program has kept", actions.import_options),
    },
}
#: The commands that there are.
COMMAND_NAMES = ("agent", *(name for group in _COMMANDS.values() for name in group))


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are `UsageError`s."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:].rstrip('.')}. See `{self.prog} --help`.")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Argparse calls it for each value that has choices. Raises `UsageError` where it is none of them."""
        names = [str(one) for one in action.choices or (value,)]
        if str(value) in names:
            return
        near = nearest(str(value), names)
        hint = f" Did you mean {near!r}?" if near else ""
        named = "".join(f" {one}" for one in action.option_strings[-1:])
        raise UsageError(f"`{self.prog}{named}` does not know {value!r}.{hint} It knows: {', '.join(names)}.")

    def format_help(self) -> str:
        """The help of a command; that of the program lists the commands under a few headings."""
        return _overview() if self.prog == _PROGRAM else super().format_help()


def _overview() -> str:
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)
    agent = {"agent": _ABOUT_AGENT}
    parts = [f"usage: {_PROGRAM} COMMAND …\n\n{_DESCRIPTION}"]
    for heading, group in _COMMANDS.items():
        told = (agent if heading == "start" else {}) | {name: one.about for name, one in group.items()}
        lines = [_listed(name, about, width) for name, about in told.items()]
        parts.append("\n".join([f"{heading}:", *lines]))
    options = {"-h, --help": "show this help", "--version": "show the version"}
    parts.append("\n".join(["options:", *(_listed(name, about, width) for name, about in options.items())]))
    return "\n\n".join([*parts, _EPILOG])


def _listed(name: str, about: str, width: int) -> str:
    """A name and what it is for, which goes on below itself."""
    return fill(about, width, initial_indent=f"  {name:<{_NAMES - 3}} ", subsequent_indent=" " * _NAMES)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = _top()
    parser.add_argument("--version", action="version", version=f"nanobot {__version__}")
    common = _common()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    agent = commands.add_parser("agent", help=_ABOUT_AGENT, parents=[common], epilog=_EPILOG, formatter_class=shape)
    actions.agent_options(agent)
    for name, one in ((name, one) for group in _COMMANDS.values() for name, one in group.items()):
        said = f"{one.about[0].upper()}{one.about[1:]}."
        command = commands.add_parser(name, help=one.about, description=said, parents=[common])
        if isinstance(one, _Options):
            one.options(command)
        else:
            one.actions(command.add_subparsers(dest=f"{name}_action", metavar="ACTION", required=True))
    return parser


def wants_more(command: str) -> bool:
    """Whether a command does nothing without an action behind it."""
    return any(isinstance(group.get(command), _Actions) for group in _COMMANDS.values())


def _top() -> argparse.ArgumentParser:
    shape = argparse.RawDescriptionHelpFormatter
    return _Parser(prog=_PROGRAM, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=shape)


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group("where things are")
    group.add_argument("--config", metavar="FILE", help="the configuration file (default ~/.nanobot/config.json)")
    group.add_argument("--workspace", metavar="DIR", help="the folder that the agent works in")
    group.add_argument("--debug", action="store_true", help="show log lines and tracebacks")
    return common
