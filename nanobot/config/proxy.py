"""Which proxy a request goes through: the configured one, else what the environment says, never for what it exempts.

Machines of one's own are reached without one: a proxy elsewhere cannot reach them and must not learn of them.

The one place that reads HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, for pages, searches, models and channels.
"""

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import field

from nanobot.config.section import check_proxy
from nanobot.utils.secrecy import Reticent, is_own
from nanobot.utils.translation import _


class UnusableProxy(ValueError):
    """The proxy that is meant cannot be used; its text says which one and what to do. Never a reason to go without."""


class Proxies(Reticent, frozen=True):
    """`explicit` is the configured proxy: None leaves it to `env`, an empty text means none at all."""

    unprinted = ("explicit", "env")

    explicit: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)

    def of(self, url: str) -> str | None:
        """The proxy for `url`, or None for a direct connection. Raises `UnusableProxy`."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if host and (is_own(host) or _exempt(host, self.env.get("no_proxy") or self.env.get("NO_PROXY", ""))):
            return None
        return self.for_scheme("http" if parts.scheme == "http" else "https")

    def for_scheme(self, scheme: str) -> str | None:
        """The proxy for `http` or `https` where no host is known. Raises `UnusableProxy`."""
        if self.explicit is not None:
            return self.explicit or None
        for name in (f"{scheme.upper()}_PROXY", "ALL_PROXY"):
            if found := (self.env.get(name.lower()) or self.env.get(name, "")).strip():
                return _usable(found, name)
        return None


def through(proxy: str | None) -> str:
    """Words for a sentence about a connection that failed: through which proxy it went, without its login."""
    return _(" through the proxy {proxy}", proxy=address_of(proxy)) if proxy else ""


def address_of(proxy: str) -> str:
    """The host and port of a proxy, without its login."""
    return urlsplit(proxy).netloc.rpartition("@")[2]


def _exempt(host: str, rule: str) -> bool:
    """True where `rule`, a NO_PROXY list of names, suffixes, addresses and nets, names `host`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        address = None
    for entry in (part.strip().lower().rpartition("://")[2] for part in rule.split(",")):
        if entry == "*":
            return True
        if address is not None and _in_net(address, entry):
            return True
        name = entry.lstrip("*").lstrip(".").partition(":")[0]
        if name and f".{host.lower()}".endswith(f".{name}"):
            return True
    return False


def _in_net(address: ipaddress.IPv4Address | ipaddress.IPv6Address, entry: str) -> bool:
    try:
        return address in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        return False


def _usable(proxy: str, name: str) -> str:
    try:
        return check_proxy(proxy if "://" in proxy else f"http://{proxy}")
    except ValueError:
        how = _("Write it as http://host:port or socks5://host:port, or name the hosts that need none in NO_PROXY")
        scheme = f"{proxy.partition('://')[0][:12]}://"
        told = (
            _("The proxy in {name} cannot be used: it begins with {scheme}. {how}", name=name, scheme=scheme, how=how)
            if "://" in proxy
            else _("The proxy in {name} cannot be used: it names no host. {how}", name=name, how=how)
        )
        raise UnusableProxy(told) from None
