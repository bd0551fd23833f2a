"""The web tools: searching and reading."""

from nanobot.agent.tools.web_fetch import WebFetchTool

__all__ = ["WebFetchTool"]
