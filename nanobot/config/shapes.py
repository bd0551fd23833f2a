"""The schema seen as a tree of keys: what stands at a key path, which keys a group knows, and other names for them."""

from collections.abc import Iterator, Mapping
from typing import get_args, get_origin

from msgspec import Struct
from pydantic import SecretStr
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from nanobot.config.schema import Config
from nanobot.config.section import Section

KeyPath = tuple[str, ...]


class Group(Struct, frozen=True):
    """A section: `{ … }` with known keys."""

    model: type[Section]


class Named(Struct, frozen=True):
    """Sections by a name that people choose, such as `providers.<name>`."""

    model: type[Section]


class Leaf(Struct, frozen=True):
    """A value."""

    field: FieldInfo


Shape = Group | Named | Leaf

#: Other places that keys are read from, by their camelCase path; the value is where they belong.
ALIASES: Mapping[KeyPath, KeyPath] = {
    ("mcp",): ("tools", "mcpServers"),
    ("mcpServers",): ("tools", "mcpServers"),
    ("services", "moonshotSearch"): ("tools", "web", "search", "providers", "kimi"),
    ("services", "moonshotFetch"): ("tools", "web", "fetch", "service"),
    ("tools", "webfetch"): ("tools", "web", "fetch"),
    ("tools", "webFetch"): ("tools", "web", "fetch"),
    ("tools", "web", "userAgent"): ("tools", "web", "fetch", "userAgent"),
    ("tools", "web", "fetch", "useJinaReader"): ("tools", "web", "fetch", "reader"),
    ("channels", "sendToolHints"): ("channels", "telegram", "hints"),
    ("channels", "telegram", "sendToolHints"): ("channels", "telegram", "hints"),
    ("channels", "telegram", "mode"): ("channels", "telegram", "webhook", "enabled"),
    ("channels", "telegram", "webhookUrl"): ("channels", "telegram", "webhook", "url"),
    ("channels", "telegram", "webhookListenHost"): ("channels", "telegram", "webhook", "host"),
    ("channels", "telegram", "webhookListenPort"): ("channels", "telegram", "webhook", "port"),
    ("channels", "telegram", "webhookSecretToken"): ("channels", "telegram", "webhook", "secret"),
    ("transcription",): ("channels", "telegram", "transcription"),
}
#: Values for all channels; one that stands in the channel itself wins.
FOR_ALL = frozenset({"channels.sendToolHints", "channels.send_tool_hints"})
#: Words that a key may be written with besides true and false, or a switch that a list of words wants.
WORDS: Mapping[KeyPath, Mapping[object, object]] = {
    ("tools", "web", "fetch", "reader"): {True: "jina", False: "none"},
    ("channels", "telegram", "webhook", "enabled"): {"webhook": True, "polling": False},
}
#: Keys that people write at the top of the file, and where they belong.
HABITS = {
    "model": "agents.defaults.model",
    "provider": "agents.defaults.provider",
    "apiKey": "providers.<name>.apiKey, such as providers.openai.apiKey",
    "apiBase": "providers.<name>.apiBase, such as providers.openai.apiBase",
    "token": "channels.telegram.token",
}
#: Keys that files carry and that have no effect yet, with what that means. Whatever they hold is left alone.
NOT_YET: Mapping[KeyPath, str] = {
    ("tools", "exec"): "No shell command runs. When commands come, they stay off until they are switched on.",
    ("tools", "restrictToWorkspace"): "There are no file tools that it could restrict.",
    ("gateway", "host"): "The gateway opens no port.",
    ("gateway", "port"): "The gateway opens no port.",
    ("gateway", "heartbeat"): "Nothing runs by itself.",
    ("agents", "defaults", "heartbeat"): "Nothing runs by itself.",
}
#: Groups whose times are written in milliseconds.
MILLISECOND_GROUPS = frozenset({("tools", "webfetch"), ("tools", "webFetch")})
#: Keys that are read in place of another one where a group knows that other one only.
_SYNONYMS = {
    "enabled": "enable",
    "enable": "enabled",
    "customHeaders": "headers",
    "extraHeaders": "headers",
    "baseUrl": "apiBase",
    "apiBase": "baseUrl",
    "environment": "env",
}


def shape_of(field: FieldInfo) -> Shape:
    """What a field of a section is."""
    annotation: object = field.annotation
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return Group(annotation)
    if get_origin(annotation) is dict:
        inner: object = get_args(annotation)[1]
        if isinstance(inner, type) and issubclass(inner, Section):
            return Named(inner)
    return Leaf(field)


def keys_of(model: type[Section]) -> dict[str, FieldInfo]:
    """The fields of `model` by the name that files use."""
    return {field.alias or to_camel(name): field for name, field in model.model_fields.items()}


def find_key(model: type[Section], key: str) -> str | None:
    """The file name of the key that `key` means in `model`, None where it is unknown."""
    known = keys_of(model)
    camel = key if key in known else to_camel(key) if "_" in key else key
    if camel in known:
        return camel
    synonym = _SYNONYMS.get(camel, "")
    return synonym if synonym in known else None


def shape_at(path: KeyPath) -> Shape | None:
    """What stands at a canonical key path; inside a value that has parts (headers, lists) it is that value's leaf."""
    shape: Shape = Group(Config)
    for key in path:
        match shape:
            case Group(model):
                field = keys_of(model).get(key)
                if field is None:
                    return None
                shape = shape_of(field)
            case Named(model):
                shape = Group(model)
            case Leaf():
                return shape
    return shape


def walk_keys(model: type[Section] = Config, path: KeyPath = ()) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Every value of the schema with its canonical path, in order; a chosen name is `<name>`."""
    for key, field in keys_of(model).items():
        match shape_of(field):
            case Group(inner):
                yield from walk_keys(inner, (*path, key))
            case Named(inner):
                yield from walk_keys(inner, (*path, key, "<name>"))
            case Leaf():
                yield (*path, key), field


def is_secret(path: KeyPath) -> bool:
    """True where a value must not be shown: keys, tokens, headers, variables of a program, proxies with a login."""
    shape = shape_at(path)
    return isinstance(shape, Leaf) and (not shape.field.repr or holds(shape.field.annotation, SecretStr))


def holds(annotation: object, kind: type) -> bool:
    """True where `annotation` is `kind` or has it among its parts."""
    if annotation is kind:
        return True
    return any((isinstance(part, str) and kind is str) or holds(part, kind) for part in get_args(annotation))
