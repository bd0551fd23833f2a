"""The tool that reads files: read_file."""

import asyncio
import hashlib
import io
import re
import textwrap
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.files.common import FileTool, foreign_of, hold, missing, reading, result_of
from nanobot.agent.tools.media import keep_media
from nanobot.agent.tools.offers import ReadFileArguments
from nanobot.errors import MissingFile, PathError
from nanobot.files.edits import line_end
from nanobot.files.spaces import FileSpaces
from nanobot.files.store import FileStore
from nanobot.files.versions import MAX_OUTPUT, OUTPUT_FOLDER
from nanobot.results import ToolResult
from nanobot.security.paths import ResolvedPath
from nanobot.security.policy import Effect
from nanobot.utils.text import counted, strip_unsafe
from nanobot.web.extract.page import Job
from nanobot.web.extract.worker import Extractor
from nanobot.web.fetch.charset import decode
from nanobot.web.fetch.content import image_info, named_binary, sniff

#: Characters of one page of a file, where the agent sets no other limit, and of one line that is shown.
_PAGE, _LINE = 60_000, 2_000
#: Characters that the head and the closing note of a page take at most.
_NOTES = 600
#: Bytes of a picture that a model is shown, and seconds for taking a document apart.
_PICTURE, _SECONDS = 5_000_000, 20.0
_NULS, _LONG, _PIECE = re.compile(rb"\0+"), re.compile(rf"(?m)^[^\n]{{{_LINE + 1},}}"), rf".{{1,{_LINE}}}"


class _Text(Struct, frozen=True):
    """A file as text: its lines, what was lost on the way, and whether they are those of the file itself.

    There are `count` lines, of which `lines` may leave out some: it begins with number `begins`.
    """

    lines: tuple[str, ...]
    count: int
    begins: int = 1
    notes: tuple[str, ...] = ()
    numbered: bool = True


class ReadFileTool(FileTool[ReadFileArguments], name="read_file"):
    """`read_file`: `notes.md, lines 1 to 3 of 3`, then the lines, each behind its number and a tab.

    PDF and office files come as their text without numbers, pictures as media. What comes from a document or a picture
    counts as content from outside: it is seldom the person's own. At most `limit` bytes are read. Call `aclose`.
    """

    def __init__(self, spaces: FileSpaces, *, media: Path, limit: int) -> None:
        super().__init__(spaces)
        self._media = media
        self._limit = limit
        self._extractor = Extractor(size=1, wall=_SECONDS)
        self._documents: dict[str, _Text] = {}  # the last one, so that reading on does not take it apart again

    async def aclose(self) -> None:
        await self._extractor.aclose()

    def judged(self, args: ReadFileArguments, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        place = store.roots.place(args.path)
        return (Effect(reading(place), str(place.path)),)

    async def work(self, args: ReadFileArguments, store: FileStore, context: ToolContext) -> ToolResult:
        place, data, foreign = await asyncio.to_thread(self._opened, args, store, context)
        most = (context.result_chars or _PAGE) - _NOTES
        match "output" if _is_output(place, store) else sniff("", data):
            case "output":
                text = await asyncio.to_thread(lambda: _lines_of(_output(data), args))
            case "image":
                return await asyncio.to_thread(self._picture, place, data)
            case "pdf" | "office" as kind:
                text = await self._document(place, Job(data, place.path.name, kind))
                foreign = (place.shown,)
            case "binary":
                what = named_binary(data) or "not text"
                raise PathError(f"{place.shown} cannot be read: it is {what}, {len(data):,} bytes.")
            case _:
                text = await asyncio.to_thread(lambda: _lines_of(decode(data).text, args))
        return result_of(*_page(place.shown, text, args, most), foreign)

    def _opened(
        self, args: ReadFileArguments, store: FileStore, context: ToolContext
    ) -> tuple[ResolvedPath, bytes, tuple[str, ...]]:
        place = store.roots.place(args.path)
        hold(place, reading(place), context)
        try:
            return place, store.read(place, self._most(place, store)), foreign_of(store, place)
        except MissingFile:
            raise missing(store, place) from None

    def _most(self, place: ResolvedPath, store: FileStore) -> int:
        """Bytes that may be read of a file: of the whole output of a command all that is kept."""
        return max(self._limit, MAX_OUTPUT) if _is_output(place, store) else self._limit

    async def _document(self, place: ResolvedPath, job: Job) -> _Text:
        key = hashlib.sha256(job.body).hexdigest()
        if key not in self._documents:
            found = await self._extractor.extract(job)
            lines = [line for whole in strip_unsafe(found.text).strip().split("\n") for line in _wrapped(whole)]
            if not any(lines):
                why = " ".join(found.notes) or "it holds none; perhaps it is a scan."
                raise PathError(f"{place.shown} gives no text: {why}")
            self._documents = {key: _Text(tuple(lines), len(lines), notes=found.notes, numbered=False)}
        return self._documents[key]

    def _picture(self, place: ResolvedPath, data: bytes) -> ToolResult:
        """The picture as a file under the media folder, named by its content."""
        info = image_info(data)
        if info is None or len(data) > _PICTURE:
            raise PathError(
                f"{place.shown} is a picture of {len(data):,} bytes; a model is shown {_PICTURE:,} at most."
            )
        kept = keep_media(self._media / "files", data, info.mime, name=place.path.name)
        size = f", {info.width} x {info.height}" if info.width else ""
        said = result_of(f"{place.shown}: a picture ({info.mime}{size})", f"picture {place.shown}", (place.shown,))
        return replace(said, media=(kept,))


def _is_output(place: ResolvedPath, store: FileStore) -> bool:
    """Whether it is the whole output of a command, as `exec` keeps it."""
    return place.path.parent == store.roots.workspace / OUTPUT_FOLDER


def _output(data: bytes) -> str:
    """What a command wrote, whatever it is: a line too long to be shown goes on in the next, and NULs are counted."""
    text = _NULS.sub(lambda nuls: f"[{len(nuls[0]):,} NUL]".encode(), data).decode("utf-8", "replace")
    return strip_unsafe(_LONG.sub(lambda long: "\n".join(re.findall(_PIECE, long[0])), text))


def _lines_of(text: str, args: ReadFileArguments) -> _Text:
    """The lines that were asked for, and no others: fifty million of them would take a gigabyte."""
    text = text.replace("\r", "\n") if line_end(text) == "\r" else text  # as old Macs and some tables have it
    count = text.count("\n") + bool(text and not text.endswith("\n"))
    asked = islice(io.StringIO(text, newline="\n"), args.offset - 1, args.offset - 1 + args.limit)
    return _Text(tuple(line.removesuffix("\n").removesuffix("\r") for line in asked), count, begins=args.offset)


def _wrapped(line: str) -> list[str]:
    """A long line of a document as several, parted between words."""
    return textwrap.wrap(line, _LINE, break_on_hyphens=False, replace_whitespace=False) or [""]


def _page(name: str, text: _Text, args: ReadFileArguments, most: int) -> tuple[str, str]:
    """The lines that were asked for, as far as there is room, and how to read on; then where they stand, for people."""
    count, first = text.count, args.offset
    if first > max(count, 1):
        raise PathError(f"{name} has {counted(count, 'line')}, so none begins at {first}.")
    shown: list[str] = []
    for number, line in enumerate(text.lines[first - text.begins :][: args.limit], first):
        cut = line if len(line) <= _LINE else f"{line[:_LINE]}… ({len(line):,} characters; grep finds places in it)"
        shown.append(f"{number}\t{cut}" if text.numbered else cut)
        most -= len(shown[-1]) + 1
        if most < 0 and len(shown) > 1:
            shown.pop()
            break
    last = first + len(shown) - 1
    if not count:
        return f"{name} is empty.", f"{name}, empty"
    notes = [f"[{note}]" for note in text.notes]
    if last < count:
        notes.append(f"[{count - last} more lines: read on with offset={last + 1}.]")
    where = f"{name}, lines {first} to {last} of {count}"
    return "\n".join([where, *shown, *notes]), where
