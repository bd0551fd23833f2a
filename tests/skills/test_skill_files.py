"""What a SKILL.md says and which skills a set of folders offers, to readers of Chinese too."""

from pathlib import Path

import pytest

from nanobot.agent.tools.files.offered import skill_folders
from nanobot.config.paths import Paths
from nanobot.errors import UsageError
from nanobot.security.projects import Project
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.skills.shelf import SkillShelf, agreement
from nanobot.skills.skill import Skill, front_matter, new_text, read_beside, read_skill
from nanobot.utils.translation import speaking
from tests.fakes.chinese import english_left
from tests.tables import table


def put(folder: Path, description: str = "Does it.", text: str = "Do it.", **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: {description}\n---\n\n{text}\n")
    for name, content in files.items():
        (folder / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
        (folder / name.replace("__", "/")).write_text(content)
    return folder


@table(
    "head fields",
    ("name: a\ndescription: b c", {"name": "a", "description": "b c"}),
    ("name: a # of old\nlicense: MIT", {"name": "a", "license": "MIT"}),
    ('description: "b: \\"c\\" # d"', {"description": 'b: "c" # d'}),
    ("description: 'it''s'", {"description": "it's"}),
    ("description: >-\n  b\n  c\nname: a", {"description": "b c", "name": "a"}),
    ("description: |\n  b\n  c", {"description": "b\nc"}),
    ("description:\n  b\n  c", {"description": "b c"}),
    ("description: b\n  c", {"description": "b c"}),
    ("Name: a\r", {"name": "a"}),
)
def test_the_head_of_a_skill_is_read_in_every_common_way_of_writing_it(head: str, fields: dict[str, str]) -> None:
    found, text = front_matter(f"\ufeff---\n{head}\n---\nBody: text\n---\n")
    assert fields.items() <= found.items()
    assert text == "Body: text\n---\n"


@pytest.mark.parametrize("text", ["", "# No head", "---\nname: a\nand no end", "--- \tx\nname: a\n---\n"])
def test_a_text_without_a_head_has_no_fields(text: str) -> None:
    assert front_matter(text) == ({}, text)


def test_every_shipped_skill_is_without_a_fault_and_has_at_most_eighty_lines() -> None:
    folders = Path(__file__).parents[2] / "nanobot/skills/shipped"
    found = [read_skill(one, "shipped") for one in sorted(folders.iterdir())]
    assert {"memory", "schedule", "setup", "soul"} <= {one.name for one in found}
    assert [one.problems for one in found if one.problems] == []
    assert all(len((one.folder / "SKILL.md").read_text().splitlines()) <= 80 for one in found)


def judged(folder: Path) -> Skill:
    return read_skill(folder, "workspace")


def test_every_byte_of_a_folder_counts_in_its_mark_and_a_link_leads_to_nothing(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("canary")
    folder = put(tmp_path / "a", scripts__run_py="print(1)", note="x")
    marks = [judged(folder).mark]
    (folder / "scripts/run_py").write_text("print(2)")
    marks.append(judged(folder).mark)
    (folder / "note").rename(folder / "not")
    marks.append(judged(folder).mark)
    (folder / "link").symlink_to(secret)
    marks.append(judged(folder).mark)
    assert len(set(marks)) == len(marks)
    assert judged(folder).files == ("not", "scripts/run_py")
    assert read_beside(judged(folder), "scripts/run_py") == "print(2)"
    for name in ("link", "../secret.txt", str(secret), "SKILL.md/"):
        with pytest.raises(UsageError, match="has no file"):
            read_beside(judged(folder), name)


def test_what_is_too_large_to_be_judged_never_counts(tmp_path: Path) -> None:
    folder = put(tmp_path / "big")
    for number in range(501):
        (folder / f"{number}").write_text("")
    assert judged(folder).mark == ""
    assert "never counts" in " ".join(judged(folder).problems)


async def test_the_first_of_a_name_counts_and_a_project_offers_nothing_before_it_is_trusted(tmp_path: Path) -> None:
    paths = Paths.resolve({"HOME": str(tmp_path)})
    project, env = tmp_path / "project", {"HOME": str(tmp_path)}
    workspace, folder = paths.workspace / "skills", project / ".agents/skills"
    for place in (folder, tmp_path / ".agents/skills", tmp_path / ".claude/skills", project / ".claude/skills"):
        put(place / "schedule", place.parent.name)
        put(place / "one")
    put(workspace / "one")

    async def found(*, trusted: bool) -> dict[str, Path]:
        there = Project(project, (".agents/skills/",), trusted=trusted)
        shelf = SkillShelf(skill_folders(paths, there, env), Ledger(MemoryDatabase()))
        return {one.skill.name: one.skill.folder for one in await shelf.all()}

    before, after = await found(trusted=False), await found(trusted=True)
    assert before["one"] == after["one"] == workspace / "one"
    assert (before["schedule"], after["schedule"]) == (tmp_path / ".agents/skills/schedule", folder / "schedule")
    assert "memory" in before


TEXTS = (
    "",
    "---\nlicense: MIT\n---\n",
    "---\nname: Other Name\ndescription: " + "长" * 2_000 + "\n---\n",
    "x" * 200_000,
)


async def test_everything_that_is_said_of_skills_is_in_chinese(tmp_path: Path) -> None:
    folder = tmp_path / "weekly"
    folder.mkdir()
    with speaking("zh"):
        told = [new_text("weekly", "")]
        for text in TEXTS:
            (folder / "SKILL.md").write_text(text)
            told += [
                *read_skill(folder, "home").problems,
                *await SkillShelf([("home", tmp_path)], Ledger(MemoryDatabase())).broken(),
            ]
        (folder / "SKILL.md").write_text(new_text("weekly", "每周报告"))
        skill = read_skill(folder, "home")
        shelf = SkillShelf([("home", tmp_path)], Ledger(MemoryDatabase()))
        told += [agreement(skill).words]
        for wrong in ("weakly", "nothing-like-it"):
            with pytest.raises(UsageError) as caught:
                await shelf.one(wrong)
            told.append(str(caught.value))
        with pytest.raises(UsageError) as caught:
            read_beside(skill, "absent.md")
        told.append(str(caught.value))
        with pytest.raises(UsageError) as caught:
            new_text("Weekly Report", "")
        told.append(str(caught.value))
    assert [left for one in told for left in english_left(one)] == []
    assert "没有技能 'weakly'。你是不是想输入 'weekly'？" in told
