"""Tools that are offered before they are imported: what a model is told of them is written down in `offers.json`.

Most questions need no tool or one, and importing those that search and read takes a third of a start. After a change of
a tool's name, words or arguments:

    python -m nanobot.agent.tools.deferred
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path

from msgspec import Struct, json

from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.config.web_schema import WebFetchConfig, WebSearchConfig
from nanobot.providers.base import ToolSpec
from nanobot.results import ToolResult
from nanobot.security.policy import Access
from nanobot.utils.host import shipped
from nanobot.utils.prompt_templates import PromptTemplates

_FILE = Path(__file__).with_name("offers.json")


class Offer(Struct, frozen=True):
    """What is known of a tool before it is imported. `arguments` are the JSON Schemas of its arguments."""

    description: str
    aliases: tuple[str, ...]
    access: Access
    arguments: dict[str, dict[str, object]]
    required: list[str] = []

    def schema(self, defaults: Mapping[str, object]) -> dict[str, object]:
        """The JSON Schema of a call, with these defaults of arguments."""
        changed = {name: {**self.arguments[name], "default": default} for name, default in defaults.items()}
        needed: dict[str, object] = {"required": self.required} if self.required else {}
        return {"additionalProperties": False, "properties": self.arguments | changed, **needed, "type": "object"}


class DeferredTool:
    """A `ToolLike` that imports and makes the real one when it is called, or asked about a call.

    `description` and the `defaults` of arguments are those of the settings in force.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ToolLike],
        description: str = "",
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        offer = _offers()[name]
        self.name = name
        self.aliases = offer.aliases
        self.access: Access = offer.access
        self.spec = ToolSpec(name, description or offer.description, offer.schema(defaults or {}))
        self._make = make

    @cached_property
    def tool(self) -> ToolLike:
        return self._make()

    @property
    def exclusive(self) -> bool:
        return self.tool.exclusive

    @property
    def lock(self) -> str:
        return self.tool.lock

    @property
    def idempotent(self) -> bool:
        return self.tool.idempotent

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        return self.tool.addresses(arguments, context)

    def asks(self, url: str) -> bool:
        return self.tool.asks(url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        return self.tool.needs_no_network(arguments, context)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        return await self.tool.call(arguments, context)


@cache
def _offers() -> dict[str, Offer]:
    return json.decode(_FILE.read_bytes(), type=dict[str, Offer])


def fetch_description(config: WebFetchConfig, templates: PromptTemplates) -> str:
    """What a model is told of `web_fetch` with these settings."""
    return templates.render("tools/web_fetch.md", max_chars=config.max_chars)


def search_description(config: WebSearchConfig, templates: PromptTemplates) -> str:
    """What a model is told of `web_search` with these settings."""
    today = datetime.now(UTC).date().isoformat()
    values = {"max_results": config.max_results, "content_budget": config.content_budget, "date": today}
    return templates.render("tools/web_search.md", **values)


def main() -> None:
    """Write down what the tools say of themselves; those whose words come from a template say only the rest."""
    from nanobot.agent.tools.docs import NanobotDocsTool
    from nanobot.agent.tools.web import WebFetchTool, WebSearchTool

    offers: dict[str, object] = {}
    for tool in (NanobotDocsTool(), WebFetchTool(WebFetchConfig()), WebSearchTool(WebSearchConfig())):
        described = (shipped("templates") / "tools" / f"{tool.name}.md").is_file()
        offers[tool.name] = {
            "description": "" if described else tool.description,
            "aliases": tool.aliases,
            "access": tool.access,
            "arguments": tool.spec.schema["properties"],
            "required": tool.spec.schema.get("required", []),
        }
    _FILE.write_bytes(json.format(json.encode(offers), indent=1) + b"\n")


if __name__ == "__main__":
    main()
