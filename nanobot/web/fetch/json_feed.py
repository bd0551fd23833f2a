"""JSON Feed as a list of entries, in the form that RSS and Atom get (https://www.jsonfeed.org/version/1.1/)."""

import json

from nanobot.utils.text import squeeze
from nanobot.web.extract.page import Extracted
from nanobot.web.extract.strip import strip_tags

MAX_ENTRIES = 200
_MARK = "https://jsonfeed.org/version/"


def json_feed(text: str) -> Extracted | None:
    """The entries of a feed; None for any other JSON."""
    if _MARK not in text[:2_000] or len(text) > 4_000_000:
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not _text(value.get("version")).startswith(_MARK):
        return None
    items = value.get("items")
    entries = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    left = len(entries) - MAX_ENTRIES
    notes = (f"{left} further entries are left out.",) if left > 0 else ()
    lines = "\n".join(_entry(entry) for entry in entries[:MAX_ENTRIES])
    return Extracted(_text(value.get("title")), lines, "json", language=_text(value.get("language")), notes=notes)


def _entry(entry: dict[str, object]) -> str:
    title = _text(entry.get("title")) or "(no title)"
    link = _text(entry.get("url")) or _text(entry.get("external_url"))
    date = _text(entry.get("date_published"))
    words = _text(entry.get("summary")) or _text(entry.get("content_text"))
    words = words or squeeze(strip_tags(_text(entry.get("content_html"))))
    head = f"- [{title}]({link})" if link else f"- {title}"
    return "\n  ".join([head + (f" ({date})" if date else ""), *([words[:600]] if words else [])])


def _text(value: object) -> str:
    return squeeze(value) if isinstance(value, str) else ""
