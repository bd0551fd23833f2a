"""What the tools for files share: whose files they work with, how a path is judged, and what a result tells."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ClassVar, TypeVar

from msgspec import Struct

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.config.paths import PEOPLE
from nanobot.errors import MissingFile, PathError, StoreError
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.files.store import FileStore
from nanobot.results import Source, ToolResult, error_result
from nanobot.security.paths import ResolvedPath
from nanobot.security.policy import Effect, EffectKind
from nanobot.utils.text import nearest

Done = TypeVar("Done")
PathArgs = TypeVar("PathArgs", bound=Struct)


class FileTool(OwnTool[PathArgs]):
    """A tool for the files of whoever speaks. Every byte of a result is nanobot's own or that of the person, unless a
    file came from outside; such a result is marked.

    Subclasses say in `judged` what a call would do, and do it in `work`.
    """

    own_words: ClassVar[bool] = True

    def __init__(self, spaces: FileSpaces) -> None:
        self.spaces = spaces

    def judged(self, args: PathArgs, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:
        """What a call would do. Raises `PathError` where that is never allowed."""
        raise NotImplementedError

    async def work(self, args: PathArgs, store: FileStore, context: ToolContext) -> ToolResult:
        """Do it. Raises `PathError` or `StoreError`."""
        raise NotImplementedError

    def files_of(self, person: FileUser) -> FileStore:
        """The files that it works with. Raises `PathError` for those who have none."""
        return self.spaces.of(person)

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        given = self.canonical(arguments)
        try:
            return self.judged(self.read(given), self.files_of(person_of(context)), context)
        except PathError as error:
            return (Effect("forbidden", str(given.get("path", "")), reason=str(error)),)
        except OSError as error:
            return (
                Effect("forbidden", str(given.get("path", "")), reason=f"the disk says: {error.strerror or error}"),
            )
        except ValueError:
            return (Effect("read"),)  # the call only says what is wrong with its arguments

    async def run(self, args: PathArgs, context: ToolContext) -> ToolResult:
        try:
            store = await asyncio.to_thread(self.files_of, person_of(context))
            return await self.work(args, store, context)
        except MissingFile as error:
            return error_result("not_found", str(error))
        except (PathError, StoreError) as error:
            return error_result("failed", str(error))
        except OSError as error:
            return error_result("failed", f"The disk says: {error.strerror or error}.")


def person_of(context: ToolContext) -> FileUser:
    """Whose files a call works with."""
    return FileUser(context.role, context.person, context.direct, "files" in context.granted)


def hold(place: ResolvedPath, kind: EffectKind, context: ToolContext) -> None:
    """Raise `PathError` where this was not judged: a path that has meanwhile become another one."""
    if not any(one.kind == kind and one.target == str(place.path) for one in context.allowed):
        raise PathError(f"{place.shown} is not the file that this call was allowed for. Make the call again.")


def reading(place: ResolvedPath) -> EffectKind:
    """The kind of effect that it is to read this file."""
    return "keys" if place.keys else "read"


def is_foreign(shown: str, path: str, marked: frozenset[str]) -> bool:
    """Whether a file of the owner holds what others wrote: content from outside, or what belongs to another person."""
    above = (str(one) for one in Path(path).parents) if marked else ()
    return path in marked or any(one in marked for one in above) or shown.startswith(f"{PEOPLE}/")


def foreign_of(store: FileStore, place: ResolvedPath) -> tuple[str, ...]:
    """The name of a file where what it holds came from outside."""
    marked = frozenset((str(place.path),)) if store.origins.of(place) else frozenset[str]()
    return (place.shown,) if is_foreign(place.shown, str(place.path), marked) else ()


def result_of(text: str, message: str, foreign: Iterable[str] = ()) -> ToolResult:
    """A result; `foreign` are the files from outside that it shows something of, or whose names it shows."""
    sources = tuple(Source(0, f"file:{name}", read=True) for name in dict.fromkeys(foreign))
    return ToolResult(text, message, sources=sources, untrusted=bool(sources))


def missing(store: FileStore, place: ResolvedPath) -> MissingFile:
    """That a file is not there, with the nearest name that is; names from outside are not told."""
    try:
        with store.roots.parent(place) as (folder, _):
            names = os.listdir(folder)  # noqa: PTH208 - a descriptor
    except (PathError, OSError):
        names = []
    marked = store.origins.below(place.path.parent)
    near = nearest(place.path.name, [name for name in names if str(place.path.parent / name) not in marked])
    hint = f"Did you mean {near!r}?" if near else "glob finds files by their names."
    return MissingFile(f"{place.shown} does not exist. {hint}")


async def to_its_end(work: Callable[[], Done]) -> Done:
    """Run what changes files in a thread. One that is cancelled has ended before anybody goes on."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise
