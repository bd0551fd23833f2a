"""The tools by which the agent speaks with people beside its answer: a question, a list of what is to be done."""

from collections.abc import Mapping

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.deferred import OwnTool
from nanobot.agent.tools.offers import (
    AskArguments,
    TodoArguments,
    todo_items,
)
from nanobot.bus.events import TodoChanged
from nanobot.results import ToolResult, error_result
from nanobot.security.policy import Effect
from nanobot.utils.text import shorten, squeeze, strip_unsafe
from nanobot.utils.translation import _

#: Characters of a question and of one of its choices.
_QUESTION, _CHOICE = 1_000, 80


class AskTool(OwnTool[AskArguments], name="ask"):
    """Asks the person of the turn, who taps, presses a key, or writes."""

    own_words = True

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        return (Effect("send", context.address.key),)

    async def run(self, args: AskArguments, context: ToolContext) -> ToolResult:
        if context.choose is None:
            advice = "Decide yourself, and say in your answer what you took."
            return error_result("denied", f"Nobody can be asked here. {advice}", message=_("nobody can be asked here"))
        choices = tuple(dict.fromkeys(shorten(squeeze(strip_unsafe(one)), _CHOICE) for one in args.choices))
        question = shorten(strip_unsafe(args.question).strip(), _QUESTION)
        if len(choices) < 2 or not all(choices) or not question:
            return error_result("invalid_input", "A question needs at least two choices that differ, each in words.")
        answer = await context.choose(question, choices)
        if answer.kind == "choice":
            return ToolResult(f"The person chose: {answer.choice}", _("answered: {choice}", choice=answer.choice))
        if answer.kind == "words":
            return ToolResult("The person writes instead: their next message is the answer.", _("answered in words"))
        return ToolResult("No answer came in 10 minutes. Go on without it, or say what you need.", _("no answer"))


class TodoTool(OwnTool[TodoArguments], name="todo"):
    """Shows the person a short list of what is done and what is left."""

    own_words = True

    def effects(self, arguments: Mapping[str, object], context: ToolContext) -> tuple[Effect, ...]:  # noqa: ARG002
        return (Effect("send", context.address.key),)

    async def run(self, args: TodoArguments, context: ToolContext) -> ToolResult:
        items = todo_items(args.items)
        await context.show(TodoChanged(items))
        done = sum(one.state == "done" for one in items)
        return ToolResult(
            f"The list is shown: {done} of {len(items)} done.", _("{done} of {all} done", done=done, all=len(items))
        )
