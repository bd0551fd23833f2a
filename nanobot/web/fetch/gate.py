"""What may be sent to a remote reader, and why a page that was read here is worth another reading."""

import re

from nanobot.utils.url_secrets import url_secrets
from nanobot.web.extract.page import Extracted

_LITTLE_CHARS = 250
_SCRIPT_SHARE = 0.5
_REPLACED = 0.05
_LINK = re.compile(r"!?\[[^\[\]]{0,400}\]\([^()\s]{1,2000}\)")
_SCRIPT = re.compile(r"<script\b[^<>]*>(.*?)</script\s*>", re.IGNORECASE | re.DOTALL)
_JAVASCRIPT = re.compile(
    r"enable javascript|javascript (?:is )?(?:required|disabled|not enabled)|without javascript", re.IGNORECASE
)
#: The empty element that a program in the page fills: as frameworks name it, or one of its own making.
_MOUNT = re.compile(
    r"<(?:(?:div|main|section)\b[^<>]*\bid=[\"']?(?:root|app|main|__next|__nuxt|react-root|svelte|gatsby)\b|app-root\b)[^<>]*>"
    r"\s*(?:<(?:div|p|span|svg|img|i)\b[^<>]*>\s*)*[^<>]{0,40}\s*</",
    re.IGNORECASE,
)


def doubts(content: Extracted, html: str) -> tuple[str, ...]:
    """Reasons why the text is probably not what a person would see; none for an ordinary page."""
    text = content.text
    found: list[str] = []
    scripts = sum(len(match[1]) for match in _SCRIPT.finditer(html))
    share = scripts / len(html) if html else 0.0
    if len(text) < _LITTLE_CHARS and "<script" in html.lower():
        outside = len(_LINK.sub("", text).strip())
        if share > _SCRIPT_SHARE:
            found.append(f"little text ({len(text)} characters) and much script ({share:.0%})")
        elif outside < len(text) * 0.2 and _LINK.search(text):
            found.append("nothing but links")
        if _MOUNT.search(html):
            found.append("its scripts fill in the content")
        if _JAVASCRIPT.search(text) or _JAVASCRIPT.search("".join(re.findall(r"<noscript.{0,2000}", html, re.DOTALL))):
            found.append("it asks for JavaScript")
    if content.extractor == "fallback-data":
        found.append("only the data in the page was found")
    replaced = text.count("\ufffd") / len(text) if text else 0.0
    if replaced > _REPLACED:
        found.append(f"{replaced:.0%} of the characters could not be read")
    return tuple(found)


def keeps_home(url: str) -> str:
    """Why `url` must not be told to anybody else, empty where it may: it carries what looks like a secret."""
    found = url_secrets(url)
    return found[0].where if found else ""
