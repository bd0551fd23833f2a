"""From bytes to a tree, and the few questions every later step asks of an element."""

import re
from collections.abc import Iterator

import lxml.html
from lxml.html import HtmlElement

#: Elements whose content is never text of the page.
SILENT = frozenset(
    (
        *("script", "style", "noscript", "template", "svg", "math", "canvas", "iframe", "object", "embed", "applet"),
        *("head", "link", "meta", "title", "audio", "video", "map", "area", "select", "option", "optgroup", "datalist"),
        *("button", "input", "textarea", "dialog", "progress", "meter", "frame", "frameset"),
    )
)
INLINE = frozenset(
    (
        *(
            "a",
            "abbr",
            "acronym",
            "b",
            "bdi",
            "bdo",
            "big",
            "cite",
            "code",
            "data",
            "del",
            "dfn",
            "em",
            "font",
            "i",
            "img",
        ),
        *(
            "ins",
            "kbd",
            "label",
            "mark",
            "nobr",
            "picture",
            "q",
            "rb",
            "rp",
            "rt",
            "ruby",
            "s",
            "samp",
            "small",
            "source",
        ),
        *("span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    )
)
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = re.compile(r"\w+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")


def parse(html: str | bytes, charset: str = "utf-8") -> HtmlElement:
    """The document's tree, without comments. Text is decoded by the caller; bytes are read as `charset`.

    The parser's own depth limit stays on, so nesting is bounded.
    """
    parser = lxml.html.HTMLParser(encoding=charset, remove_comments=True, remove_pis=True, huge_tree=False)
    data = html.encode("utf-8", "replace") if isinstance(html, str) else html
    if isinstance(html, str):
        parser = lxml.html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=False)
    data = data.replace(b"\x00", b"")
    if not data.strip():
        data = b"<html><body></body></html>"
    root = lxml.html.document_fromstring(data, parser=parser, ensure_head_body=True)
    if not isinstance(root, HtmlElement):
        raise TypeError("the parser gave no element")
    return root


def body_of(root: HtmlElement) -> HtmlElement:
    body = root.find("body")
    return body if body is not None else root


def tag_of(element: HtmlElement) -> str:
    """The tag in lower case; empty for what is no element."""
    return element.tag.lower() if isinstance(element.tag, str) else ""


def is_hidden(element: HtmlElement) -> bool:
    """Whether the page itself says that this is not shown."""
    if element.get("hidden") is not None and element.get("hidden") != "until-found":
        return True
    style = element.get("style")
    if style and _HIDDEN.search(style):
        return True
    return element.get("aria-hidden") == "true" and tag_of(element) != "img"


def names_of(element: HtmlElement) -> str:
    """Class, id, itemprop and role as words joined by blanks and hyphens, camel case taken apart."""
    found = " ".join(
        filter(None, (element.get(name) for name in ("class", "id", "itemprop", "role", "data-component")))
    )
    return _CAMEL.sub("-", found)


def lineage(element: HtmlElement) -> Iterator[HtmlElement]:
    """The element and its ancestors, inside out."""
    current: HtmlElement | None = element
    while current is not None:
        yield current
        current = current.getparent()


def count_tokens(text: str) -> int:
    """Words; in scripts without blanks two characters count as one."""
    ideographs = len(_CJK.findall(text))
    if not ideographs:
        return len(_WORDS.findall(text))
    return ideographs // 2 + len(_WORDS.findall(_CJK.sub(" ", text)))
