"""What every configuration section has in common: camelCase names, frozen values, and a few checked kinds of text."""

from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic.alias_generators import to_camel

from nanobot.utils.text import sendable

#: Headers that carry a login or decide where a request goes: they replace ours only with `overrideAuth`.
GUARDED_HEADERS = frozenset({"authorization", "host", "cookie"})
_NOT_ASCII = "it holds a character that is no printable ASCII"
PROXY_SCHEMES = frozenset({"http", "https", "socks5", "socks5h"})


class Section(BaseModel):
    """A group of keys. Files write camelCase or snake_case; code reads snake_case; values never change once loaded."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", hide_input_in_errors=True
    )


def check_proxy(value: str) -> str:
    """A proxy URL that httpx understands; `socks://` is read as `socks5://`. Errors never repeat it."""
    if not value:
        return value
    scheme, mark, rest = value.partition("://")
    if scheme.lower() == "socks":
        value = f"socks5://{rest}"
        scheme = "socks5"
    if not mark or scheme.lower() not in PROXY_SCHEMES or not _has_host(value):
        raise ValueError("a proxy is written http://host:port, http://user:password@host:port or socks5://host:port")
    return value


def check_http_url(value: str) -> str:
    """An absolute http or https address, or empty."""
    if value and (not value.lower().startswith(("http://", "https://")) or not _has_host(value)):
        raise ValueError("an address starts with http:// or https:// and names a host")
    return value


def check_network(value: str) -> str:
    """An IP address or a block in CIDR form."""
    try:
        ip_network(value, strict=False)
    except ValueError:
        raise ValueError("an address block is written like 192.168.1.0/24, 10.0.0.5 or fd00::/8") from None
    return value


def check_headers(headers: dict[str, str], *, override_auth: bool, where: str) -> None:
    """Refuse header names that HTTP cannot carry and, without `overrideAuth`, those that replace a login."""
    for name, value in headers.items():
        if not name or not name.isascii() or any(mark in name for mark in " :\r\n\t") or not name.isprintable():
            raise ValueError(f"{where} holds {name!r}, which is no header name")
        if not sendable(value):
            raise ValueError(f"the header {name} in {where} holds what no request can carry: {_NOT_ASCII}")
        if name.lower() in GUARDED_HEADERS and not override_auth:
            raise ValueError(
                f"the header {name} in {where} would replace the login of the request; "
                "use apiKey, or set overrideAuth to true beside it"
            )


def _free_headers(headers: dict[str, str]) -> dict[str, str]:
    check_headers(headers, override_auth=True, where="it")
    return headers


def _has_host(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def check_key(key: SecretStr) -> SecretStr:
    """A key that a request can carry, or none."""
    if not sendable(key.get_secret_value().strip()):
        raise ValueError(f"no request can carry this key: {_NOT_ASCII}. Copy it again, in one piece")
    return key


ProxyUrl = Annotated[str, AfterValidator(check_proxy)]
ApiKey = Annotated[SecretStr, AfterValidator(check_key)]
#: Headers that may replace those of the request.
FreeHeaders = Annotated[dict[str, str], AfterValidator(_free_headers)]
HttpUrl = Annotated[str, AfterValidator(check_http_url)]
Network = Annotated[str, AfterValidator(check_network)]
#: A Telegram id or a user name: numbers are read as text.
Identity = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | int)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
