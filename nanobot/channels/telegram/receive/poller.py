"""Fetches updates without ever losing one: what was not committed is not confirmed.

Whether they really arrive is told by the age of the last poll that was completed, not by a task that is alive.
"""

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal

from loguru import logger
from msgspec import Struct, field
from telegram.error import Conflict, EndPointNotFound, InvalidToken, RetryAfter, TelegramError

from nanobot import __version__
from nanobot.channels.telegram.bot import POLL_SECONDS, Sleep, TelegramLine
from nanobot.channels.telegram.read.incoming import number_of
from nanobot.channels.telegram.send.errors import penalty_of, words_of
from nanobot.errors import ChannelError, StoreError
from nanobot.utils.host import process_identity
from nanobot.utils.text import duration
from nanobot.utils.translation import N_, Later, _, _n, apart, told

Update = dict[str, object]
Accept = Callable[[list[Update]], Awaitable[None]]
State = Literal["starting", "polling", "webhook", "working", "retrying", "conflict", "stopped"]
#: Seconds after which a channel without a completed poll is ill.
ILL_SECONDS = 90.0
#: Of failures in a row with one cause every so many is written into the log again.
_LOGGED_AGAIN = 10
_FIGURES = re.compile(r"\d+")
_STALLED = N_("nanobot itself was blocked for {seconds:.0f} s when this was written; the log shows where")

_REFUSED = N_(
    "Telegram refuses the bot's token: it was revoked or mistyped. Get the current one from @BotFather (/mybots, your "
    "bot, API Token), put it in channels.telegram.token, and start nanobot again."
)
IN_USE = N_(
    "another program uses this token. Stop the other one, or give one of them a bot of its own (@BotFather, /newbot)"
)
UNREACHED = N_("Telegram cannot be reached ({why})")
_NEXT_TRY = N_("{address}: {reason}. Next try in {seconds:.0f} s.")
_ASKED = N_("Telegram asks us to wait {seconds:.0f} s")
_NOT_KEPT = N_("Updates cannot be kept and wait at Telegram ({why})")
_LATE = N_("it did not answer in time")


#: The most seconds between two tries of what did not reach Telegram, and after how many in a row its client is new.
MOST_SECONDS, RENEWED_AFTER = 30.0, 3


class Health(Struct):
    """What the poller last saw. Times are of `clock`, in seconds; the file and `began` have wall time.

    `stalled` is for how many seconds the program has done nothing at all, 0.0 while it works. `say` shows a line to who
    runs the gateway: each cause once, until all is well again; `address` is where Telegram is asked, for these lines.
    """

    address: str = ""
    say: Callable[[str], None] = lambda _line: None
    username: str = ""
    workers: int = 0
    state: State = "starting"
    reason: str = ""
    polls: int = 0
    failures: int = 0
    clock: Callable[[], float] = time.monotonic
    last_poll: float | None = None
    stalled: float = 0.0
    began: float = field(default_factory=time.time)
    said: set[str] = field(default_factory=set)

    def works(self, state: State, workers: int = 0) -> None:
        """Updates arrive: by a poll that was completed, with or without any, or because Telegram brings them; or this
        process is one of so many `workers` that answer what others take in."""
        if self.failures and self.state in {"retrying", "conflict"}:
            logger.info("Telegram answers again after {} failures", self.failures)
            self.say(_("{address}: messages arrive again.", address=self.address))
        self.failures = 0
        self.said.clear()
        if state != "webhook":
            self.polls += 1
            self.last_poll = self.clock()
        self.state, self.reason, self.workers = state, "", workers

    def failed(self, state: State, reason: str, wait: float = 0.0) -> None:
        """A poll was not completed; `reason` is without secrets, the next try is in `wait` seconds."""
        self.failures += 1
        self.state, self.reason = state, reason
        if not wait:
            return
        said = Later(_NEXT_TRY, address=self.address, reason=reason, seconds=wait)
        what, new = _FIGURES.sub("", reason), False
        if what not in self.said:
            self.said.add(what)
            self.say(told(said))
            new = True
        if new or self.failures % _LOGGED_AGAIN == 0:
            logger.warning("{} ({} failures in a row)", said, self.failures)

    @property
    def age(self) -> float | None:
        """Seconds since the last completed poll; None before the first."""
        return None if self.last_poll is None else self.clock() - self.last_poll

    @property
    def well(self) -> bool:
        if self.stalled:
            return False
        if self.state == "webhook":
            return True
        return self.age is not None and self.age <= ILL_SECONDS and self.state != "stopped"

    def line(self) -> str:
        """One line for /status."""
        name = f"Telegram @{self.username}" if self.username else "Telegram"
        if self.state == "webhook":
            what = _("{name}: Telegram delivers to our address", name=name)
        elif self.state == "working":
            answer = _n("{number} worker answers", "{number} workers answer", self.workers)
            what = _("{name}: {workers}; another process polls", name=name, workers=answer)
        elif self.age is None:
            what = _("{name}: no poll completed yet", name=name)
        else:
            what = _("{name}: last poll {time} ago", name=name, time=duration(self.age))
        return apart(filter(None, (what, told(self.reason))))

    @property
    def _why(self) -> str:
        if self.stalled:
            return _(_STALLED, seconds=self.stalled)
        if self.state == "working":
            return _n("{number} worker answers", "{number} workers answer", self.workers)
        return told(self.reason)

    def write(self, path: Path, extra: Mapping[str, object]) -> None:
        """Replace the health file at once, so that a reader never sees half of it."""
        now, pid = time.time(), os.getpid()
        value = {
            "pid": pid,
            "process": process_identity(pid),
            "written": now,
            "ok": self.well,
            "version": __version__,
            "since": self.began,
            "channel": "telegram",
            "bot": self.username,
            "state": "stalled" if self.stalled else self.state,
            "reason": self._why,
            "lastPoll": None if self.age is None else now - self.age,
            **extra,
        }
        fresh = path.with_name(f"{path.name}.new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(value, file)
        fresh.replace(path)


async def reached(
    call: Callable[[], Awaitable[None]],
    health: Health,
    what: str,
    sleep: Sleep = asyncio.sleep,
    renew: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Make a call to Telegram and keep what it says, for as long as it takes; `what` tells of a failure, and after
    some in a row the client is made anew by `renew`. Raises `ChannelError` when Telegram refuses the token."""
    while True:
        try:
            return await call()
        except (TelegramError, TimeoutError, StoreError) as error:
            said, asked = _judged(error, health, what)
            state: State = "conflict" if isinstance(error, Conflict) else "retrying"
        wait = asked or min(MOST_SECONDS, 2.0 ** min(health.failures, 10)) * random.uniform(0.5, 1.0)
        health.failed(state, said, wait)
        if renew is not None and health.failures % RENEWED_AFTER == 0:
            await renew()
        await sleep(wait)


class Poller:
    """One loop and one request at a time: the next poll begins when the last one has ended, however it ended.

    `accept` must return only after the updates are committed; the offset that confirms them is sent with the next poll.
    """

    def __init__(
        self,
        client: TelegramLine,
        accept: Accept,
        health: Health,
        *,
        begin: Callable[[], Awaitable[None]],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._accept = accept
        self._health = health
        self._begin = begin
        self._sleep = sleep
        self._offset: int | None = None
        #: Seconds after which a poll is given up.
        self.deadline = POLL_SECONDS

    async def run(self) -> None:
        """Begin, and poll until cancelled. Raises `ChannelError` when Telegram refuses the token."""
        await self._begin()
        while True:
            await reached(self._poll, self._health, UNREACHED, self._sleep, self._client.renew)

    async def _poll(self) -> None:
        async with asyncio.timeout(self.deadline):
            rows = await self._fetch()
        numbered = {number_of(row.get("update_id")): row for row in rows}
        if numbered.pop(0, None):
            logger.error("updates came without a number and were left out: {}", len(rows) - len(numbered))
        if numbered:
            await self._accept([*numbered.values()])
            self._offset = max(numbered) + 1
        elif rows:  # they cannot be confirmed, and would come again at once
            raise TelegramError("its updates have no numbers")  # English: words about a server, as the library's
        self._health.works("polling")

    async def _fetch(self) -> list[Update]:
        try:
            return await self._client.get_updates(self._offset)
        except Conflict as error:
            if "webhook" in error.message.casefold():
                logger.warning("a webhook was set for this bot; it is removed, because nanobot polls")
                await self._client.call("deleteWebhook")  # what waits at Telegram is kept
            raise


def _judged(error: Exception, health: Health, what: str) -> tuple[str, float]:
    """What is said of a call that failed, `what` of most; and the seconds that Telegram asks us to wait, 0.0 where it
    asks for none. Raises `ChannelError` when Telegram refuses the token."""
    match error:
        case InvalidToken() | EndPointNotFound():
            health.failed("stopped", Later(_REFUSED))
            raise ChannelError(_(_REFUSED)) from error
        case Conflict():
            return Later(IN_USE), 0.0
        case RetryAfter():
            wait = penalty_of(error)
            return Later(_ASKED, seconds=wait), wait
        case StoreError():
            logger.error("what Telegram has said could not be kept and was not confirmed: {}", error)
            return Later(_NOT_KEPT, why=str(error)), 0.0
    return Later(what, why=_told(error)), 0.0


def _told(error: Exception) -> str:
    """What went wrong, without secrets: the text of some errors holds the URL and with it the token."""
    if isinstance(error, TimeoutError):
        return Later(_LATE)
    return words_of(error)
