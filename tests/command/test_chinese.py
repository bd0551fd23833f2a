"""What commands reply to somebody who reads Chinese."""

import pytest

from nanobot.agent.tools.offers import OFFERS
from nanobot.bus.events import Role
from nanobot.command.builtin import builtin_router
from nanobot.command.tool_groups import missing_lines, tool_groups
from nanobot.command.words import WORDS
from nanobot.utils.translation import N_, Later, speaking
from tests.command.test_commands import said
from tests.fakes.chinese import english_left

#: What the stage says that stands in for the agent, and what people are shown as it was written.
STAGE = (
    "a key was found",
    "It does not see pictures.",
    "Mail.",
    "it is switched off",
    "what owner may read of aa11",
    "the cat sleeps",
    "the dog sleeps",
)
TYPED = (
    "/help | /help sources | /help keyz | /help nothing like it | /statu | /new | /doctor | /approve | /approve a no | "
    "/permissions | /permissions what | /model | /model nope | /model other | /sessions | /sessions cat | "
    "/sessions dog | /resume | /resume aa11 | /resume zz | /name | /name tides | /export | /delete | /compact | "
    "/branch | /rewind | /retry | /btw | /sources | /sources x | /trust | /memory | /tasks x y | /tools | /mcp | "
    "/schedule | /watch | /skills | /learn | /usage | /usage week by day | /usage raise | /usage raise 5 | "
    "/usage estimate | /usage nope | /people | /invite | /whoami | /privacy | /privacy on | /privacy maybe | /copy | "
    "/quit | onboard | login"
).split(" | ")


@pytest.mark.parametrize("text", TYPED)
@pytest.mark.parametrize(("role", "direct"), [("owner", True), ("user", True), ("owner", False)])
async def test_every_command_replies_in_chinese(text: str, role: Role, direct: bool) -> None:
    with speaking("zh"):
        replies = await said(text, role=role, direct=direct)
    left = [line for reply in replies for line in english_left(reply, *STAGE)]
    assert not left


@pytest.mark.parametrize("word", [word for word, means in WORDS.items() if means.says and word != "version"])
def test_every_word_says_in_chinese_what_there_is(word: str) -> None:
    with speaking("zh"):
        assert not english_left(WORDS[word].told)


@pytest.mark.parametrize("command", builtin_router().commands(), ids=lambda one: one.name)
def test_every_summary_is_in_chinese(command: object) -> None:
    with speaking("zh"):
        assert not english_left(str(getattr(command, "about", "")))


def test_every_tool_is_in_a_group_which_says_in_chinese_what_it_does_and_of_one_that_is_off_why() -> None:
    on = [(name, OFFERS[name].description, "") for name in OFFERS]
    off = ("exec", "", Later(N_("no folder of documents is named; `nanobot library add FOLDER` adds one")))
    with speaking("zh"):
        lines = [group.line for group in tool_groups((*on, off))]
        assert all(line.startswith("- **") for line in lines)
        assert not english_left("\n".join(lines))
        assert missing_lines({"exec": off[2]}) == ["exec：没有指定文档文件夹；`nanobot library add FOLDER` 可以添加"]
