"""What every configuration section has in common: camelCase names, frozen values, and a few checked kinds of text."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from nanobot.utils.text import sendable
from nanobot.utils.translation import N_, _

#: Headers that carry a login or decide where a request goes: they replace ours only with `overrideAuth`.
GUARDED_HEADERS = frozenset({"authorization", "host", "cookie"})
_NOT_ASCII = N_("it holds a character that is no printable ASCII")
#: A part of a host name; letters of any language.
_LABEL = re.compile(r"(?=[\w-]{1,63}\Z)[^\W_](?:[\w-]*\w)?|_[\w-]{0,62}")
PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})


#: When a nanobot that runs takes a change: the later it is, the further at the end it stands.
When = Literal["next turn", "next terminal", "next start"]


class Section(Struct, frozen=True, rename="camel"):
    """A group of keys. Files write camelCase or snake_case; code reads snake_case; values never change once loaded.

    The type of a key is `Annotated` with its description and, where it has them, its bounds (`Meta`) and its `Kind`.
    No value is printed, because some are keys and passwords. A `strict` one in a list refuses keys that it does not
    know: without what they mean it would say something else. `taken` is when a nanobot that runs takes a change of its
    keys, as far as a `Kind` says nothing else.
    """

    strict: ClassVar[bool] = False
    taken: ClassVar[When] = "next start"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(…)"


class Kind(Struct, frozen=True, eq=False):
    """What a value is beyond its type.

    `check` gives a text its canonical form or raises `ValueError` with a sentence. `words` are other ways to write a
    value, such as true for a choice; with `numbers` a whole number is read as text. `private`: "secret" is never shown,
    of "hidden" only what looks like a secret is. `taken` as in a section.
    """

    check: Callable[[str], str] = str
    words: Mapping[object, object] = field(default_factory=dict)
    numbers: bool = False
    private: Literal["", "hidden", "secret"] = ""
    taken: When | None = None


def check_proxy(value: str) -> str:
    """A proxy URL that httpx understands; `socks://` is read as `socks5://`. Errors never repeat it."""
    if not value:
        return value
    scheme, mark, rest = value.partition("://")
    if scheme.lower() == "socks":
        value = f"socks5://{rest}"
        scheme = "socks5"
    if not mark or scheme.lower() not in PROXY_SCHEMES or not _has_host(value):
        raise ValueError(_("a proxy is written http://host:port, http://user:password@host:port or socks5://host:port"))
    return value


def check_http_url(value: str) -> str:
    """An absolute http or https address, or empty."""
    if value and (not value.lower().startswith(("http://", "https://")) or not _has_host(value)):
        raise ValueError(_("an address starts with http:// or https:// and names a host"))
    return value


def check_network(value: str) -> str:
    """An IP address or a block in CIDR form."""
    try:
        ip_network(value, strict=False)
    except ValueError:
        raise ValueError(_("an address block is written like 192.168.1.0/24, 10.0.0.5 or fd00::/8")) from None
    return value


def check_host(value: str) -> str:
    """A host name or an IP address, in lower case; `*.example.org` and `.example.org` mean `example.org`."""
    name = value.strip().lower().removeprefix("*").removeprefix(".").removesuffix(".")
    with suppress(ValueError):
        return str(ip_address(name.strip("[]")))
    if not name or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(_("a host is written like example.org or 203.0.113.7, without https:// and without a path"))
    return name


def check_headers(headers: Mapping[str, str], *, override_auth: bool) -> None:
    """Refuse header names that HTTP cannot carry and, without `overrideAuth`, those that replace a login."""
    for name, value in headers.items():
        if not name or not name.isascii() or any(mark in name for mark in " :\r\n\t") or not name.isprintable():
            raise ValueError(_("{name!r} is no header name", name=name))
        if not sendable(value):
            raise ValueError(_("no request can carry the header {name}: {why}", name=name, why=_(_NOT_ASCII)))
        if name.lower() in GUARDED_HEADERS and not override_auth:
            raise ValueError(
                _(
                    "the header {name} would replace the login of the request; use apiKey, or set "
                    "overrideAuth to true beside it",
                    name=name,
                )
            )


def _has_host(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def check_key(key: str) -> str:
    """A key that a request can carry, or none."""
    if not sendable(key.strip()):
        raise ValueError(_("no request can carry this key: {why}. Copy it again, in one piece", why=_(_NOT_ASCII)))
    return key


Secret = Annotated[str, Kind(private="secret")]
ApiKey = Annotated[str, Kind(check_key, private="secret")]
ProxyUrl = Annotated[str, Kind(check_proxy, private="hidden")]
#: Names and texts of which some may be logins: headers, variables of a program.
Hidden = Annotated[dict[str, str], Kind(private="hidden")]
HttpUrl = Annotated[str, Kind(check_http_url)]
Network = Annotated[str, Kind(check_network)]
HostName = Annotated[str, Kind(check_host)]
#: A Telegram id or a user name: numbers are read as text.
Identity = Annotated[str, Kind(numbers=True)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Positive = Annotated[int, Meta(ge=1)]
#: Words of a command, run without a shell within 5 seconds, that prints a key.
KeyCommand = Annotated[tuple[str, ...], "Command (a list of words, run without a shell, 5 s) that prints the key."]
