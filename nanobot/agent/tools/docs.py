"""The tool that searches nanobot's own documentation."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import DocsArguments
from nanobot.errors import SkipTool
from nanobot.library.index import LibraryIndex
from nanobot.library.parts import Document, DocumentPart, FoundPart
from nanobot.library.sections import sections
from nanobot.results import Source, ToolResult
from nanobot.utils.host import shipped
from nanobot.utils.ranking import terms
from nanobot.utils.translation import _, _n

_MOST, _CANDIDATES = 4, 24
#: Pages for those who change nanobot, and a list of pages, weigh less than those for people; the changelog least.
_BESIDE = ("architecture", "benchmarks", "contributing", "session-format", "writing-", "zh/README")
_LAST = ("changelog", "checklist")


class NanobotDocsTool(OwnTool[DocsArguments], name="nanobot_docs"):
    """`nanobot_docs`: the sections of the shipped documentation that answer a question. Needs no network.

    The text is `Documentation for: query` and then, per section, `[n] heading`, a line `url: docs/page.md#anchor`, a
    blank line and the section as Markdown. The words are nanobot's own, so the result is trusted. Raises `SkipTool`
    where no documentation is shipped.
    """

    own_words: ClassVar[bool] = True

    def __init__(self, folder: Path | None = None, index: LibraryIndex | None = None) -> None:
        self._index = index or LibraryIndex(None)
        self._folder = folder or shipped("docs")
        if not any(self._folder.glob("*.md")):
            raise SkipTool(f"no documentation is installed under {self._folder}")

    async def run(self, args: DocsArguments, context: ToolContext) -> ToolResult:
        found = await asyncio.to_thread(search_docs, args.query, self._folder, self._index)
        if not found:
            text = f"The documentation has nothing on: {args.query}"
            return ToolResult(text, _("nothing found in the documentation"))
        blocks: list[str] = [f"Documentation for: {args.query}"]
        sources: list[Source] = []
        for one in found:
            url, title, text = _url(one), _heading(one), one.part.text
            source = context.sources.add(url, title, read=True, text=text)
            sources.append(source)
            blocks.append(f"[{source.number}] {title}\nurl: {url}\n\n{text}")
        return ToolResult(
            "\n\n".join(blocks),
            _n("{number} section of the documentation", "{number} sections of the documentation", len(found)),
            sources=tuple(sources),
        )


def search_docs(query: str, folder: Path, index: LibraryIndex) -> tuple[FoundPart, ...]:
    """The sections that answer `query` best, best first; `index` has those of the folder, once they were asked for."""
    _take_in(folder, index)
    wanted = terms(query)
    found = index.search(query, [("docs", str(folder))], limit=_CANDIDATES, whole=True)
    scored = [(_weight(one, query) * one.score * (1 + (terms(_heading(one)) == wanted)), one) for one in found]
    best = sorted((item for item in scored if item[0] > 0), key=lambda item: -item[0])[:_MOST]
    return tuple(_begun(one, wanted, folder) for score, one in best if score >= best[0][0] * 0.45)


def _begun(found: FoundPart, wanted: Sequence[str], folder: Path) -> FoundPart:
    """Where the headings themselves are what is asked, the beginning of a section, and no piece from its middle."""
    if not {*wanted} <= {*terms(_heading(found))}:
        return found
    page = (folder / f"{found.document.name}.md").read_text(encoding="utf-8")
    text = next((one.text for one in sections(page) if one.heading == found.part.place), found.part.text)
    return replace(found, part=replace(found.part, text=text))


def _take_in(folder: Path, index: LibraryIndex) -> None:
    """Bring the index up to date with the pages."""
    known = {one.name: one for one in index.documents("docs", str(folder))}
    for path in sorted(folder.rglob("*.md")):
        status, name = path.stat(), path.relative_to(folder).with_suffix("").as_posix()
        state = f"{status.st_mtime_ns} {status.st_size}"
        before = known.pop(name, None)
        if before is None or before.state != state:
            parts = [DocumentPart(one.text, one.heading) for one in sections(path.read_text(encoding="utf-8"))]
            index.put(Document("docs", str(folder), name, state=state), parts)
    index.drop(known.values())


def _weight(found: FoundPart, query: str) -> float:
    page = found.document.name
    if page.startswith("zh/") and max(query, default="") < "\u2e80":  # what is asked is not in Chinese
        return 0.0
    return 0.3 if page in _LAST else 0.6 if page.startswith(_BESIDE) else 1.0


def _heading(found: FoundPart) -> str:
    return found.part.place or found.document.name


def _url(found: FoundPart) -> str:
    """The place of a section, such as `docs/telegram.md#start`."""
    last = _heading(found).rpartition(" › ")[2]
    words = "".join(char for char in last.casefold() if char.isalnum() or char in " -_").strip()
    return f"docs/{found.document.name}.md#{words.replace(' ', '-')}"
