"""What is said of plug-ins and hooks, as somebody reads it who knows Chinese alone."""

import sys
from pathlib import Path

import pytest

from nanobot.agent.tools.registry import RunTool
from nanobot.config.schema_tools import HookConfig, HooksConfig
from nanobot.plugins.entry_points import Plugins
from nanobot.plugins.hooks import Hooks
from nanobot.results import ToolResult
from tests.fakes.chinese import english_left

pytestmark = pytest.mark.usefixtures("chinese")


def test_what_is_wrong_with_a_plug_in_is_told_in_chinese(tmp_path: Path) -> None:
    lines = Plugins(("absent-package", "pytest"), {}, {}, tmp_path).lines()
    assert [left for one in lines for left in english_left(one)] == []
    assert lines[0] == "插件 absent-package：没有和 nanobot 安装在一起。"


class Named:
    """Meets what a hook asks of a tool."""

    name = "tool"


@pytest.mark.parametrize(
    "script", ["import sys; sys.exit(2)", "import sys; sys.exit(3)", "import time; time.sleep(60)"]
)
async def test_why_a_hook_lets_nothing_run_is_told_in_chinese(script: str) -> None:
    async def inner(*_given: object) -> ToolResult:
        return ToolResult("ran")

    config = HooksConfig(
        before_tool=(HookConfig((sys.executable, "-c", script), timeout=5 if "exit" in script else 1),)
    )
    run: RunTool = Hooks(config, {}).around(inner)
    result = await run(Named(), {}, None)  # type: ignore[arg-type]
    assert english_left(result.message, sys.executable) == []
    assert result.message.startswith("没有运行：")
