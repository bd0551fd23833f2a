"""The owner's documents on their way into the index: which files are new or changed, and what they say.

What a parser reads is read in the worker processes of `web.extract`. A reading that was broken off goes on where it
ended, because every document is taken in by itself.
"""

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from nanobot.errors import PathError
from nanobot.files.search import SKIPPED
from nanobot.library.index import Document, DocumentPart, LibraryIndex
from nanobot.library.sections import TextSection, by_line, sections
from nanobot.security.paths import Root, Roots, holds_keys, is_in
from nanobot.web.extract.page import Extracted, Job, JobKind
from nanobot.web.extract.worker import Extractor
from nanobot.web.fetch.charset import decode

#: Kinds of files by their endings: those with headings, those that a worker takes apart, and text of any kind.
_MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
_PARSED: dict[str, JobKind] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".pdf": "pdf",
    **dict.fromkeys((".docx", ".xlsx", ".pptx", ".epub", ".rtf"), "office"),
    **dict.fromkeys((".eml", ".mbox"), "mail"),
}
_TEXT = frozenset(
    ".txt .text .rst .org .adoc .asciidoc .tex .bib .csv .tsv .json .jsonl .yaml .yml .toml .ini .cfg .conf .xml .srt "
    ".vtt .ics .vcf .log .py .pyi .js .mjs .ts .tsx .jsx .java .kt .kts .scala .go .rs .c .h .cc .cpp .hpp .cs .swift "
    ".m .rb .php .pl .lua .r .jl .hs .ml .ex .exs .erl .clj .lisp .el .sh .bash .zsh .fish .ps1 .bat .sql .graphql "
    ".proto .css .scss .less .vue .svelte .dart .zig .nim .f90 .pas .asm .cmake .gradle .tf .nix".split()
)
#: Formats of documents that nothing here reads; they are listed as such.
_UNREAD = frozenset(".doc .xls .ppt .odt .ods .odp .pages .numbers .mobi .azw .azw3 .djvu .msg .pst .wpd".split())
#: Bytes of a text, of a document and of a file of mail that are read; bytes of mail that a worker gets at once.
_TEXT_BYTES, _FILE_BYTES, _MAIL_BYTES, _MAIL_PIECE = 5_000_000, 50_000_000, 300_000_000, 2_000_000
#: Folders within each other, and seconds for one document.
_DEEPEST, _SECONDS = 60, 20.0
_TITLE = re.compile(r"(?m)^#[ \t]+(\S.{0,199})$")
#: (documents done, documents to read, the one that is read)
Report = Callable[[int, int, str], None]


class LibraryFolders:
    """The folders of documents, and their reading into the index.

    `forbidden` and `person` as in `Roots`; `foreign_below` gives the files of a folder that hold content from outside,
    as all in `others` do, where the folders of other people are.
    """

    def __init__(
        self,
        index: LibraryIndex,
        folders: Sequence[Path],
        forbidden: tuple[Path, ...],
        person: Path,
        foreign_below: Callable[[Path], frozenset[str]],
        others: Path | None = None,
    ) -> None:
        self._index = index
        self._others = f"{others.resolve()}/" if others is not None else ""
        self._roots = Roots(tuple(Root(one) for one in folders), forbidden, person)
        self._foreign_below = foreign_below

    async def read(self, report: Report) -> int:
        """Bring the index up to date; how many documents were read. Raises `sqlite3.Error`."""
        changed, gone = await asyncio.to_thread(self._compared)
        await asyncio.to_thread(self._index.drop, gone)
        extractor = Extractor(size=1, wall=_SECONDS)
        try:
            for done, document in enumerate(changed):
                report(done, len(changed), document.name)
                await self._take(document, extractor)
        finally:
            await extractor.aclose()
        report(len(changed), len(changed), "")
        return len(changed)

    def _compared(self) -> tuple[list[Document], list[Document]]:
        """What is to be read, as it is on the disk now, and what is gone. What lay in a folder that is not there stays:
        its disk may not be in."""
        away = [root.path for root in self._roots.roots if not root.path.is_dir()]
        known = {one.name: one for one in self._index.documents("document", "")}
        there: dict[str, str] = {}
        for root in self._roots.roots:
            marked = self._foreign_below(root.path)
            for name, state in files_below(root.path, self._roots):
                outside = name in marked or bool(self._others and name.startswith(self._others))
                there[name] = f"{state} {outside:d}"
        changed = [
            Document("document", "", name, state=state)
            for name, state in there.items()
            if name not in known or known[name].state != state
        ]
        gone = [one for name, one in known.items() if name not in there]
        return changed, [one for one in gone if not any(folder in Path(one.name).parents for folder in away)]

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
            problem = "It holds no text; perhaps it is a scan."
        made = Document("document", "", document.name, title, document.state, problem)
        await asyncio.to_thread(self._index.put, made, parts)

    async def _pages(self, name: str, extractor: Extractor) -> "AsyncIterator[_ReadPart]":
        """What a file says, in as many parts as it is read in."""
        suffix = PurePath(name).suffix.lower()
        if suffix in _UNREAD:
            yield _ReadPart((), "", f"Files of the kind {suffix} are not read.")
        elif suffix not in _PARSED:
            yield await asyncio.to_thread(self._text, name, headed=suffix in _MARKDOWN)
        else:
            bodies = self._bodies(name, _PARSED[suffix])
            while body := await asyncio.to_thread(next, bodies, b""):
                page = await extractor.extract(Job(body, "", _PARSED[suffix]))
                yield _ReadPart((*sections(page.text),), page.title, _problem(page), outside=True)

    def _text(self, name: str, *, headed: bool) -> "_ReadPart":
        data, cut = self._read(name, _TEXT_BYTES)
        if b"\0" in data[:8_000] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return _ReadPart((), "", "It is not text.")
        text = decode(data, cut=cut).text
        title = _TITLE.search(text) if headed else None
        problem = f"Only its first {_TEXT_BYTES // 1_000_000} MB are read." if cut else ""
        if not text.strip():
            return _ReadPart((), "", "It is empty.")
        found = sections(text) if headed else by_line(text)
        return _ReadPart((*found,), title[1].rstrip().rstrip("#").rstrip() if title else "", problem)

    def _bodies(self, name: str, kind: JobKind) -> Iterator[bytes]:
        """A document as a whole; mail in pieces of whole messages. Raises `PathError`."""
        most = _MAIL_BYTES if kind == "mail" else _FILE_BYTES
        data, cut = self._read(name, most)
        if cut:
            raise PathError(f"It has more than {most // 1_000_000} MB.")
        start = 0
        while kind == "mail" and len(data) - start > _MAIL_PIECE:
            end = data.rfind(b"\nFrom ", start + 1, start + _MAIL_PIECE) + 1
            end = end or data.find(b"\nFrom ", start + _MAIL_PIECE) + 1 or len(data)
            yield data[start:end]
            start = end
        yield data[start:]

    def _read(self, name: str, most: int) -> tuple[bytes, bool]:
        """At most `most` bytes of a file, and whether there are more. Raises `PathError` and `OSError`."""
        place = self._roots.place(name)
        with contextlib.closing(os.fdopen(self._roots.open(place), "rb")) as stream:
            data = stream.read(most + 1)
        return data[:most], len(data) > most


class _ReadPart(Struct, frozen=True):
    """What reading gave; `outside`: somebody else may have written it."""

    sections: tuple[TextSection, ...]
    title: str = ""
    problem: str = ""
    outside: bool = False


def _problem(page: Extracted) -> str:
    return " ".join(page.notes)


def files_below(folder: Path, roots: Roots) -> Iterator[tuple[str, str]]:
    """The documents below a folder with their time stamps and sizes. No link is followed, and nothing that is hidden,
    that tools keep for themselves, that usually holds keys, or that nobody may see is looked into."""
    barred = roots.barred()
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                if entry.name.startswith(".") or entry.name in SKIPPED or holds_keys((place.name, entry.name)):
                    continue
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if is_in(status, barred):
                        continue
                    if stat.S_ISDIR(status.st_mode) and depth < _DEEPEST:
                        waiting.append((Path(entry.path), depth + 1))
                    elif stat.S_ISREG(status.st_mode) and _is_document(entry.name):
                        yield entry.path, f"{status.st_mtime_ns} {status.st_size}"


def _is_document(name: str) -> bool:
    suffix = PurePath(name).suffix.lower()
    return suffix in _MARKDOWN or suffix in _PARSED or suffix in _TEXT or suffix in _UNREAD or name == "README"
