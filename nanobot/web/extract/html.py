"""The main content of an HTML page as Markdown or plain text, and what the page says of itself.

readability chooses the content and markdownify renders it. Where they find little of what is visible, the visible text
of the whole page is given instead, and where the page shows nothing without JavaScript, the data that lies in it;
`extractor` says which way was taken. Runs in the worker process, see `nanobot.web.extract.worker`.
"""

import json
import re
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import lxml.html
from lxml import etree
from markdownify import MarkdownConverter
from readability import Document

from nanobot.utils.text import squeeze
from nanobot.web.extract.page import Extracted, Format
from nanobot.web.extract.strip import cut_attributes, page_title, strip_tags

__all__ = ["Extracted", "Format", "extract"]

MAX_CHARS = 4_000_000
MAX_DEPTH = 150
_POOR = 0.25
_POOR_CHARS = 200
_DROPPED = ("script", "style", "template", "svg", "iframe", "object", "embed", "link", "meta", "noscript")


def extract(html: bytes | str, url: str, *, format: Format = "markdown") -> Extracted:  # noqa: A002
    """Read a page. Bytes are taken as UTF-8. Never raises on bad markup; an empty `text` means nothing was found."""
    source = html.decode("utf-8", "replace") if isinstance(html, bytes) else html
    notes = [] if len(source) <= MAX_CHARS else [f"Only the first {MAX_CHARS} characters of the page were read."]
    source = cut_attributes(_clean(source[:MAX_CHARS]))
    root = _parse(source)
    if root is None:
        return Extracted(page_title(source), strip_tags(source), "raw", notes=tuple(notes))
    about = _about(root, url)
    if format == "html":
        return _with(about, _harmless_html(root), "raw", notes)
    data = _page_data(root)
    visible = _visible_text(root)
    if _deep(root):
        notes.append("The page is nested too deep to keep its structure.")
        return _with(about, visible or strip_tags(source), "raw", notes)
    main = _readable(source, url, format)
    enough = max(_POOR_CHARS, int(len(visible) * _POOR)) if len(visible) > _POOR_CHARS else len(visible) * _POOR
    if main and len(main) >= min(enough, _POOR_CHARS * 10):
        return _with(about, main, "readability", notes)
    if len(visible) < _POOR_CHARS and len(data) > len(visible):
        notes.append("The page shows little without JavaScript; this is the data that lies in it.")
        return _with(about, data, "fallback-data", notes)
    if visible:
        text = visible if format == "text" else _render(_body(root), url) or visible
        return _with(about, text, "raw", notes)
    return _with(about, main, "readability" if main else "none", notes)


def _with(about: Extracted, text: str, extractor: str, notes: list[str]) -> Extracted:
    return Extracted(
        about.title, text.strip(), extractor, about.site, about.author, about.published, about.language, tuple(notes)
    )


def _clean(source: str) -> str:
    """Without NULs, lone surrogates and other characters that XML forbids; they crash or empty parsers."""
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]", "", source)


def _parse(source: str) -> lxml.html.HtmlElement | None:
    parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=False)
    try:
        root = lxml.html.document_fromstring(source.encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None
    return root if isinstance(root, lxml.html.HtmlElement) else None


def _deep(root: lxml.html.HtmlElement) -> bool:
    depth = 0
    for event, _ in etree.iterwalk(root, events=("start", "end")):
        depth += 1 if event == "start" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def _readable(source: str, url: str, format: Format) -> str:  # noqa: A002
    try:
        summary = Document(source, url=url).summary(html_partial=True)
        tree = lxml.html.fragment_fromstring(summary, create_parent="div")
    except (etree.LxmlError, ValueError, TypeError, AttributeError, KeyError, RecursionError, IndexError):
        return ""
    return _visible_text(tree) if format == "text" else _render(tree, url)


class _Converter(MarkdownConverter):
    """markdownify with fenced code that names its language and with absolute links."""


def _language_of(element: object) -> str:
    names = " ".join(_class_names(element))
    match = re.search(r"(?:language|lang|highlight|brush)[-:_ ]+(?:source-)?([\w+#.-]+)", names)
    return match[1] if match and match[1] not in ("text", "default", "none") else ""


def _class_names(element: object) -> Iterator[str]:
    """The class names of a `pre`, of its `code`, and of what stands around it."""
    parent = getattr(element, "parent", None)
    code = getattr(element, "code", None)
    for node in (code, element, parent, getattr(parent, "parent", None)):
        get = getattr(node, "get", None)
        value = get("class") if callable(get) else None
        if isinstance(value, list):
            yield from (str(name) for name in value)


def _render(tree: lxml.html.HtmlElement, url: str) -> str:
    for element in tree.xpath("//" + " | //".join(_DROPPED)):
        element.drop_tree()
    for element in tree.iter("a", "img"):
        name = "href" if element.tag == "a" else "src"
        if value := element.get(name):
            element.set(name, _absolute(url, value))
    html = lxml.html.tostring(tree, encoding="unicode")
    converter = _Converter(heading_style="ATX", bullets="-", code_language_callback=_language_of, escape_misc=False)
    try:
        text = str(converter.convert(html))
    except (RecursionError, ValueError, AttributeError):
        return _visible_text(tree)
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()


def _absolute(url: str, value: str) -> str:
    try:
        return urljoin(url, value.strip())
    except ValueError:
        return value


_BLOCK = re.compile(
    r"(?:address|article|aside|blockquote|body|br|center|d[dlt]|details|div|fieldset|fig(?:caption|ure)|footer|form"
    r"|frameset|h[1-6r]|header|html|li|main|nav|ol|option|p|pre|section|summary|table|t[dhr]|ul)\Z"
)


def _visible_text(root: lxml.html.HtmlElement) -> str:
    """The text of every visible element, one line per block. Walks without recursion."""
    parts: list[str] = []
    hidden = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = element.tag if isinstance(element.tag, str) else ""
        skip = tag in _DROPPED or tag in ("head", "title")
        if event == "start":
            hidden += skip
            if _BLOCK.match(tag):
                parts.append("\n")
            if element.text and not hidden:
                parts.append(element.text)
        else:
            hidden -= skip
            if _BLOCK.match(tag):
                parts.append("\n")
            if element.tail and not hidden:
                parts.append(element.tail)
    lines = (squeeze(line) for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line)


def _body(root: lxml.html.HtmlElement) -> lxml.html.HtmlElement:
    found = root.find("body")
    return root if found is None else found


def _harmless_html(root: lxml.html.HtmlElement) -> str:
    for element in root.xpath("//script | //style | //template"):
        element.drop_tree()
    return str(lxml.html.tostring(root, encoding="unicode"))


def _about(root: lxml.html.HtmlElement, url: str) -> Extracted:
    """The page's own words on title, site, author, date and language."""
    meta: dict[str, str] = {}
    for element in root.iter("meta"):
        name = (element.get("property") or element.get("name") or element.get("itemprop") or "").lower()
        if name and element.get("content"):
            meta.setdefault(name, squeeze(element.get("content") or "")[:300])
    title = squeeze(root.findtext(".//title") or "") or meta.get("og:title", "")
    if not title:
        heading = root.find(".//h1")
        title = "" if heading is None else squeeze(heading.text_content())
    dates = ("article:published_time", "datepublished", "date", "dc.date", "citation_publication_date", "pubdate")
    return Extracted(
        title[:300],
        "",
        "",
        meta.get("og:site_name", "") or (urlsplit(url).hostname or ""),
        meta.get("author", "") or meta.get("article:author", ""),
        next((meta[name] for name in dates if name in meta), ""),
        (root.get("lang") or meta.get("og:locale", ""))[:35],
    )


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
