"""What is known of a person, line by line, for `/memory`; and taking it away everywhere, for `/forget`."""

import asyncio
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import NanobotError, UsageError
from nanobot.files.edits import text_of
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.library.forgotten import Forgetting, ForgottenFact, ForgottenFacts
from nanobot.library.index import LibraryIndex
from nanobot.library.lines import MemoryLine, lines_of, without
from nanobot.library.memory import MemoryFiles
from nanobot.library.talk import Conversations
from nanobot.messages import Text, UserMessage
from nanobot.session.store import EVER, FORGOTTEN, SessionInfo, SessionStore
from nanobot.utils.host import shipped
from nanobot.utils.passages import sentences as sentences_of
from nanobot.utils.ranking import terms
from nanobot.utils.text import shorten
from nanobot.utils.translation import N_, _, listed, sentences

#: Lines of a page, characters of one, and seconds that conversations are taken in before.
_SHOWN, _WIDTH, _CATCH_UP_SECONDS = 40, 300, 20.0
#: A page of the list, of which the first has the newest lines.
_PAGE = re.compile(r"page (\d{1,4})")
#: Passages of conversations that a few words may take away without an `all` before them.
_MOST_HIDDEN = 40
_HOW = N_("`/memory <words>` shows those with these words; `/forget <number>` or `/forget <words>` takes away.")


class KnownLine(Struct, frozen=True):
    """A line of memory by its number in the list, with the file that it stands in; `outside`: that holds content from
    outside."""

    number: int
    file: str
    line: MemoryLine
    outside: bool

    @property
    def shown(self) -> str:
        where = [self.file, self.line.at, self.line.origin, _("pinned") if self.line.pinned else ""]
        where.append(_("the file holds content from outside") if self.outside else "")
        text = shorten(self.line.text, _WIDTH)
        return f"{self.number}. " + _("{line} ({where})", line=text, where=listed(filter(None, where)))


class KnownFacts:
    """The memory of people: their files, and what of conversations is found again."""

    def __init__(
        self, spaces: FileSpaces, files: MemoryFiles, index: LibraryIndex, store: SessionStore, gone: ForgottenFacts
    ) -> None:
        self._spaces = spaces
        self._files = files
        self._index = index
        self._store = store
        self._gone = gone
        self._talk = Conversations(store, index, gone)

    async def shown(self, person: FileUser, words: str) -> str:
        """A page of the list for a person, or those lines that hold these words, as Markdown."""
        known = await asyncio.to_thread(self._lines, _owner(person))
        paged = _PAGE.fullmatch(words.casefold().strip())
        page = max(1, int(paged[1])) if paged else 1
        found = known if paged else [one for one in known if _has(one, words)]
        if not found:
            how = _("Write “remember that …”, and every conversation knows it.")
            none = _("Nothing is noted of you with the words {words!r}.", words=words) if words else ""
            return sentences(none or _("Nothing is noted of you."), how)
        end = len(found) - (page - 1) * _SHOWN
        if end <= 0:
            pages = -(-len(found) // _SHOWN)
            return _("There are {number} pages. `/memory page 1` has the newest lines.", number=pages)
        begin = max(0, end - _SHOWN)
        lines = "\n".join(one.shown for one in found[begin:end])
        if begin:
            more = _("Name more words for those.")
            if paged or not words:
                more = _("`/memory page {page}` shows those.", page=page + 1)
            lines += "\n\n" + sentences(_("There are {number} lines before these.", number=begin), more)
        head, hand = _("**What is noted of you**"), _("The files can be edited by hand.")
        return f"{head}\n\n{lines}\n\n{sentences(hand, _(_HOW))}"

    async def forget(self, person: FileUser, chat: str, words: str, request: str = "") -> str:
        """Take lines away, and what of conversations and summaries says the same; say what was done.

        `words` are the number of a line, words that all stand in one, or `all` and words. `/undo` in this chat brings
        the lines back. One that was cut off goes on first; the message with the id `request` is done once, and told
        again. Raises `UsageError`, and `NanobotError` where a file cannot be changed.
        """
        owner = _owner(person)
        begun, told = await self._gone.begun(owner), ""
        again = begun is not None and bool(request) and begun.request == request
        if begun is not None and again and begun.done:
            return _told(begun)
        if begun is not None and not begun.done:
            rest = _told(await self._finish(person, chat, begun))
            told = _("A /forget that was cut off went on:") + f"\n\n{rest}"
            if again or begun.words == words:
                return told
        done = await self._finish(person, chat, await self._planned(owner, words, request))
        return "\n\n".join(filter(None, (told, _told(done))))

    async def _planned(self, owner: str, words: str, request: str) -> Forgetting:
        """What such words are to take away. Raises `UsageError`."""
        now = datetime.now(UTC)
        known = await asyncio.to_thread(self._lines, owner)
        lines, texts = _meant(known, words)
        gone = [ForgottenFact.of(text, now) for text in texts]
        await self._talk.catch_up(_CATCH_UP_SECONDS)
        said = await asyncio.to_thread(self._index.rows, "talk", owner, lambda part: _is_gone(part.text, gone))
        if len(said) > _MOST_HIDDEN and not _every(words):
            raise UsageError(
                _(
                    "That stands in {number} passages. Name more of it, or `/forget all {words}`.",
                    number=len(said),
                    words=words.strip(),
                )
            )
        return Forgetting(request, words, tuple(gone), tuple((one.file, one.line.text) for one in lines), len(said))

    async def _finish(self, person: FileUser, chat: str, begun: Forgetting) -> Forgetting:
        """Do all of it, or the rest; each step may have been done before."""
        owner, gone = _owner(person), list(begun.facts)
        await self._gone.keep(owner, begun)
        try:
            await asyncio.to_thread(self._drop, person, chat, begun.lines)
        except NanobotError:
            await self._gone.keep(owner, None)  # it is told, and never tried again by itself
            raise
        await self._gone.add(owner, gone)
        await self._talk.catch_up(_CATCH_UP_SECONDS)
        said = await asyncio.to_thread(self._index.rows, "talk", owner, lambda part: _is_gone(part.text, gone))
        await asyncio.to_thread(self._index.remove, said)
        await asyncio.to_thread(self._files.refresh, owner)
        done = replace(begun, passages=max(begun.passages, len(said)))
        for one in await self._store.changed(EVER):
            if await self._clean(one, person, gone):
                done = replace(done, summaries=done.summaries + 1)
                await self._gone.keep(owner, done)
        kept = replace(done, done=True, words="", lines=tuple((file, "") for file, _text in done.lines))
        await self._gone.keep(owner, kept)
        return done

    def _lines(self, owner: str) -> list[KnownLine]:
        found: list[KnownLine] = []
        for name, text, outside in self._files.texts(owner):
            given = _given(name)
            own = (one for one in lines_of(text) if one.text not in given)
            found += [KnownLine(number, name, one, outside) for number, one in enumerate(own, len(found) + 1)]
        return found

    def _drop(self, person: FileUser, chat: str, lines: Iterable[tuple[str, str]]) -> None:
        store = self._spaces.of(person, own=True)
        gone: dict[str, set[str]] = {}
        for file, said in lines:
            gone.setdefault(file, set()).add(said)
        there = {
            name: {one.text for one in lines_of(text)} for name, text, _outside in self._files.texts(_owner(person))
        }
        for name, texts in gone.items():
            if texts.isdisjoint(there.get(name, ())):
                continue  # another process, or an earlier try, has taken them away

            def made(before: bytes | None, name: str = name, texts: set[str] = texts) -> bytes:
                text = text_of(before or b"", name)
                return without(text, [one.place for one in lines_of(text) if one.text in texts]).encode()

            store.change(store.roots.place(name, write=True, follow=False), made, session=chat)

    async def _clean(self, session: SessionInfo, person: FileUser, gone: list[ForgottenFact]) -> bool:
        """Take what is forgotten out of the title of a session of this person, and out of the summary with which it
        begins; whether that held some of it."""
        if not _is_theirs(session, person):
            return False
        if _is_gone(session.title, gone):
            await self._store.rename(session.id, "…")
        hiding = await self._store.hiding(session.id)
        newest = hiding[-1] if hiding else None
        summary = newest.message if newest is not None and newest.kind == "compaction" else None
        if newest is None or not isinstance(summary, UserMessage) or summary.speaker != person.role:
            return False
        text = _cleaned(summary.text, gone)
        if text == summary.text:
            return False
        keep = newest.kept or newest.seq + 1
        await self._store.compact(session.id, replace(summary, content=(Text(text),)), keep, turn=FORGOTTEN)
        return True


def _owner(person: FileUser) -> str:
    """Whose memory it is, as the index has it."""
    return "" if person.role == "owner" else person.key


def _is_theirs(session: SessionInfo, person: FileUser) -> bool:
    """Whether a session may be one of this person alone; a group is nobody's."""
    channel, _colon, chat = session.key.partition(":")
    shared = channel == "telegram" and chat.startswith("-")
    return not shared and (person.role == "owner" or f"{session.key}:".startswith(f"{person.key}:"))


def _given(name: str) -> set[str]:
    """The lines of a file as it is shipped, which tell nothing of the person."""
    try:
        text = (shipped("templates") / name).read_text(encoding="utf-8")
    except OSError:
        return set()
    return {one.text for one in lines_of(text)}


def _has(known: KnownLine, words: str) -> bool:
    return set(terms(words)) <= set(terms(f"{known.line.text} {known.line.at} {known.file}"))


def _every(words: str) -> bool:
    return words.casefold().split()[:1] == ["all"]


def _meant(known: list[KnownLine], words: str) -> tuple[list[KnownLine], list[str]]:
    """The lines that are to go, and the texts that say what is to be forgotten."""
    wanted = words.strip()
    if wanted.isdecimal():
        lines = [one for one in known if one.number == int(wanted)]
        if not lines:
            raise UsageError(_("There is no line {number}. `/memory` shows the numbers.", number=wanted))
        return lines, [lines[0].line.text]
    wanted = wanted[3:].strip() if _every(wanted) else wanted
    if not terms(wanted):
        raise UsageError(_("Name what is to be forgotten: `/forget <number>` of a line of `/memory`, or words of it."))
    lines = [one for one in known if _has(one, wanted)]
    if len(lines) > 1 and not _every(words):
        head, shown = _("{number} lines hold that:", number=len(lines)), "\n".join(one.shown for one in lines[:20])
        which = _("Name a number, or `/forget all {words}`.", words=wanted)
        raise UsageError(f"{head}\n\n{shown}\n\n{which}")
    return lines, [wanted, *(one.line.text for one in lines)]


def _is_gone(text: str, gone: Iterable[ForgottenFact]) -> bool:
    return any(fact.holds(text) for fact in gone)


def _cleaned(summary: str, gone: list[ForgottenFact]) -> str:
    """A summary without the lines, or in longer ones the sentences, that hold what is forgotten."""
    rows = []
    for row in summary.splitlines():
        kept = [one for one in sentences_of(row) if not _is_gone(one, gone)] if _is_gone(row, gone) else [row]
        rows += [" ".join(kept)] if kept else []
    return "\n".join(rows)


def _told(done: Forgetting) -> str:
    """What `/forget` has done, and what it cannot do."""
    if not (done.lines or done.passages or done.summaries):
        return _("Nothing was found of that. Should it be said in conversations before now, recall will not find it.")
    lines = [(file, shorten(text, _WIDTH) or _("a line")) for file, text in done.lines]
    said = [_("Forgotten: {line} ({file})", line=line, file=file) for file, line in lines]
    if done.passages:
        said.append(_("Passages of conversations that recall finds no more: {number}", number=done.passages))
    if done.summaries:
        said.append(_("Summaries without it now: {number}", number=done.summaries))
    told = "\n".join(f"- {one}" for one in said)
    note = _("The running conversation still shows what was said in it: `/new` begins one that does not.")
    rest = _(
        "Transcripts are kept as they are; `/delete` takes a whole one away. `/undo` brings back a line of a file."
    )
    return f"{told}\n\n{sentences(note, rest)}"
