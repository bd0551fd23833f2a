"""A `web_fetch` whose only allowed addresses beyond the public ones are loopback's."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nanobot.agent.tools.web.fetch import WebFetchTool
from nanobot.config.schema_web import WebFetchConfig
from nanobot.results import ToolResult
from nanobot.web.client import Network
from tests.fakes.sections import section
from tests.fakes.website import Answer, Script, Website

LOOPBACK = "127.0.0.1/32"

MakeTool = Callable[..., WebFetchTool]


async def read(tool: WebFetchTool, page: Answer | Script, path: str = "/", **arguments: object) -> ToolResult:
    """What a model is given of a site of one page."""
    async with Website({path: page}) as site:
        return await tool.call({"url": site.url + path, **arguments})


@pytest.fixture
async def make_tool(tmp_path: Path) -> AsyncIterator[MakeTool]:
    """Builds tools that are closed when the test ends."""
    async with AsyncExitStack() as stack:

        def make(
            *,
            whitelist: tuple[str, ...] = (LOOPBACK,),
            network: Network | None = None,
            proxy: str | None = None,
            env: dict[str, str] | None = None,
            clock: Callable[[], float] = time.monotonic,
            **config: object,
        ) -> WebFetchTool:
            tool = WebFetchTool(
                section(WebFetchConfig, config),
                proxy=proxy,
                whitelist=whitelist,
                media_dir=tmp_path / "media",
                network=network,
                env=env,
                clock=clock,
            )
            stack.push_async_callback(tool.aclose)
            return tool

        yield make


@pytest.fixture
def tool(make_tool: MakeTool) -> WebFetchTool:
    return make_tool()
