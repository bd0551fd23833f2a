"""What is wrong with a skill, as somebody reads it who knows Chinese alone."""

from pathlib import Path

import pytest

from nanobot.errors import UsageError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.skills.shelf import SkillShelf, agreement
from nanobot.skills.skill import new_text, read_beside, read_skill
from nanobot.utils.translation import speaking
from tests.fakes.chinese import english_left

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
