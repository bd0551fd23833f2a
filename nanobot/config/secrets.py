"""Which values of a configuration are secret, for the scrubber of logs and for showing the rest."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from nanobot.config.keys import keys_of, sections_in
from nanobot.config.schema import Config
from nanobot.config.section import Section
from nanobot.utils.secrecy import mask_url, url_secrets

_NAMES = re.compile(r"(?i)key|token|secret|passw|authorization|cookie|credential")
ENV_NAMES = re.compile(r"_(?:API_KEY|KEY|TOKEN|SECRET|PASSWORD)$")
#: Shorter values are no secrets worth the damage of replacing them everywhere.
_SHORTEST = 6
MASK = "********"


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
                if _NAMES.search(name):
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
