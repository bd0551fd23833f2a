"""The web tools: searching and reading."""

from nanobot.agent.tools.web_fetch import WebFetchTool
from nanobot.agent.tools.web_search import WebSearchTool

__all__ = ["WebFetchTool", "WebSearchTool"]
