"""The tools that change files: write_file, edit_file, delete_file."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import ClassVar

from msgspec.structs import replace

from nanobot.agent.tools.base import Proposal, ToolContext
from nanobot.agent.tools.files.common import FileTool, PathArgs, foreign_of, hold, person_of, result_of, to_its_end
from nanobot.agent.tools.offers import (
    DeleteFileArguments,
    EditFileArguments,
    WriteFileArguments,
)
from nanobot.errors import EditMiss, MissingFile, PathError
from nanobot.files.edits import Change, Edit, apply_edits, text_of
from nanobot.files.store import FileStore, Make
from nanobot.results import ToolResult
from nanobot.security.paths import ResolvedPath, is_control
from nanobot.security.policy import Effect, EffectKind

_EDIT_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("old_string", "old_str", "old_text", "search", "find"), "old"),
    **dict.fromkeys(("new_string", "new_str", "new_text", "replace", "replacement"), "new"),
    **dict.fromkeys(("replace_all", "expected_all"), "all"),
}


def _kind(place: ResolvedPath) -> EffectKind:
    return "control" if place.control else "write"


def _effect(store: FileStore, place: ResolvedPath, make: Make) -> Effect:
    """What a change would do, with its diff; without one where the call will only say why it cannot be made."""
    shown = ""
    with contextlib.suppress(PathError):
        shown = store.preview(place, make).diff
    return Effect(_kind(place), str(place.path), shown)


class _ContentTool(FileTool[PathArgs]):
    """What changes what a file holds."""

    async def _changed(
        self, store: FileStore, path: str, make: Callable[[ResolvedPath, bytes | None], bytes], context: ToolContext
    ) -> ToolResult:
        """Make a change that was judged, and tell it."""

        def work() -> Change:
            place = store.roots.place(path, write=True)
            hold(place, _kind(place), context)
            return store.change(place, partial(make, place), session=context.chat, taint=context.taint)

        change = await to_its_end(work)
        if not (change.created or change.diff or change.added < 0):
            return ToolResult(f"{change.shown} holds exactly that already.", "nothing to change")
        said = change.receipt
        return ToolResult(f"{said[0].upper()}{said[1:]}.", said, receipt=said, diff=change.diff, changed=change.counted)


class WriteFileTool(_ContentTool[WriteFileArguments], name="write_file"):
    """`write_file`: a whole file, with the folders that it needs. The answer is the receipt."""

    def proposal(self, arguments: Mapping[str, object], context: ToolContext) -> Proposal:  # noqa: ARG002
        given = self.canonical(arguments)
        content, path = given.get("content"), given.get("path")
        known = isinstance(content, str) and isinstance(path, str)
        return Proposal(str(content), _name(str(path))) if known else Proposal()

    def rewritten(self, arguments: Mapping[str, object], proposal: Proposal, text: str) -> dict[str, object]:  # noqa: ARG002
        return {**self.canonical(arguments), "content": text}

    def judged(self, args: WriteFileArguments, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        place = store.roots.place(args.path, write=True)
        return (_effect(store, place, lambda _: args.content.encode(errors="replace")),)

    async def work(self, args: WriteFileArguments, store: FileStore, context: ToolContext) -> ToolResult:
        make = args.content.encode(errors="replace")
        return await self._changed(store, args.path, lambda *_: make, context)


class EditFileTool(_ContentTool[EditFileArguments], name="edit_file"):
    """`edit_file`: exact pieces of a text are replaced, all or none. Also takes one edit as `old` and `new` alone."""

    argument_aliases: ClassVar[Mapping[str, str]] = _EDIT_NAMES

    def canonical(self, arguments: Mapping[str, object]) -> dict[str, object]:
        given = super().canonical(arguments)
        alone = {name: given.pop(name) for name in ("old", "new", "all") if name in given}
        edits = given.get("edits")
        if isinstance(edits, str):  # JSON in a text, as some models send it
            try:
                edits = json.loads(edits)
            except ValueError:
                edits = given["edits"]
        if alone and not edits:
            edits = [alone]
        if isinstance(edits, Mapping):
            edits = [edits]
        if isinstance(edits, list):
            edits = [_named(one) if isinstance(one, Mapping) else one for one in edits]
        return given if edits is None else {**given, "edits": edits}

    def proposal(self, arguments: Mapping[str, object], context: ToolContext) -> Proposal:
        """What the file would hold; the byte order mark stays as it is."""
        try:
            args, store = self.read(self.canonical(arguments)), self.spaces.of(person_of(context))
            place = store.roots.place(args.path, write=True)
            before = text_of(store.read(place), place.shown)
            after = apply_edits(before, _edits(args))
        except (OSError, PathError, ValueError):
            return Proposal()
        return Proposal(after.removeprefix("\ufeff"), _name(args.path), before.removeprefix("\ufeff"))

    def rewritten(self, arguments: Mapping[str, object], proposal: Proposal, text: str) -> dict[str, object]:
        """An edit of the whole, which is made only while the file still holds what the owner has seen."""
        path = self.canonical(arguments).get("path")
        return {"path": path, "edits": [{"old": proposal.before, "new": text}]}

    def judged(self, args: EditFileArguments, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        place = store.roots.place(args.path, write=True)
        keys = (Effect("keys", str(place.path)),) if place.keys else ()  # a miss shows what stands there
        return (_effect(store, place, lambda before: _edited(place, before, args)), *keys)

    async def work(self, args: EditFileArguments, store: FileStore, context: ToolContext) -> ToolResult:
        try:
            return await self._changed(store, args.path, partial(_edited, args=args), context)
        except EditMiss as miss:  # it shows what stands in the file
            foreign = await asyncio.to_thread(lambda: foreign_of(store, store.roots.place(args.path)))
            said = result_of(f"Error: {miss}", "the text to replace was not found", foreign)
            return replace(said, error="invalid_input")


def _named(edit: Mapping[str, object]) -> dict[str, object]:
    return {_EDIT_NAMES.get(name, name): value for name, value in edit.items() if value is not None}


def _edited(place: ResolvedPath, before: bytes | None, args: EditFileArguments) -> bytes:
    if before is None:
        raise MissingFile(f"{place.shown} does not exist. write_file makes a new file.")
    return apply_edits(text_of(before, place.shown), _edits(args)).encode(errors="replace")


def _edits(args: EditFileArguments) -> tuple[Edit, ...]:
    return tuple(Edit(one.old, one.new, one.all) for one in args.edits)


def _name(path: str) -> str:
    return PurePath(path).name or path


class DeleteFileTool(FileTool[DeleteFileArguments], name="delete_file"):
    """`delete_file`: a file, a link or a folder goes to the trash, from where `/undo` brings it back.

    A folder with something in it stays while content from outside stands in the conversation.
    """

    def judged(self, args: DeleteFileArguments, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:
        place = store.roots.place(args.path, write=True, follow=False)
        if store.roots.holds_more(place):
            raise PathError(f"{place.shown} is not deleted: it holds a folder that was allowed on its own, or keys.")
        held = store.held(place)
        if held and context.taint:
            raise PathError(
                f"{place.shown} is a folder that is not empty. It is not deleted while content from "
                "outside stands in the conversation; single files can be, and the whole of it after /new."
            )
        control = place.control or any(is_control(parts) for parts in held)
        return (Effect("control" if control else "delete", str(place.path)),)

    async def work(self, args: DeleteFileArguments, store: FileStore, context: ToolContext) -> ToolResult:
        kind: EffectKind = "control" if any(one.kind == "control" for one in context.allowed) else "delete"

        def work() -> str:
            place = store.roots.place(args.path, write=True, follow=False)
            hold(place, kind, context)
            return store.delete(place, session=context.chat)

        said = await to_its_end(work)
        return ToolResult(f"{said[0].upper()}{said[1:]}. /undo brings it back.", said, receipt=said)
