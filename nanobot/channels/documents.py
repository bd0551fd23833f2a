"""The text of documents that people send; PDF and office files are taken apart in a process of their own."""

import asyncio
from pathlib import Path

from msgspec import Struct

from nanobot.messages import Media
from nanobot.utils.text import strip_unsafe
from nanobot.utils.translation import _
from nanobot.web.extract.page import Job
from nanobot.web.extract.worker import Extractor
from nanobot.web.fetch.charset import decode
from nanobot.web.fetch.content import Kind, named_binary, sniff

#: Characters of one document that go into the turn.
DOCUMENT_CHARS = 20_000
#: Bytes of a text that are read.
_TEXT_BYTES = 400_000
#: Largest PDF or office file that is taken apart, in bytes.
_FILE_BYTES = 50_000_000


class DocumentText(Struct, frozen=True):
    """The text of a document, or the end of a sentence that says why there is none (`problem`).

    A `scan` is a PDF without text, which models that read PDF can see. Where the text was cut, `rest` is the line of
    the whole with which the rest begins.
    """

    text: str = ""
    problem: str = ""
    scan: bool = False
    rest: int = 0

    def shown(self, path: str) -> str:
        """The text for a model, with what was cut; `path` is where its tools read the file, if anywhere."""
        if not self.rest:
            return self.text
        # English: a model reads it
        where = f"read_file reads on: {path}, offset {self.rest}." if path else "No tool reads the rest."
        # English: a model reads it
        return f"{self.text}\n[Cut: the file has more than these {DOCUMENT_CHARS:,} characters. {where}]"


class Documents:
    """Reads documents. Its one worker process starts with the first PDF or office file and ends with `aclose`."""

    def __init__(self, extractor: Extractor | None = None) -> None:
        self._extractor = extractor or Extractor(size=1, wall=20.0)

    async def aclose(self) -> None:
        await self._extractor.aclose()

    async def read(self, media: Media) -> DocumentText:
        """The text, at most `DOCUMENT_CHARS` of it. Never raises."""
        try:
            return await self._read(media)
        except OSError as error:
            return DocumentText(
                problem=_("its text cannot be read ({error})", error=error.strerror or type(error).__name__)
            )

    async def _read(self, media: Media) -> DocumentText:
        path = Path(media.path)
        head = await asyncio.to_thread(_head, path, _TEXT_BYTES)
        kind = _kind(media, head)
        if kind == "empty":
            return DocumentText(problem=_("it is empty"))
        if kind not in {"pdf", "office", "binary", "image"}:
            return _shortened(decode(head, cut=media.size > len(head)).text, (), cut=media.size > len(head))
        if media.size > _FILE_BYTES:
            most = _FILE_BYTES // 1_000_000
            return DocumentText(problem=_("its text cannot be read: it has more than {most} MB", most=most))
        body = await asyncio.to_thread(_head, path, _FILE_BYTES)
        return await self._take_apart(media, body)

    async def _take_apart(self, media: Media, body: bytes) -> DocumentText:
        match _kind(media, body):
            case "pdf" | "office" as kind:
                found = await self._extractor.extract(Job(body, media.name, kind))
            case _:
                what = named_binary(body)
                known = _("its text cannot be read: it is {what}", what=what) if what else ""
                return DocumentText(problem=known or _("it is no text"))
        text = strip_unsafe(found.text).strip()
        if not text:
            scan = found.extractor == "pdf" and not found.notes
            if scan:
                why = _("its text cannot be read: it is a scan, which only models that read PDF can see")
            elif notes := " ".join(found.notes).rstrip("."):
                why = _("its text cannot be read: {why}", why=notes)
            else:
                why = _("its text cannot be read: it holds none")
            return DocumentText(problem=why, scan=scan)
        return _shortened(text, found.notes)


def _kind(media: Media, body: bytes) -> Kind:
    return sniff(media.mime if media.mime.startswith("text/") else "", body)


def _shortened(text: str, notes: tuple[str, ...], *, cut: bool = False) -> DocumentText:
    shown = text[:DOCUMENT_CHARS]
    rest = shown.count("\n") + 1 if cut or len(text) > DOCUMENT_CHARS else 0
    return DocumentText("\n".join([shown, *(f"[{note}]" for note in notes)]), rest=rest)


def _head(path: Path, most: int) -> bytes:
    with path.open("rb") as stream:
        return stream.read(most)
