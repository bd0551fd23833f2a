"""kill -9 at every recorded step of a turn: nothing is lost, and nobody is answered twice."""

import asyncio
import contextlib
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nanobot.session.ledger import MOST_ATTEMPTS
from tests.channels.telegram.gateway import OWNER, configured, start
from tests.cli.harness import Program
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.telegram_server import Fault, TelegramServer

CRASH = Path(__file__).parent.parent.parent / "fakes" / "crash"
#: In an ordinary run every eighth statement is a kill point.
STEP = 8


async def answered(telegram: TelegramServer, chat: int, timeout: float = 20.0) -> None:
    await telegram.until(
        lambda: any((line.startswith("bot: ") and "The answer." in line) for line in telegram.visible(chat)), timeout
    )


async def settled(home: Program) -> None:
    """Wait until nothing is left to do."""
    query = (
        "SELECT (SELECT count(*) FROM inbox WHERE state IN ('new', 'claimed'))"
        " + (SELECT count(*) FROM outbox WHERE state IN ('new', 'sending', 'unknown'))"
    )
    async with asyncio.timeout(20):
        while True:
            with closing(sqlite3.connect(home.home / "nanobot.db")) as db, contextlib.suppress(sqlite3.Error):
                if db.execute(query).fetchone()[0] == 0:
                    return
            await asyncio.sleep(0.05)


def judge(home: Program, telegram: TelegramServer, chat: int) -> None:
    """What must hold after any crash and one clean start."""
    seen = [line for line in telegram.visible(chat) if (line.startswith("bot: ") and "The answer." in line)]
    unmarked = [line for line in seen if line == "bot: The answer."]
    assert len(seen) >= 1, telegram.visible(chat)
    assert len(unmarked) <= 1, seen
    with closing(sqlite3.connect(home.home / "nanobot.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert db.execute("SELECT count(*) FROM inbox WHERE state != 'done'").fetchone()[0] == 0
        assert db.execute("SELECT count(*) FROM outbox WHERE state NOT IN ('sent', 'draft')").fetchone()[0] == 0


async def crash_at(tmp_path: Path, point: int) -> None:
    tmp_path.mkdir(parents=True)
    async with TelegramServer() as telegram, LlmServer(after="The answer.") as llm:
        ada = telegram.user("Ada", OWNER)
        home = configured(tmp_path, telegram, llm)
        ada.say("question")
        first = await start(home, env={"PYTHONPATH": str(CRASH), "CRASH_AT": str(point)})
        try:
            async with asyncio.timeout(20):
                await first.process.wait()
        except TimeoutError:
            await settled(home)
            await first.kill()
        second = await start(home)
        try:
            await answered(telegram, ada.chat)
            await settled(home)
        except TimeoutError:
            raise AssertionError(f"point {point}: {telegram.visible(ada.chat)}\n{second.text}") from None
        finally:
            await second.kill()
        judge(home, telegram, ada.chat)


async def count(tmp_path: Path) -> list[str]:
    tmp_path.mkdir(parents=True)
    async with TelegramServer() as telegram, LlmServer(after="The answer.") as llm:
        ada = telegram.user("Ada", OWNER)
        home = configured(tmp_path, telegram, llm)
        ada.say("question")
        log = tmp_path / "statements"
        gateway = await start(home, env={"PYTHONPATH": str(CRASH), "CRASH_LOG": str(log)})
        await answered(telegram, ada.chat)
        await settled(home)
        await gateway.kill()
        return log.read_text(encoding="utf-8").splitlines()


async def test_each_eighth_statement_of_a_turn_is_survived(tmp_path: Path) -> None:
    lines = await count(tmp_path / "count")
    assert len(lines) >= 40, lines
    for point in range(STEP, len(lines), STEP):
        await crash_at(tmp_path / str(point), point)


@pytest.mark.crash_all
@pytest.mark.timeout(1200)
async def test_every_statement_of_a_turn_is_survived(tmp_path: Path) -> None:
    for point in range(1, len(await count(tmp_path / "count")) + 1):
        await crash_at(tmp_path / str(point), point)


async def test_a_kill_while_the_model_works_or_while_telegram_takes_the_answer_is_survived(tmp_path: Path) -> None:
    for step in ("model", "sendMessage before", "sendMessage after"):
        async with TelegramServer() as telegram, LlmServer(after="The answer.") as llm:
            ada = telegram.user("Ada", OWNER)
            home = configured(_folder(tmp_path, step), telegram, llm)
            if step == "model":
                llm.add(Reply("The answer.", delay=20))
            else:
                telegram.fail("sendMessage", Fault("hang", apply=step.endswith("after")))
            ada.say("question")
            first = await start(home)
            async with asyncio.timeout(20):
                while not (llm.requests if step == "model" else telegram.sent("sendMessage")):
                    await asyncio.sleep(0.02)
            await first.kill()
            second = await start(home)
            await answered(telegram, ada.chat)
            await settled(home)
            await second.kill()
            judge(home, telegram, ada.chat)


async def test_a_message_that_kills_the_process_is_parked_after_three_times_and_the_owner_told(tmp_path: Path) -> None:
    deadly = {"PYTHONPATH": str(CRASH), "CRASH_WORD": "killer"}
    async with TelegramServer() as telegram, LlmServer(after="The answer.") as llm:
        ada = telegram.user("Ada", OWNER)
        home = configured(tmp_path, telegram, llm)
        ada.say("killer question")
        for _ in range(MOST_ATTEMPTS):
            gateway = await start(home, env=deadly)
            assert await gateway.ended() == -signal.SIGKILL
        gateway = await start(home, env=deadly)
        ada.say("an ordinary question")
        await answered(telegram, ada.chat)
        assert await gateway.stop() == 0
        told = [line for line in telegram.visible(ada.chat) if "set a message aside" in line]
        assert len(told) == 1
        assert "killer question" in told[0]
        assert len(llm.requests) == 1


async def test_an_ordered_stop_gives_a_running_turn_back_and_it_is_answered_after_the_start(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer(Reply("Too late.", delay=60), after="The answer.") as llm:
        ada = telegram.user("Ada", OWNER)
        home = configured(tmp_path, telegram, llm)
        ada.say("question")
        gateway = await start(home)
        await llm.asked(1, 20)
        assert await gateway.stop() == 0, gateway.text
        second = await start(home)
        await answered(telegram, ada.chat)
        await settled(home)
        await second.kill()
        judge(home, telegram, ada.chat)
        with closing(sqlite3.connect(home.home / "nanobot.db")) as db:
            assert db.execute("SELECT attempts FROM inbox").fetchall() == [(1,)], "it does not count as a crash"


def _folder(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name.replace(" ", "-")
    folder.mkdir(parents=True)
    return folder
