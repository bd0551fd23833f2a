"""The list of sources under an answer. A surface takes the value and paints it in its own manner."""

from collections.abc import Sequence
from dataclasses import dataclass

from nanobot.results import Source
from nanobot.utils.marks import numbers_used, own_list
from nanobot.utils.text import squeeze, strip_unsafe

UNTITLED = "Untitled"
UNKNOWN_URI = "Unknown URI"
ALSO_READ = "Also read"


@dataclass(frozen=True, slots=True)
class SourceList:
    """What stands under an answer: what it cites, by first use, and what was read for it besides."""

    cited: tuple[Source, ...] = ()
    also_read: tuple[Source, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.cited or self.also_read)


def closes_with_sources(text: str) -> bool:
    """True when the answer already ends in a list of sources of its own."""
    return own_list(text) is not None


def sources_list(text: str, sources: Sequence[Source]) -> SourceList:
    """The sources that belong under `text`; none where it has none, or closes with a list of its own."""
    if not text.strip() or closes_with_sources(text):
        return SourceList()
    known = {source.number: source for source in sources}
    used = [number for number in numbers_used(text) if number in known]
    read = tuple(source for source in sources if source.read and source.number not in used)
    return SourceList(tuple(known[number] for number in used), read)


def source_line(source: Source) -> str:
    """`[n] Title (uri)` on one line, with nothing in it that could drive a terminal."""
    title = squeeze(strip_unsafe(source.title)) or UNTITLED
    return f"[{source.number}] {title} ({squeeze(strip_unsafe(source.url)) or UNKNOWN_URI})"


def sources_block(text: str, sources: Sequence[Source]) -> str:
    """The list to put under `text`, starting with the line `Sources`; empty where there is nothing to add."""
    listed = sources_list(text, sources)
    if not listed:
        return ""
    lines = ["Sources", *map(source_line, listed.cited)]
    if listed.cited and listed.also_read:
        lines.append(ALSO_READ)
    return "\n".join([*lines, *map(source_line, listed.also_read)])


def with_sources(text: str, sources: Sequence[Source]) -> str:
    """`text` with its sources under it, each on a line of its own in Markdown, too."""
    block = sources_block(text, sources)
    if not block:
        return text
    lines = [f"- {line}" if line.startswith("[") else f"\n{line}\n" for line in block.split("\n")]
    return f"{text.rstrip()}\n" + "\n".join(lines)
