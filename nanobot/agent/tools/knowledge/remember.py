"""`remember`: one fact for the memory of the person who speaks, with its day and where it came from.

What is to be known in every conversation is a line of `memory/MEMORY.md`; what is of the day alone is one of
`memory/YYYY-MM-DD.md`. Both are written through the store of files, as any other file is. That a call failed is no
fact about the world, for the next one may succeed; that is told by the results of the turn, not by words.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo
from functools import partial
from urllib.parse import urlsplit

from msgspec import Struct

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.files.common import FileTool, hold, to_its_end
from nanobot.agent.tools.offers import RememberArguments
from nanobot.errors import MissingFile, PathError
from nanobot.files.edits import Change, text_of
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.files.store import FileStore
from nanobot.library.lines import MEMORY, PERSON, added, day_note, fact_of, lines_of, origin_of, replaced, same
from nanobot.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, UserMessage
from nanobot.results import ToolResult, error_result
from nanobot.security.paths import ResolvedPath
from nanobot.security.policy import Effect, texts_of
from nanobot.security.trust import unwrap
from nanobot.utils.ranking import terms
from nanobot.utils.text import shorten
from nanobot.utils.translation import _
from nanobot.web.urls import extract_urls

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
        return self.spaces.own(person)  # a memory is one's own, also where the owner has granted no files

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


class _Done(Struct, frozen=True):
    """A call with its result; `targets` are the hosts that it was for, else its arguments."""

    call: ToolCall
    result: ToolMessage
    targets: frozenset[str]


def unsafe_to_note(fact: str, said: Sequence[Message]) -> str:
    """Why `fact` may not be noted beside these messages of a turn; empty where it may.

    After a call has failed that no later one made good, a fact has to stand in the words of the person, or in what
    another call has found, and must not name what the failed call was for.
    """
    done = list(_done(said))
    failed = [
        one
        for place, one in enumerate(done)
        if one.result.error not in _NO_FAILURE and not _made_good(one, done[place + 1 :])
    ]
    if not failed:
        return ""
    name = failed[-1].call.name
    named = {target for one in failed for target in one.targets if "." in target and target in fact.casefold()}
    words = set(terms(fact))
    known = {word for text in _known(said, done) for word in terms(text)}
    if not named and len(words & known) >= _BACKED * len(words):
        return ""
    about = f" for {', '.join(sorted(named))}" if named else ""
    return (
        f"Not noted: {name} failed{about} in this turn. That something failed is no fact: the next try may succeed. "
        "While that stands, only what the person has told, in their own words, or what another call has found is noted."
    )


def _done(said: Iterable[Message]) -> Iterator[_Done]:
    calls: dict[str, ToolCall] = {}
    for message in said:
        if isinstance(message, AssistantMessage):
            calls.update((call.id, call) for call in message.calls)
        elif isinstance(message, ToolMessage) and message.call_id in calls:
            call = calls[message.call_id]
            if call.name != "remember":
                yield _Done(call, message, _targets(call))


def _targets(call: ToolCall) -> frozenset[str]:
    try:
        given: object = json.loads(call.arguments or "{}")
    except ValueError:
        given = call.arguments
    texts = texts_of({"arguments": given}, names=False)
    hosts = {urlsplit(url).hostname or "" for text in texts for url in extract_urls(text).urls}
    return frozenset(hosts - {""}) or frozenset({call.arguments})


def _made_good(failed: _Done, later: Iterable[_Done]) -> bool:
    return any(
        one.call.name == failed.call.name and not one.result.error and failed.targets <= one.targets for one in later
    )


def _known(said: Iterable[Message], done: Iterable[_Done]) -> Iterator[str]:
    """The words of the person in this turn, and what calls have found."""
    for message in said:
        if isinstance(message, UserMessage) and message.kind != "notice":
            texts = (part.text for part in message.content if isinstance(part, Text))
            yield from (text for text in texts if unwrap(text.strip()) is None)
    yield from (one.result.text for one in done if not one.result.error)
