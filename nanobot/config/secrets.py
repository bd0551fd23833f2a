"""Which values of a configuration are secret, and keys that a command prints."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from pydantic import SecretStr

from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.utils.url_secrets import mask_url, url_secrets

_NAMES = re.compile(r"(?i)key|token|secret|passw|authorization|cookie|credential")
ENV_NAMES = re.compile(r"_(?:API_KEY|KEY|TOKEN|SECRET|PASSWORD)$")
#: Shorter values are no secrets worth the damage of replacing them everywhere.
_SHORTEST = 6
MASK = "********"


def known_secrets(config: Config, env: Mapping[str, str]) -> tuple[str, ...]:
    """Every secret value of `config` and of the environment, longest first, for the scrubber of logs."""
    found = set(_values(config))
    found.update(value for name, value in env.items() if ENV_NAMES.search(name))
    return tuple(sorted((value for value in found if len(value) >= _SHORTEST), key=lambda text: (-len(text), text)))


def _values(section: Section) -> Iterator[str]:
    for name, field in type(section).model_fields.items():
        value: object = getattr(section, name)
        yield from _of(value, hidden=not field.repr)


def _of(value: object, *, hidden: bool) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case Section():
            yield from _values(value)
        case dict():
            for name, inner in value.items():
                if isinstance(inner, Section):
                    yield from _values(inner)
                elif hidden and isinstance(inner, str) and _NAMES.search(str(name)):
                    yield inner
                    yield inner.rpartition(" ")[2]
        case str() if "://" in value:
            for secret in url_secrets(value):
                written = value[secret.start : secret.end]
                for text in (written, written.partition(":")[2]):  # a login is a name and a password
                    yield text
                    yield unquote(text)


def masked(value: object, *, hidden: bool = False) -> object:
    """`value` as plain JSON data in camelCase with every secret replaced by stars; for `nanobot config show`."""
    match value:
        case SecretStr():
            return MASK if value.get_secret_value() else ""
        case Section():
            return {
                field.alias or name: masked(getattr(value, name), hidden=not field.repr)
                for name, field in type(value).model_fields.items()
            }
        case dict():
            return {str(name): masked(inner, hidden=hidden) for name, inner in value.items()}
        case tuple() | list():
            return [masked(inner, hidden=hidden) for inner in value]
        case str():
            return _masked_text(value, hidden=hidden)
        case _:
            return value


def _masked_text(value: str, *, hidden: bool) -> str:
    if "://" not in value:
        return MASK if hidden and value else value
    return mask_url(value, MASK)
