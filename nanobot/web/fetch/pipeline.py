"""From a URL to a page that can be read: download, find out what it is, take it apart.

`fetch` works with clients and workers that live on.
"""

import asyncio
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import unquote

import httpx

from nanobot.errors import FetchError, FetchErrorKind
from nanobot.security.network import NO_EXCEPTIONS, Exceptions
from nanobot.utils.text import squeeze, strip_unsafe
from nanobot.web.client import PAGE_USER_AGENT
from nanobot.web.extract.page import WHOLE, Extracted, Format, Keep
from nanobot.web.extract.strip import strip_tags
from nanobot.web.extract.worker import MAX_BODY, Extractor, Job
from nanobot.web.fetch.charset import decode
from nanobot.web.fetch.content import (
    MAX_PIXELS,
    ContentType,
    ImageInfo,
    Kind,
    content_type,
    csv_table,
    image_info,
    named_binary,
    pretty_json,
    sniff,
)
from nanobot.web.fetch.download import Download, Limits, download
from nanobot.web.fetch.gate import doubts
from nanobot.web.fetch.json_documents import json_document
from nanobot.web.fetch.raw_files import raw_file
from nanobot.web.fetch.walls import sentence, wall

MAX_IMAGE_BYTES = 5_000_000
MAX_PDF_BYTES = 10_000_000
_NETWORK_SHARE = 0.6
_SHELL = re.compile(
    r"enable javascript|javascript (?:is )?(?:required|disabled)|^(?:loading|please wait)", re.IGNORECASE
)
_SHELL_CHARS = 300
_ADVICE = {
    400: "The URL may be mistyped; check it.",
    401: "The page needs a login; look for a public source.",
    402: "The page is behind a paywall; look for another source.",
    403: "The site refuses programs or needs a login; look for another source.",
    404: "The page is not there; search again for its new address.",
    410: "The page was removed; search for a copy or another source.",
    429: "The site asks for fewer requests; try another source.",
    451: "The page is withheld for legal reasons; look for another source.",
}


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How one page is read. `timeout` is in seconds for all steps together, `max_bytes` counts after decompression."""

    format: Format = "markdown"
    timeout: float = 30.0
    max_bytes: int = 10_485_760
    retries: int = 1
    user_agent: str = ""
    exceptions: Exceptions = NO_EXCEPTIONS
    keep: Keep = WHOLE


@dataclass(frozen=True, slots=True)
class Image:
    """An image as it came, or a PDF whose pages are images."""

    info: ImageInfo
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Page:
    """A page that was read. `cut` says why it is not whole; `notes` are sentences about how it was read.

    `doubts` are reasons why its text may not be what a person would see. `attempts` are the readers that were asked,
    each with `step`, `outcome` and `seconds`; `way` says it in words where it was not simply read here.
    `no_store`: the site wants no copy kept for others. `age` is in seconds, None for a page that came just now.
    """

    url: str
    final_url: str
    status: int
    kind: Kind
    content: Extracted
    size: int = 0
    cut: str = ""
    image: Image | None = None
    requests: int = 1
    doubts: tuple[str, ...] = ()
    attempts: tuple[dict[str, object], ...] = ()
    way: str = ""
    no_store: bool = False
    age: float | None = None
    retrieved_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def notes(self) -> tuple[str, ...]:
        cut = (f"The page is not whole: {self.cut}.",) if self.cut else ()
        return (*cut, *self.content.notes)


async def fetch(url: str, options: FetchOptions, *, client: httpx.AsyncClient, extractor: Extractor) -> Page:
    """Read one page with a guarded client. Raises `FetchError` with a sentence that says what to try."""
    start = asyncio.get_running_loop().time()
    limits = Limits(
        options.timeout * _NETWORK_SHARE, options.max_bytes, options.retries, options.user_agent or PAGE_USER_AGENT
    )
    file = url if options.format == "html" else raw_file(url)
    got = await download(client, file, limits, options.exceptions)
    if got.status == 404 and file != url:  # what a host shows is not always there as a file of its own
        limits = replace(limits, seconds=max(1.0, start + limits.seconds - asyncio.get_running_loop().time()))
        page = await download(client, url, limits, options.exceptions)
        got = replace(page, requests=got.requests + page.requests)
    got = replace(got, url=url)
    if got.status >= 400:
        raise _status_error(got)
    try:
        async with asyncio.timeout_at(start + options.timeout):
            return await _read(got, options, extractor)
    except TimeoutError:
        raise FetchError(
            "timeout",
            f"{got.final_url} arrived but could not be taken apart within {options.timeout:g} s. Try another source.",
            status=got.status,
            phase="extract",
        ) from None


async def _read(got: Download, options: FetchOptions, extractor: Extractor) -> Page:
    said = content_type(got.headers.get("content-type", ""))
    kind = sniff(said.mime, got.body, got.final_url)
    page = Page(got.url, got.final_url, got.status, kind, Extracted("", "", "raw"), len(got.body), got.cut)
    kept = {one.strip().lower().partition("=")[0] for one in got.headers.get("cache-control", "").split(",")}
    page = replace(page, requests=got.requests, no_store=not kept.isdisjoint({"no-store", "private"}))
    if kind == "empty":
        return page
    if kind == "image":
        return _image(page, got)
    if kind == "binary":
        raise _unsupported(got, said.mime)
    if kind in ("pdf", "office"):
        content = await _file(got, "pdf" if kind == "pdf" else "office", extractor)
        scan = Image(ImageInfo("application/pdf"), got.body) if content.extractor == "scan" else None
        return replace(page, content=content, image=scan)
    content = await _content(got, kind, said, options, extractor)
    content = replace(content, title=strip_unsafe(content.title), text=strip_unsafe(content.text))
    if kind == "html" and options.format != "html":
        _refuse_what_is_no_page(got, content)
        page = replace(page, doubts=doubts(content, got.body[:MAX_BODY].decode("utf-8", "replace")))
        if page.doubts and content.extractor != "fallback-data":
            note = f"The page may show more to a browser than these {len(content.text)} characters: {page.doubts[0]}."
            content = replace(content, notes=(*content.notes, note))
    if kind in ("html", "xml") and len(got.body) > MAX_BODY and not got.cut:
        page = replace(page, cut=f"only its first {_kb(MAX_BODY)} were read")
    return replace(page, content=content)


def _unsupported(got: Download, mime: str) -> FetchError:
    what = named_binary(got.body) or f"binary data ({mime or 'unknown type'})"
    return FetchError(
        "unsupported_type",
        f"{got.final_url} is {what}, {_kb(len(got.body))}, which cannot be read as text here. "
        "Look for an HTML version of the page.",
        status=got.status,
    )


async def _file(got: Download, kind: Literal["pdf", "office"], extractor: Extractor) -> Extracted:
    """The text of a file that is worthless when it is not whole."""
    if got.cut:
        raise FetchError(
            "too_large", f"{got.final_url} is a file that did not arrive whole: {got.cut}.", status=got.status
        )
    content = await extractor.extract(Job(got.body, got.final_url, kind))
    text, title = strip_unsafe(content.text), strip_unsafe(content.title)
    if not text.strip():
        if kind == "pdf" and not content.notes and len(got.body) <= MAX_PDF_BYTES:
            text = (
                f"[PDF without text, {_kb(len(got.body))}: its pages are pictures. Attached for models that read PDF.]"
            )
            return replace(content, text=text, title=title or _file_name(got), extractor="scan")
        why = " ".join(content.notes) or "It may be a scan: pictures of pages."
        raise FetchError(
            "no_content", f"{got.final_url} is a file without text. {why} Look for another source.", status=got.status
        )
    return replace(content, text=text, title=title or _file_name(got))


def _file_name(got: Download) -> str:
    return unquote(got.final_url.rpartition("/")[2].partition("?")[0])


async def _content(
    got: Download, kind: Kind, said: ContentType, options: FetchOptions, extractor: Extractor
) -> Extracted:
    if kind == "html" or (kind == "xml" and options.format != "html"):
        job = Job(
            got.body,
            got.final_url,
            "html" if kind == "html" else "xml",
            options.format,
            said.charset,
            bool(got.cut),
            options.keep,
        )
        return await extractor.extract(job)
    decoded = await asyncio.to_thread(decode, got.body, said.charset, cut=bool(got.cut))
    notes = (f"{decoded.replaced:.0%} of the characters could not be read.",) if decoded.replaced > 0.01 else ()
    text = decoded.text
    if kind == "json":
        document = await asyncio.to_thread(json_document, text)
        if document is not None:
            return replace(document, notes=(*notes, *document.notes))
        return Extracted("", await asyncio.to_thread(pretty_json, text), "json", notes=notes)
    if kind == "csv" and options.format == "markdown":
        return Extracted("", await asyncio.to_thread(csv_table, text), "csv", notes=notes)
    title = ""
    if kind == "markdown":
        match = re.search(r"^#\s+(.{1,300})$", text[:20_000], re.MULTILINE)
        title = match[1].strip() if match else ""
    return Extracted(title, text, "text", notes=notes)


def _image(page: Page, got: Download) -> Page:
    info = image_info(got.body)
    if info is None:
        return page
    if len(got.body) > MAX_IMAGE_BYTES or info.width * info.height > MAX_PIXELS:
        size = f"{info.width} × {info.height} pixels, {_kb(len(got.body))}"
        raise FetchError("too_large", f"{got.final_url} is an image that is too large ({size}).", status=got.status)
    size = f", {info.width} × {info.height} pixels" if info.width else ""
    name = got.final_url.rpartition("/")[2].partition("?")[0]
    text = f"[image: {info.mime}{size}, {_kb(len(got.body))}. It is attached for models that can see it.]"
    return replace(page, content=Extracted(name, text, "image"), image=Image(info, got.body))


def _refuse_what_is_no_page(got: Download, content: Extracted) -> None:
    """Raise for a page that shows nothing and for a wall in front of one."""
    front = wall(content.title, content.text)
    if front is not None:
        kind: FetchErrorKind = "login_wall" if front == "login" else "no_content"
        said = " ".join(content.text.split())[:200]
        raise FetchError(
            kind, f"{got.final_url}: {sentence(front)}\nThe page says: {said}", status=got.status, phase="extract"
        )
    if _is_shell(content, got.body):
        raise _no_content(got, content)


def _is_shell(content: Extracted, body: bytes) -> bool:
    """True where the page shows nothing, or nothing but a request for JavaScript."""
    if not content.text.strip():
        return True
    short = len(content.text) < _SHELL_CHARS and content.extractor != "fallback-data"
    return short and b"<script" in body.lower() and bool(_SHELL.search(content.text.strip()))


def _no_content(got: Download, content: Extracted) -> FetchError:
    said = f' It only says "{squeeze(content.text[:100])}".' if content.text else ""
    return FetchError(
        "no_content",
        f"{got.final_url} has no meaningful content and may require JavaScript.{said} "
        "Tried: main content, visible text, data in the page. Look for another source.",
        status=got.status,
    )


def _status_error(got: Download) -> FetchError:
    advice = _ADVICE.get(got.status, "The site has a fault; try again later or another source.")
    wait = got.retry_after
    if wait is not None:
        advice += f" It may be asked again in {wait:.0f} s (Retry-After)."
    mime = content_type(got.headers.get("content-type", ""))
    words = ""
    if sniff(mime.mime, got.body, got.final_url) in ("html", "text", "json", "xml"):
        words = " ".join(strip_unsafe(strip_tags(decode(got.body[:60_000], mime.charset, cut=True).text)).split())[:300]
    body = f"\nThe page says: {words}" if words else ""
    return FetchError(
        "http_status",
        f"{got.final_url} answered with status {got.status}. {advice}{body}",
        status=got.status,
        retry_after=wait,
        phase="read",
    )


def _kb(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB" if size >= 1_000_000 else f"{max(1, round(size / 1000))} kB"
