"""Finds out what hangs: what a task waits for, and an event loop that does not turn.

A task that hangs is described by the chain of its awaits, down to the call that waits and into the tasks that it waits
for. A loop that is blocked cannot describe itself, so a thread beside it looks for its heartbeat.
"""

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, TracebackType
from typing import Self

from loguru import logger

#: Seconds without a heartbeat after which a loop is taken for blocked, and between two heartbeats.
STALLED_AFTER, BEAT = 5.0, 1.0
#: Lines of a chain at most, so that a log stays readable.
_MOST_LINES = 60
#: Frames of a blocked thread that are shown: the innermost ones tell.
_MOST_FRAMES = 25


def await_chain(task: "asyncio.Future[object] | asyncio.Task[object]") -> tuple[str, ...]:
    """What a task waits for, outermost first: one line per await, and deeper by two blanks per task in between.

    A line is `function (file:line)`; the tasks of a group, a gather or a wait follow below the line that waits.
    """
    lines: list[str] = []
    for line in _of_future(task, "", set()):
        lines.append(line)
        if len(lines) == _MOST_LINES:
            lines.append("…")
            break
    return tuple(lines)


def log_chain(what: str, task: "asyncio.Future[object] | asyncio.Task[object]") -> None:
    """Write into the log what a task hangs in; `what` names it."""
    chain = (
        "\n".join(f"  {line}" for line in await_chain(task)) or "  (nothing: it has ended)"
    )  # English: the log reads it
    logger.warning("{} hangs; it waits here, outermost first:\n{}", what, chain)


def _of_future(future: object, indent: str, seen: set[int]) -> Iterator[str]:
    if id(future) in seen or not isinstance(future, asyncio.Future) or future.done():
        return
    seen.add(id(future))
    if isinstance(future, asyncio.Task):
        yield from _of_coroutine(future.get_coro(), indent, seen)
    for child in _members(getattr(future, "_children", ())):
        yield from _of_future(child, indent + "  ", seen)


def _of_coroutine(awaited: object, indent: str, seen: set[int]) -> Iterator[str]:
    """Follow what is awaited until a future, or something that tells nothing of itself."""
    while awaited is not None:
        if isinstance(awaited, asyncio.Future):
            yield from _of_future(awaited, indent + "  ", seen)
            return
        frame, following = _step(awaited)
        if frame is None:
            awaited = _hidden(awaited)
            continue
        place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        yield f"{indent}{frame.f_code.co_qualname.rpartition('<locals>.')[2]} ({place})"
        if following is None or isinstance(_hidden(following), asyncio.Future):
            # What it waits for besides is known to the frame alone: asyncio keeps no list of who waits for whom.
            for child in _children(frame):
                yield from _of_future(child, indent + "  ", seen)
        awaited = following


def _step(awaited: object) -> tuple[FrameType | None, object]:
    """The frame of a coroutine or generator, and what it awaits."""
    if isinstance(awaited, CoroutineType):
        return awaited.cr_frame, awaited.cr_await
    if isinstance(awaited, AsyncGeneratorType):
        return awaited.ag_frame, awaited.ag_await
    if isinstance(awaited, GeneratorType):
        return awaited.gi_frame, awaited.gi_yieldfrom
    return None, None


def _hidden(awaited: object) -> object:
    """What stands behind an awaitable of C that shows nothing, such as a step of an async generator."""
    known = (CoroutineType, AsyncGeneratorType, GeneratorType, asyncio.Future)
    if isinstance(awaited, known):
        return awaited
    return next((one for one in gc.get_referents(awaited) if isinstance(one, known)), None)


def _children(frame: FrameType) -> Iterator[object]:
    for value in list(frame.f_locals.values()):
        yield from _members(value)
        if isinstance(value, asyncio.TaskGroup):
            yield from _members(getattr(value, "_tasks", ()))


def _members(value: object) -> Iterator[object]:
    several: Iterable[object] = value if isinstance(value, set | frozenset | list | tuple) else (value,)
    return (one for one in list(several) if isinstance(one, asyncio.Task))


def _stack(ident: int) -> str:
    # English: the log reads it
    frame = sys._current_frames().get(ident)  # noqa: SLF001 - the documented way to the stack of another thread
    return "".join(traceback.format_stack(frame, limit=_MOST_FRAMES)).rstrip() if frame else "  (it has ended)"


class StallWatch:
    """Watches the loop in which it is entered, from a thread of its own, until it is left.

    Where the loop has not turned for `after` seconds, its thread's stack goes into the log, once, and `told` is called
    on the watching thread with the seconds so far, again and again, and with 0.0 when it turns again. A process that
    was stopped as a whole, or slept with its machine, is no stall.
    """

    def __init__(self, told: Callable[[float], None], *, after: float = STALLED_AFTER, beat: float = BEAT) -> None:
        self._told = told
        self._after = after
        self._every = beat
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._seen = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watched = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join(timeout=self._after)

    def _beat(self) -> None:
        self._seen = time.monotonic()
        if self._loop is not None:
            self._timer = self._loop.call_later(self._every, self._beat)

    def _watch(self) -> None:
        pause = self._after / 2
        before, stalled = time.monotonic(), 0.0
        while not self._ended.wait(pause):
            now = time.monotonic()
            slept, before = now - before, now
            if slept > pause + self._every:
                continue  # this thread did not run either
            still = now - self._seen
            if still >= self._after:
                if not stalled:
                    stack = _stack(self._watched)
                    logger.error("the event loop has been blocked for {:.0f} s, innermost last:\n{}", still, stack)
                self._told(still)
                stalled = still
            elif stalled:
                logger.warning("the event loop turns again after {:.0f} s", stalled)
                self._told(0.0)
                stalled = 0.0
