"""What people send on Telegram, from the update to the request that the model gets."""

import asyncio
import contextlib
import json
import sqlite3
import sys
from functools import partial
from pathlib import Path

from nanobot.providers.scripted import Say, Wait
from tests.channels.telegram.gateway import OWNER, configured, furnished, running, serving
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.patience import growing
from tests.fakes.telegram_server import Json, TelegramServer

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x02\x00\x00\x00\x02" + bytes(30)


def words(request: LlmRequest) -> str:
    """Everything that people say in a request."""
    messages = request.messages
    return "\n".join(json.dumps(one["content"], ensure_ascii=False) for one in messages if one["role"] == "user")


def heard(request: LlmRequest) -> Reply:
    """Repeats the colours that it was told."""
    return Reply("I know " + " ".join(name for name in ("red", "green", "blue") if name in words(request)))


def shows(telegram: TelegramServer, thread: int, lines: list[str]) -> bool:
    return telegram.visible(OWNER, thread=thread) == lines


async def edited(database: Path, update: Json) -> None:
    """Wait until the gateway has put an edit into the message that waits."""

    query = (
        "SELECT 1 FROM inbox AS edit JOIN inbox AS message ON message.seq = edit.batch "
        "WHERE edit.id = ? AND message.payload NOT LIKE '%edited_message%'"
    )

    def done() -> bool:
        with contextlib.closing(sqlite3.connect(database)) as db:
            row = db.execute(query, (str(update["update_id"]),)).fetchone()
        return row is not None

    async with asyncio.timeout(120):
        while not await asyncio.to_thread(done):
            await asyncio.sleep(0.02)


async def test_U48_three_topics_at_once_do_not_hear_each_other(tmp_path: Path) -> None:
    async with serving(tmp_path, after=heard) as (telegram, _, _, _):
        for turn in range(2):
            for thread, colour in ((11, "red"), (12, "green"), (13, "blue")):
                ada = telegram.user("Ada", OWNER)
                ada.say(f"remember {colour}", message_thread_id=thread, is_topic_message=True)
            for thread, colour in ((11, "red"), (12, "green"), (13, "blue")):
                said = [f"Ada: remember {colour}", f"bot: I know {colour}"] * (turn + 1)
                await telegram.until(partial(shows, telegram, thread, said))


@growing(0.3, 10, 60)
async def test_U39_a_long_paste_in_pieces_is_one_turn(tmp_path: Path, limit: float) -> None:
    folder = tmp_path / str(limit)
    folder.mkdir()
    async with TelegramServer() as telegram, LlmServer("Long.", after="Again?") as llm:
        ada = telegram.user("Ada", OWNER)
        async with running(configured(folder, telegram, llm, joinSeconds=limit)):
            await ada.asks("begin " + "x" * 4_090, lambda: bool(telegram.confirmed))
            ada.say("y" * 4_096)
            await ada.asks("end", lambda: "bot: Long." in telegram.visible(OWNER))
    assert len(llm.requests) == 1
    assert "begin x" in words(llm.requests[0])
    assert "yend" in words(llm.requests[0])


async def test_an_album_with_a_broken_picture_is_one_turn_that_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, "Nice.") as (telegram, llm, ada, _):
        sent = ada.album(PNG, PNG, caption="which is best?")
        body = sent[1]["message"]
        assert isinstance(body, dict)
        del telegram.files[body["photo"][1]["file_id"]]
        await telegram.until(lambda: "bot: Nice." in telegram.visible(OWNER))
    assert len(llm.requests) == 1
    told = words(llm.requests[0])
    assert "which is best?" in told
    assert "[The photo was not read: " in told
    assert "data:image/png;base64," in told or "cannot be viewed by this model" in told
    assert any(line.startswith("bot: ⚠️ The photo was not read") for line in telegram.visible(OWNER))


async def test_U50_a_voice_message_is_answered_by_its_words(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "print('what time is it')", "{file}"]
    async with serving(tmp_path, "Noon.", transcription={"command": program}) as (telegram, llm, _, _):
        telegram.user("Ada", OWNER).send("voice", b"OggS" + bytes(99))
        await telegram.until(lambda: "bot: Noon." in telegram.visible(OWNER))
    assert "what time is it" in words(llm.requests[0])
    assert any("what time is it" in line for line in telegram.visible(OWNER))


async def test_nothing_is_fetched_for_a_stranger(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(after="Hi.") as llm:
        eve, ada = telegram.user("Eve", 99), telegram.user("Ada", OWNER)
        async with running(configured(tmp_path, telegram, llm)):
            eve.send("photo", PNG, "look")
            await telegram.until(lambda: len(telegram.visible(99)) == 2)
            await ada.asks("hi", lambda: "bot: Hi." in telegram.visible(OWNER))
        assert not telegram.sent("getFile")
    assert len(llm.requests) == 1


async def test_an_edit_of_a_message_that_waits_replaces_it_and_a_later_one_does_nothing(tmp_path: Path) -> None:
    gate = asyncio.Event()
    first = Reply(Say("Working"), Wait(gate), Say(" done."))
    async with furnished(tmp_path, first, after="Sunny.") as (telegram, llm, ada, home), running(home):
        begun = ada.say("begin")
        await llm.asked(1)
        waiting = ada.say("wether in Rome")
        ada.edit(begun, "never begin")
        edits = [ada.edit(waiting, "whether in Rome"), ada.edit(waiting, "weather in Rome")]
        await edited(home.home / "nanobot.db", edits[-1])
        gate.set()
        await telegram.until(lambda: "bot: Sunny." in telegram.visible(OWNER))
    told = words(llm.requests[-1])
    assert "weather in Rome" in told
    assert "wether" not in told
    assert "never" not in told
