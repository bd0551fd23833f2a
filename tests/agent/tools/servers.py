"""MCP servers that were started, and the tools that they offer."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from nanobot.agent.tools.mcp.servers import McpServers, Surroundings
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.config.schema_tools import McpServerConfig
from tests.fakes.sections import section


def config(**values: object) -> McpServerConfig:
    return section(McpServerConfig, values)


def tools_of(servers: McpServers) -> ToolRegistry:
    registry = ToolRegistry()
    registry.replace(servers.factories())
    return registry


@asynccontextmanager
async def started(
    servers: Mapping[str, McpServerConfig], around: Surroundings | None = None, *, cache: Path | None = None
) -> AsyncIterator[tuple[ToolRegistry, McpServers]]:
    async with aclosing(McpServers(servers, around, cache=cache)) as made:
        await made.start(120)
        yield tools_of(made), made
