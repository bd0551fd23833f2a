"""The link that makes somebody the owner: shown where the gateway runs, for a short time, while there is no owner."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from nanobot.channels.telegram.access.people import CLAIM_VALID, Access

#: How often a link is shown before the gateway waits for a restart: what it prints may be kept in a log.
_MOST_LINKS = 3
_LOOK_EVERY = 2.0


class ClaimLink(Struct, frozen=True):
    """`url` opens the bot with its code; it is good for `minutes`. `last`: no other one follows."""

    url: str
    username: str
    minutes: int
    last: bool = False


Announce = Callable[[ClaimLink | None], None]
"""Shows a link; None says that the bot has its owner now."""


class Claiming:
    """Offers links until the bot has an owner; `shared`: other processes hear of who opens one."""

    def __init__(self, access: Access, announce: Announce, *, shared: bool = False) -> None:
        self._access = access
        self._announce = announce
        self._shared = shared
        self._username = ""
        self._ready = asyncio.Event()

    def known(self, username: str) -> None:
        """The bot's name has been learned."""
        self._username = username
        self._ready.set()

    async def run(self) -> None:
        """Show links while there is no owner."""
        await self._ready.wait()
        seconds = CLAIM_VALID.total_seconds()
        for number in range(1, _MOST_LINKS + 1):
            if await self._access.owner():
                return
            url = f"https://t.me/{self._username}?start={self._access.offer()}"
            if self._shared:
                await self._access.share_offer()
            self._announce(ClaimLink(url, self._username, int(seconds // 60), number == _MOST_LINKS))
            if await self._claimed_within(seconds):
                self._announce(None)
                return

    async def _claimed_within(self, seconds: float) -> bool:
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_LOOK_EVERY)
            if await self._access.owner():
                return True
        return False
