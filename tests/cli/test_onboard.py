"""`nanobot onboard`: what a newcomer is asked, what is tried and written, and what other systems are told."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import nanobot.__main__ as entry
from nanobot.cli.onboard.talk import is_secret
from nanobot.config.loader import load
from nanobot.providers.vendors import vendor_of_key
from nanobot.session.lock import home_lock
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, Ran, program
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


async def test_a_narrow_terminal_gets_whole_words_when_it_is_asked_and_no_code_that_nothing_could_scan(
    services: Services, tmp_path: Path
) -> None:
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
        await terminal.until("Whoever opens it first")
        assert "█" not in terminal.text()
        terminal.press("\x03")
        await terminal.wait()


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
    for place in (1, 2, 3):
        assert re.search(rf"\n *\n\W*{place} of 3 · ", shown), "an empty line is between steps"
    assert not re.findall(r"[A-Z]+_(?:API_KEY|TOKEN)", shown), "no variable is named in vain"
    assert "`" not in shown, "what is not Markdown shows its marks"
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
        await dialogue(
            terminal, {"3 of 3": "Munich", "Name the nearest large": "berln", "Did you mean Europe/Berlin?": ""}
        )
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
        await dialogue(terminal, {"0 names of models there have": "lama2", " 21  llama21:8b": "qwen", "2 of 2": ""})
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
    for named in (("--model", "m"), ()):
        ran = await run(services, tmp_path, *named, "--api-base", "http://127.0.0.1:9/v1", *rest)
        assert (ran.code, "--untried writes without a try" in ran.err, "  " in ran.err) == (2, True, False), ran.err
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
        await terminal.until("A gateway is running already")
        await terminal.wait()
    assert TOKEN not in terminal.raw
    assert KEY not in terminal.raw
    assert written(tmp_path)["providers"] == {"anthropic": {"apiKey": KEY}}
    assert load(tmp_path / ".nanobot" / "config.json", env={}).config.channels.telegram.token == TOKEN


@pytest.mark.parametrize(
    "text", ["1", "anthropic", "qwen3:8b", "http://192.168.1.5:8000/v1", "Europe/Berlin", "none", "gemini-2.5-flash"]
)
def test_what_is_no_key_is_shown_while_it_is_typed(text: str) -> None:
    assert not is_secret(text)


OLD = "import runpy, sys; sys.version_info = (3, 9, 1); runpy.run_module('nanobot', run_name='__main__')"


def test_a_python_that_is_too_old_says_which_one_is_needed(tmp_path: Path) -> None:
    """What an old one reads must be written for it: the package itself and its way in."""
    for path in (Path(entry.__file__), Path(entry.__file__).with_name("__init__.py")):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))
    command = [sys.executable, "-c", OLD]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("nanobot needs Python 3.11 or later, and this is Python 3")
    assert len(done.stderr.splitlines()) == 1


@table(
    "words said",
    ("sessions show caf\udce9", "There is no session 'caf\\udce9' here."),
    ("replay ~nobody-here/turn.jsonl", "~nobody-here/turn.jsonl"),
    ("restore ~nobody-here/all.tar.gz", "There is no backup ~nobody-here/all.tar.gz."),
    ("skill check ~nobody-here/skill", "There is no skill '~nobody-here/skill'."),
    ("skill check /" + "n" * 300, "this name is too long: /nnn"),
    ("library add /" + "n" * 300, "this name is too long: /nnn"),
    ("status --workspace /" + "n" * 300, "this name is too long: /nnn"),
    ("status --workspace {loop}", "is no folder"),
)
async def test_words_that_name_no_file_or_session_get_one_sentence(tmp_path: Path, words: str, said: str) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    got = await program(tmp_path, None).run(*words.format(loop=loop).split())
    assert (got.code, got.out, got.err.count("\n")) == (2, "", 1), got
    assert said in got.err


@pytest.mark.parametrize("words", ["schedule", "library list", "-m hello"])
def test_a_start_in_a_folder_that_was_deleted_says_so(tmp_path: Path, words: str) -> None:
    at = program(tmp_path, None)
    (tmp_path / "gone").mkdir()
    start = ["sh", "-c", 'rmdir "$PWD"; exec "$0" -m nanobot "$@"', sys.executable, *words.split()]
    env = {**at.env, "PYTHONPATH": str(Path(entry.__file__).parents[1])}
    done = subprocess.run(
        start, cwd=tmp_path / "gone", env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert "the folder that you are in was deleted" in done.stderr


def test_a_workspace_that_may_not_be_read_gets_one_sentence(tmp_path: Path) -> None:
    bare = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if bare and shutil.which(bare[0]) is None:
        pytest.skip("every file can be read here: setpriv is missing")
    at, shut = program(tmp_path, None), tmp_path / "shut"
    shut.mkdir(mode=0)
    start = [*bare, sys.executable, "-m", "nanobot", "sessions", "--workspace", str(shut), "list"]
    done = subprocess.run(start, env=at.env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert f"{shut} cannot be read: Permission denied." in done.stderr


async def test_of_words_that_are_no_text_what_is_text_is_kept(tmp_path: Path) -> None:
    nanobot = program(tmp_path, None)
    assert (await nanobot.run("skill", "new", "coffee", "Makes a caf\udce9 au lait.")).code == 0
    assert "Makes a caf au lait." in (await nanobot.run("skill", "show", "coffee")).out
    assert "drink caf." in (await nanobot.run("schedule", "tomorrow", "drink", "caf\udce9.")).out


async def test_a_terminal_without_utf_8_gets_the_link_and_no_code(tmp_path: Path) -> None:
    async with Services() as services:
        env = {**services.env(tmp_path), "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "nanobot", "onboard", *services.options, "--time-zone", "UTC"]
        with PseudoTerminal(command, env=env, columns=150, rows=60) as terminal:
            await dialogue(terminal, {"1 of 2": KEY, "2 of 2": TOKEN})
            await terminal.until("https://t.me/nano_test_bot?start=")
            await terminal.until("Whoever opens it first owns the bot.")
            terminal.press("\x03")
            assert await terminal.wait() == 0
    assert "UnicodeEncodeError" not in terminal.raw


@pytest.mark.parametrize("words", [["onboard", "--yes"], ["-m", "hello"], ["status"]])
async def test_a_home_that_cannot_be_written_is_named_with_a_way_on(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    ran = await Program(tmp_path / "file" / "home").run(*words, env={"HOME": str(tmp_path / "file")})
    assert ran.code == 2, ran.err
    assert f"{tmp_path / 'file'} is no folder. Choose another place with NANOBOT_HOME" in ran.err
    assert len(ran.err.splitlines()) == 1


COMMANDS = [("gateway",), ("-m", "hello", "--model", "lookup"), ("status",)]
COMMANDS += [("schedule",), ("watch",), ("library", "status"), ("skill", "list"), ("usage",)]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_home_that_may_only_be_read_gets_a_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    home = program(tmp_path, None)
    for folder in ("media", "cache", "logs", "workspace"):
        (home.home / folder).mkdir(exist_ok=True)
    ask = home.command(*command)
    if os.getuid() == 0:  # whom no mode keeps out
        place = shlex.quote(str(home.home))
        mount = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
        if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
            pytest.skip("this machine lets no test mount anything")
        ask = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", *ask]
    else:
        home.home.chmod(0o500)
    try:
        done = subprocess.run(ask, env=home.env, capture_output=True, text=True, timeout=120, check=False)
    finally:
        home.home.chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert "cannot be made or written" in done.stderr
    assert "NANOBOT_HOME" in done.stderr
    assert "something inside broke" not in done.stderr
