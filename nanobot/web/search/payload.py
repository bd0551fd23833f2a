"""Reading what engines answer: tolerant of unknown fields, strict on addresses."""

import html
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from msgspec import Struct

from nanobot.errors import SearchError
from nanobot.utils.text import squeeze, strip_unsafe
from nanobot.web.search.base import SearchHit
from nanobot.web.urls import host_of

_SCRIPT = re.compile(r"<(script|style)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
_DAY = re.compile(r"(\d{4})-(\d{2})-(\d{2})(?!\d)")


def record(value: object) -> dict[str, object]:
    """`value` where it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def at(value: object, *path: str) -> object:
    """The value under `path`, None where the way ends early."""
    for key in path:
        value = record(value).get(key)
    return value


def text(value: object) -> str:
    """`value` where it is text, else empty."""
    return value if isinstance(value, str) else ""


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
    """Text of an engine on one line: no tags, no entities, no control characters."""
    without = _TAG.sub("", _SCRIPT.sub(" ", text(value)))
    return squeeze(strip_unsafe(html.unescape(without)))


def lines_of(value: object) -> str:
    """Page text of an engine: its lines are kept, control characters are not."""
    return strip_unsafe(text(value)).replace("\r\n", "\n").strip()


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


class Fields(Struct, frozen=True):
    """Where an engine keeps the parts of a hit: for each the keys to try, in order; a dot goes one level down."""

    title: tuple[str, ...] = ("title",)
    url: tuple[str, ...] = ("url",)
    snippet: tuple[str, ...] = ("snippet",)
    content: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    site: tuple[str, ...] = ()
    score: tuple[str, ...] = ()
    icon: tuple[str, ...] = ()
    mime: tuple[str, ...] = ()

    def read(self, item: object) -> SearchHit | None:
        """The hit in `item`, None where it has no usable address."""
        url = address(_first(item, self.url))
        if not url:
            return None
        return SearchHit(
            title=plain(_first(item, self.title)) or host_of(url),
            url=url,
            snippet=plain(_first(item, self.snippet)),
            content=lines_of(_first(item, self.content)),
            published=day(_first(item, self.published)),
            site=plain(_first(item, self.site)),
            score=number(_first(item, self.score)),
            icon=address(_first(item, self.icon)),
            mime=plain(_first(item, self.mime)),
        )


def _first(item: object, keys: Iterable[str]) -> object:
    for key in keys:
        value = at(item, *key.split("."))
        if value not in (None, "", []):
            return value
    return None


def read_hits(found: object, fields: Fields, *, engine: str) -> tuple[tuple[SearchHit, ...], int]:
    """The hits in a list and how many items were unusable.

    Raises `SearchError` (bad_payload) where `found` is no list, or holds items but not one usable.
    """
    if not isinstance(found, list):
        raise bad_payload(engine, found)
    hits = tuple(hit for hit in map(fields.read, found) if hit is not None)
    if found and not hits:
        raise bad_payload(engine, found)
    return hits, len(found) - len(hits)


def bad_payload(engine: str, value: object) -> SearchError:
    """The error for an answer in an unknown shape, with the beginning of it."""
    beginning = squeeze(strip_unsafe(str(value)))[:200]
    return SearchError("bad_payload", f"{engine} answered in a form that is not understood: {beginning}")


def event_data(body: str) -> list[object]:
    """The JSON of every event in an event stream; what is no JSON is left out."""
    found: list[object] = []
    for block in body.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line.removeprefix("data:").removeprefix(" ") for line in block.split("\n") if line.startswith("data:")]
        try:
            found.append(json.loads("\n".join(lines)))
        except (ValueError, RecursionError):
            continue
    return found


def short_reason(words: str) -> str:
    """Why a host was not reached, in a few words: libraries string the errors of their layers together."""
    lowered = words.lower()
    marks = {
        "dns": "its name was not found",
        "resolve": "its name was not found",
        "name or service": "its name was not found",
        "refused": "the connection was refused",
        "certificate": "its certificate is not trusted",
        "proxy": "the proxy refused",
        "tunnel": "the proxy refused",
    }
    return next((short for mark, short in marks.items() if mark in lowered), words[:100])
