"""Counts the places at which a process can die, and kills it at one of them.

`arm` runs in the process that is to die, before the program begins. There are three kinds of place: a `step` is a
resumption of the event loop (`asyncio.Handle._run`), `sql` a statement before it runs, `commit` the moment after a
transaction was committed. They are counted from the start, each kind on its own, into a small file that outlives the
process.
"""

import asyncio
import functools
import mmap
import os
import signal
import sqlite3
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, get_args

Kind = Literal["step", "sql", "commit"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SIZE = 8 * (len(KINDS) + 1)


@dataclass(frozen=True, slots=True)
class Plan:
    """Die at the `at`th place of `kind`; 0 for never. `word` kills before every conversation's line that holds it."""

    kind: Kind = "step"
    at: int = 0
    word: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """How many places of each kind the process has passed, and whether it died at its own."""

    places: dict[Kind, int]
    died: bool


def read(file: Path) -> Counts:
    if not file.exists():
        return Counts(dict.fromkeys(KINDS, 0), died=False)
    *numbers, died = struct.unpack(f"{len(KINDS) + 1}q", file.read_bytes())
    return Counts(dict(zip(KINDS, numbers, strict=True)), bool(died))


def arm(plan: Plan, file: Path) -> None:
    """Count from here on, and die by the plan."""
    file.write_bytes(b"\0" * _SIZE)
    with file.open("r+b") as opened:
        memory = mmap.mmap(opened.fileno(), _SIZE)
    numbers = dict.fromkeys(KINDS, 0)

    def die() -> None:
        struct.pack_into("q", memory, 8 * len(KINDS), 1)
        os.kill(os.getpid(), signal.SIGKILL)

    def place(kind: Kind) -> None:
        numbers[kind] += 1
        struct.pack_into("q", memory, 8 * KINDS.index(kind), numbers[kind])
        if kind == plan.kind and numbers[kind] == plan.at:
            die()

    def before(statement: str) -> None:
        place("sql")
        if plan.word and plan.word in statement and statement.lstrip().startswith("INSERT INTO record"):
            die()

    _watch_steps(lambda: place("step"))
    _watch_sql(before, lambda: place("commit"))


def _watch_steps(step: Callable[[], None]) -> None:
    run = asyncio.Handle._run

    def counted(handle: asyncio.Handle) -> None:
        step()
        run(handle)

    asyncio.Handle._run = counted  # type: ignore[method-assign, assignment]


def _watch_sql(before: Callable[[str], None], committed: Callable[[], None]) -> None:
    class Watched(sqlite3.Connection):
        def __init__(self, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[arg-type]
            self.set_trace_callback(before)

        def __exit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> Literal[False]:
            changed = self.in_transaction
            super().__exit__(kind, error, trace)
            if changed and error is None:
                committed()
            return False

        def commit(self) -> None:
            changed = self.in_transaction
            super().commit()
            if changed:
                committed()

    sqlite3.connect = functools.partial(sqlite3.connect, factory=Watched)  # type: ignore[assignment]
