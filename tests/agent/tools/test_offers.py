"""Tools that are offered before they are imported."""

from pathlib import Path

import pytest

from nanobot.agent.tools.base import ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.docs import NanobotDocsTool
from nanobot.agent.tools.offers import DOCS_DESCRIPTION, fetch_description, search_description
from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.agent.tools.web.search import WebSearchTool
from nanobot.config.schema_web import WebFetchConfig, WebSearchConfig
from nanobot.utils.prompt_templates import PromptTemplates

TEMPLATES = PromptTemplates()
SEARCH, FETCH = WebSearchConfig(max_results=8), WebFetchConfig(max_chars=9_000)


def never() -> ToolLike:
    raise AssertionError("nobody has called it")


@pytest.mark.parametrize(
    ("offered", "real"),
    [
        (DeferredTool("nanobot_docs", never, DOCS_DESCRIPTION), NanobotDocsTool()),
        (DeferredTool("web_fetch", never, fetch_description(FETCH, TEMPLATES)), WebFetchTool(FETCH)),
        (
            DeferredTool(
                "web_search", never, search_description(SEARCH, TEMPLATES, fetch=False), {"limit": SEARCH.max_results}
            ),
            WebSearchTool(SEARCH),
        ),
    ],
    ids=["docs", "fetch", "search"],
)
def test_what_is_offered_is_what_the_tool_itself_says(offered: DeferredTool, real: ToolLike) -> None:
    assert offered.spec == real.spec
    assert (offered.name, offered.aliases, offered.access) == (real.name, real.aliases, real.access)


async def test_a_call_makes_the_tool_once_and_is_its_call(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Tides\n\nHigh tide is at noon.\n", encoding="utf-8")
    made: list[ToolLike] = []

    def make() -> ToolLike:
        made.append(NanobotDocsTool(tmp_path))
        return made[-1]

    tool = DeferredTool("nanobot_docs", make, DOCS_DESCRIPTION)
    assert not made
    for _ in range(2):
        assert "High tide is at noon." in (await tool.call({"query": "tides"})).text
    assert (len(made), tool.idempotent, tool.exclusive) == (1, True, False)
