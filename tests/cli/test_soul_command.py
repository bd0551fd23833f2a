"""`nanobot soul`, the examples of its page, and what a new version does to the files of a workspace."""

import re
from pathlib import Path

import pytest

from nanobot.config.changes.seeds import EARLIER, follow_templates, seed_named
from nanobot.config.paths import SEEDS, Paths, prepare_home, template_news
from nanobot.errors import UsageError
from nanobot.utils.host import shipped
from tests.cli.harness import Program, modelled

EXAMPLES = re.findall(r"```markdown\n(.*?)```", (shipped("docs") / "soul.md").read_text(encoding="utf-8"), re.DOTALL)


async def test_each_example_of_the_page_reaches_the_model_line_by_line(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 5
    async with modelled(tmp_path, after="Hello.") as (home, llm):
        for number, text in enumerate(EXAMPLES, 1):
            (home.home / "workspace").mkdir(exist_ok=True)
            (home.home / "workspace" / "SOUL.md").write_text(text, encoding="utf-8")
            ran = await home.run("--ephemeral", "-m", "hello")
            assert ran.out == "Hello.\n"
            messages = (await llm.asked(number)).messages
            system = str(messages[0]["content"])
            assert [line for line in text.strip().splitlines() if line not in system] == []


async def test_soul_opens_the_file_says_what_it_weighs_and_refuses_what_would_be_cut(tmp_path: Path) -> None:
    home = Program(tmp_path / "home")
    file = home.home / "workspace" / "SOUL.md"
    ran = await home.run("soul", env={"EDITOR": "sed -i s/nanobot/Nano/"})
    assert (ran.code, "You are Nano" in file.read_text("utf-8")) == (0, True)
    assert re.search(
        r"is changed, and the next message knows it. 6\d\d characters, about 2\d\d tokens, all of", ran.out
    )
    shown = await home.run("soul", "diff")
    assert ("-- You are Nano, a" in shown.out, "+- You are nanobot, a" in shown.out) == (True, True)
    assert "@@" not in (await home.run("soul", "diff", "user")).out
    assert "# How to work" in (await home.run("soul", "show", "AGENTS.md")).out
    before = file.read_text("utf-8")
    long = await home.run("soul", env={"EDITOR": "sed -i '1s/.*/" + "long " * 5000 + "/'"})
    assert "the prompt takes 20,000" in long.err
    assert file.read_text("utf-8") == before
    nobody = await home.run("soul")
    assert (nobody.code, "There is no terminal to edit in." in nobody.err) == (2, True), "no editor waits for keys"
    wrong = await home.run("soul", "SOLE.md")
    assert (wrong.code, "There are SOUL.md, AGENTS.md" in wrong.err) == (2, True)


def newer(tmp_path: Path) -> Path:
    """Templates of a later version: AGENTS.md and SOUL.md say something else."""
    source = tmp_path / "templates"
    (source / "memory").mkdir(parents=True)
    for seed in SEEDS:
        text = (shipped("templates") / seed).read_text(encoding="utf-8")
        (source / seed).write_text(text + "- New.\n" * (seed in ("SOUL.md", "AGENTS.md")), encoding="utf-8")
    return source


def test_a_new_version_updates_what_nobody_edited_and_tells_once_of_what_somebody_did(tmp_path: Path) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    prepare_home(paths)
    assert (template_news(paths), template_news(paths)) == ((), ())
    mine = paths.workspace / "SOUL.md"
    mine.write_text("I am a pirate.", encoding="utf-8")
    news = follow_templates(paths.home, paths.workspace, newer(tmp_path))
    assert (news.updated, news.newer) == (("AGENTS.md",), ("SOUL.md",))
    assert "nanobot soul diff" in news.lines[1]
    assert mine.read_text(encoding="utf-8") == "I am a pirate."
    assert (paths.workspace / "AGENTS.md").read_text(encoding="utf-8").endswith("- New.\n")
    assert follow_templates(paths.home, paths.workspace, tmp_path / "templates").lines == ()


def test_an_emptied_and_a_deleted_file_stay_so_and_a_workspace_from_before_is_known_by_what_was_shipped(
    tmp_path: Path,
) -> None:
    paths = Paths.resolve({"NANOBOT_HOME": str(tmp_path / "home")})
    prepare_home(paths)
    (paths.workspace / "AGENTS.md").write_text("", encoding="utf-8")
    (paths.workspace / "SOUL.md").unlink()
    assert follow_templates(paths.home, paths.workspace, newer(tmp_path)) == ((), ())  # it has no notes of this one
    assert (paths.workspace / "AGENTS.md").read_text(encoding="utf-8") == ""
    assert not (paths.workspace / "SOUL.md").exists()
    assert set(EARLIER) <= set(SEEDS)


def test_a_file_may_be_named_in_short() -> None:
    assert [seed_named(one) for one in ("soul", "AGENTS.md", "memory", "memory/MEMORY.md")] == [
        "SOUL.md",
        "AGENTS.md",
        "memory/MEMORY.md",
        "memory/MEMORY.md",
    ]
    with pytest.raises(UsageError, match="There is no file 'HEARTBEAT'"):
        seed_named("HEARTBEAT")
