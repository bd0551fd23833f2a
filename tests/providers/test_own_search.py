"""A model's own search or ours, never both: what the owner puts into every request decides."""

import pytest

from nanobot.config.schema import ProviderConfig
from nanobot.errors import ProviderError
from nanobot.jsonval import at, rows, text
from nanobot.messages import Text, UserMessage
from nanobot.providers.base import Capabilities, Request, ToolSpec
from nanobot.providers.registry import ChoiceRequest, choose
from nanobot.providers.retry import USUAL, RetryProvider
from nanobot.providers.scripted import Call, Fail, ScriptedProvider
from tests.agent.harness import FakeTool, agent
from tests.agent.test_roles import Asked, Reaching, ask, outcomes
from tests.fakes.llm_server import LlmServer

TOOLS = tuple(ToolSpec(name, "", {"type": "object"}) for name in ("nanobot_docs", "web_fetch", "web_search"))
OWN: list[tuple[str, dict[str, object]]] = [
    ("anthropic", {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]}),
    ("openai", {"web_search_options": {}}),
    ("openai", {"tools": [{"type": "web_search"}]}),
    ("moonshot", {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]}),
    ("gemini", {"tools": [{"google_search": {}}]}),
    ("xai", {"search_parameters": {"mode": "auto"}}),
    ("dashscope", {"enable_search": True}),
    ("openrouter", {"plugins": [{"id": "web", "max_results": 3}]}),
]
NOT: list[tuple[str, dict[str, object]]] = [
    ("openai", {"tools": [{"type": "function", "function": {"name": "mine"}}], "user": "web_search"}),
    ("xai", {"search_parameters": {"mode": "off"}}),
    ("dashscope", {"enable_search": False}),
    ("anthropic", {}),
]


async def sent(vendor: str, extra: dict[str, object], tools: tuple[ToolSpec, ...] = TOOLS) -> tuple[list[str], bool]:
    """The names of our tools in the request that arrives, and whether the model is known to search by itself."""
    async with LlmServer(after="hello") as server:
        held = ProviderConfig(api_key="k", api_base=f"{server.url}/v1", extra_body=extra)
        provider = await choose(ChoiceRequest("m", vendor, {vendor: held}, local_roots={}))
        request = Request((UserMessage((Text("hi"),)),), tools=tools)
        assert [delta async for delta in provider.stream(request)]
        await provider.aclose()
        (body,) = [one.body for one in server.requests]
    ours = [tool for tool in rows(body.get("tools")) if tool not in rows(extra.get("tools"))]
    return [text(one.get("name") or at(one, "function", "name")) for one in ours], provider.info.capabilities.searches


@pytest.mark.parametrize(("vendor", "extra"), OWN)
async def test_W10_where_the_service_searches_by_itself_our_search_is_not_offered_beside_it(
    vendor: str, extra: dict[str, object]
) -> None:
    assert await sent(vendor, extra) == (["nanobot_docs", "web_fetch"], True)
    assert await sent(vendor, extra, TOOLS[2:]) == ([], True)


@pytest.mark.parametrize(("vendor", "extra"), NOT)
async def test_W10_else_it_is(vendor: str, extra: dict[str, object]) -> None:
    assert await sent(vendor, extra) == (["nanobot_docs", "web_fetch", "web_search"], False)


@pytest.mark.parametrize(("searches", "told"), [(True, "denied"), (False, "ran")])
async def test_W10_what_such_a_model_says_may_come_from_outside(searches: bool, told: str) -> None:
    """An address that it makes up is then asked for, and here nobody can be."""
    call = Call("web_fetch", {"url": "https://made.example/?d=1"})
    provider = ScriptedProvider([call, "done"], capabilities=Capabilities(searches=searches))
    async with agent(provider, Reaching("web_fetch"), FakeTool("web_search")) as box:
        await ask(box, "how do I start?", "owner")
        assert outcomes(box) == [told]


async def test_W10_a_question_says_so_once_also_where_a_fallback_searches() -> None:
    write = Call("note", {"query": "the door is open"})
    away = ScriptedProvider([Fail(ProviderError("auth", "no"))])
    other = ScriptedProvider([write, write, "done"], capabilities=Capabilities(searches=True))
    async with agent(RetryProvider([(away, USUAL), (other, USUAL)]), FakeTool("note", access="changes")) as box:
        asked = Asked(box, "no", "no")
        await ask(box, "how do I start?", "owner")
        asked.close()
    assert len(asked.details) == 2
    for detail in asked.details:
        assert "nobody has named it; it had read search of the model's service.\n" in detail, detail


async def test_W10_tools_says_that_the_service_searches_in_the_place_of_our_search() -> None:
    for searches in (True, False):
        provider = ScriptedProvider([], capabilities=Capabilities(searches=searches))
        async with agent(provider, FakeTool("web_search"), FakeTool("web_fetch")) as box:
            said = (await box.ask("/tools")).text
        assert ("`web_search` is off: the service of the model searches by itself" in said) is searches
        assert ("(`web_fetch`, `web_search`)" in said) is not searches
