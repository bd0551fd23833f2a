"""The words of the command line and its exit codes. Imports nothing heavy: `--help` and `--version` end here."""

import argparse
import signal
from collections.abc import Sequence
from typing import NoReturn

from nanobot import __version__
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


def seconds(text: str) -> float:
    """A time limit such as `90`, `90s`, `5m`."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    try:
        value = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no time limit; write seconds such as 90, or 5m")
    return value


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = _top()
    parser.add_argument("--version", action="version", version=f"nanobot {__version__}")
    common = _common()
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    about = "talk, or ask one question (the default)"
    agent = commands.add_parser("agent", help=about, parents=[common], epilog=_EPILOG, formatter_class=shape)
    _agent_options(agent)
    serve = "answer on Telegram until stopped"
    gateway = commands.add_parser("gateway", help=serve, description=serve, parents=[common])
    gateway.add_argument("--model", metavar="NAME", help="use this model instead of the configured one")
    roles, about = ("all", "poller", "worker"), "take messages in, answer them, or both (default); see gateway.ledger"
    gateway.add_argument("--role", choices=roles, help=about)
    shown = "see what nanobot does on a small web of its own: no key, no network, nothing kept"
    demo = commands.add_parser("demo", help=shown, description=f"{shown[0].upper()}{shown[1:]}.", parents=[common])
    _demo_options(demo)
    again = "repeat a recorded turn without a network"
    replay = commands.add_parser("replay", help=again, description=again, parents=[common])
    replay.add_argument("file", metavar="FILE", help="what `nanobot agent --record FILE` wrote")
    status = "show version, configuration, model, tools and sessions"
    commands.add_parser("status", help=status, description=status, parents=[common])
    good = "show what you have allowed for good, or take it back"
    allowed = commands.add_parser(
        "permissions", help=good, description=f"{good[0].upper()}{good[1:]}.", parents=[common]
    )
    allowed.add_argument("action", nargs="?", choices=("list", "remove"), default="list", help="what to do")
    allowed.add_argument("id", nargs="?", default="", help="what to take back: an id of the list, or all")
    _usage_options(commands.add_parser("usage", help=_SPENT, description=_SPENT, parents=[common]))
    for name, (about, forms) in _KEPT.items():
        kept = commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.", parents=[common])
        kept.add_argument("words", nargs="*", metavar="WORDS", help=forms)
    servers = "show, add, remove and try MCP servers"
    mcp = commands.add_parser("mcp", help=servers, description=f"{servers[0].upper()}{servers[1:]}.", parents=[common])
    _mcp_actions(mcp.add_subparsers(dest="mcp_action", metavar="ACTION", required=True))
    shelf = "show, add, remove and read folders of your documents"
    library = commands.add_parser(
        "library", help=shelf, description=f"{shelf[0].upper()}{shelf[1:]}.", parents=[common]
    )
    _library_actions(library.add_subparsers(dest="library_action", metavar="ACTION", required=True))
    known = "show, begin and check skills"
    skill = commands.add_parser("skill", help=known, description=f"{known[0].upper()}{known[1:]}.", parents=[common])
    _skill_actions(skill.add_subparsers(dest="skill_action", metavar="ACTION", required=True))
    look = "look at the configuration"
    config = commands.add_parser("config", help=look, description=f"{look[0].upper()}{look[1:]}.", parents=[common])
    _config_actions(config.add_subparsers(dest="config_action", metavar="ACTION", required=True))
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


def _config_actions(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    about = {
        "check": "say what is wrong in the configuration file (exit code 0: nothing, 1: warnings, 2: errors)",
        "path": "print where the configuration file is",
        "schema": "print the JSON Schema of the file, for editors",
        "show": "print the configuration in force, secrets hidden",
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    actions["path"].add_argument("--all", action="store_true", help="print every folder and file, with its name")
    actions["show"].add_argument("key", nargs="?", default="", help="show this key alone, such as tools.web.search")


def _mcp_actions(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    about = {
        "list": "show the MCP servers of the configuration",
        "add": "write an MCP server into the configuration",
        "remove": "take an MCP server out of the configuration",
        "login": "log in to an MCP server that wants it, in a browser",
        "test": "connect to the MCP servers and list their tools (exit code 1: one failed)",
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    add = actions["add"].add_argument
    add("name", metavar="NAME", help="what the server is called, such as files")
    add("words", nargs="+", metavar="WORD", help="its address, or behind -- its program and what that is given")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the program; may be repeated")
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help="a header for the address; the same")
    add("--sse", action="store_true", help="the address speaks SSE, the older way")
    for one in ("remove", "login"):
        actions[one].add_argument("name", metavar="NAME", help="the server")
    actions["test"].add_argument("name", nargs="?", default="", metavar="NAME", help="this server alone")


def _library_actions(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    about = {
        "list": "show the folders of the library",
        "add": "write a folder into the configuration and read it; Ctrl-C stops, and reading goes on later",
        "remove": "take a folder out of the configuration and the index; its files stay",
        "read": "read what is new or changed",
        "status": "show what was read, and which documents could not be",
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    for one in ("add", "remove"):
        actions[one].add_argument("folder", metavar="FOLDER", help="the folder, such as ~/Documents")
    actions["read"].add_argument("--quiet", action="store_true", help="say nothing, and give way to other programs")


def _skill_actions(words: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    about = {
        "list": "show the skills, and which of them count",
        "show": "print a skill; in a terminal, ask whether it counts",
        "new": "begin a skill in the workspace",
        "check": "say what is wrong with a skill, by its name or folder, or with all (exit code 1: something is)",
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    for one in ("show", "new"):
        actions[one].add_argument("name", metavar="NAME", help="the skill")
    actions["check"].add_argument("name", nargs="?", default="", metavar="NAME", help="this skill or folder alone")
    actions["new"].add_argument("words", nargs="*", metavar="WORD", help="what it does, and when it is of use")


def _agent_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="MESSAGE", help="ask this and leave; `-` reads it from standard input")
    add("-m", "--message", metavar="TEXT", help="the same, for texts that begin with a dash")
    add("--model", metavar="NAME", help="use this model instead of the configured one")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-r", "--session", metavar="ID", help="go on with this session; the start of its id is enough")
    which.add_argument("-c", "--continue", dest="go_on", action="store_true", help="go on with the last session")
    which.add_argument("--ephemeral", action="store_true", help="keep this conversation nowhere")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--stream-json", action="store_true", help="print one JSON object per event and line")
    add("--timeout", type=seconds, metavar="SECONDS", help="give up after this time with exit code 124")
    add("--record", metavar="FILE", help="write the turn into this new file, for `nanobot replay`; needs a message")
    _print_options(parser)


def _demo_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="QUESTION", help="ask this instead of the question of the demo")
    add("--chat", action="store_true", help="talk instead of asking one question")
    add("--model", metavar="NAME", help="use this model (default: one with a key in the environment, else lookup)")
    _print_options(parser)
    parser.set_defaults(session=None, go_on=False, ephemeral=True, json=False, stream_json=False)


def _usage_options(parser: argparse.ArgumentParser) -> None:
    forms = "today, week or month, by day, model, chat, person or cause; or raise USD, which allows more today"
    parser.add_argument("words", nargs="*", metavar="WORDS", help=forms)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _print_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--plain", action="store_true", help="plain lines: no colour, no live area, for screen readers")
    add("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")


def _with_command(argv: list[str]) -> list[str]:
    commands = tuple(
        "agent gateway demo replay status usage people permissions schedule watch config mcp library skill".split()
    )
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
