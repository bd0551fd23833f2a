"""The tools for commands, talk and work as the configuration has them: each is offered before it is imported, and
imported when called.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nanobot.agent.tools.base import ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.files.offered import FileTools
from nanobot.agent.tools.offers import EXEC, TODO, exec_description
from nanobot.agent.tools.registry import ToolFactory, skipped
from nanobot.config.proxy import Proxies
from nanobot.config.schema_tools import ToolsConfig
from nanobot.utils.translation import N_, Later, _, told

if TYPE_CHECKING:
    from nanobot.agent.tools.commands.background import BackgroundTasks
    from nanobot.agent.tools.commands.execute import ExecTool
    from nanobot.agent.tools.message import Messenger
    from nanobot.agent.tools.work.watch import WatchControl
    from nanobot.schedule.appointments import Appointments
    from nanobot.security.sandbox import Sandbox


def talk_tools(
    files: FileTools, messengers: "Callable[[], Mapping[str, Messenger]]", media: Path
) -> dict[str, ToolFactory]:
    """A factory for each tool by which the agent speaks beside its answer, as in `MessageTool`."""

    def message() -> ToolLike:
        from nanobot.agent.tools.message import MessageTool

        return MessageTool(files.spaces, messengers(), media)

    def ask() -> ToolLike:
        from nanobot.agent.tools.talk import AskTool

        return AskTool()

    def todo() -> ToolLike:
        from nanobot.agent.tools.talk import TodoTool

        return TodoTool()

    return {
        "ask": partial(DeferredTool, "ask", ask),
        "message": partial(DeferredTool, "message", message),
        TODO: partial(DeferredTool, TODO, todo),
    }


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


def spawn_tool() -> ToolLike:
    """The tool that gives a part of the work to a helper."""
    from nanobot.agent.tools.work.spawn import SpawnTool

    return SpawnTool()


def watch_tool(watches: "Callable[[], WatchControl]") -> ToolLike:
    """The tool that watches pages and more."""
    from nanobot.agent.tools.work.watch import WatchTool

    return WatchTool(watches())


def schedule_tool(appointments: "Callable[[], Appointments]") -> ToolLike:
    """The tool that keeps appointments."""
    from nanobot.agent.tools.work.schedule import ScheduleTool

    return ScheduleTool(appointments())
