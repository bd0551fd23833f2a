"""What is made from the schema: config.example.json, the key tables of docs/configuration.md, and the JSON Schema.

`python -m nanobot.config.generate` writes the two files of a checkout again.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec

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
_TYPES = {bool: "boolean", str: "string"}
_ANY = {"$comment": "any JSON"}


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
        if listed := slot.inner.section if slot.inner else None:
            groups.append(((*path, f"{name}[]"), listed))
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
    _, found = msgspec.json.schema_components([Config], schema_hook=lambda _: _ANY, ref_template="#/$defs/{name}")
    for section in Section.__subclasses__():
        for name, key in keys_of(section).items():
            properties = found[section.__name__]["properties"]
            properties[name] = {"description": key.slot.about, **_for_editors(key.slot, properties[name])}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **found.pop("Config"),
        "title": "nanobot configuration",
        "$defs": found,
    }


def _for_editors(slot: ValueType, plain: dict[str, object]) -> dict[str, object]:
    """What fits one key, from what its type alone says: also null, a variable, and other ways to write a value."""
    default, options = plain.pop("default"), plain.pop("anyOf", None)
    fitting = [*options] if isinstance(options, list) else [plain]
    other = {_TYPES[type(word)] for word in slot.kind.words} | ({"integer"} if slot.kind.numbers else set())
    fitting += [{"type": one} for one in ("null", *sorted(other)) if {"type": one} not in fitting]
    if not any("$ref" in one or one.get("type") in {"string", "object"} for one in fitting):
        fitting.append(_VARIABLE)
    return {"default": default, "anyOf": fitting}


def with_table(page: str) -> str:
    """`page` with the tables between its two marks made anew. Raises `ValueError` where a mark is missing."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError("the page has no place for the key tables")
    return f"{before}{BEGIN}\n\n{key_table()}\n{END}{after}"


def write(root: Path) -> None:
    """Write the two files of the checkout at `root`."""
    page = root / "docs" / "configuration.md"
    page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
    (root / "config.example.json").write_text(example(), encoding="utf-8")


if __name__ == "__main__":
    write(Path.cwd())
