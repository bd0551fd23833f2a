"""Single words that people try at any program, and what they mean here: on the command line and in every chat.

None of them is searched for or sent to a model. Imports nothing heavy: the command line asks for it at every start.
"""

from collections.abc import Mapping
from typing import NamedTuple

from nanobot import __version__


class Word(NamedTuple):
    """`command` is the slash command that does it in a chat, `says` what is told where nothing does it.

    `arguments` do it on the command line; without them `says` is told there, and else the slash command is run in the
    last session. A word with neither `command` nor `says` is an ordinary message in a chat.
    """

    command: str = ""
    arguments: tuple[str, ...] = ()
    says: str = ""

    def on_command_line(self) -> tuple[str, ...]:
        """The arguments of `nanobot` that do what is meant; empty where there is only something to say."""
        if self.arguments or self.says:
            return self.arguments
        return ("agent", "--continue", "-m", f"/{self.command}")


_HELP = Word("help", ("--help",))
_MODEL = Word("model")
_SESSIONS = Word("sessions")
_USAGE = Word("usage", ("usage",))
_TOOLS = Word("tools")
_STOP = Word("stop", says="No turn runs in this terminal. Ctrl-C stops a running `nanobot`, the gateway too.")
_LEAVE = Word("quit", says="There is nothing to leave here. In a conversation, /quit and Ctrl-D leave.")
_SETUP = Word(
    says="Nothing has to be set up to begin: `nanobot demo` shows how it works, `nanobot` opens a conversation. For a "
    "model, put a key such as ANTHROPIC_API_KEY or OPENAI_API_KEY into the environment or into the file that `nanobot "
    "config path` names; `nanobot config check` says what is wrong in it. docs/quickstart.md has all steps."
)
_CHECK = Word("status", ("doctor",))
_KEYS = Word(
    says="There is no login. A key of a model's service goes into the environment, such as ANTHROPIC_API_KEY, or into "
    "providers.<name>.apiKey of the file that `nanobot config path` names; the token of a Telegram bot goes into "
    "channels.telegram.token."
)
_CONFIG = Word(
    arguments=("config", "--help"),
    says="The configuration is a file: `nanobot config path` says where, `nanobot config show` prints what is in "
    "force, `nanobot config check` says what is wrong in it.",
)
_UPDATE = Word(
    says="nanobot does not update itself. Bring your checkout up to date and install it as you did at first, with "
    "`pip install .` in its environment; sessions and configuration stay."
)
_MCP = Word("mcp", ("mcp", "list"))
_LIBRARY = Word(arguments=("library", "list"), says="`nanobot library list` shows the folders of your documents.")
_MEMORY = Word("memory")
_START = Word(says="`nanobot` opens a conversation here, `nanobot gateway` answers on Telegram until it is stopped.")
_SKILLS = Word("skills", ("skill", "list"))
_SCHEDULE = Word("schedule", ("schedule", "list"))
_FRESH = Word("", ("agent",), "/new starts a fresh session and keeps the old one.")

WORDS: Mapping[str, Word] = {
    **dict.fromkeys(("help", "help?", "?", "commands"), _HELP),
    "start": _HELP._replace(arguments=(), says=_START.says),
    "version": Word(arguments=("--version",), says=f"nanobot {__version__}"),
    "status": Word("status", ("status",)),
    **dict.fromkeys(("doctor", "diagnose", "diagnostics"), _CHECK),
    **dict.fromkeys(("onboard", "init", "setup", "install", "configure"), _SETUP),
    **dict.fromkeys(("login", "logout", "auth"), _KEYS),
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
    **dict.fromkeys(("new", "reset", "clear"), _FRESH),
    **dict.fromkeys(("exit", "quit", "q", ":q"), _LEAVE),
    "mcp": _MCP,
    **dict.fromkeys(("library", "documents"), _LIBRARY),
    "memory": _MEMORY,
    **dict.fromkeys(("skill", "skills"), _SKILLS),
    **dict.fromkeys(("schedule", "cron", "remind", "reminders", "appointments"), _SCHEDULE),
    "chat": Word(arguments=("agent",)),
    **dict.fromkeys(("run", "serve"), _START),
}


def word_of(text: str) -> str:
    """The word of the table that `text` is in a chat, in any case and with or without a full stop; else empty."""
    word = text.strip().casefold()
    known = word if word in WORDS else word.rstrip(".!")
    return known if known in WORDS and (WORDS[known].command or WORDS[known].says) else ""
