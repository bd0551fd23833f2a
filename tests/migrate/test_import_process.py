"""`nanobot import` in the shipped program: what it shows, takes and leaves, and that it can be repeated."""

import asyncio
import hashlib
import json
import signal
from pathlib import Path

import pytest

from tests.cli.harness import BOUND, Program, program
from tests.fakes import homes

EMPTY: dict[str, object] = {}


def print_of(folder: Path) -> dict[str, str]:
    """Every file below a folder, with a digest of what it holds and when it was written."""
    return {
        str(path.relative_to(folder)): f"{path.lstat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def here(tmp_path: Path) -> Program:
    """A home of ours whose configuration says nothing yet."""
    at = program(tmp_path)
    (at.home / "config.json").write_text("{\n  // mine\n}\n", encoding="utf-8")
    return at


async def test_U15_a_home_of_hermes_is_shown_and_taken_without_its_secrets(tmp_path: Path) -> None:
    other, at = homes.hermes(tmp_path / ".hermes"), here(tmp_path)
    before = print_of(other)
    shown = await at.run("import", "--dry-run")
    unasked = await at.run("import")
    untouched = (at.home / "config.json").read_text(encoding="utf-8")
    taken = await at.run("import", "--yes")
    again = await at.run("import", "hermes", "--yes")
    assert print_of(other) == before, "the other home is only read"
    for line in (
        'model = "anthropic/claude-x" → agents.defaults.model',
        "the variable ANTHROPIC_API_KEY = *** → providers.anthropic.apiKey",
        "the variable TELEGRAM_BOT_TOKEN = *** → channels.telegram.token",
        "SOUL.md → SOUL.md",
        "“tides in Brest” (2 messages) → session ",
        "Look up the tides → a task, paused",
        "read-tides → skills/read-tides, which counts once you say yes to it",
        "the session 20260101_2_bb (telegram): Nobody can tell whether it is yours alone.",
        "schedule broken: Its time cannot be read: 'sometimes' has not the five fields of cron",
        "fallback_providers in config.yaml: There is no such setting here",
    ):
        assert line in shown.out, shown.out
    assert "came-with-it" not in shown.out
    assert (unasked.code, "--yes" in unasked.err, untouched) == (2, True, "{\n  // mine\n}\n")
    assert (taken.code, again.code) == (0, 0), taken.out + taken.err
    assert "Taken: config 3, files 3, sessions 1, schedules 2, skills 1." in taken.out
    assert "Taken: nothing." in again.out
    everything = "".join(one.out + one.err for one in (shown, unasked, taken, again))
    assert not any(secret in everything for secret in homes.SECRETS)
    config = (at.home / "config.json").read_text(encoding="utf-8")
    assert "// mine" in config
    assert not any(secret in config for secret in homes.SECRETS)
    work = at.home / "workspace"
    assert (work / "SOUL.md").read_text(encoding="utf-8") == "You are a lighthouse keeper.\n"
    assert "Petra.\n\nThe key" in (work / "memory" / "MEMORY.md").read_text(encoding="utf-8")
    assert not (work / "skills" / "read-tides" / "passwd").exists(), "a link is not followed"
    listed = await at.run("sessions")
    assert "tides in Brest" in listed.out
    (which,) = [line.split("`")[1] for line in listed.out.splitlines() if line.startswith("- `")]
    said = [one["message"] for one in (await at.run("sessions", "export", which, "--format", "jsonl")).lines[1:]]
    assert [one["content"][0]["text"] for one in said] == ["When is the tide high in Brest?", "At six."]  # type: ignore[index]
    assert (said[0]["untrusted"], said[1]["strangers"]) == (True, ["conversation in hermes"])  # type: ignore[index]
    assert "read-tides` shows one and lets it count" in (await at.run("skill", "list")).out
    assert "paused" in (await at.run("schedule", "list")).out


async def test_U15_secrets_are_taken_on_a_yes_of_their_own_and_what_is_set_here_stays(tmp_path: Path) -> None:
    homes.openclaw(tmp_path / ".clawdbot", "clawdbot.json")
    at = here(tmp_path)
    given = {"agents": {"defaults": {"model": "mine/model", "provider": "custom"}}}
    (at.home / "config.json").write_text(json.dumps(given), encoding="utf-8")
    await at.run("skill", "list")  # the first start makes the workspace
    (at.home / "workspace" / "SOUL.md").write_text("My own words.\n", encoding="utf-8")
    taken = await at.run("import", "openclaw", "--yes", "--secrets")
    again = await at.run("import", "openclaw", "--yes", "--secrets")
    config = json.loads((at.home / "config.json").read_text(encoding="utf-8"))
    assert taken.code == 0, taken.out
    assert config["agents"]["defaults"]["model"] == "mine/model"
    assert config["agents"]["defaults"]["fallbackModels"] == ["anthropic/claude-x"]
    assert config["providers"]["openai"]["apiKey"] == homes.SECRETS[0], "the variable is read there"
    assert config["channels"]["telegram"] == {"allowFrom": ["42"], "token": homes.SECRETS[1]}
    assert (at.home / "config.json").stat().st_mode & 0o777 == 0o600
    work = at.home / "workspace"
    assert (work / "SOUL.md").read_text(encoding="utf-8") == "My own words.\n"
    assert "of the other program" in (work / "SOUL.from-openclaw.md").read_text(encoding="utf-8")
    assert (work / "memory" / "2026-01-01.md").read_text(encoding="utf-8") == "A day with fog.\n"
    assert "agents.defaults.model is set to something else here, which stays." in taken.out
    assert (work / "HEARTBEAT.from-openclaw.md").exists(), "beside, for its lines are tasks that begin by themselves"
    assert not (work / "HEARTBEAT.md").exists()
    assert "the channel discord: nanobot talks on Telegram and in the terminal." in taken.out
    assert "“Where is the net?” (2 messages)" in taken.out
    assert "schedule past: Its time is over." in taken.out
    assert "Taken: nothing." in again.out
    assert not any(secret in taken.out + taken.err for secret in homes.SECRETS)


async def test_a_home_of_the_family_is_taken_by_kinds_and_grows_with_what_is_new_there(tmp_path: Path) -> None:
    other, at = homes.family(tmp_path / "other"), here(tmp_path)
    first = await at.run("import", str(other), "--yes", "--only", "sessions,files")
    file = other / "workspace" / "sessions" / "cli_direct.jsonl"
    more = {"role": "user", "content": "and a new word", "timestamp": "2026-02-02T10:00:01"}
    file.write_text(f"{file.read_text(encoding='utf-8')}{json.dumps(more)}\n", encoding="utf-8")
    second = await at.run("import", str(other), "--yes")
    found = await at.run("sessions", "list")
    wrong, nowhere = await at.run("import", str(tmp_path), "--yes"), await at.run("import", "--only", "session")
    assert "Taken: files 2, sessions 2." in first.out
    assert "the session telegram:7: Nobody can tell whether it is yours alone." in first.out
    assert "1 more" in second.out
    assert "Taken: config 4, sessions 1, schedules 1." in second.out
    assert "hello from my phone" in found.out
    assert "“and a new word”" in found.out
    assert (wrong.code, nowhere.code) == (2, 2)
    assert "is no home of" in wrong.err
    assert "Did you mean 'sessions'?" in nowhere.err


@pytest.mark.parametrize("sign", ["config.json", "workspace/skills", "nanobot.db"])
async def test_an_import_that_was_killed_leaves_nothing_half_and_the_next_finishes_it(
    tmp_path: Path, sign: str
) -> None:
    homes.hermes(tmp_path / ".hermes")
    at = here(tmp_path)
    await at.run("skill", "list")
    seen = at.home / sign
    before = seen.stat().st_mtime_ns if seen.exists() else 0
    process = await at.start("import", "--yes", "--secrets")
    async with asyncio.timeout(BOUND):
        while process.returncode is None and (seen.stat().st_mtime_ns if seen.exists() else 0) == before:
            await asyncio.sleep(0)
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.communicate()
    for folder in (at.home / "workspace" / "skills").glob("*"):
        assert folder.name.startswith(".") or (folder / "scripts" / "run.sh").exists(), "whole or not at all"
    done = await at.run("import", "--yes", "--secrets")
    again = await at.run("import", "--yes", "--secrets")
    assert done.code == 0, done.out + done.err
    assert "Taken: nothing." in again.out
    servers = json.loads((at.home / "config.json").read_text(encoding="utf-8").replace("// mine", ""))["tools"]
    assert servers["mcpServers"]["files"]["env"] == {"FILES_TOKEN": homes.SECRETS[2].replace("$", "$$")}
    assert (await at.run("sessions")).out.count("tides in Brest") == 1
