"""What Telegram takes and refuses in a message, written from its rules and not from our renderer.

Offsets and lengths are in UTF-16 units. Sources: the open Bot API server and TDLib (limits of text and entities,
refused links, surrogate pairs).
"""

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import urlsplit


class EntityLike(Protocol):
    """An entity as it goes over the wire."""

    @property
    def type(self) -> str: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def url(self) -> str | None: ...


def problems(text: str, entities: Sequence[EntityLike]) -> list[str]:
    """Why the server would refuse the message, change it, or show it otherwise than meant. Empty: it is fine."""
    found = []
    units = text.encode("utf-16-le", "surrogatepass")
    length = len(units) // 2
    if not text.strip():
        found.append("message text is empty")
    if length > 4096:
        found.append(f"message is too long: {length}")
    if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        found.append("strings must be encoded in UTF-8")
    if len(entities) > 100:
        found.append(f"{len(entities)} entities; some would be dropped")
    for entity in entities:
        found.extend(_entity(entity, units, length))
    found.extend(_nesting(entities))
    return found


def _entity(entity: EntityLike, units: bytes, length: int) -> list[str]:
    found = []
    end = entity.offset + entity.length
    if entity.length <= 0 or entity.offset < 0:
        found.append(f"{entity.type}: empty or negative")
    if entity.offset >= length or end > length:
        found.append(f"{entity.type}: ends after the text ({end} > {length})")
    found.extend(
        f"{entity.type}: cuts a surrogate pair at {place}"
        for place in (entity.offset, end)
        if 0 < place < length and 0xDC00 <= int.from_bytes(units[2 * place : 2 * place + 2], "little") <= 0xDFFF
    )
    if not units[2 * entity.offset : 2 * end].decode("utf-16-le", "replace").strip():
        found.append(f"{entity.type}: only blanks")
    if entity.type == "text_link":
        try:
            parts = urlsplit(entity.url or "")
            host = parts.hostname or ""
        except ValueError:
            parts, host = urlsplit(""), ""
        good_host = "." in host.strip(".") or ":" in host
        if parts.scheme != "tg" and (parts.scheme not in {"http", "https"} or not good_host):
            found.append(f"wrong HTTP URL: {entity.url}")
        if any(char.isspace() for char in entity.url or ""):
            found.append(f"blank in URL: {entity.url}")
    return found


def _nesting(entities: Sequence[EntityLike]) -> list[str]:
    found = []
    for index, one in enumerate(entities):
        for other in entities[index + 1 :]:
            low, high = max(one.offset, other.offset), min(one.offset + one.length, other.offset + other.length)
            if low >= high:
                continue
            kinds = {one.type, other.type}
            if kinds & {"pre", "code"} and "blockquote" not in kinds:
                found.append(f"{one.type} and {other.type} overlap at {low}")
            if one.type == other.type == "blockquote":
                found.append("blockquotes nest")
            inner = one if (one.offset, -one.length) >= (other.offset, -other.length) else other
            outer = other if inner is one else one
            if inner.offset + inner.length > outer.offset + outer.length:
                found.append(f"{one.type} and {other.type} cross at {low}")
    return found
