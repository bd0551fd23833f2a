"""Words that people try at any program, and what they mean here: on the command line and in every chat. They are single
words, and pairs such as `gateway status` that are commands of programs of the same kind.

None of them is searched for or sent to a model. Imports nothing heavy: the command line asks for it at every start.
"""

from collections.abc import Mapping
from typing import NamedTuple

from nanobot import __version__
from nanobot.utils.translation import N_, _

#: What somebody may do, in a word.
ROLES: Mapping[str, str] = {"owner": N_("owner"), "user": N_("user"), "guest": N_("guest")}


class Word(NamedTuple):
    """`command` is the slash command that does it in a chat, `says` what is told where nothing does it.

    `arguments` do it on the command line; without them `says` is told there, and else the slash command is run in the
    last session. A word with neither `command` nor `says` is an ordinary message in a chat.
    """

    command: str = ""
    arguments: tuple[str, ...] = ()
    says: str = ""

    @property
    def told(self) -> str:
        """What it says in the language of whoever reads it."""
        return _(self.says)

    def on_command_line(self) -> tuple[str, ...]:
        """The arguments of `nanobot` that do what is meant; empty where there is only something to say."""
        if self.arguments or self.says:
            return self.arguments
        return ("agent", "--continue", "-m", f"/{self.command}")


_HELP = Word("help", ("--help",))
_MODEL = Word("model")
_CHOOSE = N_(
    "/model NAME takes another model in a conversation, `nanobot --model NAME` once, `nanobot onboard` for good."
)
_SESSIONS = Word("sessions", ("sessions", "list"))
_USAGE = Word("usage", ("usage",))
_TOOLS = Word("tools")
_STOP = Word("stop", says=N_("No turn runs in this terminal. Ctrl-C stops a running `nanobot`, the gateway too."))
_LEAVE = Word("quit", says=N_("There is nothing to leave here. In a conversation, /quit and Ctrl-D leave."))
_SETUP = Word(
    arguments=("onboard",),
    says=N_(
        "`nanobot onboard` in a shell sets up a model, Telegram and the time zone with three questions, "
        "also again later. Nothing has to be set up to begin: `nanobot` alone opens a conversation."
    ),
)
_CHECK = Word("doctor", ("doctor",))
_KEYS = Word(
    says=N_(
        "There is no login. `nanobot onboard` takes the key of a model's service and the token of a "
        "Telegram bot, and tries both. By hand, `nanobot config set providers.openai.apiKey` asks for "
        "one without showing it, and so does `nanobot config set channels.telegram.token`."
    )
)
_CONFIG = Word(
    arguments=("config", "--help"),
    says=N_(
        "The configuration is a file: `nanobot config edit` opens it, `nanobot config set KEY VALUE` "
        "changes one key, `nanobot config show` prints what is in force, `nanobot config check` says "
        "what is wrong in it. A running nanobot takes most changes with its next turn."
    ),
)
_UPDATE = Word(
    arguments=("update",),
    says=N_(
        "`nanobot update` in a shell asks whether there is a newer nanobot, makes a backup, tries the "
        "new one beside this one, and switches to it."
    ),
)
_MCP = Word("mcp", ("mcp", "list"))
_LIBRARY = Word(arguments=("library", "list"), says=N_("`nanobot library list` shows the folders of your documents."))
_MEMORY = Word("memory")
_START = Word(
    says=N_("`nanobot` opens a conversation here, `nanobot gateway` answers on Telegram until it is stopped.")
)
_SKILLS = Word("skills", ("skill", "list"))
_SCHEDULE = Word("schedule", ("schedule", "list"))
_CHANNELS = Word(
    "status",
    ("status",),
    N_("`nanobot status` says whether Telegram is set up and when it last answered; `nanobot onboard` sets it up."),
)
_GATEWAY = Word(
    says=N_(
        "The gateway is a program in a terminal: `nanobot gateway` starts it, Ctrl-C or `kill` with the "
        "process that `nanobot status` names stops it. To restart it, stop it and start it again; what "
        "waits is kept."
    )
)
_PEOPLE = Word("people", ("people",))
_PLUGINS = Word(
    says=N_(
        "Plugins are Python packages: install one beside nanobot with pip, and name it in "
        "plugins.enabled. `nanobot help plugins` tells more."
    )
)
_IN_A_SHELL = Word(says=N_("That is a command of a shell: `nanobot help commands` tells what it does."))
_AGENTS = Word(
    says=N_(
        "There is one agent here; it gives parts of its work to helpers by itself. `nanobot help "
        "helpers` tells more, SOUL.md in the workspace says who it is."
    )
)
_LOGS = Word(says=N_("The log is the file nanobot.log in the folder that `nanobot config path --all` names as logs."))
_IMPORT = Word(
    arguments=("import",),
    says=N_(
        "`nanobot import` takes over what hermes, openclaw or another program of the family has kept on this machine."
    ),
)
_COPY = Word(
    says=N_(
        "`nanobot backup` in a shell writes all that is kept into one file, `nanobot restore FILE` puts "
        "it back, also on another machine."
    )
)
_EXPORT = Word(
    "export",
    says=N_(
        "`nanobot sessions export ID` puts a conversation into a file; `nanobot sessions` lists them with their ids."
    ),
)
_UNINSTALL = Word(
    says=N_(
        "`pip uninstall nanobot` takes the program away. What it kept is in the folder that `nanobot config path "
        "--all` names as home: delete that too, if you want."
    )
)
_RESET = Word(
    "",
    says=N_(
        "/new in a conversation starts a fresh session and keeps the old one. What nanobot keeps is in the folder that "
        "`nanobot config path --all` names as home; nothing deletes it but you."
    ),
)
_PAGES = Word(
    says=N_(
        "nanobot has no page in the browser and opens no port. `nanobot` talks in the terminal, `nanobot "
        "gateway` on Telegram."
    )
)
_SOUL = Word(
    says=N_(
        "Who the agent is stands in SOUL.md of the workspace: `nanobot soul` opens it, and the next "
        "message knows what you changed."
    )
)
_APPOINT = Word(
    says=N_(
        "`nanobot schedule add WHEN WHAT` adds a reminder, `nanobot schedule do WHEN TASK` a task; "
        "pause, resume, run and remove take the number that `nanobot schedule list` shows."
    )
)
_FRESH = Word("", ("agent",), N_("/new starts a fresh session and keeps the old one."))

_LIST = ("list", "ls", "show", "status")
_CHANGE = ("add", "set", "remove", "rm", "delete", "enable", "disable", "install", "uninstall", "login", "logout")
#: Commands of two words of the family's programs: nouns, verbs, what is meant.
_PHRASES: tuple[tuple[tuple[str, ...], tuple[str, ...], Word], ...] = (
    (("gateway", "daemon", "service"), ("status", "health", "probe"), Word("status", ("status",))),
    (("gateway", "daemon", "service"), ("start", "run"), _GATEWAY._replace(arguments=("gateway",))),
    (("gateway", "daemon", "service"), ("stop", "restart", "install", "uninstall", "logs"), _GATEWAY),
    (("channel", "channels"), _LIST, _CHANNELS),
    (("channel", "channels"), _CHANGE, _CHANNELS._replace(command="", arguments=())),
    (("cron", "schedule"), (*_LIST, "jobs"), _SCHEDULE),
    (("cron",), ("add", "create", "remove", "rm", "edit", "enable", "disable", "run"), _APPOINT),
    (("session",), _LIST, _SESSIONS),
    (("model", "models"), _LIST, _MODEL),
    (("model", "models"), _CHANGE, _MODEL._replace(arguments=(), says=_CHOOSE)),
    (("provider", "providers", "auth"), (*_LIST, *_CHANGE), _KEYS),
    (("plugin", "plugins"), (*_LIST, *_CHANGE), _PLUGINS),
    (("agents",), (*_LIST, *_CHANGE), _AGENTS),
    (("skills",), _LIST, _SKILLS),
    (("tools",), _LIST, _TOOLS),
    (("memory",), (*_LIST, "search"), _MEMORY),
    (("pairing", "users"), (*_LIST, "approve", "add", "remove"), _PEOPLE),
    (("update",), ("check", "status"), _UPDATE._replace(arguments=("update", "--check"))),
    (("config",), ("list", "view"), Word(arguments=("config", "show"), says=_CONFIG.says)),
    (("logs",), ("tail", "follow"), _LOGS),
)

WORDS: Mapping[str, Word] = {
    **dict.fromkeys(("help", "help?", "?", "commands"), _HELP),
    "start": _HELP._replace(arguments=(), says=_START.says),
    "version": Word(arguments=("--version",), says=f"nanobot {__version__}"),
    "status": Word("status", ("status",)),
    **dict.fromkeys(("doctor", "diagnose", "diagnostics"), _CHECK),
    **dict.fromkeys(("onboard", "onboarding", "init", "setup", "install", "configure", "wizard"), _SETUP),
    **dict.fromkeys(("login", "logout", "auth", "provider", "providers"), _KEYS),
    **dict.fromkeys(("config", "settings"), _CONFIG),
    **dict.fromkeys(("update", "upgrade"), _UPDATE),
    **dict.fromkeys(("model", "models"), _MODEL),
    **dict.fromkeys(("session", "sessions", "history"), _SESSIONS),
    "resume": Word("resume", ("agent", "--continue")),
    "continue": Word(arguments=("agent", "--continue")),
    **dict.fromkeys(("tool", "tools"), _TOOLS),
    **dict.fromkeys(("usage", "cost", "costs", "tokens"), _USAGE),
    "whoami": Word("whoami"),
    **dict.fromkeys(("stop", "cancel", "abort"), _STOP),
    **dict.fromkeys(("new", "clear"), _FRESH),
    "reset": _RESET,
    **dict.fromkeys(("exit", "quit", "q", ":q"), _LEAVE),
    "mcp": _MCP,
    **dict.fromkeys(("library", "documents"), _LIBRARY),
    "memory": _MEMORY,
    **dict.fromkeys(("skill", "skills"), _SKILLS),
    **dict.fromkeys(("schedule", "cron", "remind", "reminders", "appointments"), _SCHEDULE),
    **dict.fromkeys(("chat", "tui"), Word(arguments=("agent",))),
    **dict.fromkeys(("run", "serve", "daemon"), _START),
    "gateway": _GATEWAY._replace(arguments=("gateway",)),
    **dict.fromkeys(("channel", "channels"), _CHANNELS),
    **dict.fromkeys(("people", "pairing", "pair", "unpair"), _PEOPLE),
    **dict.fromkeys(("plugin", "plugins"), _PLUGINS),
    **dict.fromkeys(("agents", "subagents"), _AGENTS),
    **dict.fromkeys(("log", "logs"), _LOGS),
    **dict.fromkeys(("backup", "restore"), _COPY),
    **dict.fromkeys(("import", "migrate"), _IMPORT),
    "export": _EXPORT,
    "uninstall": _UNINSTALL,
    **dict.fromkeys(("dashboard", "webui"), _PAGES),
    "soul": _SOUL,
    "restart": _GATEWAY,
    "agent": Word(says=_START.says),
    **dict.fromkeys(("demo", "replay", "completion"), _IN_A_SHELL),
    "watch": Word("watch", ("watch", "list")),
    "permissions": Word("permissions", ("permissions",)),
    **dict.fromkeys(("completions", "autocomplete"), Word(arguments=("completion", "--help"))),
    **{f"{noun} {verb}": word for nouns, verbs, word in _PHRASES for noun in nouns for verb in verbs},
}


def word_of(text: str) -> str:
    """What of the table `text` is in a chat, in any case and with or without a full stop; else empty."""
    word = " ".join(text.casefold().split())
    known = word if word in WORDS else word.rstrip(".!")
    return known if known in WORDS and (WORDS[known].command or WORDS[known].says) else ""
