"""Every provider over a real socket: one table of conversations (exact bodies), one table of failures."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from nanobot.agent.explanations import explain
from nanobot.errors import ProviderError, ProviderErrorKind
from nanobot.messages import (
    AssistantMessage,
    Completed,
    Delta,
    Finish,
    Media,
    Message,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolMessage,
    Usage,
    UserMessage,
)
from nanobot.providers.anthropic import AnthropicProvider
from nanobot.providers.base import Capabilities, LLMProvider, ProviderInfo, Request, ToolSpec, opened
from nanobot.providers.failures import Origin
from nanobot.providers.http import Deadlines, Endpoint
from nanobot.providers.openai_compat import OpenAICompatProvider
from nanobot.providers.scripted import Call, End, Say, Think
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply, ReplySource
from tests.tables import table

WIRES = ("chat", "messages")
KEY = "sk-very-secret-key"
SPEC = ToolSpec("web_search", "Search.", {"type": "object", "properties": {"query": {"type": "string"}}})
HI = UserMessage((Text("hi"),))
SIGNED = '{"type":"thinking","thinking":"hm","signature":"c2ln"}'
EPHEMERAL = {"type": "ephemeral"}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(
    wire: str, server: LlmServer, deadlines: Deadlines | None = None, *, vision: bool = True, pdf: bool = False
) -> LLMProvider:
    info = ProviderInfo(wire, "m", capabilities=Capabilities(vision=vision, pdf=pdf))
    origin = Origin("Vendor", "providers.vendor.apiKey", (KEY,))
    limits = deadlines or Deadlines(first=5, idle=5)
    if wire == "chat":
        endpoint = Endpoint(origin, server.url + "/v1", {"Authorization": f"Bearer {KEY}"}, limits)
        return OpenAICompatProvider(info, endpoint)
    return AnthropicProvider(info, Endpoint(origin, server.url, {"x-api-key": KEY}, limits))


@asynccontextmanager
async def speaking(
    wire: str, server: LlmServer, deadlines: Deadlines | None = None, *, vision: bool = True, pdf: bool = False
) -> AsyncIterator[LLMProvider]:
    provider = make(wire, server, deadlines, vision=vision, pdf=pdf)
    try:
        yield provider
    finally:
        await provider.aclose()


async def ask(provider: LLMProvider, request: Request | None = None) -> list[Delta]:
    async with asyncio.timeout(120):
        return [delta async for delta in provider.stream(request or Request((HI,)))]


def answer(deltas: list[Delta]) -> AssistantMessage:
    assert [isinstance(delta, Completed) for delta in deltas].count(True) == 1
    last = deltas[-1]
    assert isinstance(last, Completed)
    return last.message


@dataclass(frozen=True)
class Conversation:
    """A request and the `messages` it must become on both wires."""

    request: Request
    chat: list[object]
    messages: list[object]


def _marked(block: dict[str, object]) -> dict[str, object]:
    return {**block, "cache_control": EPHEMERAL}


def _t(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


_CALLED = AssistantMessage(
    (Thinking("hm", SIGNED, "messages"), Text("Let me look."), ToolCall("call_1", "web_search", '{"query": "x"}'))
)
_USED: tuple[Message, ...] = (HI, _CALLED, ToolMessage("call_1", "web_search", (Text("found"),)))
_CHAT_CALL = {"id": "call_1", "type": "function", "function": {"name": "web_search", "arguments": '{"query": "x"}'}}
_USE = {"type": "tool_use", "id": "call_1", "name": "web_search", "input": {"query": "x"}}

CONVERSATIONS = {
    "one question": Conversation(
        Request((HI,), tail="It is noon."),
        [{"role": "user", "content": "hi\n\nIt is noon."}],
        [{"role": "user", "content": [_marked(_t("hi")), _t("It is noon.")]}],
    ),
    "a tool call and its answer": Conversation(
        Request(_USED, tail="It is noon."),
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [_CHAT_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "found\n\nIt is noon."},
        ],
        [
            {"role": "user", "content": [_t("hi")]},
            {"role": "assistant", "content": [json.loads(SIGNED), _t("Let me look."), _USE]},
            {
                "role": "user",
                "content": [
                    _marked({"type": "tool_result", "tool_use_id": "call_1", "content": [_t("found")]}),
                    _t("It is noon."),
                ],
            },
        ],
    ),
    "a failed call, then steering text": Conversation(
        Request((*_USED[:2], ToolMessage("call_1", "web_search", (Text("Error: no"),), error="network"), HI)),
        [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [_CHAT_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Error: no"},
            {"role": "user", "content": "hi"},
        ],
        [
            {"role": "user", "content": [_t("hi")]},
            {"role": "assistant", "content": [json.loads(SIGNED), _t("Let me look."), _USE]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": [_t("Error: no")], "is_error": True},
                    _marked(_t("hi")),
                ],
            },
        ],
    ),
    "lone surrogates": Conversation(
        Request((UserMessage((Text("a\ud800b \u2028 漢"),)),)),
        [{"role": "user", "content": "ab \u2028 漢"}],
        [{"role": "user", "content": [_marked(_t("ab \u2028 漢"))]}],
    ),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_each_conversation_becomes_exactly_this_body(wire: str, name: str) -> None:
    case = CONVERSATIONS[name]
    request = replace(case.request, system="Be kind.", tools=(SPEC,), max_tokens=50, temperature=0.5, session="s")
    async with LlmServer("ok") as server, speaking(wire, server) as provider:
        await ask(provider, request)
    if wire == "chat":
        function = {"name": "web_search", "description": "Search.", "parameters": SPEC.schema}
        want: dict[str, object] = {
            "model": "m",
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": 50,
            "temperature": 0.5,
            "tools": [{"type": "function", "function": function}],
            "messages": [{"role": "system", "content": "Be kind."}, *case.chat],
        }
    else:
        want = {
            "model": "m",
            "stream": True,
            "max_tokens": 50,
            "temperature": 0.5,
            "tools": [{"name": "web_search", "description": "Search.", "input_schema": SPEC.schema}],
            "system": [_marked(_t("Be kind."))],
            "messages": case.messages,
        }
    sent = server.requests[0]
    assert sent.raw == json.dumps(want, ensure_ascii=False, separators=(",", ":")).encode()
    assert sent.path == ("/v1/chat/completions" if wire == "chat" else "/v1/messages")


async def test_N42_images_are_read_from_their_files_or_named_in_plain_words(wire: str, tmp_path: Path) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"\x89PNG")
    data = base64.b64encode(b"\x89PNG").decode()
    gone = Media(str(tmp_path / "no.png"), "image/png", "no.png")
    request = Request((UserMessage((Text("what?"), Media(str(picture), "image/png", "cat.png"), gone)),))
    async with LlmServer(after="ok") as server:
        async with speaking(wire, server) as provider:
            await ask(provider, request)
        async with speaking(wire, server, vision=False) as provider:
            await ask(provider, request)
    seen, blind = (entry.raw.decode() for entry in server.requests)
    assert (f"data:image/png;base64,{data}" if wire == "chat" else f'"data":"{data}"') in seen
    assert "[image: no.png, the file is gone]" in seen
    assert data not in blind
    assert "[image: cat.png, cannot be viewed by this model]" in blind


async def test_W05_a_pdf_without_text_goes_to_models_that_read_pdf_and_is_named_to_others(
    wire: str, tmp_path: Path
) -> None:
    scan = tmp_path / "scan.pdf"
    scan.write_bytes(b"%PDF-")
    data = base64.b64encode(b"%PDF-").decode()
    parts = (Media(str(scan), "application/pdf", "scan.pdf", inline=True),)
    asked = ToolCall("call_1", "web_fetch", "{}")
    request = Request(
        (UserMessage((Text("read"),)), AssistantMessage((asked,)), ToolMessage("call_1", "web_fetch", parts))
    )
    for pdf in (True, False):
        async with LlmServer(after="ok") as server, speaking(wire, server, pdf=pdf) as provider:
            await ask(provider, request)
            sent = server.requests[0].raw.decode()
        assert (data in sent) is pdf
        assert ("cannot be viewed by this model" in sent) is not pdf
        assert ('"type":"document"' in sent) is (pdf and wire == "messages")
        assert ('"type":"file"' in sent) is (pdf and wire == "chat")


async def test_request_n_is_a_prefix_of_request_n_plus_one_up_to_the_tail(wire: str) -> None:
    async with LlmServer(after="ok") as server, speaking(wire, server) as provider:
        history: list[Message] = []
        for number in range(6):
            history += [UserMessage((Text(f"question {number}"),))]
            tail = f"The time is {number}."
            await ask(provider, Request(tuple(history), "system", tail, (SPEC,)))
            history += [_CALLED, ToolMessage("call_1", "web_search", (Text(f"answer {number}"),))]
    for first, second in zip(server.requests, server.requests[1:], strict=False):
        text = first.raw.decode()
        end = text.rindex(',"cache_control"') if wire == "messages" else text.rindex("\\n\\nThe time is")
        assert second.raw.decode().startswith(text[:end])


async def test_an_answer_with_thinking_text_and_calls_arrives_in_pieces_and_whole(wire: str) -> None:
    reply = Reply(
        Think("hm"),
        Say("漢字 and more", size=2),
        Call("web_search", {"query": "naïve"}, "id_1"),
        Call("web_fetch", {}, "id_2"),
        usage=Usage(input=100, output=7, cached=60),
        headers=[("request-id", "req-7")],
    )
    async with LlmServer(reply) as server, speaking(wire, server) as provider:
        deltas = await ask(provider)
    message = answer(deltas)
    assert message.text == "漢字 and more" == "".join(d.text for d in deltas if isinstance(d, TextDelta))
    assert "".join(d.text for d in deltas if isinstance(d, ThinkingDelta)) == "hm"
    assert [(call.id, call.name, json.loads(call.arguments or "{}"), call.error) for call in message.calls] == [
        ("id_1", "web_search", {"query": "naïve"}, ""),
        ("id_2", "web_fetch", {}, ""),
    ]
    pieces = [d.arguments for d in deltas if isinstance(d, ToolCallDelta) and d.slot == 0]
    assert "".join(pieces) == message.calls[0].arguments
    assert message.finish == "tools"
    assert message.model == "fake"
    assert message.usage == Usage(input=100, output=7, cached=60, requests=1)
    assert isinstance(deltas[-1], Completed)


@dataclass(frozen=True)
class Failure:
    """What the server does, and the error it must become. `says` is what a person reads, `partial` the text kept."""

    reply: ReplySource
    kind: ProviderErrorKind
    says: str = ""
    retry_after: float | None = None
    window: int | None = None
    partial: str = ""
    retryable: bool | None = None


def refuse(status: int, message: str, headers: tuple[tuple[str, str], ...] = (), **fields: object) -> Reply:
    return Reply(status=status, body={"error": {"message": message, **fields}}, headers=headers)


def half(then: Literal["reset", "close", "hang"]) -> Callable[[LlmRequest], Reply]:
    """An answer that ends after its first piece of text."""

    def reply(seen: LlmRequest) -> Reply:
        return Reply("half of it", "rest", stop_after=2 if seen.wire == "chat" else 4, then=then)

    return reply


FAILURES = {
    "cut mid-stream": Failure(half("reset"), "truncated", "broke off", partial="half of it"),
    "clean end mid-stream": Failure(half("close"), "truncated", "before the answer", partial="half of it"),
    "reset before headers": Failure(Reply("x", stop_after=-1), "network", "connection", retryable=True),
    "nothing but a header": Failure(Reply(raw=[]), "truncated", retryable=True),
    "nothing but a comment": Failure(Reply(body=": ping\n\n", content_type="text/plain"), "truncated", retryable=True),
    "429 with Retry-After": Failure(
        refuse(429, "slow down", (("Retry-After", "1"),)), "rate_limit", "Wait 1 s and", 1.0, retryable=True
    ),
    "429 with an hour": Failure(refuse(429, "slow", (("Retry-After", "3600"),)), "rate_limit", retry_after=3600.0),
    "429 in milliseconds": Failure(refuse(429, "slow", (("retry-after-ms", "250"),)), "rate_limit", retry_after=0.25),
    "429 told in words": Failure(refuse(429, "please try again in 5.289s."), "rate_limit", retry_after=5.289),
    "429 without credit": Failure(refuse(429, "no", code="insufficient_quota"), "quota", "credit", retryable=False),
    "429 Moonshot quota": Failure(refuse(429, "no", type="exceeded_current_quota_error"), "quota"),
    "429 Z.ai quota": Failure(refuse(429, "no", code="1113"), "quota"),
    "429 Z.ai rate": Failure(refuse(429, "no", code="1302"), "rate_limit"),
    "402": Failure(refuse(402, "pay"), "quota"),
    "402 with Retry-After": Failure(refuse(402, "wait", (("Retry-After", "2"),)), "rate_limit", retry_after=2.0),
    "401": Failure(refuse(401, f"bad key {KEY}"), "auth", "providers.vendor.apiKey", retryable=False),
    "400 Google key": Failure(refuse(400, "bad", details=[{"reason": "API_KEY_INVALID"}]), "auth"),
    "403 moderated": Failure(refuse(403, "no", metadata={"reasons": ["x"]}), "filtered"),
    "404": Failure(refuse(404, "no such model", code="model_not_found"), "not_found"),
    "408": Failure(refuse(408, "late"), "server", retryable=True),
    "500": Failure(refuse(500, "oops"), "server", retryable=True),
    "500 not to be repeated": Failure(refuse(500, "oops", (("x-should-retry", "false"),)), "bad_request"),
    "502 in HTML": Failure(
        Reply(status=502, body="<html><title>502: bad way</title><p>no"),
        "server",
        "(HTTP 502: 502: bad way).",
        retryable=True,
    ),
    "400 of Ollama": Failure(
        refuse(400, "library/gemma3:1b does not support tools"), "no_tools", "takes tools with /model"
    ),
    "404 of OpenRouter": Failure(refuse(404, "No endpoints found that support tool use."), "no_tools"),
    "500 of llama.cpp": Failure(refuse(500, "tools param requires --jinja flag"), "no_tools", "--jinja flag"),
    "503": Failure(refuse(503, "busy"), "overloaded", retryable=True),
    "529": Failure(refuse(529, "busy", type="overloaded_error"), "overloaded", retryable=True),
    "a redirect": Failure(Reply(status=307, body="moved", headers=[("Location", "/v2")]), "bad_request", "on to /v2"),
    "429 that speaks of length": Failure(refuse(429, "reduce the length of the messages"), "rate_limit"),
    "a page instead of a stream": Failure(
        Reply(body="<html>hi</html>", content_type="text/html"), "protocol", "got text/html: …"
    ),
    "an error instead of a stream": Failure(
        Reply(body={"error": {"message": "busy", "code": 503}}), "overloaded", retryable=True
    ),
    "an error within the stream": Failure(
        Reply(raw=['data: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n']), "overloaded"
    ),
    "no JSON in the stream": Failure(Reply(raw=["data: {nope\n\n"]), "protocol", "{nope"),
    "number that looks like a status": Failure(
        refuse(400, "prompt is too long: 205000 tokens > 200000 maximum"), "overflow", window=200_000
    ),
}

OVERFLOWS: dict[str, tuple[str, dict[str, object], int | None]] = {
    "OpenAI": ("This model's maximum context length is 8192 tokens.", {"code": "context_length_exceeded"}, 8192),
    "Gemini": ("The input token count (9) exceeds the maximum number of tokens allowed (1048576).", {}, 1_048_576),
    "xAI": ("This model's maximum prompt length is 131072 but", {}, 131_072),
    "Groq": ("Please reduce the length of the messages or completion.", {}, None),
    "llama.cpp": (
        "request exceeds the available context size",
        {"type": "exceed_context_size_error", "n_ctx": 4096},
        4096,
    ),
    "LM Studio": ("number of tokens is greater than the context length (only 4096 tokens)", {}, None),
    "Ollama": ("the input length exceeds the context length", {}, None),
    "Kimi": ("Your request exceeded model token limit: 262144", {}, 262_144),
    "MiniMax": ("context window exceeds limit (2013)", {}, 2013),
    "Mistral": ("Prompt contains 9 tokens, too large for model with 32768 maximum context length", {}, 32_768),
    "Alibaba": ("Range of input length should be [1, 30720]", {}, 30_720),
    "Zhipu": ("Prompt exceeds max length", {"code": "1261"}, None),
    "Bedrock": ("Input is too long for requested model.", {}, None),
    "vLLM": ("maximum context length is 2048 tokens. However, your request has 8", {"param": "input_tokens"}, 2048),
    "VolcEngine": ("Total tokens of image and text exceed max message tokens", {}, None),
    "Cerebras": ("Current length is 9000 while limit is 8192", {}, 8192),
    "Anthropic's room for the answer": (
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
        {"type": "invalid_request_error"},
        200_000,
    ),
    "vLLM's decoder": ("The decoder prompt (length 9) is longer than the maximum model length of 4096.", {}, 4096),
    "vLLM's input": ("However, the model's context length is only 40960 tokens, resulting in", {}, 40_960),
    "LM Studio's load": ("However, the model is loaded with context length of only 4096 tokens, which", {}, 4096),
    "Together": (
        "`inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`",
        {},
        8193,
    ),
    "SiliconFlow": ("length of prompt_tokens (40000) must be less than max_seq_len (32768).", {}, 32_768),
    "SGLang": ("The input (9 tokens) is longer than the model's context length (8192 tokens).", {}, 8192),
}
FAILURES |= {
    f"overflow by {vendor}": Failure(
        Reply(status=400, body={"error": {"message": words, **fields}}), "overflow", window=window, retryable=False
    )
    for vendor, (words, fields, window) in OVERFLOWS.items()
}


@pytest.mark.parametrize("name", FAILURES)
async def test_each_failure_becomes_one_provider_error(wire: str, name: str) -> None:
    case = FAILURES[name]
    async with LlmServer(after=case.reply) as server, speaking(wire, server) as provider:
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
    error = caught.value
    assert error.kind == case.kind, str(error)
    assert case.says in explain(error, provider.info)
    assert str(error).startswith("Vendor: ")
    assert KEY not in str(error) + repr(error)
    assert error.retry_after == case.retry_after
    assert error.window == case.window
    assert error.partial == case.partial
    if case.retryable is not None:
        assert error.retryable is case.retryable


@pytest.mark.parametrize("said", [Reply(), Reply("  \n")])
async def test_an_answer_that_says_nothing_comes_with_what_it_cost(wire: str, said: Reply) -> None:
    async with LlmServer(said) as server, speaking(wire, server) as provider:
        message = answer(await ask(provider))
    assert message.empty
    assert (message.usage.input, message.usage.output) == (100, 10)


@table("finish reason", ("length", "length limit"), ("filtered", "stopped the answer"))
async def test_a_call_that_may_be_damaged_is_never_runnable(wire: str, finish: Finish, reason: str) -> None:
    reply = Reply(Call("web_search", {"query": "x"}), End(finish))
    async with LlmServer(reply) as server, speaking(wire, server) as provider:
        assert reason in answer(await ask(provider)).calls[0].error


async def test_silence_runs_into_the_first_and_the_idle_deadline(wire: str) -> None:
    none = Deadlines(first=0.15, idle=30)
    async with LlmServer(Reply("x", stop_after=0, then="hang")) as server, speaking(wire, server, none) as provider:
        with pytest.raises(ProviderError) as first:
            await ask(provider)
    stall = Deadlines(first=30, idle=0.15)
    async with LlmServer(half("hang")) as server, speaking(wire, server, stall) as provider:
        with pytest.raises(ProviderError) as idle:
            await ask(provider)
    assert first.value.kind == "timeout"
    assert idle.value.kind == "truncated"
    assert idle.value.partial == "half of it"


async def _break_off(provider: LLMProvider) -> None:
    async with opened(provider.stream(Request((HI,)))) as deltas:
        async for _ in deltas:
            break


async def _cancel(provider: LLMProvider) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in provider.stream(Request((HI,))):
            begun.set()

    task = asyncio.ensure_future(read())
    await asyncio.wait_for(begun.wait(), 120)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("leave", [_break_off, _cancel])
async def test_who_leaves_a_stream_closes_it(wire: str, leave: Callable[[LLMProvider], asyncio.Future[None]]) -> None:
    async with LlmServer(Reply("a", "b", stop_after=4, then="hang")) as server, speaking(wire, server) as provider:
        await leave(provider)
        await server.server.all_closed(2)
