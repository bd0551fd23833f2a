"""`nanobot config check|path|schema|show` as people type it."""

import asyncio
import json
from pathlib import Path

import pytest

from nanobot.cli.care.config import run_config
from nanobot.cli.habits import parse
from tests.channels.telegram.gateway import running
from tests.cli.harness import Program, program
from tests.fakes.llm_server import LlmServer
from tests.fakes.sections import defaults, provider, telegram, web
from tests.fakes.telegram_server import TelegramServer
from tests.fakes.waiting import until
from tests.tables import table


async def test_an_action_that_there_is_not_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    nanobot = program(tmp_path)
    for words, hint in (("config frob", ""), ("config st", " Did you mean 'set'?")):
        ran = await nanobot.run(*words.split())
        wrong = words.split()[1]
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"nanobot: `nanobot config` does not know {wrong!r}.{hint} It knows: check, path, ")
        assert "choose from" not in ran.err


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("NANOBOT_CONFIG", "NANOBOT_HOME", "NO_SUCH_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NANOBOT_HOME", str(tmp_path))
    return tmp_path


def config(home: Path, text: str) -> Path:
    path = home / "config.json"
    path.write_text(text, encoding="utf-8")
    return path


def call(*words: str) -> int:
    return run_config(parse(words))


@table(
    "text code says",
    ("{}", 0, "in order"),
    ('{\n"tools": {"wbe": {}}}', 1, 'config.json:2: tools.wbe: unknown key, not used. Did you mean "web"?'),
    ('{"providers": {"openai": {"apiKey": "${NO_SUCH_KEY}"}}}', 1, "NO_SUCH_KEY is not set"),
    ('{"gateway": {"concurrency": "x"}}', 2, 'gateway.concurrency: got "x", wants a whole number from 1 to 10000.'),
    ('{"tools": {"files": {"roots": ["/no/such"]}}}', 1, "roots: there is no folder /no/such, so nothing can be read"),
    ('{"gateway": ', 2, "config.json:1: "),
)
def test_check_says_what_is_wrong_and_ends_accordingly(
    home: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, says: str
) -> None:
    path = config(home, text)
    assert call("config", "check") == code
    assert says in capsys.readouterr().out
    assert path.read_text(encoding="utf-8") == text


def test_check_needs_no_file_but_one_that_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("config", "check") == 0
    assert call("--config", str(home / "typo.json"), "config", "check") == 2
    assert "typo.json: the file does not exist." in capsys.readouterr().out


def test_path_names_the_file_in_force(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("config", "path") == 0
    assert capsys.readouterr().out == f"{home / 'config.json'}\n"
    assert call("--config", "/etc/n.json", "config", "path", "--all") == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (lines["config:"], lines["home:"], lines["database:"]) == (
        "/etc/n.json",
        str(home),
        str(home / "nanobot.db"),
    )


def test_schema_prints_a_json_schema(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("config", "schema") == 0
    assert "agents" in json.loads(capsys.readouterr().out)["properties"]


def test_show_hides_every_secret(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config(
        home,
        """{"providers": {"a": {"apiKey": "CANARY-1", "extraHeaders": {"X-Key": "CANARY-2"},
                                 "extraBody": {"user": "CANARY-7", "top_k": 4}}},
            "channels": {"telegram": {"token": "CANARY-3", "proxy": "http://me:CANARY-4@h:1"}},
            "mcp": {"m": {"url": "http://u:CANARY-5@h/", "env": {"T": "CANARY-6"}}}}""",
    )
    assert call("config", "show") == 0
    out = capsys.readouterr().out
    assert "CANARY" not in out
    shown = json.loads(out)
    assert shown["providers"]["a"] == {
        "apiKey": "********",
        "apiKeyCommand": [],
        "apiBase": None,
        "extraHeaders": {"X-Key": "********"},
        "extraBody": {"user": "********", "top_k": 4},
        "thinkingStyle": None,
    }
    assert shown["channels"]["telegram"]["proxy"] == "http://********@h:1"


@table(
    "url",
    "https://me:{}@h.example/",
    "https://me:x@{}@h.example/",
    "https://{}@h.example/x",
    "https://h.example/mcp?exaApiKey={}",
    "https://h.example/mcp?a=1&access_token={}#x",
    "https://h.example/mcp#key={}",
    "https://h.example/mcp/?{}",
    "https://h.example/v1/{}/models",
    "https://h.example/bot123456789:{}/x",
)
def test_show_hides_the_secrets_of_addresses_alone(home: Path, capsys: pytest.CaptureFixture[str], url: str) -> None:
    key = "sk-canary-0123456789abcdefghij"
    config(home, json.dumps({"mcp": {"m": {"url": url.format(key)}}, **web(search={"baseUrl": url.format(key)})}))
    assert call("config", "show") == 0
    out = capsys.readouterr().out
    assert "canary" not in out
    shown = json.loads(out)["tools"]
    assert shown["mcpServers"]["m"]["url"] == shown["web"]["search"]["baseUrl"]
    assert "h.example/" in shown["web"]["search"]["baseUrl"]
    assert "********" in shown["web"]["search"]["baseUrl"]


def test_show_leaves_addresses_without_secrets_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = "https://searx.example:8443/search/v2?format=json&categories=general"
    config(home, json.dumps({"tools": {"web": {"search": {"baseUrl": url}}}}))
    assert call("config", "show", "tools.web.search.baseUrl") == 0
    assert json.loads(capsys.readouterr().out) == url


def test_show_prints_one_part(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("config", "show", "tools.web.search.maxResults") == 0
    assert capsys.readouterr().out == "5\n"


TOKEN = "123456789:" + "A" * 35
KEY = {"apiKey": "k"}
ELSEWHERE = {"url": "https://x.test/", "host": "203.0.113.7"}
LOOKUP = defaults(provider="lookup")
REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "a provider nobody knows": ({**defaults(provider="opena"), **provider("anthropc")}, 'Did you mean "anthropic"'),
    "a model nobody knows": (defaults(model="nobody/knows-this"), "No provider is known"),
    "a provider without its key": (defaults(provider="mistral"), "needs a key"),
    "a preset that is not there": (defaults(modelPreset="x"), "modelPresets does not have"),
    "a fallback nobody knows": (
        {"providers": {"openai": KEY, "anthropic": KEY}, **defaults(model="gpt-6-sol", fallbackModels=["q"])},
        "No provider is known",
    ),
    "Telegram without a token": (telegram(), "needs the token of a bot"),
    "Telegram with a placeholder": (telegram(token="YOUR_BOT_TOKEN"), "is not a bot token"),
    "Telegram with a variable that is not set": (telegram(token="${NO_SUCH_TOKEN}"), "NO_SUCH_TOKEN is not set"),
    "a workspace that is a file": (defaults(workspace="/etc/hosts"), "/etc/hosts: this cannot be"),
    "a key that no request can carry": (provider("openai", apiKey="schlüssel"), "no printable ASCII"),
    "a key of two lines": (web(search={"apiKey": "one\ntwo"}), "no printable ASCII"),
    "a header that no request can carry": (
        provider("openai", apiKey="k", extraHeaders={"X-Team": "Köln"}),
        "no printable ASCII",
    ),
    "a database of another kind": (
        {**LOOKUP, **telegram(token=TOKEN), "gateway": {"ledger": "mysql://x"}},
        "no address of a PostgreSQL database",
    ),
    "a webhook at no address of this machine": (
        {**LOOKUP, **telegram(token=TOKEN, apiBase="http://127.0.0.1:1", webhook=ELSEWHERE)},
        "cannot listen on 203.0.113.7:8443",
    ),
    "a webhook without https": (telegram(token=TOKEN, webhook={"url": "http://x.test"}), "must begin with https"),
}
WARNED: dict[str, tuple[dict[str, object], str]] = {
    "a variable without braces": (provider("openai", apiKey="$OPENAI_API_KEY"), "${OPENAI_API_KEY}"),
    "searxng without an address": (web(search={"provider": "searxng"}), "it lacks an address"),
    "a section that is not used": (provider("opena", apiKey="k"), 'Did you mean "openai"'),
    "a model at the top": ({"model": "gpt-6-sol"}, "belongs in agents.defaults.model"),
    "a key at the top": ({"apiKey": "sk-something"}, "belongs in providers.<name>.apiKey"),
    "an id of nobody": (telegram(token=TOKEN, allowFrom=["@joe"]), "lets nobody in"),
    "a webhook without an address": (
        telegram(token=TOKEN, webhook={"enabled": True}),
        "channels.telegram.webhook: it has no url",
    ),
    "a variable of a near name": (provider("anthropic", apiKey="${ANTHROPIC_KEY}"), "ANTHROPIC_API_KEY is meant"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_check_fails_and_says_the_same_as_a_start(name: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block, says = REFUSED[name]
    config(home, json.dumps(block)).chmod(0o600)
    assert call("config", "check") == 2
    checked = capsys.readouterr().out
    assert says in checked
    channel = "telegram" in json.dumps(block)
    started = asyncio.run(Program(home).run(*(["gateway"] if channel else ["agent", "-m", "hello there"])))
    assert started.code in (1, 2)
    assert started.err.strip().splitlines()[-1].removeprefix("nanobot: ") in checked


#: What is odd and keeps nothing from starting, with the exit code of the check.
STARTS: dict[str, tuple[dict[str, object], int]] = {
    "all defaults": ({}, 0),
    "a server that is not there": ({"mcp": {"x": {"command": "/no/such/program"}}}, 0),
    "folders that are not there": ({"tools": {"files": {"roots": ["/no/such"]}}, "library": {"folders": ["/no"]}}, 1),
    "a plug-in that is not there": ({"plugins": {"enabled": ["nosuch"]}}, 1),
    "an engine without a key": ({"tools": {"web": {"search": {"provider": "brave", "fallback": []}}}}, 1),
    "an unknown key": ({"tols": {}}, 1),
}


async def test_what_the_check_lets_pass_starts(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="Hello.") as llm:

        async def start(number: int, block: dict[str, object], code: int) -> None:
            folder = tmp_path / str(number)
            folder.mkdir()
            bot = {"enabled": True, "token": f"{number}{TOKEN}", "apiBase": telegram.url, "allowFrom": ["4242"]}
            home = program(folder, llm, channels={"telegram": bot}, **block)
            (home.home / "config.json").chmod(0o600)
            checked, asked = await asyncio.gather(home.run("config", "check"), home.run("-m", "hello"))
            assert (checked.code, asked.code, asked.out.strip()) == (code, 0, "Hello."), checked.out + asked.err
            async with running(home) as gateway:
                await until(lambda: "Ctrl-C stops" in gateway.text)

        await asyncio.gather(*(start(number, *one) for number, one in enumerate(STARTS.values())))


async def test_a_key_of_the_environment_that_no_request_can_carry_is_named_and_not_shown(tmp_path: Path) -> None:
    home = Program(tmp_path / "home")
    model, search = await asyncio.gather(
        home.run("agent", "-m", "hello there", env={"OPENAI_API_KEY": "schlüssel"}),
        home.run("agent", "-m", "who won?", env={"BRAVE_API_KEY": "schlüssel", "ALL_PROXY": "http://127.0.0.1:9"}),
    )
    assert (model.code, "OPENAI_API_KEY" in model.err) == (2, True), model.err
    assert "Brave was not asked. No request can carry its key" in search.err
    assert "DuckDuckGo" in search.err  # the next engine is asked all the same
    assert "schlüssel" not in model.err + search.err + search.out


async def test_a_proxy_that_is_down_is_named_and_one_that_cannot_be_used_is_no_start(tmp_path: Path) -> None:
    home = Program(tmp_path / "home")
    env = {"OPENAI_API_KEY": "sk-test-0123456789", "OPENAI_BASE_URL": "http://models.example/v1"}
    question = ("agent", "--model", "gpt-6-sol", "-m", "hello there")
    odd = {**env, "HTTP_PROXY": "socks4://127.0.0.1:9"}
    down, refused, checked = await asyncio.gather(
        home.run(*question, env={**env, "HTTP_PROXY": "http://me:pass-word@127.0.0.1:9"}),
        home.run(*question, env=odd),
        home.run("config", "check", env=odd),
    )
    assert (down.code, "models.example through the proxy 127.0.0.1:9 failed" in down.err) == (75, True), down.err
    assert "pass-word" not in down.err
    assert (refused.code, checked.code, "The proxy in HTTP_PROXY cannot be used" in refused.err) == (2, 2, True)


@pytest.mark.parametrize("name", WARNED)
def test_check_warns_of_what_is_not_what_was_meant(home: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    block, says = WARNED[name]
    config(home, json.dumps(block)).chmod(0o600)
    assert call("config", "check") == 1
    assert says in capsys.readouterr().out


def test_check_warns_of_a_key_that_others_can_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = config(home, json.dumps({**provider("openai", apiKey="sk-something"), **defaults(model="gpt-6-sol")}))
    path.chmod(0o644)
    assert call("config", "check") == 1
    assert "chmod 600" in capsys.readouterr().out
    path.chmod(0o600)
    assert call("config", "check") == 0
