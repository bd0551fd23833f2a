"""Answers as servers in the wild send them, on both wires."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from nanobot.config.proxy import Proxies
from nanobot.errors import ProviderError
from nanobot.messages import (
    AssistantMessage,
    Completed,
    Finish,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from nanobot.providers.anthropic import AnthropicProvider
from nanobot.providers.base import ProviderInfo, ReasoningEffort, Request, ToolSpec
from nanobot.providers.failures import Origin
from nanobot.providers.http import Deadlines, Endpoint, Link, list_models
from nanobot.providers.openai_compat import OpenAICompatProvider
from nanobot.providers.scripted import Say
from nanobot.providers.vendors import BY_NAME, Quirks
from tests.fakes.http_server import HttpServer, Responder
from tests.fakes.http_server import Request as HttpRequest
from tests.fakes.llm_server import DONE, LlmRequest, LlmServer, Reply, chat_event, messages_event
from tests.fakes.patience import growing
from tests.tables import table

ORIGIN = Origin("Vendor")
TOOLS = (ToolSpec("web_search", "Search.", {"type": "object"}), ToolSpec("web_fetch", "Read.", {"type": "object"}))
ASK = Request((UserMessage((Text("hi"),)),), tools=TOOLS)


async def chat(raw: Iterable[bytes | str], quirks: Quirks | None = None, *, exact: bool = True) -> AssistantMessage:
    """The answer to a raw Chat Completions stream; what was streamed must be what is returned, if `exact`."""
    async with LlmServer(Reply(raw=raw)) as server, asyncio.timeout(120):
        provider = OpenAICompatProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + "/v1"), quirks)
        deltas = [delta async for delta in provider.stream(ASK)]
        await provider.aclose()
    last = deltas[-1]
    assert isinstance(last, Completed)
    message = last.message
    if not exact:
        return message
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == message.text
    assert "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta)) == thinking(message)
    return message


def thinking(message: AssistantMessage) -> str:
    return "".join(part.text for part in message.content if isinstance(part, Thinking))


def said(**delta: object) -> bytes:
    return chat_event(delta)


STOP = chat_event({}, "stop")
OK = said(content="ok")


def tool(arguments: object = "", **fields: object) -> dict[str, object]:
    name = fields.pop("name", None)
    function: dict[str, object] = {"arguments": arguments}
    if name is not None:
        function["name"] = name
    return {**fields, "function": function}


def used(**usage: object) -> bytes:
    return chat_event(None, usage=usage)


@dataclass(frozen=True)
class Case:
    raw: list[bytes | str]
    text: str = "ok"
    thought: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    finish: Finish = "stop"
    usage: Usage = field(default_factory=lambda: Usage(requests=1))


SEARCH = '{"query":"x"}'
FETCH = '{"url":"y"}'
BOTH = [("web_search", SEARCH), ("web_fetch", FETCH)]


def calls(*deltas: dict[str, object]) -> list[bytes | str]:
    return [*(said(tool_calls=[delta]) for delta in deltas), chat_event({}, "tool_calls"), DONE]


CASES: dict[str, Case] = {
    "reasoning_content": Case([said(reasoning_content="h"), said(reasoning_content="m"), OK, STOP, DONE], thought="hm"),
    "reasoning": Case([said(reasoning="hm"), OK, STOP, DONE], thought="hm"),
    "reasoning twice in one delta": Case([said(reasoning="hm", reasoning_content="hm"), OK, STOP], thought="hm"),
    "reasoning_details": Case(
        [said(reasoning_details=[{"type": "reasoning.text", "text": "hm", "index": 0}]), OK, STOP], thought="hm"
    ),
    "content as parts with thinking": Case(
        [
            said(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]),
            said(content=[{"type": "text", "text": "ok"}]),
            STOP,
        ],
        thought="hm",
    ),
    "think tag": Case([said(content="<think>\nhm</think>\n\nok"), STOP], thought="hm"),
    "think tag later is text": Case([said(content="a <think>"), STOP], text="a <think>"),
    "half a think tag is text": Case([said(content="<thi"), STOP], text="<thi"),
    "refusal": Case([said(refusal="I will not."), STOP], text="I will not.", finish="filtered"),
    "null delta": Case([chat_event(None), b'data: {"choices":[{"delta":null}]}\n\n', OK, STOP]),
    "no choices first": Case([b'data: {"choices":[],"prompt_filter_results":[]}\n\n', OK, STOP]),
    "minimal fields": Case([b'data:{"choices":[{"delta":{"content":"ok"}}]}\n\ndata:[DONE]\n\n']),
    "done without a finish reason": Case([OK, DONE]),
    "finish reason without done": Case([OK, STOP]),
    "events without data": Case([b"data:\n\n", b"event: ping\ndata: \n\n", b"data: \n\n", OK, STOP]),
    "a mark of the byte order": Case([b"\xef\xbb\xbf" + OK, STOP]),
    "halves of a character": Case(
        [
            *(
                rb'data: {"choices":[{"delta":{"content":"%s"}}]}' % half + b"\n\n"
                for half in (rb"a\ud83d", rb"\ude00b")
            ),
            STOP,
        ],
        text="a\U0001f600b",
    ),
    "no blank line at the end": Case([OK, STOP.rstrip()]),
    "comments and CRLF": Case(
        [": OPENROUTER PROCESSING\r\n\r\n", OK.replace(b"\n", b"\r\n"), STOP.replace(b"\n", b"\r\n")]
    ),
    "lone CR": Case([OK.replace(b"\n", b"\r"), STOP.replace(b"\n", b"\r")]),
    "several data lines": Case([b'data: {"choices":[{"delta":\ndata: {"content":"ok"}}]}\n\n', STOP]),
    "odd line separators": Case([said(content="a\u2028b\u0085c\x0bd"), STOP], text="a\u2028b\u0085c\x0bd"),
    "bytes split anywhere": Case([bytes([byte]) for byte in said(content="漢字🙂") + STOP], text="漢字🙂"),
    "CRLF split anywhere in an event of two lines": Case(
        [
            bytes([byte])
            for byte in b'data: {"choices":[{"delta":\r\ndata: {"content":"ok"},"finish_reason":"stop"}]}\r\n\r\n'
        ]
    ),
    "events in one write": Case([said(content="o") + said(content="k") + STOP + DONE]),
    "interleaved calls": Case(
        calls(
            tool('{"query"', index=0, id="a", name="web_search"),
            tool('{"url"', index=1, id="b", name="web_fetch"),
            tool(':"x"}', index=0),
            tool(':"y"}', index=1),
        ),
        "",
        calls=BOTH,
        finish="tools",
    ),
    "calls without index": Case(
        calls(tool('{"query":', id="a", name="web_search"), tool('"x"}'), tool(FETCH, id="b", name="web_fetch")),
        "",
        calls=BOTH,
        finish="tools",
    ),
    "calls without index and id": Case(
        calls(tool(SEARCH, name="web_search"), tool(FETCH, name="web_fetch")), "", calls=BOTH, finish="tools"
    ),
    "same index, new id": Case(
        calls(tool(SEARCH, index=0, id="a", name="web_search"), tool(FETCH, index=0, id="b", name="web_fetch")),
        "",
        calls=BOTH,
        finish="tools",
    ),
    "same index, new id, nothing said of the first": Case(
        calls(tool("", index=0, id="a", name="web_search"), tool(FETCH, index=0, id="b", name="web_fetch")),
        "",
        calls=[("web_search", ""), BOTH[1]],
        finish="tools",
    ),
    "same id for both": Case(
        calls(tool(SEARCH, index=0, id="a", name="web_search"), tool(FETCH, index=1, id="a", name="web_fetch")),
        "",
        calls=BOTH,
        finish="tools",
    ),
    "name and id repeated": Case(
        calls(
            tool("", index=0, id="a", name="web_search"),
            tool('{"query":', index=0, id="a", name="web_search"),
            tool('"x"}', index=0, id="", name=""),
            tool("", index=0, id="a", name="web_search"),
        ),
        "",
        calls=[("web_search", SEARCH)],
        finish="tools",
    ),
    "null arguments": Case(
        calls(tool(None, index=0, id="a", name="web_search")), "", calls=[("web_search", "")], finish="tools"
    ),
    "arguments in halves of a character": Case(
        [
            *(
                rb'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{%s"}}]}}]}' % piece + b"\n\n"
                for piece in (rb'"name":"web_search","arguments":"{\"query\":\"\ud83d', rb'"arguments":"\ude00\"}')
            ),
            STOP,
        ],
        "",
        calls=[("web_search", '{"query":"\U0001f600"}')],
        finish="tools",
    ),
    "arguments as an object": Case(
        calls(tool({"query": "x"}, index=0, id="a", name="web_search")),
        "",
        calls=[("web_search", SEARCH)],
        finish="tools",
    ),
    "calls that end with stop": Case(
        [said(tool_calls=[tool(SEARCH, index=0, id="a", name="web_search")]), STOP],
        "",
        calls=[("web_search", SEARCH)],
        finish="tools",
    ),
    "length": Case([OK, chat_event({}, "length")], finish="length"),
    "model_length": Case([OK, chat_event({}, "model_length")], finish="length"),
    "sensitive": Case([OK, chat_event({}, "sensitive")], finish="filtered"),
    "eos": Case([OK, chat_event({}, "eos")]),
    "unknown finish": Case([OK, chat_event({}, "whatever")], finish="other"),
    "network_error": Case([OK, chat_event({}, "network_error")], finish="error"),
    "usage with cached tokens": Case(
        [
            OK,
            STOP,
            used(
                prompt_tokens=9,
                completion_tokens=3,
                prompt_tokens_details={"cached_tokens": 4, "cache_write_tokens": 2},
            ),
        ],
        usage=Usage(9, 3, 4, 2, requests=1),
    ),
    "usage of Moonshot": Case(
        [OK, b'data: {"choices":[{"finish_reason":"stop","usage":{"prompt_tokens":9,"cached_tokens":4}}]}\n\n'],
        usage=Usage(9, 0, 4, requests=1),
    ),
    "usage of DeepSeek": Case(
        [OK, STOP, used(prompt_tokens=9, prompt_cache_hit_tokens=5)], usage=Usage(9, 0, 5, requests=1)
    ),
    "usage of OpenRouter": Case(
        [OK, STOP, used(prompt_tokens=9, cost=0.5, completion_tokens_details={"reasoning_tokens": 2})],
        usage=Usage(9, 0, 0, 0, 2, 0.5, 1),
    ),
    "a cost without end, which no session keeps": Case(
        [OK, STOP, used(prompt_tokens=9, cost=float("inf"))], usage=Usage(9, requests=1)
    ),
    "a cost of four hundred digits": Case([OK, STOP, used(prompt_tokens=9, cost=10**400)], usage=Usage(9, requests=1)),
    "a cost below nothing": Case([OK, STOP, used(prompt_tokens=9, cost=-1)], usage=Usage(9, requests=1)),
    "usage in every chunk is not added up": Case(
        [chat_event({"content": "ok"}, usage={"prompt_tokens": 5}), STOP, used(prompt_tokens=9)],
        usage=Usage(9, requests=1),
    ),
    "figures that a later zero does not undo": Case(
        [chat_event({"content": "ok"}, usage={"prompt_tokens": 5}), STOP, used(prompt_tokens=0)],
        usage=Usage(5, requests=1),
    ),
    "usage that is null": Case([OK, chat_event({}, "stop", usage=None)]),
}


@pytest.mark.parametrize("name", CASES)
async def test_every_dialect_of_chat_gives_the_same_answer(name: str) -> None:
    case = CASES[name]
    message = await chat(case.raw)
    assert message.text == case.text
    assert thinking(message) == case.thought
    assert [(call.name, call.arguments) for call in message.calls] == case.calls
    assert not any(call.error for call in message.calls)
    assert all(call.id for call in message.calls)
    assert message.finish == case.finish
    assert message.usage == case.usage


WHOLE_THOUGHT = "  <think>a < b </ c</think>\n\nok <think> 1"


async def test_thoughts_whose_opening_tag_a_template_wrote_are_no_part_of_the_answer() -> None:
    message = await chat([said(content="hm"), said(content="\n</think>"), said(content="\n\nok"), STOP], exact=False)
    assert (thinking(message), message.text) == ("hm", "ok")
    told = "The tag is\n<think>\nso\n</think>\nthere."
    assert (await chat([said(content=told), STOP])).text == told


@pytest.mark.parametrize("at", range(1, len(WHOLE_THOUGHT)))
async def test_think_tags_are_found_at_every_chunk_boundary(at: int) -> None:
    message = await chat([said(content=WHOLE_THOUGHT[:at]), said(content=WHOLE_THOUGHT[at:]), STOP])
    assert thinking(message) == "a < b </ c"
    assert message.text == "ok <think> 1"


WRITTEN = {
    "Hermes": 'Sure. <tool_call>\n{"name": "web_search", "arguments": {"query": "x"}}\n</tool_call>',
    "Qwen coder": "Sure. <tool_call><function=web_search>\n<parameter=query>\nx\n</parameter>\n</function></tool_call>",
    "Mistral": 'Sure. [TOOL_CALLS][{"name": "web_search", "arguments": {"query": "x"}}]',
    "Llama": '{"name": "web_search", "parameters": {"query": "x"}}',
    "Llama with a tag": '<|python_tag|>{"name": "web_search", "parameters": {"query": "x"}}',
    "fenced": '```json\n{"name": "web_search", "arguments": {"query": "x"}}\n```',
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_calls_written_as_text_by_local_models_are_calls(name: str, size: int) -> None:
    text = WRITTEN[name]
    pieces = [said(content=text[start : start + size]) for start in range(0, len(text), size)]
    message = await chat([*pieces, STOP], BY_NAME["ollama"].quirks)
    assert [(call.name, json.loads(call.arguments)) for call in message.calls] == [("web_search", {"query": "x"})]
    assert message.finish == "tools"
    assert message.text.strip() == ("Sure." if text.startswith("Sure") else "")


@pytest.mark.parametrize(
    "text", ['{"name": "rm", "arguments": {}}', '{"a": 1} is JSON', "1 <tool_call", "[TOOL", "```json\n[]\n```"]
)
async def test_text_that_only_looks_like_a_call_stays_text(text: str) -> None:
    message = await chat([*(said(content=letter) for letter in text), STOP], BY_NAME["ollama"].quirks)
    assert message.text == text
    assert not message.calls


WHOLE = b"""
{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}],

 "usage": {"prompt_tokens": 4}}"""


@table(
    "body kind",
    (WHOLE, "application/json"),
    (WHOLE, "text/event-stream"),
    (WHOLE, ""),
    (OK + chat_event({}, "stop", usage={"prompt_tokens": 4}), "application/json"),
)
async def test_an_answer_is_one_whether_it_was_streamed_or_not_whatever_the_server_calls_it(
    body: bytes, kind: str
) -> None:
    async with LlmServer(Reply(body=body, content_type=kind)) as server:
        provider = OpenAICompatProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + "/v1"))
        deltas = [delta async for delta in provider.stream(ASK)]
        await provider.aclose()
    last = deltas[-1]
    assert isinstance(last, Completed)
    assert (last.message.text, last.message.usage.input) == ("ok", 4)


@table(
    "reply",
    Reply(raw=[OK + STOP + DONE]),
    Reply(raw=[b'data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}']),
    Reply(body={"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}),
    ids=["stream", "one event without a blank line", "whole"],
)
@growing(0.3, 2, 10)
async def test_the_deadline_of_the_first_event_counts_no_more_once_it_is_there(reply: Reply, limit: float) -> None:
    deltas = []
    async with LlmServer(reply) as server:
        endpoint = Endpoint(ORIGIN, server.url + "/v1", deadlines=Deadlines(first=limit))
        async with aclosing(OpenAICompatProvider(ProviderInfo("v", "m"), endpoint)) as provider:
            async for delta in provider.stream(ASK):
                deltas.append(delta)
                await asyncio.sleep(1.2 * limit)  # a slow reader
    assert isinstance(deltas[-1], Completed)


async def test_errors_inside_a_stream_keep_what_was_said() -> None:
    broken = chat_event({"content": ""}, "error", error={"code": 502, "message": "provider went away"})
    with pytest.raises(ProviderError) as caught:
        await chat([OK, broken])
    assert (caught.value.kind, caught.value.partial, caught.value.status) == ("server", "ok", 502)
    for raw in ('event: error\ndata: {"message": "went away"}\n\n', '{"error": "went away"}'):
        with pytest.raises(ProviderError, match="went away"):
            await chat([OK, raw] if "event" in raw else [raw])


async def test_an_answer_without_end_breaks_off_at_16_mb() -> None:
    with pytest.raises(ProviderError, match="the answer is larger than 16 MB"):
        await chat([said(content="x" * 4_000_000)] * 5)


@table("kind path", (OpenAICompatProvider, "/v1"), (AnthropicProvider, ""))
@table("name sent", ("functions.web search", "functions_web_search"), ("", "_"), ("工具", "__"), ("x" * 99, "x" * 64))
async def test_a_name_that_no_server_takes_goes_back_as_one_that_each_takes(
    kind: type[OpenAICompatProvider] | type[AnthropicProvider], path: str, name: str, sent: str
) -> None:
    made = (AssistantMessage((ToolCall("t", name),)), ToolMessage("t", name, (Text("x"),)))
    async with LlmServer("ok") as server:
        provider = kind(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + path))
        assert [delta async for delta in provider.stream(Request((*ASK.messages, *made)))]
        await provider.aclose()
    found = set(re.findall(r'"name":"([^"]*)"', server.requests[0].raw.decode()))
    assert found == {sent}


async def test_a_stream_cut_behind_its_finish_reason_is_complete() -> None:
    async with LlmServer(Reply(raw=[OK, STOP, DONE], stop_after=2)) as server:
        provider = OpenAICompatProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + "/v1"))
        deltas = [delta async for delta in provider.stream(ASK)]
        await provider.aclose()
    assert isinstance(deltas[-1], Completed)


async def _second_body(vendor: str, first: list[bytes | str]) -> dict[str, object]:
    """What is sent back after an answer `first` with a call."""
    async with LlmServer(Reply(raw=first), "ok") as server:
        info = ProviderInfo(vendor, "anthropic/m" if vendor == "openrouter" else "m")
        provider = OpenAICompatProvider(info, Endpoint(ORIGIN, server.url + "/v1"), BY_NAME[vendor].quirks)
        done = [delta async for delta in provider.stream(ASK)][-1]
        assert isinstance(done, Completed)
        result = ToolMessage(done.message.calls[0].id, "web_search", (Text("found"),))
        again = Request((*ASK.messages, done.message, result), tools=TOOLS)
        assert [delta async for delta in provider.stream(again)]
        await provider.aclose()
    messages = server.requests[1].messages
    assistant = messages[1]
    assert isinstance(assistant, dict)
    return assistant


THOUGHT = "hm \u2028 漢\n  "
CALL_END: list[bytes | str] = [
    said(tool_calls=[tool(SEARCH, index=0, id="call_a", name="web_search")]),
    chat_event({}, "tool_calls"),
]


@pytest.mark.parametrize("vendor", ["deepseek", "moonshot", "zhipu"])
async def test_reasoning_goes_back_byte_for_byte_where_it_must(vendor: str) -> None:
    assistant = await _second_body(
        vendor, [said(reasoning_content=THOUGHT[:3]), said(reasoning_content=THOUGHT[3:]), *CALL_END]
    )
    assert assistant["reasoning_content"] == THOUGHT


async def test_reasoning_details_go_back_unchanged_to_openrouter_only() -> None:
    details = [
        {"type": "reasoning.text", "text": THOUGHT, "signature": "s", "format": "f", "index": 0},
        {"type": "reasoning.encrypted", "data": "abc", "id": "r1", "index": 1},
    ]
    parts = [
        said(reasoning_details=[{"type": "reasoning.text", "text": THOUGHT[:2], "format": "f", "index": 0}]),
        said(reasoning_details=[{"type": "reasoning.text", "text": THOUGHT[2:], "signature": "s", "index": 0}]),
        said(reasoning_details=[details[1]]),
    ]
    assert (await _second_body("openrouter", [*parts, *CALL_END]))["reasoning_details"] == details
    assert "reasoning_details" not in await _second_body("mistral", [*parts, *CALL_END])


async def test_thought_signatures_go_back_to_gemini() -> None:
    extra = {"google": {"thought_signature": "c2ln"}}
    signed = said(tool_calls=[tool(SEARCH, index=0, id="a", name="web_search", extra_content=extra)])
    for first, want in ((signed, "c2ln"), (CALL_END[0], "skip_thought_signature_validator")):
        assistant = await _second_body("gemini", [first, CALL_END[1]])
        assert f'"thought_signature": "{want}"' in json.dumps(assistant)


async def test_mistral_gets_short_ids_for_call_and_answer() -> None:
    assistant = await _second_body("mistral", CALL_END)
    identity = json.loads(json.dumps(assistant))["tool_calls"][0]["id"]
    assert len(identity) == 9
    assert identity.isalnum()


async def test_a_field_that_the_server_does_not_know_is_left_out_from_then_on() -> None:
    refused = Reply(status=400, body={"error": {"message": "Unknown parameter: stream_options"}})
    async with LlmServer(refused, "ok", "ok") as server:
        provider = OpenAICompatProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + "/v1"))
        for _ in range(2):
            assert [delta async for delta in provider.stream(ASK)]
        await provider.aclose()
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


async def messages(raw: Iterable[bytes | str]) -> AssistantMessage:
    async with LlmServer(Reply(raw=raw)) as server, asyncio.timeout(120):
        provider = AnthropicProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url))
        deltas = [delta async for delta in provider.stream(ASK)]
        await provider.aclose()
    last = deltas[-1]
    assert isinstance(last, Completed)
    return last.message


def block(index: int, start: dict[str, object], *deltas: dict[str, object]) -> bytes:
    parts = [messages_event("content_block_start", index=index, content_block=start)]
    parts += [messages_event("content_block_delta", index=index, delta=delta) for delta in deltas]
    return b"".join([*parts, messages_event("content_block_stop", index=index)])


def stopped(reason: str, **usage: object) -> bytes:
    return messages_event("message_delta", delta={"stop_reason": reason}, usage=usage) + messages_event("message_stop")


#: The arguments of a call, once more and in pieces.
TOLD_AGAIN: list[dict[str, object]] = [
    {"type": "input_json_delta", "partial_json": piece} for piece in ("", '{"query":', '"x"}')
]
MESSAGE_OK = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "ok"})


@table(
    "reason finish",
    ("end_turn", "stop"),
    ("stop_sequence", "stop"),
    ("max_tokens", "length"),
    ("refusal", "filtered"),
    ("model_context_window_exceeded", "overflow"),
    ("pause_turn", "pause"),
    ("news", "other"),
)
async def test_every_stop_reason_of_messages_has_our_word(reason: str, finish: str) -> None:
    assert (await messages([MESSAGE_OK, stopped(reason)])).finish == finish


async def test_messages_usage_is_merged_and_a_zero_undoes_nothing() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 1}
    start = messages_event("message_start", message={"model": "claude", "usage": usage})
    message = await messages([start, MESSAGE_OK, stopped("end_turn", input_tokens=0, output_tokens=7)])
    assert message.usage == Usage(input=18, output=7, cached=5, cache_write=3, requests=1)
    assert message.model == "claude"


async def test_thinking_blocks_are_kept_in_order_and_unknown_ones_ignored() -> None:
    message = await messages(
        [
            block(
                0,
                {"type": "thinking", "thinking": ""},
                {"type": "thinking_delta", "thinking": THOUGHT},
                {"type": "signature_delta", "signature": "ab"},
                {"type": "signature_delta", "signature": "c="},
            ),
            block(1, {"type": "redacted_thinking", "data": "xyz"}),
            block(2, {"type": "server_tool_use", "id": "s"}, {"type": "input_json_delta", "partial_json": "{"}),
            messages_event("news"),
            block(3, {"type": "text", "text": "o"}, {"type": "citations_delta"}, {"type": "text_delta", "text": "k"}),
            block(4, {"type": "tool_use", "id": "t", "name": "web_search", "input": {"query": "x"}}, *TOLD_AGAIN),
            block(4, {"type": "tool_use", "id": "t", "name": "web_search"}, *TOLD_AGAIN),
            block(4, {"type": "tool_use", "id": "u", "name": "web_fetch", "input": {}}),
            block(4, {"type": "text", "text": "!"}),
            stopped("tool_use"),
        ]
    )
    thoughts = [json.loads(part.replay) for part in message.content if isinstance(part, Thinking)]
    assert thoughts == [
        {"type": "thinking", "thinking": THOUGHT, "signature": "abc="},
        {"type": "redacted_thinking", "data": "xyz"},
    ]
    assert message.text == "ok!"
    assert message.calls == (ToolCall("t", "web_search", '{"query":"x"}'), ToolCall("u", "web_fetch"))


async def test_messages_leave_out_what_a_model_refuses_and_keep_to_its_longest_answer() -> None:
    refusals = ("`temperature` is deprecated for this model.", "max_tokens: 8192 > 4096, which is the maximum")
    replies = [Reply(status=400, body={"error": {"type": "invalid_request_error", "message": m}}) for m in refusals]
    async with LlmServer(*replies, "ok", "ok") as server:
        provider = AnthropicProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url))
        for _ in range(2):
            assert [delta async for delta in provider.stream(replace(ASK, temperature=0.5))]
        await provider.aclose()
    assert ["temperature" in request.body for request in server.requests] == [True, False, False, False]
    assert [request.body["max_tokens"] for request in server.requests] == [8192, 8192, 4096, 4096]


async def test_a_history_with_calls_defines_its_tools_even_when_none_may_be_called() -> None:
    history = (
        *ASK.messages,
        AssistantMessage((ToolCall("t", "web_search"),)),
        ToolMessage("t", "web_search", (Text("x"),)),
    )
    async with LlmServer("ok") as server:
        provider = AnthropicProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url))
        assert [delta async for delta in provider.stream(Request(history))]
        await provider.aclose()
    assert server.requests[0].body["tool_choice"] == {"type": "none"}
    assert '"name": "web_search"' in json.dumps(server.requests[0].body["tools"])


async def test_a_model_may_think_longer_before_its_first_word_than_between_two() -> None:
    limits = Deadlines(first=5.0, idle=0.2)
    async with LlmServer(Reply("ok", delay=0.5)) as server:
        provider = OpenAICompatProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + "/v1", {}, limits))
        assert [delta async for delta in provider.stream(ASK)]
        await provider.aclose()


@pytest.mark.parametrize(("kind", "path"), [(OpenAICompatProvider, "/v1"), (AnthropicProvider, "")])
async def test_one_connection_serves_request_after_request_and_two_serve_those_at_the_same_time(
    kind: type[OpenAICompatProvider] | type[AnthropicProvider], path: str
) -> None:
    async with LlmServer(after=Reply("ok", delay=0.05)) as server:
        provider = kind(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + path))

        async def ask() -> None:
            assert [delta async for delta in provider.stream(ASK)]

        for _ in range(3):
            await ask()
        assert server.server.connections == 1
        await asyncio.gather(ask(), ask())
        await ask()
        assert server.server.connections == 2
        await provider.aclose()


@table(
    "vendor model effort want",
    ("openai", "gpt-5.6", "xhigh", {"reasoning_effort": "xhigh"}),
    ("groq", "openai/gpt-oss-120b", "max", {"reasoning_effort": "high"}),
    ("openrouter", "x/y", "max", {"reasoning": {"effort": "xhigh"}}),
    ("deepseek", "deepseek-chat", "none", {"thinking": {"type": "disabled"}}),
    ("moonshot", "kimi-k3", "none", {"reasoning_effort": "low"}),
    ("dashscope", "qwen-plus", "high", {"enable_thinking": True}),
    ("vllm", "qwen3", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("mistral", "mistral-medium-latest", "low", {"reasoning_effort": "high"}),
    ("mistral", "magistral-medium", "low", {}),
    ("minimax", "MiniMax-M2", None, {"reasoning_split": True}),
    ("openai", "gpt-5.6", None, {}),
)
async def test_reasoning_effort_is_said_in_the_vendors_way(
    vendor: str, model: str, effort: ReasoningEffort | None, want: dict[str, object]
) -> None:
    plain = {"model", "stream", "stream_options", "tools", "messages"}
    async with LlmServer("ok") as server:
        endpoint = Endpoint(ORIGIN, server.url + "/v1")
        provider = OpenAICompatProvider(ProviderInfo(vendor, model), endpoint, BY_NAME[vendor].quirks)
        assert [delta async for delta in provider.stream(replace(ASK, reasoning_effort=effort))]
        await provider.aclose()
    assert {name: value for name, value in server.requests[0].body.items() if name not in plain} == want


@table(
    "model effort want",
    ("claude-opus-4-7", "high", {"type": "adaptive", "display": "summarized"}),
    ("claude-sonnet-4-5-20250929", "low", {"type": "enabled", "budget_tokens": 2048}),
    ("claude-sonnet-4-5-20250929", "none", None),
    ("claude-opus-4-7", "none", None),
    ("claude-opus-4-7", None, None),
)
async def test_claude_thinks_adaptively_from_4_6_on_and_by_budget_before(
    model: str, effort: ReasoningEffort | None, want: object
) -> None:
    async with LlmServer("ok") as server:
        provider = AnthropicProvider(ProviderInfo("v", model), Endpoint(ORIGIN, server.url))
        assert [delta async for delta in provider.stream(replace(ASK, reasoning_effort=effort, temperature=0.5))]
        await provider.aclose()
    body = server.requests[0].body
    assert body.get("thinking") == want
    assert ("temperature" in body) is (want is None)


async def test_a_proxy_that_cannot_be_used_is_named_and_the_server_is_not_asked_without_it() -> None:
    proxies = Proxies(env={"ALL_PROXY": "socks4://127.0.0.1:9"})
    endpoint = Endpoint(ORIGIN, "http://model.example/v1", proxies=proxies)
    provider = OpenAICompatProvider(ProviderInfo("v", "m"), endpoint)
    with pytest.raises(
        ProviderError, match="The proxy in ALL_PROXY cannot be used: it begins with socks4://"
    ) as caught:
        _ = [delta async for delta in provider.stream(ASK)]
    assert not caught.value.retryable
    assert await list_models(endpoint) == []


async def test_models_are_asked_through_the_proxy_of_the_environment_and_send_no_cookies() -> None:
    async def answer(_request: HttpRequest, responder: Responder) -> None:
        await responder.json({"data": [{"id": "m-1"}], "choices": []}, headers=[("Set-Cookie", "who=ada; Path=/")])

    async with HttpServer(answer) as proxy:
        endpoint = Endpoint(ORIGIN, "http://model.example/v1", proxies=Proxies(env={"HTTP_PROXY": proxy.url}))
        assert await list_models(endpoint) == ["m-1"]
        link = Link(endpoint)
        for _ in range(2):
            assert [event async for event, _ in link.post("/models", b"{}")] == ["json"]
        await link.aclose()
    assert {request.target for request in proxy.requests} == {"http://model.example/v1/models"}
    assert not [request for request in proxy.requests if "cookie" in request.headers]


async def test_a_login_in_the_address_of_a_server_goes_along_as_one() -> None:
    async def answer(_request: HttpRequest, responder: Responder) -> None:
        await responder.json({"choices": []})

    async with HttpServer(answer) as server:
        link = Link(
            Endpoint(ORIGIN, server.url.replace("://", "://ada:p%40ss@"), headers={"Authorization": "Bearer k"})
        )
        assert [event async for event, _ in link.post("/chat", b"{}")] == ["json"]
        await link.aclose()
    said = server.requests[0].headers
    assert said["authorization"] == "Basic YWRhOnBAc3M="
    assert said["host"] == server.url.removeprefix("http://")


async def test_parts_of_one_message_stay_apart() -> None:
    async with LlmServer("ok") as server:
        provider = OpenAICompatProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + "/v1"))
        two = Request((UserMessage((Text("one"), Text("two"))),))
        assert [delta async for delta in provider.stream(two)]
        await provider.aclose()
    assert server.requests[0].messages == [{"role": "user", "content": "one\n\ntwo"}]


async def test_many_streams_at_once_do_not_mix() -> None:
    def echo(seen: LlmRequest) -> Reply:
        return Reply(Say(json.dumps(seen.messages), 3))

    async with LlmServer(after=echo) as server, asyncio.timeout(120):
        provider = OpenAICompatProvider(ProviderInfo("v", "m"), Endpoint(ORIGIN, server.url + "/v1"))

        async def one(number: int) -> bool:
            asked = Request((UserMessage((Text(f"<{number}>"),)),))
            last = [delta async for delta in provider.stream(asked)][-1]
            return isinstance(last, Completed) and f"<{number}>" in last.message.text

        assert all(await asyncio.gather(*map(one, range(50))))
        await provider.aclose()


@table(
    "module unused",
    ("base", "httpx"),
    ("scripted", "httpx"),
    ("vendors", "httpx"),
    ("registry", "nanobot.providers.anthropic"),
    ("registry", "nanobot.providers.openai_compat"),
)
def test_the_seam_the_data_and_the_choice_load_nothing_that_they_do_not_use(module: str, unused: str) -> None:
    code = f"import sys, nanobot.providers.{module}; sys.exit({unused!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120, check=False).returncode == 0
