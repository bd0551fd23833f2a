"""`remember`: one fact for the memory of the person who speaks, with its day and where it came from.

What is to be known in every conversation is a line of `memory/MEMORY.md`; what is of the day alone is one of
`memory/YYYY-MM-DD.md`. Both are written through the store of files, as any other file is. That a call failed is no
fact about the world, for the next one may succeed; that is told by the results of the turn, not by words.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from functools import partial, reduce

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.files.common import FileTool, hold, to_its_end
from nanobot.agent.tools.offers import RememberArguments
from nanobot.errors import MissingFile, PathError
from nanobot.files.edits import Change, text_of
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.files.store import FileStore
from nanobot.library.lines import MEMORY, PERSON, added, day_note, fact_of, lines_of, origin_of, replaced, same
from nanobot.messages import AssistantMessage, Message, Text, ToolMessage, UserMessage
from nanobot.results import ToolResult, error_result
from nanobot.security.paths import ResolvedPath
from nanobot.security.policy import Effect
from nanobot.security.trust import unwrap
from nanobot.utils.ranking import terms
from nanobot.utils.text import shorten
from nanobot.utils.translation import _
from nanobot.web.urls import extract_urls, host_of

#: Characters of a fact in a receipt.
_RECEIPT = 120
#: The share of the words of a fact that has to stand in what the person said or a call has found.
_BACKED = 0.6
#: The share of the words of two facts that makes them facts about the same.
_ALIKE = 0.5
#: What says nothing about the world: the model called in a wrong way, or a person ended the call.
_NO_FAILURE = frozenset({"", "invalid_input", "cancelled"})


class RememberTool(FileTool[RememberArguments], name="remember"):
    """Adds a line, or changes the one that the fact replaces. `zone` is that of the person.

    What stands there already is not added again, and what a failed call of this turn seems to tell is refused.
    """

    def __init__(self, spaces: FileSpaces, zone: tzinfo) -> None:
        super().__init__(spaces)
        self._zone = zone

    def files_of(self, person: FileUser) -> FileStore:
        return self.spaces.of(person, own=True)  # a memory is one's own, also where the owner has granted no files

    def judged(self, args: RememberArguments, store: FileStore, context: ToolContext) -> tuple[Effect, ...]:
        place = self._place(args, store)
        try:
            shown = store.preview(place, partial(self._made, args, place, context)).diff
        except PathError:
            shown = ""  # the call will only say why it cannot be done
        return (Effect("memory", str(place.path), shown),)

    async def work(self, args: RememberArguments, store: FileStore, context: ToolContext) -> ToolResult:
        fact = fact_of(args.fact)
        if why := unsafe_to_note(fact, context.so_far()):
            return error_result("denied", why, message=_("a failure is no fact"))
        known = await asyncio.to_thread(self._known, fact, store) if not args.replaces else ""
        if known:
            said = _("in memory already: {fact}", fact=shorten(fact, _RECEIPT))
            return ToolResult(f"{known} says that already.", said, receipt=said)

        def change() -> Change:
            place = self._place(args, store)
            hold(place, "memory", context)
            made = partial(self._made, args, place, context)
            return store.change(place, made, session=context.chat, taint=context.taint)

        done = await to_its_end(change)
        said = _("remembered: {fact}", fact=shorten(fact, _RECEIPT))
        text = f"Noted in {done.shown}; it counts from the next message on. /undo takes it back."
        if near := await asyncio.to_thread(self._near, fact, store) if not args.replaces else "":
            text += f" {MEMORY} also says: {near}. Where only one of them is true, call again with replaces."
        return ToolResult(text, said, receipt=said, diff=done.diff, changed=done.counted)

    def _place(self, args: RememberArguments, store: FileStore) -> ResolvedPath:
        name = day_note(datetime.now(self._zone).date()) if args.today else MEMORY
        return store.roots.place(name, write=True, follow=False)

    def _made(self, args: RememberArguments, place: ResolvedPath, context: ToolContext, before: bytes | None) -> bytes:
        """What the file would hold."""
        text = text_of(before, place.shown) if before is not None else ""
        day = datetime.now(self._zone).date()
        fact, origin = fact_of(args.fact), origin_of(context.address.channel, context.taint)
        if args.replaces:
            return replaced(text, args.replaces, fact, day, origin).encode()
        return added(text, fact, day, origin).encode()

    def _known(self, fact: str, store: FileStore) -> str:
        """The file that says just that already; empty where none does."""
        today = day_note(datetime.now(self._zone).date())
        for name in (MEMORY, PERSON, today):
            try:
                place = store.roots.place(name)
                text = text_of(store.read(place), name)
            except (MissingFile, PathError, OSError):
                continue
            if same(lines_of(text), fact):
                return name
        return ""

    def _near(self, fact: str, store: FileStore) -> str:
        """A line of memory about nearly the same, which may contradict it; empty where none does."""
        try:
            lines = lines_of(text_of(store.read(store.roots.place(MEMORY)), MEMORY))
        except (MissingFile, PathError, OSError):
            return ""
        words = set(terms(fact))
        alike = [(len(words & set(one.words)) / len(words | set(one.words)), one.text) for one in lines]
        best = max((one for one in alike if terms(one[1]) != terms(fact)), default=(0.0, ""))
        return shorten(best[1], _RECEIPT) if best[0] >= _ALIKE else ""


def unsafe_to_note(fact: str, said: Sequence[Message]) -> str:
    """Why `fact` may not be noted beside these messages of a turn; empty where it may.

    After a call has failed, a fact has to stand in the words of the person, or in what another call has found, and must
    not name a host that was asked in vain.
    """
    results = [one for one in said if isinstance(one, ToolMessage) and one.name != "remember"]
    failed = [one for one in results if one.error not in _NO_FAILURE]
    found = [one for one in results if not one.error]
    words = set(terms(fact))
    known = {word for text in (*_told(said), *(one.text for one in found)) for word in terms(text)}
    named = any(host in fact.casefold() for host in _hosts(said, failed) - _hosts(said, found))
    if not failed or (len(words & known) >= _BACKED * len(words) and not named):
        return ""
    name = failed[-1].name
    return (
        f"Not noted: {name} failed in this turn. That something failed is no fact: the next try may succeed. "
        "While that stands, only what the person has told, in their own words, or what another call has found is noted."
    )


def _hosts(said: Iterable[Message], results: Iterable[ToolMessage]) -> set[str]:
    """The hosts that the calls named which had these results."""
    calls = {one.call_id for one in results}
    made = (call for one in said if isinstance(one, AssistantMessage) for call in one.calls if call.id in calls)
    return {host for call in made for url in extract_urls(call.arguments).urls if (host := host_of(url))}


def _told(said: Iterable[Message]) -> Iterator[str]:
    """The words of the person in this turn, without the addresses among them."""
    for message in said:
        if isinstance(message, UserMessage) and message.kind != "notice":
            for text in (part.text for part in message.content if isinstance(part, Text)):
                if unwrap(text.strip()) is None:
                    yield reduce(lambda left, url: left.replace(url, " "), extract_urls(text).urls, text)
