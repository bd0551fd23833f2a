"""The tool by which the agent gives a part of its work to a helper."""

from nanobot.agent.tools.base import HelperTask, ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import SpawnArguments
from nanobot.results import ToolResult, error_result


class SpawnTool(OwnTool[SpawnArguments], name="spawn"):
    """`spawn`: each call of the helper is judged for itself, as one of the turn that spawned it."""

    own_words = True

    async def run(self, args: SpawnArguments, context: ToolContext) -> ToolResult:
        if context.spawn is None:
            return error_result("denied", "There are no helpers here. Do it yourself.")
        return await context.spawn(HelperTask(args.task, args.tools, args.background))
