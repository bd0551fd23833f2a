"""The main content of an HTML page as Markdown or plain text, and what the page says of itself.

Our own reader chooses the content and renders it. Where it kept little of a page's words, readability is asked too. Its
choice, rendered by the same renderer, is taken if it holds most of what ours holds and more than twice as much: ours
found a part of the article then. Where the two disagree, ours is right more often. A page that shows nothing without
JavaScript is answered from the data that lies in it. Runs in the worker process, see `nanobot.web.extract.worker`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace

import lxml.html
from lxml import etree
from readability import Document

from nanobot.utils.text import squeeze
from nanobot.web.extract.article import Article, read_part, read_tree
from nanobot.web.extract.dom import parse
from nanobot.web.extract.metadata import Metadata, read_metadata
from nanobot.web.extract.page import WHOLE, Extracted, Format, Keep
from nanobot.web.extract.strip import cut_attributes, page_title, strip_tags

__all__ = ["Extracted", "Format", "extract"]

MAX_CHARS = 4_000_000
_POOR_CHARS = 200
_LITTLE = 0.35  # keeping less than this share of the visible words calls for a second opinion,
_SHORT = 100  # on pages with more words than this
_TIMES = 2.0
_MOST = 0.6


def extract(
    html: bytes | str,
    url: str,
    *,
    format: Format = "markdown",  # noqa: A002
    keep: Keep = WHOLE,
) -> Extracted:
    """Read a page. Bytes are taken as UTF-8. Never raises on bad markup; an empty `text` means nothing was found."""
    source = html.decode("utf-8", "replace") if isinstance(html, bytes) else html
    notes = [] if len(source) <= MAX_CHARS else [f"Only the first {MAX_CHARS} characters of the page were read."]
    source = cut_attributes(_clean(source[:MAX_CHARS]))
    try:
        root = parse(source)
    except (etree.LxmlError, ValueError, TypeError):
        return Extracted(page_title(source), strip_tags(source), "raw", notes=tuple(notes))
    if format == "html":
        about = read_metadata(root, url)
        return _about(about, source if keep.scripts else _harmless_html(root), "raw", "", notes)
    article = _second_opinion(source, url, read_tree(root, url, keep), keep)
    text = article.markdown if format == "markdown" else article.text
    data = _page_data(root) if len(text) < _POOR_CHARS else ""
    if len(data) > len(text):
        notes.append("The page shows little without JavaScript; this is the data that lies in it.")
        return _about(article.metadata, data, "fallback-data", "", notes)
    if not text.strip():
        bare = strip_tags(source)
        return _about(article.metadata, bare, "raw" if bare else "none", "", notes)
    main = article.how not in ("visible", "empty")
    page = _about(article.metadata, text, "readability" if main else "raw", article.how, notes)
    return replace(page, share=article.share)


def _about(metadata: Metadata, text: str, extractor: str, how: str, notes: list[str]) -> Extracted:
    said = (metadata.site, metadata.author, metadata.published, metadata.language)
    return Extracted(metadata.title, text.strip(), extractor, *said, notes=tuple(notes), how=how)


def _clean(source: str) -> str:
    """Without NULs, lone surrogates and other characters that XML forbids; they crash or empty parsers."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "", source)


def _second_opinion(source: str, url: str, ours: Article, keep: Keep) -> Article:
    """What readability chose, where ours holds little of the page and less than half of that."""
    if ours.how != "article" or ours.share >= _LITTLE or ours.tokens < _SHORT * ours.share:
        return ours
    try:
        summary = Document(source, url=url).summary(html_partial=True)
        part = lxml.html.fragment_fromstring(summary, create_parent="div")
    except (etree.LxmlError, ValueError, TypeError, AttributeError, KeyError, RecursionError, IndexError):
        return ours
    theirs = read_part(part, ours, url, keep)
    return theirs if theirs.tokens > _TIMES * ours.tokens and _holds(theirs.text, ours.text) else ours


def _holds(theirs: str, ours: str) -> bool:
    """Whether most paragraphs of `ours` stand in `theirs`."""
    paragraphs = [squeeze(part) for part in ours.split("\n\n") if part.strip()]
    flat = squeeze(theirs)
    return sum(part in flat for part in paragraphs) > _MOST * len(paragraphs)


def _harmless_html(root: lxml.html.HtmlElement) -> str:
    for element in root.xpath("//script | //style | //template"):
        element.drop_tree()
    return str(lxml.html.tostring(root, encoding="unicode"))


def _page_data(root: lxml.html.HtmlElement) -> str:
    """Text that a page carries beside what it shows: JSON-LD, the data of its framework, noscript, its description."""
    found: list[str] = []
    for script in root.iter("script"):
        kind = (script.get("type") or "").lower()
        if kind == "application/ld+json" or script.get("id") in ("__NEXT_DATA__", "__NUXT_DATA__"):
            try:
                found.extend(_prose(json.loads(script.text or "")))
            except (ValueError, RecursionError):
                continue
    for element in root.iter("noscript"):
        text = squeeze(strip_tags(lxml.html.tostring(element, encoding="unicode")))
        if text and not re.search(r"enable javascript|javascript (?:is )?(?:required|disabled)", text, re.IGNORECASE):
            found.append(text)
    found.extend(
        squeeze(element.get("content") or "")
        for element in root.iter("meta")
        if (element.get("name") or element.get("property") or "").lower() in ("description", "og:description")
    )
    return "\n\n".join(dict.fromkeys(text for text in found if text))


def _prose(value: object, key: str = "") -> Iterator[str]:
    """The readable strings of JSON: headlines, names, texts; no addresses, no identifiers."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _prose(inner, str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _prose(inner, key)
    elif isinstance(value, str):
        text = squeeze(strip_tags(value))
        sentence = " " in text and len(text) > 20
        if (sentence or key == "headline") and not text.startswith(("http://", "https://", "/")):
            yield text
