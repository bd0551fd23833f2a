"""Commands that go on after their call: what runs in the background of each chat, and the tool that reads it."""

import asyncio
import contextlib
import fcntl
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.commands.processes import RunningCommand, brief, readable
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import TaskArguments
from nanobot.bus.events import Address
from nanobot.errors import UsageError
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Effect
from nanobot.utils.translation import _, speaking, spoken_at

#: (chat, text, what makes it this message and no other): say something in a chat, safely kept when it returns.
Say = Callable[[Address, str, str], Awaitable[None]]
#: Seconds that a command in the background may run, where its call names none.
BACKGROUND_SECONDS = 86_400.0
#: Commands in the background that run at the same time, and of the ended ones that are kept for reading.
MOST_RUNNING, MOST_KEPT = 8, 20
#: Bytes of output that a person is shown.
_SHOWN_BYTES = 2_000


class TaskNote(Struct, frozen=True):
    """What a later start says of a command that ended with its nanobot."""

    address: Address
    line: str
    number: int


class _Note(Struct, frozen=True):
    """A note on the disk; `file` holds its lock."""

    path: Path
    file: IO[bytes]


class BackgroundTask:
    """A command that goes on after its call. `number` is how people and models name it, `key` its chat.

    `read` is how many bytes of its output a model has read, `over` is set when it has ended, `notes` tell then what it
    changed and what was put back.
    """

    def __init__(self, number: int, key: str, line: str, command: RunningCommand) -> None:
        self.number = number
        self.key = key
        self.line = line
        self.command = command
        self.read = 0
        self.notes = ""
        self.over = asyncio.Event()

    async def stop(self) -> None:
        """End it, and wait until what belongs to its end is done."""
        await self.command.end("stopped")
        await self.over.wait()

    def told(self) -> str:
        """One line about it."""
        notes = f" ({self.notes})" if self.notes else ""
        return f"`{self.number}` {brief(self.line)}: {self.command.outcome}, {self.command.size:,} bytes written{notes}"


class BackgroundTasks:
    """The commands in the background of one process; all of them end with it.

    What runs is noted in `folder`, and the note is locked as long as this process lives: the next start says what was
    lost. Without a folder nothing is noted.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._tasks: dict[int, BackgroundTask] = {}
        self._last = 0
        self._watching: set[asyncio.Task[None]] = set()
        self._closing = False

    def of(self, key: str) -> tuple[BackgroundTask, ...]:
        """Those of one chat, oldest first."""
        return tuple(one for one in self._tasks.values() if one.key == key)

    def get(self, key: str, number: int) -> BackgroundTask:
        """One of this chat. Raises `UsageError` that names those there are."""
        found = self._tasks.get(number)
        if found is None or found.key != key:
            known = ", ".join(str(one.number) for one in self.of(key))
            raise UsageError(f"This chat has no task {number}: " + (f"it has {known}." if known else "it has none."))
        return found

    def judge_room(self) -> None:
        """Raises `UsageError` where no more can run."""
        if sum(one.command.running for one in self._tasks.values()) >= MOST_RUNNING:
            raise UsageError(f"{MOST_RUNNING} commands run in the background already. Stop one of them first.")

    async def add(
        self, address: Address, line: str, command: RunningCommand, after: Callable[[], Awaitable[str]]
    ) -> BackgroundTask:
        """Watch a command that was started, until it ends; `after` is run then, and says what to tell of it."""
        self._last += 1
        task = self._tasks[self._last] = BackgroundTask(self._last, address.key, line, command)
        note = await asyncio.to_thread(self._note, TaskNote(address, brief(line), task.number))
        watching = asyncio.create_task(self._watch(task, note, after))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        self._forget_old()
        return task

    def _forget_old(self) -> None:
        ended = [one for one in self._tasks.values() if not one.command.running]
        for one in ended[: max(0, len(ended) - MOST_KEPT)]:
            one.command.close()
            del self._tasks[one.number]

    async def _watch(self, task: BackgroundTask, note: _Note | None, after: Callable[[], Awaitable[str]]) -> None:
        try:
            await task.command.wait()
            if note is not None and not self._closing:
                note.path.unlink(missing_ok=True)
            task.notes = await after()
        finally:
            task.over.set()
            if note is not None:
                note.file.close()

    def _note(self, told: TaskNote) -> _Note | None:
        if self._folder is None:
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{secrets.token_hex(8)}.json"
        file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(msgspec.json.encode(told))
        file.flush()
        return _Note(path, file)

    async def announce_lost(self, channel: str, say: Say) -> None:
        """Tell each chat of a channel, once, of the commands that ended with an earlier process."""
        for path, told in await asyncio.to_thread(self._lost):
            if told.address.channel == channel:
                with speaking(spoken_at(told.address.key)):
                    text = _(
                        "The command in the background `{line}` (task {number}) ended when nanobot ended.",
                        line=told.line,
                        number=told.number,
                    )
                await say(told.address, text, f"task-{path.stem}")
                await asyncio.to_thread(path.unlink, missing_ok=True)

    def _lost(self) -> list[tuple[Path, TaskNote]]:
        found = []
        for path in sorted(self._folder.glob("*.json")) if self._folder else ():
            with contextlib.suppress(OSError, msgspec.DecodeError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # its process lives where this is refused
                found.append((path, msgspec.json.decode(file.read(), type=TaskNote)))
        return found

    def lines(self, key: str) -> list[str]:
        """Those of one chat for a person, a line each."""
        return [f"- {one.told()}" for one in self.of(key)]

    async def shown(self, key: str, number: int, *, stop: bool) -> str:
        """One of them with the end of its output, as Markdown. Raises `UsageError`."""
        task = self.get(key, number)
        if stop:
            await task.stop()
        size = task.command.size
        data = await asyncio.to_thread(task.command.read, max(0, size - _SHOWN_BYTES), _SHOWN_BYTES)
        text = readable(data).strip().replace("```", "'''")
        return f"{task.told()}\n\n```\n{text}\n```" if text else task.told()

    async def aclose(self) -> None:
        """End all of them. Their notes stay for the next start."""
        self._closing = True
        running = [one.command for one in self._tasks.values() if one.command.running]
        await asyncio.gather(*(command.end("stopped") for command in running))
        await asyncio.gather(*self._watching)
        for one in self._tasks.values():
            one.command.close()


class TaskTool(OwnTool[TaskArguments], name="task"):
    """Reads and stops what runs in the background."""

    def __init__(self, tasks: BackgroundTasks, most: int) -> None:
        self._tasks = tasks
        self._most = most

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        """What was allowed when it was started may be read, and stopped."""
        given = self.canonical(arguments)
        return (Effect("read", f"task {given.get('id', '')}".strip()),)

    async def run(self, args: TaskArguments, context: ToolContext) -> ToolResult:
        key = context.address.key
        if not args.id:
            lines = [one.told() for one in self._tasks.of(key)]
            return ToolResult(
                "\n".join(lines) or "Nothing runs in the background of this chat.", _("{count} tasks", count=len(lines))
            )
        try:
            task = self._tasks.get(key, args.id)
        except UsageError as error:
            return error_result("not_found", str(error))
        receipt = ""
        if args.stop and task.command.running:
            await task.stop()
            number = task.number
            receipt = _("stopped {command} (task {number})", command=brief(task.line), number=number)
        elif args.wait:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(args.wait):
                    await task.over.wait()
        text = await asyncio.to_thread(self._part, task, args.offset)
        return ToolResult(text, task.command.outcome, receipt=receipt)

    def _part(self, task: BackgroundTask, offset: int | None) -> str:
        """What it wrote since it was read last, or from `offset` on; of what is long the end, if nothing was named."""
        size = task.command.size
        start = task.read if offset is None else min(offset, size)
        if offset is None and size - start > self._most:
            start = size - self._most
        data = task.command.read(start, self._most)
        task.read = start + len(data)
        head = f"{task.told()}\nbytes {start:,} to {task.read:,}"
        return f"{head}\n\n{readable(data).strip() or '(nothing new)'}"
