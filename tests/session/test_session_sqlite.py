"""What the file store promises beyond the contract: it survives, it refuses, it overwrites nothing."""

import asyncio
import os
import sqlite3
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing, closing
from pathlib import Path

import pytest

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Message, Text, UserMessage
from nanobot.session.database import Transaction
from nanobot.session.layout import VERSION
from nanobot.session.lock import FileLock
from nanobot.session.sqlite import SqliteDatabase
from nanobot.session.store import SessionStore
from tests.tables import table

AT = "2026-01-01T00:00:00Z"
HELLO = UserMessage((Text("hello"),))


async def filled(path: Path) -> str:
    async with aclosing(SessionStore(SqliteDatabase(path))) as store:
        session = await store.current("a")
        await store.append(session.id, (HELLO, HELLO))
    return session.id


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


async def test_a_conversation_is_there_after_a_restart(tmp_path: Path) -> None:
    session_id = await filled(tmp_path / "new" / "folder" / "s.db")
    async with aclosing(SessionStore(SqliteDatabase(tmp_path / "new" / "folder" / "s.db"))) as store:
        assert (await store.current("a")).id == session_id
        assert await store.history(session_id) == (HELLO, HELLO)


@table(
    "made why",
    (
        lambda path: path.write_bytes(b"no database, but somebody may want it back" * 100),
        "Nothing was overwritten. Check the disk",
    ),
    (lambda path: os.truncate(path, path.stat().st_size // 2), "cannot be used"),
    (lambda path: execute(path, f"PRAGMA user_version = {VERSION + 1}"), "newer nanobot"),
    (lambda path: execute(path, "PRAGMA application_id = 1"), "another program"),
    ids=["damaged", "truncated", "newer", "foreign"],
)
async def test_a_file_that_cannot_be_used_is_refused_and_left_as_it_is(
    tmp_path: Path, made: Callable[[Path], object], why: str
) -> None:
    path = tmp_path / "s.db"
    session_id = await filled(path)
    made(path)
    before = path.read_bytes()
    async with aclosing(SessionStore(SqliteDatabase(path))) as store:
        with pytest.raises(StoreError, match=rf"s\.db.*{why}"):
            await store.history(session_id)
    assert path.read_bytes() == before


async def test_a_damaged_tail_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    session_id = await filled(path)
    execute(
        path, f"INSERT INTO record VALUES ('{session_id}', 3, 'message', 'user', 9, '', '{AT}', '{{\"role\": \"us', 0)"
    )
    async with aclosing(SessionStore(SqliteDatabase(path))) as store:
        with pytest.raises(StoreError, match=f"record 3 of session {session_id}.*Nothing was changed.*/new"):
            await store.history(session_id)
        fresh = await store.start("a")
        await store.append(fresh.id, (HELLO,))
        assert await store.history(fresh.id) == (HELLO,)
        execute(path, "UPDATE session SET messages = 'many'")
        with pytest.raises(StoreError, match=r"s\.db cannot be used"):
            await store.list()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM record WHERE session_id = ?", (session_id,)).fetchone()[0] == 3


@pytest.mark.parametrize("how", ["deleted", "replaced"])
async def test_a_file_that_goes_away_under_a_running_program_is_noticed_and_nothing_is_accepted(
    tmp_path: Path, how: str
) -> None:
    path, aside = tmp_path / "s.db", tmp_path / "aside.db"
    store = SessionStore(SqliteDatabase(path))
    session = await store.start("a")
    path.rename(aside)
    if how == "replaced":
        path.write_bytes(aside.read_bytes())
    hold = store.database.hold
    for work in (store.append(session.id, (UserMessage((Text("hi"),)),)), store.start("a"), store.list(), hold("a")):
        with pytest.raises(StoreError, match=f"{path} was {how}.* while nanobot was running"):
            await work
    aside.rename(path)
    assert await hold("a") == "", "what was refused holds nothing"
    await store.append(session.id, (UserMessage((Text("hi again"),)),))
    assert [one.text for one in await store.history(session.id)][-1] == "hi again"
    await store.aclose()


async def test_an_empty_file_and_a_log_without_its_file_are_refused_and_left_as_they_are(tmp_path: Path) -> None:
    path, log = tmp_path / "s.db", tmp_path / "s.db-wal"
    path.touch()
    with pytest.raises(StoreError, match="is empty"):
        await SessionStore(SqliteDatabase(path)).list()
    assert path.stat().st_size == 0
    with pytest.raises(StoreError, match="cannot be used"):
        await SessionStore(SqliteDatabase(path / "s.db")).list()
    with pytest.raises(StoreError, match="The disk is full: free some room"):
        await SessionStore(SqliteDatabase(Path("/proc/s.db"))).list()
    path.unlink()
    log.write_bytes(b"changes")
    with pytest.raises(StoreError, match=r"is missing, but s\.db-wal is there"):
        await SessionStore(SqliteDatabase(path)).list()
    assert [one.name for one in tmp_path.iterdir()] == ["s.db-wal"]
    log.unlink()
    async with aclosing(SessionStore(SqliteDatabase(path))) as store:
        await store.start("a")
    assert [one.name for one in tmp_path.iterdir()] == ["s.db"], "nothing of its making is left"


async def test_records_cannot_be_changed_or_deleted(tmp_path: Path) -> None:
    await filled(tmp_path / "s.db")
    for statement in ("DELETE FROM record", "UPDATE record SET message = '{}'"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            execute(tmp_path / "s.db", statement)


async def test_a_cancelled_caller_does_not_take_its_write_back(tmp_path: Path) -> None:
    async with aclosing(SessionStore(SqliteDatabase(tmp_path / "s.db"))) as store:
        session = await store.current("a")
        tasks = [asyncio.create_task(store.append(session.id, (HELLO,))) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        _, waiting = await asyncio.wait(tasks, timeout=120)
        assert not waiting, "who was not cancelled hears of it"
        assert await store.history(session.id) == (HELLO,) * 20


async def test_two_processes_may_use_the_file(tmp_path: Path) -> None:
    first, second = SessionStore(SqliteDatabase(tmp_path / "s.db")), SessionStore(SqliteDatabase(tmp_path / "s.db"))
    session = await first.current("a")
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(first.append(session.id, (HELLO,)))
            group.create_task(second.append(session.id, (HELLO,)))
    assert len(await first.history(session.id)) == 40
    await first.aclose()
    await second.aclose()


async def test_a_session_is_taken_once_beside_a_work_that_fails_and_not_at_all_where_the_file_is_gone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.db"
    here, there = SqliteDatabase(path), SqliteDatabase(path)
    together = threading.Event()

    async def waits(_db: Transaction) -> None:
        together.wait(120)

    async def fails(_db: Transaction) -> None:
        raise ValueError

    first = asyncio.create_task(here.read(waits))
    works = [asyncio.create_task(one) for one in (here.hold("a"), here.run(fails))]
    await asyncio.sleep(0)
    together.set()
    assert isinstance((await asyncio.gather(first, *works, return_exceptions=True))[2], ValueError)
    assert (works[0].result(), await there.hold("a")) == ("", f"process {os.getpid()}")
    await here.drop("a")
    path.rename(tmp_path / "aside")
    with pytest.raises(StoreError, match="was deleted"):
        await here.hold("a")
    (tmp_path / "aside").rename(path)
    assert await there.hold("a") == ""
    await there.drop("a")
    await here.aclose()
    await there.aclose()


async def test_a_session_is_given_back_also_where_its_file_is_gone_or_closed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    here, there = SqliteDatabase(path), SqliteDatabase(path)
    assert [await here.hold(one) for one in ("a", "b")] == ["", ""]
    path.rename(aside := tmp_path / "aside.db")
    await here.drop("a")
    aside.rename(path)
    await here.aclose()
    await here.drop("b")
    assert [await there.hold(one) for one in ("a", "b")] == ["", ""]
    await there.aclose()


async def test_a_session_is_free_again_when_its_process_dies(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    code = "import sys, pathlib, nanobot.session.lock as l; x = l.session_lock(pathlib.Path(sys.argv[1]), 'a'); "
    code += "print(x.take() or 'held', flush=True); sys.stdin.read()"
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", code, path, stdin=pipe, stdout=pipe)
    assert other.stdout is not None
    assert await other.stdout.readline() == b"held\n"
    async with aclosing(SessionStore(SqliteDatabase(path))) as store:
        assert await store.database.hold("a") == f"process {other.pid}"
        assert await store.database.hold("b") == ""
        other.kill()
        await other.wait()
        assert await store.database.hold("a") == ""
        await store.database.drop("a")
        await store.database.drop("b")
    assert list(tmp_path.rglob("s.db-turns/*")) == [], "nothing is left of it"


def test_a_lock_in_which_an_older_nanobot_has_noted_more_than_its_number_is_held(tmp_path: Path) -> None:
    lock = tmp_path / "bot.lock"
    with FileLock(lock):
        lock.write_text(f"{os.getpid()}\n{tmp_path}/gateway.json", encoding="utf-8")
        assert FileLock(lock).held
        assert FileLock(lock).take() == f"process {os.getpid()}"
    assert not FileLock(lock).held


async def test_of_a_long_conversation_only_whole_turns_that_may_fit_are_read(tmp_path: Path) -> None:
    async with aclosing(SessionStore(SqliteDatabase(tmp_path / "s.db"))) as store:
        session = await store.current("a")
        seen: list[int] = []
        for number in range(40):
            turn: tuple[Message, ...] = (UserMessage((Text(f"q{number}"),)), AssistantMessage((Text("a" * 1_000),)))
            await store.append(session.id, turn)
            shown = await store.history(session.id, size=20_000)
            assert isinstance(shown[0], UserMessage)
            assert shown[-2:] == turn
            assert sum(len(item.text) for item in shown) <= 20_000
            seen.append(int(shown[0].text[1:]))
        assert len(set(seen)) < 8, "the cut moves in jumps"
        assert seen[-1] > 20
        assert len(await store.history(session.id)) == 80
