"""The tools that find text at hand: recall (conversations and memory), library (the owner's documents)."""

import asyncio
import re
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from pathlib import PurePath
from typing import ClassVar

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import FindArguments
from nanobot.errors import StoreError
from nanobot.library.index import LibraryIndex
from nanobot.library.memory import MemoryFiles
from nanobot.library.parts import FoundPart, Scope
from nanobot.library.talk import Conversations
from nanobot.results import Source, ToolResult, error_result
from nanobot.security.policy import Effect
from nanobot.session.store import SessionStore
from nanobot.utils.text import one_line, shorten
from nanobot.utils.translation import _, _n

#: Passages that are shown, and characters of each.
_MOST, _QUOTE, _SECTION = 8, 600, 2_600
#: Seconds that a call waits for conversations that are not in the index yet.
_CATCH_UP_SECONDS = 5.0
#: Documents whose share of the question is less than this part of the best one's are left out.
_NEAR = 0.6
_UNREAD = "The documents have not been read yet: `nanobot library read` does it, and so does a gateway that runs."
_PAGE = re.compile(r"Page (\d+)")
_STILL = "[The index of conversations is still being made; ask again in a minute for what is missing.]"


class RecallTool(OwnTool[FindArguments], name="recall"):
    """`recall`: who said what and when in earlier conversations of this person or group, and their memory files.

    Each hit is a line `2026-11-20 14:03, owner:` or `memory/2026-11-20.md, Family:`, and the quotation below it.
    """

    own_words: ClassVar[bool] = True

    def __init__(
        self, index: LibraryIndex, store: SessionStore, talk: Conversations, memory: MemoryFiles | None, zone: tzinfo
    ) -> None:
        self._index = index
        self._store = store
        self._talk = talk
        self._memory = memory
        self._zone = zone

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        return (Effect("recall", context.person if context.direct else context.address.key),)

    async def run(self, args: FindArguments, context: ToolContext) -> ToolResult:
        try:
            whole = await self._talk.catch_up(_CATCH_UP_SECONDS)
            records = (await self._store.begun(context.turn_id))[1]
        except StoreError as error:
            return error_result("failed", str(error))
        scopes = scopes_of(context)
        if context.direct and self._memory is not None:
            await asyncio.to_thread(self._memory.refresh, "" if context.role == "owner" else context.person)
        found = await asyncio.to_thread(self._index.search, args.query, scopes, limit=3 * _MOST)
        since = records[0].at.isoformat(timespec="seconds") if records else ""
        # What was said in this very turn is left out, and a branch repeats its talk.
        own = [one for one in found if since and one.document.name == context.session and one.part.at >= since]
        told = [*{(one.part.place, one.part.text): one for one in found if one not in own}.values()][:_MOST]
        notes = [] if whole else [_STILL]
        if not told:
            text = "\n".join([f"Nothing was said or noted about: {args.query}", *notes])
            return ToolResult(text, _("nothing found in earlier conversations"))
        blocks = [f"Said and noted about: {args.query}", *(self._shown(one) for one in told), *notes]
        outside = any(one.part.outside for one in told)
        count = _("{count} found in conversations and memory", count=len(told))
        return ToolResult("\n\n".join(blocks), count, untrusted=outside)

    def _shown(self, found: FoundPart) -> str:
        part, document = found.part, found.document
        if document.kind == "memory":
            where = ", ".join(filter(None, (document.name, part.place)))
        else:
            where = f"{datetime.fromisoformat(part.at).astimezone(self._zone):%Y-%m-%d %H:%M}, {part.place}"
        return f"{where}:\n{shorten(part.text, _QUOTE)}"


class LibraryTool(OwnTool[FindArguments], name="library"):
    """`library`: sections of the owner's documents, each a source with its number: `[n] title`, a line `url:` that
    names the file and the page or heading, a blank line, and the text.

    What a PDF, an office file, a page or a mail holds counts as content from outside, as in `read_file`.
    """

    own_words: ClassVar[bool] = True

    def __init__(self, index: LibraryIndex) -> None:
        self._index = index

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        if context.role != "owner" or not context.direct:
            return (Effect("forbidden", "library", reason="the library is the owner's, in a chat of theirs alone"),)
        return (Effect("recall", "library"),)

    async def run(self, args: FindArguments, context: ToolContext) -> ToolResult:
        found = await asyncio.to_thread(self._index.search, args.query, [("document", "")], limit=_MOST)
        found = tuple(one for one in found if one.cover >= found[0].cover * _NEAR)
        if not found:
            unread = not await asyncio.to_thread(self._index.count, "document")
            text = _UNREAD if unread else f"No document of the library speaks of: {args.query}"
            return ToolResult(text, _("nothing found in the library"))
        blocks, sources = [f"Documents for: {args.query}"], list[Source]()
        for one in found:
            url, title = place_of(one)
            text = shorten(one.part.text, _SECTION)
            source = context.sources.add(url, title, read=True, text=one.part.text)
            sources.append(source)
            blocks.append(f"[{source.number}] {title}\nurl: {url}\n\n{text}")
        names = dict.fromkeys(PurePath(one.document.name).name for one in found)
        count = _n(
            "{number} passage of {files}",
            "{number} passages of {files}",
            len(found),
            files=shorten(", ".join(names), 120),
        )
        outside = any(one.part.outside for one in found)
        return ToolResult("\n\n".join(blocks), count, sources=tuple(sources), untrusted=outside)


def scopes_of(context: ToolContext) -> tuple[Scope, ...]:
    """What of conversations and memory may be found in a turn: in a group what was said in that group, else what is
    the person's own; a guest has none."""
    if context.role == "guest":
        return ()
    if not context.direct:
        return (("talk", context.address.key),)
    owners: Iterable[str] = ("", context.person) if context.role == "owner" else (context.person,)
    return tuple((kind, owner) for owner in owners for kind in ("talk", "memory"))


def place_of(found: FoundPart) -> tuple[str, str]:
    """The address and the title of a passage: the file, and its page or heading."""
    path = PurePath(found.document.name)
    last = one_line(found.part.place).rpartition(" › ")[2]
    title, name = one_line(found.document.title), one_line(path.name)
    named = f"{title} ({name})" if title and title != name else name
    page = _PAGE.fullmatch(last)
    anchor = f"#page={page[1]}" if page else f"#{last.replace(' ', '-')}" if last else ""
    return f"file:{one_line(str(path))}{anchor}", ", ".join(filter(None, (named, "" if last == title else last)))
