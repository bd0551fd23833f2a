"""JSON as text to read: indented, shortened, by its path; notebooks as the documents they are.

Source: the notebook format 4 of nbformat.
"""

import json
import re

from nanobot.jsonval import at, obj, rows, text
from nanobot.utils.text import counted, nearest, shorten, squeeze
from nanobot.web.extract.page import Extracted

_KEYS = 40
#: Longer or deeper JSON is left as it came: indenting it would not help, or be as long as its depth times its length.
_PRETTY_CHARS = 2_000_000
_DOCUMENT_CHARS = 20_000_000
_PRETTY_DEPTH = 60
#: How many items of each list and characters of each text are kept, ever fewer until it is short enough.
_SHORTER = ((100, 2000), (30, 1000), (10, 400), (3, 200), (1, 100))
_PATH = re.compile(r"""\[\s*(?:(-?\d+)|"([^"]*)"|'([^']*)')\s*\]|[./]?([^./\[\]]+)""")
_OUTPUT_CHARS = 2_000


def loads(text: bytes | str) -> tuple[object] | None:
    """The value of a JSON text, alone in a tuple, for it may be null; None where it is no JSON."""
    try:
        return (json.loads(text),)
    except (ValueError, RecursionError):
        return None


def _dumps(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def pretty_json(text: str) -> str:
    """`text` indented; as it is where it is no JSON, deep, or very long."""
    found = loads(text) if _can_be_indented(text, _PRETTY_CHARS) else None
    return text if found is None else _dumps(found[0])


def shorten_json(text: str, most: int) -> str | None:
    """JSON of at most `most` characters that says how much of each long list and text is left out, or None."""
    found = loads(text) if _can_be_indented(text, 2 * _PRETTY_CHARS) else None
    shorter = (_dumps(_cut(found[0], *sizes)) for sizes in _SHORTER) if found else ()
    return next((shown for shown in shorter if len(shown) <= most), None)


def _can_be_indented(text: str, most: int) -> bool:
    """False for long text, and where many brackets are open at once; those in strings count too."""
    depth = deepest = 0
    for match in re.finditer(r"[\[{\]}]", text[: most + 1]):
        depth += 1 if match[0] in "[{" else -1
        deepest = max(deepest, depth)
    return len(text) <= most and deepest <= _PRETTY_DEPTH


def _cut(value: object, items: int, chars: int) -> object:
    if isinstance(value, dict):
        return {key: _cut(inner, items, chars) for key, inner in value.items()}
    if isinstance(value, list):
        left = len(value) - items
        return [*(_cut(inner, items, chars) for inner in value[:items]), *([f"… {left} more"] if left > 0 else [])]
    if isinstance(value, str) and len(value) > chars:
        return f"{value[:chars]}… {len(value) - chars} more characters"
    return value


def json_document(text: str) -> Extracted | None:
    """A notebook as Markdown; None for any other JSON."""
    likely = '"cells"' in text and '"nbformat"' in text and len(text) <= _DOCUMENT_CHARS
    value = obj((loads(text) or ({},))[0]) if likely else {}
    return _notebook(value) if isinstance(value.get("cells"), list) else None


def _notebook(value: dict[str, object]) -> Extracted:
    """The cells of a notebook in order: texts as they are, code and what it printed in fences."""
    language = _text(at(value, "metadata", "kernelspec", "language"))
    parts: list[str] = []
    for cell in rows(value.get("cells")):
        source = _lines(cell.get("source")).strip()
        if cell.get("cell_type") == "code" and source:
            parts.append(f"```{language}\n{source}\n```")
        elif source:
            parts.append(source)
        shown = map(_output, rows(cell.get("outputs")))
        parts.extend(f"Output:\n\n```\n{text}\n```" for text in shown if text)
    heading = next((part for part in parts if part.startswith("# ")), "")
    return Extracted(heading.partition("\n")[0].removeprefix("# ").strip(), "\n\n".join(parts), "notebook")


def _output(output: dict[str, object]) -> str:
    text = _lines(output.get("text")) or _lines(at(output, "data", "text/plain"))
    text = text or ": ".join(filter(None, (_text(output.get("ename")), _text(output.get("evalue")))))
    left = len(text) - _OUTPUT_CHARS
    return f"{text[:_OUTPUT_CHARS]}\n… {left} more characters" if left > 0 else text.rstrip()


def _lines(value: object) -> str:
    """Text that may be written as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return text(value)


def _text(value: object) -> str:
    return squeeze(text(value))


# English: a model reads it
def json_at(text: str, path: str) -> tuple[str, str]:
    """The part of a JSON text at `path` (`data.items[3].name`, `/data/items/3/name`), indented, and "".

    Where nothing is there the text is empty, and a sentence says how far the path leads and what is there.
    """
    whole = loads(text)
    if whole is None:
        return "", "This JSON cannot be taken apart; read it with offset."
    value, done = whole[0], "$"
    for match in _PATH.finditer(path.strip().removeprefix("$")):
        key = next(one for one in match.groups() if one is not None)
        found = _step(value, key)
        if found is None:
            return "", f"There is no {key!r} at {done}. {_what_is_there(value, key)}"
        value, done = found[0], f"{done}.{key}"
    return _dumps(value), ""


def _step(value: object, key: str) -> tuple[object] | None:
    if isinstance(value, dict):
        return (value[key],) if key in value else None
    if isinstance(value, list) and re.fullmatch(r"-?\d{1,9}", key) and -len(value) <= int(key) < len(value):
        return (value[int(key)],)
    return None


# English: a model reads it
def _what_is_there(value: object, key: str) -> str:
    if isinstance(value, list):
        return (
            f"It is a list with {counted(len(value), 'item')}: 0 to {len(value) - 1}."
            if value
            else "It is an empty list."
        )
    if not isinstance(value, dict):
        return f"It is {shorten(json.dumps(value, ensure_ascii=False), 80)}."
    near = nearest(key, value)
    hint = f"Did you mean {near!r}? " if near else ""
    return f"{hint}Its keys: {shorten(', '.join(value), 400)}."


def json_overview(text: str) -> str:
    """The keys of a JSON text, two levels deep, each with what it holds and its size; empty where it is none."""
    found = loads(text)
    if found is None:
        return ""
    keys = [f"{place} ({_size(inner)})" for place, inner in _places(found[0])]
    left = len(keys) - _KEYS
    return "; ".join([*keys[:_KEYS], *([f"and {left} more"] if left > 0 else [])]) + "."


def _places(value: object) -> list[tuple[str, object]]:
    """The paths of a document with what is there: its keys, or its first items, and the keys of each."""
    first = _members(value)
    if len(first) > _KEYS // 2:
        return first
    return [
        (place + ("" if inner.startswith("[") or not inner else ".") + inner, one)
        for place, held in first
        for inner, one in (("", held), *(_members(held) if len(_members(held)) <= _KEYS else ()))
    ]


def _members(value: object) -> list[tuple[str, object]]:
    if isinstance(value, dict):
        return [
            (shorten(name, 60) if re.fullmatch(r"[^./\[\]]+", name) else f'["{name}"]', one)
            for name, one in value.items()
        ]
    return [(f"[{number}]", one) for number, one in enumerate(value[:1])] if isinstance(value, list) else []


def _size(value: object) -> str:
    size = f"{len(json.dumps(value, ensure_ascii=False))} characters"
    if isinstance(value, dict):
        # English: a model reads it
        return f"object with {len(value)} keys, {size}"
    return (
        f"list of {counted(len(value), 'item')}, {size}" if isinstance(value, list) else shorten(json.dumps(value), 60)
    )
