"""Asking the owner before addresses of their own network are read, and remembering the answer."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, field

from nanobot.agent.tools.base import ABOUT_HOST, Approval, ToolContext, in_question
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import IPAddress
from nanobot.web.cache import KeyLocks
from nanobot.web.fetch.page import PrivateHost
from nanobot.web.fetch.reader import PageReader

TITLE = "Confirm Web Fetch"
_LOCAL = "Only public addresses are read here"


class PrivateConsent:
    """Consent to read private hosts, kept in memory by person and session: for some hosts, for all of them, or never.

    A yes counts for the host at the addresses that were shown and nothing but reading: where the name has another
    address later, the owner is asked anew, and loopback, link-local and cloud metadata addresses are never asked for.
    Questions of one session come one after the other; a plain no counts for the calls that waited for it.
    """

    def __init__(self, reader: PageReader) -> None:
        self.reader = reader
        self.locks = KeyLocks()
        self.answers = 0
        self._agreed: dict[tuple[str, str], frozenset[IPAddress]] = {}
        self._never: set[tuple[str, str]] = set()
        self._sessions: set[str] = set()
        self._last_no: dict[tuple[str, str], int] = {}

    def known(self, holder: str, host: PrivateHost, since: int) -> bool | None:
        """What the owner said of this host earlier, or with a plain no after the answer numbered `since`."""
        key = holder, host.name
        if key in self._never or self._last_no.get(key, 0) > since:
            return False
        agreed = self._agreed.get(key)
        if agreed is None:
            return True if holder in self._sessions else None
        return True if agreed.issuperset(host.addresses) else None

    def keep(self, answer: Approval, holder: str, hosts: Iterable[PrivateHost]) -> bool:
        """Remember what was said of the hosts that were shown; True for a yes."""
        self.answers += 1
        yes = answer not in ("no", "never")
        if answer == "session":
            self._sessions.add(holder)
        for host in hosts:
            key = holder, host.name
            if answer == "never":
                self._never.add(key)
            elif answer == "host":
                self._agreed[key] = frozenset(host.addresses)
            if not yes:
                self._last_no[key] = self.answers
        return yes


class CallConsent(Struct):
    """What the owner says to one call. It asks once, for all of its pages: `urls` are the addresses that it reads."""

    kept: PrivateConsent
    urls: Sequence[str]
    context: ToolContext
    _allowed: set[PrivateHost] = field(default_factory=set)
    _asked: set[PrivateHost] = field(default_factory=set)

    async def open(self, url: str, refusal: AddressBlocked) -> PrivateHost:
        """The host as it may be read. Raises `refusal` where it stays closed, `FetchError` (denied) after a no.

        A name that the model made up stays closed: the owner was asked for a public page.
        """
        host = await self.kept.reader.private_host(url)
        if not isinstance(host, PrivateHost):
            raise refusal
        if host.name in self.context.made_up:
            raise _made_up(host)
        since = self.kept.answers
        async with self.kept.locks.hold((self.context.holder,)):
            if host in self._allowed:
                return host
            known = False if host in self._asked else self.kept.known(self.context.holder, host, since)
            if known is None:
                known = await self._ask(host, url, refusal)
        if not known:
            raise FetchError(
                "denied",
                f"The owner does not want {host.name} to be read. {_LOCAL}; use another source.",
                host=host.name,
            )
        return host

    async def _ask(self, host: PrivateHost, url: str, refusal: AddressBlocked) -> bool:
        if self.context.approve is None:
            raise AddressBlocked(f"{refusal}. Nobody can be asked here.", host=host.name)
        shown, closed = {url: host}, dict[str, str]()
        for other in dict.fromkeys(self.urls):
            found = await self.kept.reader.private_host(other)
            if isinstance(found, PrivateHost) and found.name in self.context.made_up:
                found = _made_up(found)
            if isinstance(found, AddressBlocked):
                closed[other] = str(found).partition(". ")[0]
            elif found is not None and self.kept.known(self.context.holder, found, 0) is None:
                shown[other] = found
        answer = await self.context.approve(TITLE, _detail(shown, closed), ABOUT_HOST)
        self._asked |= set(shown.values())
        yes = self.kept.keep(answer, self.context.holder, shown.values())
        self._allowed |= set(shown.values()) if yes else set()
        return yes


def _made_up(host: PrivateHost) -> AddressBlocked:
    at = ", ".join(map(str, host.addresses))
    what = f"{host.name} leads into the owner's own network ({at}), and nobody has named it here"
    return AddressBlocked(f"{what}. If it is meant, the owner can name it in a message.", host=host.name)


def _detail(shown: dict[str, PrivateHost], closed: dict[str, str]) -> str:
    """The question: which host at which address, what is read of it, what is refused anyway, and what leaves."""
    hosts = {host.name: ", ".join(map(str, host.addresses)) for host in shown.values()}
    places = [name if name == at else f"{name} ({at})" for name, at in hosts.items()]
    one = len(places) == 1
    what = "is an address" if one else "are addresses"
    to = places[0] if one else "these hosts"
    lines = [
        f"Reason: {' and '.join(places)} {what} of your own network.",
        f"Host: {', '.join(hosts)}",
        *(f"Address: {in_question(url)}" for url in shown),
        *(f"Refused whatever you answer: {in_question(url)} ({why})" for url, why in closed.items()),
        (
            f"What leaves: a request for {'this address' if len(shown) == 1 else 'each address'}, from this machine "
            f"straight to {to}. What it answers goes to the model."
        ),
    ]
    return "\n".join(lines)
