"""Our models, request bodies and streams, judged by the types of the vendors' own SDKs."""

import importlib.util
import json
import re
from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from nanobot.config.schema import ProviderConfig
from nanobot.messages import Usage
from nanobot.providers.registry import ChoiceRequest, choose
from nanobot.providers.scripted import Call, Say, Think
from nanobot.providers.vendors import BY_NAME, family_of
from tests.contract.test_provider_contract import CONVERSATIONS, SPEC, WIRES, answer, ask, speaking
from tests.fakes.llm_server import LlmServer, Reply, chat_event, frames, messages_event
from tests.tables import table

# Every test imports `tests.providers.sdk` itself: collecting them must not load what takes seconds.
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openai") is None, reason="the development tools are older than pyproject.toml"
)
VENDORS = ("openai", "anthropic")
_UNKNOWN = family_of("a-model-nobody-knows").window


def drained(value: object) -> object:
    """`value` with every lazy list read to its end, which is when pydantic judges its items."""
    if isinstance(value, dict):
        return {key: drained(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [drained(inner) for inner in value]
    return value


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_default_model_is_one_that_the_vendor_offers_today(vendor: str) -> None:
    from tests.providers.sdk import NAMES

    assert BY_NAME[vendor].default_model in NAMES[vendor], "the default is gone: take the newest of the middle class"


@pytest.mark.parametrize("vendor", VENDORS)
def test_every_model_of_today_has_a_family_and_so_has_the_next_number(vendor: str) -> None:
    from tests.providers.sdk import NAMES

    assert len(NAMES[vendor]) > 10
    for name in NAMES[vendor]:
        assert family_of(name).pattern, f"{name} falls to the default window"


@table(
    "known next_one",
    ("gpt-6.2-sol", "gpt-7-sol"),
    ("gpt-6.2-sol", "gpt-10.1"),
    ("claude-sonnet-5-5", "claude-sonnet-12"),
    ("claude-opus-5-5", "claude-newline-6-1"),
    ("o4-mini", "o5-mini"),
    ("gemini-3-pro", "gemini-7-ultra"),
    ("deepseek-v4", "deepseek-v12"),
    ("kimi-k3", "kimi-k10"),
    ("glm-5", "glm-11"),
    ("qwen3.5-plus", "qwen11-plus"),
    ("grok-4", "grok-12"),
    ("llama4", "llama7"),
)
def test_a_number_not_known_yet_inherits_from_its_line(known: str, next_one: str) -> None:
    assert family_of(next_one) == family_of(known)
    assert family_of(next_one).window > _UNKNOWN


async def chosen_of(vendor: str, live: Iterable[str]) -> str:
    async with LlmServer() as server:
        server.models = [{"id": name} for name in live]
        provider = await choose(
            ChoiceRequest("", vendor, {vendor: ProviderConfig(api_key="k", api_base=server.url + "/v1")})
        )
        await provider.aclose()
    return provider.info.model


@table(
    "vendor newer best",
    ("openai", ("gpt-97-sol", "gpt-97-luna", "gpt-97-sol-2027-01-05", "gpt-audio-98"), "gpt-97-sol"),
    ("openai", ("gpt-97",), "gpt-97"),
    ("anthropic", ("claude-sonnet-96", "claude-haiku-97"), "claude-sonnet-96"),
)
async def test_the_model_of_no_choice_is_the_newest_of_the_middle_class(
    vendor: str, newer: tuple[str, ...], best: str
) -> None:
    from tests.providers.sdk import NAMES

    assert await chosen_of(vendor, (*NAMES[vendor], *newer)) == best
    today = await chosen_of(vendor, NAMES[vendor])
    middle = re.escape(BY_NAME[vendor].default_model)
    assert re.fullmatch(re.sub(r"\d+", r"\\d+", middle).replace("sol", "(sol|terra)"), today), today


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("wire", WIRES)
async def test_each_body_is_what_the_sdk_would_take(wire: str, name: str) -> None:
    from tests.providers.sdk import BODIES

    request = replace(CONVERSATIONS[name].request, system="Be kind.", tools=(SPEC,), max_tokens=50, session="s")
    async with LlmServer("ok") as server, speaking(wire, server) as provider:
        await ask(provider, request)
    body = json.loads(server.requests[0].raw)
    assert drained(BODIES[wire].validate_python(body)) == body, "a key that the SDK does not know"


@pytest.mark.parametrize("wire", WIRES)
async def test_the_fake_servers_speak_in_events_that_the_sdk_knows(wire: str) -> None:
    from tests.providers.sdk import EVENTS

    reply = Reply(Think("hm"), Say("yes", size=2), Call("web_search", {"query": "x"}, "id_1"), usage=Usage(input=9))
    async with LlmServer("ok") as server, speaking(wire, server) as provider:
        await ask(provider)
    seen = 0
    for frame in frames(reply, server.requests[0]):
        for line in frame.decode().splitlines() if isinstance(frame, bytes) else ():
            data = line.removeprefix("data:").strip()
            if line.startswith("data:") and data.startswith("{") and '"type": "ping"' not in data:
                EVENTS[wire].validate_json(data)
                seen += 1
    assert seen > 5


async def test_every_documented_block_and_delta_of_messages_is_read_over_or_used() -> None:
    from tests.providers.sdk import BLOCKS, DELTAS

    raw = [messages_event("message_start", message={"id": "m", "model": "fake", "usage": {"input_tokens": 3}})]
    for index, kind in enumerate(sorted(BLOCKS - {"text", "tool_use"})):
        raw.append(messages_event("content_block_start", index=index, content_block={"type": kind}))
        deltas = sorted(DELTAS - {"text_delta", "input_json_delta"})
        raw += [messages_event("content_block_delta", index=index, delta={"type": delta}) for delta in deltas]
        raw.append(messages_event("content_block_stop", index=index))
    raw += [
        messages_event("content_block_start", index=90, content_block={"type": "text", "text": ""}),
        messages_event("content_block_delta", index=90, delta={"type": "text_delta", "text": "the answer"}),
        messages_event("content_block_stop", index=90),
        messages_event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
        messages_event("message_stop"),
    ]
    async with LlmServer(Reply(raw=raw)) as server, speaking("messages", server) as provider:
        assert answer(await ask(provider)).text == "the answer"


async def test_every_documented_stop_reason_of_messages_ends_the_answer() -> None:
    from tests.providers.sdk import STOP_REASONS

    assert len(STOP_REASONS) > 3
    for reason in STOP_REASONS:
        raw = [
            messages_event("message_start", message={"id": "m", "model": "fake", "usage": {"input_tokens": 3}}),
            messages_event("content_block_start", index=0, content_block={"type": "text", "text": "yes"}),
            messages_event("content_block_stop", index=0),
            messages_event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 2}),
            messages_event("message_stop"),
        ]
        async with LlmServer(Reply(raw=raw)) as server, speaking("messages", server) as provider:
            assert answer(await ask(provider)).text == "yes", reason


async def test_every_documented_finish_reason_of_chat_ends_the_answer() -> None:
    from tests.providers.sdk import FINISH_REASONS

    assert len(FINISH_REASONS) > 3
    for reason in FINISH_REASONS:
        raw = [chat_event({"role": "assistant", "content": "yes"}), chat_event({}, reason), b"data: [DONE]\n\n"]
        async with LlmServer(Reply(raw=raw)) as server, speaking("chat", server) as provider:
            assert answer(await ask(provider)).text == "yes", reason
