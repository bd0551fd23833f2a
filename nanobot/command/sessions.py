"""Commands for the conversations that are kept: `/sessions`, `/resume`, `/name`, `/export` and `/delete`.

Everybody sees their own. Those of a group are the owner's, who sees that group's alone there: others read along.
"""

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from nanobot.command.router import CommandContext
from nanobot.command.services import SessionArchive
from nanobot.errors import UsageError
from nanobot.session.listing import SessionEntry, SessionHolder, among, entries_of, entry_of, local
from nanobot.session.store import SessionStore
from nanobot.utils.text import one_line, shorten
from nanobot.utils.translation import N_, _, _n, sentences

if TYPE_CHECKING:
    from nanobot.library.session_search import FoundSessions

#: Sessions that a list names, that a picker offers, and characters of a name.
_LISTED, _OFFERED, _NAME = 15, 200, 60
_OURS = N_("The sessions of a group are for the owner, because all of its members are in them.")
_NONE = N_("There are no sessions yet. What is said here becomes the first one.")


async def list_sessions(ctx: CommandContext) -> None:
    """`/sessions`"""
    words = ctx.args.strip()
    everything = words.casefold() == "all"
    if words and not everything:
        await ctx.reply(await _search(ctx, words))
        return
    found = await entries_of(ctx.control.store, _holder(ctx), everything=everything)
    if not found:
        await ctx.reply(_(_NONE))
        return
    closing = _(
        "`/resume` goes back to one, `/sessions <words>` finds one by what was said, `/sessions all` shows single "
        "questions too."
    )
    await ctx.reply(listing(found, _LISTED, closing, ctx.control.midnight().tzinfo))


def listing(found: Sequence[SessionEntry], most: int, closing: str, zone: tzinfo | None) -> str:
    """The newest of these sessions, as Markdown."""
    lines, older = [line_of(one, zone) for one in found[:most]], len(found) - most
    shown = _n("{number} older one is found by its words.", "{number} older ones are found by their words.", older)
    more = shown if older > 0 else ""
    return "\n".join([_("**Sessions**, newest first"), "", *lines, "", sentences(more, closing)])


async def _search(ctx: CommandContext, words: str) -> str:
    holder = _holder(ctx)
    if ctx.services.memory is None:
        raise UsageError(_("There are no sessions here that could be searched."))
    found = await ctx.services.memory.find_sessions(holder, words)
    return await search_text(ctx.control.store, holder, found, words, ctx.control.midnight().tzinfo)


async def search_text(
    store: SessionStore, holder: SessionHolder, found: "FoundSessions", words: str, zone: tzinfo | None
) -> str:
    """The sessions that have these words and that their holder may see, with what was said, as Markdown."""
    seen = await among(store, holder, [one.info.id for one in found.sessions])
    lines: list[str] = []
    for one in [one for one in found.sessions if one.info.id in seen][:_LISTED]:
        lines.append(line_of(seen[one.info.id], zone))
        if one.said_at is not None:
            when, more = local(one.said_at, zone), one.passages - 1
            said = _("  {when}, {who}: “{quote}”", when=when, who=one.speaker, quote=one_line(one.quote))
            lines.append(_("{passage} (and {number} more)", passage=said, number=more) if more > 0 else said)
    rest = [] if found.complete else ["", _("Not everything that was said is in the index yet; ask again in a minute.")]
    if not lines:
        return "\n".join([_("No session has these words."), *rest])
    return "\n".join([_("**Sessions** with: {words}", words=shorten(words, _NAME)), "", *lines, *rest])


async def resume(ctx: CommandContext) -> None:
    """`/resume`"""
    ctx.change_what_all_share()
    entry = await _chosen(ctx, ctx.args.strip(), _("Go back to which session?"))
    if entry is None:
        await ctx.reply(_("You stay where you are."))
        return
    await ctx.control.cancel(ctx.key)
    info = await ctx.control.store.resume(ctx.key, entry.info.id)
    back = _("Back in session {session}.", session=line_of(entry, ctx.control.midnight().tzinfo)[2:])
    # A group does not read again what was said: some of it may have been said elsewhere.
    said = await ctx.control.recap(info.id, ctx.message.sender.role) if ctx.message.direct else ""
    await ctx.reply(f"{back}\n\n{said}" if said else back)


async def name(ctx: CommandContext) -> None:
    """`/name`"""
    ctx.change_what_all_share()
    first, rest = [*ctx.args.strip().split(maxsplit=1), "", ""][:2]
    named = bool(rest) and first in await among(ctx.control.store, _holder(ctx), [first])
    session = first if named else (await ctx.control.store.current(ctx.key)).id
    title = one_line(rest if named else ctx.args, _NAME)
    if not title:
        raise UsageError(_("Write the name behind it: `/name tides in Brest`, or `/name <id> tides in Brest`."))
    await ctx.control.store.rename(session, title)
    await ctx.reply(_("Session `{session}` is called “{title}” now.", session=session, title=title))


async def export(ctx: CommandContext) -> None:
    """`/export`"""
    ctx.change_what_all_share()
    words = ctx.args.split()
    form = words.pop() if words and words[-1].casefold().lstrip(".") in ("md", "markdown", "jsonl", "html") else "md"
    entry = await _meant(ctx, " ".join(words))
    await ctx.reply(await _kept(ctx).export(ctx.message, entry, form))


async def delete(ctx: CommandContext) -> None:
    """`/delete`"""
    ctx.change_what_all_share()
    kept = _kept(ctx)
    entry = await _meant(ctx, ctx.args.strip())
    # A chat keeps what a button stood under, so that no words of the session stand there.
    said, when = entry.info.messages, local(entry.info.updated_at, ctx.control.midnight().tzinfo)
    count = _("{number} messages, the last one {when} ({id})", number=said, when=when, id=entry.info.id)
    told = _plain(ctx, entry) if ctx.message.address.channel == "terminal" else count
    sure = _("Delete this session for good?\n{told}\nIt cannot be brought back.", told=told)
    if await ctx.control.offer(ctx.message, sure, (_("Keep it"), _("Delete it"))) != 2:
        await ctx.reply(_("It is kept."))
        return
    await ctx.reply(await kept.delete(entry))


def _kept(ctx: CommandContext) -> SessionArchive:
    if ctx.services.sessions is None:
        raise UsageError(_("Nothing of this conversation is kept, so there is nothing to export or to delete."))
    return ctx.services.sessions()


def _holder(ctx: CommandContext) -> SessionHolder:
    """Whose sessions this person may see here. Raises `UsageError` for a member of a group."""
    owner = ctx.message.sender.role == "owner"
    if not ctx.message.direct:
        if not owner:
            raise UsageError(_(_OURS))
        return SessionHolder("", ctx.key)
    person = ctx.message.person
    return SessionHolder("", before=person) if owner else SessionHolder(person)


async def _meant(ctx: CommandContext, wanted: str) -> SessionEntry:
    """The session that is named, or the one of this chat."""
    if not wanted:
        current = await ctx.control.store.current(ctx.key)
        if not current.messages:
            raise UsageError(_("Nothing was said in this session yet. `/sessions` lists the others with their ids."))
        wanted = current.id
    return await entry_of(ctx.control.store, _holder(ctx), wanted)


async def _chosen(ctx: CommandContext, wanted: str, question: str) -> SessionEntry | None:
    """The session that is named, or chosen from a picker; None where nothing is chosen."""
    holder = _holder(ctx)
    if wanted:
        return await entry_of(ctx.control.store, holder, wanted)
    found = await entries_of(ctx.control.store, holder, limit=_OFFERED)
    if not found:
        raise UsageError(_(_NONE))
    number = await ctx.control.offer(ctx.message, question, tuple(_plain(ctx, one) for one in found), picker=True)
    return found[number - 1] if 0 < number <= len(found) else None


def _plain(ctx: CommandContext, entry: SessionEntry) -> str:
    return f"{entry.line(ctx.control.midnight().tzinfo)} · {entry.info.id}"


def line_of(entry: SessionEntry, zone: tzinfo | None) -> str:
    """A session in a list."""
    return f"- `{entry.info.id}` {entry.line(zone)}"
