"""Asking the owner before an address of their own network is read, and remembering the answer."""

from nanobot.agent.tools.base import ToolContext
from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import Exceptions
from nanobot.web.fetch.tiers import PageReader

_LOCAL = "Only public addresses are read here"


class PrivateConsent:
    """Consent to read private hosts, kept in memory by session: for one host, for all of them, or never.

    An answer opens the host that was named and no other, and nothing but reading: cloud metadata and link-local
    addresses are never asked for.
    """

    def __init__(self, reader: PageReader) -> None:
        self._reader = reader
        self._hosts: dict[tuple[str, str], bool] = {}
        self._sessions: set[str] = set()

    async def open(self, url: str, refusal: AddressBlocked, context: ToolContext) -> Exceptions:
        """What lets this URL be read. Raises `refusal` where it stays closed, `FetchError` (denied) after a no."""
        found = await self._reader.opening(url)
        if found is None:
            raise refusal
        host, exceptions = found
        known = self._hosts.get((context.session, host))
        if known or (known is None and context.session in self._sessions):
            return exceptions
        if known is False:
            raise _denied(host)
        if context.approve is None:
            raise AddressBlocked(f"{refusal} Nobody can be asked here.", host=host)
        answer = await context.approve(f"Read {host}?", f"{url}\n{host} is an address of your own network.")
        if answer == "session":
            self._sessions.add(context.session)
        elif answer in ("host", "never"):
            self._hosts[context.session, host] = answer == "host"
        if answer in ("no", "never"):
            raise _denied(host)
        return exceptions


def _denied(host: str) -> FetchError:
    return FetchError("denied", f"The owner does not want {host} to be read. {_LOCAL}; use another source.", host=host)
