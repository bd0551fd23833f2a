"""Which proxy a request goes through: the configured one, else what the environment says, never for what it exempts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from nanobot.config.section import check_proxy


@dataclass(frozen=True, slots=True)
class Proxies:
    """`explicit` is the configured proxy: None leaves it to `env`, an empty text means none at all."""

    explicit: str | None = field(default=None, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def of(self, url: str) -> str | None:
        """The proxy for `url`, a URL that `httpx` understands, or None for a direct connection."""
        parts = urlsplit(url)
        if self.exempt(parts.hostname or ""):
            return None
        return self.for_scheme("http" if parts.scheme == "http" else "https")

    def for_scheme(self, scheme: str) -> str | None:
        if self.explicit is not None:
            return self.explicit or None
        for name in (f"{scheme.upper()}_PROXY", "ALL_PROXY"):
            if found := self.env.get(name.lower()) or self.env.get(name):
                return _usable(found)
        return None

    def exempt(self, host: str) -> bool:
        """True where NO_PROXY says that `host` is reached directly."""
        return bool(host) and bypassed(host, self.env.get("no_proxy") or self.env.get("NO_PROXY") or "")


def bypassed(host: str, rule: str) -> bool:
    """True where `rule`, a NO_PROXY list of names and suffixes, names `host`."""
    if rule.strip() == "*":
        return True
    names = [part.strip().lower().rpartition("://")[2].lstrip("*").lstrip(".") for part in rule.split(",")]
    return any(name and (host == name.partition(":")[0] or host.endswith(f".{name}")) for name in names)


def _usable(proxy: str) -> str | None:
    try:
        return check_proxy(proxy if "://" in proxy else f"http://{proxy}") or None
    except ValueError:
        return None
