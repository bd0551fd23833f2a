"""Tools that are offered before they are imported.

Most questions need no tool or one, and importing those that search and read takes a third of a start.
"""

from collections.abc import Callable, Mapping
from functools import cached_property

from nanobot.agent.tools.base import Proposal, ToolContext, ToolLike, schema_of
from nanobot.agent.tools.offers import OFFERS
from nanobot.providers.base import ToolSpec
from nanobot.results import ToolResult
from nanobot.security.policy import Access, Effect, Grant


class DeferredTool(ToolLike):
    """A tool that imports and makes the real one when it is called, or asked about a call.

    `description` and the `defaults` of arguments are those of the settings in force.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], ToolLike],
        description: str,
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        self._offer = OFFERS[name]
        self._spec = ToolSpec(name, description, schema_of(self._offer.arguments, defaults or {}))
        self._make = make

    @cached_property
    def tool(self) -> ToolLike:
        return self._make()

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    @property
    def aliases(self) -> tuple[str, ...]:
        return self._offer.aliases

    @property
    def access(self) -> Access:
        return self._offer.access

    @property
    def grant(self) -> Grant:
        return self._offer.grant

    @property
    def interactive(self) -> bool:
        return self._offer.interactive

    @property
    def proposes(self) -> str:
        return self._offer.proposes

    def proposal(self, arguments: Mapping[str, object], context: ToolContext) -> Proposal:
        return super().proposal(arguments, context) if self.proposes else self.tool.proposal(arguments, context)

    def rewritten(self, arguments: Mapping[str, object], proposal: Proposal, text: str) -> dict[str, object]:
        own = super().rewritten if self.proposes else self.tool.rewritten
        return own(arguments, proposal, text)

    async def prepare(self, arguments: Mapping[str, object], context: ToolContext) -> None:
        await self.tool.prepare(arguments, context)

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:
        return self.tool.effects(arguments, context)

    @property
    def exclusive(self) -> bool:
        return self.tool.exclusive

    @property
    def ordered(self) -> bool:
        return self.tool.ordered

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

    def refuses(self, url: str) -> str:
        return self.tool.refuses(url)

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:
        return self.tool.needs_no_network(arguments, context)

    async def call(self, arguments: dict[str, object], context: ToolContext | None = None) -> ToolResult:
        return await self.tool.call(arguments, context)
