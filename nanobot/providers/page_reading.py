"""A model service that reads public pages itself: one request that names them, one answer with what it cites.

Anthropic's web_fetch and Gemini's urlContext, as their SDKs have them (anthropic 2.12, google-genai 3.4 of November
2026). Each counts the places of its citations in another way.
"""

from contextlib import aclosing
from urllib.parse import quote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from nanobot import jsonval
from nanobot.jsonval import JsonObject
from nanobot.messages import AssistantMessage, Completed, Text, Usage
from nanobot.providers.base import PageReading, ProviderInfo, Request
from nanobot.providers.failures import Origin, failure, finished
from nanobot.providers.http import Link
from nanobot.utils.marks import Support, with_marks
from nanobot.utils.translation import _

_SUCCESS = "URL_RETRIEVAL_STATUS_SUCCESS"


def body_of(way: PageReading, model: str, request: Request) -> bytes:
    """The request in the words of the service; no other host may be opened where the service can be told so."""
    task = "\n\n".join(part.text for message in request.messages for part in message.content if isinstance(part, Text))
    hosts = sorted({urlsplit(url).hostname or "" for _number, url in request.pages})
    body: JsonObject
    if way == "messages":
        tool = {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": len(request.pages)}
        tool |= {"allowed_domains": hosts, "citations": {"enabled": True}}
        body = {"model": model, "max_tokens": request.max_tokens or 4_096, "system": request.system, "tools": [tool]}
        body["messages"] = [{"role": "user", "content": task}]
    else:
        body = {"contents": [{"role": "user", "parts": [{"text": task}]}], "tools": [{"urlContext": {}}]}
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    return jsonval.dump(body)


async def read_pages(info: ProviderInfo, link: Link, request: Request) -> Completed:
    """Ask the service behind `link`. Raises `ProviderError`."""
    way, own = info.capabilities.reads_pages, link.endpoint
    if way == "gemini":  # its own API, beside the one that speaks Chat Completions, with the key in its own header
        key = own.headers.get("Authorization", "").removeprefix("Bearer ")
        base = own.base_url.rstrip("/").removesuffix("/openai")
        link = Link(replace(own, base_url=base, headers={"x-goog-api-key": key}))
        path = f"/models/{quote(info.model.removeprefix('models/'), safe='')}:generateContent"
    else:
        path = "/messages" if own.base_url.rstrip("/").endswith("/v1") else "/v1/messages"
    try:
        async with aclosing(link.post(path, body_of(way, info.model, request))) as events:
            async for _kind, data in events:
                answer = jsonval.obj(jsonval.parse(data))
                return Completed(_message(way, answer, request, own.origin, info.model))
    finally:
        if link.endpoint is not own:
            await link.aclose()
    raise failure(own.origin, "protocol", _("the service gave no answer"))


def _message(way: PageReading, answer: JsonObject, request: Request, origin: Origin, model: str) -> AssistantMessage:
    """The answer with `[n]` where the service cites page n, and the pages that it has read."""
    read = _gemini(answer) if way == "gemini" else _messages(answer)
    numbers = {_same(url): number for number, url in request.pages}
    # Pages that nobody asked for have no number, and so no mark.
    cited = ((end, (numbers.get(_same(url), 0) for url in urls)) for end, urls in read.cited)
    supports = [Support(end, tuple(dict.fromkeys(number for number in marks if number))) for end, marks in cited]
    text = with_marks(read.text, supports, "utf8" if way == "gemini" else "characters")
    used = jsonval.obj(answer.get("usage") or answer.get("usageMetadata"))
    given = jsonval.integer(used.get("input_tokens") or used.get("promptTokenCount"))
    made = jsonval.integer(used.get("output_tokens") or used.get("candidatesTokenCount"))
    usage = Usage(input=given, output=made, requests=1)
    whole = finished(origin, [Text(text)], read.finish, model=model, usage=usage)
    known = set(map(_same, read.pages))
    return replace(whole, pages=tuple(url for _number, url in request.pages if _same(url) in known))


class _PagesRead(Struct):
    """What a service said: `cited` are the ends of stretches of `text`, each with the addresses that it rests on;
    `pages` are the addresses that it has read."""

    text: str = ""
    finish: str = ""
    cited: list[tuple[int, list[str]]] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)


def _messages(answer: JsonObject) -> _PagesRead:
    """Text comes in blocks, each with the documents that it rests on, by their place among those that were read."""
    found = _PagesRead(finish=jsonval.text(answer.get("stop_reason")))
    for block in jsonval.rows(answer.get("content")):
        if jsonval.at(block, "content", "type") == "web_fetch_result":
            found.pages.append(jsonval.text(jsonval.at(block, "content", "url")))
        elif block.get("type") == "text":
            found.text += jsonval.text(block.get("text"))
            places = [one.get("document_index") for one in jsonval.rows(block.get("citations"))]
            found.cited.append((len(found.text), _chosen(found.pages, places)))
    return found


def _gemini(answer: JsonObject) -> _PagesRead:
    """Places are counted in the bytes of the first part's text."""
    candidate = next(iter(jsonval.rows(answer.get("candidates"))), {})
    found = _PagesRead(finish=jsonval.text(candidate.get("finishReason")))
    parts = jsonval.rows(jsonval.at(candidate, "content", "parts"))
    found.text = "".join(jsonval.text(part.get("text")) for part in parts)
    grounds = jsonval.items(jsonval.at(candidate, "groundingMetadata", "groundingChunks"))
    chunks = [jsonval.text(jsonval.at(one, "web", "uri")) for one in grounds]
    for one in jsonval.rows(jsonval.at(candidate, "groundingMetadata", "groundingSupports")):
        end = jsonval.integer(jsonval.at(one, "segment", "endIndex"))
        found.cited.append((end, _chosen(chunks, jsonval.items(one.get("groundingChunkIndices")))))
    for one in jsonval.rows(jsonval.at(candidate, "urlContextMetadata", "urlMetadata")):
        if one.get("urlRetrievalStatus") == _SUCCESS:
            found.pages.append(jsonval.text(one.get("retrievedUrl")))
    return found


def _chosen(urls: list[str], places: list[object]) -> list[str]:
    return [urls[place] for place in places if isinstance(place, int) and 0 <= place < len(urls)]


def _same(url: str) -> str:
    """An address as two services write the same one."""
    parts = urlsplit(url)
    return f"{(parts.hostname or '').lower()}{parts.path.rstrip('/')}?{parts.query}"
