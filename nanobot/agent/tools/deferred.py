"""The tools of nanobot itself: what is known of each stands in `offers`, so that it is offered before it is imported.

Most questions need no tool or one, and importing those that search and read takes a third of a start.
"""

from collections.abc import Callable, Mapping
from functools import cached_property

from nanobot.agent.tools.base import Args, Proposal, SpecifiedTool, Tool, ToolContext, ToolLike, schema_of
from nanobot.agent.tools.offers import OFFERS, spellings_of
from nanobot.providers.base import ToolSpec
from nanobot.results import ToolResult
from nanobot.security.policy import Effect


def _be(tool: ToolLike | type[ToolLike], name: str) -> None:
    """Have a tool, or a kind of tools, be what the offer of this name says."""
    offer = OFFERS[name]
    tool.access, tool.grant, tool.aliases, tool.proposes = offer.access, offer.grant, offer.aliases, offer.proposes
    tool.exclusive, tool.ordered, tool.interactive = offer.exclusive, offer.ordered, offer.interactive
    tool.idempotent, tool.local = offer.idempotent, offer.local


class OwnTool(Tool[Args]):
    """A tool of nanobot itself, which does what its offer says: `class AskTool(OwnTool[AskArguments], name="ask")`."""

    def __init_subclass__(cls, name: str = "") -> None:
        super().__init_subclass__()
        if name:
            _be(cls, name)
            cls.name, cls.description = name, OFFERS[name].description
            cls.argument_aliases = {**spellings_of(OFFERS[name].arguments), **cls.argument_aliases}
            cls.Arguments = OFFERS[name].arguments  # type: ignore[assignment]  # the same as that in its brackets


class DeferredTool(SpecifiedTool):
    """Stands for a tool of nanobot itself, which it imports and makes when that is called, or asked about a call.

    `description` and the `defaults` of arguments are those of the settings in force, where they tell.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ToolLike],
        description: str = "",
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        offer = OFFERS[name]
        super().__init__(ToolSpec(name, description or offer.description, schema_of(offer.arguments, defaults)))
        _be(self, name)
        self._make = make

    @cached_property
    def tool(self) -> ToolLike:
        return self._make()

    def proposal(self, arguments: Mapping[str, object], context: ToolContext) -> Proposal:
        return self.tool.proposal(arguments, context)

    def rewritten(self, arguments: Mapping[str, object], proposal: Proposal, text: str) -> dict[str, object]:
        return self.tool.rewritten(arguments, proposal, text)

    async def prepare(self, arguments: Mapping[str, object], context: ToolContext) -> None:
        await self.tool.prepare(arguments, context)

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        return self.tool.effects(arguments, context)

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:
        return self.tool.addresses(arguments, context)

    def reach(self, url: str) -> Effect:
        return self.tool.reach(url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        return self.tool.needs_no_network(arguments, context)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        return await self.tool.call(arguments, context)
