"""Whether updates really arrive: the age of the last poll that was completed, not whether a task is alive."""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from loguru import logger
from msgspec import Struct

from nanobot.utils.host import process_identity

State = Literal["starting", "polling", "webhook", "working", "retrying", "conflict", "stopped"]
#: Seconds after which a channel without a completed poll is ill.
ILL_SECONDS = 90.0
#: Of failures in a row the first is said, and every so many after it.
_TOLD_AGAIN = 10
_STALLED = "nanobot itself was blocked for {:.0f} s when this was written; the log shows where"


def _to_nobody(_line: str) -> None:
    return None


class Health(Struct):
    """What the poller last saw. Times are of `clock`, in seconds; the file has wall time.

    `stalled` is for how many seconds the program has done nothing at all, 0.0 while it works. `say` shows a line to who
    runs the gateway; `address` is where Telegram is asked, for these lines.
    """

    address: str = ""
    say: Callable[[str], None] = _to_nobody
    username: str = ""
    state: State = "starting"
    reason: str = ""
    polls: int = 0
    failures: int = 0
    clock: Callable[[], float] = time.monotonic
    last_poll: float | None = None
    stalled: float = 0.0

    def poll_ok(self) -> None:
        """A poll was completed, with or without updates."""
        self.polls += 1
        self._well_again()
        self.last_poll = self.clock()
        self.state, self.reason = "polling", ""

    def working(self, workers: int) -> None:
        """This process answers what others take in; so many do."""
        self._well_again()
        self.last_poll = self.clock()
        self.state, self.reason = "working", f"{workers} worker{'s' * (workers != 1)} answer"

    def failed(self, state: State, reason: str, wait: float = 0.0) -> None:
        """A poll was not completed; `reason` is a sentence without secrets, the next try is in `wait` seconds."""
        self.failures += 1
        self.state, self.reason = state, reason
        if wait and (self.failures == 1 or self.failures % _TOLD_AGAIN == 0):
            times = f", {self.failures} times so far" if self.failures > 1 else ""
            line = f"{self.address}: {reason}{times}. Next try in {wait:.0f} s."
            logger.warning(line)
            self.say(line)

    def delivered_to(self) -> None:
        """Telegram brings the updates from now on."""
        self._well_again()
        self.state, self.reason = "webhook", ""

    def _well_again(self) -> None:
        if self.failures and self.state in {"retrying", "conflict"}:
            logger.info("Telegram answers again after {} failures", self.failures)
            self.say(f"{self.address}: messages arrive again.")
        self.failures = 0

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
            return f"{name}: Telegram delivers to our address" + (f"; {self.reason}" if self.reason else "")
        if self.state == "working":
            return f"{name}: {self.reason}; another process polls"
        since = "no poll completed yet" if self.age is None else f"last poll {_span(self.age)} ago"
        return f"{name}: {since}" + (f"; {self.reason}" if self.reason else "")

    def write(self, path: Path, extra: Mapping[str, object]) -> None:
        """Replace the health file at once, so that a reader never sees half of it."""
        now, pid = time.time(), os.getpid()
        value = {
            "pid": pid,
            "process": process_identity(pid),
            "written": now,
            "ok": self.well,
            "channel": "telegram",
            "bot": self.username,
            "state": "stalled" if self.stalled else self.state,
            "reason": _STALLED.format(self.stalled) if self.stalled else self.reason,
            "lastPoll": None if self.age is None else now - self.age,
            **extra,
        }
        fresh = path.with_name(f"{path.name}.new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(value, file)
        fresh.replace(path)


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.0f} h"
