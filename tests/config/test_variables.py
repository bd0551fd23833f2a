"""Variables in values, what an unset one switches off, and keys that a command prints."""

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from nanobot.config.given import expand
from nanobot.config.key_commands import key_from_command, with_command_keys
from nanobot.config.loader import Loaded, load_text
from nanobot.errors import ConfigError
from tests.fakes.patience import growing
from tests.fakes.sections import defaults, provider, telegram, web
from tests.fakes.waiting import until
from tests.tables import table


def loads(data: Mapping[str, object], **env: str) -> Loaded:
    return load_text(json.dumps(data), Path("config.json"), env=env)


@table(
    "written becomes",
    ("${KEY}", "value"),
    ("${env:KEY}", "value"),
    ("Bearer ${KEY}!", "Bearer value!"),
    ("${NONE:-other}", "other"),
    ("${env:NONE:-}", ""),
    ("${EMPTY:-other}", "other"),
    ("${KEY:-other}", "value"),
    ("$$", "$"),
    ("$${KEY}", "${KEY}"),
    ("pa$word", "pa$word"),
    ("${KEY}${KEY}", "valuevalue"),
    ("${NONE:-http://h:1/}", "http://h:1/"),
)
def test_C10_N09_K21_a_variable_is_filled_in(written: str, becomes: str) -> None:
    expanded = expand(written, {"KEY": "value", "EMPTY": ""})
    assert (expanded.text, expanded.missing) == (becomes, ())


@pytest.mark.parametrize("written", ["${", "${}", "${1A}", "${A B}", "${A", "${file:x}"])
def test_N09_what_is_no_variable_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"\$\{NAME\}"):
        expand(written, {})


def test_a_value_that_looks_like_a_variable_is_not_expanded_again() -> None:
    assert expand("${A}", {"A": "${B}", "B": "x"}).text == "${B}"


def test_N09_variables_work_in_headers_lists_numbers_and_switches() -> None:
    written = {
        **provider("custom", apiBase="${BASE}", extraHeaders={"X-Team": "${TEAM}"}),
        **defaults(fallbackModels=["${SECOND:-tiny}"], maxTokens="${TOKENS}"),
        **web(privacy="${PRIVATE}"),
    }
    loaded = loads(written, BASE="http://127.0.0.1:1/v1", TEAM="blue", TOKENS="512", PRIVATE="true")
    custom = loaded.config.providers["custom"]
    assert (custom.api_base, custom.extra_headers) == ("http://127.0.0.1:1/v1", {"X-Team": "blue"})
    assert loaded.config.agents.defaults.fallback_models == ("tiny",)
    assert loaded.config.agents.defaults.max_tokens == 512
    assert loaded.config.tools.web.privacy


@pytest.mark.parametrize("held", ["1e999", "-1e999", "9" * 5000, "[" * 100_000])
def test_a_variable_that_holds_no_number_is_refused_by_name(held: str) -> None:
    with pytest.raises(ConfigError, match=r"agents\.defaults\.maxTokens: got .*wants a whole number"):
        loads({"agents": {"defaults": {"maxTokens": "${TOKENS}"}}}, TOKENS=held)


def test_N09_an_unset_variable_switches_off_only_what_needs_it_and_is_named() -> None:
    engines = {"kagi": {"apiKey": "${NO_KAGI}"}, "tavily": {"apiKey": "k"}}
    loaded = loads(
        {
            "providers": {"a": {"extraHeaders": {"X": "${NO_A}"}}, "b": {"apiKey": "key-of-b"}},
            **telegram(token="${NO_TOKEN}"),
            "mcp": {"m": {"url": "https://m.example", "headers": {"X": "${NO_M}"}}, "n": {"url": "https://n.example"}},
            **web(
                search={"provider": "brave", "apiKey": "${NO_BRAVE}", "providers": engines},
                fetch={"service": {"baseUrl": "https://s.example", "apiKey": "${NO_SERVICE}"}},
            ),
        }
    )
    config = loaded.config
    assert set(config.providers) == {"b"}
    assert not config.channels.telegram.enabled
    assert set(config.tools.mcp_servers) == {"n"}
    assert set(config.tools.web.search.providers) == {"tavily"}
    assert config.tools.web.search.api_key == ""
    assert config.tools.web.fetch.service.base_url == ""
    assert config.tools.web.enable
    assert set(loaded.disabled) == {
        "providers.a",
        "channels.telegram",
        "tools.mcpServers.m",
        "tools.web.search.apiKey",
        "tools.web.search.providers.kagi",
        "tools.web.fetch.service",
    }
    assert "NO_A is not set (providers.a.extraHeaders, line 1)" in loaded.disabled["providers.a"]


def test_an_unset_proxy_never_means_a_direct_connection() -> None:
    loaded = loads({"tools": {"web": {"proxy": "${NO_PROXY_URL}"}}})
    assert not loaded.config.tools.web.enable
    assert "NO_PROXY_URL" in loaded.disabled["tools.web"]


def test_what_is_off_already_needs_no_variable() -> None:
    off = {**telegram(enabled=False, token="${NO}"), "mcp": {"m": {"enabled": False, "url": "${NO}"}}}
    assert loads(off).disabled == {}


def test_secrets_are_known_and_never_shown() -> None:
    written = {
        **provider("a", apiKey="${KEY}", extraHeaders={"X-Api-Key": "header-secret", "X-Env": "production"}),
        **web(proxy="http://me:proxy-secret@h:1"),
        "mcp": {"m": {"url": "https://m.example", "headers": {"Authorization": "Bearer mcp-secret"}}},
    }
    loaded = loads(written, KEY="config-secret", OTHER_API_KEY="environment-secret")
    assert {"config-secret", "header-secret", "proxy-secret", "mcp-secret", "environment-secret"} <= set(loaded.secrets)
    assert "production" not in loaded.secrets
    assert "-secret" not in repr(loaded) + str(loaded.config)


PRINT = "import sys; print(sys.argv[1])"


async def test_K21_a_command_prints_the_key() -> None:
    command = [sys.executable, "-c", PRINT]
    loaded = await with_command_keys(
        loads(
            {
                "providers": {
                    "a": {"apiKeyCommand": [*command, "key-of-a"]},
                    "b": {"apiKey": "given", "apiKeyCommand": ["/no/such"]},
                    "c": {"apiKeyCommand": ["/no/such/program"]},
                },
                **web(
                    search={"providers": {"kagi": {"apiKeyCommand": [*command, "key-of-kagi"]}}},
                    fetch={"service": {"apiKeyCommand": [*command, "key-of-service"]}},
                ),
            }
        )
    )
    keys = {name: one.api_key for name, one in loaded.config.providers.items()}
    assert keys == {"a": "key-of-a", "b": "given", "c": ""}
    assert loaded.config.tools.web.search.providers["kagi"].api_key == "key-of-kagi"
    assert loaded.config.tools.web.fetch.service.api_key == "key-of-service"
    assert {"key-of-a", "key-of-kagi", "key-of-service"} <= set(loaded.secrets)
    assert list(loaded.disabled) == ["providers.c"]
    assert "cannot start" in loaded.disabled["providers.c"]


@pytest.mark.parametrize(
    ("code", "says"),
    [("import sys; print('SECRET'); sys.exit(3)", "exit code 3"), ("pass", "no key"), ("print('a\\nb')", "one line")],
)
async def test_a_command_that_fails_is_explained_without_its_output(code: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        await key_from_command([sys.executable, "-c", code], where="providers.a.apiKeyCommand")
    assert "SECRET" not in str(caught.value)


async def test_a_command_that_hangs_is_ended() -> None:
    with pytest.raises(ConfigError, match="took longer"):
        await key_from_command([sys.executable, "-c", "import time; time.sleep(60)"], where="x", timeout=0.2)


@pytest.mark.parametrize("script", ["sleep 600 & wait", "sleep 600 & echo key", "trap '' TERM; sleep 600 & wait"])
@growing(0.3, 3.0, 30.0)
async def test_U5_a_command_that_hangs_in_what_it_started_is_ended_with_all_of_it(
    script: str, tmp_path: Path, limit: float
) -> None:
    mark = tmp_path / "pids"
    script = script.replace("&", f"& echo $! > {mark};", 1)
    async with asyncio.timeout(120):
        with pytest.raises(ConfigError, match="took longer"):
            await key_from_command(["sh", "-c", script], where="x", timeout=limit)
    await until(lambda: not alive(int(mark.read_text(encoding="utf-8"))))


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
