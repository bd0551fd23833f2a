"""Which http(s) URLs stand in a text that people wrote, in any language.

A URL ends at a blank, a quote, a full-width mark, an emoji, a bracket that it did not open, or the first letter of a
script without blanks that does not begin a part of it: `https://a.com/page查看` ends in `page`,
`https://a.com/wiki/北京` in the city. `www.` with a host behind it is a URL too, read over https.
"""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from nanobot.web.url_ends import START, end_of_host, end_of_tail, may_begin, trimmed
from nanobot.web.url_words import NAME

#: What looks as if a URL was meant.
_MEANT = re.compile(r"(?<!\w)(?:https?:\S*|[a-z]{2,8}:/{1,2}\S+|www\.\S+)", re.IGNORECASE)
_TRAILING = ".,;:!?'*~"
_LABEL = re.compile(f"[{NAME}-]+")
_WWW = re.compile(r"www\.", re.IGNORECASE)
#: Endings of file names that are no top-level domains.
_FILE = re.compile(
    r"html?|php\d?|aspx?|jsp|css|js|json|xml|ya?ml|toml|ini|cfg|conf|config|log|txt|pdf|docx?|xlsx?|pptx?|csv|tar|t?gz|"
    r"bz2|rar|exe|dll|png|jpe?g|gif|svg|bak|old|tmp|d"
)
_MOST_MALFORMED = 20


@dataclass(frozen=True, slots=True)
class FoundUrls:
    """URLs in their order, each once, as written; `malformed` are up to 20 words that look like URLs and are none."""

    urls: tuple[str, ...]
    malformed: tuple[str, ...] = ()


def extract_urls(text: str) -> FoundUrls:
    """Every http(s) URL of `text`. One that begins with `www.` stays so; `with_scheme` says how it is read."""
    urls: dict[str, None] = {}
    gaps: list[str] = []
    at = 0
    for start in START.finditer(text):
        if start.start() < at or not may_begin(text, start):
            continue
        url = _url_at(text, start)
        if url:
            urls[url] = None
            gaps.append(text[at : start.start()])
            at = start.start() + len(url)
    gaps.append(text[at:])
    wrong = dict.fromkeys(word[0].rstrip(_TRAILING) for gap in gaps for word in _MEANT.finditer(gap))
    return FoundUrls(tuple(urls), tuple(wrong)[:_MOST_MALFORMED])


def _url_at(text: str, start: re.Match[str]) -> str:
    """The URL that begins at `start`; empty where there is none."""
    begin = start.start()
    bare = start[0].lower() == "www."
    end = end_of_host(text, begin if bare else start.end(), login=not bare)
    if not is_http_url(with_scheme(text[begin:end])):
        return ""
    return trimmed(text[begin : end_of_tail(text, begin, end)], text[max(0, begin - 2) : begin])


def with_scheme(url: str) -> str:
    """The URL as it is read: `www.` with a real host behind it gets https, all else stays."""
    if not _WWW.match(url):
        return url
    labels = host_of(f"https://{url}").removesuffix(".").split(".")
    top = labels[-1]
    real = len(labels) > 2 and len(top) > 1 and not top[0].isdigit() and not _FILE.fullmatch(top)
    return f"https://{url}" if real else url


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
    labels = host.removesuffix(".").split(".")
    return ":" in host or (all(map(_LABEL.fullmatch, labels)) and (len(labels) > 1 or host.isascii()))


def host_of(url: str) -> str:
    """The host of `url` in lower case; empty where it names none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
