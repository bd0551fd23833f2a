"""`/help`: the commands under a few headings, or what the documentation tells of one, of a topic, or of the keys."""

from collections.abc import Iterator, Mapping, Sequence

from nanobot.command.pages import page_of, short_form, topics, unwrapped
from nanobot.command.router import Command, CommandContext, CommandRouter
from nanobot.command.words import WORDS
from nanobot.utils.text import nearest
from nanobot.utils.translation import ENGLISH, N_, _, language, listed, sentences

#: Heading → the commands below it, in the order in which they are shown. Those of every day stand first.
GROUPS: Mapping[str, tuple[str, ...]] = {
    N_("Every day"): ("new", "stop", "status", "model", "sources", "undo", "schedule", "help"),
    N_("Talk"): (
        *("btw", "retry", "rewind", "branch", "compact", "copy"),
        *("sessions", "resume", "name", "export", "delete", "quit"),
    ),
    N_("Model and tools"): ("usage", "tools", "mcp", "hints", "streaming"),
    N_("Memory and library"): ("memory", "forget", "skills", "learn"),
    N_("Tasks and watches"): ("tasks", "watch"),
    N_("People and safety"): (
        *("whoami", "people", "invite", "pair", "group"),
        *("approve", "permissions", "trust", "privacy"),
    ),
    N_("Care"): ("doctor",),
}
#: What the keys of the terminal do, as its page has it.
KEYS = (
    N_("| key | what it does |"),
    N_("| Enter | sends; while a turn runs, the message is read at its next step |"),
    N_(
        "| Ctrl-J, Alt-Enter, Shift-Enter, or `\\` and Enter | a new line (Shift-Enter where the terminal reports it) |"
    ),
    N_("| Ctrl-S | sends what you typed, and what waits, now: the turn that runs is stopped |"),
    N_("| ↑ on an empty line while a message waits | takes it back to be changed |"),
    N_("| Tab | completes a `/command`, or a file after `@` |"),
    N_("| Ctrl-G | writes the message on in your editor (`VISUAL` or `EDITOR`) |"),
    N_("| Ctrl-O | prints the result of the last tool, which stands in one line; again: of the one before |"),
    N_("| Ctrl-V | brings the picture in the clipboard along (wl-paste, xclip or pngpaste) |"),
    N_("| ↑ ↓, Ctrl-R | earlier lines; search in them |"),
    N_("| Esc | stops the turn |"),
    N_("| Esc twice on an empty line | goes back in the conversation, as `/rewind` does |"),
    N_(
        "| ↑ ↓, PageUp, PageDown in a list (`/resume`, `/rewind`) | go through it; what you type narrows it "
        "down, Enter takes, Esc leaves |"
    ),
    N_("| Ctrl-Z | suspends nanobot; `fg` brings it back |"),
    N_(
        "| Ctrl-C | clears the line; else stops the turn; else, pressed twice within two seconds, leaves with "
        "exit code 130 |"
    ),
    N_("| Ctrl-D on an empty line, `/quit`, `exit` | leaves |"),
)
#: The heading of commands that plug-ins and channels have added.
_OTHERS = N_("More")
_CLOSING = N_("`/help <command>` tells more of one, `/help <topic>` shows a page, such as telegram or money.")
_FIRST = N_("What is not a command is a message to the agent.")


async def answer_help(ctx: CommandContext) -> None:
    """Show what the person may use here, or what is told of the words behind the command."""
    sender, address, router = ctx.message.sender, ctx.message.address, ctx.router
    offered = router.commands(sender.role, address.channel)
    if ctx.args:
        await ctx.reply(_about(ctx.args, router, offered))
        return
    keys = [_("- `/help keys` Show what the keys do")] if address.channel == "terminal" else []
    parts = [sentences(_("**Commands**."), _(_FIRST))]
    for heading, commands in grouped(offered):
        lines = [f"- `/{command.name}` {command.about}" for command in commands]
        parts.append("\n".join([f"**{_(heading)}**", "", *lines, *keys]))
        keys = []
    await ctx.reply("\n\n".join([*parts, _(_CLOSING)]))


def grouped(offered: Sequence[Command]) -> Iterator[tuple[str, list[Command]]]:
    """Every heading that has commands here, with them; what belongs to none stands last."""
    there = {command.name: command for command in offered}
    for heading, names in GROUPS.items():
        if found := [there.pop(name) for name in names if name in there]:
            yield heading, found
    if there:
        yield _OTHERS, list(there.values())


def _about(words: str, router: CommandRouter, offered: Sequence[Command]) -> str:
    """What the documentation tells of one command, or what a page of it is about."""
    name = words.split(maxsplit=1)[0].removeprefix("/").casefold()
    if name == "keys" and any(command.surfaces == "terminal" for command in offered):
        return _keys()
    match = router.match(f"/{name}")
    if match is None or match.command is None or match.command not in offered:
        if name in WORDS and WORDS[name].says:
            return WORDS[name].told
        if (about := page_of(words)) is not None:
            return short_form(about)
        no_such = _("There is no command /{name} here.", name=name)
        return sentences(no_such, _meant(name, offered), _("/help lists all commands."))
    return _told(match.command)


def _meant(name: str, offered: Sequence[Command]) -> str:
    """The command or page whose name is near, as a question; empty where none is."""
    if near := nearest(name, [command.name for command in offered]):
        return _("Did you mean /{near}?", near=near)
    topic = nearest(name, topics())
    return _("Did you mean the page {topic}: `/help {topic}`?", topic=topic) if topic else ""


def _told(command: Command) -> str:
    """How a command is written, its other names, and what the page of commands tells of it."""
    head = f"**/{command.name}** {command.usage}".rstrip()
    if command.aliases:
        head = _("{command} (also {others})", command=head, others=listed(f"`/{alias}`" for alias in command.aliases))
    page = topics().get("commands")
    if page is None or (language() != ENGLISH and page.parent.name != language()):
        more = sentences(_("{summary}.", summary=command.about), _("`nanobot help commands` tells more."))
        return f"{head}\n\n{command.about if page is None else more}"
    text = page.read_text(encoding="utf-8")
    told = text.partition(f"\n### /{command.name}\n")[2].partition("\n### ")[0].strip()
    return f"{head}\n\n{unwrapped(told) or command.about}"


def _keys() -> str:
    """The keys of the terminal as a table."""
    head, *rows = map(_, KEYS)
    return "\n".join([_("**Keys**"), "", head, "|---|---|", *rows])
