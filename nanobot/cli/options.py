"""The words of the command line and its exit codes. Imports nothing heavy: `--help` and `--version` end here."""

import argparse
import signal
from collections.abc import Sequence
from typing import NoReturn

from nanobot import __version__
from nanobot.cli import actions
from nanobot.command.words import WORDS
from nanobot.errors import UsageError
from nanobot.utils.text import nearest

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
  nanobot                                  talk in the terminal
  nanobot "what changed in Python 3.14?"   one question, one answer with its sources
  git diff | nanobot "review this"         what comes in through the pipe is the context
  nanobot -m "..." --json                  one JSON object instead of text
  nanobot agent --continue                 go on where you stopped
  nanobot gateway                          answer on Telegram

exit codes: 0 answered, 1 failed, 2 wrong usage or configuration, 75 try again later, 124 time limit, 130 interrupted
"""
_SPENT = "show what was spent, by what, and what of the budget that is"
#: Options of the top level that take a value, so that the first plain word can be found behind them.
_WITH_VALUE = frozenset(
    "-m --message -r --session --model --config --workspace --color --timeout --record --role".split()
)


#: The commands that take words of people: what each is for, and its words.
_KEPT = {
    "people": (
        "show who may talk on Telegram and what each may do, or change it",
        "grant WHO files, take WHO files, remove WHO, or invite [user|guest]; nothing: everybody",
    ),
    "schedule": (
        "show what comes at set times, add or change it",
        "list; add WHEN WHAT; do WHEN TASK; pause, resume, run or remove a NUMBER; quiet 22-7; nothing: list",
    ),
    "watch": (
        "show what is watched and tells when it changes, add or change it",
        "list; add WHAT [§ PART] [every …]; pause, resume, run or remove a NUMBER; history; nothing: list",
    ),
}


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
    serve = "answer on Telegram until stopped"
    gateway = commands.add_parser("gateway", help=serve, description=serve, parents=[common])
    gateway.add_argument("--model", metavar="NAME", help="use this model instead of the configured one")
    roles, about = ("all", "poller", "worker"), "take messages in, answer them, or both (default); see gateway.ledger"
    gateway.add_argument("--role", choices=roles, help=about)
    shown = "see what nanobot does on a small web of its own: no key, no network, nothing kept"
    demo = commands.add_parser("demo", help=shown, description=f"{shown[0].upper()}{shown[1:]}.", parents=[common])
    actions.demo_options(demo)
    again = "repeat a recorded turn without a network"
    replay = commands.add_parser("replay", help=again, description=again, parents=[common])
    replay.add_argument("file", metavar="FILE", help="what `nanobot agent --record FILE` wrote")
    status = "show version, configuration, model, tools and sessions"
    commands.add_parser("status", help=status, description=status, parents=[common])
    well = "try everything that nanobot needs, and say what is wrong and what to do (exit code 1: warnings, 2: faults)"
    actions.doctor_options(commands.add_parser("doctor", help=well, description=well, parents=[common]))
    good = "show what you have allowed for good, or take it back"
    allowed = commands.add_parser(
        "permissions", help=good, description=f"{good[0].upper()}{good[1:]}.", parents=[common]
    )
    allowed.add_argument("action", nargs="?", choices=("list", "remove"), default="list", help="what to do")
    allowed.add_argument("id", nargs="?", default="", help="what to take back: an id of the list, or all")
    actions.usage_options(commands.add_parser("usage", help=_SPENT, description=_SPENT, parents=[common]))
    for name, (about, forms) in _KEPT.items():
        kept = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.", parents=[common])
        kept.add_argument("words", nargs="*", metavar="WORDS", help=forms)
    servers = "show, add, remove and try MCP servers"
    mcp = commands.add_parser("mcp", help=servers, description=f"{servers[0].upper()}{servers[1:]}.", parents=[common])
    actions.mcp_actions(mcp.add_subparsers(dest="mcp_action", metavar="ACTION", required=True))
    shelf = "show, add, remove and read folders of your documents"
    library = commands.add_parser(
        "library", help=shelf, description=f"{shelf[0].upper()}{shelf[1:]}.", parents=[common]
    )
    actions.library_actions(library.add_subparsers(dest="library_action", metavar="ACTION", required=True))
    known = "show, begin and check skills"
    skill = commands.add_parser("skill", help=known, description=f"{known[0].upper()}{known[1:]}.", parents=[common])
    actions.skill_actions(skill.add_subparsers(dest="skill_action", metavar="ACTION", required=True))
    look = "look at the configuration"
    config = commands.add_parser("config", help=look, description=f"{look[0].upper()}{look[1:]}.", parents=[common])
    actions.config_actions(config.add_subparsers(dest="config_action", metavar="ACTION", required=True))
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments. Without a command word it is `agent`. Raises `UsageError`."""
    parser = build_parser()
    return parser.parse_args(_with_command(list(argv)))


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


def _with_command(argv: list[str]) -> list[str]:
    kept = "usage people permissions schedule watch library skill"
    commands = tuple(f"agent gateway demo replay doctor status config mcp {kept}".split())
    if any(word in {"--version", "-h", "--help"} for word in argv[:1]):
        return argv
    place = _first_word(argv)
    if place is None:
        return ["agent", *argv]
    word = argv[place]
    if word in commands and argv[place:] not in (["config"], ["mcp"], ["library"], ["skill"]):
        return [word, *argv[:place], *argv[place + 1 :]] if place else argv
    if _first_word(argv[place + 1 :]) is None and (meant := WORDS.get(word.casefold())):
        if not meant.on_command_line():
            raise UsageError(f"There is no command {word!r}. {meant.says}")
        return [*meant.on_command_line(), *argv[:place], *argv[place + 1 :]]
    near = nearest(word, commands) if len(argv) == 1 and word.isalpha() and word.islower() else None
    if near and abs(len(near) - len(word)) <= 1:
        raise UsageError(f"There is no command {word!r}. Did you mean {near!r}? As a message: nanobot -m {word}")
    return ["agent", *argv]


def _first_word(argv: list[str]) -> int | None:
    """Where the first argument stands that is neither an option nor the value of one."""
    skip = False
    for place, word in enumerate(argv):
        if skip:
            skip = False
        elif word == "--":
            return place + 1 if place + 1 < len(argv) else None
        elif word in _WITH_VALUE:
            skip = True
        elif not word.startswith("-") or word == "-":
            return place
    return None
