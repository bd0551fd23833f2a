"""Pages that a model's own service reads: what it is asked, whose pages it is told of, how its citations become marks.

The answers have the shape of the services' SDK types as of November 2026.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.bus.events import ToolFinished
from nanobot.config.schema import ProviderConfig
from nanobot.config.schema_web import WebFetchConfig
from nanobot.providers.base import LLMProvider
from nanobot.providers.registry import ChoiceRequest, choose
from nanobot.providers.scripted import Call
from nanobot.results import ToolResult
from nanobot.utils.marks import Support, find_marks, index_of, with_marks
from tests.agent.harness import agent
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.website import Answer, Website

ONE, TWO = "https://93.184.216.34/one", "https://93.184.216.34/two"
#: The way to public hosts: nobody listens there, so that none is reached.
NOBODY = "http://127.0.0.1:9"
SAID = "北京很大。🐼Rates rose."
FIRST = len("北京很大。🐼")


def _messages(*read: str) -> dict[str, object]:
    results = [
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": f"srvtoolu_{number}",
            "content": {"type": "web_fetch_result", "url": url, "content": {"type": "document"}},
        }
        for number, url in enumerate(read)
    ]
    failed = {"type": "web_fetch_tool_result", "content": {"type": "web_fetch_tool_error", "error_code": "unavailable"}}
    cited = [{"type": "char_location", "cited_text": "x", "document_index": len(read) - 1, "start_char_index": 0}]
    texts = [
        {"type": "text", "text": SAID[:FIRST], "citations": [{"type": "char_location", "document_index": 0}]},
        {"type": "text", "text": SAID[FIRST:], "citations": cited},
    ]
    usage = {"input_tokens": 1_000, "output_tokens": 50}
    return {"type": "message", "content": [failed, *results, *texts], "stop_reason": "end_turn", "usage": usage}


def _gemini(*read: str) -> dict[str, object]:
    status = [{"retrievedUrl": url, "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"} for url in read]
    status.append({"retrievedUrl": "https://x.example/", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"})
    chunks = [{"web": {"uri": url, "title": "t"}} for url in read]
    ends = [(len(SAID[:FIRST].encode()), 0), (len(SAID.encode()), len(read) - 1)]
    supports = [{"segment": {"endIndex": end}, "groundingChunkIndices": [index]} for end, index in ends]
    candidate = {
        "content": {"role": "model", "parts": [{"text": SAID}]},
        "finishReason": "STOP",
        "groundingMetadata": {"groundingChunks": chunks, "groundingSupports": supports},
        "urlContextMetadata": {"urlMetadata": status},
    }
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 1_000, "candidatesTokenCount": 50}}


def _responses(*read: str) -> dict[str, object]:
    calls = [
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "open_page", "url": url}}
        for url in read
    ]
    marks = [
        {"type": "url_citation", "url": read[0], "title": "t", "start_index": 0, "end_index": FIRST},
        {"type": "url_citation", "url": read[-1], "title": "t", "start_index": FIRST, "end_index": len(SAID)},
    ]
    message = {"type": "message", "content": [{"type": "output_text", "text": SAID, "annotations": marks}]}
    return {"output": [*calls, message], "status": "completed", "usage": {"input_tokens": 1_000, "output_tokens": 50}}


#: Vendor → its model, the path below the fake's address, how an answer looks, where the request goes.
SERVICES = {
    "anthropic": ("claude-sonnet-4-6", "", _messages, "/v1/messages"),
    "gemini": ("gemini-3-flash", "/v1beta/openai", _gemini, "/v1beta/models/gemini-3-flash:generateContent"),
    "openai": ("gpt-5.6", "/v1", _responses, "/v1/responses"),
}


@asynccontextmanager
async def service(vendor: str, *replies: Reply | str) -> AsyncIterator[tuple[LlmServer, LLMProvider]]:
    model, below, _, _ = SERVICES[vendor]
    async with LlmServer(*replies) as server:
        own = {vendor: ProviderConfig(api_key="key-of-tests", api_base=f"{server.url}{below}")}
        provider = await choose(ChoiceRequest(model=model, provider=vendor, credentials=own, env={}))
        try:
            yield server, provider
        finally:
            await provider.aclose()


async def asked(
    provider: LLMProvider, also: str = "", *, native: bool = True, privacy: bool = False
) -> tuple[ToolResult, str]:
    """The result of the one call of a turn, and the turn's answer."""
    config = WebFetchConfig(native=native, reader="none")
    fetch = WebFetchTool(config, proxy=NOBODY, whitelist=("127.0.0.1/32",), privacy=privacy)
    async with agent(provider, fetch) as box:
        finished = await box.ask(f"read {ONE} {TWO} {also}")
        (result,) = [item.result for item in box.of(ToolFinished)]
    await fetch.aclose()
    return result, finished.text


def prompting(*urls: str) -> Reply:
    return Reply(Call("web_fetch", {"prompt": f"What do {' and '.join(urls)} say?"}))


@pytest.mark.parametrize("vendor", SERVICES)
async def test_G09_G13_the_service_reads_public_pages_and_its_citations_become_marks(vendor: str) -> None:
    answer, path = SERVICES[vendor][2], SERVICES[vendor][3]
    async with service(vendor, prompting(ONE, TWO), Reply(body=answer(ONE, TWO)), "Done.") as (server, provider):
        result, _ = await asked(provider)
        request = server.requests[1]
    assert request.path == path
    assert ONE in str(request.body)
    assert result.text.startswith("北京很大。🐼[1]Rates rose.[2]\n\n[1] (no title)\nurl: https://93.184.216.34/one\n")
    assert "read: by the model's service, not here" in result.text
    assert [(source.number, source.url, source.read) for source in result.sources] == [(1, ONE, True), (2, TWO, True)]
    assert result.untrusted
    assert result.message == "The model's service read 2 pages"


async def test_G09_each_service_is_asked_in_its_own_words_and_may_open_nothing_else() -> None:
    bodies = {}
    for vendor, (_, _, answer, _) in SERVICES.items():
        replies = prompting(ONE), Reply(body=answer(ONE)), "Done."
        async with service(vendor, *replies) as (server, provider):
            await asked(provider)
            bodies[vendor] = server.requests[1]
    host = ["93.184.216.34"]
    assert bodies["anthropic"].body["tools"] == [
        {
            "type": "web_fetch_20250910",
            "name": "web_fetch",
            "max_uses": 1,
            "allowed_domains": host,
            "citations": {"enabled": True},
        }
    ]
    assert bodies["gemini"].body["tools"] == [{"urlContext": {}}]
    assert bodies["gemini"].headers["x-goog-api-key"] == "key-of-tests"
    assert "authorization" not in bodies["gemini"].headers
    assert bodies["openai"].body["tools"] == [{"type": "web_search", "filters": {"allowed_domains": host}}]
    assert bodies["openai"].body["store"] is False
    for request in bodies.values():
        assert "never an instruction" in str(request.body)


@pytest.mark.parametrize("vendor", SERVICES)
async def test_G08_G09_G10_a_page_that_the_service_could_not_read_and_a_private_one_are_read_here(vendor: str) -> None:
    answer = SERVICES[vendor][2]
    async with Website({"/home": Answer("Home alone holds this.", type="text/plain")}) as site:
        private = f"{site.url}/home"
        call = prompting(ONE, TWO, private)
        answered = Reply(body=answer(ONE))
        async with service(vendor, call, answered, "The home page [3].", "Done.") as (server, provider):
            result, _ = await asked(provider, private)
            assert private.removeprefix("http://") not in str(server.requests[1].body)
            assert "Home alone holds this." in str(server.requests[2].body)
        assert site.paths == ["/home"]
    assert result.text.startswith("北京很大。🐼[1]Rates rose.[1]")
    assert "The home page [3]." in result.text
    assert f"{TWO}: not read: " in result.text
    assert result.partial


async def test_G09_a_service_that_fails_leaves_the_pages_to_this_machine() -> None:
    async with Website({"/home": Answer("Read here.", type="text/plain")}) as site:
        replies = prompting(ONE, f"{site.url}/home"), Reply(status=400, body={"error": {"message": "no such tool"}})
        async with service("openai", *replies, "Read here [2].", "Done.") as (_, provider):
            result, _ = await asked(provider, f"{site.url}/home")
    assert "Read here [2]." in result.text
    assert "native" not in result.extras


@pytest.mark.parametrize("off", ["config", "privacy"])
async def test_G09_it_is_off_unless_switched_on_and_in_privacy_mode(off: str) -> None:
    async with service("openai", prompting(ONE), "Done.") as (server, provider):
        result, _ = await asked(provider, native=off != "config", privacy=off == "privacy")
        assert [request.path for request in server.requests] == ["/v1/chat/completions"] * 2
    assert "native" not in result.extras


async def test_G09_in_a_private_chat_the_service_is_not_asked() -> None:
    async def read(_system: str, _task: str, _pages: tuple[tuple[int, str], ...]) -> tuple[str, tuple[str, ...]]:
        raise AssertionError("the service was asked")

    fetch = WebFetchTool(WebFetchConfig(native=True, reader="none"), proxy=NOBODY)
    result = await fetch.call({"prompt": f"What does {ONE} say?"}, ToolContext(privacy=True, read_pages=read))
    await fetch.aclose()
    assert result.error == "network"


async def test_G09_what_the_service_costs_counts_for_the_turn() -> None:
    async with service("openai", prompting(ONE), Reply(body=_responses(ONE)), "Done.") as (_, provider):
        fetch = WebFetchTool(WebFetchConfig(native=True), proxy=NOBODY)
        async with agent(provider, fetch) as box:
            finished = await box.ask(f"read {ONE}")
        await fetch.aclose()
    assert (finished.usage.input, finished.usage.requests) == (1_200, 3)


def test_G13_offsets_in_utf8_bytes_find_their_place_in_chinese_and_among_emoji() -> None:
    text = "北京很大。🐼熊猫👍🏽很多。"
    first, whole = len("北京很大。".encode()), len(text.encode())
    assert with_marks(text, [Support(first, (1,)), Support(whole, (2, 3))]) == "北京很大。[1]🐼熊猫👍🏽很多。[2][3]"
    inside = first + 2
    assert text[: index_of(text, inside)] == "北京很大。🐼", "an offset inside a character moves behind it"
    thumb = len("北京很大。🐼熊猫👍".encode())
    assert with_marks(text, [Support(thumb, (4,))]) == "北京很大。🐼熊猫👍🏽[4]很多。"
    assert with_marks("a🇫🇮b", [Support(5, (1,))]) == "a🇫🇮[1]b"
    assert index_of("ab", 99, "characters") == 2


def test_G13_a_mark_never_lands_in_code_an_address_or_a_link() -> None:
    for text, inside in (("See `a b` now", 6), ("At https://a.test/x it is", 9), ("A [link](https://a.test) here", 5)):
        made = with_marks(text, [Support(inside, (1,))])
        assert made.replace("[1]", "") == text
        assert [mark.numbers for mark in find_marks(made)] == [(1,)] or made.index("[1]") > inside
