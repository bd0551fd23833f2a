"""What a body is, by its first bytes and its header, and the forms that need no parser of pages."""

import csv
import io
import re
import struct
from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

from nanobot.utils.text import markdown_table
from nanobot.utils.translation import N_, _
from nanobot.web.fetch.json_text import loads

Kind = Literal["empty", "html", "json", "markdown", "text", "csv", "xml", "image", "pdf", "office", "binary"]

MAX_PIXELS = 40_000_000
_TABLE_ROWS = 2_000
_TABLE_COLUMNS = 40

_IMAGE_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_BINARY_MAGIC = (
    (b"PK\x03\x04", N_("a ZIP archive")),
    (b"PK\x05\x06", N_("an empty ZIP archive")),
    (b"\x1f\x8b", N_("a gzip archive")),
    (b"BZh", N_("a bzip2 archive")),
    (b"\xfd7zXZ\x00", N_("an xz archive")),
    (b"\x28\xb5\x2f\xfd", N_("a Zstandard archive")),
    (b"7z\xbc\xaf\x27\x1c", N_("a 7z archive")),
    (b"Rar!", N_("a RAR archive")),
    (b"II*\x00", N_("a TIFF picture")),
    (b"MM\x00*", N_("a TIFF picture")),
    (b"\x00\x00\x01\x00", N_("an icon")),
    (b"\x7fELF", N_("a program for Linux")),
    (b"MZ\x90\x00", N_("a program for Windows")),
    (b"\x00asm", N_("a WebAssembly program")),
    (b"OggS", N_("Ogg audio or video")),
    (b"ID3", N_("an MP3 file")),
    (b"\xff\xfb", N_("an MP3 file")),
    (b"fLaC", N_("a FLAC file")),
    (b"RIFF", N_("a WAV or AVI file")),
    (b"\x1a\x45\xdf\xa3", N_("a WebM or Matroska video")),
    (b"wOF2", N_("a font")),
    (b"wOFF", N_("a font")),
    (b"SQLite format 3\x00", N_("an SQLite database")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", N_("an old Office file (doc, xls or ppt)")),
)
_CONTAINERS = {b"avif": N_("an AVIF picture"), b"heic": N_("a HEIC picture"), b"M4A ": N_("an M4A audio file")}
_OFFICE_PARTS = (b"word/document.xml", b"xl/workbook.xml", b"ppt/presentation.xml", b"META-INF/container.xml")
_HTML_START = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script|style|div|p|h[1-6]|table|ul|ol|a|br|article|section|main|!--)"
    rb"[\s>/-]",
    re.IGNORECASE,
)
_MARKDOWN_NAMES = (".md", ".markdown", ".mdx")
_TEXT_NAMES = (".txt", ".log", ".rst", ".py", ".js", ".ts", ".go", ".rs", ".c", ".h", ".sh", ".toml", ".yaml", ".yml")


class ContentType(Struct, frozen=True):
    """A Content-Type header taken apart: `mime` in lower case, `charset` as written."""

    mime: str
    charset: str = ""


class ImageInfo(Struct, frozen=True):
    """What the first bytes of an image say; width and height are 0 where they do not say it."""

    mime: str
    width: int = 0
    height: int = 0


def content_type(header: str) -> ContentType:
    mime, _, rest = header.partition(";")
    match = re.search(r"charset\s*=\s*[\"']?([\w:.-]{1,40})", rest, re.IGNORECASE)
    return ContentType(mime.strip().lower(), match[1] if match else "")


def first_heading(text: str) -> str:
    """The words of the first heading of level 1 near the beginning of Markdown, empty where there is none."""
    match = re.search(r"^#\s+(.{1,300})$", text[:20_000], re.MULTILINE)
    return match[1].strip() if match else ""


def sniff(mime: str, body: bytes, url: str = "") -> Kind:
    """The kind of `body`. Magic bytes go before the header, the header before the URL's ending."""
    head = body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not body.strip():
        return "empty"
    if by_magic := _by_magic(head, body):
        return by_magic
    head = head.replace(b"\x00", b"").lstrip(b"\xff\xfe \t\r\n")  # UTF-16, with or without a mark
    path = urlsplit(url).path.lower()
    by_name = _by_name(mime, path)
    if by_name:
        return by_name
    if _HTML_START.match(head):
        return "html"
    if mime in ("text/html", "application/xhtml+xml"):
        return _not_really_html(head, body)
    if head.startswith(b"<?xml") or mime.endswith(("/xml", "+xml")):
        return "html" if b"<html" in head.lower() else "xml"
    if _is_json(mime, head, body):
        return "json"
    return "text"


def _by_magic(head: bytes, body: bytes) -> Kind | None:
    """The kind that the first bytes tell; None for what may be text."""
    if image_info(body):
        return "image"
    if b"%PDF-" in body[:1024] and not _HTML_START.match(head):
        return "pdf"
    if head.startswith(b"{\\rtf") or (body.startswith(b"PK\x03\x04") and any(part in body for part in _OFFICE_PARTS)):
        return "office"
    return "binary" if named_binary(body) or _is_binary(body) else None


def named_binary(body: bytes) -> str:
    """What a file that is no text is, by its first bytes; empty where they tell nothing."""
    if body[4:8] == b"ftyp":
        return _(_CONTAINERS.get(body[8:12], N_("an MP4 video")))
    if body[:2] == b"BM" and body[6:10] == bytes(4):
        return _("a BMP picture")
    return next((_(name) for magic, name in _BINARY_MAGIC if body.startswith(magic)), "")


def _by_name(mime: str, path: str) -> Kind | None:
    """The kind that the header or the ending says beyond doubt."""
    vague = mime in ("", "application/octet-stream", "text/plain", "binary/octet-stream")
    if mime in ("text/markdown", "text/x-markdown") or (vague and path.endswith(_MARKDOWN_NAMES)):
        return "markdown"
    if mime in ("text/csv", "text/tab-separated-values") or (vague and path.endswith((".csv", ".tsv"))):
        return "csv"
    if vague and path.endswith(_TEXT_NAMES):
        return "text"
    if mime.startswith("text/") and mime not in ("text/html", "text/xml", "text/plain", "text/json"):
        return "text"
    return None


def _not_really_html(head: bytes, body: bytes) -> Kind:
    """A body that calls itself HTML and does not start like it: JSON, XML, plain text, or HTML after all."""
    if _is_json("", head, body):
        return "json"
    if head.startswith(b"<?xml") and b"<html" not in head.lower():
        return "xml"
    sample = body[:100_000].lower()
    return "html" if re.search(rb"</?[a-z][a-z0-9-]{0,30}[\s>/]", sample) or b"&" in sample else "text"


def _is_json(mime: str, head: bytes, body: bytes) -> bool:
    if head[:1] not in (b"{", b"["):
        return mime == "application/json" and head[:1] in b'"0123456789-tfn'
    if mime.endswith(("/json", "+json")):
        return True
    return body[-64:].rstrip().endswith((b"}", b"]")) and loads(body) is not None


_CONTROLS = bytes(byte for byte in range(32) if byte not in (8, 9, 10, 12, 13, 27))


def _is_binary(body: bytes) -> bool:
    """True where NULs and control bytes say that this is no text. UTF-16 has NULs at every other place."""
    sample = body[:4096]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False
    nuls = sample.count(0)
    if nuls and (sample[1::2].count(0) > 0.8 * (len(sample) // 2) or sample[::2].count(0) > 0.8 * (len(sample) // 2)):
        return nuls > 0.9 * len(sample)
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    few = 0.02 if "\ufffd" in sample.decode("utf-8", "replace").rstrip("\ufffd") else 0.1
    return nuls > 0.02 * len(sample) or controls > few * len(sample)


def csv_table(text: str) -> str:
    """Comma- or tab-separated text as a Markdown table; as it is where it is no table of that size."""
    first = text.partition("\n")[0]
    delimiter = max("\t;,", key=first.count)
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row]
    except csv.Error:
        return text
    width = max((len(row) for row in rows), default=0)
    if not 2 <= width <= _TABLE_COLUMNS or not 2 <= len(rows) <= _TABLE_ROWS:
        return text
    return markdown_table(rows)


def image_info(body: bytes) -> ImageInfo | None:
    """The type and size of an image by its first bytes, None for anything else."""
    mime = next((mime for magic, mime in _IMAGE_MAGIC if body.startswith(magic)), "")
    if body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        mime = "image/webp"
    if not mime:
        return None
    width, height = 0, 0
    if mime == "image/png" and len(body) >= 24:
        width, height = struct.unpack(">II", body[16:24])
    elif mime == "image/gif" and len(body) >= 10:
        width, height = struct.unpack("<HH", body[6:10])
    elif mime == "image/jpeg":
        width, height = _jpeg_size(body)
    elif body[12:16] == b"VP8X" and len(body) >= 30:
        width = 1 + int.from_bytes(body[24:27], "little")
        height = 1 + int.from_bytes(body[27:30], "little")
    return ImageInfo(mime, width, height)


def _jpeg_size(body: bytes) -> tuple[int, int]:
    place = 2
    while place + 9 < len(body) and body[place] == 0xFF:
        marker = body[place + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", body[place + 5 : place + 9])
            return int(width), int(height)
        place += 2 + int.from_bytes(body[place + 2 : place + 4], "big")
    return 0, 0
