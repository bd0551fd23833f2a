"""A model service that reads public pages itself: one request that names them, one answer with what it cites.

Anthropic's web_fetch, Gemini's urlContext and the open_page of OpenAI's web_search, as their SDKs have them (anthropic
2.12, google-genai 3.4, openai 3.54 of November 2026). Each counts the places of its citations in another way.
"""

from contextlib import aclosing
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from nanobot.messages import AssistantMessage, Completed, Text, Usage
from nanobot.providers import jsonval
from nanobot.providers.base import PageReading, ProviderInfo, Request
from nanobot.providers.failures import Origin, failure, finished
from nanobot.providers.http import Link
from nanobot.providers.jsonval import JsonObject
from nanobot.utils.marks import Support, with_marks

_SUCCESS = "URL_RETRIEVAL_STATUS_SUCCESS"


def body_of(way: PageReading, model: str, request: Request) -> bytes:
    """The request in the words of the service; no other host may be opened where the service can be told so."""
    task = "\n\n".join(part.text for message in request.messages for part in message.content if isinstance(part, Text))
    hosts = sorted({urlsplit(url).hostname or "" for _, url in request.pages})
    body: JsonObject
    if way == "messages":
        tool = {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": len(request.pages)}
        tool |= {"allowed_domains": hosts, "citations": {"enabled": True}}
        body = {"model": model, "max_tokens": request.max_tokens or 4_096, "system": request.system, "tools": [tool]}
        body["messages"] = [{"role": "user", "content": task}]
    elif way == "gemini":
        body = {"contents": [{"role": "user", "parts": [{"text": task}]}], "tools": [{"urlContext": {}}]}
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    else:
        tool = {"type": "web_search", "filters": {"allowed_domains": hosts}}
        body = {"model": model, "instructions": request.system, "input": task, "tools": [tool], "store": False}
    return jsonval.dump(body)


def path_of(way: PageReading, model: str) -> str:
    """Where the request goes, below the address of the service's own API."""
    if way == "gemini":
        return f"/models/{quote(model.removeprefix('models/'), safe='')}:generateContent"
    return "/responses" if way == "responses" else "/v1/messages"


def message_of(way: PageReading, answer: JsonObject, request: Request, origin: Origin, model: str) -> AssistantMessage:
    """The answer with `[n]` where the service cites page n, and the pages that it has read.

    Raises `ProviderError` where it says nothing.
    """
    reader = {"messages": _messages, "gemini": _gemini, "responses": _responses}[way]
    text, read, finish, usage = reader(answer, {_same(url): number for number, url in request.pages})
    whole = finished(origin, [Text(text)], finish, model=model, usage=usage)
    known = {_same(url) for url in read}
    pages = tuple(url for _, url in request.pages if _same(url) in known)
    return AssistantMessage(whole.content, whole.finish, model, usage, pages=pages)


async def read_pages(info: ProviderInfo, link: Link, request: Request) -> Completed:
    """Ask the service behind `link`. Raises `ProviderError`."""
    way, own = info.capabilities.reads_pages, link.endpoint
    if way == "gemini":  # its own API, beside the one that speaks Chat Completions, with the key in its own header
        key = own.headers.get("Authorization", "").removeprefix("Bearer ")
        base = own.base_url.rstrip("/").removesuffix("/openai")
        link = Link(replace(own, base_url=base, headers={"x-goog-api-key": key}))
    path = path_of(way, info.model)
    if own.base_url.rstrip("/").endswith("/v1"):
        path = path.removeprefix("/v1")
    try:
        async with aclosing(link.post(path, body_of(way, info.model, request))) as events:
            async for _, data, identity in events:
                answer = jsonval.obj(jsonval.parse(data))
                return Completed(message_of(way, answer, request, own.origin, info.model), identity)
    finally:
        if link.endpoint is not own:
            await link.aclose()
    raise failure(own.origin, "protocol", "the service gave no answer")


_Read = tuple[str, list[str], str, Usage]


def _messages(answer: JsonObject, numbers: dict[str, int]) -> _Read:
    """Text comes in blocks, each with the documents that it rests on, by their place among those that were read."""
    text, read = "", list[str]()
    supports: list[Support] = []
    for block in map(jsonval.obj, jsonval.items(answer.get("content"))):
        result = jsonval.obj(block.get("content"))
        if result.get("type") == "web_fetch_result":
            read.append(jsonval.text(result.get("url")))
        elif block.get("type") == "text":
            text += jsonval.text(block.get("text"))
            places = [jsonval.obj(one).get("document_index") for one in jsonval.items(block.get("citations"))]
            cited = [read[place] for place in places if isinstance(place, int) and 0 <= place < len(read)]
            supports.append(_support(len(text), cited, numbers))
    used = jsonval.obj(answer.get("usage"))
    tokens = _usage(used.get("input_tokens"), used.get("output_tokens"))
    return with_marks(text, supports, "characters"), read, jsonval.text(answer.get("stop_reason")), tokens


def _gemini(answer: JsonObject, numbers: dict[str, int]) -> _Read:
    """Places are counted in the bytes of the first part's text."""
    candidate = jsonval.obj(next(iter(jsonval.items(answer.get("candidates"))), None))
    parts = jsonval.items(jsonval.obj(candidate.get("content")).get("parts"))
    text = "".join(jsonval.text(jsonval.obj(part).get("text")) for part in parts)
    grounds = jsonval.obj(candidate.get("groundingMetadata"))
    chunks = [
        jsonval.text(jsonval.obj(jsonval.obj(one).get("web")).get("uri"))
        for one in jsonval.items(grounds.get("groundingChunks"))
    ]
    supports = []
    for one in map(jsonval.obj, jsonval.items(grounds.get("groundingSupports"))):
        places = [place for place in jsonval.items(one.get("groundingChunkIndices")) if isinstance(place, int)]
        cited = [chunks[place] for place in places if 0 <= place < len(chunks)]
        end = jsonval.integer(jsonval.obj(one.get("segment")).get("endIndex"))
        supports.append(_support(end, cited, numbers))
    told = jsonval.items(jsonval.obj(candidate.get("urlContextMetadata")).get("urlMetadata"))
    read = [
        jsonval.text(one.get("retrievedUrl"))
        for one in map(jsonval.obj, told)
        if one.get("urlRetrievalStatus") == _SUCCESS
    ]
    used = jsonval.obj(answer.get("usageMetadata"))
    tokens = _usage(used.get("promptTokenCount"), used.get("candidatesTokenCount"))
    return with_marks(text, supports, "utf8"), read, jsonval.text(candidate.get("finishReason")), tokens


def _responses(answer: JsonObject, numbers: dict[str, int]) -> _Read:
    """Places are counted in characters."""
    text, read = "", list[str]()
    supports: list[Support] = []
    for item in map(jsonval.obj, jsonval.items(answer.get("output"))):
        action = jsonval.obj(item.get("action"))
        if action.get("type") == "open_page" and item.get("status", "completed") == "completed":
            read.append(jsonval.text(action.get("url")))
        for part in map(jsonval.obj, jsonval.items(item.get("content"))):
            for mark in map(jsonval.obj, jsonval.items(part.get("annotations"))):
                end = len(text) + jsonval.integer(mark.get("end_index"))
                supports.append(_support(end, [jsonval.text(mark.get("url"))], numbers))
            text += jsonval.text(part.get("text"))
    used = jsonval.obj(answer.get("usage"))
    finish = "stop" if answer.get("status", "completed") == "completed" else "length"
    tokens = _usage(used.get("input_tokens"), used.get("output_tokens"))
    return with_marks(text, supports, "characters"), read, finish, tokens


def _support(end: int, cited: list[str], numbers: dict[str, int]) -> Support:
    """Pages that nobody asked for have no number, and so no mark."""
    known = (numbers.get(_same(url)) for url in cited)
    return Support(end, tuple(dict.fromkeys(number for number in known if number is not None)))


def _usage(given: object, made: object) -> Usage:
    return Usage(input=jsonval.integer(given), output=jsonval.integer(made), requests=1)


def _same(url: str) -> str:
    """An address as two services write the same one."""
    parts = urlsplit(url)
    return f"{(parts.hostname or '').lower()}{parts.path.rstrip('/')}?{parts.query}"
