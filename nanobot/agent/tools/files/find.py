"""The tools that find files: list_dir, glob, grep."""

import asyncio
import os
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TypeVar

import msgspec

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.files.common import FileTool, hold, is_foreign, missing, reading, result_of
from nanobot.agent.tools.offers import GlobArguments, GrepArguments, ListDirArguments
from nanobot.errors import PathError
from nanobot.files.search import MAX_SEARCHED, Found, SearchJob
from nanobot.files.store import FileStore
from nanobot.results import ToolResult
from nanobot.security.paths import ResolvedPath
from nanobot.security.policy import Effect
from nanobot.utils.processes import bare_environment, own_module, run_program

#: Entries, files and lines that are shown, and seconds for a search.
_ENTRIES, _FILES, _MATCHES, _SECONDS = 500, 500, 200, 10.0

FindArgs = TypeVar("FindArgs", ListDirArguments, GlobArguments, GrepArguments)


class _FindTool(FileTool[FindArgs]):
    """What looks below a folder, and changes nothing."""

    def judged(self, args: FindArgs, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        return (Effect("read", str(store.roots.place(args.path).path)),)


class ListDirTool(_FindTool[ListDirArguments], name="list_dir"):
    """`list_dir`: a line for each entry, folders with a / at their end, files with size and day of the last change."""

    async def work(self, args: ListDirArguments, store: FileStore, context: ToolContext) -> ToolResult:
        return await asyncio.to_thread(self._listed, args, store, context)

    def _listed(self, args: ListDirArguments, store: FileStore, context: ToolContext) -> ToolResult:
        place = store.roots.place(args.path)
        hold(place, "read", context)
        with store.roots.folder(place) as folder, os.scandir(folder) as entries:
            found = sorted(entries, key=lambda one: os.fsencode(one.name))
            names = [(one.name, line) for one in found[:_ENTRIES] if (line := _entry(store, place, one))]
        marked = store.origins.below(place.path)
        shown = {str(place.path / name): store.roots.shown(place.path / name) for name, _ in names}
        foreign = [name for path, name in shown.items() if is_foreign(name, path, marked)]
        more = [f"[{len(found) - _ENTRIES} more entries; glob finds files by name.]"] if len(found) > _ENTRIES else []
        head = f"{place.shown}: {len(found)} entr{'y' if len(found) == 1 else 'ies'}"
        return result_of("\n".join([head, *(line for _, line in names), *more]), head, foreign)


def _entry(store: FileStore, place: ResolvedPath, entry: "os.DirEntry[str]") -> str:
    """The line of an entry; empty for what is never shown."""
    name = "".join(sign if sign.isprintable() else "?" for sign in entry.name)
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return name
    if store.roots.bars(status) or (place.path / entry.name) in store.roots.forbidden:
        return ""
    if stat.S_ISLNK(status.st_mode):
        return f"{name} (link)"
    if stat.S_ISDIR(status.st_mode):
        return f"{name}/"
    if not stat.S_ISREG(status.st_mode):
        return f"{name} (no ordinary file)"
    return f"{name}  {status.st_size:,} bytes  {datetime.fromtimestamp(status.st_mtime, UTC):%Y-%m-%d}"


class GlobTool(_FindTool[GlobArguments], name="glob"):
    """`glob`: the paths of files and folders whose name matches, in their order."""

    async def work(self, args: GlobArguments, store: FileStore, context: ToolContext) -> ToolResult:
        found, foreign = await _searched(store, args.path, context, names=args.pattern, most=_FILES)
        count = f"{len(found.hits)} name{'s' * (len(found.hits) != 1)} like {args.pattern}"
        return result_of("\n".join([count, *(hit.shown for hit in found.hits), *_ends(found)]), count, foreign)


class GrepTool(_FindTool[GrepArguments], name="grep"):
    """`grep`: the files with lines that match, each with its lines as `number: text`, by path."""

    def judged(self, args: GrepArguments, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        place = store.roots.place(args.path)
        return (Effect(reading(place), str(place.path)),)

    async def work(self, args: GrepArguments, store: FileStore, context: ToolContext) -> ToolResult:
        found, foreign = await _searched(
            store,
            args.path,
            context,
            pattern=args.pattern,
            names=args.glob,
            ignore_case=args.ignore_case,
            hide_keys=bool(context.taint) and not any(one.kind == "keys" for one in context.allowed),
            most=_MATCHES,
        )
        lines = []
        for name, hits in groupby(found.hits, key=lambda hit: hit.shown):
            lines += [name, *(f"  {hit.line}: {hit.text}" for hit in hits)]
        count = f"{len(found.hits)} line{'s' * (len(found.hits) != 1)} with {args.pattern}"
        return result_of("\n".join([count, *lines, *_ends(found)]), count, foreign)


async def _searched(
    store: FileStore, path: str, context: ToolContext, **wanted: str | int | bool
) -> tuple[Found, tuple[str, ...]]:
    """What a search finds, and which files of it came from outside. It runs as a program of its own, to be ended.

    Raises `PathError` where it cannot be made.
    """
    place = await asyncio.to_thread(_begun, store, path, context)
    roots = store.roots
    job = SearchJob(
        bytes(place.path),
        tuple((bytes(one.path), one.writable) for one in roots.roots),
        tuple(map(bytes, roots.forbidden)),
        bytes(roots.home),
        seconds=_SECONDS,
    )
    asked = msgspec.json.encode(msgspec.structs.replace(job, **wanted)).decode()
    try:
        done = await run_program(own_module("nanobot.files.search", asked), _SECONDS + 5, bare_environment())
        found = msgspec.json.decode(done.out, type=Found)
    except (TimeoutError, msgspec.DecodeError):
        raise PathError("The search took too long. Search a smaller folder, or for a simpler pattern.") from None
    except OSError as error:
        raise PathError(f"The search could not be started: {error.strerror or error}.") from None
    if found.problem:
        raise PathError(found.problem)
    marked = await asyncio.to_thread(store.origins.below, place.root.path)
    return found, tuple(hit.shown for hit in found.hits if is_foreign(hit.shown, os.fsdecode(hit.path), marked))


def _begun(store: FileStore, path: str, context: ToolContext) -> ResolvedPath:
    place = store.roots.place(path)
    hold(place, "keys" if any(one.kind == "keys" for one in context.allowed) else "read", context)
    if not os.path.lexists(place.path):
        raise missing(store, place)
    return place


def _ends(found: Found) -> Sequence[str]:
    """What is said where a search did not come to its end, or left files out."""
    ends = {
        "most": ["[There are more. Search a smaller folder, or for something narrower.]"],
        "time": ["[The time was over before all files were looked at. Search a smaller folder.]"],
    }.get(found.cut, [])
    if found.keys:
        names = ", ".join(found.keys)
        why = "they usually hold keys, and content from outside stands in the conversation"
        ends = [*ends, f"[Not searched, for {why}: {names}. read_file asks the owner for one.]"]
    if found.large:
        what = "1 file" if found.large == 1 else f"{found.large} files"
        ends = [*ends, f"[{what} of more than {MAX_SEARCHED // 1_000_000} MB not searched.]"]
    return ends
