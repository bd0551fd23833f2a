"""Starts nanobot and kills it at a place: lives that are forked, and what each has printed and passed.

    nursery = Nursery()
    life = await nursery.start(home, "gateway", plan=Plan("sql", 12))
    await life.ended()
    await nursery.clear()

A life runs the same `main` as the command, in a process of its own, with the environment of its home and nothing else.
"""

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.harness import Program, judge_warnings
from tests.fakes import forks
from tests.fakes.crash.points import Counts, Plan, read

BOUND = 120.0


@dataclass(slots=True)
class Life:
    """One run of the program. `text` is what it has printed, `counts` the places that it has passed."""

    pid: int
    folder: Path
    _end: "asyncio.Task[int]"

    @property
    def text(self) -> str:
        return (self.folder / "printed").read_text(encoding="utf-8", errors="replace")

    @property
    def counts(self) -> Counts:
        return read(self.folder / "points")

    @property
    def over(self) -> bool:
        return self._end.done()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing where the process has ended."""
        if self.pid and not self.over:  # without a process of its own, 0 would be everybody's
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def stop(self) -> int:
        """Ask it to end, as a supervisor does, and wait."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    async def ended(self, seconds: float = BOUND) -> int:
        """Wait for its exit code; minus the signal that ended it."""
        code = await asyncio.wait_for(asyncio.shield(self._end), seconds)
        judge_warnings(self.text)
        return code


@dataclass(slots=True)
class Nursery:
    """Every life that was started, so that none outlives the test."""

    _lives: list[Life] = field(default_factory=list)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def clear(self) -> None:
        """Kill every life that still runs."""
        while self._lives:
            await self._lives.pop().kill()

    async def start(
        self,
        home: Program,
        *arguments: str,
        plan: Plan | None = None,
        env: Mapping[str, str] | None = None,
        stopped: bool = False,
    ) -> Life:
        """Start the program. Its files (`printed`, `points`) are in a folder beside the home.

        `stopped`: it begins when it gets SIGCONT, and whoever runs as the same user may trace it.
        """
        folder = home.home.parent / f"life-{next(self._numbers)}"
        folder.mkdir()
        printed = os.open(folder / "printed", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            told = forks.fork(
                arguments,
                {**home.env, **(env or {})},
                (nothing, printed, printed),
                plan=plan,
                points=folder / "points",
                stopped=stopped,
            )
        finally:
            os.close(printed)
            os.close(nothing)
        pid, end = await asyncio.wait_for(forks.followed(told), BOUND)
        life = Life(pid, folder, end)
        self._lives.append(life)
        return life
