"""The owner's documents on their way into the index: which files are new or changed, and what they say.

What a parser reads is read in the worker processes of `web.extract`. A reading that was broken off goes on where it
ended, because every document is taken in by itself.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path, PurePath

from msgspec import Struct

from nanobot.errors import PathError
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document, DocumentPart
from nanobot.library.sections import TextSection, by_line, sections
from nanobot.library.walk import MARKDOWN, MOST_DOCUMENTS, PARSED, UNREAD, DocumentFolder, files_below, in_time
from nanobot.security.paths import Root, Roots
from nanobot.utils.translation import N_, _
from nanobot.web.extract.page import Extracted, Job, JobKind
from nanobot.web.extract.worker import Extractor
from nanobot.web.fetch.charset import decode

#: Bytes of a text, of a document and of a file of mail that are read; bytes of mail that a worker gets at once.
_TEXT_BYTES, _FILE_BYTES, _MAIL_BYTES, _MAIL_PIECE = 5_000_000, 50_000_000, 300_000_000, 2_000_000
#: Seconds for one document; for a disk until it counts as away; and for walking a folder.
_SECONDS, _DISK_SECONDS, _WALK_SECONDS = 20.0, 10.0, 900.0
#: Bytes that stay free on the disk of the index, and the most that the index takes.
FREE_BYTES, INDEX_BYTES = 500_000_000, 8_000_000_000
_BEYOND = N_("A folder has more than {most:,} documents; the others are not read.")
_TITLE = re.compile(r"(?m)^#[ \t]+(\S.{0,199})$")
#: (documents done, documents to read, the one that is read)
Report = Callable[[int, int, str], None]


class Compared(Struct, frozen=True):
    """What differs between the folders and the index: documents to be read and to be forgotten, folders that are
    `away`, and how many documents are `beyond` what is read of a folder."""

    changed: tuple[Document, ...]
    gone: tuple[Document, ...]
    away: tuple[Path, ...]
    beyond: int


class Reading(Struct, frozen=True):
    """How many documents were read, how many are `left`, which folders were `away`, and `why` it ended before all."""

    count: int
    left: int
    away: tuple[Path, ...]
    why: str


class LibraryFolders:
    """The folders of documents, and their reading into the index.

    `forbidden` and `person` as in `Roots`; `foreign_below` gives the files of a folder that hold content from outside,
    as all in `others` do, where the folders of other people are.
    """

    def __init__(
        self,
        index: LibraryIndex,
        folders: Sequence[DocumentFolder],
        forbidden: tuple[Path, ...],
        person: Path,
        foreign_below: Callable[[Path], frozenset[str]],
        others: Path | None = None,
    ) -> None:
        self._index = index
        self._others = f"{others.resolve()}/" if others is not None else ""
        self._folders = tuple(folders)
        self._roots = Roots(tuple(Root(one.path) for one in folders), forbidden, person)
        self._foreign_below = foreign_below

    async def read(self, report: Report) -> Reading:
        """Bring the index up to date, as far as there is room for it. Raises `StoreError`."""
        found = await asyncio.to_thread(self.compared)
        await asyncio.to_thread(self._index.drop, found.gone)
        async with contextlib.aclosing(Extractor(size=1, wall=_SECONDS)) as extractor:
            for done, document in enumerate(found.changed):
                report(done, len(found.changed), document.name)
                if full := self._index.is_full(FREE_BYTES, INDEX_BYTES):
                    return Reading(done, len(found.changed) - done, found.away, full)
                await self._take(document, extractor)
        report(len(found.changed), len(found.changed), "")
        return Reading(
            len(found.changed), found.beyond, found.away, _(_BEYOND, most=MOST_DOCUMENTS) if found.beyond else ""
        )

    def compared(self) -> Compared:
        """What is to be read, as it is on the disk now, and what is gone. What lay in a folder that is not there, or
        whose disk does not answer, stays: it may come back. Waits for the disk."""
        away: list[Path] = []
        known = {one.name: one for one in self._index.documents("document", "")}
        there: dict[str, str] = {}
        beyond = 0
        for folder in self._folders:
            try:
                marked, found = in_time(_WALK_SECONDS, partial(self._found, folder.path))
            except OSError:
                away.append(folder.path)
                continue
            beyond += max(0, len(found) - MOST_DOCUMENTS)
            for name, state in found[:MOST_DOCUMENTS]:
                outside = name in marked or bool(self._others and name.startswith(self._others))
                there[name] = f"{state} {outside or folder.holds_outside(name):d}"
        changed = tuple(
            Document("document", "", name, state=state)
            for name, state in there.items()
            if name not in known or known[name].state != state
        )
        gone = [one for name, one in known.items() if name not in there]
        kept = tuple(one for one in gone if not any(folder in Path(one.name).parents for folder in away))
        return Compared(changed, kept, tuple(away), beyond)

    def _found(self, folder: Path) -> tuple[frozenset[str], list[tuple[str, str]]]:
        """The documents of a folder, and which of its files came from outside. Raises `OSError` where it is away."""
        in_time(_DISK_SECONDS, partial(os.listdir, folder))
        return self._foreign_below(folder), list(islice(files_below(folder, self._roots), 2 * MOST_DOCUMENTS))

    async def _take(self, document: Document, extractor: Extractor) -> None:
        """Read a document; one that gives no text is kept with the reason."""
        outside = document.state.endswith(" 1")
        title, parts, problem = "", list[DocumentPart](), ""
        try:
            async for page in self._pages(document.name, extractor):
                title = title or page.title
                problem = problem or page.problem
                parts += [DocumentPart(one.text, one.heading, "", outside or page.outside) for one in page.sections]
        except (PathError, OSError) as error:
            problem = str(error)
        if not parts and not problem:
            problem = _("It holds no text; perhaps it is a scan.")
        made = Document("document", "", document.name, title, document.state, problem)
        await asyncio.to_thread(self._index.put, made, parts)

    async def _pages(self, name: str, extractor: Extractor) -> "AsyncIterator[_ReadPart]":
        """What a file says, in as many parts as it is read in."""
        suffix = PurePath(name).suffix.lower()
        if suffix in UNREAD:
            yield _ReadPart((), "", _("Files of the kind {kind} are not read.", kind=suffix))
        elif suffix not in PARSED:
            yield await asyncio.to_thread(self._text, name, headed=suffix in MARKDOWN)
        else:
            bodies = self._bodies(name, PARSED[suffix])
            while body := await asyncio.to_thread(next, bodies, b""):
                page = await extractor.extract(Job(body, "", PARSED[suffix]))
                yield _ReadPart((*sections(page.text),), page.title, _problem(page), outside=True)

    def _text(self, name: str, *, headed: bool) -> "_ReadPart":
        data, cut = self._read(name, _TEXT_BYTES)
        if b"\0" in data[:8_000] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return _ReadPart((), "", _("It is not text."))
        text = decode(data, cut=cut).text
        title = _TITLE.search(text) if headed else None
        problem = _("Only its first {size} MB are read.", size=_TEXT_BYTES // 1_000_000) if cut else ""
        if not text.strip():
            return _ReadPart((), "", _("It is empty."))
        found = sections(text) if headed else by_line(text)
        return _ReadPart((*found,), title[1].rstrip().rstrip("#").rstrip() if title else "", problem)

    def _bodies(self, name: str, kind: JobKind) -> Iterator[bytes]:
        """A document as a whole; mail in pieces of whole messages. Raises `PathError`."""
        most = _MAIL_BYTES if kind == "mail" else _FILE_BYTES
        if int(os.lstat(name).st_size) > most:  # nothing of it is read in vain
            raise PathError(_("It has more than {size} MB.", size=most // 1_000_000))
        data, cut = self._read(name, most)
        if cut:
            raise PathError(_("It has more than {size} MB.", size=most // 1_000_000))
        start = 0
        while kind == "mail" and len(data) - start > _MAIL_PIECE:
            end = data.rfind(b"\nFrom ", start + 1, start + _MAIL_PIECE) + 1
            end = end or data.find(b"\nFrom ", start + _MAIL_PIECE) + 1 or len(data)
            yield data[start:end]
            start = end
        yield data[start:]

    def _read(self, name: str, most: int) -> tuple[bytes, bool]:
        """At most `most` bytes of a file, and whether there are more. Raises `PathError` and `OSError`."""

        def work() -> bytes:
            place = self._roots.place(name)
            with contextlib.closing(os.fdopen(self._roots.open(place), "rb")) as stream:
                return stream.read(most + 1)

        data = in_time(_DISK_SECONDS + most / 2_000_000, work)
        return data[:most], len(data) > most


class _ReadPart(Struct, frozen=True):
    """What reading gave; `outside`: somebody else may have written it."""

    sections: tuple[TextSection, ...]
    title: str = ""
    problem: str = ""
    outside: bool = False


def _problem(page: Extracted) -> str:
    return " ".join(page.notes)
