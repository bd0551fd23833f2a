"""The command line as a table: every command, what runs it, what it is for, and its words and options.

Imports nothing heavy. What each is for is translated where help is shown, and not at every start.
"""

import argparse
from collections.abc import Mapping
from typing import NamedTuple

from nanobot.utils.translation import N_, _


class Argument(NamedTuple):
    """A word or an option: its names, and what argparse is told of it."""

    names: tuple[str, ...]
    settings: Mapping[str, object]


#: Of the options of a tuple one may be given.
Arguments = tuple[Argument | tuple[Argument, ...], ...]


class CommandAction(NamedTuple):
    """One thing that a command does, such as `nanobot mcp add`."""

    about: str
    arguments: Arguments


class ShellCommand(NamedTuple):
    """A command. `run` is the function that runs it, as `module:name`, imported for this command alone.

    With `actions` one of them has to be named. `defaults` are what its namespace holds besides.
    """

    run: str
    about: str
    arguments: Arguments
    actions: Mapping[str, CommandAction]
    defaults: Mapping[str, object]


def _action(about: str, *arguments: Argument | tuple[Argument, ...]) -> CommandAction:
    return CommandAction(about, arguments)


def _command(
    run: str,
    about: str,
    *arguments: Argument | tuple[Argument, ...],
    actions: Mapping[str, CommandAction] | None = None,
    **defaults: object,
) -> ShellCommand:
    return ShellCommand(run, about, arguments, actions or {}, defaults)


def _word(name: str, about: str, **settings: object) -> Argument:
    return Argument((name,), {"help": about, **settings})


def _words(about: str, metavar: str = "WORDS", nargs: str = "*") -> Argument:
    return _word("words", about, metavar=metavar, nargs=nargs, type=text_of)


def text_of(word: str) -> str:
    """What of a word is text: bytes that are no UTF-8 can be kept nowhere."""
    return word.encode("utf-8", "ignore").decode()


def _perhaps(name: str, about: str, **settings: object) -> Argument:
    """A word that may be left out."""
    return _word(name, about, nargs="?", default="", **settings)


def _flag(name: str, about: str) -> Argument:
    return Argument((name,), {"help": about, "action": "store_true"})


def _option(name: str, metavar: str, about: str, **settings: object) -> Argument:
    return Argument((name,), {"help": about, "metavar": metavar, **settings})


def _several(name: str, metavar: str, about: str) -> Argument:
    return _option(name, metavar, about, action="append", default=[])


def seconds(text: str) -> float:
    """A time limit such as `90`, `90s`, `5m`."""
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
    try:
        value = float(text[:-1] if unit else text) * (unit or 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        said = _("{text!r} is no time limit; write seconds such as 90, or 5m", text=text)
        raise argparse.ArgumentTypeError(said)
    return value


def filled(text: str) -> str:
    """A value that is not empty, as one is of a variable of the shell that is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError(_("it is empty"))
    return text


_MODEL = _option("--model", "NAME", N_("use this model instead of the configured one"))
_PRINT = (
    _flag("--plain", N_("plain lines: no colour, no live area, for screen readers")),
    _word("--color", N_("colours (default: auto)"), choices=("auto", "always", "never"), default="auto"),
)
_JSON = _flag("--json", N_("print one JSON object"))
_YES = _flag("--yes", N_("do not ask"))
_KEY = _word("key", N_("the key, such as agents.defaults.model"), metavar="KEY")
_SERVER = _word("name", N_("the server"), metavar="NAME")
_FOLDER = _word("folder", N_("the folder, such as ~/Documents"), metavar="FOLDER", type=filled)
_SESSION = _word("id", N_("the session; the start of its id, or its name, is enough"), metavar="ID")
_SAID = _words(N_("what was said, or the name to give"), nargs="+")
_SKILL = _word("name", N_("the skill"), metavar="NAME")

_AGENT = (
    _words(N_("ask this and leave; `-` reads it from standard input"), metavar="MESSAGE"),
    Argument(
        ("-m", "--message"),
        {"metavar": "TEXT", "help": N_("the same, for texts that begin with a dash"), "type": text_of},
    ),
    _MODEL,
    (
        Argument(
            ("-r", "--session"),
            {"metavar": "ID", "help": N_("go on with this session; the start of its id is enough"), "type": filled},
        ),
        Argument(
            ("-c", "--continue"),
            {"dest": "go_on", "action": "store_true", "help": N_("go on with the last session")},
        ),
        _flag("--ephemeral", N_("keep this conversation nowhere")),
    ),
    _flag("--alone", N_("answer from this process, also where a gateway runs")),
    (_JSON, _flag("--stream-json", N_("print one JSON object per event and line"))),
    _option("--timeout", "SECONDS", N_("give up after this time with exit code 124"), type=seconds),
    _option(
        "--record", "FILE", N_("write the turn into this new file, for `nanobot replay`; needs a message"), type=filled
    ),
    *_PRINT,
)
_ONBOARD = (
    _flag("--yes", N_("ask nothing: take what is found, and keep what is set up already")),
    _option("--model", "NAME", N_("the model; alone, its name tells the provider")),
    _option("--provider", "NAME", N_("who serves it, such as anthropic, openrouter, ollama, custom")),
    _option("--api-key-env", "VARIABLE", N_("the environment variable that holds its key, which stays there")),
    _option("--api-base", "URL", N_("the address of a server of yours, such as http://192.168.1.5:8000/v1")),
    _flag("--no-model", N_("no model: search and quote")),
    _option("--telegram-token-env", "VARIABLE", N_("the environment variable that holds the token of your bot")),
    _option("--telegram-api-base", "URL", N_("the address of your own Bot API server")),
    _flag("--no-telegram", N_("no Telegram")),
    _option("--time-zone", "ZONE", N_("where you are, such as Europe/Berlin")),
    _flag("--untried", N_("write what the options say without trying it, as without a network")),
)
_DEMO = (
    _words(N_("ask this instead of the question of the demo"), metavar="QUESTION"),
    _flag("--chat", N_("talk instead of asking one question")),
    _option("--model", "NAME", N_("use this model (default: one with a key in the environment, else lookup)")),
    *_PRINT,
)
_GATEWAY = (
    _MODEL,
    _word(
        "--role",
        N_("take messages in, answer them, or both (default); see gateway.ledger"),
        choices=("all", "poller", "worker"),
    ),
    (
        _flag("--install", N_("set it up as a service of yours, and start it")),
        _flag("--uninstall", N_("stop the service and take it away; your files stay")),
    ),
    _flag("--dry-run", N_("with --install: only show what would be written")),
)
_DOCTOR = (
    _flag("--fix", N_("put right first what is safe: rights of files, old locks, a damaged index")),
    _flag("--quick", N_("only the checks, without the real question at the end")),
    _flag("--all", N_("show every check with what it found, also those that are well")),
    _flag("--send", N_("send the answer to that question to you on Telegram")),
    (_JSON, _option("--bundle", "FILE", N_("write a report for others, without secrets, into this new file"))),
)
_CONFIG = {
    "check": _action(N_("say what is wrong in the configuration file (exit code 0: nothing, 1: warnings, 2: errors)")),
    "path": _action(
        N_("print where the configuration file is"), _flag("--all", N_("print every folder and file, with its name"))
    ),
    "schema": _action(N_("print the JSON Schema of the file, for editors")),
    "show": _action(
        N_("print the configuration in force, secrets hidden"),
        _perhaps("key", N_("show this key alone, such as tools.web.search")),
    ),
    "get": _action(N_("print the value of one key that is in force"), _KEY),
    "set": _action(
        N_("write a key: its value as JSON or plain text; a secret is asked for without showing it"),
        _KEY,
        _word("value", N_("its value; a list may be several words"), nargs="*", metavar="VALUE"),
        _flag("--stdin", N_("read the value from standard input")),
    ),
    "unset": _action(N_("take a key out of the file, so that it has its default"), _KEY),
    "edit": _action(N_("open the file in $VISUAL or $EDITOR; it is saved when it is in order")),
}
_MCP = {
    "list": _action(N_("show the MCP servers of the configuration")),
    "add": _action(
        N_("write an MCP server into the configuration"),
        _word("name", N_("what the server is called, such as files"), metavar="NAME"),
        _words(N_("its address, or behind -- its program and what that is given"), metavar="WORD", nargs="+"),
        _several("--env", "NAME=VALUE", N_("a variable of the program; may be repeated")),
        _several("--header", "'NAME: VALUE'", N_("a header for the address; may be repeated")),
        _flag("--sse", N_("the address speaks SSE, the older way")),
    ),
    "remove": _action(N_("take an MCP server out of the configuration"), _SERVER),
    "login": _action(N_("log in to an MCP server that wants it, in a browser"), _SERVER),
    "test": _action(
        N_("connect to the MCP servers and list their tools (exit code 1: one failed)"),
        _perhaps("name", N_("this server alone"), metavar="NAME"),
    ),
}
_LIBRARY = {
    "list": _action(N_("show the folders of the library")),
    "add": _action(
        N_("write a folder into the configuration and read it; Ctrl-C stops, and reading goes on later"), _FOLDER
    ),
    "remove": _action(N_("take a folder out of the configuration and the index; its files stay"), _FOLDER),
    "read": _action(
        N_("read what is new or changed"), _flag("--quiet", N_("say nothing, and give way to other programs"))
    ),
    "status": _action(N_("show what was read, and which documents could not be")),
}
_SESSIONS = {
    "list": _action(
        N_("show your sessions, the newest first"), _flag("--all", N_("single questions and own work too"))
    ),
    "search": _action(N_("find sessions by what was said in them"), _SAID),
    "show": _action(N_("print a session with its sources and what was done"), _SESSION),
    "name": _action(N_("give a session a name"), _SESSION, _SAID),
    "export": _action(
        N_("print a session, or write it into a file, as Markdown, JSON lines or HTML"),
        _SESSION,
        _word("--format", N_("the form (default: that of the file, else md)"), choices=("md", "jsonl", "html")),
        Argument(("-o", "--output"), {"metavar": "FILE", "help": N_("write into this file instead of printing")}),
        _flag("--force", N_("replace the file where it is there already")),
    ),
    "delete": _action(N_("delete a session for good, with all its traces"), _SESSION, _YES),
}
_SKILLS = {
    "list": _action(N_("show the skills, and which of them count")),
    "show": _action(N_("print a skill; in a terminal, ask whether it counts"), _SKILL),
    "new": _action(
        N_("begin a skill in the workspace"),
        _SKILL,
        _words(N_("what it does, and when it is of use"), metavar="WORD"),
    ),
    "check": _action(
        N_("say what is wrong with a skill, by its name or folder, or with all (exit code 1: something is)"),
        _perhaps("name", N_("this skill or folder alone"), metavar="NAME"),
    ),
}
_IMPORT = (
    _perhaps("home", N_("hermes, openclaw, nanobot, or a folder (default: the one)"), metavar="HOME"),
    _option("--only", "KINDS", N_("config, files, sessions, schedules, skills; several with commas"), default=""),
    _flag("--secrets", N_("with --yes: keys and tokens too")),
    _YES,
    _flag("--dry-run", N_("show what would be taken, and take nothing")),
)
_UPDATE = (
    Argument(
        ("--from",),
        {
            "dest": "source",
            "default": "",
            "metavar": "PLACE",
            "help": N_("install this: a folder, a package, or what else pip takes (default: where this one came from)"),
        },
    ),
    _flag("--check", N_("only ask whether there is a newer one")),
    _YES,
)

#: Heading → the commands below it, in the order in which they are shown.
COMMANDS: Mapping[str, Mapping[str, ShellCommand]] = {
    N_("start"): {
        "agent": _command(
            "nanobot.cli.agent_command:run_agent", N_("talk, or ask one question (the default)"), *_AGENT
        ),
        "onboard": _command(
            "nanobot.cli.onboard.command:run_onboard",
            N_("set up a model, Telegram and your time zone, each tried at once"),
            *_ONBOARD,
        ),
        "demo": _command(
            "nanobot.cli.commands.demo:run_demo",
            N_("see what nanobot does on a small web of its own: no key, no network, nothing kept"),
            *_DEMO,
            session=None,
            go_on=False,
            ephemeral=True,
            json=False,
            stream_json=False,
        ),
        "gateway": _command("nanobot.cli.gateway:run_gateway", N_("answer on Telegram until stopped"), *_GATEWAY),
        "status": _command(
            "nanobot.cli.care.status:run_status",
            N_("show version, configuration, model, tools and sessions"),
            _flag(
                "--healthy",
                N_("only whether the gateway takes messages in, for health checks (exit code 1: it does not)"),
            ),
        ),
        "doctor": _command(
            "nanobot.cli.care.doctor:run_doctor",
            N_("try everything that nanobot needs, and say what to do (exit code 0: well, 1: warnings, 2: faults)"),
            *_DOCTOR,
        ),
        "help": _command(
            "nanobot.cli.commands.help:run_help",
            N_("show the commands, or a page of the documentation"),
            _words(N_("a page or a command, such as telegram"), metavar="TOPIC", nargs="+"),
        ),
    },
    N_("model and configuration"): {
        "config": _command(
            "nanobot.cli.care.config:run_config", N_("look at the configuration, or change it"), actions=_CONFIG
        ),
        "soul": _command(
            "nanobot.cli.commands.soul:run_soul",
            N_("open SOUL.md in your editor, or show what a new version brings"),
            _words(
                N_(
                    "edit, show or diff, and a file: SOUL.md, AGENTS.md, USER.md or memory/MEMORY.md; nothing: "
                    "edit SOUL.md"
                )
            ),
        ),
        "usage": _command(
            "nanobot.cli.commands.usage:run_usage",
            N_("show what was spent, by what, and what of the budget that is"),
            _words(
                N_("today, week or month, by day, model, chat, person or cause; or raise USD, which allows more today")
            ),
            _JSON,
        ),
        "mcp": _command("nanobot.cli.commands.mcp:run_mcp", N_("show, add, remove and try MCP servers"), actions=_MCP),
        "completion": _command(
            "nanobot.cli.commands.completion:run_completion",
            N_("print what lets a shell complete commands and options"),
            _word("shell", N_("the shell"), choices=("bash", "zsh", "fish")),
        ),
    },
    N_("memory and library"): {
        "sessions": _command(
            "nanobot.cli.commands.sessions:run_sessions",
            N_("list, search, show, name, export and delete your sessions"),
            actions=_SESSIONS,
        ),
        "library": _command(
            "nanobot.cli.commands.library:run_library",
            N_("show, add, remove and read folders of your documents"),
            actions=_LIBRARY,
        ),
        "skill": _command("nanobot.cli.commands.skill:run_skill", N_("show, begin and check skills"), actions=_SKILLS),
        "replay": _command(
            "nanobot.cli.commands.replay:run_replay",
            N_("repeat a recorded turn without a network"),
            _word("file", N_("what `nanobot agent --record FILE` wrote"), metavar="FILE"),
        ),
    },
    N_("tasks and watches"): {
        "schedule": _command(
            "nanobot.cli.commands.people:run_schedule",
            N_("show what comes at set times, add or change it"),
            _words(
                N_(
                    "list; add WHEN WHAT; do WHEN TASK; pause, resume, run or remove a NUMBER; quiet 22-7; "
                    "nothing: list"
                )
            ),
        ),
        "watch": _command(
            "nanobot.cli.commands.people:run_watch",
            N_("show what is watched and tells when it changes, add or change it"),
            _words(
                N_("list; add WHAT [§ PART] [every …]; pause, resume, run or remove a NUMBER; history; nothing: list")
            ),
        ),
    },
    N_("people and safety"): {
        "people": _command(
            "nanobot.cli.commands.people:run_people",
            N_("show who may talk on Telegram and what each may do, or change it"),
            _words(N_("grant WHO files, take WHO files, remove WHO, or invite [user|guest]; nothing: everybody")),
        ),
        "permissions": _command(
            "nanobot.cli.commands.people:run_permissions",
            N_("show what you have allowed for good, or take it back"),
            _word("action", N_("what to do"), nargs="?", choices=("list", "remove"), default="list"),
            _perhaps("id", N_("what to take back: an id of the list, or all")),
        ),
    },
    N_("care"): {
        "backup": _command(
            "nanobot.cli.care.backup:run_backup",
            N_("write all that nanobot keeps into one file"),
            _perhaps("target", N_("a new file, or a folder (default: backups in the home)"), metavar="PLACE"),
            _flag("--list", N_("show the backups that there are")),
            _flag("--nightly", N_("make that of a night, as a gateway does; the oldest ones go")),
        ),
        "restore": _command(
            "nanobot.cli.care.backup:run_restore",
            N_("put a backup in the place of what is here; that is set aside"),
            _perhaps("file", N_("the backup (default: shows which there are)"), metavar="FILE"),
            _YES,
        ),
        "update": _command(
            "nanobot.cli.care.update:run_update",
            N_("install a newer nanobot beside this one, try it, and switch to it"),
            *_UPDATE,
        ),
        "import": _command(
            "nanobot.cli.care.migrate:run_import", N_("take over what another program has kept"), *_IMPORT
        ),
    },
}
#: Every command by its name.
BY_NAME: Mapping[str, ShellCommand] = {name: one for group in COMMANDS.values() for name, one in group.items()}
