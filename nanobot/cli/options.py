"""The parser of the command line, its help, and exit codes. Imports nothing heavy: `--help` and `--version` end here.

What argparse shows is given to it in English and translated where it is shown, not at every start.
"""

import argparse
import functools
import shutil
import signal
from typing import NoReturn

from nanobot import __version__
from nanobot.cli.actions import BY_NAME, COMMANDS, Argument, Arguments
from nanobot.errors import UsageError
from nanobot.utils.text import broken, nearest
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
    parts = [f"{_('usage: ')}{_PROGRAM} COMMAND …\n\n{_(_DESCRIPTION)}"]
    for heading, group in COMMANDS.items():
        lines = [_listed(name, _(one.about), width) for name, one in group.items()]
        parts.append("\n".join([_("{heading}:", heading=_(heading)), *lines]))
    options = {"-h, --help": _("show this help"), "--version": _("show the version")}
    lines = [_listed(name, about, width) for name, about in options.items()]
    parts.append("\n".join([_("{heading}:", heading=_("options")), *lines]))
    return "\n\n".join([*parts, _(_EPILOG)])


def _listed(name: str, about: str, width: int) -> str:
    """A name and what it is for, which goes on below itself."""
    lines = _fitted(about, width - _NAMES)
    return "\n".join([f"  {name:<{_NAMES - 3}} {lines[0]}", *(" " * _NAMES + line for line in lines[1:])])


@functools.cache
def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    vars(argparse).update(_=str)  # it would look for a catalog of its own at each heading
    parser = _Parser(prog=_PROGRAM, description=_DESCRIPTION, epilog=_EPILOG, formatter_class=_RawHelp)
    parser.add_argument("--version", action="version", version=f"nanobot {__version__}")
    common = _common()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, one in BY_NAME.items():
        command = commands.add_parser(name, help=one.about, description=one.about, parents=[common])
        command.formatter_class = _CommandHelp
        command.set_defaults(**one.defaults)
        _take(command, one.arguments)
        if one.actions:
            words = command.add_subparsers(dest=f"{name}_action", metavar="ACTION", required=True)
            for word, action in one.actions.items():
                _take(words.add_parser(word, help=action.about, description=action.about), action.arguments)
    agent = commands.choices["agent"]
    agent.description, agent.epilog, agent.formatter_class = None, _EPILOG, _RawHelp
    vars(argparse).update(_=_argparse_said, ngettext=_argparse_counted)  # it asks gettext when it says something
    return parser


def _take(parser: argparse._ActionsContainer, arguments: Arguments) -> None:
    """Give a parser these words and options."""
    for one in arguments:
        if isinstance(one, Argument):
            parser.add_argument(*one.names, **one.settings)  # type: ignore[arg-type]  # a table of what it takes
        else:
            _take(parser.add_mutually_exclusive_group(), one)


def _common() -> _Parser:
    common = _Parser(add_help=False)
    group = common.add_argument_group(N_("where things are"))
    group.add_argument("--config", metavar="FILE", help=N_("the configuration file (default ~/.nanobot/config.json)"))
    group.add_argument("--workspace", metavar="DIR", help=N_("the folder that the agent works in"))
    group.add_argument("--debug", action="store_true", help=N_("show log lines and tracebacks"))
    return common
