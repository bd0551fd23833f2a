"""What is made from the schema: config.example.json, the key tables of docs/configuration.md, and the JSON Schema.

`python -m nanobot.config.generate` writes the two files of a checkout again; with `--check` it only says, by exit code
1, that one of them is out of date.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from nanobot.config.keys import KeyPath, ValueType, keys_of, masked
from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.config.values import wanted

BEGIN = "<!-- keys: begin (made by python -m nanobot.config.generate) -->"
END = "<!-- keys: end -->"
_SAMPLES: dict[KeyPath, object] = {
    ("$schema",): "./config.schema.json",
    ("providers",): {"openai": {"apiKey": "${OPENAI_API_KEY}"}},
    ("tools", "web", "search", "providers"): {"brave": {"apiKey": "${BRAVE_API_KEY}"}},
    ("channels", "telegram", "token"): "${TELEGRAM_BOT_TOKEN}",
}
_VARIABLE = {"type": "string", "pattern": r"\$\{"}
_TYPES: dict[object, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def example() -> str:
    """A configuration with every key at its default and a few samples, as plain JSON."""
    return json.dumps(_example_group(Config, ()), ensure_ascii=False, indent=2) + "\n"


def _example_group(model: type[Section], path: KeyPath) -> dict[str, object]:
    group: dict[str, object] = {}
    for name, key in keys_of(model).items():
        here, inner = (*path, name), key.slot.section
        group[name] = _example_group(inner, here) if inner else _SAMPLES.get(here, masked(key.default))
    return group


def key_table() -> str:
    """The keys as Markdown: a heading and a table for each group."""
    return "\n".join(_tables(Config, (), "The whole file")).strip() + "\n"


def _tables(model: type[Section], path: KeyPath, about: str) -> Iterator[str]:
    groups, rows = list[tuple[KeyPath, type[Section]]](), list[str]()
    for name, key in keys_of(model).items():
        slot = key.slot
        if inner := slot.section or slot.named:
            groups.append(((*path, name, "<name>") if slot.named else (*path, name), inner))
            continue
        takes = "a secret text" if slot.base is str and slot.kind.private else wanted(slot)
        default = json.dumps(masked(key.default), ensure_ascii=False)
        cells = (f"`{name}`", takes, f"`{default}`", slot.about)
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if rows:
        yield f"### `{'.'.join(path)}`\n" if path else "### At the top\n"
        yield f"{about}\n\n| key | takes | default | meaning |\n|---|---|---|---|"
        yield from (*rows, "")
    for place, inner in groups:
        yield from _tables(inner, place, (inner.__doc__ or "").strip().partition("\n")[0])


def editor_schema() -> dict[str, object]:
    """The JSON Schema for editors: null means the default everywhere, and a variable may stand for any value."""
    sections = {kind for _, kind in _all_sections(Config)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nanobot configuration",
        **_section_schema(Config),
        "$defs": {kind.__name__: _section_schema(kind) for kind in sorted(sections, key=lambda one: one.__name__)},
    }


def _all_sections(model: type[Section]) -> Iterator[tuple[str, type[Section]]]:
    for name, key in keys_of(model).items():
        for slot in (key.slot, key.slot.inner, *(key.slot.inner.options if key.slot.inner else ())):
            if slot is not None and slot.section is not None:
                yield name, slot.section
                yield from _all_sections(slot.section)


def _section_schema(model: type[Section]) -> dict[str, object]:
    properties: dict[str, object] = {}
    for name, key in keys_of(model).items():
        anyof = [*_schemas(key.slot), {"type": "null"}]
        if key.slot.section is None and key.slot.base is not dict and (key.slot.base is not str or key.slot.choices):
            anyof.append(_VARIABLE)
        about = {"description": key.slot.about} if key.slot.about else {}
        properties[name] = {**about, "default": masked(key.default), "anyOf": anyof}
    return {"type": "object", "description": (model.__doc__ or "").strip(), "properties": properties}


def _schemas(slot: ValueType) -> list[object]:
    """The JSON Schemas of which a value fits one."""
    found = [schema for option in slot.options for schema in _schemas(option)]
    names = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "min_length": "minLength"}
    bounds = {word: getattr(slot.bounds, name, None) for name, word in names.items()}
    inner: object = {"anyOf": _schemas(slot.inner)} if slot.inner is not None else {}
    if slot.section is not None:
        found.append({"$ref": f"#/$defs/{slot.section.__name__}"})
    elif slot.choices:
        found.append({"type": "string", "enum": list(slot.choices)})
    elif slot.base is tuple:
        found.append({"type": "array", "items": inner})
    elif slot.base is dict:
        found.append({"type": "object", "additionalProperties": inner})
    elif slot.base is object:
        found.append({})
    elif isinstance(slot.base, type) and not slot.options:
        kind = _TYPES[slot.base]
        found.append({"type": kind, **{word: bound for word, bound in bounds.items() if bound is not None}})
    others = {_TYPES[type(word)] for word in slot.kind.words} - {_TYPES.get(slot.base)}
    return found + [{"type": other} for other in sorted(others | ({"integer"} if slot.kind.numbers else set()))]


def with_table(page: str) -> str:
    """`page` with the tables between its two marks made anew. Raises `ValueError` where a mark is missing."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError("the page has no place for the key tables")
    return f"{before}{BEGIN}\n\n{key_table()}\n{END}{after}"


def main(arguments: list[str], root: Path) -> int:
    """Write the two files under `root`, or with `--check` compare them. The exit code is 1 where they differ."""
    page = root / "docs" / "configuration.md"
    files = {root / "config.example.json": example(), page: with_table(page.read_text(encoding="utf-8"))}
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in arguments:
        for path in stale:
            sys.stdout.write(f"{path.name} is out of date; run python -m nanobot.config.generate\n")
        return 1 if stale else 0
    for path in stale:
        path.write_text(files[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
