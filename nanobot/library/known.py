"""What is known of a person, line by line, for `/memory`; and taking it away everywhere, for `/forget`."""

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import UsageError
from nanobot.files.edits import text_of
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.library.forgotten import ForgottenFact, ForgottenFacts
from nanobot.library.index import LibraryIndex
from nanobot.library.lines import MemoryLine, lines_of, without
from nanobot.library.memory import MemoryFiles
from nanobot.library.talk import Conversations
from nanobot.messages import Text, UserMessage
from nanobot.session.store import EVER, FORGOTTEN, SessionInfo, SessionStore
from nanobot.utils.host import shipped
from nanobot.utils.passages import sentences
from nanobot.utils.ranking import terms
from nanobot.utils.text import shorten

#: Lines that are shown at once, characters of one, and seconds that conversations are taken in before.
_SHOWN, _WIDTH, _CATCH_UP_SECONDS = 60, 300, 20.0
#: Passages of conversations that a few words may take away without an `all` before them.
_MOST_HIDDEN = 40
_HOW = "`/memory <words>` shows those with these words; `/forget <number>` or `/forget <words>` takes away."


class KnownLine(Struct, frozen=True):
    """A line of memory by its number in the list, with the file that it stands in; `outside`: that holds content from
    outside."""

    number: int
    file: str
    line: MemoryLine
    outside: bool

    @property
    def shown(self) -> str:
        where = [self.file, self.line.at, self.line.origin, "pinned" if self.line.pinned else ""]
        where.append("the file holds content from outside" if self.outside else "")
        return f"{self.number}. {shorten(self.line.text, _WIDTH)} ({', '.join(filter(None, where))})"


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
        """The list for a person, or those lines that hold these words, as Markdown."""
        known = await asyncio.to_thread(self._lines, _owner(person))
        found = [one for one in known if _has(one, words)]
        if not found:
            about = f" with the words {words!r}" if words else ""
            return f"Nothing is noted of you{about}. What is to be known in every conversation is noted when you ask."
        left = f"\n\n{len(found) - _SHOWN} lines before these are not shown." if len(found) > _SHOWN else ""
        lines = "\n".join(one.shown for one in found[-_SHOWN:])
        return f"**What is noted of you**\n\n{lines}{left}\n\nThe files can be edited by hand. {_HOW}"

    async def forget(self, person: FileUser, chat: str, words: str) -> str:
        """Take lines away, and what of conversations and summaries says the same; say what was done.

        `words` are the number of a line, words that all stand in one, or `all` and words. `/undo` in this chat brings
        the lines back. Raises `UsageError`, and `NanobotError` where a file cannot be changed.
        """
        owner, now = _owner(person), datetime.now(UTC)
        known = await asyncio.to_thread(self._lines, owner)
        lines, texts = _meant(known, words)
        gone = [ForgottenFact.of(text, now) for text in texts]
        await self._talk.catch_up(_CATCH_UP_SECONDS)
        said = await asyncio.to_thread(self._index.rows, "talk", owner, lambda part: _is_gone(part.text, gone))
        if len(said) > _MOST_HIDDEN and not _every(words):
            raise UsageError(f"That stands in {len(said)} passages. Name more of it, or `/forget all {words.strip()}`.")
        if lines:
            await asyncio.to_thread(self._drop, person, chat, lines)
        await self._gone.add(owner, gone)
        await asyncio.to_thread(self._index.remove, said)
        await asyncio.to_thread(self._files.refresh, owner)
        summaries = [await self._clean(one, person, gone) for one in await self._store.changed(EVER)]
        return _told(lines, len(said), sum(summaries))

    def _lines(self, owner: str) -> list[KnownLine]:
        found: list[KnownLine] = []
        for name, text, outside in self._files.texts(owner):
            given = _given(name)
            own = (one for one in lines_of(text) if one.text not in given)
            found += [KnownLine(number, name, one, outside) for number, one in enumerate(own, len(found) + 1)]
        return found

    def _drop(self, person: FileUser, chat: str, lines: Iterable[KnownLine]) -> None:
        store = self._spaces.own(person)
        gone: dict[str, set[str]] = {}
        for one in lines:
            gone.setdefault(one.file, set()).add(one.line.text)
        for name, texts in gone.items():

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
    channel, _, chat = session.key.partition(":")
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
    return words.strip().casefold().startswith("all ")


def _meant(known: list[KnownLine], words: str) -> tuple[list[KnownLine], list[str]]:
    """The lines that are to go, and the texts that say what is to be forgotten."""
    wanted = words.strip()
    if wanted.isdecimal():
        lines = [one for one in known if one.number == int(wanted)]
        if not lines:
            raise UsageError(f"There is no line {wanted}. `/memory` shows the numbers.")
        return lines, [lines[0].line.text]
    wanted = wanted[4:] if _every(wanted) else wanted
    if not terms(wanted):
        raise UsageError("Name what is to be forgotten: `/forget <number>` of a line of `/memory`, or words of it.")
    lines = [one for one in known if _has(one, wanted)]
    if len(lines) > 1 and not _every(words):
        listed = "\n".join(one.shown for one in lines[:20])
        raise UsageError(f"{len(lines)} lines hold that:\n\n{listed}\n\nName a number, or `/forget all {wanted}`.")
    return lines, [wanted, *(one.line.text for one in lines)]


def _is_gone(text: str, gone: Iterable[ForgottenFact]) -> bool:
    return any(fact.holds(text) for fact in gone)


def _cleaned(summary: str, gone: list[ForgottenFact]) -> str:
    """A summary without the lines, or in longer ones the sentences, that hold what is forgotten."""
    rows = []
    for row in summary.splitlines():
        kept = [one for one in sentences(row) if not _is_gone(one, gone)] if _is_gone(row, gone) else [row]
        rows += [" ".join(kept)] if kept else []
    return "\n".join(rows)


def _told(lines: list[KnownLine], hidden: int, summaries: int) -> str:
    """What `/forget` has done, and what it cannot do."""
    if not (lines or hidden or summaries):
        return "Nothing was found of that. Should it be said in conversations before now, recall will not find it."
    said = [f"Forgotten: {shorten(one.line.text, _WIDTH)} ({one.file})" for one in lines]
    if hidden:
        said.append(f"Passages of conversations that recall finds no more: {hidden}")
    if summaries:
        said.append(f"Summaries without it now: {summaries}")
    listed = "\n".join(f"- {one}" for one in said)
    note = "The running conversation still shows what was said in it: `/new` begins one that does not."
    return f"{listed}\n\n{note} Transcripts are kept as they are. `/undo` brings back a line of a file."
