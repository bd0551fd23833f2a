"""What is known of a person, shown and taken away; what is known of a tool before it is imported; the docs."""

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext, ToolLike
from nanobot.agent.tools.deferred import DeferredTool
from nanobot.agent.tools.docs import NanobotDocsTool
from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.errors import SkipTool
from nanobot.messages import Text, UserMessage
from nanobot.session.ledger import Ledger
from tests.agent.tools.library import OWNER, TERMINAL, Speaking, speaking
from tests.agent.tools.test_remember import BO, BO_CHAT, CY_CHAT, GROUP, GUEST, GUEST_CHAT, UNGRANTED, note, remember
from tests.fakes.chinese import english_left

TODAY = datetime.now(UTC).date().isoformat()


async def command(room: Speaking, text: str, at: Address = TERMINAL, by: Sender = OWNER, *, direct: bool = True) -> str:
    """What a command replies last."""
    done = await room.bot.loop.process(InboundMessage(at, by, text, direct=direct))
    return done.text


async def test_U22_memory_shows_each_line_with_its_file_day_and_origin(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        assert "Nothing is noted of you." in await command(room, "/memory"), "what is shipped tells nothing of anybody"
        await room.say("I am allergic to hazelnuts.", remember("Allergic to hazelnuts."))
        await room.say("The plumber comes at 4.", remember("The plumber comes at 4.", today=True))
        with (room.workspace / "USER.md").open("a", encoding="utf-8") as file:
            file.write("- Name: Ann\n")
        shown = await command(room, "/memory")
        assert "1. Name: Ann (USER.md)" in shown
        assert f"2. The plumber comes at 4. (memory/{TODAY}.md, {TODAY}, terminal)" in shown
        assert f"3. Allergic to hazelnuts. (memory/MEMORY.md, {TODAY}, terminal)" in shown
        assert "plumber" not in await command(room, "/memory hazelnuts")


async def test_U30_the_newest_line_of_a_long_memory_is_found_shown_and_forgotten(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        file = room.workspace / "memory/MEMORY.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"- {number} {'of old times ' * 40}\n" for number in range(1_000)), encoding="utf-8")
        await room.say("I am allergic to hazelnuts.", remember("Allergic to hazelnuts."))
        assert "MEMORY.md" in await room.find("recall", "hazelnuts")
        assert "1001. Allergic to hazelnuts." in await command(room, "/memory hazelnuts")
        assert "Forgotten: Allergic to hazelnuts." in await command(room, "/forget hazelnuts")
        assert "hazelnuts" not in file.read_text(encoding="utf-8")


async def test_U30_what_is_forgotten_is_in_no_file_recall_summary_or_title_and_the_file_comes_back(
    tmp_path: Path,
) -> None:
    async with speaking(tmp_path) as room:
        await room.say("My PIN word is marmot, mind it.", remember("The PIN word is marmot."), "I'll remember: marmot.")
        await room.say("The boiler was serviced by Kowalski.", "Noted.")
        old = await room.bot.sessions.current(TERMINAL.key)
        summary = UserMessage((Text("Summary\n\n- The PIN word is marmot.\n- The boiler: Kowalski."),), kind="notice")
        await room.bot.sessions.compact(old.id, summary, 0)
        assert "marmot" in await room.find("recall", "PIN word")
        said = await command(room, "/forget PIN marmot")
        assert "Forgotten: The PIN word is marmot. (memory/MEMORY.md)" in said
        assert "Summaries without it now: 1" in said
        assert "Transcripts are kept as they are" in said
        assert "marmot" not in note(room)
        found = await room.find("recall", "what is the PIN word")
        assert "marmot" not in found
        assert "Kowalski" in await room.find("recall", "who serviced the boiler")
        await room.bot.sessions.resume(TERMINAL.key, old.id)
        await room.say("Hello again.")
        assert "marmot" not in room.told
        assert "The boiler: Kowalski." in room.told
        listed = [one.title for one in await room.bot.sessions.list(TERMINAL.key)]
        assert not any("marmot" in title for title in listed)
        for path in room.home.glob("index.db*"):
            path.unlink()
        assert "marmot" not in await room.find("recall", "what is the PIN word"), "nor in an index that is made anew"
        undone = await room.bot.loop.undo(InboundMessage(TERMINAL, OWNER, "/undo", direct=True))
        assert "MEMORY.md" in undone
        assert "marmot" in note(room)


async def test_what_is_said_again_after_it_was_forgotten_counts_again(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("My PIN word is marmot.")
        await command(room, "/forget PIN word marmot")
        assert "marmot" not in await room.find("recall", "PIN word")
        await room.bot.sessions.start(TERMINAL.key)
        await room.say("My PIN word is marmot after all.")
        assert "marmot after all" in await room.find("recall", "PIN word")


async def test_words_that_fit_several_lines_take_none_away_before_one_is_named(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("Tea.", remember("Likes green tea."))
        await room.say("Tea.", remember("Drinks tea at five."))
        assert "2 lines hold that" in await command(room, "/forget tea")
        assert note(room).count("tea") == 2
        assert "Name what is to be forgotten" in await command(room, "/forget all"), "and not what holds the word all"
        assert "Forgotten: Drinks tea at five." in await command(room, "/forget 2")
        assert "Forgotten: Likes green tea." in await command(room, "/forget all tea")
        assert "tea" not in note(room)
        assert "There is no line 7." in await command(room, "/forget 7")
        assert "Name what is to be forgotten" in await command(room, "/forget")


async def test_people_see_and_forget_their_own_and_guests_and_groups_nothing(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("My word is canary-owner.", remember("The word is canary-owner."))
        await room.say("My word is canary-bo.", remember("The word is canary-bo."), at=BO_CHAT, by=BO)
        assert "canary-bo" in await command(room, "/memory", BO_CHAT, BO)
        shown = {
            "bo": await command(room, "/memory", BO_CHAT, BO),
            "cy": await command(room, "/memory", CY_CHAT, UNGRANTED),
            "guest": await command(room, "/memory", GUEST_CHAT, GUEST),
            "group": await command(room, "/memory", GROUP, OWNER, direct=False),
            "owner": await command(room, "/memory"),
        }
        words = {"canary-owner", "canary-bo"}
        assert {who: {word for word in words if word in text} for who, text in shown.items()} == {
            "bo": {"canary-bo"},
            "cy": set(),
            "guest": set(),
            "group": set(),
            "owner": {"canary-owner"},
        }
        assert "canary" not in await command(room, "/forget canary", CY_CHAT, UNGRANTED)
        assert "Forgotten" not in await command(room, "/forget word", GROUP, OWNER, direct=False)
        await command(room, "/forget canary bo", BO_CHAT, BO)
        assert "canary-bo" not in note(room, "people/telegram-2")
        assert "canary-owner" in note(room)
        found = await room.find("recall", "canary word")
        assert "canary-owner" in found, "the owner's own is still found"


async def test_a_later_summary_holds_nothing_that_was_forgotten_before(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("My PIN word is marmot.", remember("The PIN word is marmot."))
        for number in range(4):
            await room.say(f"Something else, number {number}.")
        await command(room, "/forget PIN word marmot")
        done = await room.bot.loop.process(InboundMessage(TERMINAL, OWNER, "boiler", direct=True, cause="compaction"))
        assert done.outcome == "completed"
        asked = [json.dumps(one.body, ensure_ascii=False) for one in room.model.requests[-2:]]
        summing = next(text for text in asked if "You sum up" in text)
        assert "Something else, number 1." in summing
        assert not re.search("marmot", summing)


@pytest.mark.parametrize("words", ["2", "PIN marmot"])
async def test_what_was_cut_off_while_it_was_forgotten_goes_on_when_its_message_comes_again(
    tmp_path: Path, words: str
) -> None:
    """Ended as soon as each of its steps was done, and the same message delivered again, as after a kill."""
    for step in ("nothing", "begun", "file", "forgotten", "all"):
        home = tmp_path / step
        home.mkdir()
        async with speaking(home) as room:
            await room.say("Tea.", remember("Drinks tea at five."))
            await room.say("My PIN word is marmot.", remember("The PIN word is marmot."), "Noted: marmot.")
            await room.say("Cats.", remember("Has three cats."))
            message = InboundMessage(TERMINAL, OWNER, f"/forget {words}", direct=True, id="m7")
            notes = Ledger(room.bot.sessions.database)
            first = asyncio.create_task(room.bot.loop.process(message))
            async with asyncio.timeout(60):
                while not (first.done() or step == "nothing"):
                    reached = {
                        "begun": bool(await notes.notes("forgetting:")),
                        "file": "marmot" not in note(room),
                        "forgotten": bool(await notes.notes("forgotten:")),
                    }
                    if reached.get(step):
                        break
            first.cancel()
            await asyncio.wait({first})
            for _ in range(2):
                again = (await room.bot.loop.process(message)).text
                assert "Forgotten: " in again, (step, again)
                assert "Nothing was found" not in again
            assert "marmot" not in note(room)
            assert "Drinks tea" in note(room), "the number means the line that it meant before"
            assert "three cats" in note(room)
            assert "marmot" not in await room.find("recall", "PIN word")
            kept = "".join((await notes.notes("forgetting:")).values())
            assert "marmot" not in kept, "what is forgotten stands nowhere"


async def test_a_memory_of_three_hundred_lines_is_shown_in_pages(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        folder = room.workspace / "memory"
        folder.mkdir(exist_ok=True)
        lines = "".join(f"- 2026-01-02: Fact {number} of them. (noted on telegram)\n" for number in range(300))
        (folder / "MEMORY.md").write_text(f"# Memory\n\n{lines}")
        seen: list[str] = []
        for page in range(1, 9):
            shown = await command(room, f"/memory page {page}" if page > 1 else "/memory")
            assert len(shown) < 4_000, "one message of Telegram"
            seen += re.findall(r"Fact (\d+) of", shown)
            assert (f"`/memory page {page + 1}`" in shown) is (page < 8)
        assert sorted(map(int, seen)) == list(range(300))
        assert "There are 8 pages." in await command(room, "/memory page 9")


async def test_a_fact_that_contradicts_another_names_the_line_that_it_may_replace(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("Serviced.", remember("The boiler was serviced by Kowalski."))
        await room.say("Not quite.", remember("The boiler was serviced by Nowak."))
        assert "also says: The boiler was serviced by Kowalski." in room.result
        await room.say("So.", remember("The boiler was serviced by Nowak in May.", replaces="boiler Kowalski"))
        assert "Kowalski" not in note(room)
        await room.say("Auf Deutsch.", remember("Der Kessel wurde von Nowak gewartet."))
        assert "also says" not in room.result, "another language is another line, which both are found"
        assert "Kessel" in await room.find("recall", "wer hat den Kessel gewartet")


async def test_what_is_known_and_forgotten_is_told_in_chinese_to_who_speaks_it(tmp_path: Path) -> None:
    chinese = replace(OWNER, language="zh-hans")
    async with speaking(tmp_path) as room:
        told = [await command(room, "/memory", by=chinese), await command(room, "/memory 榛子", by=chinese)]
        await room.say("我对榛子过敏。", remember("对榛子过敏。"))
        await room.say("榛子在柜子里。", remember("榛子在柜子里。"))
        asked = ("/memory", "/memory page 7", "/forget", "/forget 99", "/forget 榛子", "/forget 1", "/forget 没有")
        told += [await command(room, one, by=chinese) for one in asked]
    assert [left for one in told for left in english_left(one)] == []
    assert told[0].startswith("还没有关于你的记忆。")


async def test_a_call_makes_the_tool_once_and_is_its_call(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("# Tides\n\nHigh tide is at noon.\n", encoding="utf-8")
    made: list[ToolLike] = []

    def make() -> ToolLike:
        made.append(NanobotDocsTool(tmp_path))
        return made[-1]

    tool = DeferredTool("nanobot_docs", make)
    assert not made
    for _ in range(2):
        assert "High tide is at noon." in (await tool.call({"query": "tides"})).text
    assert (len(made), tool.spec, tool.aliases, tool.access) == (1, made[0].spec, made[0].aliases, "public")


async def test_the_section_that_answers_comes_first_as_a_trusted_numbered_source() -> None:
    context = ToolContext()
    result = await NanobotDocsTool().call({"query": "connect Telegram"}, context)
    assert not result.untrusted
    assert result.success
    assert "telegram" in result.sources[0].url.casefold()
    assert context.sources[1].url == result.sources[0].url
    assert result.text.splitlines()[2].startswith("[1] ")


async def test_a_section_keeps_its_code_tables_lists_and_place_and_nothing_found_is_no_error(tmp_path: Path) -> None:
    table = "| key | means |\n|---|---|\n| `port` | where it listens |\n| `host` | whom it answers |"
    steps, code = "1. Set the port.\n2. Start it.", "```\na\n  b\n```"
    text = f"# Page\n\nIntro.\n\n## Start it\n\nRun:\n\n{code}\n\nThe keys:\n\n{table}\n\n{steps}\n"
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    result = await NanobotDocsTool(tmp_path).call({"query": "start"})
    assert "\n[1] Page › Start it\nurl: docs/page.md#start-it\n" in result.text
    assert result.text.count("url: ") == 1
    assert all(one in result.text for one in (code, table, steps))
    none = await NanobotDocsTool(tmp_path).call({"query": "zebra"})
    assert (none.success, none.sources, "zebra" in none.text) == (True, (), True)


def test_without_documentation_the_tool_is_skipped_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(SkipTool, match="no documentation"):
        NanobotDocsTool(tmp_path)


async def test_a_long_section_that_is_asked_for_by_its_heading_begins_with_its_beginning(tmp_path: Path) -> None:
    rows = "\n".join(f"| `{number}_key` | the key of model {number} |" for number in range(200))
    first = "Put it into the environment, where every program of yours finds it. " * 30
    page = f"# Start\n\n## Add a model with a key\n\n{first}\n\n| add | key | model |\n|---|---|\n{rows}\n"
    (tmp_path / "start.md").write_text(page, encoding="utf-8")
    result = await NanobotDocsTool(tmp_path).call({"query": "add a model with a key"})
    assert "#add-a-model-with-a-key\n\nPut it into the environment" in result.text
