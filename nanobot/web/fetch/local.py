"""Reading a page on this machine: download it, find out what it is, take it apart."""

import asyncio
import hashlib
import re
from typing import Literal
from urllib.parse import unquote

import httpx
from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import FetchError, FetchErrorKind
from nanobot.utils.text import file_size, squeeze, strip_unsafe
from nanobot.utils.translation import N_, _, sentences
from nanobot.web.extract.page import Extracted, Job, Keep
from nanobot.web.extract.strip import strip_tags
from nanobot.web.extract.worker import MAX_BODY, Extractor
from nanobot.web.fetch.charset import decode
from nanobot.web.fetch.content import (
    MAX_PIXELS,
    ContentType,
    ImageInfo,
    Kind,
    content_type,
    csv_table,
    first_heading,
    image_info,
    named_binary,
    sniff,
)
from nanobot.web.fetch.download import Download, Limits, download
from nanobot.web.fetch.json_text import json_document, pretty_json
from nanobot.web.fetch.page import Page, PageImage, PageRequest, SeenPage

MAX_IMAGE_BYTES = 5_000_000
MAX_PDF_BYTES = 10_000_000
#: The share of the time that loading a page may take; taking it apart has the rest.
_NETWORK_SHARE = 0.6
_ADVICE = {
    400: N_("The URL may be mistyped; check it."),
    401: N_("The page needs a login; look for a public source."),
    402: N_("The page is behind a paywall; look for another source."),
    403: N_("The site refuses programs or needs a login; look for another source."),
    404: N_("The page is not there; search again for its new address."),
    410: N_("The page was removed; search for a copy or another source."),
    429: N_("The site asks for fewer requests; try another source."),
    451: N_("The page is withheld for legal reasons; look for another source."),
}


class Wall(Struct, frozen=True):
    """What may stand in front of a page: `marks` is what it says, `most` the longest text in characters that can be
    one; pages that only mention a login are often a little longer."""

    kind: FetchErrorKind
    most: int
    marks: str
    sentence: str


# English: pages say so
_WALLS = (
    Wall(
        "no_content",
        1_500,
        r"^just a moment|checking (?:if the site connection is secure|your browser)"
        r"|verify (?:that )?you(?:'| a)re (?:a )?human|are you a robot|unusual traffic from your"
        r"|complete the (?:security check|captcha)|enable javascript and cookies|ddos protection by"
        r"|press (?:and|&) hold|attention required! \| cloudflare",
        N_("The site shows a check against robots instead of the page. Look for another source."),
    ),
    Wall(
        "login_wall",
        600,
        r"(?:(?:you (?:must|need to)|please) )?(?:log|sign) ?in to (?:continue|view|see|read)"
        r"|please (?:log|sign) ?in\b(?! to)|subscribe to (?:continue|read)"
        r"|this (?:content|page|article) is (?:only )?(?:available )?(?:for|to) (?:subscribers|members)",
        N_("The site shows a login or subscription wall instead of the page. Look for a public source."),
    ),
    Wall(
        "no_content",
        1_500,
        r"before you continue to|accept (?:all )?cookies to (?:continue|proceed)"
        r"|we (?:and our partners )?.{0,40}need your consent",
        N_("The site shows a consent form instead of the page. Look for another source."),
    ),
)
# English: pages say so
_SHELL = r"enable javascript|javascript (?:is )?(?:required|disabled)|^(?:loading|please wait)"
#: Characters of what a site says by which its page is known; more is no such word.
_MOST_VALIDATOR = 500
_SHELL_CHARS = 300
_LITTLE_CHARS = 250
_SCRIPT_SHARE = 0.5
_REPLACED = 0.05
_LINK = r"!?\[[^\[\]]{0,400}\]\((?:[^()\s]|\([^()\s]{0,200}\)){1,2000}\)"
_SCRIPT = r"(?is)<script\b[^<>]*>(.*?)</script\s*>"
# English: pages say so
_JAVASCRIPT = r"enable javascript|javascript (?:is )?(?:required|disabled|not enabled)|without javascript"
#: The empty element that a program in the page fills: as frameworks name it, or one of its own making.
_MOUNT = (
    r"<(?:(?:div|main|section)\b[^<>]*\bid=[\"']?(?:root|app|main|__next|__nuxt|react-root|svelte|gatsby)\b|app-root\b)[^<>]*>"
    r"\s*(?:<(?:div|p|span|svg|img|i)\b[^<>]*>\s*)*[^<>]{0,40}\s*</"
)


async def read_here(
    request: PageRequest, limits: Limits, keep: Keep, *, client: httpx.AsyncClient, extractor: Extractor
) -> Page:
    """The page, read with a guarded client in `limits.seconds`. Raises `FetchError` that says what to try."""
    start = asyncio.get_running_loop().time()
    loading = replace(limits, seconds=limits.seconds * _NETWORK_SHARE)
    if request.seen is not None:
        loading = replace(loading, headers=request.seen.headers)
    got = await download(client, request.address, loading)
    if got.status == 404 and request.address != request.url:  # what a host shows is not always there as a file
        left = start + loading.seconds - asyncio.get_running_loop().time()
        page = await download(client, request.url, replace(limits, seconds=max(1.0, left)))
        got = replace(page, requests=got.requests + page.requests)
    got = replace(got, url=request.url)
    if got.status >= 400:
        raise _status_error(got)
    if request.seen is not None:
        known = _seen(got, request.seen)
        if got.status == 304 or (known.digest and known.digest == request.seen.digest):
            empty = Extracted("", "", "raw")
            return Page(got.url, got.final_url, got.status, "empty", empty, unchanged=True, seen=known)
    try:
        async with asyncio.timeout_at(start + limits.seconds):
            return await page_of(got, request, keep, extractor)
    except TimeoutError:
        raise FetchError(
            "timeout",
            _(
                "{url} arrived but could not be taken apart within {seconds:g} s. Try another source.",
                url=got.final_url,
                seconds=limits.seconds,
            ),
            status=got.status,
            phase="extract",
        ) from None


def _seen(got: Download, before: SeenPage) -> SeenPage:
    """By what a page is known after this answer; one that has not changed may leave out what it said before."""
    said = (got.headers.get(name, "").strip() for name in ("etag", "last-modified"))
    etag, modified = (
        one if len(one) <= _MOST_VALIDATOR and one.isascii() and one.isprintable() else "" for one in said
    )
    if got.status == 304:
        return SeenPage(etag or before.etag, modified or before.modified, before.digest)
    return SeenPage(etag, modified, hashlib.sha256(got.body).hexdigest() if not got.cut else "")


async def page_of(got: Download, request: PageRequest, keep: Keep, extractor: Extractor) -> Page:
    """The page in what was downloaded. Raises `FetchError` where it is none."""
    said = content_type(got.headers.get("content-type", ""))
    kind = sniff(said.mime, got.body, got.final_url)
    stored = {one.strip().lower().partition("=")[0] for one in got.headers.get("cache-control", "").split(",")}
    page = Page(
        got.url,
        got.final_url,
        got.status,
        kind,
        Extracted("", "", "raw"),
        len(got.body),
        got.cut,
        requests=got.requests,
        no_store=not stored.isdisjoint({"no-store", "private"}),
        seen=_seen(got, SeenPage()),
    )
    match kind:
        case "empty":
            return page
        case "image":
            return _image(page, got)
        case "binary":
            what = named_binary(got.body) or _("binary data ({mime})", mime=said.mime or _("unknown type"))
            words = N_(
                "{url} is {what}, {size}, which cannot be read as text here. Look for an HTML version of the page."
            )
            raise _refused("unsupported_type", got, words, what=what, size=file_size(len(got.body)))
        case "pdf" | "office":
            content = await _file(got, kind, extractor)
            scan = PageImage(ImageInfo("application/pdf"), got.body) if content.extractor == "scan" else None
            return replace(page, content=content, image=scan)
    content = await _content(got, kind, said, request, keep, extractor)
    content = replace(content, title=strip_unsafe(content.title), text=strip_unsafe(content.text))
    if kind == "html" and request.format != "html":
        _refuse_what_is_no_page(got, content)
        page = replace(page, doubts=doubts(content, got.body[:MAX_BODY].decode("utf-8", "replace")))
        if page.doubts and content.extractor != "fallback-data":
            # English: a model reads it
            note = f"The page may show more to a browser than these {len(content.text)} characters: {page.doubts[0]}."
            content = replace(content, notes=(*content.notes, note))
    if kind in ("html", "xml") and len(got.body) > MAX_BODY and not got.cut:
        page = replace(page, cut=f"only its first {file_size(MAX_BODY)} were read")  # English: a model reads it
    return replace(page, content=content)


def _refused(kind: FetchErrorKind, got: Download, words: str, phase: str = "", **values: object) -> FetchError:
    return FetchError(kind, _(words, url=got.final_url, **values), status=got.status, phase=phase)


async def _file(got: Download, kind: Literal["pdf", "office"], extractor: Extractor) -> Extracted:
    """The text of a file that is worthless when it is not whole."""
    if got.cut:
        raise _refused("too_large", got, N_("{url} is a file that did not arrive whole: {why}."), why=got.cut)
    content = await extractor.extract(Job(got.body, got.final_url, kind))
    text, title = strip_unsafe(content.text), strip_unsafe(content.title) or unquote(_file_name(got))
    if text.strip():
        return replace(content, text=text, title=title)
    if kind == "pdf" and not content.notes and len(got.body) <= MAX_PDF_BYTES:
        size = file_size(len(got.body))
        # English: a model reads it
        text = f"[PDF without text, {size}: its pages are pictures. Attached for models that read PDF.]"
        return replace(content, text=text, title=title, extractor="scan")
    why = " ".join(content.notes) or _("It may be a scan: pictures of pages.")
    raise _refused("no_content", got, N_("{url} is a file without text. {why} Look for another source."), why=why)


def _file_name(got: Download) -> str:
    return got.final_url.rpartition("/")[2].partition("?")[0]


async def _content(
    got: Download, kind: Kind, said: ContentType, request: PageRequest, keep: Keep, extractor: Extractor
) -> Extracted:
    if kind == "html" or (kind == "xml" and request.format != "html"):
        form: Literal["html", "xml"] = "html" if kind == "html" else "xml"
        job = Job(got.body, got.final_url, form, request.format, said.charset, bool(got.cut), keep)
        return await extractor.extract(job)
    decoded = await asyncio.to_thread(decode, got.body, said.charset, cut=bool(got.cut))
    # English: a model reads it
    notes = (f"{decoded.replaced:.0%} of the characters could not be read.",) if decoded.replaced > 0.01 else ()
    text = decoded.text
    if kind == "json":
        document = await asyncio.to_thread(json_document, text)
        if document is not None:
            return replace(document, notes=(*notes, *document.notes))
        return Extracted("", await asyncio.to_thread(pretty_json, text), "json", notes=notes)
    if kind == "csv" and request.format == "markdown":
        return Extracted("", await asyncio.to_thread(csv_table, text), "csv", notes=notes)
    return Extracted(first_heading(text) if kind == "markdown" else "", text, "text", notes=notes)


def _image(page: Page, got: Download) -> Page:
    info = image_info(got.body)
    if info is None:
        return page
    pixels = f"{info.width} × {info.height} pixels, " if info.width else ""
    size = f"{pixels}{file_size(len(got.body))}"
    if len(got.body) > MAX_IMAGE_BYTES or info.width * info.height > MAX_PIXELS:
        raise _refused("too_large", got, N_("{url} is an image that is too large ({size})."), size=size)
    # English: a model reads it
    text = f"[image: {info.mime}, {size}. It is attached for models that can see it.]"
    return replace(page, content=Extracted(_file_name(got), text, "image"), image=PageImage(info, got.body))


def _status_error(got: Download) -> FetchError:
    advice = _(_ADVICE.get(got.status, N_("The site has a fault; try again later or another source.")))
    wait = got.retry_after
    if wait is not None:
        advice = sentences(advice, _("It may be asked again in {seconds:.0f} s (Retry-After).", seconds=wait))
    mime = content_type(got.headers.get("content-type", ""))
    words = ""
    if sniff(mime.mime, got.body, got.final_url) in ("html", "text", "json", "xml"):
        words = " ".join(strip_unsafe(strip_tags(decode(got.body[:60_000], mime.charset, cut=True).text)).split())[:300]
    said = _("{url} answered with status {status}.", url=got.final_url, status=got.status)
    body = "\n" + _("The page says: {words}", words=words) if words else ""
    return FetchError(
        "http_status",
        sentences(said, advice) + body,
        status=got.status,
        retry_after=wait,
        phase="read",
    )


def wall(title: str, text: str) -> Wall | None:
    """What stands in front of the page, None for a page. Long texts are pages whatever they say."""
    shown = f"{title}\n{text}"
    short = (one for one in _WALLS if len(text) <= one.most)
    return next((one for one in short if re.search(one.marks, shown, re.IGNORECASE)), None)


def _refuse_what_is_no_page(got: Download, content: Extracted) -> None:
    """Raise for a wall in front of a page, and for one that shows nothing or nothing but a request for JavaScript."""
    text = content.text.strip()
    front = wall(content.title, content.text)
    if front is not None:
        said = _("The page says: {words}", words=squeeze(text)[:200])
        words = f"{got.final_url}: {_(front.sentence)}\n{said}"
        raise FetchError(front.kind, words, status=got.status, phase="extract")
    short = len(content.text) < _SHELL_CHARS and content.extractor != "fallback-data"
    shell = short and b"<script" in got.body.lower() and re.search(_SHELL, text, re.IGNORECASE)
    if not text or shell:
        says = squeeze(content.text[:100])
        words = sentences(
            _("{url} has no meaningful content and may require JavaScript.", url=got.final_url),
            _('It only says "{words}".', words=says) if content.text else "",
            _("Tried: main content, visible text, data in the page. Look for another source."),
        )
        raise FetchError("no_content", words, status=got.status, phase="extract")


# English: a model reads them
def doubts(content: Extracted, html: str) -> tuple[str, ...]:
    """Reasons why the text is probably not what a person would see; none for an ordinary page."""
    text = content.text
    found: list[str] = []
    if len(text) < _LITTLE_CHARS and "<script" in html.lower():
        share = sum(len(match[1]) for match in re.finditer(_SCRIPT, html)) / len(html)
        outside = len(re.sub(_LINK, "", text).strip())
        if share > _SCRIPT_SHARE:
            found.append(f"little text ({len(text)} characters) and much script ({share:.0%})")
        elif outside < len(text) * 0.2 and re.search(_LINK, text):
            found.append("nothing but links")
        if re.search(_MOUNT, html, re.IGNORECASE):
            found.append("its scripts fill in the content")
        unseen = "".join(re.findall(r"(?s)<noscript.{0,2000}", html))
        if re.search(_JAVASCRIPT, text, re.IGNORECASE) or re.search(_JAVASCRIPT, unseen, re.IGNORECASE):
            found.append("it asks for JavaScript")
    if content.extractor == "fallback-data":
        found.append("only the data in the page was found")
    replaced = text.count("\ufffd") / len(text) if text else 0.0
    if replaced > _REPLACED:
        found.append(f"{replaced:.0%} of the characters could not be read")
    return tuple(found)
