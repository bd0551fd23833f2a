"""Sentences about values: what a key wants, what it got, and the nearest right value."""

import json
from collections.abc import Mapping
from functools import cache

from pydantic_core import ErrorDetails

from nanobot.config.schema import Config
from nanobot.config.shapes import KeyPath, is_secret
from nanobot.config.walk import Place
from nanobot.errors import ConfigProblem
from nanobot.utils.text import nearest, shorten, squeeze

_SHOWN = 60
_BOUNDS = {"greater_than_equal": "ge", "less_than_equal": "le"}

JsonSchema = Mapping[str, object]


@cache
def json_schema() -> dict[str, object]:
    """The JSON Schema of the configuration file, made once: building it takes 60 ms. Nobody may change it."""
    return Config.model_json_schema(by_alias=True)


def resolve(schema: object, root: JsonSchema) -> JsonSchema:
    """`schema` without references and without the null alternative."""
    node = schema if isinstance(schema, dict) else {}
    reference = node.get("$ref")
    if isinstance(reference, str):
        definitions = root.get("$defs")
        found = definitions.get(reference.rpartition("/")[2]) if isinstance(definitions, dict) else None
        return resolve({**(found if isinstance(found, dict) else {}), **_without(node, "$ref")}, root)
    options = node.get("anyOf")
    if isinstance(options, list):
        real = [option for option in options if isinstance(option, dict) and option.get("type") != "null"]
        if len(real) == 1:
            return resolve({**real[0], **_without(node, "anyOf")}, root)
    return node


def schema_at(path: KeyPath, root: JsonSchema) -> JsonSchema:
    """The part of the schema that judges the value at `path`; empty where there is none."""
    node = resolve(root, root)
    for key in path:
        properties = node.get("properties")
        inner: object = properties.get(key) if isinstance(properties, dict) else None
        if inner is None:
            inner = node.get("additionalProperties") or node.get("items")
        node = resolve(inner, root)
    return node


def wanted(schema: JsonSchema, root: JsonSchema) -> str:
    """What a key takes, in words: `a whole number from 1 to 20`, `one of "text", "json"`."""
    schema = resolve(schema, root)
    options = schema.get("enum")
    if isinstance(options, list):
        return f"one of {', '.join(json.dumps(option) for option in options)}"
    alternatives = schema.get("anyOf")
    if isinstance(alternatives, list):
        words = [wanted(option, root) for option in alternatives if isinstance(option, dict)]
        return " or ".join(dict.fromkeys(words))
    kind = schema.get("type")
    match kind:
        case "boolean":
            return "true or false"
        case "integer":
            return f"a whole number{_range(schema)}"
        case "number":
            return f"a number{_range(schema)}"
        case "array":
            items = schema.get("items")
            inner = wanted(items, root) if isinstance(items, dict) else "values"
            return "a list of texts" if inner == "a text" else f"a list, each {inner}"
        case "object":
            extra = resolve(schema.get("additionalProperties"), root).get("type")
            return "a group of names and texts" if extra == "string" else "a group of keys"
        case _:
            return "a text"


def _range(schema: JsonSchema) -> str:
    low, over = schema.get("minimum"), schema.get("exclusiveMinimum")
    high = schema.get("maximum")
    lower = f"above {over}" if over is not None else f"from {low}" if low is not None else ""
    if high is None:
        return f" {lower}".rstrip() + (" up" if low is not None and over is None else "")
    upper = f"up to {high}" if over is not None or not lower else f"to {high}"
    return f" {lower} {upper}" if lower else f" {upper}"


def got(value: object, *, secret: bool) -> str:
    """What was given, in words; never the value itself where it is a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a text" if secret else f'"{shorten(squeeze(value), _SHOWN)}"'
        case int() | float():
            return "a number" if secret else shorten(json.dumps(value), _SHOWN)
        case list() | tuple():
            return "a list"
        case _:
            return "a group of keys"


def problem(error: ErrorDetails, file: str, places: Mapping[KeyPath, Place], root: JsonSchema) -> ConfigProblem:
    """One refusal of the schema as a problem with its line, key path, what it got, what it wants, and a hint."""
    path, place = _place(tuple(str(part) for part in error["loc"]), places)
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return ConfigProblem(file, place.line, place.spelled, _sentence(str(context.get("error", error["msg"]))))
    schema = schema_at(path, root)
    secret = is_secret(path)
    message = f"got {got(place.value, secret=secret)}, wants {wanted(schema, root)}."
    return ConfigProblem(
        file, place.line, place.spelled, message, "" if secret else _nearest_value(error, place, schema)
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?")) else f"{text}."


def _place(loc: KeyPath, places: Mapping[KeyPath, Place]) -> tuple[KeyPath, Place]:
    for size in range(len(loc), 0, -1):
        if loc[:size] in places:
            return loc[:size], places[loc[:size]]
    return (), Place(0, "", None)


def _nearest_value(error: ErrorDetails, place: Place, schema: JsonSchema) -> str:
    value, kind = place.value, schema.get("type")
    if isinstance(value, str) and len(value) > _SHOWN:
        return ""
    options = schema.get("enum")
    if isinstance(options, list) and isinstance(value, str):
        near = nearest(value, [str(option) for option in options])
        return f'Did you mean "{near}"?' if near else ""
    bound = error.get("ctx", {}).get(_BOUNDS.get(error["type"], ""))
    if bound is not None:
        return f"The nearest is {bound}."
    if kind == "boolean":
        words = {"true": "true", "yes": "true", "on": "true", "1": "true"}
        words |= {"false": "false", "no": "false", "off": "false", "0": "false"}
        word = words.get(str(value).strip().lower())
        return f"Write {word} without quotes." if word else ""
    if kind in {"integer", "number"} and isinstance(value, str) and _is_number(value):
        return f"Write {value.strip()} without quotes."
    if kind == "integer" and isinstance(value, float):
        return f"The nearest is {round(value)}."
    if kind == "array" and isinstance(value, str | int | float) and not isinstance(value, bool):
        return f"Write [{json.dumps(value, ensure_ascii=False)}]."
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return f'Write "{value}".'
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip().lstrip("-").isdigit() or "." in text


def _without(node: Mapping[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in node.items() if name != key}
