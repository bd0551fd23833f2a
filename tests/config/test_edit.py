"""Changing one place of the configuration file leaves all other bytes as they are."""

import stat
from pathlib import Path

import pytest

from nanobot.config.edit import ConfigFile
from nanobot.config.loader import load
from nanobot.errors import ConfigError, UsageError

SERVER = {"url": "https://mcp.example/mcp"}
SHOWN = '{\n{I}  "url": "https://mcp.example/mcp"\n{I}}'


def shown(indent: int) -> str:
    return SHOWN.replace("{I}", " " * indent)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f'{{\n  "tools": {{\n    "mcpServers": {{\n      "new": {shown(6)}\n    }}\n  }}\n}}\n'),
        (
            '{\n  // mine\n  "mcp": {\n    "old": {"url": "http://a.example/"} // here\n  },\n}\n',
            '{\n  // mine\n  "mcp": {\n    "old": {"url": "http://a.example/"}, // here\n    "new": SHOWN\n  },\n}\n',
        ),
        (
            '{\n\t"tools": {\n\t\t"mcpServers": {\n\t\t\t"old": {"url": "http://a.example/"}, /* x */\n\t\t},\n\t},\n}',
            '{\n\t"tools": {\n\t\t"mcpServers": {\n\t\t\t"old": {"url": "http://a.example/"}, /* x */\n'
            '\t\t\t"new": ' + SHOWN.replace("{I}", "\t\t\t") + ",\n\t\t},\n\t},\n}",
        ),
        (
            '{"mcpServers": {"old": {"url": "http://a.example/"}}}',
            '{"mcpServers": {"old": {"url": "http://a.example/"}, "new": {"url": "https://mcp.example/mcp"}}}',
        ),
        (
            '{\n  "mcp": {\n    // none yet\n  }\n}',
            f'{{\n  "mcp": {{\n    // none yet\n    "new": {shown(4)}\n  }}\n}}',
        ),
    ],
)
def test_U45_a_server_is_added_beside_the_others_and_taken_out_again(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if before:
        path.write_text(before, encoding="utf-8")
    file = ConfigFile(path, {})
    place = (*file.place_of_server("new"), "new")
    file.add(place, SERVER)
    assert path.read_text(encoding="utf-8") == after.replace("SHOWN", shown(4))
    assert load(path, env={}).config.tools.mcp_servers["new"].url == SERVER["url"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ConfigFile(path, {}).remove(place)
    left = path.read_text(encoding="utf-8")
    assert "new" not in load(path, env={}).config.tools.mcp_servers
    assert left.replace("\n", "").replace(" ", "").replace(",", "") == (
        before.replace("\n", "").replace(" ", "").replace(",", "") or '{"tools":{"mcpServers":{}}}'
    )
    assert [one.name for one in tmp_path.iterdir()] == ["config.json"]


def test_nothing_is_written_that_would_not_load_or_over_what_somebody_else_wrote(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for text in ('{"mcp": {', '{"gateway": {"concurrency": "x"}}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            ConfigFile(path, {}).add(("mcp", "new"), SERVER)
        assert path.read_text(encoding="utf-8") == text
    path.write_text("{}", encoding="utf-8")
    file = ConfigFile(path, {})
    path.write_text('{"mcp": {}}', encoding="utf-8")
    with pytest.raises(UsageError, match="changed by somebody else"):
        file.add(("mcp", "new"), SERVER)
    assert path.read_text(encoding="utf-8") == '{"mcp": {}}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "library": {\n    "folders": [\n      "~/b"\n    ]\n  }\n}'),
        ('{"library": {"folders": ["~/a"]}} // x', '{"library": {"folders": ["~/a", "~/b"]}} // x'),
        (
            '{\n  "library": {"folders": [\n    "~/a", // mine\n  ]}\n}',
            '{\n  "library": {"folders": [\n    "~/a", // mine\n    "~/b",\n  ]}\n}',
        ),
        ('{"library": {"folders": [ /* none */ ]}}', '{"library": {"folders": ["~/b" /* none */ ]}}'),
    ],
)
def test_a_text_is_added_to_a_list_and_taken_out_and_comments_stay(before: str, after: str, tmp_path: Path) -> None:
    path, place = tmp_path / "config.json", ("library", "folders")
    path.write_text(before, encoding="utf-8")
    ConfigFile(path, {}).append(place, "~/b")
    assert path.read_text(encoding="utf-8") == after
    assert load(path, env={}).config.library.folders[-1:] == ("~/b",)
    ConfigFile(path, {}).take(place, "~/b")
    assert "~/b" not in load(path, env={}).config.library.folders
    with pytest.raises(UsageError, match="in these very words"):
        ConfigFile(path, {}).take(place, "/home/ann/b")
    assert path.read_text(encoding="utf-8").count("//") + path.read_text(encoding="utf-8").count("/*") == (
        before.count("//") + before.count("/*")
    )
