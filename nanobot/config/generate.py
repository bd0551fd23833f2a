"""What is made from the schema: config.example.json, the key tables of docs/configuration.md, and the JSON Schema.

`python -m nanobot.config.generate` writes the two files of a checkout again; with `--check` it only says, by exit code
1, that one of them is out of date.
"""

import copy
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from nanobot.config.explain import json_schema, resolve, schema_at, wanted
from nanobot.config.schema import Config
from nanobot.config.secrets import masked
from nanobot.config.section import Section
from nanobot.config.shapes import Group, KeyPath, Leaf, Named, is_secret, keys_of, shape_of

BEGIN = "<!-- keys: begin (made by python -m nanobot.config.generate) -->"
END = "<!-- keys: end -->"
_SAMPLES: dict[KeyPath, object] = {
    ("$schema",): "./config.schema.json",
    ("providers",): {"openai": {"apiKey": "${OPENAI_API_KEY}"}},
    ("tools", "web", "search", "providers"): {"brave": {"apiKey": "${BRAVE_API_KEY}"}},
    ("channels", "telegram", "token"): "${TELEGRAM_BOT_TOKEN}",
}
_VARIABLE = {"type": "string", "pattern": r"\$\{"}


def example() -> str:
    """A configuration with every key at its default and a few samples, as plain JSON."""
    return json.dumps(_example_group(Config, ()), ensure_ascii=False, indent=2) + "\n"


def _example_group(model: type[Section], path: KeyPath) -> dict[str, object]:
    group: dict[str, object] = {}
    for key, field in keys_of(model).items():
        here = (*path, key)
        shape = shape_of(field)
        if isinstance(shape, Group):
            group[key] = _example_group(shape.model, here)
        else:
            group[key] = _SAMPLES.get(here, masked(field.get_default(call_default_factory=True)))
    return group


def key_table() -> str:
    """The keys as Markdown: a heading and a table for each group."""
    root = json_schema()
    return "\n".join(_tables(Config, (), "The whole file", root)).strip() + "\n"


def _tables(model: type[Section], path: KeyPath, about: str, root: dict[str, object]) -> Iterator[str]:
    fields = keys_of(model)
    leaves = {key: field for key, field in fields.items() if isinstance(shape_of(field), Leaf)}
    if leaves:
        yield f"### `{'.'.join(path)}`\n" if path else "### At the top\n"
        yield f"{about}\n"
        yield "| key | takes | default | meaning |\n|---|---|---|---|"
        for key, field in leaves.items():
            here = (*path, key)
            default = json.dumps(masked(field.get_default(call_default_factory=True)), ensure_ascii=False)
            takes = wanted(schema_at(here, root), root)
            if takes == "a text" and is_secret(here):
                takes = "a secret text"
            cells = (f"`{key}`", takes, f"`{default}`", field.description or "")
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
        yield ""
    for key, field in fields.items():
        shape = shape_of(field)
        if isinstance(shape, Group):
            yield from _tables(shape.model, (*path, key), _about(shape.model), root)
        elif isinstance(shape, Named):
            yield from _tables(shape.model, (*path, key, "<name>"), _about(shape.model), root)


def _about(model: type[Section]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def editor_schema() -> dict[str, object]:
    """The JSON Schema for editors: null means the default everywhere, and a variable may stand for any value."""
    schema = copy.deepcopy(json_schema())
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "nanobot configuration"
    groups: list[object] = [schema]
    definitions = schema.get("$defs")
    if isinstance(definitions, dict):
        groups.extend(definitions.values())
    for group in groups:
        properties = group.get("properties") if isinstance(group, dict) else None
        if isinstance(properties, dict):
            for key, value in properties.items():
                properties[key] = _loose(value, schema)
    return schema


def _loose(value: object, root: dict[str, object]) -> object:
    if not isinstance(value, dict):
        return value
    options = value.get("anyOf")
    plain = {name: inner for name, inner in value.items() if name not in {"description", "default", "title", "anyOf"}}
    alternatives: list[object] = list(options) if isinstance(options, list) else [plain]
    kept = {name: value[name] for name in ("description", "default") if name in value}
    kind = resolve(value, root).get("type")
    if kind != "object" and (kind != "string" or "enum" in resolve(value, root)):
        alternatives.append(_VARIABLE)
    if {"type": "null"} not in alternatives:
        alternatives.append({"type": "null"})
    return {**kept, "anyOf": alternatives}


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
