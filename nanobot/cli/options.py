"""The words of the command line and its exit codes. Imports nothing heavy: `--help` and `--version` end here.

What argparse shows is given to it in English and translated where it is shown, not at every start.
"""

import argparse
import shutil
import signal
import textwrap
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from nanobot import __version__
from nanobot.cli import actions
from nanobot.errors import UsageError
from nanobot.utils.text import broken, columns_of, nearest
from nanobot.utils.translation import N_, _, _n, listed

FAILED = 1
USAGE = 2
TEMPORARY = 75
TIMED_OUT = 124
INTERRUPTED = 130
#: What a shell reports of a program whose reader went away.
BROKEN_PIPE = 128 + signal.SIGPIPE

_PROGRAM = "nanobot"
_DESCRIPTION = N_("A personal AI agent that reads the web for you and says where it read what.")
_EPILOG = N_("""\
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
""")
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


_ABOUT_AGENT = N_("talk, or ask one question (the default)")
#: Heading → the commands below it, in the order in which they are shown; `agent` stands before all of them.
_COMMANDS: Mapping[str, Mapping[str, _Options | _Actions]] = {
    N_("start"): {
        "onboard": _Options(
            N_("set up a model, Telegram and your time zone, each tried at once"), actions.onboard_options
        ),
        "demo": _Options(
            N_("see what nanobot does on a small web of its own: no key, no network, nothing kept"),
            actions.demo_options,
        ),
        "gateway": _Options(N_("answer on Telegram until stopped"), actions.gateway_options),
        "status": _Options(N_("show version, configuration, model, tools and sessions"), actions.status_options),
        "doctor": _Options(
            N_("try everything that nanobot needs, and say what to do (exit code 0: well, 1: warnings, 2: faults)"),
            actions.doctor_options,
        ),
        "help": _Options(N_("show the commands, or a page of the documentation"), actions.help_options),
    },
    N_("model and configuration"): {
        "config": _Actions(N_("look at the configuration, or change it"), actions.config_actions),
        "soul": _Options(N_("open SOUL.md in your editor, or show what a new version brings"), actions.soul_options),
        "usage": _Options(N_("show what was spent, by what, and what of the budget that is"), actions.usage_options),
        "mcp": _Actions(N_("show, add, remove and try MCP servers"), actions.mcp_actions),
        "completion": _Options(N_("print what lets a shell complete commands and options"), actions.completion_options),
    },
    N_("memory and library"): {
        "sessions": _Actions(N_("list, search, show, name, export and delete your sessions"), actions.sessions_actions),
        "library": _Actions(N_("show, add, remove and read folders of your documents"), actions.library_actions),
        "skill": _Actions(N_("show, begin and check skills"), actions.skill_actions),
        "replay": _Options(N_("repeat a recorded turn without a network"), actions.replay_options),
    },
    N_("tasks and watches"): {
        "schedule": _Options(N_("show what comes at set times, add or change it"), actions.schedule_options),
        "watch": _Options(
            N_("show what is watched and tells when it changes, add or change it"), actions.watch_options
        ),
    },
    N_("people and safety"): {
        "people": _Options(
            N_("show who may talk on Telegram and what each may do, or change it"), actions.people_options
        ),
        "permissions": _Options(
            N_("show what you have allowed for good, or take it back"), actions.permissions_options
        ),
    },
    N_("care"): {
        "backup": _Options(N_("write all that nanobot keeps into one file"), actions.backup_options),
        "restore": _Options(
            N_("put a backup in the place of what is here; that is set aside"), actions.restore_options
        ),
        "update": _Options(
            N_("install a newer nanobot beside this one, try it, and switch to it"), actions.update_options
        ),
        "import": _Options(N_("take over what another program has kept"), actions.import_options),
    },
}
#: The commands that there are.
COMMAND_NAMES = ("agent", *(name for group in _COMMANDS.values() for name in group))


#: What argparse itself says, of all versions of Python that are supported. It puts the values in.
_ARGPARSE = (
    N_("usage: "),
    N_("options"),
    N_("positional arguments"),
    N_("show this help message and exit"),
    N_("show program's version number and exit"),
    N_("the following arguments are required: %s"),
    N_("one of the arguments %s is required"),
    N_("unrecognized arguments: %s"),
    N_("not allowed with argument %s"),
    N_("ignored explicit argument %r"),
    N_("ambiguous option: %(option)s could match %(matches)s"),
    N_("argument %(argument_name)s: %(message)s"),
    N_("invalid %(type)s value: %(value)r"),
    N_("expected one argument"),
    N_("expected at most one argument"),
    N_("expected at least one argument"),
)


def _argparse_said(message: str) -> str:
    return _(message) if message in _ARGPARSE else message


def _argparse_counted(one: str, many: str, number: int) -> str:  # noqa: ARG001 - argparse counts nothing else
    return _n("expected %s argument", "expected %s arguments", number)


def _fitted(text: str, width: int) -> list[str]:
    """`text` as lines of at most so many columns."""
    if columns_of(text) == len(text):
        return textwrap.wrap(text, width) or [""]
    return broken(" ".join(text.split()), width)


class _Help(argparse.HelpFormatter):
    """The help of an action, such as `nanobot config set`."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return _(action.help) if action.help and action.help != argparse.SUPPRESS else action.help

    def start_section(self, heading: str | None) -> None:
        super().start_section(_(heading) if heading else heading)

    def add_text(self, text: str | None) -> None:
        super().add_text(self._told(text) if text and text != argparse.SUPPRESS else text)

    def _told(self, text: str) -> str:
        return _(text)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return _fitted(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in _fitted(text, width - len(indent)))


class _CommandHelp(_Help):
    """The help of a command: what it is for, as a sentence."""

    def _told(self, text: str) -> str:
        about = _(text)
        return _("{about}.", about=about[:1].upper() + about[1:])


class _RawHelp(_Help):
    """Help that ends with examples, which stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 - argparse gives it
        return "".join(indent + line for line in text.splitlines(keepends=True))


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are `UsageError`s."""

    def _get_formatter(self) -> argparse.HelpFormatter:
        if self.formatter_class is argparse.HelpFormatter:
            self.formatter_class = _Help
        return super()._get_formatter()

    def error(self, message: str) -> NoReturn:
        problem = message[:1].upper() + message[1:].rstrip(".")
        raise UsageError(_("{problem}. See `{program} --help`.", problem=problem, program=self.prog))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Argparse calls it for each value that has choices. Raises `UsageError` where it is none of them."""
        names = [str(one) for one in action.choices or (value,)]
        if str(value) in names:
            return
        where = self.prog + "".join(f" {one}" for one in action.option_strings[-1:])
        given = {"where": where, "value": value, "known": listed(names)}
        if near := nearest(str(value), names):
            told = _("`{where}` does not know {value!r}. Did you mean {near!r}? It knows: {known}.", near=near, **given)
            raise UsageError(told)
        raise UsageError(_("`{where}` does not know {value!r}. It knows: {known}.", **given))

    def format_help(self) -> str:
        """The help of a command; that of the program lists the commands under a few headings."""
        return _overview() if self.prog == _PROGRAM else super().format_help()


def _overview() -> str:
    width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)
    agent = {"agent": _ABOUT_AGENT}
    parts = [f"{_('usage: ')}{_PROGRAM} COMMAND …\n\n{_(_DESCRIPTION)}"]
    for heading, group in _COMMANDS.items():
        told = (agent if heading == "start" else {}) | {name: one.about for name, one in group.items()}
        lines = [_listed(name, _(about), width) for name, about in told.items()]
        parts.append("\n".join([_("{heading}:", heading=_(heading)), *lines]))
    options = {"-h, --help": _("show this help"), "--version": _("show the version")}
    lines = [_listed(name, about, width) for name, about in options.items()]
    parts.append("\n".join([_("{heading}:", heading=_("options")), *lines]))
    return "\n\n".join([*parts, _(_EPILOG)])


def _listed(name: str, about: str, width: int) -> str:
    """A name and what it is for, which goes on below itself."""
    lines = _fitted(about, width - _NAMES)
    return "\n".join([f"  {name:<{_NAMES - 3}} {lines[0]}", *(" " * _NAMES + line for line in lines[1:])])


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _top()
    parser.add_argument("--version", action="version", version=f"nanobot {__version__}")
    common = _common()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    agent = commands.add_parser("agent", help=_ABOUT_AGENT, parents=[common], epilog=_EPILOG, formatter_class=_RawHelp)
    actions.agent_options(agent)
    for name, one in ((name, one) for group in _COMMANDS.values() for name, one in group.items()):
        command = commands.add_parser(name, help=one.about, description=one.about, parents=[common])
        command.formatter_class = _CommandHelp
        if isinstance(one, _Options):
            one.options(command)
        else:
            one.actions(command.add_subparsers(dest=f"{name}_action", metavar="ACTION", required=True))
    vars(argparse).update(_=_argparse_said, ngettext=_argparse_counted)  # it asks gettext when it says something
    return parser


def wants_more(command: str) -> bool:
    """Whether a command does nothing without an action behind it."""
    return any(isinstance(group.get(command), _Actions) for group in _COMMANDS.values())


def _top() -> argparse.ArgumentParser:
    return _Parser(prog=_PROGRAM, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=_RawHelp)


def _common() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    group = common.add_argument_group(N_("where things are"))
    group.add_argument("--config", metavar="FILE", help=N_("the configuration file (default ~/.nanobot/config.json)"))
    group.add_argument("--workspace", metavar="DIR", help=N_("the folder that the agent works in"))
    group.add_argument("--debug", action="store_true", help=N_("show log lines and tracebacks"))
    return common
