"""Asking the owner before an address of their own network is read, and remembering the answer."""

from nanobot.agent.tools.base import Approval, ToolContext
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import Exceptions
from nanobot.web.cache import KeyLocks
from nanobot.web.fetch.tiers import PageReader

TITLE = "Confirm Web Fetch"
_LOCAL = "Only public addresses are read here"
_DETAIL = """Reason: {host} is an address of your own network.
Host: {host}
Address: {url}
What leaves: a request for this address, from this machine straight to {host}. What it answers goes to the model."""


class PrivateConsent:
    """Consent to read private hosts, kept in memory by session: for one host, for all of them, or never.

    An answer opens the host that was named and no other, and nothing but reading: cloud metadata and link-local
    addresses are never asked for. Calls that want one host at the same time wait for each other's answer: what it says
    of the host counts for all of them, and so does a plain no; a plain yes is for the address that was shown.
    """

    def __init__(self, reader: PageReader) -> None:
        self._reader = reader
        self._hosts: dict[tuple[str, str], bool] = {}
        self._sessions: set[str] = set()
        self._locks = KeyLocks()
        self._answers = 0
        self._last_no: dict[tuple[str, str], int] = {}

    async def open(self, url: str, refusal: AddressBlocked, context: ToolContext) -> Exceptions:
        """What lets this URL be read. Raises `refusal` where it stays closed, `FetchError` (denied) after a no."""
        found = await self._reader.opening(url)
        if found is None:
            raise refusal
        host, exceptions = found
        arrived = self._answers
        async with self._locks.hold((context.session, host)):
            if self._last_no.get((context.session, host), 0) > arrived:
                raise _denied(host)
            await self._agreed(host, url, refusal, context)
        return exceptions

    async def _agreed(self, host: str, url: str, refusal: AddressBlocked, context: ToolContext) -> None:
        """Return when the owner agrees, now or earlier; raise otherwise."""
        known = self._hosts.get((context.session, host))
        if known or (known is None and context.session in self._sessions):
            return
        if known is False:
            raise _denied(host)
        if context.approve is None:
            raise AddressBlocked(f"{refusal}. Nobody can be asked here.", host=host)
        self._keep(await context.approve(TITLE, _DETAIL.format(host=host, url=url)), context.session, host)

    def _keep(self, answer: Approval, session: str, host: str) -> None:
        """Remember an answer. Raises `FetchError` (denied) where it is a no."""
        self._answers += 1
        if answer == "session":
            self._sessions.add(session)
        elif answer in ("host", "never"):
            self._hosts[session, host] = answer == "host"
        if answer in ("no", "never"):
            self._last_no[session, host] = self._answers
            raise _denied(host)


def _denied(host: str) -> FetchError:
    return FetchError("denied", f"The owner does not want {host} to be read. {_LOCAL}; use another source.", host=host)
