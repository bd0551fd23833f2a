"""Several pages for one call of web_fetch: which ones, how many at once, and who gets how much room."""

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.named import named
from nanobot.agent.tools.page_answers import NATIVE_SYSTEM, Answer, ReadPage, answer_from, native_task, uncited
from nanobot.errors import FetchError, ProviderError
from nanobot.results import Source, ToolResult, error_result
from nanobot.utils.text import squeeze
from nanobot.web.fetch.page import Page
from nanobot.web.urls import extract_urls

MOST_URLS = 20
#: Characters for all pages of one call together.
MANY_CHARS = 100_000
#: What the head, the notes and the status line of one page take at most, roughly.
_HEAD_CHARS = 700
_AT_ONCE = 5
_PER_HOST = 2
_NO_PROMPT = "The 'prompt' parameter cannot be empty and must contain URL(s) and instructions."
_NO_URL = "The 'prompt' must contain at least one valid URL."
_PASSAGES = "{} Their texts follow, of long ones the places that fit your prompt."
_BY_SERVICE = "read: by the model's service, not here"
_NO_MODEL = "No model has read these pages for you."


class Asked(Struct, frozen=True):
    """What a prompt names: its URLs, the words around them, why it cannot be used, and what was meant for a URL."""

    urls: tuple[str, ...]
    question: str
    problem: str = ""
    malformed: tuple[str, ...] = ()


class Gathered(Struct, frozen=True):
    """What could be read and what could not, each in the order that was asked."""

    pages: tuple[tuple[str, Page], ...]
    failed: tuple[tuple[str, FetchError], ...]


def asked_urls(prompt: str) -> Asked:
    """The pages and the question of a prompt."""
    if not prompt.strip():
        return Asked((), "", _NO_PROMPT)
    found = extract_urls(prompt)
    question = prompt
    for url in sorted(found.urls, key=len, reverse=True):
        question = question.replace(url, " ")
    wrong = f" Not valid: {', '.join(found.malformed)}." if found.malformed else ""
    return Asked(found.urls, squeeze(question), "" if found.urls else _NO_URL + wrong, found.malformed)


def targets_as_meant(given: Mapping[str, object]) -> dict[str, object]:
    """The arguments of a call whose targets came in another shape: a list in `url`, a text in `urls`, empty ones."""
    meant = dict(given)
    urls = meant.get("urls")
    if isinstance(urls, str):
        meant["urls"] = urls = _split(urls)
    if isinstance(urls, list):
        meant["urls"] = [url for url in urls if url != ""]
    url = meant.get("url")
    if isinstance(url, list) and url and not urls:
        del meant["url"]
        meant |= {"url": url[0]} if len(url) == 1 else {"urls": url}
    empty = [name for name in ("url", "urls", "prompt") if meant.get(name) in ("", [])]
    if any(meant.get(name) for name in ("url", "urls", "prompt")):
        meant = {name: value for name, value in meant.items() if name not in empty}
    return meant


def _split(urls: str) -> list[object]:
    """The pages in a text: a list in JSON, or addresses with commas or blanks between them."""
    try:
        listed: object = json.loads(urls)
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, list):
        return listed
    return [part for part in re.split(r",?\s+|,(?=https?://|www\.|#)", urls.strip()) if part]


def room_for(pages: int, context: ToolContext) -> int:
    """Characters of text for `pages` pages, so that the runner need not cut the last of them away."""
    if context.result_chars is None:
        return MANY_CHARS
    return max(100 * pages, min(MANY_CHARS, context.result_chars - _HEAD_CHARS * (pages + 1)))


async def gather(urls: Sequence[str], read: Callable[[str], Awaitable[Page]]) -> Gathered:
    """Read all, five at once and two of one host; what fails leaves the others alone. `read` has its own deadline."""
    every = asyncio.Semaphore(_AT_ONCE)
    hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_PER_HOST))
    got: dict[str, Page] = {}
    failed: dict[str, FetchError] = {}

    async def one(url: str) -> None:
        async with hosts[_host(url)], every:
            try:
                got[url] = await read(url)
            except FetchError as error:
                failed[url] = error

    async with asyncio.TaskGroup() as group:
        for url in urls:
            group.create_task(one(url))
    return Gathered(
        tuple((url, got[url]) for url in urls if url in got), tuple((url, failed[url]) for url in urls if url in failed)
    )


def shares(sizes: Sequence[int], budget: int) -> list[int]:
    """The room of each page: short ones whole, and what they leave in equal parts for the long ones."""
    room = [0] * len(sizes)
    left = budget
    waiting = sorted(range(len(sizes)), key=lambda at: sizes[at])
    while waiting:
        at = waiting.pop(0)
        room[at] = min(sizes[at], left // (len(waiting) + 1))
        left -= room[at]
    return room


class Many(Struct, frozen=True):
    """What came of each URL: a result, a failure, or nothing because there were too many or it is none."""

    results: Sequence[ToolResult]
    failed: Sequence[tuple[str, FetchError]]
    unread: Sequence[str]
    malformed: Sequence[str]
    as_json: bool

    @property
    def lines(self) -> list[str]:
        """A line for every URL that was not read."""
        broken = [f"{url}: not read: {why(error, url)}" for url, error in self.failed]
        beyond = [f"{url}: not read: only the first {MOST_URLS} URLs of a call are." for url in self.unread]
        return [*broken, *beyond, *(f"{word}: not read: this is no valid URL." for word in self.malformed)]


def why(error: FetchError, url: str) -> str:
    """The first line of a failure, without the URL where that stands before it anyway."""
    line = str(error).partition("\n")[0]
    return line.removeprefix(url).lstrip(": ") or line


async def told(many: Many, texts: Sequence[str], question: str, prompt: str, context: ToolContext) -> ToolResult:
    """The model's answer to `prompt` from the whole `texts` of the pages; where there is none, what was found in them.

    `question` is the prompt without its URLs; where it is empty, nothing is asked.
    """
    if not question or context.ask is None or not any(text.strip() for text in texts):
        return joined(many, _NO_MODEL if question else "")
    sources = [source for result in many.results for source in result.sources]
    pages = [
        ReadPage(source.number, source.title, source.url, text) for source, text in zip(sources, texts, strict=True)
    ]
    await context.progress(f"The model reads {len(pages)} page{'s' * (len(pages) != 1)}")
    try:
        answer = await answer_from([page for page in pages if page.text.strip()], prompt, context.ask, context.ask_room)
    except ProviderError as error:
        return joined(many, f"The model could not read these pages for you ({error.brief}).")
    return _answered(many, answer)


class Native(Struct, frozen=True):
    """What a service made of the pages that it has read itself: `urls` as they were asked for, and their sources."""

    text: str
    urls: tuple[str, ...]
    sources: tuple[Source, ...]


async def read_natively(urls: Sequence[str], prompt: str, context: ToolContext) -> Native | None:
    """The answer of the model's own service about public pages; None where it fails or has read none of them.

    A page that it has not read keeps the number that it was given, and is read here.
    """
    if context.read_pages is None:
        return None
    for other in sorted(set(extract_urls(prompt).urls) - set(urls), key=len, reverse=True):
        prompt = prompt.replace(other, "(another page)")  # nobody else is told of what stays here
    meant = {url: named(url.strip(), context.sources) for url in urls}
    pages = tuple((context.sources.add(one).number, one) for one in meant.values())
    await context.progress(f"The model's service reads {len(pages)} page{'s' * (len(pages) != 1)}")
    try:
        text, read = await context.read_pages(NATIVE_SYSTEM, native_task(prompt, pages), pages)
    except ProviderError:
        return None
    got = tuple(url for url, one in meant.items() if one in read)
    sources = tuple(context.sources.add(meant[url], read=True, text=text) for url in got)
    notes = [f"[{note}]" for note in uncited(text, [source.number for source in sources])]
    heads = [f"[{one.number}] {one.title or '(no title)'}\nurl: {one.url}\n{_BY_SERVICE}" for one in sources]
    return Native("\n\n".join([text, *notes, *heads]), got, sources) if got else None


def alone(native: Native, *, as_json: bool) -> ToolResult:
    """The result of a call whose pages were all read by the service."""
    line = f"The model's service read {len(native.urls)} page{'s' * (len(native.urls) != 1)}"
    text = native.text
    if as_json:
        numbers = [{"number": source.number, "url": source.url} for source in native.sources]
        text = json.dumps({"answer": text, "sources": numbers}, ensure_ascii=False)
    extras: dict[str, object] = {"native": list(native.urls), "answered": True}
    return ToolResult(text, line, sources=native.sources, extras=extras, untrusted=True)


def beside(native: Native, rest: ToolResult, *, as_json: bool) -> ToolResult:
    """Both parts of a call of which the service has read some pages and this machine the others."""
    own = alone(native, as_json=as_json)
    return replace(
        own,
        text=f"[{own.text},\n{rest.text}]" if as_json else f"{own.text}\n\n{rest.text}",
        message=f"{own.message}. {rest.message}",
        media=rest.media,
        sources=(*own.sources, *rest.sources),
        extras={**rest.extras, **own.extras},
        partial=rest.partial or rest.is_error,
    )


def _answered(many: Many, answer: Answer) -> ToolResult:
    """The answer, then the sources with their status, so that its citations can be followed."""
    plain = joined(many, "")
    extras = {**plain.extras, "answered": True, "model_requests": answer.requests}
    if many.as_json:
        sources = [{"number": result.sources[0].number, **_facts(result)} for result in many.results]
        shown = {"answer": answer.text, "notes": [*answer.notes, *many.lines], "sources": sources}
        return replace(plain, text=json.dumps(shown, ensure_ascii=False), extras=extras)
    heads = [_source_head(result) for result in many.results]
    notes = "\n".join(f"[{note}]" for note in answer.notes)
    text = "\n\n".join(part for part in (answer.text, notes, *heads, *many.lines) if part)
    return replace(plain, text=text, extras=extras)


def _facts(result: ToolResult) -> dict[str, object]:
    facts = {name: result.extras.get(name) for name in ("url", "finalUrl", "status", "extractor")}
    return {**facts, "truncated": False, "length": result.extras.get("total")}


def _source_head(result: ToolResult) -> str:
    source, facts = result.sources[0], _facts(result)
    lines = [f"[{source.number}] {source.title or '(no title)'}", f"url: {facts['url']}"]
    if facts["finalUrl"] != facts["url"]:
        lines.append(f"finalUrl: {facts['finalUrl']}")
    how = f"extractor: {facts['extractor']} | truncated: false | length: {facts['length']}"
    return "\n".join([*lines, f"status: {facts['status']} | {how}"])


def joined(many: Many, notice: str) -> ToolResult:
    """One result of many: every URL with its status. It is an error only where no page could be read.

    `notice` tells why texts come and no answer; empty where none was asked for.
    """
    results, failed, unread = many.results, many.failed, many.unread
    line = f"Read {len(results)} of {len(results) + len(failed) + len(unread)} pages"
    extras: dict[str, object] = {
        "read": [result.extras.get("url") for result in results],
        "failed": {url: error.kind for url, error in failed},
        "unread": list(unread),
    }
    if not results and failed:
        reason = str(failed[0][1]).partition("\n")[0]
        wrong = error_result(
            failed[0][1].kind, "\n".join(["No page could be read.", *many.lines]), message=f"{line}. {reason}"
        )
        return replace(wrong, extras=extras, untrusted=True)
    if many.as_json:
        rows = [result.text for result in results]
        rows += [json.dumps({"url": url, "error": str(error)}, ensure_ascii=False) for url, error in failed]
        rows += [json.dumps({"url": url, "error": "not read"}, ensure_ascii=False) for url in unread]
        rows += [json.dumps({"url": url, "error": "no valid URL"}, ensure_ascii=False) for url in many.malformed]
        text = "[" + ",\n".join(rows) + "]"
    else:
        first = [f"[{_PASSAGES.format(notice)}]"] if notice else []
        text = "\n\n".join([*first, *(result.text for result in results), *many.lines])
    return ToolResult(
        text,
        line,
        media=tuple(media for result in results for media in result.media),
        sources=tuple(source for result in results for source in result.sources),
        extras=extras,
        untrusted=True,
        partial=bool(failed or unread or many.malformed),
    )


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""
