"""Files of every layout of the configuration that there was, started by the version of today."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from nanobot.config.loader import load_text
from tests.cli.harness import program
from tests.fakes.llm_server import LlmServer, Reply

ROOT = Path(__file__).parent.parent.parent
FILES = sorted((ROOT / "tests" / "golden" / "configs").glob("*.json"))


def keys_in(value: object, path: str = "") -> Iterator[str]:
    """Every key of a file with its path, also those of groups."""
    if isinstance(value, dict):
        for name, inner in value.items():
            here = f"{path}.{name}" if path else name
            yield here
            yield from keys_in(inner, here)


@pytest.mark.parametrize("file", FILES, ids=[one.stem for one in FILES])
async def test_a_file_of_every_layout_that_there_was_starts_and_each_key_is_used_or_told(
    tmp_path: Path, file: Path
) -> None:
    home = program(tmp_path)
    text = file.read_text(encoding="utf-8")
    (home.home / "config.json").write_text(text, encoding="utf-8")
    (home.home / "config.json").chmod(0o600)
    async with LlmServer(after=Reply("still here")) as llm:
        env = {"GOLDEN_LLM": llm.url, "GOLDEN_KEY": "sk-golden", "BRAVE_API_KEY": "brave-golden"}
        checked = await home.run("config", "check", env=env)
        started = await home.run("agent", "-m", "are you there", env=env)
        env["GOLDEN_LLM"] = ""
        refused = await home.run("config", "check", env=env)
        not_started = await home.run("agent", "-m", "are you there", env=env)
    assert checked.code in (0, 1), checked.out
    assert (started.code, "still here" in started.out) == (0, True), started.err
    assert (refused.code, not_started.code) == (2, 2), refused.out + not_started.err
    told = load_text(text, file, env=env | {"GOLDEN_LLM": "http://127.0.0.1:9"}).problems
    assert [str(one) for one in told if one.message != "this key has no effect." or not one.hint] == []
    assert {one.path for one in told} <= {*keys_in(json.loads(text))}
    assert all(one.path in checked.out for one in told), checked.out


def test_every_version_leaves_a_file_of_its_configuration() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version in {one.stem for one in FILES}, (
        f"tests/golden/configs/{version}.json is missing: docs/contributing.md says how it is made (Release)."
    )


def test_what_has_no_effect_is_told_with_what_there_is_instead() -> None:
    family = json.loads((ROOT / "nanobot" / "config" / "family.json").read_text(encoding="utf-8"))
    assert [words for words in family["noEffect"] if re.search(r"\byet\b", words)] == []
