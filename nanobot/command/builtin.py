"""The commands that every surface has: what they do and what they reply."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from nanobot.bus.events import InboundMessage, Role
from nanobot.command.router import Command, CommandContext, CommandRouter, TurnControl
from nanobot.command.servers import ServerControl, mcp_command
from nanobot.command.settings import CHOICES, ChatSettings, SettingName
from nanobot.command.tool_groups import tool_groups
from nanobot.command.words import ROLES
from nanobot.errors import UsageError
from nanobot.session.permissions import Permissions, told
from nanobot.utils.marks import passages
from nanobot.utils.translation import N_, _, either, listed, sentences

if TYPE_CHECKING:
    from nanobot.command.sessions import SessionArchive
    from nanobot.schedule.appointments import Appointments
    from nanobot.skills.shelf import SkillShelf

_OWNER: frozenset[Role] = frozenset({"owner"})
_EVERYONE: frozenset[Role] = frozenset({"owner", "user", "guest"})
_PEOPLE = "[grant|take|remove <who> … | <who> cap <USD>]"  # English: it is typed
_ALONE_HERE = N_("Nobody else can talk to this nanobot: no chat is set up. `nanobot gateway` tells how.")
_IN_PRIVATE = N_("This is for you alone. Write it in your own chat with me.")
_TITLES: Mapping[SettingName, str] = {
    "privacy": N_("Privacy"),
    "hints": N_("Hints"),
    "streaming": N_("Streaming"),
}
_SUMMARIES: Mapping[SettingName, str] = {
    "privacy": N_("Keep pages and speech away from services that read them elsewhere"),
    "hints": N_("Show or hide what is done while it works"),
    "streaming": N_("Show the answer while it is written, or when it is done"),
}
_SCHEDULE = "[when and what | do … | pause|resume|run|remove <number> | quiet 22-7]"  # English: it is typed
_WATCH = "[<address> [§ part] [every …] | pause|resume|run|remove <number> | history]"  # English: it is typed
_REMOVE = "[remove <id>]"
_COPIED = "[code|<number>]"
_SPENT = "[today|week|month] [by day|model|chat|person|cause] | raise <USD> | estimate <pages>"  # English: it is typed


class People(Protocol):
    """Who may talk in chats, for the commands of the owner. Both raise `UsageError`."""

    async def people(self, words: str, running: TurnControl | None) -> str:
        """What became of `/people WORDS`, as Markdown; `running` is where people's turns run, if that is here."""

    async def invite(self, words: str, *, drawn: bool) -> str:
        """A link for a `user` or a `guest`, as Markdown; `drawn`: also as a code to scan."""


class WatchesOf(Protocol):
    """What `/watch` asks: what becomes of its words. Raises `NanobotError`."""

    async def say(self, message: InboundMessage, text: str) -> str: ...


def builtin_router(
    bot_name: str = "",
    *,
    settings: ChatSettings | None = None,
    people: Callable[[], People] | None = None,
    servers: ServerControl | None = None,
    appointments: "Callable[[], Appointments] | None" = None,
    skills: "Callable[[], SkillShelf] | None" = None,
    watches: Callable[[], WatchesOf] | None = None,
    sessions: "Callable[[], SessionArchive] | None" = None,
    doctor: Callable[[bool], Awaitable[str]] | None = None,
) -> CommandRouter:
    """A router with every command. Without `settings` what people set for a chat lives as long as the process; without
    `people` no chat lets in anybody else, without `appointments` nothing comes later. `doctor` tries everything."""
    router = CommandRouter((), bot_name)

    async def show_help(ctx: CommandContext) -> None:
        from nanobot.command.help import answer_help

        await answer_help(ctx, router)

    for command in (
        Command("help", N_("Show the commands, or tell more of one"), show_help, "[topic]", ("start",), _EVERYONE),
        Command("status", N_("Show model, context, tokens, tools and search allowance"), _status),
        _doctor_command(doctor),
        Command("new", N_("Start a fresh session and keep the old one"), _new, ordered=True),
        Command("stop", N_("Stop what is running"), _stop, aliases=("cancel",), roles=_EVERYONE),
        Command("approve", N_("Answer a question"), _approve, "<id> <choice> [text]", roles=_OWNER),
        Command(
            "permissions", N_("Show what is allowed for good, or take it back"), _permissions, _REMOVE, roles=_OWNER
        ),
        Command("model", N_("Show the model, or use another one"), _model, "[name]", ordered=True),
        *_session_commands(sessions),
        *_conversation_commands(),
        Command("sources", N_("Show what the last answer rests on"), _sources, "[number]"),
        *_FILES,
        *_MEMORY,
        *_WORK,
        mcp_command(servers),
        *_kept_commands(appointments, skills, watches),
        Command("usage", N_("Show tokens, money and searches, and what may be spent"), _usage, _SPENT),
        *_people_commands(people),
        *(_setting(name, settings or ChatSettings()) for name in _SUMMARIES),
        *_AT_A_TERMINAL,
    ):
        router.add(command)
    return router


def _session_commands(archive: "Callable[[], SessionArchive] | None") -> tuple[Command, ...]:
    """The commands for sessions that are kept, whose module is loaded by who uses one."""

    def later(name: str) -> Callable[[CommandContext], Awaitable[None]]:
        async def run(ctx: CommandContext) -> None:
            from nanobot.command.sessions import SESSION_HANDLERS

            await SESSION_HANDLERS[name](ctx, archive)

        return run

    told = (
        ("sessions", N_("List your sessions, or find one by what was said in it"), "[words|all]"),
        ("resume", N_("Go back to an earlier session"), "[id]"),
        ("name", N_("Name this session"), "[id] <name>"),
        ("export", N_("Put a session into a file: Markdown, HTML or JSON lines"), "[id] [md|html|jsonl]"),
        ("delete", N_("Delete a session for good"), "[id]"),
    )
    return tuple(Command(name, text, later(name), usage, ordered=name == "resume") for name, text, usage in told)


def _doctor_command(examine: Callable[[bool], Awaitable[str]] | None) -> Command:
    """What tries everything; with True it puts right first what is safe."""

    async def run(ctx: CommandContext) -> None:
        wanted = ctx.args.strip().casefold()
        if not ctx.for_owner_alone:
            raise UsageError(_(_IN_PRIVATE))
        if examine is None:
            raise UsageError(_("`nanobot doctor` in a shell tries everything."))
        if wanted not in {"", "fix"}:
            raise UsageError(_("`/doctor` tries everything; `/doctor fix` puts right first what is safe."))
        await ctx.reply(_("Trying everything that I need; this takes up to ten seconds."))
        await ctx.reply(await examine(wanted == "fix"))

    return Command("doctor", N_("Try everything that I need, and say what is wrong"), run, "[fix]", roles=_OWNER)


def _conversation_commands() -> tuple[Command, ...]:
    """The commands for long conversations, whose module is loaded by who uses one."""

    def later(name: str) -> Callable[[CommandContext], Awaitable[None]]:
        async def run(ctx: CommandContext) -> None:
            from nanobot.command.conversations import HANDLERS

            await HANDLERS[name](ctx)

        return run

    told = (
        ("compact", N_("Sum up the earlier conversation, so that there is room"), "[what matters]"),
        ("branch", N_("Go on in a copy of this conversation, and keep this one"), "[name]"),
        ("rewind", N_("Go back to before an earlier question"), "[number] [talk|files|both]"),
        ("retry", N_("Ask the last question again"), ""),
        ("btw", N_("Ask beside the conversation, which keeps nothing of it"), "<question>"),
    )
    return tuple(Command(name, text, later(name), usage, ordered=name == "compact") for name, text, usage in told)


def _kept_commands(
    appointments: "Callable[[], Appointments] | None",
    skills: "Callable[[], SkillShelf] | None",
    watches: Callable[[], WatchesOf] | None,
) -> tuple[Command, ...]:
    """The commands for what the agent keeps for people: times, skills, and what is watched."""
    return _schedule_command(appointments), _watch_command(watches), *_skills_commands(skills)


def _people_commands(people: Callable[[], People] | None) -> tuple[Command, ...]:
    async def show_people(ctx: CommandContext) -> None:
        if people is None or not ctx.for_owner_alone:
            raise UsageError(_(_ALONE_HERE if people is None else _IN_PRIVATE))
        here = ctx.message.address.channel != "terminal"  # what runs in chats runs in the gateway
        await ctx.reply(await people().people(ctx.args, ctx.control if here else None))

    async def invite(ctx: CommandContext) -> None:
        if people is None or not ctx.for_owner_alone:
            raise UsageError(_(_ALONE_HERE if people is None else _IN_PRIVATE))
        await ctx.reply(await people().invite(ctx.args, drawn=ctx.message.address.channel == "terminal"))

    return (
        Command(
            "people", N_("Show who may talk and what each may do, or change it"), show_people, _PEOPLE, roles=_OWNER
        ),
        Command("invite", N_("Make a link that lets somebody in"), invite, "[user|guest]", roles=_OWNER),
        Command("whoami", N_("Show your id, your role and this chat"), _whoami, roles=_EVERYONE),
    )


def _schedule_command(appointments: "Callable[[], Appointments] | None") -> Command:
    async def schedule(ctx: CommandContext) -> None:
        if appointments is None:
            raise UsageError(_("Nothing is kept here after the end of this conversation, so nothing can be scheduled."))
        from nanobot.schedule.appointments import Who

        await ctx.reply(await appointments().say(ctx.args, Who.of(ctx.message)))

    summary = N_("Show what comes at set times, add or change it")
    return Command("schedule", summary, schedule, _SCHEDULE, aliases=("remind", "cron"))


def _skills_commands(skills: "Callable[[], SkillShelf] | None") -> tuple[Command, ...]:
    async def keep(ctx: CommandContext) -> None:
        if skills is None:
            raise UsageError(_("There are no skills here."))
        from nanobot.command.skills import learn

        await learn(ctx, skills())

    async def show(ctx: CommandContext) -> None:
        if skills is None:
            raise UsageError(_("There are no skills here."))
        from nanobot.command.skills import show_skills

        await show_skills(ctx, skills())

    summary = N_("Show what I have read how to do, or let such a text count")
    return (
        Command("skills", summary, show, "[<name> | trust <name>]", aliases=("skill",)),
        Command("learn", N_("Keep what worked in this conversation as a skill"), keep, "[what]", roles=_OWNER),
    )


def _watch_command(watches: Callable[[], WatchesOf] | None) -> Command:
    async def watch(ctx: CommandContext) -> None:
        if watches is None:
            raise UsageError(_("Nothing is kept here after the end of this conversation, so nothing can be watched."))
        await ctx.reply(await watches().say(ctx.message, ctx.args))

    return Command("watch", N_("Tell me when a page, feed, search, price or file changes"), watch, _WATCH)


async def _copy(_ctx: CommandContext) -> None:
    raise UsageError(_("The terminal does this by itself in an open conversation: `nanobot agent` begins one."))


_AT_A_TERMINAL = (
    Command("copy", N_("Put the last answer, or code of it, into the clipboard"), _copy, _COPIED, surfaces="terminal"),
    Command("quit", N_("Leave"), lambda ctx: ctx.reply(_("Bye.")), aliases=("exit",), surfaces="terminal"),
)


async def _status(ctx: CommandContext) -> None:
    first = await ctx.control.status(ctx.key, everything=ctx.for_owner_alone)
    await ctx.reply(first)
    if not ctx.for_owner_alone:
        return
    full = await ctx.control.status_full(ctx.key)
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


async def _model(ctx: CommandContext) -> None:
    from nanobot.command.models import choose_model

    await choose_model(ctx)


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
    await ctx.reply(await ctx.control.trust(ctx.message, ctx.args.strip().strip("`")))


async def _memory(ctx: CommandContext) -> None:
    _of_one_alone(ctx)
    await ctx.reply(await ctx.control.known(ctx.message, ctx.args.strip()))


async def _forget(ctx: CommandContext) -> None:
    _of_one_alone(ctx)
    await ctx.reply(await ctx.control.forget(ctx.message, ctx.args.strip()))


def _of_one_alone(ctx: CommandContext) -> None:
    if not ctx.message.direct:
        raise UsageError(_("What is noted of you is yours alone, and others read along here. Ask in your own chat."))


_MEMORY = (
    Command("memory", N_("Show what is noted of you, and where each line came from"), _memory, "[words]"),
    Command("forget", N_("Take something away that is noted of you"), _forget, "<number|words>"),
)


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


_FILES = (
    Command("undo", N_("Bring back what the last change of a file in this chat changed, or what was summed up"), _undo),
    Command("trust", N_("Count a file from outside as your own, or list such files"), _trust, "[file]", roles=_OWNER),
)
_WORK = (
    Command("tasks", N_("Show what runs in the background, or stop it"), _tasks, "[number] [stop]", aliases=("task",)),
    Command("tools", N_("Tell what I can do here, what is off, and why"), _tools),
)


def _setting(name: SettingName, settings: ChatSettings) -> Command:
    async def run(ctx: CommandContext) -> None:
        chat, wanted = ctx.key, ctx.args.strip().casefold()
        if wanted:
            ctx.change_what_all_share()
            await settings.set(chat, name, wanted)
        value = await settings.get(chat, name)
        others = [f"`/{name} {other}`" for other in CHOICES[name] if other != value]
        means = _(CHOICES[name][value])
        now = _("{setting}: **{value}**, {means}.", setting=_(_TITLES[name]), value=value, means=means)
        await ctx.reply(sentences(now, _("{commands} changes it for this chat.", commands=either(others))))

    usage = f"[{'|'.join(CHOICES[name])}]"
    return Command(name, _SUMMARIES[name], run, usage, surfaces="all" if name == "privacy" else "chat")


async def _usage(ctx: CommandContext) -> None:
    from nanobot.command.usage import answer_usage

    await answer_usage(ctx)


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
