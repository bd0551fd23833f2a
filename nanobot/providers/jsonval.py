"""Reading JSON whose shape a stranger decided: each function gives its type or the empty value of it."""

import json


def parse(text: str) -> object:
    """The value, or None where `text` is no JSON."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def obj(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def integer(value: object) -> int:
    """A count; text, NaN and negative numbers give 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value < 0:
        return 0
    return int(min(value, 1e15))


def decimal(value: object) -> float:
    """An amount; text, NaN, negative and infinite numbers, which no session keeps, and those beyond 1e15 give 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e15:
        return 0.0
    return float(value)


def dump(value: object) -> bytes:
    """Compact UTF-8 JSON in the order of the keys. Lone surrogates, which no server accepts, are dropped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "ignore")


def compact(value: object) -> str:
    return dump(value).decode()


def leading(text: str) -> tuple[object, int]:
    """The JSON value at the start of `text` and where it ends; `(None, 0)` where there is none."""
    try:
        value, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None, 0
    return value, end
