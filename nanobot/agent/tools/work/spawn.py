"""The tool by which the agent gives a part of its work to a helper."""

from collections.abc import Mapping
from typing import ClassVar

from nanobot.agent.tools.base import HelperTask, Tool, ToolContext
from nanobot.agent.tools.offers import OFFERS, SPAWN, SPAWN_DESCRIPTION, SpawnArguments
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Access


class SpawnTool(Tool[SpawnArguments]):
    """`spawn`: each call of the helper is judged for itself, as one of the turn that spawned it."""

    name = SPAWN
    description = SPAWN_DESCRIPTION
    aliases = OFFERS[SPAWN].aliases
    Arguments = SpawnArguments
    access: Access = "public"
    own_words = True
    argument_aliases: ClassVar[Mapping[str, str]] = dict.fromkeys(("prompt", "description", "message"), "task")

    @property
    def idempotent(self) -> bool:
        """A call that runs again goes on with the same helper."""
        return True

    def addresses(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def needs_no_network(self, arguments: Mapping[str, object], context: ToolContext) -> bool:  # noqa: ARG002
        return True

    async def run(self, args: SpawnArguments, context: ToolContext) -> ToolResult:
        if context.spawn is None:
            return error_result("denied", "There are no helpers here. Do it yourself.")
        return await context.spawn(HelperTask(args.task, args.tools, args.background))
