"""The tools for commands over a folder of their own, and calls of them as the runner makes them."""

import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nanobot.agent.approvals import Approvals
from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.agent.tools.commands.background import BackgroundTasks, TaskTool
from nanobot.agent.tools.commands.execute import ExecSetup, ExecTool
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.bus.events import Address, Sender
from nanobot.config.schema_tools import ExecConfig
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.files.store import FileStore
from nanobot.messages import Role
from nanobot.results import ToolResult
from nanobot.security.paths import Root
from nanobot.security.policy import JudgedCall, Policy, Verdict
from nanobot.security.sandbox import Reason, Sandbox, SandboxName, choose
from tests.fakes.waiting import until

HERE = Address("terminal", "here")


async def sandbox_of(name: SandboxName) -> Sandbox:
    """The sandbox of this name; skips the test, and says so, where it does not work."""
    found = await choose(name)
    if isinstance(found, Reason):
        pytest.skip(f"NOT TRIED: {found.text}")
    return found


class Commands:
    """Both tools. The home is `tmp/home`, the workspace lies in it."""

    def __init__(
        self, tmp: Path, sandbox: Sandbox, config: ExecConfig, env: dict[str, str], net: tuple[str, ...]
    ) -> None:
        self.home, self.workspace = tmp / "home", tmp / "home/workspace"
        self.workspace.mkdir(parents=True, exist_ok=True)
        self.spaces = FileSpaces((Root(self.workspace, writable=True),), self.home, (), tmp)
        self.tasks = BackgroundTasks(self.home / "tasks")
        self.exec = ExecTool(config, sandbox, ExecSetup(self.spaces, self.tasks, env, net))
        self.task = TaskTool(self.tasks, config.max_output_chars)
        self.tools: tuple[ToolLike, ...] = (self.exec, self.task)
        self.registry = ToolRegistry()
        for tool in self.tools:
            self.registry.register(tool)

    @property
    def store(self) -> FileStore:
        """The files of the owner."""
        return self.spaces.of(FileUser("owner", "here"))

    async def until(self, name: str) -> None:
        """Wait until a file of the workspace is there."""
        await until((self.workspace / name).exists, 60)

    def context(
        self, role: Role = "owner", taint: tuple[str, ...] = (), session: str = "s", address: Address = HERE
    ) -> ToolContext:
        sender = Sender("1", role=role)
        return ToolContext(session=session, address=address, sender=sender, taint=taint, role=role, direct=True)

    async def judged(self, name: str, context: ToolContext, arguments: dict[str, object]) -> Verdict:
        tool = self.registry.get(name)
        assert tool is not None
        effects = tool.effects(arguments, context)
        call = JudgedCall(name, arguments, effects, context.role, taint=context.taint)
        verdict = (await Approvals(policy=Policy("normal")).verdict(call, None)).verdict
        context.allowed = verdict.effects if verdict.decision == "allow" else ()
        return verdict

    async def call(self, name: str = "exec", context: ToolContext | None = None, **arguments: object) -> ToolResult:
        """A call as the runner makes it: judged first, and then nothing but what was judged."""
        context = context or self.context()
        verdict = await self.judged(name, context, arguments)
        return await self.registry.execute(name, arguments, verdict, context)

    async def allowed(self, context: ToolContext | None = None, **arguments: object) -> ToolResult:
        """A call of exec that the owner has allowed."""
        context = context or self.context()
        context.allowed = self.exec.effects(arguments, context)
        return await self.exec.call(arguments, context)


@asynccontextmanager
async def commands_in(
    tmp: Path,
    name: SandboxName = "auto",
    config: ExecConfig | None = None,
    env: dict[str, str] | None = None,
    whitelist: tuple[str, ...] = (),
) -> AsyncIterator[Commands]:
    made = Commands(tmp, await sandbox_of(name), config or ExecConfig(), env or usual(), whitelist)
    try:
        yield made
    finally:
        await made.exec.aclose()
        made.spaces.close()


def usual() -> dict[str, str]:
    """A path on which this very Python is found."""
    return {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"}


def alive(mark: str) -> list[int]:
    """The processes of this machine that have `mark` among their arguments."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
