"""`nanobot config get|set|unset|edit` as people type it."""

import json
import stat
from pathlib import Path

import pytest

from nanobot.cli.care.config import run_config
from nanobot.cli.habits import parse
from nanobot.config.loader import load
from nanobot.errors import ConfigError, UsageError
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, program
from tests.tables import table

KEY = "sk-canary-0123456789"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("NANOBOT_CONFIG", raising=False)
    monkeypatch.setenv("NANOBOT_HOME", str(tmp_path))
    return tmp_path / "config.json"


def call(*words: str) -> int:
    return run_config(parse(("config", *words)))


@pytest.mark.parametrize("action", ["get", "set", "unset"])
def test_a_key_without_a_name_is_refused_and_the_file_stays(file: Path, action: str) -> None:
    file.write_text('{"budget": {"perDay": 3}}', encoding="utf-8")
    with pytest.raises(UsageError, match="no key without a name"):
        call(action, "", *(["{}"] if action == "set" else []))
    assert file.read_text(encoding="utf-8") == '{"budget": {"perDay": 3}}'


def test_show_refuses_the_name_of_what_is_not_set_up(file: Path) -> None:
    file.write_text('{"tools": {"mcpServers": {"files": {"command": "x"}}}}', encoding="utf-8")
    assert call("show", "tools.mcpServers.files") == 0
    with pytest.raises(UsageError, match=r"no key tools\.mcpServers\.filse"):
        call("show", "tools.mcpServers.filse")


@table(
    "words shown written",
    ("agents.defaults.model gpt-5", "gpt-5", "gpt-5"),
    ("agents.defaults.max_tokens 4000", "4000", 4000),
    ("agents.defaults.temperature 0.5", "0.5", 0.5),
    ("tools.web.enable off", "false", False),
    ("channels.telegram.streaming true", "edit", True),
    ("channels.telegram.streaming draft", "draft", "draft"),
    ("channels.telegram.allowFrom 1 22", '["1", "22"]', ["1", "22"]),
    ('channels.telegram.allowFrom ["1",22]', '["1", "22"]', ["1", 22]),
    ("agents.defaults.timezone Europe/Berlin", "Europe/Berlin", "Europe/Berlin"),
    ("prices.gpt-4.1.input 2", "2.0", 2),
    ("providers.openai.extraBody.top_k 4", "4", 4),
    ('agents.defaults.fallbackModels [{"model":"m"},"n"]', None, [{"model": "m"}, "n"]),
    ("channels.telegram.proxy null", "null", None),
    ('agents.presets.deep {"model":"m","effort":"high"}', None, {"model": "m", "effort": "high"}),
)
def test_set_takes_text_or_JSON_by_the_type_of_the_key_and_get_prints_what_is_in_force(
    file: Path, capsys: pytest.CaptureFixture[str], words: str, shown: str | None, written: object
) -> None:
    key, *value = words.split()
    assert call("set", key, *value) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    capsys.readouterr()
    assert call("get", key) == 0
    if shown is not None:
        assert capsys.readouterr().out == f"{shown}\n"
    found: object = json.loads(file.read_text(encoding="utf-8"))
    place = {"prices.gpt-4.1.input": "prices/gpt-4.1/input", "agents.presets.deep": "modelPresets/deep"}
    for part in place.get(key, key.replace(".", "/")).split("/"):
        assert isinstance(found, dict)
        found = found[{"max_tokens": "maxTokens"}.get(part, part)]
    assert found == written
    assert call("unset", key) == 0
    assert call("unset", key) == 0
    assert "default already" in capsys.readouterr().out


@table(
    "words says",
    ("set agents.defaults.maxTokens many", 'got "many", wants a whole number from 1 up'),
    ("set agents.defaults.modell gpt-5", "Did you mean agents.defaults.model?"),
    ("get tools.web.serch.provider", "Did you mean tools.web.search.provider?"),
    ("show tools.web.serch", "Did you mean tools.web.search?"),
    ("unset token", "It is channels.telegram.token."),
    ("set agents.defaults.model", "Which value?"),
    (f"set providers.openai.apiKey {KEY}", "asks for it without showing it"),
    (f'set providers.openai {{"apiKey":"{KEY}"}}', "providers.openai.apiKey is a secret"),
    (f"set providers.openai.extraHeaders.X-Api-Key {KEY}", "is a secret"),
    (f"set tools.web.proxy http://me:{KEY}@proxy.example:8080", "holds a password or a key (the URL carries a login)"),
    (f"set providers.custom.apiBase https://example.com/v1?token={KEY}", "holds a password or a key"),
)
def test_what_cannot_be_written_is_refused_with_the_nearest_right_thing(file: Path, words: str, says: str) -> None:
    file.write_text("{ /* mine */ }", encoding="utf-8")
    with pytest.raises((UsageError, ConfigError)) as caught:
        call(*words.split())
    assert says in str(caught.value)
    assert KEY not in str(caught.value)
    assert file.read_text(encoding="utf-8") == "{ /* mine */ }"


@table(
    "words says",
    ("set agents.defaults.model gpt-5", "A running nanobot takes it with its next turn."),
    ("set channels.terminal.notify off", "The next terminal has it"),
    ("set gateway.concurrency 9", "A running nanobot has it after its next start."),
    ('set channels {"terminal":{"notify":"off"}}', "after its next start"),
)
def test_a_change_says_when_it_counts(file: Path, capsys: pytest.CaptureFixture[str], words: str, says: str) -> None:
    assert call(*words.split()) == 0
    assert f"{file}. " in (told := capsys.readouterr().out)
    assert says in told


async def test_a_secret_comes_from_a_pipe_or_a_variable_and_is_never_shown(tmp_path: Path) -> None:
    nanobot = Program(tmp_path / "home")
    ran = await nanobot.run("config", "set", "providers.openai.apiKey", "--stdin", stdin=f"{KEY}\n".encode())
    got = await nanobot.run("config", "get", "providers.openai.apiKey")
    assert (ran.code, got.out) == (0, "********\n")
    assert KEY not in ran.out + ran.err
    assert json.loads((nanobot.home / "config.json").read_text("utf-8")) == {"providers": {"openai": {"apiKey": KEY}}}
    odd = "a$$b${HOME}c$d"
    await nanobot.run("config", "set", "channels.telegram.token", "--stdin", stdin=odd.encode())
    assert load(nanobot.home / "config.json", env={"HOME": "/"}).config.channels.telegram.token == odd
    ran = await nanobot.run("config", "set", "providers.groq.apiKey", "${NO_SUCH_KEY}")
    assert (ran.code, "${NO_SUCH_KEY}" in ran.out) == (1, True)
    assert "NO_SUCH_KEY is not set" in ran.err


async def test_a_secret_is_asked_for_and_not_shown(tmp_path: Path) -> None:
    nanobot = Program(tmp_path / "home")
    asked = nanobot.command("config", "set", "channels.telegram.token")
    with PseudoTerminal(asked, env=nanobot.env) as terminal:
        await terminal.until("is not shown")
        terminal.press(f"{KEY}\r")
        assert await terminal.wait() == 0
        assert KEY not in terminal.text()
    assert KEY in (nanobot.home / "config.json").read_text("utf-8")


async def test_edit_saves_what_is_in_order_and_nothing_else(tmp_path: Path) -> None:
    nanobot = Program(tmp_path / "home")
    nanobot.home.mkdir(mode=0o700)
    file = nanobot.home / "config.json"
    file.write_text('{\n  // mine\n  "gateway": {"concurrency": 3}\n}\n', encoding="utf-8")
    ran = await nanobot.run("config", "edit", env={"EDITOR": "sed -i s/3/30/"})
    assert (ran.code, file.read_text("utf-8").count("30"), file.read_text("utf-8").count("// mine")) == (0, 1, 1)
    before = file.read_text("utf-8")
    for editor, says in (
        ("sed -i 's/30/true/'", "config.json:3: gateway.concurrency"),
        ("sed -i s/}//", "config.json:"),
        ("false", "ended with exit code 1"),
        ("/no/such/editor", "cannot be started"),
        ("true", ""),
    ):
        ran = await nanobot.run("config", "edit", env={"VISUAL": editor})
        assert says in ran.err
        assert file.read_text("utf-8") == before
    file.write_text("{ broken", encoding="utf-8")
    ran = await nanobot.run("config", "edit", env={"EDITOR": "sed -i s/broken/}/"})
    assert (ran.code, file.read_text("utf-8")) == (0, "{ }")


async def test_edit_offers_the_editor_again_where_the_result_is_broken(tmp_path: Path) -> None:
    nanobot = Program(tmp_path / "home")
    script = tmp_path / "editor"  # what it writes is broken twice, and whole at the third time
    script.write_text('[ $(wc -l <"$1") = 4 ] && echo "{}" >"$1" || echo "]" >>"$1"\n', encoding="utf-8")
    env = {**nanobot.env, "EDITOR": f"sh {script}"}
    with PseudoTerminal(nanobot.command("config", "edit"), env=env) as terminal:
        for _ in range(2):
            await terminal.until("opens the editor again")
            terminal.screen.reset()
            terminal.press("\r")
        await terminal.until("is changed")
        assert await terminal.wait() == 0
    with PseudoTerminal(nanobot.command("config", "edit"), env={**env, "EDITOR": "sed -i s/}/]/"}) as terminal:
        await terminal.until("opens the editor again")
        terminal.press("q\r")
        assert await terminal.wait() == 2
    assert (nanobot.home / "config.json").read_text("utf-8") == "{}\n"


_PASTED = (
    "tvly-dev-AbCd1234EfGh5678IjKl",
    "BSAx9f8e7d6c5b4a3z2y1xWvUtSrQ",
    "8123456789:AAHfiqksKZ8WmR2zMnOpQrStUvWxYz01234",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
)


@pytest.mark.parametrize("pasted", _PASTED)
async def test_a_key_pasted_in_a_wrong_place_is_repeated_by_no_command_of_config(tmp_path: Path, pasted: str) -> None:
    home = program(tmp_path)
    tried: list[tuple[str, ...]] = [
        ("set", "tools.web.search.provider", pasted),
        ("set", "tools.web.search.maxResults", pasted),
    ]
    tried += [("get", pasted), ("set", f"providers.{pasted}", "x"), ("set", "agents.defaults.timezone", pasted)]
    ran = [await home.run("config", *words) for words in tried]
    file = home.home / "config.json"
    for wrong in ({pasted: 1}, {"agents": {"defaults": {"provider": pasted}}}, {"tools": {"exec": {"enable": pasted}}}):
        file.write_text(json.dumps(wrong), encoding="utf-8")
        ran.append(await home.run("config", "check"))
    assert all(one.code for one in ran)
    assert [one.out + one.err for one in ran if pasted in one.out + one.err] == []
    assert "provider: got " in ran[0].err or "********" in ran[0].err


async def test_words_that_only_look_odd_are_told(tmp_path: Path) -> None:
    (tmp_path / "0f8fad5b-d9cb-469f-a165-70867728950e").mkdir()
    home = program(tmp_path / "0f8fad5b-d9cb-469f-a165-70867728950e")
    for said in ("claude-sonnet-4-5-20250929", "meta-llama/Llama-3.3-70B-Instruct", "gpt-4o-mini-2024-07-18"):
        ran = await home.run("config", "set", "agents.defaults.model", said)
        assert f'"{said}"' in ran.out, ran.err
        assert str(home.home) in ran.out
    home.home.joinpath("config.json").write_text("{", encoding="utf-8")
    assert str(home.home) in (await home.run("config", "check")).out
