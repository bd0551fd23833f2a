"""The list of sources under an answer."""

import re
from collections.abc import Sequence

from nanobot.results import Source
from nanobot.utils.text import squeeze, strip_unsafe

_HEADING = re.compile(r"^\s*(?:#{1,6}\s*)?[*_]{0,3}(?:sources?|references|quellen|citations)[*_:\s]*$", re.IGNORECASE)
_ENTRY = re.compile(r"\[\d+\]|https?://|^\s*(?:[-*+]|\d+[.)])\s")
_MARK = re.compile(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]")
#: With neither marks nor pages read, a long list of search hits would bury the answer.
_MOST_UNCITED = 5


def closes_with_sources(text: str) -> bool:
    """True when the answer already ends in a list of sources of its own."""
    lines = text.rstrip().splitlines()
    for index in range(len(lines) - 1, -1, -1):
        if _HEADING.match(lines[index]):
            entries = [line for line in lines[index + 1 :] if line.strip()]
            return bool(entries) and any(_ENTRY.search(line) for line in entries)
    return False


def worth_listing(text: str, sources: Sequence[Source]) -> tuple[Source, ...]:
    """The sources that belong under `text`: those it cites by `[n]`, else those that were read, else the first few."""
    cited = {int(number) for mark in _MARK.findall(text) for number in mark.split(",")}
    for chosen in (
        tuple(source for source in sources if source.number in cited),
        tuple(source for source in sources if source.read),
    ):
        if chosen:
            return chosen
    return tuple(sources)[:_MOST_UNCITED]


def sources_block(text: str, sources: Sequence[Source]) -> str:
    """The list to put under `text`, starting with the line `Sources`; empty where there is nothing to add."""
    if not sources or not text.strip() or closes_with_sources(text):
        return ""
    lines = ["Sources"]
    for source in worth_listing(text, sources):
        title = squeeze(strip_unsafe(source.title))
        lines.append(" ".join(part for part in (f"[{source.number}]", title, strip_unsafe(source.url)) if part))
    return "\n".join(lines)


def with_sources(text: str, sources: Sequence[Source]) -> str:
    """`text` with its sources under it, each on a line of its own in Markdown, too."""
    block = sources_block(text, sources)
    if not block:
        return text
    heading, *entries = block.split("\n")
    return "\n".join([text.rstrip(), "", f"{heading}", "", *(f"- {entry}" for entry in entries)])
