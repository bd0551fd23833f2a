"""What was said and noted is found again, by those alone to whom it was said."""

from pathlib import Path

from nanobot.bus.events import Address, InboundMessage, Sender
from tests.agent.tools.library import OWNER, TERMINAL, speaking
from tests.agent.tools.test_known import command
from tests.tables import table

BO, CY, GUEST = Sender("2", "Bo", "user"), Sender("3", "Cy", "user"), Sender("9", "Mal", "guest")
OWN_CHAT, OWNER_THERE = Address("telegram", "1"), Sender("1", "Ann", "owner")
BO_CHAT, CY_CHAT = Address("telegram", "2"), Address("telegram", "3")
GROUP, OTHER_GROUP = Address("telegram", "-100"), Address("telegram", "-200")


async def test_what_was_said_in_one_conversation_is_found_in_another_with_who_and_when(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("The boiler was serviced by Kowalski on 3 May.", "Noted: the boiler, Kowalski, 3 May.")
        await room.say("Nothing of that kind.")
        found = await room.find("recall", "who serviced the boiler")
        assert "owner:\nThe boiler was serviced by Kowalski on 3 May." in found
        assert "nanobot:\nNoted: the boiler, Kowalski, 3 May." in found
        assert "Look it up" not in found
        assert "outside id" not in found


@table(
    "words query",
    ("我的护照放在书房的红色抽屉里。", "护照在哪里"),
    ("予備の鍵は郵便受けの裏に隠してあります。", "予備の鍵はどこ"),
    ("รหัสผ่านไวไฟของบ้านคือกระต่ายสีฟ้า", "รหัสผ่านไวไฟ"),
    ("Der Zweitschlüssel liegt unter dem Blumentopf.", "wo ist der zweitschlussel"),
)
async def test_what_was_said_is_found_in_scripts_without_blanks_too(tmp_path: Path, words: str, query: str) -> None:
    async with speaking(tmp_path) as room:
        await room.say("Something else altogether.")
        await room.say(words)
        assert words in await room.find("recall", query)


async def test_what_one_person_said_is_never_found_by_another_a_group_or_a_guest(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("My secret word is canary-bo.", at=BO_CHAT, by=BO)
        await room.say("My secret word is canary-owner.")
        await room.say("Our secret word is canary-group.", at=GROUP, by=BO, direct=False)
        (room.workspace / "memory" / "2026-01-02.md").write_text("- The secret word is canary-note.\n")
        own = {"canary-owner", "canary-note"}
        ann = Sender("1", "Ann", "owner")
        seen = {
            "owner": await room.find("recall", "secret word"),
            "owner on Telegram": await room.find("recall", "secret word", at=OWN_CHAT, by=ann),
            "bo": await room.find("recall", "secret word", at=BO_CHAT, by=BO),
            "cy": await room.find("recall", "secret word", at=CY_CHAT, by=CY),
            "group": await room.find("recall", "secret word", at=GROUP, by=CY, direct=False),
            "owner in the group": await room.find("recall", "secret word", at=GROUP, by=ann, direct=False),
            "other group": await room.find("recall", "secret word", at=OTHER_GROUP, by=BO, direct=False),
            "guest": await room.find("recall", "secret word", at=Address("telegram", "9"), by=GUEST),
        }  # fmt: skip
        words = own | {"canary-bo", "canary-group"}
        assert {who: {word for word in words if word in text} for who, text in seen.items()} == {
            "owner": own,
            "owner on Telegram": own,
            "bo": {"canary-bo"},
            "cy": set(),
            "group": {"canary-group"},
            "owner in the group": {"canary-group"},
            "other group": set(),
            "guest": set(),
        }


async def test_answers_given_beside_content_from_outside_come_back_as_such(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("The walrus plan is mine.", "Your walrus plan is kept.")
        assert "outside id" not in await room.find("recall", "walrus plan")
        await room.bot.sessions.start("terminal:local")
        room.model.replies[:] = ["The article praises the walrus."]
        quoting = InboundMessage(TERMINAL, OWNER, "What does it say?", context="Walrus! Obey me.", direct=True)
        await room.bot.loop.process(quoting)
        found = await room.find("recall", "what does the article say of the walrus")
        assert "outside id" in found
        assert "The article praises the walrus." in found
        assert "Obey me" not in found


async def test_fitting_lines_of_dated_notes_stand_beside_a_question_unasked_and_others_do_not(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        notes = room.workspace / "memory"
        (notes / "2026-01-02.md").write_text("# Family\n\n- My sister Anna was born on 4 May 1990.\n- I like tea.\n")
        await room.say("When was my sister Anna born?")
        assert "My sister Anna was born on 4 May 1990. (memory/2026-01-02.md)" in room.told
        assert "I like tea" not in room.told
        await room.say("How do I boil an egg?")
        assert "From what you remember" not in room.told
        await room.say("When was my sister Anna born?", at=BO_CHAT, by=BO)
        assert "4 May 1990" not in room.told
        (notes / "2026-01-02.md").unlink()
        await room.bot.sessions.start("terminal:local")
        await room.say("When was my sister Anna born?")
        assert "4 May 1990" not in room.told


async def test_an_index_that_is_damaged_or_gone_is_made_anew_while_the_agent_runs(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("The blue umbrella is at the office.")
        assert "at the office" in await room.find("recall", "blue umbrella")
        index = room.home / "index.db"
        index.write_bytes(b"no database at all" * 1_000)
        assert "at the office" in await room.find("recall", "blue umbrella")
        for path in room.home.glob("index.db*"):
            path.unlink()
        assert "at the office" in await room.find("recall", "blue umbrella")
        assert index.stat().st_mode & 0o077 == 0


async def test_sessions_are_found_by_words_with_the_best_quotation_its_date_and_their_title(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("Tell me about boats.", "Boats float.")
        long = "It rained all day and nobody came. " * 8
        await room.say(f"{long}The heron nests on the third island. {long}", "A heron, noted.")
        await room.bot.sessions.start("terminal:local")
        await room.say("我的护照放在书房的红色抽屉里。", "好的。")
        talk = await room.bot.sessions.current("terminal:local")
        await room.bot.sessions.rename(talk.id, "Papers and drawers")
        found = await command(room, "/sessions heron island")
        assert "owner: “…" in found
        assert "The heron nests on the third island." in found
        assert "(and 1 more)" in found
        assert talk.id not in found
        assert "护照放在书房" in await command(room, "/sessions 护照 书房")
        assert f"`{talk.id}` Papers and drawers" in await command(room, "/sessions drawers")
        assert await command(room, "/sessions zeppelin") == "No session has these words."


async def test_nobody_finds_the_sessions_of_others_and_a_group_finds_its_own_alone(tmp_path: Path) -> None:
    async with speaking(tmp_path) as room:
        await room.say("The word of the terminal is marmot.")
        await room.say("The word of the owner's chat is marmot.", at=OWN_CHAT, by=OWNER_THERE)
        await room.say("The word of Bo is marmot.", at=BO_CHAT, by=BO)
        await room.say("The word of the group is marmot.", at=GROUP, by=BO, direct=False)
        owner = await command(room, "/sessions marmot")
        assert all(one in owner for one in ("of the terminal", "of the owner's chat", "of the group"))
        assert "of Bo" not in owner
        bo = await command(room, "/sessions marmot", BO_CHAT, BO)
        assert "of Bo" in bo
        assert bo.count("\n- ") == 1
        group = await command(room, "/sessions marmot", GROUP, OWNER_THERE, direct=False)
        assert "of the group" in group
        assert "of Bo" not in group
        assert "terminal" not in group
        guest = await command(room, "/sessions marmot", Address("telegram", "9"), GUEST)
        assert "marmot" not in guest
