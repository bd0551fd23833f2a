"""Which files of a folder are documents, found without following links, and without waiting for a disk that hangs."""

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path, PurePath
from typing import TypeVar

from msgspec import Struct

from nanobot.errors import NanobotError
from nanobot.files.search import SKIPPED
from nanobot.security.paths import Roots, holds_keys, is_in
from nanobot.utils.text import is_whole
from nanobot.utils.translation import _
from nanobot.web.extract.page import JobKind

#: Kinds of files by their endings: those with headings, those that a worker takes apart, and text of any kind.
MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
PARSED: dict[str, JobKind] = {
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
UNREAD = frozenset(".doc .xls .ppt .odt .ods .odp .pages .numbers .mobi .azw .azw3 .djvu .msg .pst .wpd".split())
#: Folders within each other, and documents of one folder of the library.
_DEEPEST, MOST_DOCUMENTS = 60, 200_000
#: Names of the folder in which browsers and mail programs put what comes from others, in the languages of systems.
_DOWNLOADS = frozenset(
    "downloads download téléchargements descargas transferências scaricati загрузки 下载 下載 ダウンロード".split()
)
T = TypeVar("T")


class DocumentFolder(Struct, frozen=True):
    """A folder of the library. `outside`: what lies in it is content from outside; None where nobody has said."""

    path: Path
    outside: bool | None = None

    def holds_outside(self, name: str) -> bool:
        """Whether a document in it is content from outside: what lies in a folder of downloads is, unless the owner
        has said how the folder counts."""
        if self.outside is not None:
            return self.outside
        return any(is_downloads(one) for one in (self.path.name, *PurePath(name).relative_to(self.path).parts[:-1]))


def is_downloads(name: str) -> bool:
    """Whether a folder of this name holds what comes from others."""
    return name.casefold() in _DOWNLOADS


class SlowDisk(OSError):
    """A disk that did not answer in time, such as a network folder whose server is away."""


def in_time(seconds: float, work: Callable[[], T]) -> T:
    """What `work` gives, which may wait for a disk. Raises `SlowDisk` after so many seconds: nothing can end a thread
    that waits for the disk, so it is left behind, and does not keep the program from ending."""
    done: list[T] = []
    failed: list[OSError | NanobotError] = []

    def run() -> None:
        try:
            done.append(work())
        except (OSError, NanobotError) as error:
            failed.append(error)

    thread = threading.Thread(target=copy_context().run, args=(run,), daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise SlowDisk(_("It does not answer within {seconds:g} seconds.", seconds=seconds))
    return done[0]


def files_below(folder: Path, roots: Roots) -> Iterator[tuple[str, str]]:
    """The documents below a folder with their time stamps and sizes. No link is followed, and nothing that is hidden,
    that tools keep for themselves, that usually holds keys, or that nobody may see is looked into."""
    barred = roots.barred()
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                skipped = entry.name in SKIPPED or not is_whole(entry.name)
                if skipped or entry.name.startswith(".") or holds_keys((place.name, entry.name)):
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
    return suffix in MARKDOWN or suffix in PARSED or suffix in _TEXT or suffix in UNREAD or name == "README"
