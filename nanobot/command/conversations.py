"""Commands for long conversations: `/compact`, `/branch`, `/rewind`, `/retry` and `/btw`.

Nothing that was said is deleted: what leaves the view stays in the session that was current before, for `/resume`.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo

from msgspec import Struct
from msgspec.structs import replace

from nanobot.bus.events import InboundMessage
from nanobot.command.router import CommandContext
from nanobot.errors import UsageError
from nanobot.messages import ROLES, Media, Role, Text, ToolMessage, UserMessage, least
from nanobot.security.trust import unwrap
from nanobot.session.listing import own_words
from nanobot.session.store import Branch, Record, SessionInfo, SessionStore
from nanobot.utils.text import one_line, shorten
from nanobot.utils.translation import N_, _, _n, sentences

#: Bytes of a conversation in which its last exchanges are looked for.
_LOOK_BACK = 2_000_000
#: Exchanges that /rewind offers, changes that it names, and characters of a line of either and of a title.
_OFFERED, _CHANGES, _LINE, _TITLE = 8, 12, 70, 60
_LEAVE = N_("Leave everything as it is")
_LEFT = N_("Everything is left as it is.")
_WHAT = {"talk": N_("The talk"), "files": N_("The files"), "both": N_("The talk and the files")}
_HOW = N_(
    "`/rewind` shows what was asked last, `/rewind 2 talk`, `/rewind 2 files` or `/rewind 2 both` names it at once."
)
_ALONE = N_("Files are yours alone, and others read along here. Here /rewind takes back the talk alone.")


class Exchange(Struct, frozen=True):
    """What a person said last or earlier, from the record `seq` on, and what the calls then really changed."""

    seq: int
    at: datetime
    question: UserMessage
    receipts: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        return own_words(self.question)


async def compact(ctx: CommandContext) -> None:
    """`/compact`"""
    ctx.change_what_all_share()
    ctx.hand_on(replace(ctx.message, content=ctx.args, context="", media=(), cause="compaction"))


async def branch(ctx: CommandContext) -> None:
    """`/branch`"""
    ctx.change_what_all_share()
    made = await ctx.control.store.branched(ctx.message.id)
    if made is None:
        parent = await _begun(ctx)
        title = one_line(ctx.args, _TITLE) or _title(parent)
        made = await ctx.control.branch(ctx.message, parent, title)
    said = _("You go on in {session}, which knows all that was said.", session=_named(made.info))
    await ctx.reply(sentences(said, _kept(made)))


async def retry(ctx: CommandContext) -> None:
    """`/retry`"""
    ctx.change_what_all_share()
    role = ctx.message.sender.role
    made = await ctx.control.store.branched(ctx.message.id)
    if made is None:
        parent = await _begun(ctx)
        last = await _last_exchanges(ctx.control.store, parent.id, role, most=1)
        if not last:
            raise UsageError(_("There is no question that could be asked again."))
        made = await ctx.control.branch(ctx.message, parent, parent.title, last[0].seq)
    asked = await _exchange_at(ctx.control.store, made.parent, made.before, role)
    if asked is None:
        raise UsageError(_("The last question cannot be read any more. Ask it again in your own words."))
    done = "; ".join(one_line(line, _LINE) for line in asked.receipts[:_CHANGES])
    note = (
        _("Asked again. What the last try did stays done: {done}. /undo takes files back.", done=done) if done else ""
    )
    ctx.hand_on(replace(_asked_again(ctx.message, asked), note=note))


async def btw(ctx: CommandContext) -> None:
    """`/btw`"""
    ctx.change_what_all_share()
    if not (ctx.args or ctx.message.media):
        raise UsageError(_("Write the question behind it: `/btw how far is that from here?`"))
    note = _("Beside the conversation: it keeps neither this question nor the answer.")
    ctx.hand_on(replace(ctx.message, content=ctx.args, aside=True, note=note))


async def rewind(ctx: CommandContext) -> None:
    """`/rewind`"""
    ctx.change_what_all_share()
    if made := await ctx.control.store.branched(ctx.message.id):
        await ctx.reply(_rewound(made))
        return
    parent = await _begun(ctx)
    found = await _last_exchanges(ctx.control.store, parent.id, ctx.message.sender.role, most=_OFFERED)
    if not found:
        raise UsageError(_("There is nothing to go back to yet."))
    number, what = _wish(ctx, len(found))
    if not number:
        zone = ctx.control.midnight().tzinfo
        choices = (*(_choice(one, zone) for one in found), _(_LEAVE))
        number = await ctx.control.offer(ctx.message, _("Go back to before which question?"), choices, picker=True)
    chosen = found[number - 1] if 0 < number <= len(found) else None
    changes = await _changes(ctx, chosen) if chosen is not None else ()
    if chosen is not None and (changes or what == "files"):
        what = await _confirmed(ctx, what, changes)
    if chosen is None or not (what or not changes):
        await ctx.reply(_(_LEFT))
        return
    await _go_back(ctx, parent, chosen, what or "talk")


async def _go_back(ctx: CommandContext, parent: SessionInfo, chosen: Exchange, what: str) -> None:
    """Take back what was chosen: the files first, because they may refuse."""
    await ctx.control.check_idle(ctx.key)
    if (await ctx.control.store.current(ctx.key)).id != parent.id:
        raise UsageError(_("Another session has become current meanwhile, so everything is left as it is."))
    said: list[str] = []
    if what != "talk" and ctx.services.files is not None:
        done = await ctx.services.files.undo_since(ctx.message, chosen.at)
        said += [f"- {line}" for line in done[:_CHANGES]]
        said += _more(len(done) - _CHANGES)
    if what != "files":
        made = await ctx.control.branch(ctx.message, parent, parent.title, chosen.seq)
        said = [_rewound(made), *([""] if said else []), *said]
    await ctx.reply("\n".join(said))


async def _begun(ctx: CommandContext) -> SessionInfo:
    """The current session, in which something was said and no turn runs now."""
    await ctx.control.check_idle(ctx.key)
    found = await ctx.control.store.current(ctx.key)
    if not found.messages:
        raise UsageError(_("Nothing was said in this session yet."))
    return found


async def _changes(ctx: CommandContext, chosen: Exchange) -> tuple[str, ...]:
    files = ctx.services.files if ctx.message.direct else None
    return await files.changes_since(ctx.message, chosen.at) if files is not None else ()


def _wish(ctx: CommandContext, count: int) -> tuple[int, str]:
    """The number of an exchange and what is to be taken back, as they are named behind the command; 0 and nothing."""
    number, what = 0, ""
    for word in ctx.args.casefold().split():
        if word.isdecimal() and 1 <= int(word) <= count:
            number = int(word)
        elif word in _WHAT:
            what = word
        else:
            raise UsageError(sentences(_("There is no {word!r} to go back to.", word=word), _(_HOW)))
    if what and what != "talk" and not ctx.message.direct:
        raise UsageError(_(_ALONE))
    return number, what


async def _confirmed(ctx: CommandContext, what: str, changes: Sequence[str]) -> str:
    """What the person wants taken back who sees which changes of files that means; empty for nothing."""
    if not changes:
        raise UsageError(_("No file was changed since then that could be taken back."))
    if what == "talk":
        return what
    lines = [f"- {one_line(line, _LINE)}" for line in changes[:_CHANGES]]
    lines += _more(len(changes) - _CHANGES)
    offered = (what,) if what else tuple(_WHAT)
    question = "\n".join([_asked(len(changes)), *lines])
    number = await ctx.control.offer(ctx.message, question, (*(_(_WHAT[one]) for one in offered), _(_LEAVE)))
    return offered[number - 1] if 0 < number <= len(offered) else ""


def _choice(exchange: Exchange, zone: tzinfo | None) -> str:
    """An exchange as a line that is told from every other one by its time."""
    done = len(exchange.receipts)
    said = f"{exchange.at.astimezone(zone):%H:%M:%S} {one_line(exchange.said, _LINE) or _('(no text)')}"
    return _("{question} ({done} done)", question=said, done=done) if done else said


def _rewound(made: Branch) -> str:
    return sentences(_("You are back before that question, in {session}.", session=_named(made.info)), _kept(made))


def _named(info: SessionInfo) -> str:
    if info.title:
        return _("session `{id}` {title}", id=info.id, title=info.title)
    return _("session `{id}`", id=info.id)


def _kept(made: Branch) -> str:
    return _("The one before is kept: `/resume {parent}`.", parent=made.parent)


def _title(parent: SessionInfo) -> str:
    return _("{title} (branch)", title=shorten(parent.title, _TITLE)) if parent.title else _("(branch)")


def _asked(changes: int) -> str:
    return _n(
        "Take back which? Since then {number} change of files was made in this chat:",
        "Take back which? Since then {number} changes of files were made in this chat:",
        changes,
    )


def _more(number: int) -> list[str]:
    return [_("- and {number} more", number=number)] if number > 0 else []


def _exchanges_of(records: Sequence[Record], role: Role) -> tuple[Exchange, ...]:
    """The exchanges of these records, the oldest first, that somebody of this role may see."""
    found: list[Exchange] = []
    for record in records:
        message = record.message
        if isinstance(message, UserMessage) and message.kind == "user":
            found.append(Exchange(record.seq, record.at, message))
        elif found and isinstance(message, ToolMessage) and message.receipt:
            last = found[-1]
            found[-1] = replace(last, receipts=(*last.receipts, *message.receipt.splitlines()))
    return tuple(one for one in found if ROLES.index(one.question.speaker) <= ROLES.index(role))


async def _last_exchanges(store: SessionStore, session_id: str, role: Role, *, most: int) -> tuple[Exchange, ...]:
    """The last exchanges that are shown of a session, the newest first."""
    records = await store.records(session_id, size=_LOOK_BACK)
    return _exchanges_of(records, role)[::-1][:most]


async def _exchange_at(store: SessionStore, session_id: str, seq: int, role: Role) -> Exchange | None:
    """The exchange that begins at a record of a session, whether it is still shown or not."""
    found = _exchanges_of(await store.transcript(session_id, after=seq - 1), role) if seq else ()
    return found[0] if found and found[0].seq == seq else None


def _asked_again(message: InboundMessage, exchange: Exchange) -> InboundMessage:
    """`message` with what was said in an exchange, and with no more rights than who said it had."""
    parts = exchange.question.content
    wrapped = [unwrap(part.text.strip()) for part in parts if isinstance(part, Text)]
    quoted = [one.text for one in wrapped if one is not None and one.source != "name"]
    role = least(exchange.question.speaker, message.sender.role)
    same = role == message.sender.role
    sender = message.sender if same else replace(message.sender, role=role, granted=())
    media = tuple(part for part in parts if isinstance(part, Media))
    return replace(message, sender=sender, content=exchange.said, media=media, context="\n\n".join(quoted))
