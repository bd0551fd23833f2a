"""Reading JSON whose shape a stranger decided: each function gives its type or the empty value of it."""

import json
from contextlib import suppress
from typing import TypeVar

from msgspec import DecodeError, ValidationError, convert, to_builtins
from msgspec.json import Decoder, encode

T = TypeVar("T")
JsonObject = dict[str, object]
_decode = Decoder().decode


def parse(text: str | bytes) -> object:
    """The value, or None where `text` is no JSON. What msgspec refuses and others send, such as NaN, half characters,
    UTF-16, a mark of the byte order and bytes that are no UTF-8, is read by the decoder of the standard library."""
    try:
        value: object = _decode(text)
    except (DecodeError, UnicodeError, RecursionError):
        try:
            value = json.loads(text if isinstance(text, str) else text.decode(json.detect_encoding(text), "replace"))
        except (ValueError, RecursionError):
            return None
    return value


def parse_as(data: bytes, decoder: Decoder[T]) -> T | None:
    """The value in the shape of `decoder`, or None where it has another one."""
    try:
        return decoder.decode(data)
    except (DecodeError, UnicodeError, RecursionError):
        try:
            return convert(parse(data), decoder.type)
        except ValidationError:
            return None


def obj(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def rows(value: object) -> list[JsonObject]:
    """The objects of a list."""
    return [item for item in items(value) if isinstance(item, dict)]


def at(value: object, *path: str) -> object:
    """What stands behind keys within keys, `0` being the first of a list; None where one of them is missing."""
    for key in path:
        value = next(iter(value), None) if key == "0" and isinstance(value, list) else obj(value).get(key)
    return value


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """A count; text, NaN and negative numbers give 0."""
    return int(decimal(value))


def decimal(value: object) -> float:
    """An amount; text, NaN, negative and infinite numbers, which no session keeps, and those beyond 1e15 give 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e15:
        return 0.0
    return float(value)


def dump(value: object) -> bytes:
    """Compact UTF-8 JSON in the order of the keys. Lone surrogates, which no server accepts, are dropped."""
    with suppress(UnicodeEncodeError, OverflowError):  # of surrogates, and of numbers beyond 64 bits
        return encode(value)
    return json.dumps(to_builtins(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "ignore")


def compact(value: object) -> str:
    return dump(value).decode()
