"""The words and options of each command of the command line. Imports nothing heavy, as `options` does not.

What each is for is translated where help is shown, and not at every start.
"""

import argparse
from typing import TypeAlias

from nanobot.utils.translation import N_, _

Actions: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - the only name it has


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


def config_actions(words: Actions) -> None:
    """What `nanobot config` does."""
    about = {
        "check": N_("say what is wrong in the configuration file (exit code 0: nothing, 1: warnings, 2: errors)"),
        "path": N_("print where the configuration file is"),
        "schema": N_("print the JSON Schema of the file, for editors"),
        "show": N_("print the configuration in force, secrets hidden"),
        "get": N_("print the value of one key that is in force"),
        "set": N_("write a key: its value as JSON or plain text; a secret is asked for without showing it"),
        "unset": N_("take a key out of the file, so that it has its default"),
        "edit": N_("open the file in $VISUAL or $EDITOR; it is saved when it is in order"),
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    actions["path"].add_argument("--all", action="store_true", help=N_("print every folder and file, with its name"))
    actions["show"].add_argument("key", nargs="?", default="", help=N_("show this key alone, such as tools.web.search"))
    for one in ("get", "set", "unset"):
        actions[one].add_argument("key", metavar="KEY", help=N_("the key, such as agents.defaults.model"))
    actions["set"].add_argument("value", nargs="*", metavar="VALUE", help=N_("its value; a list may be several words"))
    actions["set"].add_argument("--stdin", action="store_true", help=N_("read the value from standard input"))


def mcp_actions(words: Actions) -> None:
    """What `nanobot mcp` does."""
    about = {
        "list": N_("show the MCP servers of the configuration"),
        "add": N_("write an MCP server into the configuration"),
        "remove": N_("take an MCP server out of the configuration"),
        "login": N_("log in to an MCP server that wants it, in a browser"),
        "test": N_("connect to the MCP servers and list their tools (exit code 1: one failed)"),
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    add = actions["add"].add_argument
    add("name", metavar="NAME", help=N_("what the server is called, such as files"))
    add("words", nargs="+", metavar="WORD", help=N_("its address, or behind -- its program and what that is given"))
    add(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=N_("a variable of the program; may be repeated"),
    )
    add("--header", action="append", default=[], metavar="'NAME: VALUE'", help=N_("a header for the address; the same"))
    add("--sse", action="store_true", help=N_("the address speaks SSE, the older way"))
    for one in ("remove", "login"):
        actions[one].add_argument("name", metavar="NAME", help=N_("the server"))
    actions["test"].add_argument("name", nargs="?", default="", metavar="NAME", help=N_("this server alone"))


def library_actions(words: Actions) -> None:
    """What `nanobot library` does."""
    about = {
        "list": N_("show the folders of the library"),
        "add": N_("write a folder into the configuration and read it; Ctrl-C stops, and reading goes on later"),
        "remove": N_("take a folder out of the configuration and the index; its files stay"),
        "read": N_("read what is new or changed"),
        "status": N_("show what was read, and which documents could not be"),
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    for one in ("add", "remove"):
        actions[one].add_argument("folder", metavar="FOLDER", help=N_("the folder, such as ~/Documents"))
    actions["read"].add_argument("--quiet", action="store_true", help=N_("say nothing, and give way to other programs"))


def import_options(parser: argparse.ArgumentParser) -> None:
    """The home of another program."""
    add = parser.add_argument
    add(
        "home",
        nargs="?",
        default="",
        metavar="HOME",
        help=N_("hermes, openclaw, nanobot, or a folder (default: the one)"),
    )
    add(
        "--only",
        default="",
        metavar="KINDS",
        help=N_("config, files, sessions, schedules, skills; several with commas"),
    )
    add("--secrets", action="store_true", help=N_("with --yes: keys and tokens too"))
    add("--yes", action="store_true", help=N_("do not ask"))
    add("--dry-run", action="store_true", help=N_("show what would be taken, and take nothing"))


def sessions_actions(words: Actions) -> None:
    """What `nanobot sessions` does."""
    about = {
        "list": N_("show your sessions, the newest first"),
        "search": N_("find sessions by what was said in them"),
        "show": N_("print a session with its sources and what was done"),
        "name": N_("give a session a name"),
        "export": N_("print a session, or write it into a file, as Markdown, JSON lines or HTML"),
        "delete": N_("delete a session for good, with all its traces"),
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    actions["list"].add_argument("--all", action="store_true", help=N_("single questions and own work too"))
    for one in ("show", "name", "export", "delete"):
        actions[one].add_argument(
            "id", metavar="ID", help=N_("the session; the start of its id, or its name, is enough")
        )
    for one in ("search", "name"):
        actions[one].add_argument("words", nargs="+", metavar="WORDS", help=N_("what was said, or the name to give"))
    export = actions["export"].add_argument
    export("--format", choices=("md", "jsonl", "html"), help=N_("the form (default: that of the file, else md)"))
    export("-o", "--output", metavar="FILE", help=N_("write into this file instead of printing"))
    export("--force", action="store_true", help=N_("replace the file where it is there already"))
    actions["delete"].add_argument("--yes", action="store_true", help=N_("do not ask"))


def skill_actions(words: Actions) -> None:
    """What `nanobot skill` does."""
    about = {
        "list": N_("show the skills, and which of them count"),
        "show": N_("print a skill; in a terminal, ask whether it counts"),
        "new": N_("begin a skill in the workspace"),
        "check": N_("say what is wrong with a skill, by its name or folder, or with all (exit code 1: something is)"),
    }
    actions = {name: words.add_parser(name, help=said, description=said) for name, said in about.items()}
    for one in ("show", "new"):
        actions[one].add_argument("name", metavar="NAME", help=N_("the skill"))
    actions["check"].add_argument("name", nargs="?", default="", metavar="NAME", help=N_("this skill or folder alone"))
    actions["new"].add_argument("words", nargs="*", metavar="WORD", help=N_("what it does, and when it is of use"))


def agent_options(parser: argparse.ArgumentParser) -> None:
    """A conversation, or one question."""
    add = parser.add_argument
    add("words", nargs="*", metavar="MESSAGE", help=N_("ask this and leave; `-` reads it from standard input"))
    add("-m", "--message", metavar="TEXT", help=N_("the same, for texts that begin with a dash"))
    add("--model", metavar="NAME", help=N_("use this model instead of the configured one"))
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-r", "--session", metavar="ID", help=N_("go on with this session; the start of its id is enough")
    )
    which.add_argument("-c", "--continue", dest="go_on", action="store_true", help=N_("go on with the last session"))
    which.add_argument("--ephemeral", action="store_true", help=N_("keep this conversation nowhere"))
    add("--alone", action="store_true", help=N_("answer from this process, also where a gateway runs"))
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=N_("print one JSON object"))
    form.add_argument("--stream-json", action="store_true", help=N_("print one JSON object per event and line"))
    add("--timeout", type=seconds, metavar="SECONDS", help=N_("give up after this time with exit code 124"))
    add("--record", metavar="FILE", help=N_("write the turn into this new file, for `nanobot replay`; needs a message"))
    _print_options(parser)


def status_options(parser: argparse.ArgumentParser) -> None:
    """How it is."""
    about = N_("only whether the gateway takes messages in, for health checks (exit code 1: it does not)")
    parser.add_argument("--healthy", action="store_true", help=about)


def gateway_options(parser: argparse.ArgumentParser) -> None:
    """The service."""
    parser.add_argument("--model", metavar="NAME", help=N_("use this model instead of the configured one"))
    roles = ("all", "poller", "worker")
    about = N_("take messages in, answer them, or both (default); see gateway.ledger")
    parser.add_argument("--role", choices=roles, help=about)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--install", action="store_true", help=N_("set it up as a service of yours, and start it"))
    which.add_argument(
        "--uninstall", action="store_true", help=N_("stop the service and take it away; your files stay")
    )
    parser.add_argument("--dry-run", action="store_true", help=N_("with --install: only show what would be written"))


def replay_options(parser: argparse.ArgumentParser) -> None:
    """A recorded turn."""
    parser.add_argument("file", metavar="FILE", help=N_("what `nanobot agent --record FILE` wrote"))


def permissions_options(parser: argparse.ArgumentParser) -> None:
    """What is allowed for good."""
    parser.add_argument("action", nargs="?", choices=("list", "remove"), default="list", help=N_("what to do"))
    parser.add_argument("id", nargs="?", default="", help=N_("what to take back: an id of the list, or all"))


def people_options(parser: argparse.ArgumentParser) -> None:
    """Who may talk."""
    _words(parser, N_("grant WHO files, take WHO files, remove WHO, or invite [user|guest]; nothing: everybody"))


def schedule_options(parser: argparse.ArgumentParser) -> None:
    """What comes at set times."""
    _words(
        parser,
        N_("list; add WHEN WHAT; do WHEN TASK; pause, resume, run or remove a NUMBER; quiet 22-7; nothing: list"),
    )


def watch_options(parser: argparse.ArgumentParser) -> None:
    """What is watched."""
    _words(
        parser,
        N_("list; add WHAT [§ PART] [every …]; pause, resume, run or remove a NUMBER; history; nothing: list"),
    )


def _words(parser: argparse.ArgumentParser, forms: str) -> None:
    parser.add_argument("words", nargs="*", metavar="WORDS", help=forms)


def demo_options(parser: argparse.ArgumentParser) -> None:
    """A look at what nanobot does."""
    add = parser.add_argument
    add("words", nargs="*", metavar="QUESTION", help=N_("ask this instead of the question of the demo"))
    add("--chat", action="store_true", help=N_("talk instead of asking one question"))
    add("--model", metavar="NAME", help=N_("use this model (default: one with a key in the environment, else lookup)"))
    _print_options(parser)
    parser.set_defaults(session=None, go_on=False, ephemeral=True, json=False, stream_json=False)


def onboard_options(parser: argparse.ArgumentParser) -> None:
    """Setting nanobot up: each of these answers a question, so that it is not asked."""
    add = parser.add_argument
    add("--yes", action="store_true", help=N_("ask nothing: take what is found, and keep what is set up already"))
    add("--model", metavar="NAME", help=N_("the model; alone, its name tells the provider"))
    add("--provider", metavar="NAME", help=N_("who serves it, such as anthropic, openrouter, ollama, custom"))
    add("--api-key-env", metavar="VARIABLE", help=N_("the environment variable that holds its key, which stays there"))
    add("--api-base", metavar="URL", help=N_("the address of a server of yours, such as http://192.168.1.5:8000/v1"))
    add("--no-model", action="store_true", help=N_("no model: search and quote"))
    add(
        "--telegram-token-env", metavar="VARIABLE", help=N_("the environment variable that holds the token of your bot")
    )
    add("--telegram-api-base", metavar="URL", help=N_("the address of your own Bot API server"))
    add("--no-telegram", action="store_true", help=N_("no Telegram"))
    add("--time-zone", metavar="ZONE", help=N_("where you are, such as Europe/Berlin"))
    add("--untried", action="store_true", help=N_("write what the options say without trying it, as without a network"))


def help_options(parser: argparse.ArgumentParser) -> None:
    """A page of the documentation."""
    parser.add_argument("words", nargs="+", metavar="TOPIC", help=N_("a page or a command, such as telegram"))


def completion_options(parser: argparse.ArgumentParser) -> None:
    """Completion in shells."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help=N_("the shell"))


def usage_options(parser: argparse.ArgumentParser) -> None:
    """What was spent."""
    forms = N_("today, week or month, by day, model, chat, person or cause; or raise USD, which allows more today")
    parser.add_argument("words", nargs="*", metavar="WORDS", help=forms)
    parser.add_argument("--json", action="store_true", help=N_("print one JSON object"))


def _print_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--plain", action="store_true", help=N_("plain lines: no colour, no live area, for screen readers"))
    add("--color", choices=("auto", "always", "never"), default="auto", help=N_("colours (default: auto)"))


def doctor_options(parser: argparse.ArgumentParser) -> None:
    """What `nanobot doctor` takes."""
    add = parser.add_argument
    add(
        "--fix",
        action="store_true",
        help=N_("put right first what is safe: rights of files, old locks, a damaged index"),
    )
    add("--quick", action="store_true", help=N_("only the checks, without the real question at the end"))
    add("--all", action="store_true", help=N_("show every check with what it found, also those that are well"))
    add("--send", action="store_true", help=N_("send the answer to that question to you on Telegram"))
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=N_("print one JSON object"))
    form.add_argument(
        "--bundle", metavar="FILE", help=N_("write a report for others, without secrets, into this new file")
    )


def backup_options(parser: argparse.ArgumentParser) -> None:
    """A backup, by hand or of a night."""
    add = parser.add_argument
    add(
        "target",
        nargs="?",
        default="",
        metavar="PLACE",
        help=N_("a new file, or a folder (default: backups in the home)"),
    )
    add("--list", action="store_true", help=N_("show the backups that there are"))
    add("--nightly", action="store_true", help=N_("make that of a night, as a gateway does; the oldest ones go"))


def update_options(parser: argparse.ArgumentParser) -> None:
    """Another version."""
    about = N_("install this: a folder, a package, or what else pip takes (default: where this one came from)")
    parser.add_argument("--from", dest="source", default="", metavar="PLACE", help=about)
    parser.add_argument("--check", action="store_true", help=N_("only ask whether there is a newer one"))
    parser.add_argument("--yes", action="store_true", help=N_("do not ask"))


def restore_options(parser: argparse.ArgumentParser) -> None:
    """Taking a backup back."""
    parser.add_argument(
        "file", nargs="?", default="", metavar="FILE", help=N_("the backup (default: shows which there are)")
    )
    parser.add_argument("--yes", action="store_true", help=N_("do not ask"))


def soul_options(parser: argparse.ArgumentParser) -> None:
    """What `nanobot soul` takes."""
    forms = N_("edit, show or diff, and a file: SOUL.md, AGENTS.md, USER.md or memory/MEMORY.md; nothing: edit SOUL.md")
    parser.add_argument("words", nargs="*", metavar="WORDS", help=forms)
