"""HEARTBEAT.md of the workspace: its open lines are tasks of the schedule, and there is no other mechanism for them.

A line with a time, such as `- [ ] every morning at 8: look for mail`, is a task at that time. Those without one are one
task that looks at all of them at an interval, which its owner is told once. So is what of a line cannot be read as a
time, and that it is no task. A line that is ticked, or gone, is no task any more.
"""

import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from pathlib import Path

from loguru import logger

from nanobot.errors import UsageError
from nanobot.schedule.appointments import MOST_TEXT
from nanobot.schedule.due import judge
from nanobot.schedule.job import Every, JobKind, Once, ScheduledJob, When, told, zone_named
from nanobot.schedule.lines import split
from nanobot.schedule.store import JobStore
from nanobot.session.database import Clock, now
from nanobot.utils.text import shorten
from nanobot.utils.translation import _

NAME = "HEARTBEAT.md"
_LEAST_MINUTES = 5
#: Bytes of the file that are read, and lines of it that count.
_MOST_BYTES, _MOST_LINES = 64_000, 100
#: Characters that are shown of a line, and when what is told of it is due.
_SHOWN, _SOON = 120, timedelta(seconds=1)
_ITEM = re.compile(r"\s{0,3}[-*+]\s+(?:\[(?P<mark>.)\]\s+)?(?P<text>\S.*)")
_FENCE = re.compile(r"\s{0,3}(```|~~~)")
# English: a model reads it
_ASK = "These are open lines of HEARTBEAT.md. Look at them, and do what is to be done now, if anything."
#: What tells whether a file is still the one that was read.
_State = tuple[int, int, int] | None


class Heartbeat:
    """Keeps the rows of the schedule as the file in `workspace` has them, for the owner at the terminal.

    `minutes` lie between two looks at lines without a time; 0: nobody looks at them. `foreign` names the files below a
    folder that hold content from outside: such a file counts only when its owner has trusted it.
    """

    def __init__(
        self,
        jobs: JobStore,
        workspace: Path,
        zone: str,
        minutes: int,
        *,
        foreign: Callable[[Path], frozenset[str]] = lambda _folder: frozenset(),
        clock: Clock = now,
    ) -> None:
        self._jobs = jobs
        self._path = workspace / NAME
        self._zone = zone
        self._minutes = minutes
        self._foreign = foreign
        self._clock = clock
        self._known: _State | int = 0  # 0 before the first look
        self._known_foreign = False

    def changed(self) -> bool:
        """Whether the file is another one than that which was read. Costs one look at it."""
        return self._state() != self._known

    async def read(self) -> None:
        """Make the rows those of the file, where it has changed. Raises `StoreError`."""
        state = self._state()
        foreign = state is not None and str(self._path.resolve()) in self._foreign(self._path.parent.resolve())
        if (state, foreign) == (self._known, self._known_foreign):
            return
        text = self._text() if state is not None and not foreign else ""
        if foreign:
            logger.warning("{} came from outside and does not count; /trust {} lets it", NAME, NAME)
        await self._jobs.follow(NAME, "terminal:local", tuple(self._tasks(text)), self._clock())
        self._known, self._known_foreign = state, foreign

    def _tasks(self, text: str) -> Iterator[ScheduledJob]:
        """The tasks of the open lines, each known by its line, and what is told once of lines that are done otherwise
        than their owner may think."""
        at, untimed = self._clock(), list[str]()
        for line in open_lines(text):
            try:
                when, task = split(line, at, zone_named(self._zone))
                if when is not None:
                    made = self._task(when, task or line, line)
                    judge(made)
                    yield made
            except UsageError as error:
                said = _("“{line}” in HEARTBEAT.md is not done. {why}", line=shorten(line, _SHOWN), why=error)
                yield self._task(Once(at + _SOON), said, line, "remind")
            else:
                if when is None:
                    untimed.append(line)
        if untimed and self._minutes:
            lines = "\n".join((*(f"- {line}" for line in untimed), "", _ASK))
            often = Every(max(self._minutes, _LEAST_MINUTES) * 60, at.astimezone(UTC))
            yield (looking := self._task(often, lines, f"{often.seconds} {lines}"))
            said = _(
                "HEARTBEAT.md has lines without a time that I read, such as “{line}”: a model looks at them {often}. "
                "Write a time before a line, such as “every day at 8:”, or set `schedule.heartbeatMinutes` to 0.",
                line=shorten(untimed[0], _SHOWN),
                often=told(looking),
            )
            yield self._task(Once(at + _SOON), said, "", "remind")

    def _task(self, when: When, text: str, line: str, kind: JobKind = "ask") -> ScheduledJob:
        digest = hashlib.sha256(line.encode("utf-8", "replace")).hexdigest()[:12]
        return ScheduledJob(
            kind=kind,
            text=shorten(text, MOST_TEXT),
            when=when,
            zone=self._zone,
            person="terminal:local",
            chat="terminal:local",
            origin=f"{NAME} {digest}",
        )

    def _state(self) -> _State:
        try:
            found = self._path.lstat()
        except OSError:
            return None
        if not stat.S_ISREG(found.st_mode):  # a link may lead to what came from outside, and a pipe never ends
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _text(self) -> str:
        try:
            with os.fdopen(
                os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
            ) as file:
                return os.read(file.fileno(), _MOST_BYTES).decode("utf-8", "replace")
        except OSError as error:
            logger.warning("{} cannot be read: {}", self._path, error)
            return ""


def open_lines(text: str) -> list[str]:
    """The items of lists in a Markdown text that are not ticked, outside of code and comments, each once."""
    found: dict[str, None] = {}
    fenced = False
    for line in re.sub(r"<!--.*?(?:-->|\Z)", "", text, flags=re.DOTALL).splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        item = None if fenced else _ITEM.match(line)
        if item is not None and (item["mark"] or " ") == " ":
            found[item["text"].strip()] = None
    return list(found)[:_MOST_LINES]
