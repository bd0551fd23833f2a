"""The schema seen as a tree of keys: what each one takes, where it stands, and whether its value is secret."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import unquote

from msgspec import NODEFAULT, Meta, Struct
from msgspec.structs import fields, replace

from nanobot.config.schema import Config
from nanobot.config.section import Kind, Section
from nanobot.utils.secrecy import mask_url, url_secrets

KeyPath = tuple[str, ...]
_S = TypeVar("_S", bound=Section)
NAMES = re.compile(r"(?i)key|token|secret|passw|authorization|cookie|credential")
ENV_NAMES = re.compile(r"_(?:API_KEY|KEY|TOKEN|SECRET|PASSWORD)$")
#: Shorter values are no secrets worth the damage of replacing them everywhere.
_SHORTEST = 6
MASK = "********"

#: Keys that are read in place of another one where a group knows that other one only.
_SYNONYMS = {
    "enabled": "enable",
    "enable": "enabled",
    "customHeaders": "headers",
    "extraHeaders": "headers",
    "baseUrl": "apiBase",
    "apiBase": "baseUrl",
    "environment": "env",
    "effort": "reasoningEffort",
    "fallback": "fallbackModels",
}


def path_of(dotted: str) -> KeyPath:
    """The path of a key as its name is written with dots, in which no part holds one."""
    return tuple(dotted.split("."))


class ValueType(Struct, frozen=True):
    """What a value may be: an annotation taken apart.

    `base` is the type without None: a scalar, tuple, dict, a section, object (any JSON), or Union. `choices` are those
    of a `Literal`, `options` those of a union; `inner` is what an item or a named value may be, `names` what its name
    may be.
    """

    base: object
    about: str = ""
    bounds: Meta | None = None
    kind: Kind = Kind()
    choices: tuple[str, ...] = ()
    options: "tuple[ValueType, ...]" = ()
    inner: "ValueType | None" = None
    names: "ValueType | None" = None

    @property
    def section(self) -> type[Section] | None:
        return self.base if isinstance(self.base, type) and issubclass(self.base, Section) else None

    @property
    def named(self) -> type[Section] | None:
        """The section that stands under names which people choose, such as `providers.<name>`."""
        return self.inner.section if self.base is dict and self.inner is not None else None

    def name(self, written: str) -> str:
        """A name that people choose as it is known here; one that cannot be is refused where the file is judged."""
        with suppress(ValueError):
            return self.names.kind.check(written) if self.names is not None else written
        return written

    @property
    def part(self) -> "ValueType | None":
        """What an item or a named value may be: what is secret in a whole is secret in each of its parts."""
        return replace(self.inner, kind=self.kind) if self.inner is not None and self.kind.private else self.inner


class Key(Struct, frozen=True):
    """One key of a section: the attribute that holds it, what it takes, and what it is when it is not given."""

    attribute: str
    slot: ValueType
    default: object


def type_of(annotation: object) -> ValueType:
    """What a value with this annotation may be."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _marked(type_of(parts[0]), parts[1:])
    if origin in (Union, UnionType):
        options = tuple(type_of(part) for part in parts if part is not NoneType)
        return options[0] if len(options) == 1 else ValueType(Union, options=options)
    if origin is Literal:
        return ValueType(str, choices=parts)
    if origin is tuple:
        return ValueType(tuple, inner=type_of(parts[0]))
    if origin is dict:
        return ValueType(dict, names=type_of(parts[0]), inner=type_of(parts[1]))
    return ValueType(annotation)


def _marked(slot: ValueType, marks: tuple[object, ...]) -> ValueType:
    for mark in marks:
        match mark:
            case str():
                slot = replace(slot, about=mark)
            case Meta():
                slot = replace(slot, bounds=mark)
            case Kind():
                slot = replace(slot, kind=mark)
    return slot


@cache
def keys_of(model: type[Section]) -> dict[str, Key]:
    """The keys of a section by the name that files use."""
    found: dict[str, Key] = {}
    for one in fields(model):
        default = one.default if one.default_factory is NODEFAULT else one.default_factory()
        found[one.encode_name] = Key(one.name, type_of(one.type), default)
    return found


def camel(key: str) -> str:
    """A key as files write it: `max_results` is `maxResults`."""
    return re.sub(r"(?<=.)_+([A-Za-z0-9])", lambda match: match[1].upper(), key)


def find_key(model: type[Section], key: str) -> str:
    """The file name of the key that `key` means in `model`, empty where it is unknown."""
    known, name = keys_of(model), key if key in keys_of(model) else camel(key)
    return name if name in known else next((one for one in [_SYNONYMS.get(name, "")] if one in known), "")


def type_at(path: KeyPath) -> ValueType | None:
    """What may stand at a key path, also inside a group of names, such as a header; None where there is no such key."""
    slot = ValueType(Config)
    for name in path:
        if slot.section is not None:
            key = keys_of(slot.section).get(find_key(slot.section, name))
            if key is None:
                return None
            slot = key.slot
        elif slot.base is dict and slot.part is not None:
            slot = slot.part
    return slot


def walk_keys(model: type[Section] = Config, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Key]]:
    """Every value of the schema with its canonical path, in order; a chosen name is `<name>`."""
    for name, key in keys_of(model).items():
        if key.slot.section is not None:
            yield from walk_keys(key.slot.section, (*path, name))
        elif key.slot.named is not None:
            yield from walk_keys(key.slot.named, (*path, name, "<name>"))
        else:
            yield (*path, name), key


def sections_in(section: Section, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Section]]:
    """A section with its path, and all those inside it."""
    yield path, section
    for name, key in keys_of(type(section)).items():
        value: object = getattr(section, key.attribute)
        if isinstance(value, Section):
            yield from sections_in(value, (*path, name))
        elif isinstance(value, dict) and key.slot.named is not None:
            for chosen, inner in value.items():
                yield from sections_in(inner, (*path, name, chosen))


def value_at(section: Section, path: KeyPath) -> object:
    """The value of a key, such as a number or a whole section."""
    value: object = section
    for name in path:
        if isinstance(value, Section):
            value = getattr(value, keys_of(type(value))[name].attribute)
    return value


def with_value(section: _S, path: KeyPath, value: object) -> _S:
    """The section with another value of a key, also of one below a name that people choose."""
    attribute = keys_of(type(section))[path[0]].attribute
    inner: object = getattr(section, attribute)
    if len(path) > 1 and isinstance(inner, Section):
        value = with_value(inner, path[1:], value)
    elif len(path) > 1 and isinstance(inner, dict):
        value = {**inner, path[1]: with_value(inner[path[1]], path[2:], value)}
    return replace(section, **{attribute: value})


def known_secrets(config: Config, env: Mapping[str, str]) -> tuple[str, ...]:
    """Every secret value of `config` and of the environment, longest first, for the scrubber of logs."""
    found = {value for name, value in env.items() if ENV_NAMES.search(name)}
    for _, section in sections_in(config):
        for key in keys_of(type(section)).values():
            found.update(_secrets_of(getattr(section, key.attribute), key.slot.kind.private))
    return tuple(sorted((value for value in found if len(value) >= _SHORTEST), key=lambda text: (-len(text), text)))


def _secrets_of(value: object, private: str) -> Iterator[str]:
    match value:
        case str() if private == "secret":
            yield value
        case str() if "://" in value:
            for secret in url_secrets(value):
                written = value[secret.start : secret.end]
                for text in (written, written.partition(":")[2]):  # a login is a name and a password
                    yield text
                    yield unquote(text)
        case dict() if private == "hidden":
            for name, inner in value.items():
                if NAMES.search(name):
                    yield inner
                    yield inner.rpartition(" ")[2]


def masked(value: object, private: str = "") -> object:
    """`value` as plain JSON data in camelCase with every secret replaced by stars; for `nanobot config show`."""
    match value:
        case Section():
            keys = keys_of(type(value)).items()
            return {name: masked(getattr(value, key.attribute), key.slot.kind.private) for name, key in keys}
        case dict():
            return {name: masked(inner, private) for name, inner in value.items()}
        case tuple():
            return [masked(inner, private) for inner in value]
        case str() if private != "secret" and "://" in value:
            return mask_url(value, MASK)
        case str() if private:
            return MASK if value else ""
        case _:
            return value
