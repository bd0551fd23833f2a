"""`lookup`, the embedded default: it searches, reads and quotes. It is not a language model.

Every step is a pure function of the visible conversation: from the question and what the tools have said so far follow
the next tool calls, or the answer. The answer holds words of the pages with their source numbers and a few fixed
sentences of nanobot's own; nothing else is ever written.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from nanobot.errors import ProviderError
from nanobot.messages import (
    AssistantMessage,
    Completed,
    Delta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
)
from nanobot.providers import lookup_say as say
from nanobot.providers.base import Capabilities, ProviderInfo, Request
from nanobot.providers.lookup_answer import Evidence, Quote
from nanobot.providers.lookup_reading import Hit, PageText, Reading, read_conversation
from nanobot.providers.lookup_words import Question, understand
from nanobot.utils.ranking import Index, terms

_HITS = 8
_BATCH = 3
_MOST_PAGES = 6
_MOST_SEARCHES = 2
#: The share of the question's weight that a page must hold for the reading to end.
_ENOUGH = 0.6
_DOCS_SHOWN = 3
_DOC_CHARS = 1_500


@dataclass(frozen=True, slots=True)
class Calls:
    """Tool calls to make next, by name and arguments."""

    calls: tuple[tuple[str, dict[str, object]], ...]


Step = Calls | str


class LookupProvider:
    """The provider that needs no model. Raises `ProviderError("network", …)` when no web tool gets through."""

    def __init__(self) -> None:
        self._info = ProviderInfo(
            "lookup",
            "lookup",
            chosen_because="no language model is configured",
            capabilities=Capabilities(tools=True, vision=False, window=200_000, language_model=False),
        )

    @property
    def info(self) -> ProviderInfo:
        return self._info

    async def aclose(self) -> None:
        return None

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        step = next_step(request)
        if isinstance(step, str):
            for piece in re.findall(r"\S+\s*|\s+", step):
                yield TextDelta(piece)
            yield Completed(AssistantMessage((Text(step),), "stop", "lookup", Usage(requests=1)))
            return
        count = sum(len(message.calls) for message in request.messages if isinstance(message, AssistantMessage))
        calls = tuple(
            ToolCall(f"lookup_{count + slot + 1}", name, json.dumps(arguments, ensure_ascii=False))
            for slot, (name, arguments) in enumerate(step.calls)
        )
        for slot, call in enumerate(calls):
            yield ToolCallDelta(slot, call.id, call.name, call.arguments)
        yield Completed(AssistantMessage(calls, "tools", "lookup", Usage(requests=1)))


def next_step(request: Request) -> Step:
    """The tool calls to make next, or the answer."""
    reading = read_conversation(request.messages, say.CLOSING)
    question = understand(reading.question, reading.before)
    tools = {spec.name for spec in request.tools}
    step = _step(question, reading, tools)
    if isinstance(step, Calls) or reading.introduced or say.CLOSING in step:
        return step
    return f"{step}\n\n{say.CLOSING}"


def _step(question: Question, reading: Reading, tools: set[str]) -> Step:
    if reading.given and question.wish in ("web", "impossible") and not question.urls:
        return _answer(question, reading)
    if question.wish in say.PLAIN:
        return say.PLAIN[question.wish]
    if question.wish == "docs":
        if "nanobot_docs" in tools and not reading.docs_asked:
            return Calls((("nanobot_docs", {"query": question.topic or question.text}),))
        if reading.docs:
            return _from_docs(reading.docs)
    return _from_web(question, reading, tools)


def _from_web(question: Question, reading: Reading, tools: set[str]) -> Step:
    calls = _pasted(question, reading) if question.urls else _next_calls(question, reading, tools)
    calls = tuple(call for call in calls if call[0] in tools)
    if calls:
        return Calls(calls)
    if reading.cut_off:
        raise ProviderError("network", say.NO_NETWORK, provider="lookup")
    if not reading.pages and not reading.hits:
        return say.nothing(question, reading.failures, can_search="web_search" in tools or bool(reading.queries))
    return _answer(question, reading)


def _pasted(question: Question, reading: Reading) -> tuple[tuple[str, dict[str, object]], ...]:
    fresh = [url for url in question.urls[:_BATCH] if url not in reading.asked]
    return tuple(("web_fetch", {"url": url}) for url in fresh)


def _next_calls(question: Question, reading: Reading, tools: set[str]) -> tuple[tuple[str, dict[str, object]], ...]:
    """Search, read the best hits, read on while nothing fits, search once more in other words; then no call."""
    if not reading.queries:
        return (("web_search", {"query": question.query, "limit": _HITS}),)
    if reading.cut_off:
        return ()
    if reading.pages and _found(question, reading.pages):
        return ()
    left = min(_BATCH, _MOST_PAGES - len(reading.asked))
    hits = _best_hits(question, reading, left) if "web_fetch" in tools else []
    if hits:
        return tuple(("web_fetch", {"url": hit.url}) for hit in hits)
    again = say.rephrased(question, reading.queries)
    if again and len(reading.queries) < _MOST_SEARCHES and len(reading.asked) < _MOST_PAGES:
        return (("web_search", {"query": again, "limit": _HITS}),)
    return ()


def _found(question: Question, pages: Sequence[PageText]) -> bool:
    return Evidence(pages).coverage(question.topic) >= _ENOUGH


def _best_hits(question: Question, reading: Reading, most: int) -> list[Hit]:
    """Hits not read yet, best first, from different sites as far as there are some."""
    hits = [hit for hit in reading.hits if hit.url not in reading.asked]
    if most <= 0 or not hits:
        return []
    wanted = terms(question.topic)
    index = Index(f"{hit.title} {hit.title} {hit.snippet}" for hit in reading.hits)
    places = {hit.url: at for at, hit in enumerate(reading.hits)}
    hits.sort(key=lambda hit: -(index.coverage(wanted, places[hit.url]) + 1.5 / (1 + places[hit.url])))
    sites: set[str] = set()
    first: list[Hit] = []
    rest: list[Hit] = []
    for hit in hits:
        (rest if hit.site in sites else first).append(hit)
        sites.add(hit.site)
    return [*first, *rest][:most]


def _from_docs(docs: Sequence[PageText]) -> str:
    """The sections of the documentation that answer, as they stand."""
    parts = []
    for page in docs[:_DOCS_SHOWN]:
        text = page.text if len(page.text) <= _DOC_CHARS else f"{page.text[:_DOC_CHARS].rsplit(chr(10), 1)[0]}\n…"
        if text.count("```") % 2:
            text += "\n```"
        parts.append(f"**{page.title}** [{page.number}]\n\n{text}")
    return "\n\n".join([say.FROM_DOCS, *parts])


def _answer(question: Question, reading: Reading) -> str:
    """Quotes under the titles of their pages; snippets of the search stand in for pages that could not be read."""
    pages = [*reading.given, *reading.pages]
    if pages:
        evidence = Evidence(pages)
        quotes = evidence.quotes(question) if question.topic else []
        if not quotes and (question.urls or reading.given):
            quotes = evidence.lead()
        if quotes:
            return _quoted(say.framing(question.language, read=True), quotes)
    snippets = [PageText(hit.number, hit.title, hit.url, hit.snippet) for hit in reading.hits if hit.snippet]
    quotes = Evidence(snippets).quotes(question)
    if quotes:
        return _quoted(say.framing(question.language, read=False), quotes)
    return say.nothing(question, reading.failures, can_search=True)


def _quoted(framing: str, quotes: Sequence[Quote]) -> str:
    """Quotes by page: the page of the best quote first, in the order of their rank within it."""
    groups: dict[tuple[int, str], list[Quote]] = {}
    for quote in quotes:
        groups.setdefault((quote.page.number, quote.page.url), []).append(quote)
    parts = [framing]
    for (number, _), group in groups.items():
        page = group[0].page
        mark = f" [{number}]" if number else ""
        dated = f" ({page.published[:10]})" if page.published else ""
        if page.title:
            parts.append(f"**{page.title}**{dated}")
        parts.extend(f"> {quote.text}{mark}" for quote in group)
    return "\n\n".join(parts)
