"""Reading what engines answer: tolerant of unknown fields, strict on addresses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from nanobot.errors import SearchError
from nanobot.jsonval import at, parse, text
from nanobot.utils.text import one_line, strip_unsafe
from nanobot.utils.translation import N_, _
from nanobot.web.extract.strip import strip_tags
from nanobot.web.search.base import SearchHit
from nanobot.web.urls import host_of

_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)")


def texts(value: object) -> list[str]:
    """The text that `value` is, or those in its list."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def number(value: object) -> float | None:
    """`value` as a finite number, also from a numeral; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if abs(found) < 1e300 else None


def plain(value: object) -> str:
    """Text of an engine, or several of them, on one line: no tags, no entities, no control characters."""
    return " … ".join(one_line(strip_tags(one, page=False)) for one in texts(value))


def lines_of(value: object) -> str:
    """Page text of an engine, in one piece or several: its lines are kept, control characters are not."""
    return "\n\n".join(strip_unsafe(one).replace("\r\n", "\n").strip() for one in texts(value))


def day(value: object) -> str:
    """A date as `YYYY-MM-DD`, from ISO 8601, a mail date or seconds since 1970; empty where it is none of them."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10**11:
        return datetime.fromtimestamp(value, UTC).date().isoformat()
    given = text(value).strip()
    if found := _DAY.match(given):
        return found[0] if 1 <= int(found[2]) <= 12 and 1 <= int(found[3]) <= 31 else ""
    try:
        return parsedate_to_datetime(given).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ""


def address(value: object) -> str:
    """`value` where it is an absolute http or https address with a host, else empty."""
    given = strip_unsafe(text(value)).strip()
    if not given.lower().startswith(("http://", "https://")) or any(mark.isspace() for mark in given):
        return ""
    try:
        return given if urlsplit(given).hostname else ""
    except ValueError:
        return ""


#: The keys of page text.
CONTENT = ("raw_content", "markdown", "props.markdown", "excerpts", "snippets", "text", "content")
#: Where engines keep the parts of a hit: for each the keys to try, in order; a dot goes one level down.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "title": ("title", "name"),
    "url": ("url", "link", "href"),
    "snippet": ("snippet", "description", "highlights", "summary", "excerpts.0", "body", "content", "text"),
    "content": CONTENT,
    "published": (
        "published date",
        *"published publishedDate published_date publish_date publishedTime datePublished dateLastCrawled pubdate "
        "page_age date last_updated time".split(),
    ),
    "site": ("profile.name", "site_name", "siteName", "source"),
    "score": ("score",),
    "icon": ("favicon", "meta_url.favicon", "icon", "siteIcon"),
    "mime": ("mime",),
}


def read_hit(item: object, content: Sequence[str] = CONTENT) -> SearchHit | None:
    """The hit in `item`, None where it has no usable address; `content` are the keys of its page text."""
    found = {part: _first(item, keys) for part, keys in {**_KEYS, "content": content}.items()}
    url = address(found["url"])
    if not url:
        return None
    return SearchHit(
        title=plain(found["title"]) or host_of(url),
        url=url,
        snippet=plain(found["snippet"]),
        content=lines_of(found["content"]),
        published=day(found["published"]),
        site=plain(found["site"]),
        score=number(found["score"]),
        icon=address(found["icon"]),
        mime=plain(found["mime"]),
    )


def _first(item: object, keys: Iterable[str]) -> object:
    values = (at(item, *key.split(".")) for key in keys)
    return next((value for value in values if value not in (None, "", [])), None)


def read_hits(found: object, engine: str, content: Sequence[str] = CONTENT) -> tuple[tuple[SearchHit, ...], int]:
    """The hits in a list and how many items were unusable.

    Raises `SearchError` (bad_payload) where `found` is no list, or holds items but not one usable.
    """
    if not isinstance(found, list):
        raise bad_payload(engine, found)
    hits = tuple(hit for item in found if (hit := read_hit(item, content)) is not None)
    if found and not hits:
        raise bad_payload(engine, found)
    return hits, len(found) - len(hits)


def bad_payload(engine: str, value: object) -> SearchError:
    """The error for an answer in an unknown shape, with the beginning of it."""
    beginning = one_line(str(value))[:200]
    return SearchError(
        "bad_payload",
        _("{service} answered in a form that is not understood: {answer}", service=engine, answer=beginning),
    )


def event_data(body: str) -> list[object]:
    """The JSON of every event in an event stream; what is no JSON is left out."""
    found: list[object] = []
    for block in body.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line.removeprefix("data:").removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        found.append(parse("\n".join(lines)))
    return [one for one in found if one is not None]


#: What stands in the errors of libraries → what that means.
# English: libraries say so
_MARKS = {
    "dns": N_("its name was not found"),
    "resolve": N_("its name was not found"),
    "name or service": N_("its name was not found"),
    "refused": N_("the connection was refused"),
    "no connections": N_("no connection came about"),
    "certificate": N_("its certificate is not trusted"),
    "proxy": N_("the proxy refused"),
    "tunnel": N_("the proxy refused"),
}


def short_reason(words: str) -> str:
    """Why a host was not reached, in a few words: libraries string the errors of their layers together."""
    lowered = words.lower()
    return next((_(short) for mark, short in _MARKS.items() if mark in lowered), words[:100])
