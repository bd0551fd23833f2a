"""The conversations of a person as a list: whose each is, where it was, what it was about, what it has cost.

Nobody sees another person's: whoever asks is a `SessionHolder`, and there is no list without one.
"""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, tzinfo

from msgspec import Struct, convert

from nanobot.errors import StoreError, UsageError
from nanobot.messages import Role, Text, UserMessage, usd
from nanobot.security.trust import unwrap
from nanobot.session.codec import decode
from nanobot.session.database import Transaction
from nanobot.session.store import INFO, SessionInfo, SessionStore, too_many
from nanobot.utils.text import one_line, shorten, strip_unsafe
from nanobot.utils.translation import N_, _, _n

#: The owner of words of which nobody can tell whose they are.
NOBODY = "?"
#: Sessions that are looked through for a list, and the messages at either end of one in which its words are looked for.
_MOST, _NEAR = 500, 4
#: Characters of a title and of the last words.
_TITLE, _LAST = 50, 60
#: Where people speak, and where what they have asked for runs.
_SPOKEN = frozenset({"terminal", "telegram", "schedule"})
#: The beginnings of keys under which nanobot works by itself.
_OWN_WORK = frozenset({"helper", "schedule", "watch"})
#: First part of a key → the place of a conversation.
_PLACES = {
    "terminal": N_("terminal"),
    "schedule": N_("schedule"),
    "helper": N_("helper"),
    "watch": N_("watch"),
}
_LISTED = f"""
SELECT {INFO}, CAST(coalesce((SELECT sum(cost) FROM spending WHERE session_id = session.id), 0) AS float)
FROM session WHERE messages > 0 AND :key IN ('', key)
  AND (:everything = 1 OR (once = 0 AND substr(key, 1, 7) <> 'helper:' AND substr(key, 1, 9) <> 'schedule:'
       AND substr(key, 1, 6) <> 'watch:'))
  AND (:wanted = '' OR substr(id, 1, :length) = :wanted OR lower(title) = lower(:wanted))
ORDER BY updated_at DESC, rowid DESC LIMIT :most
"""  # noqa: S608 - columns of ours
_SAID = """
SELECT message FROM record WHERE session_id = :session AND role = 'user' AND kind = 'message'
ORDER BY seq {} LIMIT :most
"""


class SessionHolder(Struct, frozen=True):
    """Who asks for conversations: a person, the owner of the home being the empty one; with a `key`, of that chat
    alone, because others read along there. `before` is who the owner was before they were that, in this chat."""

    person: str
    key: str = ""
    before: str = ""

    def owners(self, known: Iterable[str]) -> frozenset[str]:
        """Whose words they may look through: in a group that group's; else their own, and the owner besides what was
        said in groups, as far as they are `known`."""
        if self.key or self.person:
            return frozenset({self.key or self.person})
        return frozenset({"", self.before, *filter(is_group, known)})


class SessionEntry(Struct, frozen=True):
    """A conversation in a list. `owner` is who began it: a person, the owner of the home (empty), a group (its key), or
    nobody (`?`). `cost` is in USD."""

    info: SessionInfo
    owner: str
    first: str
    last: str
    cost: float

    @property
    def place(self) -> str:
        """Where it was: `terminal`, `Telegram`, `Telegram group -100…`."""
        channel, _colon, rest = self.info.key.partition(":")
        if channel != "telegram":
            return _(_PLACES.get(channel, channel))
        chat, _colon, topic = rest.partition(":")
        if chat.startswith("-"):
            group = _("Telegram group {chat} topic {topic}", chat=chat, topic=topic)
            return group if topic else _("Telegram group {chat}", chat=chat)
        return _("Telegram topic {topic}", topic=topic) if topic else "Telegram"

    @property
    def title(self) -> str:
        """Its name, or what was said first."""
        return shorten(one_line(self.info.title) or self.first or _("(no words)"), _TITLE)

    def line(self, zone: tzinfo | None, *, now: datetime | None = None) -> str:
        """`tides in Brest · today 09:12 · “and tomorrow?” · terminal · 6 messages · 0.0123 USD`, without its id."""
        words = f"“{self.last}”" if self.last and self.last != self.title else ""
        count = _n("{number} message", "{number} messages", self.info.messages)
        cost = usd(self.cost) if self.cost else ""
        when = local(self.info.updated_at, zone, now)
        return " · ".join(filter(None, (self.title, when, words, self.place, count, cost)))


async def entries_of(
    store: SessionStore, holder: SessionHolder, *, everything: bool = False, wanted: str = "", limit: int = _MOST
) -> tuple[SessionEntry, ...]:
    """The conversations that somebody may see, the newest first; with `everything` also those of single questions and
    of what nanobot did by itself for the owner; those whose id begins so, or which have this name, where it is
    `wanted`."""

    async def work(db: Transaction) -> tuple[SessionEntry, ...]:
        found: list[SessionEntry] = []
        values: dict[str, str | int] = {"key": holder.key, "everything": int(everything), "most": _MOST}
        values |= {"wanted": wanted, "length": len(wanted)}
        for *info, cost in await db.fetch(tuple[object, ...], _LISTED, **values):
            entry = await _entry(db, convert(info, SessionInfo), convert(cost, float))
            if may_see(holder, entry):
                found.append(entry)
            if len(found) >= limit:
                break
        return tuple(found)

    return await store.database.read(work, long=True)


async def entry_of(store: SessionStore, holder: SessionHolder, wanted: str) -> SessionEntry:
    """The one conversation whose id begins so, or that has this name, among those that somebody may see.

    Raises `UsageError` where there is none, or more than one.
    """
    possible = wanted and strip_unsafe(wanted) == wanted  # the shell hands over any bytes
    known = await entries_of(store, holder, everything=True, wanted=wanted) if possible else ()
    exact = [one for one in known if one.info.id == wanted]
    found = exact or [one for one in known if one.info.id.startswith(wanted)] or [*known]
    if not found:
        raise UsageError(_("There is no session {id!r} here. `/sessions` lists those that there are.", id=wanted))
    if len(found) > 1:
        raise UsageError(too_many(wanted, [one.info.id for one in found]))
    return found[0]


async def among(store: SessionStore, holder: SessionHolder, ids: Iterable[str]) -> dict[str, SessionEntry]:
    """Those of some sessions that somebody may see, by id, in the same order."""
    found = [one for name in ids for one in await entries_of(store, holder, everything=True, wanted=name)]
    return {one.info.id: one for one in found}


def may_see(holder: SessionHolder, entry: SessionEntry) -> bool:
    """Whether a conversation is for these eyes: one's own; those of groups are for the owner, and for their chat."""
    if holder.key:
        return entry.info.key == holder.key
    if holder.person:
        return entry.owner == holder.person
    group = entry.owner == entry.info.key and is_group(entry.info.key)
    own_work = entry.info.key.partition(":")[0] in _OWN_WORK and entry.owner in ("", NOBODY)
    return entry.owner in ("", holder.before) or group or own_work


def owner_of(key: str, speaker: Role, *, named: bool) -> str:
    """Whose the words are that were said in the session of this `key`; `?` where nobody can tell.

    Words under a name (`named`) were said where others read along; what a helper is asked, a model has written.
    """
    channel, _colon, rest = key.partition(":")
    if channel not in _SPOKEN:
        return NOBODY
    chat, group = rest.partition(":")[0], is_group(key)
    if named:
        return key if group else NOBODY
    if speaker == "owner":
        return ""
    return f"{channel}:{chat}" if channel == "telegram" and not group else NOBODY


def is_group(key: str) -> bool:
    """Whether several people read along in the chat of this key."""
    return key.startswith("telegram:-")


def local(at: datetime, zone: tzinfo | None, now: datetime | None = None) -> str:
    """`today 09:12`, `yesterday 21:40`, `2026-11-02 08:00`."""
    then = at.astimezone(zone)
    days = ((now or datetime.now(zone)).astimezone(zone).date() - then.date()).days
    day = {0: _("today"), 1: _("yesterday")}.get(days, f"{then:%Y-%m-%d}")
    return f"{day} {then:%H:%M}"


def own_words(message: UserMessage) -> str:
    """What a person said, without what was quoted and without their name."""
    texts = (part.text for part in message.content if isinstance(part, Text))
    return "\n".join(text for text in texts if unwrap(text.strip()) is None).strip()


def name_in(message: UserMessage) -> str:
    """The name before what is said in a group; empty where there is none."""
    first = message.content[0] if message.content else None
    wrapped = unwrap(first.text.strip()) if isinstance(first, Text) else None
    return wrapped.text if wrapped is not None and wrapped.source == "name" else ""


async def _entry(db: Transaction, info: SessionInfo, cost: float) -> SessionEntry:
    last = _spoken(await db.fetch(tuple[str, ...], _SAID.format("DESC"), session=info.id, most=_NEAR))
    first = _spoken(await db.fetch(tuple[str, ...], _SAID.format("ASC"), session=info.id, most=_NEAR))
    owner = owner_of(info.key, first.speaker, named=bool(name_in(first))) if first is not None else NOBODY
    said = [one_line(own_words(two), _LAST) if two is not None else "" for two in (first, last)]
    return SessionEntry(info, owner, said[0], said[1], cost)


def _spoken(rows: Iterable[tuple[str, ...]]) -> UserMessage | None:
    """The first of these messages that a person has said; one that is damaged says nothing."""
    for (text,) in rows:
        with suppress(StoreError):
            message = decode(text)
            if isinstance(message, UserMessage) and message.kind != "notice":
                return message
    return None
