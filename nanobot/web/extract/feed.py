"""Feeds and other XML as text: RSS and Atom become lists of entries, anything else its words in order."""

import re
from collections.abc import Iterator
from functools import reduce
from urllib.parse import urljoin

from lxml import etree

from nanobot.utils.text import squeeze
from nanobot.web.extract.dom import tag_name
from nanobot.web.extract.page import Extracted
from nanobot.web.extract.strip import strip_tags

MAX_ENTRIES = 200
#: Characters of an entry's summary that are shown, and that are looked at.
SUMMARY_CHARS, MAX_SUMMARY = 600, 20_000
#: A link to a page in HTML; no part of it is read twice, however odd it is.
_LINK = re.compile(
    r"""<a\s[^<>]{0,200}?\bhref=["']?(?!javascript:|data:)([^"'\s<>]{1,2000}+)[^<>]{0,500}+>([^<]{1,200}+)</a>""",
    re.IGNORECASE,
)
#: Where an entry says what it is about: RSS and Atom, then the whole text (`content:encoded` in RSS).
_SUMMARIES = ("description", "summary", "encoded", "content")
_BASE = "{http://www.w3.org/XML/1998/namespace}base"


def extract_xml(body: bytes, text: str, url: str = "") -> Extracted:
    """Read XML from `url`; `text` is the decoded body, given back where the parser fails. No entity is followed."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True)
    try:
        root = etree.fromstring(body, parser)
        if root is not None:
            return _feed(root, url) if tag_name(root) in ("rss", "feed", "RDF") else Extracted("", text, "xml")
    except (etree.XMLSyntaxError, ValueError):  # also where a reference to half a character was let through
        pass
    return Extracted("", text, "text", notes=("This is no well-formed XML; it is given as it is.",))


def _feed(root: etree._Element, url: str) -> Extracted:
    channel = next(root.iterchildren("{*}channel"), root)
    entries = list(root.iter("{*}item", "{*}entry"))
    lines = [_entry(entry, url) for entry in entries[:MAX_ENTRIES]]
    left = len(entries) - MAX_ENTRIES
    notes = (f"{left} further entries are left out.",) if left > 0 else ()
    return Extracted(
        _child(channel, "title"), "\n".join(lines), "xml", language=_child(channel, "language"), notes=notes
    )


def _entry(entry: etree._Element, url: str) -> str:
    title = _child(entry, "title") or "(no title)"
    date = _child(entry, "pubDate") or _child(entry, "published") or _child(entry, "updated") or _child(entry, "date")
    if "html" in next((node.get("type", "") for node in entry.iterchildren("{*}title")), ""):
        title = squeeze(strip_tags(title))
    link = next(_links(entry, url), "")
    files = " ".join(f"[file]({file})" for file in _links(entry, url, ("enclosure",)))
    told = (_child(around, name) for around in (entry, *entry.iterfind("{*}group")) for name in _SUMMARIES)
    html = next(filter(None, told), "")[:MAX_SUMMARY]
    linked = _LINK.sub(lambda at: f"[{at[2]}]({_joined(link or url, at[1])})", html)
    summary = squeeze(strip_tags(linked))[:SUMMARY_CHARS]
    head = f"- [{title}]({link})" if link else f"- {title}"
    return "\n  ".join(filter(None, (head + (f" ({date})" if date else ""), summary, files)))


def _links(entry: etree._Element, url: str, kinds: tuple[str, ...] = ("alternate", "guid")) -> Iterator[str]:
    """Where an entry leads, or its files; an id counts as a link where it says that it is one."""
    found: dict[str, str] = {}
    for node in entry:
        name = tag_name(node)
        link = node.get("href") or node.get("url") or (node.text or "").strip()
        kind = node.get("rel", "alternate") if name == "link" else name
        if (
            kind in kinds
            and link
            and (name != "guid" or (link.startswith("http") and node.get("isPermaLink") != "false"))
        ):
            found.setdefault(kind, _absolute(node, link, url))
    return (found[kind] for kind in kinds if kind in found)


def _absolute(node: etree._Element, link: str, url: str) -> str:
    """`link` by the bases that stand around it (XML Base), the feed's own address first."""
    bases = [base for around in (node, *node.iterancestors()) if (base := around.get(_BASE))]
    return _joined(reduce(_joined, reversed(bases), url), link)


def _joined(base: str, link: str) -> str:
    try:
        return urljoin(base, link)
    except ValueError:
        return link


def _child(node: etree._Element, name: str) -> str:
    found = next(node.iterchildren(f"{{*}}{name}"), None)
    if found is None:
        return ""
    if found.get("type") == "xhtml":
        return etree.tostring(found, encoding="unicode", method="html", with_tail=False)
    return squeeze("".join(str(part) for part in found.itertext()))
