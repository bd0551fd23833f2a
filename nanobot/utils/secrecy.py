"""Values that never print what is secret in them, what in a URL looks like a secret, and which hosts are one's own."""

import ipaddress
import re
from collections.abc import Iterator
from typing import ClassVar, NamedTuple
from urllib.parse import unquote_plus

from msgspec import Struct

from nanobot.utils.translation import _

_ADDRESS = re.compile(r"(?i:[a-z][a-z0-9+.-]*)://(?:(?P<login>[^/?#\s]*)@)?[^/?#\s]*(?P<path>[^?#\s]*)")
_PAIR = re.compile(r"[?&#;]([^=&#;\s]*)=([^&#;\s]+)")
_BARE = re.compile(r"[?&#]([^=&#;\s]+)(?=[&#]|\Z)")
#: Names of values that open a door, and the shape of values that nobody types.
_NAME = re.compile(
    r"(?:^|[_.-])(?:token|key|apikey|auth|authorization|sig|signature|passw(?:or)?d|passwd|pwd|secret|session|sessionid"
    r"|sid|jwt|credential|credentials|otp|code|ticket|nonce|invite|bearer)(?:$|[_.-])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KEY = re.compile(
    r"(?:bot)?\d{6,}:[\w-]{20,}|(?:sk|pk|rk)[-_][\w-]{16,}|eyJ[\w-]{10,}\.|gh[opsur]_\w{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|(?:tvly|pplx|fc|hf|npm|jina)[-_]\w{16,}"
)
_VALUE = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[A-Za-z0-9_\-+/=.~]{28,}\Z")
#: In a path, where titles and names of files stand too: a word of both cases with digits in several places.
_RANDOM_WORD = re.compile(r"(?=.*\d[A-Za-z]+\d)(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9]{12,}\Z")
_LONG = 24
#: A word of a sentence that may be a key, what it is made of, and parts that nobody types.
_WORD, _SEAM = re.compile(r"[\w+=~%-]+(?::[\w-]{20,})?"), re.compile(r"[-_:+=~%]")
_SHORTEST = 16
_MADE = re.compile(r"(?=.*\d[A-Za-z]+\d)(?=.*[A-Za-z])[A-Za-z0-9]{20,}\Z")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z")
_AFTER_NAME = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~=-]{12,}\Z")


#: The private ranges of home and office networks; with those of one machine and one cable; how names there end.
HOME_NETS = ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
_MACHINE_NETS = ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "::/127", "fe80::/10")
_OWN_NETS = tuple(map(ipaddress.ip_network, (*HOME_NETS, *_MACHINE_NETS)))
OWN_NAMES = (
    *(".localhost", ".local", ".localdomain", ".lan", ".internal"),
    *(".home", ".home.arpa", ".intranet", ".corp", ".private"),
)


def is_own(host: str) -> bool:
    """Whether a host is on this machine or an own network, by its text alone: nothing is looked up. No proxy is asked
    for it, and people who only read along are not told of it."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(OWN_NAMES))
    inner = getattr(address, "ipv4_mapped", None) or address
    return any(inner in net for net in _OWN_NETS)


class Reticent(Struct, frozen=True):
    """A value whose `unprinted` fields stand in no log line and no message of an error."""

    unprinted: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in self.unprinted)
        return f"{type(self).__name__}({', '.join(shown)})"


class UrlSecret(NamedTuple):
    """Where a secret seems to stand: `url[start:end]`, and in words."""

    start: int
    end: int
    where: str


def url_secrets(url: str) -> tuple[UrlSecret, ...]:
    """Every part of `url` that looks like a secret, in no order; none for a text that is no absolute URL."""
    address = _ADDRESS.match(url)
    if address is None:
        return ()
    login = [UrlSecret(*address.span("login"), _("the URL carries a login"))] if address["login"] is not None else []
    return (*login, *_in_path(address["path"], address.start("path")), *_in_values(url, address.end()))


def mask_url(url: str, mask: str) -> str:
    """`url` with `mask` in the place of everything that looks like a secret."""
    for secret in sorted(url_secrets(url), reverse=True):
        url = url[: secret.start] + mask + url[secret.end :]
    return url


def mask_keys(text: str, mask: str = "********") -> str:
    """A sentence with `mask` in the place of each word that looks like a key, such as one typed in a wrong place."""

    def judge(word: re.Match[str]) -> str:
        return mask if _is_key(word[0], in_path=text[: word.start()].endswith("/")) else word[0]

    return _WORD.sub(judge, text)


def _is_key(word: str, *, in_path: bool) -> bool:
    """Whether a word looks like a key; in a path, where folders have odd names, only what begins like one."""
    if len(word) < _SHORTEST:
        return False
    if in_path or _KEY.match(word):
        return bool(_KEY.match(word))
    return bool(_UUID.match(word)) or any(_RANDOM_WORD.match(part) or _MADE.match(part) for part in _SEAM.split(word))


def _in_values(url: str, begin: int) -> Iterator[UrlSecret]:
    for pair in _PAIR.finditer(url, begin):
        name, value = unquote_plus(pair[1]), unquote_plus(pair[2])
        if _NAME.search(_CAMEL.sub("_", name)) or _VALUE.match(value) or _KEY.match(value):
            yield UrlSecret(*pair.span(2), _("the value of {name!r} in the URL looks like a secret", name=name[:40]))
    for bare in _BARE.finditer(url, begin):
        if _KEY.match(unquote_plus(bare[1])):
            yield UrlSecret(*bare.span(1), _("the query of the URL looks like a secret"))


def _in_path(path: str, begin: int) -> Iterator[UrlSecret]:
    before = ""
    for match in re.finditer("[^/]+", path):
        part = unquote_plus(match[0])
        words = re.split(r"[-_.~=;,]", part)
        random = len(part) >= _LONG and any(map(_RANDOM_WORD.match, words))
        if random or _KEY.match(part) or (_NAME.search(before) and _AFTER_NAME.match(part)):
            start = begin + match.start()
            yield UrlSecret(start, start + len(match[0]), _("the path of the URL looks as if it held a secret"))
        before = part
