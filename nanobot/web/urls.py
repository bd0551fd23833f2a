"""Which http(s) URLs stand in a text that people wrote, in any language.

A URL ends at a blank, a quote, a full-width mark, a bracket that it did not open, or the first letter of a script
without blanks that does not begin a part of it: `https://a.com/page查看` ends in `page`,
`https://a.com/wiki/北京` in the city.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_START = re.compile(r"https?://", re.IGNORECASE)
#: What looks as if a URL was meant.
_MEANT = re.compile(r"(?<!\w)(?:https?:\S*|[a-z]{2,8}:/{1,2}\S+|www\.\S+)", re.IGNORECASE)
_STOP = re.compile(
    r"[\s<>\"`|\\^\u200b-\u200f\u2028\u2029\ufeff\u2010-\u201f\u2026\u00ab\u00bb\u2039\u203a\u3000-\u3004\u3008-\u3020"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\u060c\u061b\u061f\u06d4\u0964\u0965]"
    r"|&(?:lt|gt|quot|nbsp|#39);"
)
#: Scripts that are written without blanks, and Hangul, whose particles follow a word at once.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3021-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]"
)
_OPENERS = {")": "(", "]": "[", "}": "{"}
_TRAILING = ".,;:!?'*~"
_FOOTNOTE = re.compile(r"\[\d{1,3}\]$")
_LABEL = re.compile(r"[\w-]+")
_MOST_MALFORMED = 20


@dataclass(frozen=True, slots=True)
class FoundUrls:
    """URLs in reading order, each once; `malformed` are the words that look like URLs and are none (at most 20)."""

    urls: tuple[str, ...]
    malformed: tuple[str, ...] = ()


def extract_urls(text: str) -> FoundUrls:
    """Every http(s) URL of `text`."""
    urls: dict[str, None] = {}
    gaps: list[str] = []
    at = 0
    while start := _START.search(text, at):
        url = _trimmed(_until_stop(text, start), text[: start.start()][-1:])
        gaps.append(text[at : start.start()])
        at = start.start() + len(url)
        if is_http_url(url):
            urls[url] = None
        else:
            word = re.match(r"\S+", text[start.start() :])
            gaps.append(word[0] if word else url)
            at = max(at, start.end())
    gaps.append(text[at:])
    wrong = dict.fromkeys(word[0].rstrip(_TRAILING) for gap in gaps for word in _MEANT.finditer(gap))
    return FoundUrls(tuple(urls), tuple(wrong)[:_MOST_MALFORMED])


def is_http_url(url: str) -> bool:
    """Whether `url` names a host over http or https, with a port that exists."""
    try:
        parts = urlsplit(url)
        _port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not host:
        return False
    return ":" in host or all(_LABEL.fullmatch(label) for label in host.removesuffix(".").split("."))


def _until_stop(text: str, start: re.Match[str]) -> str:
    """The URL with whatever punctuation stands at its end."""
    opened: list[tuple[str, int]] = []
    begin, at = start.start(), start.end()
    while at < len(text) and not _STOP.match(text, at):
        char = text[at]
        if char in "([{":
            opened.append((char, at))
        elif char in _OPENERS:
            if not opened or opened[-1][0] != _OPENERS[char]:
                break
            opened.pop()
        elif (_UNSPACED.match(char) and not _may_follow(text[at - 1])) or _begins_another(text, at):
            break
        at += 1
    return text[begin : opened[0][1] if opened else at]


def _may_follow(before: str) -> bool:
    """Whether a letter of an unspaced script behind this character still belongs to the URL."""
    return before in "/=.#?&-_+(:~%" or bool(_UNSPACED.match(before))


def _begins_another(text: str, at: int) -> bool:
    """Whether a second URL begins here; one in a path or a query belongs to the first."""
    return text[at] in "hH" and text[at - 1] not in "/=:" and _START.match(text, at) is not None


def _trimmed(url: str, before: str) -> str:
    """The URL without the punctuation of its sentence; `before` is the character in front of it."""
    marks = _TRAILING + ("_" if before == "_" else "")
    if before == "'":
        url = url.partition("'")[0]
    while True:
        shorter = _FOOTNOTE.sub("", url.rstrip(marks).removesuffix("'s"))
        if shorter == url:
            return url
        url = shorter


def host_of(url: str) -> str:
    """The host of `url` in lower case; empty where it names none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
