"""Feeds and other XML as text: RSS and Atom become lists of entries, anything else its words in order."""

from collections.abc import Iterator

from lxml import etree

from nanobot.utils.text import squeeze
from nanobot.web.extract.page import Extracted
from nanobot.web.extract.strip import strip_tags

MAX_ENTRIES = 200


def extract_xml(body: bytes, text: str) -> Extracted:
    """Read XML; `text` is the decoded body, given back where the parser fails. No entity and no address is followed."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError):
        return Extracted("", text, "text", notes=("This is no well-formed XML; it is given as it is.",))
    if root is None:
        return Extracted("", text, "text", notes=("This is no well-formed XML; it is given as it is.",))
    if _name(root) in ("rss", "feed", "RDF"):
        return _feed(root)
    return Extracted("", text, "xml")


def _feed(root: etree._Element) -> Extracted:
    channel = next((node for node in root if _name(node) == "channel"), root)
    entries = [node for node in root.iter() if _name(node) in ("item", "entry")]
    lines = [_entry(entry) for entry in entries[:MAX_ENTRIES]]
    left = len(entries) - MAX_ENTRIES
    notes = (f"{left} further entries are left out.",) if left > 0 else ()
    return Extracted(
        _child(channel, "title"), "\n".join(lines), "xml", language=_child(channel, "language"), notes=notes
    )


def _entry(entry: etree._Element) -> str:
    title = _child(entry, "title") or "(no title)"
    date = _child(entry, "pubDate") or _child(entry, "published") or _child(entry, "updated") or _child(entry, "date")
    summary = strip_tags(_child(entry, "description") or _child(entry, "summary") or _child(entry, "content"))
    link = next(iter(_links(entry)), "")
    head = f"- [{title}]({link})" if link else f"- {title}"
    return "\n  ".join([head + (f" ({date})" if date else ""), *([squeeze(summary)[:600]] if summary else [])])


def _links(entry: etree._Element) -> Iterator[str]:
    for node in entry:
        if _name(node) == "link" and node.get("rel", "alternate") == "alternate":
            link = node.get("href") or (node.text or "").strip()
            if link:
                yield link


def _child(node: etree._Element, name: str) -> str:
    found = next((child for child in node if _name(child) == name), None)
    return "" if found is None else squeeze("".join(str(part) for part in found.itertext()))


def _name(node: etree._Element) -> str:
    return str(node.tag).rpartition("}")[2]
