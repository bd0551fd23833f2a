"""The tools for files over a folder of their own, and a call of one as the runner makes it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nanobot.agent.approvals import Approvals
from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.agent.tools.files.change import DeleteFileTool, EditFileTool, WriteFileTool
from nanobot.agent.tools.files.find import GlobTool, GrepTool, ListDirTool
from nanobot.agent.tools.files.read import ReadFileTool
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.bus.events import Address, Sender
from nanobot.files.spaces import FileSpaces, FileUser
from nanobot.messages import Role
from nanobot.results import ToolResult
from nanobot.security.paths import Root
from nanobot.security.policy import JudgedCall

OWNER = FileUser("owner", "terminal:1")


class Files:
    """All tools for files. The home is `tmp/home`, the workspace lies in it, `tmp/read` may be read."""

    def __init__(self, tmp: Path, *more: Root) -> None:
        self.home, self.workspace = tmp / "home", tmp / "home/workspace"
        for folder in (self.workspace, tmp / "read"):
            folder.mkdir(parents=True, exist_ok=True)
        roots = (Root(self.workspace, writable=True), Root(tmp / "read"), *more)
        self.spaces = FileSpaces(roots, self.home, (), tmp / "person")
        self.reading = ReadFileTool(self.spaces, media=self.home / "media", limit=1_000_000)
        changing = (WriteFileTool(self.spaces), EditFileTool(self.spaces), DeleteFileTool(self.spaces))
        finding = (ListDirTool(self.spaces), GlobTool(self.spaces), GrepTool(self.spaces))
        self.tools: tuple[ToolLike, ...] = (self.reading, *changing, *finding)
        self.registry = ToolRegistry()
        for tool in self.tools:
            self.registry.register(tool)

    async def call(self, name: str, /, **arguments: object) -> ToolResult:
        """A call in a direct turn of the owner."""
        return await self.judged(name, arguments)

    async def judged(
        self,
        name: str,
        arguments: dict[str, object],
        role: Role = "owner",
        *,
        who: str = "1",
        granted: frozenset[str] = frozenset(),
        taint: tuple[str, ...] = (),
        direct: bool = True,
    ) -> ToolResult:
        """A call as the runner makes it: judged first, and then nothing but what was judged."""
        tool = self.registry.get(name)
        assert tool is not None
        context = ToolContext(
            address=Address("terminal", "here"),
            sender=Sender(who, role=role),
            taint=taint,
            role=role,
            granted=granted,
            direct=direct,
        )
        effects = tool.effects(arguments, context)
        call = JudgedCall(name, arguments, effects, role, taint=taint, granted=granted)
        verdict = (await Approvals().verdict(call, None)).verdict
        context.allowed = verdict.effects if verdict.decision == "allow" else ()
        return await self.registry.execute(name, arguments, verdict, context)

    def undo(self, who: str = "1") -> str:
        return self.spaces.of(OWNER).undo(f"terminal:here {who}")


@contextmanager
def files_in(tmp: Path, *more: Root) -> Iterator[Files]:
    files = Files(tmp, *more)
    try:
        yield files
    finally:
        files.spaces.close()
