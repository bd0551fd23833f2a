"""Sessions are found by what was said in them, by those who may look."""

from pathlib import Path

from nanobot.bus.events import Address, Sender
from tests.agent.tools.library import speaking
from tests.agent.tools.test_known import command
from tests.agent.tools.test_remember import BO, BO_CHAT, GROUP, GUEST, GUEST_CHAT

OWNER_CHAT = Address("telegram", "1")
OWNER_THERE = Sender("1", "Ann", "owner")


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
        await room.say("The word of the owner's chat is marmot.", at=OWNER_CHAT, by=OWNER_THERE)
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
        guest = await command(room, "/sessions marmot", GUEST_CHAT, GUEST)
        assert "marmot" not in guest
