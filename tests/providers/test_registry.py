import asyncio
import json
import socket
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from nanobot.agent.explanations import explain
from nanobot.config.schema import ProviderConfig
from nanobot.errors import ProviderError, UsageError
from nanobot.messages import Completed, Delta, Text, UserMessage
from nanobot.providers import local, vendors
from nanobot.providers.base import LLMProvider, Request
from nanobot.providers.registry import ChoiceRequest, choose, judge_offer, offered
from nanobot.providers.retry import RetryPolicy
from nanobot.providers.scripted import ScriptedProvider
from nanobot.providers.vendors import BY_NAME, VENDORS, Vendor, vendor_of
from tests.fakes.llm_server import LlmServer, Reply
from tests.tables import table

ASK = Request((UserMessage((Text("hi"),)),))
NOWHERE: Mapping[str, str] = {}
KEY = ProviderConfig(api_key="sk-secret")


@pytest.fixture(autouse=True)
def forget() -> None:
    local._known.clear()


async def say(provider: LLMProvider) -> list[Delta]:
    try:
        async with asyncio.timeout(120):
            return [delta async for delta in provider.stream(ASK)]
    finally:
        await provider.aclose()


async def chosen(request: ChoiceRequest) -> tuple[str, str, str]:
    provider = await choose(request)
    await provider.aclose()
    return provider.info.name, provider.info.model, provider.info.chosen_because


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.name)
async def test_every_vendor_is_chosen_by_its_name_and_by_a_prefix(vendor: Vendor) -> None:
    entry = vendor_of(vendor.name)
    assert entry == vendor
    there = ProviderConfig(api_key="sk-secret", api_base=entry.base_url or "http://127.0.0.1:1/v1")
    keys = {entry.name: there}
    named = await chosen(ChoiceRequest("some-model", entry.name, keys, local_roots=NOWHERE))
    assert named[:2] == (entry.name, "some-model")
    prefixed = await chosen(ChoiceRequest(f"{entry.name}/some/model", credentials=keys, local_roots=NOWHERE))
    assert prefixed[:2] == (entry.name, "some/model")


@table(
    "vendor base model free",
    ("ollama", "", "qwen3:8b", True),
    ("ollama", "", "gpt-oss:120b-cloud", False),
    ("ollama", "https://ollama.example.com/v1", "qwen3:8b", False),
    ("custom", "http://192.168.1.5:8000/v1", "qwen3", True),
    ("custom", "https://models.example.com/v1", "qwen3", False),
    ("anthropic", "http://127.0.0.1:9/v1", "claude-sonnet-5-5", False),
)
async def test_a_model_costs_nothing_where_a_server_of_the_owners_own_runs_it(
    vendor: str, base: str, model: str, free: bool
) -> None:
    held = ProviderConfig(api_key="sk-secret", api_base=base or BY_NAME[vendor].base_url)
    provider = await choose(ChoiceRequest(model, vendor, {vendor: held}, local_roots=NOWHERE))
    await provider.aclose()
    assert provider.info.local is free


def test_the_table_of_vendors_holds_what_its_types_say() -> None:
    raw = json.loads(Path(vendors.__file__).with_name("vendors.json").read_text(encoding="utf-8"))
    assert msgspec.convert(raw["vendors"], tuple[Vendor, ...]) == VENDORS
    assert {key for row in raw["vendors"] for key in row} <= set(Vendor.__struct_fields__)
    assert len(BY_NAME) == len(VENDORS)
    assert set(raw["aliases"].values()) <= BY_NAME.keys()


@table(
    "model keys want",
    ("claude-sonnet-4-6", ("openai", "anthropic"), ("anthropic", "claude-sonnet-4-6")),
    ("gpt-5.6", ("anthropic", "openai"), ("openai", "gpt-5.6")),
    ("kimi-k3", ("moonshot",), ("moonshot", "kimi-k3")),
    ("openrouter/anthropic/claude-opus-4.6", ("openrouter",), ("openrouter", "anthropic/claude-opus-4.6")),
    ("anthropic/claude-opus-4.6", ("openrouter",), ("openrouter", "anthropic/claude-opus-4.6")),
    ("anthropic/claude-opus-4-6", ("openrouter", "anthropic"), ("anthropic", "claude-opus-4-6")),
    ("google/gemini-3-flash", ("gemini",), ("gemini", "gemini-3-flash")),
    ("llama-3.3-70b-versatile", ("groq",), ("groq", "llama-3.3-70b-versatile")),
)
async def test_the_model_name_selects_the_vendor(model: str, keys: tuple[str, ...], want: tuple[str, str]) -> None:
    request = ChoiceRequest(model, credentials=dict.fromkeys(keys, KEY), local_roots=NOWHERE)
    assert (await chosen(request))[:2] == want


async def test_a_key_in_the_configuration_goes_before_one_in_the_environment() -> None:
    async with LlmServer() as server:
        server.models = [{"id": name} for name in ("gpt-5.2", "gpt-5.10", "gpt-5.10-2026-10-01", "gpt-5-mini")]
        at = ProviderConfig(api_key="sk-secret", api_base=server.url + "/v1")
        env = {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url}
        name, model, because = await chosen(ChoiceRequest(credentials={"openai": at}, env=env))
        assert (name, model) == ("openai", "gpt-5.10")
        assert "providers.openai" in because
        name, model, because = await chosen(ChoiceRequest(env=env, local_roots=NOWHERE))
        assert (name, model) == ("anthropic", BY_NAME["anthropic"].default_model)
        assert "ANTHROPIC_API_KEY" in because


async def test_keys_travel_in_headers_only_and_extra_headers_go_along() -> None:
    async with LlmServer(after="ok") as server:
        for vendor, header, value in (
            ("openai", "authorization", "Bearer sk-secret"),
            ("anthropic", "x-api-key", "sk-secret"),
        ):
            there = ProviderConfig(api_key="sk-secret", api_base=server.url, extra_headers={"X-Extra": "1"})
            provider = await choose(ChoiceRequest("m", vendor, {vendor: there}))
            assert "sk-secret" not in f"{provider.info!r} {there!r}"
            await say(provider)
            sent = server.requests[-1]
            assert sent.headers[header] == value
            assert sent.headers["x-extra"] == "1"
            assert b"sk-secret" not in sent.raw
            assert "sk-secret" not in sent.path
    assert server.requests[-1].headers["anthropic-version"] == "2023-06-01"


@table(
    "request_ says",
    (ChoiceRequest(provider="antropic"), "Did you mean 'anthropic'"),
    (ChoiceRequest(provider="openai", model="gpt-5.6"), "OPENAI_API_KEY"),
    (ChoiceRequest(model="claude-sonnet-4-6"), "ANTHROPIC_API_KEY"),
    (ChoiceRequest(model="wonder-1", local_roots=NOWHERE), "vendor/model"),
    (ChoiceRequest(provider="custom"), "apiBase"),
    (ChoiceRequest(local_roots=NOWHERE), "no key is set"),
)
async def test_what_cannot_be_chosen_is_said_with_the_way_out(request_: ChoiceRequest, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        await chosen(request_)


async def test_without_key_and_server_the_last_resort_answers() -> None:
    last = ScriptedProvider(["lookup"])
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        roots = {"ollama": f"http://127.0.0.1:{closed.getsockname()[1]}"}
        assert await choose(ChoiceRequest(local_roots=roots, fallback_factory=lambda: last)) is last
    assert (
        await choose(ChoiceRequest(provider="lookup", env={"OPENAI_API_KEY": "k"}, fallback_factory=lambda: last))
        is last
    )


async def test_a_local_server_is_found_and_its_best_model_taken() -> None:
    async with LlmServer(after="ok") as server:
        server.pages["/api/tags"] = {"models": [{"name": "big", "size": 9}, {"name": "small:latest", "size": 2}]}
        server.pages["/api/ps"] = {"models": [{"name": "small:latest", "context_length": 4096}]}
        request = ChoiceRequest(local_roots={"vllm": "http://127.0.0.1:1", "ollama": server.url})
        provider = await choose(request)
        assert (provider.info.name, provider.info.model) == ("ollama", "small:latest")
        assert provider.info.capabilities.window == 4096
        assert server.url in provider.info.chosen_because
        assert isinstance((await say(provider))[-1], Completed)
        seen = len(server.server.requests)
        assert (await chosen(request))[0] == "ollama"
        assert len(server.server.requests) == seen, "the second look is answered from memory"
        assert (await chosen(ChoiceRequest("small", "ollama", local_roots={"ollama": server.url})))[1] == "small:latest"
        with pytest.raises(UsageError, match="Did you mean 'big'"):
            await chosen(ChoiceRequest("bigg", "ollama", local_roots={"ollama": server.url}))
    probes = [entry for entry in server.server.requests if entry.method == "GET"]
    assert not any("authorization" in entry.headers for entry in probes)


async def test_a_port_that_accepts_and_says_nothing_costs_no_more_than_the_cap() -> None:
    async with LlmServer() as other:
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            other.models = [{"id": "m", "max_model_len": 2048}]
            roots = {"ollama": f"http://127.0.0.1:{silent.getsockname()[1]}", "vllm": other.url}
            name, model, _ = await chosen(ChoiceRequest(local_roots=roots))
    assert (name, model) == ("vllm", "m")


async def test_another_kind_of_server_on_the_port_is_no_model_server() -> None:
    async with LlmServer() as server:
        server.pages["/v1/models"] = "<html>Jenkins</html>"
        with pytest.raises(UsageError):
            await chosen(ChoiceRequest(local_roots={"llama_cpp": server.url, "lm_studio": server.url}))


async def test_a_model_that_does_not_exist_is_answered_with_the_nearest() -> None:
    gone = Reply(status=404, body={"error": {"message": "model not found", "code": "model_not_found"}})
    async with LlmServer(gone) as server:
        server.models = [{"id": "gpt-5.6"}, {"id": "whisper"}]
        there = ProviderConfig(api_key="sk-secret", api_base=server.url + "/v1")
        provider = await choose(ChoiceRequest("gpt-5.66", "openai", {"openai": there}))
        with pytest.raises(ProviderError) as caught:
            await say(provider)
    assert "Did you mean 'gpt-5.6'" in explain(caught.value, provider.info)


async def test_a_name_with_a_tag_means_a_local_server_and_says_so_where_none_answers() -> None:
    keys = {"dashscope": KEY}
    with pytest.raises(
        UsageError, match=r"'qwen3:8b' is the name of a model on a local server .*`ollama pull qwen3:8b`"
    ):
        await chosen(ChoiceRequest("qwen3:8b", credentials=keys, local_roots=NOWHERE))
    far = ProviderConfig(api_key="", api_base="http://192.168.7.9:11434/v1")
    assert (await chosen(ChoiceRequest("qwen3:8b", credentials={"ollama": far}, local_roots=NOWHERE)))[0] == "ollama"
    async with LlmServer() as server:
        server.pages["/api/tags"] = {"models": [{"name": "qwen3:8b"}]}
        roots = {"ollama": server.url}
        assert (await chosen(ChoiceRequest("qwen3:8b", credentials=keys, local_roots=roots)))[:2] == (
            "ollama",
            "qwen3:8b",
        )
        with pytest.raises(UsageError, match="none that answers has it"):
            await chosen(ChoiceRequest("llama4:8b", local_roots=roots))


async def test_a_model_nobody_knows_goes_to_the_only_provider_that_is_set_up() -> None:
    one = {"deepseek": KEY}
    assert (await chosen(ChoiceRequest("wonder-1", credentials=one, local_roots=NOWHERE)))[:2] == (
        "deepseek",
        "wonder-1",
    )
    mine = {"mine": ProviderConfig(api_key="k", api_base="https://llm.example/v1")}
    assert (await chosen(ChoiceRequest("wonder-1", credentials=mine, local_roots=NOWHERE)))[:2] == ("mine", "wonder-1")
    with pytest.raises(UsageError, match="vendor/model"):
        await chosen(ChoiceRequest("wonder-1", credentials=one | {"xai": KEY}, local_roots=NOWHERE))


async def test_what_the_service_offers_is_known_before_a_model_is_used() -> None:
    async with LlmServer() as server:
        server.models = [{"id": "models/gpt-5.6"}, {"id": "whisper"}]
        names = await offered(
            ChoiceRequest("gpt-5.66", "openai", {"openai": ProviderConfig(api_key="k", api_base=f"{server.url}/v1")})
        )
    assert names == ("gpt-5.6", "whisper")
    with pytest.raises(UsageError, match=r"OpenAI has no model 'gpt-5\.66'\. Did you mean 'gpt-5\.6'"):
        judge_offer("gpt-5.66", names, "OpenAI")
    for fine in ("gpt-5.6", "gpt-5", "models/whisper", "gpt-5.6:free", "gpt-latest"):
        judge_offer(fine, names, "OpenAI")
    judge_offer("anything", (), "OpenAI")


async def test_fallback_models_answer_when_the_first_cannot() -> None:
    refused = Reply(status=401, body={"error": {"message": "no"}})
    async with LlmServer(refused) as first, LlmServer("from the second") as second:
        keys = {
            "openai": ProviderConfig(api_key="k", api_base=first.url),
            "anthropic": ProviderConfig(api_key="k", api_base=second.url),
        }
        request = ChoiceRequest(
            "gpt-5.6", credentials=keys, fallbacks=("claude-sonnet-4-6",), retry=RetryPolicy(tries=1)
        )
        provider = await choose(request)
        last = (await say(provider))[-1]
    assert isinstance(last, Completed)
    assert last.message.text == "from the second"
    assert provider.info.name == "anthropic"


async def test_a_vendor_that_is_switched_off_is_not_asked_whatever_the_environment_holds() -> None:
    why = "the environment variable NO_BASE is not set (providers.openai.apiBase, line 3)"
    off = {"openai": why, "mine": why, "ollama": why}
    env = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    async with LlmServer() as server:
        server.models = [{"id": "llama3"}]
        roots = {"ollama": server.url}
        with pytest.raises(UsageError, match="There is no model to ask"):
            await choose(ChoiceRequest(env={"OPENAI_API_KEY": "k"}, disabled=off, local_roots=roots))
        assert not server.requests
    assert (await chosen(ChoiceRequest(env=env, disabled=off, local_roots=NOWHERE)))[0] == "anthropic"
    for model, provider in (("gpt-5", "auto"), ("", "openai"), ("openai/gpt-5", "auto"), ("x", "mine")):
        with pytest.raises(UsageError, match=r"is switched off: .* NO_BASE .*Put that right") as caught:
            await choose(ChoiceRequest(model, provider, env=env, disabled=off, local_roots=NOWHERE))
        assert "line 3" in str(caught.value)


async def test_a_local_model_named_without_its_tag_is_pointed_out_where_a_vendor_wants_a_key() -> None:
    async with LlmServer() as server:
        server.pages["/api/tags"] = {"models": [{"name": "qwen3:8b"}]}
        with pytest.raises(UsageError, match=r"needs a key .* on this machine write 'qwen3:8b'"):
            await choose(ChoiceRequest("qwen3", local_roots={"ollama": server.url}))
