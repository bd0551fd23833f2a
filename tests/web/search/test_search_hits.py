"""What a hit holds, and what happens where a service lacks its settings."""

from dataclasses import fields

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.web_search import WebSearchTool
from nanobot.config.web_schema import WebSearchConfig
from nanobot.errors import SkipTool
from nanobot.web.search.base import SearchHit
from tests.fakes.search_apis import FakeDdgs


def test_S13_a_hit_needs_a_title_and_an_address_and_may_hold_everything_else() -> None:
    hit = SearchHit("T", "https://a.example/")
    assert {item.name for item in fields(hit)} >= {
        "site",
        "title",
        "url",
        "snippet",
        "content",
        "published",
        "icon",
        "mime",
        "score",
        "position",
    }
    assert (hit.snippet, hit.content, hit.published, hit.score) == ("", "", "", None)
    with pytest.raises(TypeError):
        SearchHit("T")  # type: ignore[call-arg]


async def test_S07_a_service_without_its_address_is_not_asked_and_the_next_one_answers() -> None:
    values = {"provider": "kimi", "apiKey": "key-1234567890", "fallback": ["duckduckgo"]}
    tool = WebSearchTool(WebSearchConfig.model_validate(values), ddgs=FakeDdgs(), env={})
    result = await tool.call({"query": "python"}, ToolContext())
    await tool.aclose()
    assert result.error is None
    assert result.extras["provider"] == "duckduckgo"
    assert "kimi lacks" in result.text
    with pytest.raises(SkipTool, match="kimi"):
        WebSearchTool(WebSearchConfig.model_validate({**values, "fallback": []}), env={})
    keyless = {"provider": "kimi", "baseUrl": "https://search.example", "fallback": []}
    with pytest.raises(SkipTool, match="kimi lacks a key"):
        WebSearchTool(WebSearchConfig.model_validate(keyless), env={})
