"""Fetches updates without ever losing one: what was not committed is not confirmed."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Protocol

from loguru import logger
from msgspec import Struct
from telegram.error import Conflict, EndPointNotFound, InvalidToken, RetryAfter, TelegramError

from nanobot.channels.telegram.addressing import number_of
from nanobot.channels.telegram.bot import POLL_SECONDS
from nanobot.channels.telegram.health import Health
from nanobot.errors import ChannelError, StoreError
from nanobot.utils.logs import scrub

Update = dict[str, object]
Accept = Callable[[list[Update]], Awaitable[None]]
Sleep = Callable[[float], Awaitable[object]]

REFUSED = (
    "Telegram refuses the bot's token: it was revoked or mistyped. Get the current one from @BotFather (/mybots, your "
    "bot, API Token), put it in channels.telegram.token, and start nanobot again."
)
IN_USE = (
    "another program uses this token. Stop the other one, or give one of them a bot of its own (@BotFather, /newbot)"
)


class Polls(Protocol):
    """What brings updates. Met by `bot.PollClient`."""

    async def get_updates(self, offset: int | None) -> list[Update]: ...

    async def delete_webhook(self) -> None: ...

    async def renew(self) -> None: ...


class Pace(Struct, frozen=True):
    """How long to wait after what went wrong, in seconds; `rebuild` failures in a row replace the HTTP client."""

    first: float = 1.0
    most: float = 30.0
    conflict_first: float = 5.0
    conflict_most: float = 60.0
    deadline: float = POLL_SECONDS
    rebuild: int = 3


class Poller:
    """One loop and one request at a time: the next poll begins when the last one has ended, however it ended.

    `accept` must return only after the updates are committed; the offset that confirms them is sent with the next poll.
    """

    def __init__(
        self,
        client: Polls,
        accept: Accept,
        health: Health,
        *,
        identify: Callable[[], Awaitable[None]],
        pace: Pace | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._accept = accept
        self._health = health
        self._identify = identify
        self._pace = pace or Pace()
        self._sleep = sleep
        self._offset: int | None = None
        self._known = False
        self._conflicts = 0

    async def run(self) -> None:
        """Poll until cancelled. Raises `ChannelError` when Telegram refuses the token."""
        while True:
            try:
                async with asyncio.timeout(self._pace.deadline):
                    rows = await self._ask()
                if rows is not None:
                    await self._commit(rows)
            except (InvalidToken, EndPointNotFound) as error:
                self._health.failed("stopped", REFUSED)
                raise ChannelError(REFUSED) from error
            except Conflict as error:
                await self._conflict(error)
            except RetryAfter as error:
                wait = _seconds(error)
                self._health.failed("retrying", f"Telegram asks us to wait {wait:.0f} s", wait)
                await self._sleep(wait)
            except (TelegramError, TimeoutError) as error:
                await self._failed(_told(error))
            except StoreError as error:
                logger.error("updates could not be kept and were not confirmed: {}", error)
                await self._failed(str(error), "Updates cannot be kept and wait at Telegram")

    async def _ask(self) -> list[Update] | None:
        if not self._known:
            await self._identify()
            self._known = True
            return None
        return await self._client.get_updates(self._offset)

    async def _commit(self, rows: list[Update]) -> None:
        numbered = {number_of(row.get("update_id")): row for row in rows}
        if numbered.pop(0, None):
            logger.error("updates came without a number and were left out: {}", len(rows) - len(numbered))
        if numbered:
            await self._accept([*numbered.values()])
            self._offset = max(numbered) + 1
        elif rows:  # they cannot be confirmed, and would come again at once
            await self._failed("its updates have no numbers")
            return
        self._conflicts = 0
        self._health.poll_ok()

    async def _conflict(self, error: Conflict) -> None:
        self._conflicts += 1
        if "webhook" in error.message.casefold() and self._conflicts == 1:
            logger.warning("a webhook was set for this bot; it is removed, because nanobot polls")
            try:
                async with asyncio.timeout(self._pace.deadline):
                    await self._client.delete_webhook()
            except (TelegramError, TimeoutError) as problem:
                logger.warning("the webhook could not be removed: {}", _told(problem))
        wait = min(self._pace.conflict_most, self._pace.conflict_first * 2 ** (self._conflicts - 1))
        self._health.failed("conflict", IN_USE, wait)
        await self._sleep(wait)

    async def _failed(self, reason: str, what: str = "Telegram cannot be reached") -> None:
        count = self._health.failures + 1
        wait = min(self._pace.most, self._pace.first * 2 ** min(count - 1, 10)) * random.uniform(0.5, 1.0)
        self._health.failed("retrying", f"{what} ({reason})", wait)
        if count % self._pace.rebuild == 0:
            await self._client.renew()
        await self._sleep(wait)


def _seconds(error: RetryAfter) -> float:
    after = error._retry_after  # noqa: SLF001 - the public property warns about its own change of type
    return float(after.total_seconds())


def _told(error: Exception) -> str:
    """What went wrong, without secrets: the text of some errors holds the URL and with it the token."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return scrub(str(error)).rstrip(".") or type(error).__name__
