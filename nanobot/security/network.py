"""Which addresses may be reached: two pure judgements over tables of our own.

`judge_url` reads a URL as it was written, `judge_ip` an address as it was resolved. Neither touches the network; the
guarded client in `nanobot.web.client` asks both at the moment of connecting. The tables are written out here because
`ipaddress.is_global` changes between patch releases and errs for NAT64 and multicast. Sources: the IANA special-purpose
address registries for IPv4 and IPv6; RFC 6052 (NAT64), RFC 5214 (ISATAP).
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import idna
from msgspec import Struct
from msgspec.structs import replace

from nanobot.errors import AddressBlocked, FetchError
from nanobot.utils.secrecy import HOME_NETS, OWN_NAMES
from nanobot.utils.translation import N_, _, sentences

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_URL = 8_192
NOT_HTTP = N_("URL must start with http:// or https://")

_SPECIAL_V4 = tuple(
    ipaddress.IPv4Network(net)
    for net in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # the Azure wire server: looks public, is the host
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_SPECIAL_V6 = tuple(ipaddress.IPv6Network(net) for net in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
#: Parts of 2001::/23 that are globally reachable: AMT, AS112, drone remote identification.
_GLOBAL_IN_2001 = tuple(ipaddress.IPv6Network(net) for net in ("2001:3::/32", "2001:4:112::/48", "2001:30::/28"))
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = {0x00005EFE, 0x02005EFE}

_METADATA = frozenset(
    ipaddress.ip_address(address)
    for address in (
        "100.100.100.200",
        "168.63.129.16",
        "169.254.169.254",
        "169.254.169.250",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.0.23",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fe80::a9fe:a9fe",
    )
)
_METADATA_NAMES = frozenset({"metadata.goog", "metadata.google.internal", "instance-data", "metadata"})

_DENIED = N_(
    "{host} is not read here: the owner's tools.web.fetch.deny names it or a name above it. Use another source"
)
_NOT_ALLOWED = N_(
    "{host} is not read here: the owner's tools.web.fetch.allow does not name it. Use a source that stands there"
)

FAKE_IP = N_(
    "a proxy such as Clash or mihomo answers DNS here with addresses of its own. If that is so, the owner lets pages "
    'be read with "tools": {"web": {"fetch": {"fakeIp": true}}}'
)

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*):(?P<rest>.*)", re.IGNORECASE | re.DOTALL)
_AUTHORITY = re.compile(r"//(?P<authority>[^/?#]*)(?P<tail>.*)", re.DOTALL)
_HOST_PORT = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>.*))?", re.DOTALL)
_PORT = re.compile(r"[0-9]{1,5}\Z", re.ASCII)
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,62})\Z", re.ASCII)
_FORBIDDEN = re.compile("[\x00-\x20\x7f-\xa0\\\\\u1680\u2000-\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]")


class Target(Struct, frozen=True):
    """A URL that passed `judge_url`. `url` is the text to request; `host` is ASCII in lower case, without brackets.

    `address` is set where the host is a literal; it is not judged yet.
    """

    url: str
    scheme: Literal["http", "https"]
    host: str
    port: int
    address: IPAddress | None = None


class Hosts(Struct, frozen=True):
    """Which hosts the owner lets be read: those of `allow` where it names any, and none of `deny`, which wins.

    A name stands for itself and for every name below it; an address for itself alone.
    """

    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, allow: Iterable[str], deny: Iterable[str]) -> "Hosts":
        """From lists of names and addresses. Raises `FetchError` for what is neither."""
        return cls(frozenset(map(_listed, allow)), frozenset(map(_listed, deny)))

    def judge(self, host: str) -> None:
        """Raises `AddressBlocked` for a host, as `judge_url` spells it, that is not to be read."""
        names = {host} if _is_address(host) else set(_with_parents(host))
        if names & self.deny:
            raise AddressBlocked(_(_DENIED, host=host), host=host)
        if self.allow and not names & self.allow:
            raise AddressBlocked(_(_NOT_ALLOWED, host=host), host=host)

    def lets(self, url: str) -> bool:
        """Whether the text of `url` may be shown, whoever has read it."""
        if not (self.allow or self.deny):
            return True
        try:
            judge_url(url, Exceptions(hosts=self))
        except FetchError:
            return False
        return True


class Exceptions(Struct, frozen=True):
    """What the operator allows beyond public addresses, and the hosts that are read at all. Never built from what a
    model says.

    `nets` opens addresses, `names` opens host names (`.lan` opens every name below it) whatever they resolve to.
    `hosts` are judged first.
    `invented` lets names resolve to `INVENTED`; as a literal, such an address stays closed. Cloud metadata addresses
    stay closed unless one is named exactly.
    """

    nets: tuple[IPNetwork, ...] = ()
    names: frozenset[str] = frozenset()
    invented: bool = False
    hosts: Hosts = Hosts()

    @classmethod
    def parse(cls, entries: Iterable[str]) -> "Exceptions":
        """From a list of nets, addresses and names. An entry that is neither raises ValueError."""
        nets: list[IPNetwork] = []
        names: set[str] = set()
        for entry in (raw.strip().lower() for raw in entries):
            try:
                nets.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                name = entry.removeprefix("*").rstrip(".")
                if not all(_LABEL.match(label) for label in name.lstrip(".").split(".")):
                    raise ValueError(_("{entry!r} is neither a net, an address nor a host name", entry=entry)) from None
                names.add(name)
        return cls(tuple(nets), frozenset(names))

    def with_private(self) -> "Exceptions":
        """The same, and the private ranges of home and office networks with loopback."""
        return replace(self, nets=(*self.nets, *HOME.nets, *_LOOPBACK.nets))

    def covers_name(self, host: str) -> bool:
        if host in self.names:
            return True
        return any(name.startswith(".") and host.endswith(name) for name in self.names)

    def covers_ip(self, address: IPAddress) -> bool:
        if address in _METADATA:
            return any(net.num_addresses == 1 and address in net for net in self.nets)
        return any(address in net for net in self.nets)


NO_EXCEPTIONS = Exceptions()
ANY_HOST = NO_EXCEPTIONS.hosts
#: The private ranges of home and office networks.
HOME = Exceptions.parse(HOME_NETS)
_LOOPBACK = Exceptions.parse(("127.0.0.0/8", "::1/128"))
#: A net for benchmarks that has no hosts. Proxies that answer DNS themselves (Clash, mihomo) invent addresses in it.
INVENTED = ipaddress.IPv4Network("198.18.0.0/15")


def judge_url(url: str, exceptions: Exceptions = NO_EXCEPTIONS) -> Target:
    """The target that `url` names, or `FetchError` (invalid_input) and `AddressBlocked` with a sentence."""
    if len(url) > MAX_URL:
        raise _invalid(_("The URL has {length} characters; {most} is the limit", length=len(url), most=MAX_URL))
    if _FORBIDDEN.search(url):
        raise _invalid(_("The URL contains a blank, a backslash or a control character; percent-encode it"))
    match = _URL.match(url)
    scheme = match["scheme"].lower() if match else ""
    if match is None or scheme not in ("http", "https"):
        raise _invalid(_(NOT_HTTP))
    parts = _AUTHORITY.match(match["rest"])
    if parts is None or not parts["authority"]:
        raise _invalid(_("The URL has no host; write it as https://host/path"))
    host, port = _split_authority(parts["authority"], 443 if scheme == "https" else 80)
    kind: Literal["http", "https"] = "https" if scheme == "https" else "http"
    tail = parts["tail"] if port == (443 if kind == "https" else 80) else f":{port}{parts['tail']}"
    if host.startswith("["):
        literal = _ipv6(host[1:-1])
        exceptions.hosts.judge(str(literal))
        return Target(f"{kind}://[{literal}]{tail}", kind, str(literal), port, literal)
    name, address = _host(host)
    exceptions.hosts.judge(name)
    _judge_name(name, exceptions)
    return Target(f"{kind}://{name}{tail}", kind, name, port, address)


def judge_ip(address: IPAddress, exceptions: Exceptions = NO_EXCEPTIONS) -> str | None:
    """None where `address` may be reached, else the reason against it."""
    if exceptions.covers_ip(address):
        return None
    if address in _METADATA:
        return _("a cloud metadata address")
    if isinstance(address, ipaddress.IPv4Address):
        net = next((net for net in _SPECIAL_V4 if address in net), None)
        return _("in the special-purpose net {net}", net=net) if net else None
    value = int(address)
    inner = ipaddress.IPv4Address(value & 0xFFFFFFFF)
    if address in _NAT64:
        reason = judge_ip(inner, exceptions)
        return _("NAT64 for {address}, {reason}", address=inner, reason=reason) if reason else None
    if address.scope_id is not None or address not in _GLOBAL_V6:
        return _("not a global unicast IPv6 address")
    if not any(address in net for net in _GLOBAL_IN_2001):
        special = next((net for net in _SPECIAL_V6 if address in net), None)
        if special is not None:
            return _("in the special-purpose net {net}", net=special)
    if (value >> 32) & 0xFFFFFFFF in _ISATAP:
        reason = judge_ip(inner, exceptions)
        return _("ISATAP for {address}, {reason}", address=inner, reason=reason) if reason else None
    return None


def judge_answers(host: str, answers: Sequence[str], exceptions: Exceptions = NO_EXCEPTIONS) -> tuple[IPAddress, ...]:
    """Every address of one look-up, judged: one bad answer refuses the name with `AddressBlocked`."""
    named = exceptions.covers_name(host)
    addresses = []
    for answer in answers:
        try:
            address = ipaddress.ip_address(answer)
        except ValueError:
            no_address = _("{host} resolves to {answer!r}, which is no address", host=host, answer=answer)
            raise AddressBlocked(no_address, host=host) from None
        reason = judge_ip(address, exceptions)
        if reason and address in INVENTED and host != str(address) and not named:
            if not exceptions.invented:
                why = _(FAKE_IP)
                told = _("{host} resolves to {address}, which no site has: {why}", host=host, address=address, why=why)
                raise AddressBlocked(told, host=host, invented=True)
            reason = None
        if reason and not (named and address not in _METADATA):
            raise AddressBlocked(_not_public(host, address, reason), host=host)
        addresses.append(address)
    return tuple(addresses)


def _not_public(host: str, address: IPAddress, reason: str) -> str:
    what = _("{host} resolves to {address}, which is {reason}.", host=host, address=address, reason=reason)
    if host == str(address):
        what = _("{host} is {reason}.", host=host, reason=reason)
    allowed = _("Only public addresses are read; the owner can allow others in tools.ssrfWhitelist")
    return sentences(what, allowed)


def _invalid(message: str) -> FetchError:
    return FetchError("invalid_input", message)


def _split_authority(authority: str, default: int) -> tuple[str, int]:
    if "@" in authority:
        raise _invalid(_("The URL carries a user name or password; leave them out"))
    if "%" in authority:
        raise _invalid(_("The host of the URL contains a percent sign"))
    parts = _HOST_PORT.fullmatch(authority)
    if parts is None:
        raise _invalid(_("The brackets of the URL's IPv6 address are wrong"))
    host, port = parts["host"], parts["port"]
    if not port:  # RFC 3986, section 6.2.3: nothing behind the colon is the same as no colon
        return host, default
    if not _PORT.match(port) or not 0 < int(port) < 65_536:
        raise _invalid(_("The port {port!r} of the URL is not a number from 1 to 65535", port=port))
    return host, int(port)


def _ipv6(inner: str) -> IPAddress:
    try:
        return ipaddress.IPv6Address(inner)
    except ValueError:
        raise _invalid(_("[{address}] is not an IPv6 address", address=inner)) from None


def _host(host: str) -> tuple[str, IPAddress | None]:
    """The host in ASCII and, for a canonical dotted quad, its address."""
    if host.isascii():
        name = host.lower()
    else:
        try:
            name = idna.encode(host, uts46=True).decode("ascii").lower()
        except (idna.IDNAError, UnicodeError):
            raise _invalid(_("{host!r} is not a valid host name", host=host)) from None
    bare = name.removesuffix(".")
    if _NUMBER.match(bare.rpartition(".")[2]):
        try:
            return host, ipaddress.IPv4Address(host)
        except ValueError:
            raise _invalid(_("{host!r} is not an IPv4 address in its plain form", host=host)) from None
    if len(bare) > 253 or not all(_LABEL.match(label) for label in bare.split(".")):
        raise _invalid(_("{host!r} is not a valid host name", host=host))
    return bare, None


def _is_address(host: str) -> bool:
    return ":" in host or bool(_NUMBER.match(host.rpartition(".")[2]))


def _with_parents(name: str) -> Iterator[str]:
    """`a.b.example` and every name above it."""
    while name:
        yield name
        name = name.partition(".")[2]


def _listed(entry: str) -> str:
    """A host of the owner's lists as `judge_url` spells it."""
    name = entry.strip().removeprefix("*").removeprefix(".")
    return str(_ipv6(name.strip("[]"))) if ":" in name else _host(name)[0]


def _judge_name(name: str, exceptions: Exceptions) -> None:
    if exceptions.covers_name(name):
        return
    local = "." not in name or name.endswith(OWN_NAMES) or name in _METADATA_NAMES
    if local:
        raise AddressBlocked(
            _(
                "{host} is a local name. Only public sites are read; the owner can allow it in tools.ssrfWhitelist",
                host=name,
            ),
            host=name,
        )
