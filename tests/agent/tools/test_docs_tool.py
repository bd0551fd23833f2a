"""The tool that searches nanobot's own documentation."""

from pathlib import Path

import pytest

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.docs import NanobotDocsTool
from nanobot.errors import SkipTool


async def test_the_section_that_answers_comes_first_as_a_trusted_numbered_source() -> None:
    context = ToolContext()
    result = await NanobotDocsTool().call({"query": "connect Telegram"}, context)
    assert not result.untrusted
    assert result.success
    assert "telegram" in result.sources[0].url.casefold()
    assert context.sources[1].url == result.sources[0].url
    assert result.text.splitlines()[2].startswith("[1] ")


async def test_a_section_keeps_its_code_and_its_place(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Page\n\nIntro.\n\n## Start it\n\nRun:\n\n```\na\n  b\n```\n", encoding="utf-8")
    result = await NanobotDocsTool(tmp_path).call({"query": "start"})
    assert "\n[1] Page › Start it\nurl: docs/page.md#start-it\n" in result.text
    assert result.text.count("url: ") == 1
    assert "```\na\n  b\n```" in result.text


async def test_tables_stay_tables_and_lists_stay_together(tmp_path: Path) -> None:
    table = "| key | means |\n|---|---|\n| `port` | where it listens |\n| `host` | whom it answers |"
    steps = "1. Set the port.\n2. Start it."
    (tmp_path / "setup.md").write_text(f"# Ports\n\nThe keys:\n\n{table}\n\n{steps}\n", encoding="utf-8")
    result = await NanobotDocsTool(tmp_path).call({"query": "ports"})
    assert table in result.text
    assert steps in result.text


async def test_nothing_found_is_said_and_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Page\n\nIntro.\n", encoding="utf-8")
    result = await NanobotDocsTool(tmp_path).call({"query": "zebra"})
    assert result.success
    assert "zebra" in result.text
    assert not result.sources


def test_without_documentation_the_tool_is_skipped_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(SkipTool, match="no documentation"):
        NanobotDocsTool(tmp_path)


async def test_a_long_section_that_is_asked_for_by_its_heading_begins_with_its_beginning(tmp_path: Path) -> None:
    rows = "\n".join(f"| `{number}_key` | the key of model {number} |" for number in range(200))
    first = "Put it into the environment, where every program of yours finds it. " * 30
    page = f"# Start\n\n## Add a model with a key\n\n{first}\n\n| add | key | model |\n|---|---|\n{rows}\n"
    (tmp_path / "start.md").write_text(page, encoding="utf-8")
    result = await NanobotDocsTool(tmp_path).call({"query": "add a model with a key"})
    assert "#add-a-model-with-a-key\n\nPut it into the environment" in result.text
