"""Which http(s) URLs stand in a text that people wrote, in any language.

A URL ends at a blank, a quote, a full-width mark, an emoji, a bracket that it did not open, or the first letter of a
script without blanks that does not begin a part of it: `https://a.com/page查看` ends in `page`,
`https://a.com/wiki/北京` in the city. `www.` with a host behind it is a URL too, read over https.
"""

from urllib.parse import urlsplit

from msgspec import Struct


class FoundUrls(Struct, frozen=True):
    """URLs in their order, each once, as written; `malformed` are up to 20 words that look like URLs and are none."""

    urls: tuple[str, ...]
    malformed: tuple[str, ...] = ()


def extract_urls(text: str) -> FoundUrls:
    """Every http(s) URL of `text`. One that begins with `www.` stays so; `with_scheme` says how it is read."""
    lowered = text.lower()
    if not any(mark in lowered for mark in ("http", "www.", ":/")):
        return FoundUrls(())
    from nanobot.web.url_ends import find_urls  # its rules for many languages take 14 ms to compile

    urls, malformed = find_urls(text)
    return FoundUrls(tuple(urls), tuple(malformed))


def with_scheme(url: str) -> str:
    """The URL as it is read: `www.` with a real host behind it gets https, all else stays."""
    if url[:4].lower() != "www.":
        return url
    from nanobot.web.url_ends import is_real_host

    return f"https://{url}" if is_real_host(url) else url


def host_of(url: str) -> str:
    """The host of `url` in lower case; empty where it names none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
