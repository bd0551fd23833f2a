"""Items of feeds and searches: which are new, since when, and which were told already."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from msgspec import Struct
from msgspec.structs import replace

from nanobot.utils.text import fold, shorten, squeeze
from nanobot.watch.compare import Memory, marked
from nanobot.watch.target import canonical

_MOST_SEEN = 3_000
#: Items that are taken of one list, and characters of a title.
MOST_ITEMS, _TITLE = 200, 300
_ENTRY = re.compile(r"- \[(?P<title>.*)\]\((?P<url>\S+)\)(?: \((?P<date>[^()]*)\))?\Z")
_BARE = re.compile(r"- (?P<title>.*?)(?P<url>)(?: \((?P<date>[^()]*\d[^()]*)\))?\Z")
#: An item whose date lies this far ahead has a wrong one.
_AHEAD = timedelta(days=1)


class NewsItem(Struct, frozen=True):
    """Something with a title, an address that may be empty, and the time of its source, None where that names none."""

    title: str
    url: str
    at: datetime | None = None

    @property
    def marks(self) -> tuple[str, ...]:
        """By which it is known again: its address and its title, whichever of them changes."""
        words = re.sub(r"\W+", " ", fold(self.title)).strip()
        by_title = [marked(f"title {words}")] if len(words) > 11 or not self.url else []
        return (*([marked(f"url {canonical(self.url)}")] if self.url else []), *by_title)


def feed_items(text: str) -> tuple[NewsItem, ...]:
    """The items of a feed, as `web.extract.feed` writes them."""
    found = (_ENTRY.match(line) or _BARE.match(line) for line in text.splitlines() if line.startswith("- "))
    return tuple(_item(match["title"], match["url"], match["date"] or "") for match in found if match)[:MOST_ITEMS]


def _item(title: str, url: str, date: str) -> NewsItem:
    return NewsItem(shorten(squeeze(title), _TITLE), safe_link(url), read_date(date))


def found_items(hits: Iterable[tuple[str, str, str]]) -> tuple[NewsItem, ...]:
    """Hits of a search, each a title, an address and a date or an empty text, as items."""
    return tuple(_item(*hit) for hit in hits)[:MOST_ITEMS]


def safe_link(url: str) -> str:
    """An address that may be shown in a message; empty for anything else than a plain http address."""
    return url if re.fullmatch(r"https?://[^\s<>\"'`\x00-\x1f]{3,600}", url, re.IGNORECASE) else ""


def read_date(text: str) -> datetime | None:
    """A date as feeds and engines write it, in UTC; None where it cannot be read."""
    text = text.strip()
    try:
        made = datetime.fromisoformat(text)
    except ValueError:
        try:
            made = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError):
            return None
    try:
        return (made if made.tzinfo else made.replace(tzinfo=UTC)).astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def new_items(memory: Memory, items: Sequence[NewsItem]) -> tuple[Memory, tuple[NewsItem, ...]]:
    """What is kept after a look at a list, and its new items; the first look only gets to know them."""
    seen = dict.fromkeys(memory.seen)
    new = []
    for item in items:
        if not item.marks or not seen.keys().isdisjoint(item.marks):
            continue
        new.append(item)
        seen |= dict.fromkeys(item.marks)
    seen |= dict.fromkeys(mark for item in items for mark in item.marks)
    first = not memory.looks
    kept = replace(memory, looks=memory.looks + 1, seen=tuple(seen)[-_MOST_SEEN:])
    return kept, () if first else tuple(new)


def reportable(items: Iterable[NewsItem], told: Iterable[str], since: datetime, now: datetime) -> tuple[NewsItem, ...]:
    """The items that a briefing may tell: dated, not before `since`, told neither before nor twice; newest first."""
    known = set(told)
    found: list[NewsItem] = []
    for item in items:
        if item.at is None or not since <= item.at <= now + _AHEAD or not known.isdisjoint(item.marks):
            continue
        if item.marks:
            found.append(item)
            known.update(item.marks)
    return tuple(sorted(found, key=lambda item: item.at or now, reverse=True))
