"""Tools that are offered before they are imported."""

from pathlib import Path

from nanobot.agent.tools.base import ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.docs import NanobotDocsTool


async def test_a_call_makes_the_tool_once_and_is_its_call(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Tides\n\nHigh tide is at noon.\n", encoding="utf-8")
    made: list[ToolLike] = []

    def make() -> ToolLike:
        made.append(NanobotDocsTool(tmp_path))
        return made[-1]

    tool = DeferredTool("nanobot_docs", make)
    assert not made
    for _ in range(2):
        assert "High tide is at noon." in (await tool.call({"query": "tides"})).text
    assert (len(made), tool.spec, tool.aliases, tool.access) == (1, made[0].spec, made[0].aliases, "public")
