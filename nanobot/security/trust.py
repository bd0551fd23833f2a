"""Marking content that came from outside, so that a model can tell it from the owner's words."""

import hashlib
import re
import secrets

from msgspec import Struct

_OPEN = re.compile(r'\A<outside id="([0-9a-f]{16})" source="([^"\n]*)">\n')


class Outside(Struct, frozen=True):
    """Wrapped content taken apart again: `source` is the label it was wrapped with."""

    text: str
    source: str


def wrap(text: str, source: str, *, key: str = "") -> str:
    """`text` between two marks with a random boundary that does not occur in it. `source` names where it is from.

    With a `key`, which whoever wrote the text does not know, the same text gets the same boundary again.
    """
    boundary = hashlib.sha256(f"{key} {text}".encode(errors="replace")).hexdigest()[:16] if key else ""
    while not boundary or boundary in text:
        boundary = secrets.token_hex(8)
    label = re.sub(r"[^\w./:+-]", "_", source)
    # English: marks for a model
    return f'<outside id="{boundary}" source="{label}">\n{text}\n</outside id="{boundary}">'


def unwrap(text: str) -> Outside | None:
    """What `wrap` wrapped, or None where `text` is not of that form. A fake end mark inside stays inside."""
    match = _OPEN.match(text)
    if match is None:
        return None
    end = f'\n</outside id="{match[1]}">'
    if not text.endswith(end):
        return None
    return Outside(text[match.end() : len(text) - len(end)], match[2])
