"""The tools for commands, talk and work: those that ask, list and spawn stand here, the others are offered as the
configuration has them and imported when they are called.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.agent.tools.base import HelperTask, ToolContext, ToolLike
from nanobot.agent.tools.deferred import DeferredTool, OwnTool
from nanobot.agent.tools.files.offered import FileTools
from nanobot.agent.tools.offers import (
    EXEC,
    TODO,
    AskArguments,
    SpawnArguments,
    TodoArguments,
    exec_description,
    todo_items,
)
from nanobot.agent.tools.registry import ToolFactory, skipped
from nanobot.bus.events import TodoChanged
from nanobot.config.proxy import Proxies
from nanobot.config.schema_tools import ToolsConfig
from nanobot.results import ToolResult, error_result
from nanobot.utils.text import one_line, shorten, strip_unsafe
from nanobot.utils.translation import N_, Later, _, told

if TYPE_CHECKING:
    from nanobot.agent.tools.commands.background import BackgroundTasks
    from nanobot.agent.tools.commands.execute import ExecTool
    from nanobot.agent.tools.message import Messenger
    from nanobot.agent.tools.work.watch import WatchControl
    from nanobot.schedule.appointments import Appointments
    from nanobot.security.sandbox import Sandbox

#: Characters of a question and of one of its choices.
_QUESTION, _CHOICE = 1_000, 80


class AskTool(OwnTool[AskArguments], name="ask"):
    """Asks the person of the turn, who taps, presses a key, or writes."""

    own_words = True

    async def run(self, args: AskArguments, context: ToolContext) -> ToolResult:
        if context.choose is None:
            advice = "Decide yourself, and say in your answer what you took."
            return error_result("denied", f"Nobody can be asked here. {advice}", message=_("nobody can be asked here"))
        choices = tuple(dict.fromkeys(one_line(one, _CHOICE) for one in args.choices))
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

    async def run(self, args: TodoArguments, context: ToolContext) -> ToolResult:
        items = todo_items(args.items)
        await context.show(TodoChanged(items))
        done = sum(one.state == "done" for one in items)
        return ToolResult(
            f"The list is shown: {done} of {len(items)} done.", _("{done} of {all} done", done=done, all=len(items))
        )


class SpawnTool(OwnTool[SpawnArguments], name="spawn"):
    """`spawn`: each call of the helper is judged for itself, as one of the turn that spawned it."""

    own_words = True

    async def run(self, args: SpawnArguments, context: ToolContext) -> ToolResult:
        if context.spawn is None:
            return error_result("denied", "There are no helpers here. Do it yourself.")
        return await context.spawn(HelperTask(args.task, args.tools, args.background))


def talk_tools(
    files: FileTools, messengers: "Callable[[], Mapping[str, Messenger]]", media: Path
) -> dict[str, ToolFactory]:
    """A factory for each tool by which the agent speaks beside its answer, as in `MessageTool`."""

    def message() -> ToolLike:
        from nanobot.agent.tools.message import MessageTool

        return MessageTool(files.spaces, messengers(), media)

    return {"ask": AskTool, "message": partial(DeferredTool, "message", message), TODO: TodoTool}


class CommandTools:
    """The tools for commands as the configuration has them, in the folders of `files`. `env` are nanobot's own
    variables; what runs in the background is noted in `folder`.
    """

    def __init__(self, config: ToolsConfig, files: FileTools, folder: Path | None, env: Mapping[str, str]) -> None:
        self._config = config
        self._files = files
        self._folder = folder
        self._env = env
        self._missing = ""
        self._sandbox: Sandbox | None = None
        self._exec: ExecTool | None = None
        #: What runs in the background, where there are commands.
        self.tasks: BackgroundTasks | None = None

    async def find_sandbox(self) -> None:
        """Try which sandbox works, where commands are wanted at all."""
        if self._config.profile != "full":
            self._missing = Later(
                N_('tools.profile is "{profile}"; commands belong to "full"'), profile=self._config.profile
            )
        elif not self._config.exec.enable:
            self._missing = Later(N_("tools.exec.enable is false"))
        else:
            from nanobot.agent.tools.commands.background import BackgroundTasks
            from nanobot.security.sandbox import Reason, choose

            found = await choose(self._config.exec.sandbox)
            if isinstance(found, Reason):
                self._missing = found.text
            else:
                self._sandbox, self.tasks = found, BackgroundTasks(self._folder)

    def sandbox_line(self) -> str:
        """For /status: which sandbox it is, and why not another; empty where there are no commands."""
        return _("Sandbox for commands: {note}", note=told(self._sandbox.note)) if self._sandbox else ""

    def factories(self) -> dict[str, ToolFactory]:
        """A factory for each tool; it raises `SkipTool` where there are no commands."""
        if self._sandbox is None or self.tasks is None:
            return dict.fromkeys((EXEC, "task"), skipped(self._missing))
        about, running = exec_description(self._config.exec), partial(self._make_exec, self._sandbox, self.tasks)
        return {
            EXEC: partial(DeferredTool, EXEC, running, about),
            "task": partial(DeferredTool, "task", partial(self._make_task, self.tasks)),
        }

    def _make_exec(self, sandbox: "Sandbox", tasks: "BackgroundTasks") -> ToolLike:
        from nanobot.agent.tools.commands.execute import ExecSetup, ExecTool

        find_proxy = Proxies(self._config.web.proxy, self._env).of
        setup = ExecSetup(self._files.spaces, tasks, self._env, self._config.ssrf_whitelist, find_proxy)
        self._exec = ExecTool(self._config.exec, sandbox, setup)
        return self._exec

    def _make_task(self, tasks: "BackgroundTasks") -> ToolLike:
        from nanobot.agent.tools.commands.background import TaskTool

        return TaskTool(tasks, self._config.exec.max_output_chars)

    async def aclose(self) -> None:
        """End what runs."""
        if self._exec is not None:
            await self._exec.aclose()


def watch_tool(watches: "Callable[[], WatchControl]") -> ToolLike:
    """The tool that watches pages and more."""
    from nanobot.agent.tools.work.watch import WatchTool

    return WatchTool(watches())


def schedule_tool(appointments: "Callable[[], Appointments]") -> ToolLike:
    """The tool that keeps appointments."""
    from nanobot.agent.tools.work.schedule import ScheduleTool

    return ScheduleTool(appointments())
