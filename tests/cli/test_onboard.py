"""`nanobot onboard`: what a newcomer is asked, what is tried and written, and what is said where something is wrong."""

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nanobot.cli.onboard.talk import is_secret
from nanobot.config.loader import load
from nanobot.providers.vendors import vendor_of_key
from nanobot.session.lock import home_lock
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, Ran
from tests.cli.newcomer import ANSWER, KEY, WRONG_KEY, WRONG_TOKEN, Services, answered, dialogue, newcomer
from tests.fakes.telegram_server import TOKEN
from tests.tables import table

NANOBOT = (sys.executable, "-m", "nanobot")


@pytest.fixture
async def services() -> AsyncIterator[Services]:
    async with Services() as running:
        yield running


def started(services: Services, home: Path, *options: str, **env: str) -> PseudoTerminal:
    return newcomer([*NANOBOT, "onboard", *services.options, *options], {**services.env(home), **env})


async def run(services: Services, home: Path, *options: str, **env: str) -> Ran:
    """The program without a terminal."""
    return await Program(home / ".nanobot").run("onboard", *options, env={**services.env(home), **env})


def written(home: Path) -> dict[str, object]:
    path = home / ".nanobot" / "config.json"
    assert path.stat().st_mode & 0o777 == 0o600
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


async def test_lines_of_a_narrow_terminal_are_broken_between_words(services: Services, tmp_path: Path) -> None:
    env, home = services.env(tmp_path), tmp_path / ".nanobot"
    with PseudoTerminal([*NANOBOT, "onboard"], env=env, columns=40, rows=60) as terminal:
        await terminal.until("[1] >")
        assert "no local server answers (Ollama, LM Studio, llama.cpp, vLLM)." in " ".join(terminal.text().split())
        terminal.press("\x03")
        await terminal.wait()
    home.mkdir(exist_ok=True)
    telegram = {"enabled": True, "token": TOKEN, "apiBase": services.telegram.url}
    (home / "config.json").write_text(json.dumps({"channels": {"telegram": telegram}}), encoding="utf-8")
    with PseudoTerminal([*NANOBOT, "gateway"], env=env, columns=40, rows=60) as terminal:
        await terminal.until("shown here.")
        assert "needs 41 columns" in terminal.text(), "no code is drawn that nothing could scan"
        assert "gateway · telegram · lookup (no language model is configured)" in " ".join(terminal.text().split())
        terminal.press("\x03")
        await terminal.wait()


async def test_an_empty_line_stands_between_two_steps_and_no_key_is_named_that_is_not_there(
    services: Services, tmp_path: Path
) -> None:
    with started(services, tmp_path) as terminal:
        await dialogue(terminal, {"1 of 3": "1", "2 of 3": ""})
        await terminal.until("3 of 3")
        shown = terminal.text()
        terminal.press("\x03")
        await terminal.wait()
    for place in (1, 2, 3):
        assert re.search(rf"\n *\n\W*{place} of 3 · ", shown), shown
    assert not re.findall(r"[A-Z]+_(?:API_KEY|TOKEN)", shown)
    assert "`" not in shown, "what is not Markdown shows its marks"


async def test_U57_three_answers_are_tried_and_written_and_hidden_and_lead_to_the_link_of_the_bot(
    services: Services, tmp_path: Path
) -> None:
    with started(services, tmp_path) as terminal:
        await dialogue(terminal, {"1 of 3": KEY, "2 of 3": TOKEN, "3 of 3": ""})
        await terminal.until("https://t.me/nano_test_bot?start=")
        shown = terminal.text()
        terminal.press("\x03")
        await terminal.wait()
    assert KEY not in terminal.raw
    assert TOKEN not in terminal.raw
    assert "claude-sonnet-5-5 answered in" in shown
    assert "can call tools" in shown
    assert "it is that of @nano_test_bot" in shown
    assert "in Europe/Madrid it is" in shown
    assert "Search: searxng: 2 results" in shown
    assert ANSWER in shown
    telegram = {"apiBase": services.telegram.url, "enabled": True, "token": TOKEN}
    assert written(tmp_path) == {
        "channels": {"telegram": telegram},
        "agents": {"defaults": {"provider": "anthropic", "model": "claude-sonnet-5-5", "timezone": "Europe/Madrid"}},
        "providers": {"anthropic": {"apiKey": KEY}},
    }


async def test_U57_what_does_not_work_is_said_and_asked_again(services: Services, tmp_path: Path) -> None:
    with started(services, tmp_path) as terminal:
        await dialogue(terminal, {"1 of 3": WRONG_KEY, "The key was refused: copy it again": "127.0.0.1:9"})
        await dialogue(terminal, {"port 9: Connection refused.": "antropic", "Did you mean Anthropic?": "anthropic"})
        await dialogue(terminal, {"Paste the key of Anthropic": KEY, "2 of 3": "no token at all"})
        await dialogue(terminal, {"is not a bot token": WRONG_TOKEN, "Telegram refuses the token": ""})
        await dialogue(terminal, {"3 of 3": "berln", "Did you mean Europe/Berlin?": ""})
        await terminal.until("Go on with nanobot")
        assert await terminal.wait() == 0
    loaded = load(tmp_path / ".nanobot" / "config.json", env={})
    assert loaded.config.agents.defaults.timezone == "Europe/Berlin"
    assert not loaded.config.channels.telegram.enabled
    assert WRONG_KEY not in (tmp_path / ".nanobot" / "config.json").read_text(encoding="utf-8")


async def test_U56_setting_up_again_changes_what_is_asked_and_no_comment(services: Services, tmp_path: Path) -> None:
    path = tmp_path / ".nanobot" / "config.json"
    path.parent.mkdir()
    bot = json.dumps({"enabled": True, "apiBase": services.telegram.url, "token": TOKEN})
    text = (
        '// mine\n{\n  "agents": {"defaults": {"provider": "lookup", /* none yet */ "timezone": "Asia/Tokyo"}},\n'
        f'  "channels": {{"telegram": {bot}}}\n}}\n'
    )
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with newcomer([*NANOBOT, "onboard"], services.env(tmp_path)) as terminal:
        await dialogue(terminal, {"keep no model (lookup)": "", "There is the bot 123456.": "", "3 of 3": ""})
        assert await terminal.wait() == 0
        assert "Nothing was changed." in terminal.text()
    assert path.read_text(encoding="utf-8") == text
    unset = text.replace(TOKEN, "${NOT_SET}")
    path.write_text(unset, encoding="utf-8")
    ran = await run(services, tmp_path, "--yes")
    assert "- switched off: channels.telegram: the environment variable NOT_SET is not set" in ran.out
    path.write_text(text, encoding="utf-8")
    with newcomer([*NANOBOT, "onboard", "--time-zone", "Asia/Tokyo"], services.env(tmp_path)) as terminal:
        await dialogue(terminal, {"1 of 2": KEY, "2 of 2": "off"})
        assert await terminal.wait() == 0
    after = path.read_text(encoding="utf-8")
    assert after.startswith("// mine\n")
    assert "/* none yet */" in after
    assert '"enabled": false' in after
    assert TOKEN in after


@pytest.mark.parametrize("place", [1, 2, 3])
async def test_U57_leaving_at_a_question_keeps_what_was_answered_and_nothing_half(
    services: Services, tmp_path: Path, place: int
) -> None:
    path = tmp_path / ".nanobot" / "config.json"
    with newcomer([*NANOBOT, "onboard"], services.env(tmp_path)) as terminal:
        for number, answer in zip(range(1, place), (KEY, ""), strict=False):
            await answered(terminal, f"{number} of 3", answer)
        await terminal.until(re.compile(rf"{place} of 3(?s:.*)> *\Z"))
        terminal.press("\x03" if place != 2 else "\x04")
        assert await terminal.wait() == 130
        told = "Nothing was changed." if place == 1 else f"What you have answered is in {path}."
        assert told in " ".join(terminal.text().split())
    assert path.exists() == (place > 1)
    if place > 1:
        assert load(path, env={}).config.agents.defaults.model == "claude-sonnet-5-5"


async def test_U57_a_local_server_with_many_models_is_found_and_one_is_chosen(
    services: Services, tmp_path: Path
) -> None:
    names = [f"llama{number}:8b" for number in range(1, 22)] + ["qwen3:8b"]
    services.llm.pages["/api/tags"] = {"models": [{"name": name, "size": 5} for name in names]}
    host = services.llm.url.removeprefix("http://")
    with newcomer([*NANOBOT, "onboard", "--no-telegram"], {**services.env(tmp_path), "OLLAMA_HOST": host}) as terminal:
        await answered(terminal, "1. Ollama on this machine (", "1")
        await answered(terminal, "Which of the 22 models of Ollama?", "nothing of that name")
        await dialogue(terminal, {"No name of a model there has": "qwen", "2 of 2": ""})
        await terminal.until("Go on with nanobot")
        assert await terminal.wait() == 0
    assert written(tmp_path)["agents"] == {
        "defaults": {"provider": "ollama", "model": "qwen3:8b", "timezone": "Europe/Madrid"}
    }


async def test_U57_a_server_of_ones_own_that_lists_no_models_is_asked_for_the_one_that_is_named(
    services: Services, tmp_path: Path
) -> None:
    with newcomer([*NANOBOT, "onboard", "--no-telegram"], services.env(tmp_path)) as terminal:
        services.llm.models = []
        await dialogue(terminal, {"1 of 2": services.llm.url, "Does the server want a key?": ""})
        await dialogue(terminal, {"It lists no models.": "mine-7b", "2 of 2": ""})
        assert await terminal.wait() == 0
    custom = {"apiBase": f"{services.llm.url}/v1"}
    assert written(tmp_path)["providers"] == {"custom": custom}


async def test_U57_without_a_terminal_the_missing_options_are_named_and_yes_takes_what_is_found(
    services: Services, tmp_path: Path
) -> None:
    ran = await run(services, tmp_path, "--time-zone", "Europe/Rome")
    assert ran.code == 2
    assert "--no-model; --telegram-token-env VARIABLE or --no-telegram. Or take" in ran.err
    assert "--time-zone" not in ran.err
    assert not (tmp_path / ".nanobot").exists()
    ran = await run(services, tmp_path, "--yes", ANTHROPIC_API_KEY=KEY)
    assert ran.code == 0, ran.err
    assert "claude-sonnet-5-5 answered" in ran.out
    assert KEY not in (tmp_path / ".nanobot" / "config.json").read_text(encoding="utf-8")
    assert written(tmp_path)["agents"] == {
        "defaults": {"provider": "anthropic", "model": "claude-sonnet-5-5", "timezone": "Europe/Madrid"}
    }


async def test_U57_options_are_tried_like_answers_and_nothing_is_written_that_fails(
    services: Services, tmp_path: Path
) -> None:
    rest = ("--no-telegram", "--time-zone", "Europe/Rome")
    ran = await run(services, tmp_path, "--api-key-env", "MY_KEY", "--provider", "anthropic", *rest, MY_KEY=WRONG_KEY)
    assert (ran.code, "invalid x-api-key" in ran.err, "Nothing was written" in ran.err) == (2, True, True)
    ran = await run(services, tmp_path, "--model", "m", "--api-base", "http://127.0.0.1:9/v1", *rest)
    assert (ran.code, "--untried writes without a try" in ran.err) == (2, True), ran.err
    ran = await run(services, tmp_path, "--provider", "anthropc", *rest)
    assert "Did you mean 'anthropic'?" in ran.err
    ran = await run(services, tmp_path, "--no-model", "--no-telegram", "--time-zone", "Berln")
    assert (ran.code, "--time-zone Berln: " in ran.err) == (2, True)
    ran = await run(services, tmp_path, "--no-model", "--telegram-token-env", "NOT_SET", "--time-zone", "UTC")
    assert "the environment variable NOT_SET is not set" in ran.err
    assert not (tmp_path / ".nanobot" / "config.json").exists()
    ran = await run(services, tmp_path, "--provider", "anthropic", "--api-key-env", "MY_KEY", *rest, MY_KEY=KEY)
    assert ran.code == 0, ran.err
    assert written(tmp_path)["providers"] == {"anthropic": {"apiKey": "${MY_KEY}"}}


@table(
    "key vendor",
    (KEY, "anthropic"),
    ("sk-or-v1-0123456789abcdef", "openrouter"),
    ("sk-proj-0123456789abcdef", "openai"),
    ("AIzaSyFAKE0123456789", "gemini"),
    ("gsk_0123456789abcdef", "groq"),
    ("xai-0123456789abcdef", "xai"),
    ("hf_0123456789abcdefg", "huggingface"),
    ("nvapi-0123456789abcdef", "nvidia"),
    ("sk-kimi-0123456789abcdef", "kimi_coding"),
    ("sk-0123456789abcdef0123456789abcdef", ""),
)
def test_the_service_of_a_key_is_known_by_its_form_alone(key: str, vendor: str) -> None:
    found = vendor_of_key(key)
    assert (found.name if found else "") == vendor
    assert is_secret(key)


async def test_U57_a_line_of_a_shell_and_the_message_of_botfather_are_read_and_a_running_gateway_is_named(
    services: Services, tmp_path: Path
) -> None:
    with started(services, tmp_path) as terminal, home_lock(tmp_path / ".nanobot"):
        await answered(terminal, "1 of 3", f'export ANTHROPIC_API_KEY="{KEY}"')
        await terminal.until("Trying Anthropic")  # too early, which shows nothing either
        terminal.paste(f"Done! Use this token to access the HTTP API:\n{TOKEN}\nKeep your token secure.")
        await terminal.until(re.compile(r"2 of 3(?s:.*)> \*(?s:.*)\*\Z"))
        terminal.press("\r")
        await answered(terminal, "3 of 3", "")
        await terminal.until("A gateway is running already (process ")
        assert await terminal.wait() == 0
    assert TOKEN not in terminal.raw
    assert KEY not in terminal.raw
    assert written(tmp_path)["providers"] == {"anthropic": {"apiKey": KEY}}
    assert load(tmp_path / ".nanobot" / "config.json", env={}).config.channels.telegram.token == TOKEN


@pytest.mark.parametrize(
    "text", ["1", "anthropic", "qwen3:8b", "http://192.168.1.5:8000/v1", "Europe/Berlin", "none", "gemini-2.5-flash"]
)
def test_what_is_no_key_is_shown_while_it_is_typed(text: str) -> None:
    assert not is_secret(text)
