"""Changing one key of a file that people write in."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.config.edit import remove_key, set_key, with_key, without_key
from nanobot.config.jsonc import parse, plain
from nanobot.config.loader import load
from nanobot.errors import ConfigError

WRITTEN = """\
// mine
{
    /* the model I like */
    "agents": { "defaults": { "model": "old", "memoryWindow": 100 } }, // kept
    "channels": {
        "telegram": {
            "enabled": false, // not yet
            "allow_from": ["1",],
        },
        "whatsapp": {"bridgeUrl": "ws://localhost:3001"}, /* another
        program's */
    },
    "gateway": {"port": 1}
}
"""


def write(tmp_path: Path, text: str = WRITTEN) -> Path:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_changed_value_is_the_only_change(tmp_path: Path) -> None:
    path = write(tmp_path)
    set_key(path, "agents.defaults.model", "new", env={})
    assert path.read_text(encoding="utf-8") == WRITTEN.replace('"old"', '"new"')


def test_a_new_key_joins_its_group_and_nothing_else_moves(tmp_path: Path) -> None:
    path = write(tmp_path)
    set_key(path, "channels.telegram.token", "${TOKEN}", env={"TOKEN": "1:a"})
    assert path.read_text(encoding="utf-8") == WRITTEN.replace(
        '"allow_from": ["1",],\n', '"allow_from": ["1",],\n            "token": "${TOKEN}",\n'
    )


def test_a_new_group_is_made_at_the_end(tmp_path: Path) -> None:
    path = write(tmp_path)
    set_key(path, "tools.web.search.provider", "brave", env={})
    text = path.read_text(encoding="utf-8")
    assert text.startswith(WRITTEN.replace('"port": 1}\n}\n', '"port": 1}'))
    assert load(path, env={}).config.tools.web.search.provider == "brave"


def test_a_comment_that_spans_lines_never_swallows_a_new_key(tmp_path: Path) -> None:
    path = write(tmp_path)
    set_key(path, "channels.telegram.hints", False, env={})
    set_key(path, "channels.telegram.streaming", False, env={})
    set_key(path, "channels.plugin", {"enabled": True}, env={})
    assert "program's */" in path.read_text(encoding="utf-8")
    assert '"plugin"' in json.dumps(plain(parse(path.read_text(encoding="utf-8"))))


def test_the_spelling_of_the_file_is_kept(tmp_path: Path) -> None:
    path = write(tmp_path)
    set_key(path, "channels.telegram.allowFrom", ["2"], env={})
    text = path.read_text(encoding="utf-8")
    assert '"allow_from": ["2"],' in text
    assert "allowFrom" not in text


def test_a_removed_key_leaves_everything_else(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert remove_key(path, "channels.telegram.allowFrom", env={})
    assert path.read_text(encoding="utf-8") == WRITTEN.replace('            "allow_from": ["1",],\n', "")
    assert not remove_key(path, "channels.telegram.token", env={})


def test_a_missing_file_is_made_private(tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.json"
    set_key(path, "channels.telegram.enabled", True, env={})
    assert json.loads(path.read_text(encoding="utf-8")) == {"channels": {"telegram": {"enabled": True}}}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        (WRITTEN, "tools.web.search.maxResults", 500),
        (WRITTEN, "agents.defaults.model.name", "x"),
        (WRITTEN, "agents..model", "x"),
        ('{"tools": {', "tools.web.enable", False),
        ("[]", "tools.web.enable", False),
    ],
)
def test_a_change_that_would_not_load_is_refused_and_the_file_stays(
    tmp_path: Path, text: str, key: str, value: object
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError):
        set_key(path, key, value, env={})
    assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    path = write(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    set_key(link, "gateway.port", 2, env={})
    assert link.is_symlink()
    assert '"gateway": {"port": 2}' in path.read_text(encoding="utf-8")


KEYS = st.sampled_from(["a", "b", "tools", "x y"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
GAPS = st.sampled_from(["", " ", "\n  ", "// note\n", "/* a\n b */", "\r\n"])


def spread(value: object, gaps: list[str]) -> str:
    """`value` as JSON with comments and blanks between its parts."""
    text = json.dumps(value)
    pieces: list[str] = []
    inside = False
    for at, mark in enumerate(text):
        if mark == '"' and (at == 0 or text[at - 1] != "\\"):
            inside = not inside
        pieces.append(mark + (gaps[at % len(gaps)] if not inside and mark in "{}[],:" else ""))
    return "".join(pieces)


@settings(deadline=None)
@given(
    st.dictionaries(KEYS, VALUES, max_size=3),
    st.lists(GAPS, min_size=1, max_size=5),
    st.lists(KEYS, min_size=1, max_size=3),
    VALUES.filter(lambda value: value is not None),
)
def test_setting_and_removing_change_one_key_of_any_file(
    data: dict[str, object], gaps: list[str], key: list[str], value: object
) -> None:
    text = spread(data, gaps)
    if plain(parse(text)) != data:
        return
    expected: dict[str, object] = json.loads(json.dumps(data))
    level = expected
    for part in key[:-1]:
        inner = level.get(part)
        if inner is not None and not isinstance(inner, dict):
            with pytest.raises(ConfigError):
                with_key(text, tuple(key), value)
            return
        if inner is None:
            inner = level[part] = {}
        level = inner
    is_new = key[-1] not in level
    level[key[-1]] = value
    edited = with_key(text, tuple(key), value)
    assert plain(parse(edited)) == expected
    if is_new:
        assert (edited.count("// note"), edited.count("/* a")) == (text.count("// note"), text.count("/* a"))
    del level[key[-1]]
    assert plain(parse(without_key(edited, tuple(key)))) == expected
