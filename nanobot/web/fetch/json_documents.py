"""JSON that is written for readers: JSON Feed as a list of entries, as RSS and Atom get, and Jupyter notebooks.

Sources: https://www.jsonfeed.org/version/1.1/, the notebook format 4 of nbformat.
"""

import json

from nanobot.utils.text import squeeze
from nanobot.web.extract.page import Extracted
from nanobot.web.extract.strip import strip_tags

MAX_ENTRIES = 200
_OUTPUT_CHARS = 2_000
_MARK = "https://jsonfeed.org/version/"


def json_document(text: str) -> Extracted | None:
    """A feed or a notebook as Markdown; None for any other JSON."""
    if len(text) > 20_000_000 or not (_MARK in text[:2_000] or ('"cells"' in text and '"nbformat"' in text)):
        return None
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if _text(value.get("version")).startswith(_MARK):
        return _feed(value)
    return _notebook(value) if isinstance(value.get("cells"), list) else None


def _feed(value: dict[str, object]) -> Extracted:
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


def _notebook(value: dict[str, object]) -> Extracted:
    """The cells of a notebook in order: texts as they are, code and what it printed in fences."""
    about = value.get("metadata")
    kernel = about.get("kernelspec") if isinstance(about, dict) else None
    language = _text(kernel.get("language")) if isinstance(kernel, dict) else ""
    parts: list[str] = []
    cells = value.get("cells")
    for cell in cells if isinstance(cells, list) else ():
        if not isinstance(cell, dict):
            continue
        source = _lines(cell.get("source")).strip()
        if cell.get("cell_type") == "code" and source:
            parts.append(f"```{language}\n{source}\n```")
        elif source:
            parts.append(source)
        outputs = cell.get("outputs")
        shown = [_output(one) for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
        parts.extend(f"Output:\n\n```\n{text}\n```" for text in shown if text)
    heading = next((part for part in parts if part.startswith("# ")), "")
    return Extracted(heading.partition("\n")[0].removeprefix("# ").strip(), "\n\n".join(parts), "notebook")


def _output(output: dict[str, object]) -> str:
    data = output.get("data")
    text = _lines(output.get("text")) or _lines(data.get("text/plain") if isinstance(data, dict) else None)
    text = text or ": ".join(filter(None, (_text(output.get("ename")), _text(output.get("evalue")))))
    left = len(text) - _OUTPUT_CHARS
    return f"{text[:_OUTPUT_CHARS]}\n… {left} more characters" if left > 0 else text.rstrip()


def _lines(value: object) -> str:
    """Text that may be written as a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def _text(value: object) -> str:
    return squeeze(value) if isinstance(value, str) else ""
