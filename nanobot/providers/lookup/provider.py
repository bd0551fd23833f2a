"""`lookup`, the embedded default: it searches, reads and quotes. It is not a language model.

Every step is a pure function of the visible conversation: from the question and what the tools have said so far follow
the next tool calls, or the answer. The answer holds words of the pages with their source numbers and a few fixed
sentences of nanobot's own; nothing else is ever written.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import date, datetime
from operator import itemgetter
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

from nanobot import jsonval
from nanobot.errors import ProviderError
from nanobot.messages import AssistantMessage, Completed, Delta, Text, TextDelta, ToolCall, ToolCallDelta, Usage
from nanobot.providers.base import Capabilities, ProviderInfo, Request
from nanobot.providers.lookup.question import (
    LookupQuestion,
    PageText,
    TurnReading,
    pattern,
    read_turn,
    understand,
    worked_out,
)
from nanobot.providers.lookup.quotes import Evidence, Quote
from nanobot.utils.text import squeeze
from nanobot.utils.translation import N_, Later, _, known, speaking, weekday_of

_HITS, _BATCH, _DOCS_LINES = 8, 3, 9
#: The share of the question's weight that the best quote and its place must hold for the reading to end, and for its
#: words to be an answer at all.
_ENOUGH, _FLOOR = 0.75, 0.42
#: Tool calls to make next, by name and arguments.
Calls = tuple[tuple[str, dict[str, object]], ...]
Step = Calls | str


class LookupProvider:
    """The provider that needs no model. Raises `ProviderError("network", …)` when no web tool gets through.

    What it says about itself it says once, and the empty file `introduced` keeps that it was said.
    """

    def __init__(self, introduced: Path | None = None) -> None:
        self._introduced, self._told = introduced, False
        able = Capabilities(window=200_000, language_model=False)
        why = Later(N_("no language model is configured"))
        self.info = ProviderInfo("lookup", "lookup", chosen_because=why, capabilities=able)

    async def aclose(self) -> None:
        return None

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        step = next_step(request)
        if isinstance(step, str):
            step += self._introduction(request)
            for piece in re.findall(r"\S+\s*|\s+", step):
                yield TextDelta(piece)
            yield Completed(AssistantMessage((Text(step),), "stop", "lookup", Usage(requests=1)))
            return
        count = 1 + sum(len(message.calls) for message in request.messages if isinstance(message, AssistantMessage))
        told = ((name, jsonval.compact(arguments)) for name, arguments in step)
        calls = tuple(ToolCall(f"lookup_{number}", name, given) for number, (name, given) in enumerate(told, count))
        for slot, call in enumerate(calls):
            yield ToolCallDelta(slot, call.id, call.name, call.arguments)
        yield Completed(AssistantMessage(calls, "tools", "lookup", Usage(requests=1)))

    def _introduction(self, request: Request) -> str:
        """What it says about itself, in the language of the question; empty where it was said."""
        question = understand(read_turn(request.messages).question)
        before = self._told or (self._introduced is not None and self._introduced.exists())
        self._told = True
        if self._introduced is not None:
            with suppress(OSError):  # where the home cannot be written, each start says it again
                self._introduced.touch(mode=0o600)
        return "" if before or question.wish == "about" else f"\n\n{question.says['about']}"


def next_step(request: Request) -> Step:
    """The tool calls to make next, or the answer."""
    reading = read_turn(request.messages)
    question = understand(reading.question, reading.before)
    tools = {spec.name for spec in request.tools}
    if reading.given and question.wish in ("web", "impossible") and not question.urls:
        return _answer(question, reading)
    if question.wish == "clock":
        with speaking(known(question.language)):
            return _clock(question.place, request.tail)
    if plain := worked_out(question.query) if question.wish == "sum" else question.says.get(question.wish):
        return plain.replace("{text}", squeeze(reading.question.replace("`", "'")))
    if question.wish == "docs" and "nanobot_docs" in tools - reading.calls:
        about = (re.sub(r"\bnanobot\b", "", topic, flags=re.IGNORECASE) for topic, _ in question.topics)
        return (("nanobot_docs", {"query": " ".join(about).strip() or "nanobot"}),)  # every section is about nanobot
    if question.wish == "docs" and reading.docs:
        with speaking(known(question.language)):
            return _from_docs(reading.docs[0])
    if "library" in tools - reading.calls and question.wish != "weather" and not question.urls:
        return (("library", {"query": question.query}),)
    if own := _from_library(question, reading, _ENOUGH):
        return own
    if calls := tuple(call for call in _next_calls(question, reading, tools) if call[0] in tools):
        return calls
    searched = {"web_search", "web_fetch"} & reading.calls or "web_search" in tools or reading.pages
    if (reading.cut_off or not searched) and (own := _from_library(question, reading, _FLOOR)):
        return own
    if reading.cut_off:
        raise ProviderError("network", question.says["no_network"], provider="lookup")
    if not searched:
        return question.says["no_search"]
    return _answer(question, reading)


def _clock(place: str, tail: str) -> str:
    """The time that stands in the request's tail, or that of a place which a time zone is named after."""
    name = f"/{place.title().replace(' ', '_')}"
    zone = next((zone for zone in sorted(available_timezones()) if place and zone.endswith(name)), "")
    if place and not zone:
        return _("I know no time zone of {place}. Ask for a large city of it.", place=place)
    now = datetime.now(ZoneInfo(zone)) if zone else datetime.now().astimezone()
    day, time = now.date(), f"{now:%H:%M} ({zone or now.tzname()})"
    if (told := re.search(r"Now: \w+, (\d{4}-\d\d-\d\d) (.*)", tail)) and not place:
        day, time = date.fromisoformat(told[1]), told[2]
    return _("{weekday}, {date} {time}", weekday=weekday_of(day), date=f"{day:%Y-%m-%d}", time=time)


def _next_calls(question: LookupQuestion, reading: TurnReading, tools: set[str]) -> Calls:
    """Read what was pasted; or search, read the best hit, and read others together while nothing answers."""
    if question.urls:
        urls = [url for url in question.urls[:_BATCH] if url not in reading.asked]
    elif "web_search" not in reading.calls:
        return (("web_search", {"query": question.query, "limit": _HITS}),)
    elif reading.cut_off or "web_fetch" not in tools:
        return ()
    else:
        quotes = _quotes(question, reading, reading.pages) if reading.pages else []
        if quotes and all(quote.fits and quote.cover >= _ENOUGH for quote in quotes[: len(question.topics)]):
            return ()
        urls = _fresh(reading)[: {0: 1, 1: _BATCH}.get(len(reading.asked), 0)]
    return tuple(("web_fetch", {"url": url}) for url in urls)


def _fresh(reading: TurnReading) -> list[str]:
    """Hits not read yet in the order of the engine, those of a site that was read or comes before last."""
    order, known = list[tuple[bool, str]](), {hit.site for hit in reading.hits.values() if hit.url in reading.asked}
    for hit in (hit for hit in reading.hits.values() if hit.url not in reading.asked):
        order.append((hit.site in known, hit.url))
        known.add(hit.site)
    return [url for _, url in sorted(order, key=itemgetter(0))]


def _from_docs(page: PageText) -> str:
    """The section of the documentation that answers, not more of it than fits a look."""
    lines = page.text.splitlines()
    shown = lines[:_DOCS_LINES]
    if len(lines) > len(shown):  # cut before a block of code, a blank line or a line that leads to more
        while shown and (sum("```" in line for line in shown) % 2 or shown[-1][-1:] in ("", ":")):
            shown.pop()
        shown += ["", _("The rest: {url}", url=page.url)]
    return "\n".join([f"**{page.title}** [{page.number}]", "", *shown])


def _from_library(question: LookupQuestion, reading: TurnReading, least: float) -> str:
    """Quotes of the person's own documents, where these hold at least this share of each question; else empty."""
    quotes = _quotes(question, reading, reading.library) if reading.library and not question.urls else []
    best = quotes[: len(question.topics)]
    fitting = len(best) == len(question.topics) and all(quote.fits and quote.cover >= least for quote in best)
    return _quoted(question.says["library"], quotes) if best and fitting else ""


def _quotes(question: LookupQuestion, reading: TurnReading, pages: Sequence[PageText]) -> list[Quote]:
    """The quotes that answer, best first; of two questions in a sentence, the best for each."""
    read = {page.number for page in pages}
    evidence = Evidence(pages, [f"{hit.title} {hit.text}" for hit in reading.hits.values() if hit.number not in read])
    most = 4 if len(question.topics) == 1 else 1
    return [quote for topic, kind in question.topics for quote in evidence.quotes(topic, kind, most)]


def _answer(question: LookupQuestion, reading: TurnReading) -> str:
    """Quotes under the titles of their pages; snippets of the search stand in for pages that could not be read."""
    says, pages = question.says, [*reading.given, *reading.pages]
    own = bool(question.urls or reading.given)
    quotes = _quotes(question, reading, pages or [hit for hit in reading.hits.values() if hit.text])
    quotes = quotes or (Evidence(pages).lead() if own else [])
    if question.wish == "weather":
        quotes = [quote for quote in quotes if pattern("degrees").search(quote.text)]
    if quotes and (own or quotes[0].cover >= _FLOOR):
        return _quoted(says["read" if pages else "snippets"], quotes)
    if question.wish == "weather":
        return says["no_forecast"]
    why = ", ".join(dict.fromkeys(reading.failures))
    if question.urls and why:
        return says["unreadable"].replace("{why}", why)
    if quotes:
        return _quoted(f"{says['nothing']}{says['but']}{says['nearest']}", quotes[:1])
    nothing = f"{says['nothing']}{says['end']}"
    return nothing + says["failed"].replace("{why}", why) if why else nothing


def _quoted(framing: str, quotes: Sequence[Quote]) -> str:
    """Quotes by page: the page of the best quote first, in the order of their rank within it."""
    parts, pages = [framing], dict[PageText, list[Quote]]()
    for quote in quotes:
        pages.setdefault(quote.page, []).append(quote)
    for page, found in pages.items():
        mark = f" [{page.number}]" if page.number else ""
        if page.title:
            parts.append(f"**{page.title}**{f' ({page.published[:10]})' if page.published else ''}")
        for quote in found:
            apart = quote.text.endswith(("```", "|"))
            shown = quote.text.replace("\n", "\n> ")
            parts.append(f"> {shown}\n>\n>{mark}" if apart else f"> {shown}{mark}")
    return "\n\n".join(parts)
