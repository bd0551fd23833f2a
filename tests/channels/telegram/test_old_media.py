"""Old files: gone when nothing names them, kept otherwise."""

import os
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nanobot.channels.telegram.read.media import KEEP_MEDIA_DAYS, OldMedia
from nanobot.messages import Media, Text, UserMessage
from nanobot.session.ledger import Ledger
from nanobot.session.rows import OutboxItem
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase
from tests.channels.telegram.gateway import furnished, running
from tests.fakes.llm_server import Reply
from tests.fakes.waiting import until

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
        with sqlite3.connect(home.home / "nanobot.db") as db:
            db.execute("UPDATE session SET created_at = '2020-01-01T00:00:00+00:00'")
            db.execute("DELETE FROM note WHERE key LIKE 'media:%'")
        db.close()
        old = put(home.home / "media", f"photo-{MARK}.jpg", days=100)
        new = put(home.home / "media", "photo-aaaaaaaaaaaaaaaa.jpg", days=80)
        async with running(home):
            await until(lambda: not old.exists())
        assert new.exists()
