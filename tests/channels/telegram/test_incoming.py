"""What people send on Telegram, from the update to the request that the model gets."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from nanobot.channels.telegram.read.media import KEEP_MEDIA_DAYS, OldMedia
from nanobot.messages import Media, Text, UserMessage
from nanobot.providers.scripted import Say, Wait
from nanobot.session.ledger import Ledger
from nanobot.session.rows import OutboxItem
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase
from tests.channels.telegram.gateway import OWNER, furnished, running, serving
from tests.fakes.ledger import rows
from tests.fakes.llm_server import LlmRequest, Reply
from tests.fakes.patience import growing
from tests.fakes.telegram_server import Json, TelegramServer
from tests.fakes.waiting import until

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
        return bool(rows(database, query, str(update["update_id"])))

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
    async with serving(folder, "Long.", after="Again?", joinSeconds=limit) as (telegram, llm, ada, _):
        await ada.asks("begin " + "x" * 4_090, lambda: bool(telegram.confirmed))
        ada.say("y" * 4_096)
        await ada.asks("end", lambda: "bot: Long." in ada.seen)
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
    async with serving(tmp_path, after="Hi.") as (telegram, llm, ada, _):
        eve = telegram.user("Eve", 99)
        eve.send("photo", PNG, "look")
        await telegram.until(lambda: len(eve.seen) == 2)
        await ada.asks("hi", lambda: "bot: Hi." in ada.seen)
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


NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=KEEP_MEDIA_DAYS + 1)
MARK = "0123456789abcdef"


@pytest.fixture(params=["memory", "file"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ledger]:
    database = SqliteDatabase(tmp_path / "nanobot.db")
    yield Ledger(MemoryDatabase()) if request.param == "memory" else Ledger(database)
    await database.aclose()


def put(folder: Path, name: str, days: float = 0) -> Path:
    """A file that was written so many days ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    at = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    os.utime(path, (at, at))
    return path


async def test_a_file_that_nothing_names_goes_after_ninety_days(ledger: Ledger, tmp_path: Path) -> None:
    media, session = tmp_path / "media", await ledger.sessions.start("telegram:7")
    named = put(media, f"photo-{MARK}.jpg")
    picture = put(media, "web/aaaaaaaaaaaaaaaa.png")
    told = put(media, "document-bbbbbbbbbbbbbbbb.pdf")
    owed = put(media, "document-cccccccccccccccc.pdf")
    young = put(media, "voice-dddddddddddddddd.ogg", days=-3)
    foreign = put(media, "holiday.jpg")
    gone = [put(media, "video_note-eeeeeeeeeeeeeeee"), put(media, "web/ffffffffffffffff.webp")]
    photo = Media(str(named), "image/jpeg", "p.jpg", 1)
    await ledger.sessions.append(session.id, (UserMessage((Text("look"), photo)),))
    await ledger.sessions.start("telegram:7")
    other = await ledger.sessions.start("telegram:8")
    await ledger.sessions.append(other.id, (UserMessage((Text(f"use {picture} and {told}"),)),))
    await ledger.put((OutboxItem("in-1", 0, "telegram", "7", f'{{"path": "{owed}"}}'),))
    keeper = OldMedia(media, ledger, "telegram")
    assert await keeper.forget(NOW) == 0
    assert await keeper.forget(LATER) == len(gone)
    assert not any(path.exists() for path in gone)
    assert all(path.exists() for path in (named, picture, told, owed, young, foreign))


async def test_the_folder_is_looked_through_once_a_day(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.sessions.start("telegram:7")
    keeper = OldMedia(tmp_path / "media", ledger, "telegram")
    assert await keeper.forget(LATER) == 0  # there is no folder
    put(tmp_path / "media", f"photo-{MARK}.jpg")
    assert await keeper.forget(LATER + timedelta(hours=23)) == 0
    assert await keeper.forget(LATER + timedelta(hours=25)) == 1


async def test_what_is_older_than_the_first_conversation_stays(ledger: Ledger, tmp_path: Path) -> None:
    put(tmp_path, f"photo-{MARK}.jpg", days=1)
    keeper = OldMedia(tmp_path, ledger, "telegram")
    assert await keeper.forget(LATER) == 0
    await ledger.sessions.start("telegram:7")
    assert await keeper.forget(LATER + timedelta(days=2)) == 0


async def test_links_and_folders_are_left_alone(ledger: Ledger, tmp_path: Path) -> None:
    await ledger.sessions.start("telegram:7")
    media, secret = tmp_path / "media", put(tmp_path, "secret.txt")
    (media / f"photo-{MARK}").mkdir(parents=True)
    (media / "photo-aaaaaaaaaaaaaaaa.jpg").symlink_to(secret)
    assert await OldMedia(media, ledger, "telegram").forget(datetime.now(UTC) + timedelta(days=200)) == 0
    assert len(list(media.iterdir())) == 2


async def test_the_gateway_deletes_old_files_while_it_runs(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=lambda _: Reply("Hello.")) as (telegram, _, ada, home):
        async with running(home):
            await ada.asks("hi", lambda: "bot: Hello." in telegram.visible(ada.chat))
        home.rows("UPDATE session SET created_at = '2020-01-01T00:00:00+00:00'")
        home.rows("DELETE FROM note WHERE key LIKE 'media:%'")
        old = put(home.home / "media", f"photo-{MARK}.jpg", days=100)
        days = (datetime.now(UTC) - timedelta(days=number) for number in range(8, 0, -1))
        (home.home / "days").write_text("\n".join(f"{day:%Y-%m-%d}" for day in days), encoding="ascii")
        new = put(home.home / "media", "photo-aaaaaaaaaaaaaaaa.jpg", days=80)
        async with running(home):
            await until(lambda: not old.exists())
        assert new.exists()
