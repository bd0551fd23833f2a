"""The commands that every surface has, and what the short ones of them do; the others have modules of their own."""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module

from nanobot.bus.events import Role
from nanobot.command.router import Command, CommandContext, CommandRouter
from nanobot.command.services import CommandServices, People, PersonsMemory
from nanobot.command.settings import CHOICES, SettingName
from nanobot.command.tool_groups import tool_groups
from nanobot.command.words import ROLES
from nanobot.errors import UsageError
from nanobot.session.permissions import Permissions, told
from nanobot.utils.marks import passages
from nanobot.utils.translation import N_, _, either, listed, sentences

_OWNER: frozenset[Role] = frozenset({"owner"})
_EVERYONE: frozenset[Role] = frozenset({"owner", "user", "guest"})
_ALONE_HERE = N_("Nobody else can talk to this nanobot: no chat is set up. `nanobot gateway` tells how.")
_IN_PRIVATE = N_("This is for you alone. Write it in your own chat with me.")
_TITLES: Mapping[SettingName, str] = {
    "privacy": N_("Privacy"),
    "hints": N_("Hints"),
    "streaming": N_("Streaming"),
}
_PEOPLE = "[grant|take|remove <who> … | <who> cap <USD>]"  # English: it is typed
_SCHEDULE = "[when and what | do … | pause|resume|run|remove <number> | quiet 22-7]"  # English: it is typed
_WATCH = "[<address> [§ part] [every …] | pause|resume|run|remove <number> | history]"  # English: it is typed
_SPENT = "[today|week|month] [by day|model|chat|person|cause] | raise <USD> | estimate <pages>"  # English: it is typed
_SERVERS = (  # English: it is typed
    "[reconnect <server> | login <server> | trust <server> | prompt <server> <name> [key=value …]]"
)


def builtin_router(services: CommandServices | None = None) -> CommandRouter:
    """A router with every command, which works with these services."""
    return CommandRouter(_COMMANDS, services)


def _later(entry: str) -> Callable[[CommandContext], Awaitable[None]]:
    """What `module:name` does, whose module is loaded by who uses it."""

    async def run(ctx: CommandContext) -> None:
        module, _mark, name = entry.partition(":")
        await getattr(import_module(module), name)(ctx)

    return run


async def _doctor(ctx: CommandContext) -> None:
    examine, wanted = ctx.services.doctor, ctx.args.strip().casefold()
    if not ctx.for_owner_alone:
        raise UsageError(_(_IN_PRIVATE))
    if examine is None:
        raise UsageError(_("`nanobot doctor` in a shell tries everything."))
    if wanted not in {"", "fix"}:
        raise UsageError(_("`/doctor` tries everything; `/doctor fix` puts right first what is safe."))
    await ctx.reply(_("Trying everything that I need; this takes up to ten seconds."))
    await ctx.reply(await examine(wanted == "fix"))


def _rights(ctx: CommandContext) -> People:
    people = ctx.services.people
    if people is None or not ctx.for_owner_alone:
        raise UsageError(_(_ALONE_HERE if people is None else _IN_PRIVATE))
    return people()


async def _people(ctx: CommandContext) -> None:
    here = ctx.message.address.channel != "terminal"  # what runs in chats runs in the gateway
    await ctx.reply(await _rights(ctx).people(ctx.args, ctx.control if here else None))


async def _invite(ctx: CommandContext) -> None:
    await ctx.reply(await _rights(ctx).invite(ctx.args, drawn=ctx.message.address.channel == "terminal"))


async def _schedule(ctx: CommandContext) -> None:
    if ctx.services.appointments is None:
        raise UsageError(_("Nothing is kept here after the end of this conversation, so nothing can be scheduled."))
    from nanobot.schedule.appointments import Who

    await ctx.reply(await ctx.services.appointments().say(ctx.args, Who.of(ctx.message)))


async def _watch(ctx: CommandContext) -> None:
    if ctx.services.watches is None:
        raise UsageError(_("Nothing is kept here after the end of this conversation, so nothing can be watched."))
    await ctx.reply(await ctx.services.watches().say(ctx.message, ctx.args))


async def _copy(_ctx: CommandContext) -> None:
    raise UsageError(_("The terminal does this by itself in an open conversation: `nanobot agent` begins one."))


async def _quit(ctx: CommandContext) -> None:
    await ctx.reply(_("Bye."))


async def _status(ctx: CommandContext) -> None:
    first = await ctx.control.status(ctx.key, everything=ctx.for_owner_alone)
    await ctx.reply(first)
    if not ctx.for_owner_alone:
        return
    full = await ctx.control.status(ctx.key, everything=True, ask=True)
    if full != first:
        await ctx.reply(full)


async def _new(ctx: CommandContext) -> None:
    ctx.change_what_all_share()
    old = await ctx.control.store.list(ctx.key)
    await ctx.control.cancel(ctx.key)
    info = await ctx.control.store.start(ctx.key)
    kept = _("The last one is kept: `/resume {id}`.", id=old[0].id) if old and old[0].messages else ""
    await ctx.reply(sentences(_("New session `{id}`.", id=info.id), kept))


async def _stop(ctx: CommandContext) -> None:
    await ctx.reply(await ctx.control.cancel(ctx.key, by=ctx.message.sender))


async def _approve(ctx: CommandContext) -> None:
    words = ctx.args.split(maxsplit=2)
    if len(words) < 2:
        raise UsageError(_("Name the question and the answer: `/approve <id> once|always|no [reason]`."))
    key, choice, text = words[0], words[1].casefold(), words[2] if len(words) > 2 else ""
    await ctx.reply(await ctx.control.approve(ctx.key, key, choice, text, anywhere=ctx.for_owner_alone))


async def _permissions(ctx: CommandContext) -> None:
    if not ctx.for_owner_alone:
        raise UsageError(_("Ask for this in private: it tells what you have allowed."))
    word, wanted = [*ctx.args.split(" ", 1), ""][:2]
    if ctx.args and (word.casefold() not in ("remove", "rm", "delete") or not wanted.strip()):
        raise UsageError(_("`/permissions` lists what is allowed for good, `/permissions remove <id>` takes one back."))
    await ctx.reply(await permissions_text(ctx.control.permissions, wanted.strip()))


async def permissions_text(permissions: Permissions, wanted: str = "") -> str:
    """What is allowed for good, as Markdown; with the id of one, or `all`, what was taken back."""
    gone = await permissions.take_back(wanted) if wanted else ()
    if gone:
        return "\n".join([_("**Taken back**, so that it is asked for again"), "", *told(gone)])
    kept = await permissions.all()
    if not kept:
        return _("Nothing is allowed for good. The answer `always` to a question allows exactly what it shows.")
    closing = _("`/permissions remove <id>` takes one back, `/permissions remove all` all of them.")
    return "\n".join([_("**Allowed for good**"), "", *told(kept), "", closing])


async def _sources(ctx: CommandContext) -> None:
    wanted = ctx.args.strip().strip("[]#?")
    if wanted and not wanted.isdecimal():
        raise UsageError(
            _("Name a source by the number of its mark: `/sources 2`. `/sources` alone shows all of them.")
        )
    citations = await ctx.control.citations(ctx.key)
    if not citations:
        await ctx.reply(_("The last answer of this session has no marks whose sources could be shown."))
        return
    text = passages(citations, int(wanted or 0))
    numbers = listed(f"[{number}]" for number in sorted({one.number for one in citations}))
    await ctx.reply(
        text or _("The last answer does not cite [{number}]. It cites {numbers}.", number=wanted, numbers=numbers)
    )


async def _undo(ctx: CommandContext) -> None:
    await ctx.reply(await ctx.control.undo(ctx.message))


async def _trust(ctx: CommandContext) -> None:
    if not ctx.for_owner_alone:
        raise UsageError(_("Files are yours alone, and others read along here. Ask in your own chat."))
    if ctx.services.files is None:
        raise UsageError(_("There are no files here."))
    await ctx.reply(await ctx.services.files.trust(ctx.message, ctx.args.strip().strip("`")))


async def _memory(ctx: CommandContext) -> None:
    await ctx.reply(await _memory_of_one(ctx).known(ctx.message, ctx.args.strip()))


async def _forget(ctx: CommandContext) -> None:
    await ctx.reply(await _memory_of_one(ctx).forget(ctx.message, ctx.args.strip()))


def _memory_of_one(ctx: CommandContext) -> PersonsMemory:
    if not ctx.message.direct:
        raise UsageError(_("What is noted of you is yours alone, and others read along here. Ask in your own chat."))
    if ctx.services.memory is None:
        raise UsageError(_("There is no memory here."))
    return ctx.services.memory


async def _tasks(ctx: CommandContext) -> None:
    number, word = [*ctx.args.strip().split(" ", 1), ""][:2]
    word = word.strip().casefold()
    if (number and not number.removeprefix("h").isdecimal()) or word not in ("", "stop"):
        raise UsageError(
            _("Name a task by its number: `/tasks 1`, or `/tasks h1` of a helper, shows it; `stop` ends it.")
        )
    if word:
        ctx.change_what_all_share()
    await ctx.reply(await ctx.control.tasks(ctx.key, number, stop=bool(word)))


async def _tools(ctx: CommandContext) -> None:
    sender = ctx.message.sender
    found = ctx.control.tools(sender.role, frozenset(sender.granted), direct=ctx.message.direct, key=ctx.key)
    lines = [group.line for group in tool_groups(found)]
    closing = _("The model uses them by itself; ask in your own words.")
    await ctx.reply("\n".join([_("**Tools**"), "", *lines, "", closing]) if lines else _("No tools are offered."))


def _setting(name: SettingName) -> Callable[[CommandContext], Awaitable[None]]:
    """What shows and sets one of the settings of a chat."""

    async def run(ctx: CommandContext) -> None:
        chat, wanted, settings = ctx.key, ctx.args.strip().casefold(), ctx.services.settings
        if wanted:
            ctx.change_what_all_share()
            await settings.set(chat, name, wanted)
        value = await settings.get(chat, name)
        others = [f"`/{name} {other}`" for other in CHOICES[name] if other != value]
        means = _(CHOICES[name][value])
        now = _("{setting}: **{value}**, {means}.", setting=_(_TITLES[name]), value=value, means=means)
        await ctx.reply(sentences(now, _("{commands} changes it for this chat.", commands=either(others))))

    return run


async def _whoami(ctx: CommandContext) -> None:
    sender, address = ctx.message.sender, ctx.message.address
    who = _("id `{id}`, {role}", id=sender.id, role=_(ROLES[sender.role]))
    you = _("{name}, {who}", name=sender.name, who=who) if sender.name else who
    chat = (
        _("`{chat}`, topic `{topic}`", chat=address.chat, topic=address.thread)
        if address.thread
        else f"`{address.chat}`"
    )
    await ctx.reply(_("You: {you}.\nThis chat: {chat} on {channel}.", you=you, chat=chat, channel=address.channel))


#: Every command, in the order in which they are offered.
_COMMANDS = (
    Command(
        "help",
        N_("Show the commands, or tell more of one"),
        _later("nanobot.command.help:answer_help"),
        "[topic]",
        ("start",),
        _EVERYONE,
    ),
    Command("status", N_("Show model, context, tokens, tools and search allowance"), _status),
    Command("doctor", N_("Try everything that I need, and say what is wrong"), _doctor, "[fix]", roles=_OWNER),
    Command("new", N_("Start a fresh session and keep the old one"), _new, ordered=True),
    Command("stop", N_("Stop what is running"), _stop, aliases=("cancel",), roles=_EVERYONE),
    Command("approve", N_("Answer a question"), _approve, "<id> <choice> [text]", roles=_OWNER),
    Command(
        "permissions", N_("Show what is allowed for good, or take it back"), _permissions, "[remove <id>]", roles=_OWNER
    ),
    Command(
        "model",
        N_("Show the model, or use another one"),
        _later("nanobot.command.models:choose_model"),
        "[name]",
        ordered=True,
    ),
    Command(
        "sessions",
        N_("List your sessions, or find one by what was said in it"),
        _later("nanobot.command.sessions:list_sessions"),
        "[words|all]",
    ),
    Command(
        "resume", N_("Go back to an earlier session"), _later("nanobot.command.sessions:resume"), "[id]", ordered=True
    ),
    Command("name", N_("Name this session"), _later("nanobot.command.sessions:name"), "[id] <name>"),
    Command(
        "export",
        N_("Put a session into a file: Markdown, HTML or JSON lines"),
        _later("nanobot.command.sessions:export"),
        "[id] [md|html|jsonl]",
    ),
    Command("delete", N_("Delete a session for good"), _later("nanobot.command.sessions:delete"), "[id]"),
    Command(
        "compact",
        N_("Sum up the earlier conversation, so that there is room"),
        _later("nanobot.command.conversations:compact"),
        "[what matters]",
        ordered=True,
    ),
    Command(
        "branch",
        N_("Go on in a copy of this conversation, and keep this one"),
        _later("nanobot.command.conversations:branch"),
        "[name]",
    ),
    Command(
        "rewind",
        N_("Go back to before an earlier question"),
        _later("nanobot.command.conversations:rewind"),
        "[number] [talk|files|both]",
    ),
    Command("retry", N_("Ask the last question again"), _later("nanobot.command.conversations:retry")),
    Command(
        "btw",
        N_("Ask beside the conversation, which keeps nothing of it"),
        _later("nanobot.command.conversations:btw"),
        "<question>",
    ),
    Command("sources", N_("Show what the last answer rests on"), _sources, "[number]"),
    Command("undo", N_("Bring back what the last change of a file in this chat changed, or what was summed up"), _undo),
    Command("trust", N_("Count a file from outside as your own, or list such files"), _trust, "[file]", roles=_OWNER),
    Command("memory", N_("Show what is noted of you, and where each line came from"), _memory, "[words]"),
    Command("forget", N_("Take something away that is noted of you"), _forget, "<number|words>"),
    Command("tasks", N_("Show what runs in the background, or stop it"), _tasks, "[number] [stop]", aliases=("task",)),
    Command("tools", N_("Tell what I can do here, what is off, and why"), _tools),
    Command(
        "mcp",
        N_("Show the MCP servers, count what one says, log in, use a prompt"),
        _later("nanobot.command.servers:answer_mcp"),
        _SERVERS,
        roles=_OWNER,
    ),
    Command(
        "schedule",
        N_("Show what comes at set times, add or change it"),
        _schedule,
        _SCHEDULE,
        aliases=("remind", "cron"),
    ),
    Command("watch", N_("Tell me when a page, feed, search, price or file changes"), _watch, _WATCH),
    Command(
        "skills",
        N_("Show what I have read how to do, or let such a text count"),
        _later("nanobot.command.skills:show_skills"),
        "[<name> | trust <name>]",
        aliases=("skill",),
    ),
    Command(
        "learn",
        N_("Keep what worked in this conversation as a skill"),
        _later("nanobot.command.skills:learn"),
        "[what]",
        roles=_OWNER,
    ),
    Command(
        "usage",
        N_("Show tokens, money and searches, and what may be spent"),
        _later("nanobot.command.usage:answer_usage"),
        _SPENT,
    ),
    Command("people", N_("Show who may talk and what each may do, or change it"), _people, _PEOPLE, roles=_OWNER),
    Command("invite", N_("Make a link that lets somebody in"), _invite, "[user|guest]", roles=_OWNER),
    Command("whoami", N_("Show your id, your role and this chat"), _whoami, roles=_EVERYONE),
    Command(
        "privacy",
        N_("Keep pages and speech away from services that read them elsewhere"),
        _setting("privacy"),
        "[off|on]",
    ),
    Command(
        "hints", N_("Show or hide what is done while it works"), _setting("hints"), "[live|keep|off]", surfaces="chat"
    ),
    Command(
        "streaming",
        N_("Show the answer while it is written, or when it is done"),
        _setting("streaming"),
        "[edit|draft|off]",
        surfaces="chat",
    ),
    Command(
        "copy",
        N_("Put the last answer, or code of it, into the clipboard"),
        _copy,
        "[code|<number>]",
        surfaces="terminal",
    ),
    Command("quit", N_("Leave"), _quit, aliases=("exit",), surfaces="terminal"),
)
