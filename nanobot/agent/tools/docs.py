"""The tool that searches nanobot's own documentation."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from nanobot.agent.tools.base import Tool, ToolContext
from nanobot.agent.tools.offers import DOCS_DESCRIPTION, DocsArguments
from nanobot.errors import SkipTool
from nanobot.results import Source, ToolResult
from nanobot.security.policy import Access
from nanobot.utils.host import shipped
from nanobot.utils.passages import Passage, split_passages
from nanobot.utils.ranking import Index, terms

_SECTION_CHARS = 1_800
_MOST = 4
#: Pages for those who change nanobot weigh less than pages for those who use it; the changelog least.
_WEIGHTS = {"architecture": 0.6, "contributing": 0.6, "changelog": 0.3, "session-format": 0.6, "benchmarks": 0.6}
_SINGLE_WEIGHT = 0.8


class DocsSection(Struct, frozen=True):
    """What stands under one heading of a documentation page. `url` is its place, such as `docs/telegram.md#start`."""

    url: str
    title: str
    text: str


class NanobotDocsTool(Tool[DocsArguments]):
    """`nanobot_docs`: the sections of the shipped documentation that answer a question. Needs no network.

    The text is `Documentation for: query` and then, per section, `[n] heading`, a line `url: docs/page.md#anchor`, a
    blank line and the section as Markdown. The words are nanobot's own, so the result is trusted. Raises `SkipTool`
    where no documentation is shipped.
    """

    name: ClassVar[str] = "nanobot_docs"
    description = DOCS_DESCRIPTION
    argument_aliases: ClassVar[Mapping[str, str]] = {"question": "query", "q": "query"}
    Arguments = DocsArguments
    access: Access = "public"
    own_words: ClassVar[bool] = True

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or shipped("docs")
        if not any(self._folder.glob("*.md")):
            raise SkipTool(f"no documentation is installed under {self._folder}")

    @property
    def idempotent(self) -> bool:
        return True

    async def run(self, args: DocsArguments, context: ToolContext) -> ToolResult:
        found = search_docs(args.query, self._folder)
        if not found:
            text = f"The documentation has nothing on: {args.query}"
            return ToolResult(text, "nothing found in the documentation")
        blocks: list[str] = [f"Documentation for: {args.query}"]
        sources: list[Source] = []
        for section in found:
            source = context.sources.add(section.url, section.title, read=True, text=section.text)
            sources.append(source)
            blocks.append(f"[{source.number}] {section.title}\nurl: {section.url}\n\n{section.text}")
        count = len(found)
        return ToolResult(
            "\n\n".join(blocks),
            f"{count} section{'s' * (count != 1)} of the documentation",
            sources=tuple(sources),
        )


def search_docs(query: str, folder: Path) -> tuple[DocsSection, ...]:
    """The sections that answer `query` best, best first."""
    sections, index = _library(str(folder))
    wanted = terms(query)
    named = [terms(section.title) == wanted for section in sections]  # the whole title is what was asked
    scored = [
        (_weight(section) * index.score(wanted, at) * (1 + named[at]), section) for at, section in enumerate(sections)
    ]
    best = sorted((item for item in scored if item[0] > 0), key=lambda item: -item[0])[:_MOST]
    return tuple(section for score, section in best if score >= best[0][0] * 0.45)


def _weight(section: DocsSection) -> float:
    page = section.url.removeprefix("docs/").partition(".md")[0]
    return _WEIGHTS.get(page, _SINGLE_WEIGHT if page.startswith("writing-") else 1.0)


@lru_cache(maxsize=4)
def _library(folder: str) -> tuple[tuple[DocsSection, ...], Index]:
    """Every section of every page, and the index over them. Titles and page names count three times."""
    sections = [
        section
        for path in sorted(Path(folder).glob("*.md"))
        for section in _sections(path.name, path.read_text(encoding="utf-8"))
    ]
    texts = (f"{3 * (section.title + ' ')}{section.url} {section.text}" for section in sections)
    return tuple(sections), Index(texts)


def _sections(name: str, markdown: str) -> list[DocsSection]:
    """A page in sections of one heading each; long ones are parted between passages."""
    sections: list[DocsSection] = []
    passages: list[Passage] = []
    for passage in split_passages(markdown):
        size = sum(len(item.text) for item in passages) + len(passage.text)
        if passages and (passage.heading != passages[-1].heading or size > _SECTION_CHARS):
            sections.append(_section(name, passages))
            passages = []
        passages.append(passage)
    if passages:
        sections.append(_section(name, passages))
    return sections


def _section(name: str, passages: list[Passage]) -> DocsSection:
    heading = passages[0].heading or name.removesuffix(".md")
    last = heading.rpartition(" › ")[2]
    words = "".join(char for char in last.casefold() if char.isalnum() or char in " -_").strip()
    return DocsSection(f"docs/{name}#{words.replace(' ', '-')}", heading, "".join(_blocks(passages)).strip("\n"))


def _blocks(passages: list[Passage]) -> Iterator[str]:
    """Passages as they stood: the rows of a table and the items of a list below each other, others apart."""
    group = -1
    for item in passages:
        beside = item.kind in ("row", "item") and item.group == group
        yield ("\n" if beside else "\n\n") + item.markdown
        if item.kind == "row" and not item.lead:
            yield "\n|" + "---|" * (item.markdown.count("|") - 1)
        group = item.group if item.kind in ("row", "item") else -1
