"""The list of sources under an answer, and what its marks rest on. A surface takes the value and paints it."""

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from nanobot.bus.events import TurnFinished
from nanobot.results import Source
from nanobot.utils.marks import cited, numbers_used, own_list
from nanobot.utils.text import one_line
from nanobot.utils.translation import N_, _

UNTITLED, UNKNOWN_URI = N_("Untitled"), N_("Unknown URI")
SOURCES, ALSO_READ = N_("Sources"), N_("Also read")
NOT_OURS = N_("The list of sources above is the model's own; nanobot did not check all of it.")


class SourceList(Struct, frozen=True):
    """What stands under an answer: what it cites, by first use, what was read for it besides, and what is to be said.

    `doubts` are one line for each thing that it claims and that was not done, one for each mark that its source does
    not carry, and one for a list that the model made up.
    """

    cited: tuple[Source, ...] = ()
    also_read: tuple[Source, ...] = ()
    doubts: tuple[str, ...] = ()

    def lines(self, entry: Callable[[Source], str], doubt: Callable[[str], str], heading: str) -> list[str]:
        """What is in doubt, then the sources under their headings, a line each in the words of a surface."""
        lines = [doubt(one) for one in self.doubts]
        for title, sources in ((SOURCES, self.cited), (ALSO_READ if self.cited else SOURCES, self.also_read)):
            if sources:
                lines += [heading.format(_(title)), *map(entry, sources)]
        return lines


def sources_list(finished: TurnFinished) -> SourceList:
    """What belongs under an answer. One that closes with a right list of its own gets no second one."""
    text, sources = finished.text, finished.sources
    if not text.strip():
        return SourceList()
    missing = (one_line(one.missing) for one in finished.citations if one.missing)
    doubts = tuple(dict.fromkeys((*finished.unbacked, *missing)))
    if (place := own_list(text)) is not None:
        if _is_right(text[place:], sources):
            return SourceList(doubts=doubts)
        doubts = (*doubts, _(NOT_OURS))
    used = set(numbers_used(text)) | {one.number for one in sources if f"]({one.url})" in text}
    listed = cited(text, sources)
    named = tuple(source for source in listed if source.number in used)
    return SourceList(named, tuple(source for source in listed if source.number not in used), doubts)


def source_line(source: Source) -> str:
    """`[n] Title (uri)` on one line, with nothing in it that could drive a terminal."""
    return f"[{source.number}] {one_line(source.title) or _(UNTITLED)} ({one_line(source.url) or _(UNKNOWN_URI)})"


def sources_block(finished: TurnFinished) -> str:
    """The lines to put under an answer: what is in doubt, then the list from the line `Sources` on; else empty."""
    return "\n".join(sources_list(finished).lines(source_line, "? {}".format, "{}"))


def with_sources(finished: TurnFinished) -> str:
    """The answer with its sources under it, each on a line of its own in Markdown, too."""
    lines = sources_list(finished).lines(lambda one: f"- {source_line(one)}", "- ? {}".format, "\n{}\n")
    return "\n\n".join([finished.text.rstrip(), "\n".join(lines).lstrip("\n")]) if lines else finished.text


def _is_right(listed: str, sources: Sequence[Source]) -> bool:
    """True where every entry of an answer's own list names a source of the turn by its number and its address."""
    known = {source.number: source.url.rstrip("/") for source in sources}
    for line in listed.splitlines()[1:]:
        numbers = [int(number) for number in re.findall(r"^\W*\[?(\d{1,3})[\].)]", line)]
        links = [link.rstrip("/.,;") for link in re.findall(r"https?://[^\s<>()\]]+", line)]
        if not set(numbers) <= known.keys() or not set(links) <= set(known.values()):
            return False
        if len(numbers) == len(links) == 1 and "[" in line.split("http")[0] and known[numbers[0]] != links[0]:
            return False
    return True
