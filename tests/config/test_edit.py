"""Changing one place of the configuration file leaves all other bytes as they are."""

import json
import re
import stat
from pathlib import Path

import pytest

from nanobot.config.changes.asked import key_path
from nanobot.config.edit import ConfigFile
from nanobot.config.given import ALIASES
from nanobot.config.keys import walk_keys
from nanobot.config.loader import load
from nanobot.errors import ConfigError, UsageError
from tests.tables import table

SERVER = {"url": "https://mcp.example/mcp"}
SHOWN = '{\n{I}  "url": "https://mcp.example/mcp"\n{I}}'


def shown(indent: int) -> str:
    return SHOWN.replace("{I}", " " * indent)


@table(
    "before after",
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
    ('{\n  "mcp": {\n    // none yet\n  }\n}', f'{{\n  "mcp": {{\n    // none yet\n    "new": {shown(4)}\n  }}\n}}'),
)
def test_U45_a_server_is_added_beside_the_others_and_taken_out_again(before: str, after: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    if before:
        path.write_text(before, encoding="utf-8")
    place = ("tools", "mcpServers", "new")
    ConfigFile(path, {}).set(place, SERVER)
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
            ConfigFile(path, {}).set(("tools", "mcpServers", "new"), SERVER)
        assert path.read_text(encoding="utf-8") == text
    path.write_text("{}", encoding="utf-8")
    file = ConfigFile(path, {})
    path.write_text('{"mcp": {}}', encoding="utf-8")
    with pytest.raises(UsageError, match="changed by somebody else"):
        file.set(("tools", "mcpServers", "new"), SERVER)
    assert path.read_text(encoding="utf-8") == '{"mcp": {}}'


@table(
    "before after",
    ("{}", '{\n  "library": {\n    "folders": [\n      "~/b"\n    ]\n  }\n}'),
    ('{"library": {"folders": ["~/a"]}} // x', '{"library": {"folders": ["~/a", "~/b"]}} // x'),
    (
        '{\n  "library": {"folders": [\n    "~/a", // mine\n  ]}\n}',
        '{\n  "library": {"folders": [\n    "~/a", // mine\n    "~/b",\n  ]}\n}',
    ),
    ('{"library": {"folders": [ /* none */ ]}}', '{"library": {"folders": ["~/b" /* none */ ]}}'),
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


FILE = """{
  // the model
  "agents": {"defaults": {"max_tokens": 100, "model": "old" /* cheap */}},
  "mcp": {"a": {"url": "http://a.example/", "timeoutMs": 5000}},
  "channels": {
    "telegram": {
      "allowFrom": [
        1, // ann
        2, // bob
        3
      ]
    }
  },
  "prices": {"gpt-4.1": {"input": 1}}
}
"""


@table(
    "path value before after",
    ("agents.defaults.model", "new", '"old"', '"new"'),
    ("agents.defaults.maxTokens", 200, "100", "200"),
    ("agents.defaults.temperature", 0.5, '"old" /*', '"old", "temperature": 0.5 /*'),
    ("tools.mcpServers.a.toolTimeout", 7, "5000}}", '5000, "toolTimeout": 7}}'),
    ("tools.mcpServers.b", SERVER, "5000}}", f'5000}}, "b": {json.dumps(SERVER)}}}'),
    ("channels.telegram.allowFrom", ["1", "2", "3"], "1, // ann\n        2, // bob\n        3", None),
    ("channels.telegram.allowFrom", [1, 4, 3], "2, // bob", "4, // bob"),
    ("channels.telegram.allowFrom", [1, 3], "        2, // bob\n", ""),
    ("channels.telegram.allowFrom", [1, 2, 9, 3], "// bob\n", "// bob\n        9,\n"),
    ("channels.telegram.allowFrom", [1, 2, 3, 9], "3\n", "3,\n        9\n"),
    ("channels.telegram.allowFrom", [], "[\n        1, // ann\n        2, // bob\n        3\n      ]", "[]"),
    ("prices.gpt-4.1.input", 2, "1}}\n", "2}}\n"),
    ("gateway.concurrency", 5, "}}\n}", '}},\n  "gateway": {\n    "concurrency": 5\n  }\n}'),
)
def test_a_value_is_changed_where_it_stands_or_added_and_all_else_stays(
    path: str, value: object, before: str, after: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "config.json"
    file.write_text(FILE, encoding="utf-8")
    place = key_path(path)
    loaded = ConfigFile(file, {}).set(place, value)
    written = file.read_text(encoding="utf-8")
    if after is None:
        assert written != FILE
        assert "// ann" in written
        assert "// bob" in written
    else:
        assert written == FILE.replace(before, after, 1)
    assert loaded == load(file, env={})
    assert ConfigFile(file, {}).value(place) == value


def test_a_time_that_the_file_writes_in_milliseconds_stays_one(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(
        '{"tools": {"webfetch": {"timeout": 5000}, "web": {"search": {"timeoutMs": 1000}}}}', encoding="utf-8"
    )
    ConfigFile(file, {}).set(("tools", "web", "fetch", "timeout"), 7)
    loaded = ConfigFile(file, {}).set(("tools", "web", "search", "timeout"), 2.5)
    assert file.read_text(encoding="utf-8") == (
        '{"tools": {"webfetch": {"timeout": 7000}, "web": {"search": {"timeoutMs": 2500}}}}'
    )
    assert (loaded.config.tools.web.fetch.timeout, loaded.config.tools.web.search.timeout) == (7, 2.5)


def test_a_name_in_another_spelling_is_changed_where_it_stands_and_refused_beside_itself(tmp_path: Path) -> None:
    file, text = tmp_path / "config.json", '{"tools": {"web": {"search": {"providers": {"Brave": {"apiKey": "x"}}}}}}'
    file.write_text(text, encoding="utf-8")
    ConfigFile(file, {}).set(key_path("tools.web.search.providers.BRAVE.apiKey"), "y")
    assert file.read_text(encoding="utf-8") == text.replace('"x"', '"y"')
    file.write_text(text.replace("}}}}}}", '}, "brave": {"apiKey": "z"}}}}}}'), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"stands as \S+\.Brave already"):
        load(file, env={})


def test_every_key_is_found_by_its_path_in_snake_case_and_as_the_family_writes_it() -> None:
    for path, _ in walk_keys():
        named = tuple("gpt-4.1" if part == "<name>" else part for part in path)
        assert key_path(".".join(named)) == named
        assert key_path(".".join(re.sub("[A-Z]", lambda one: f"_{one[0].lower()}", part) for part in named)) == named
    for alias, target in ALIASES.items():
        assert key_path(".".join(alias)) in (alias, target)
    with pytest.raises(UsageError, match=re.escape("Did you mean tools.web.search.maxResults?")):
        key_path("tools.web.search.maxResult")
    with pytest.raises(UsageError, match=re.escape("It is agents.defaults.model.")):
        key_path("model")
