"""Which module does what for the web tools, read from the imports."""

import ast
import inspect
from pathlib import Path

from nanobot.agent.tools import offers, registry
from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.config import schema_tools, schema_web
from nanobot.results import ToolResult, error_result
from nanobot.utils import runtime, searchusage, tool_hints
from tests.agent.harness import FakeTool, run_tool

PACKAGE = Path(registry.__file__).parents[2]


def imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return named | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


def test_N01_tools_settings_throttle_hints_and_usage_have_one_module_each() -> None:
    assert {"nanobot_docs", "web_search", "web_fetch"} | offers.FILE_OFFERS.keys() <= offers.OFFERS.keys()
    assert inspect.getmodule(schema_web.WebSearchConfig) is schema_web
    assert "web" in schema_tools.ToolsConfig.__struct_fields__
    for module, name in (
        (runtime, "repeated_external_lookup_error"),
        (tool_hints, "tool_hint"),
        (searchusage, "SearchUsageInfo"),
    ):
        assert inspect.getmodule(getattr(module, name)) is module
        below = {other for other in imports(Path(str(module.__file__))) if other.startswith("nanobot.")}
        assert all(other.split(".")[1] in {"utils", "errors", "messages", "results"} for other in below), below


def test_A01_K31_N27_the_eyes_know_nothing_of_agents_and_only_the_registry_runs_tools() -> None:
    for path in (PACKAGE / "web").rglob("*.py"):
        above = {
            name for name in imports(path) if name.startswith(("nanobot.agent", "nanobot.channels", "nanobot.app"))
        }
        assert not above, f"{path.name} imports {above}"
    runner = (PACKAGE / "agent" / "runner.py").read_text(encoding="utf-8")
    assert "self.tools.execute(" in runner
    assert ".call(arguments" not in runner


async def test_A01_a_registry_offers_lists_and_runs_its_tools() -> None:
    tools = ToolRegistry()
    tools.register(FakeTool("b"))
    tools.register(FakeTool("a"))
    assert (tools.names, [spec.name for spec in tools.specs()]) == (("a", "b"), ["a", "b"])
    assert (await run_tool(tools, "a", {"query": "x"}, ToolContext())).text == "found x"
    assert (await run_tool(tools, "c", {})).error == "not_found"


def test_A19_a_result_tells_success_output_and_error() -> None:
    good, bad = ToolResult("text"), error_result("timeout", "too slow")
    assert (good.success, str(good), good.error) == (True, "text", None)
    assert (bad.success, str(bad), bad.error) == (False, "Error: too slow", "timeout")
