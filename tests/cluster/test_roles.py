"""Gateways with roles, as processes: who polls, who answers, who keeps the schedule, how /stop finds its turn."""

import asyncio
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from nanobot.channels.telegram.render.screen_messages import REPEAT
from nanobot.providers.scripted import Call, Pause, Say, Wait
from tests.cli.harness import program
from tests.cluster.fleet import ADA, BOB, Fleet, fleet
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.patience import growing
from tests.fakes.postgres import Door, TestServer
from tests.fakes.telegram_server import TOKEN, Fault, Json, TelegramServer


async def _until(ships: Fleet, query: LiteralString, rows: Sequence[tuple[object]]) -> None:
    """Wait until the database answers a query with these rows."""
    async with await psycopg.AsyncConnection.connect(ships.address, autocommit=True) as db, asyncio.timeout(120):
        while await (await db.execute(query)).fetchall() != rows:
            await asyncio.sleep(0.05)


async def test_a_poller_takes_in_and_workers_answer(ships: Fleet) -> None:
    ada = ships.telegram.user("Ada", ADA)
    poller = await ships.run("poller")
    await ships.telegram.until(lambda: bool(ships.telegram.sent("getUpdates")))
    eve = ships.telegram.user("Eve")
    odd: Json = {"message_id": 7, "date": 1_760_000_000, "chat": None, "text": "in no chat"}
    ships.telegram.push("message", {**odd, "from": eve.as_json()})
    eve.say("", venue={"location": None, "title": "Café", "address": "Street 1"})
    ada.say("hello")
    await ships.telegram.until(lambda: len(ships.telegram.confirmed) == 3)
    assert not ships.llm.requests
    worker = await ships.run("worker")
    await ships.telegram.until(lambda: "bot: Done." in ships.telegram.visible(ADA))
    settled = [("dead",), ("dead",), ("done",)]  # what nobody can read is set aside here too
    await _until(ships, "SELECT state FROM nanobot_123456.inbox ORDER BY seq", settled)
    assert await worker.stop() == 0
    assert await poller.stop() == 0


async def test_another_poller_takes_over_when_one_dies(ships: Fleet) -> None:
    ada = ships.telegram.user("Ada", ADA)
    first = await ships.run("poller")
    await ships.telegram.until(lambda: bool(ships.telegram.sent("getUpdates")))
    await ships.run("poller")
    await ships.run("worker")
    ada.say("one")
    await ships.telegram.until(lambda: "bot: Done." in ships.telegram.visible(ADA))
    await first.kill()
    ada.say("two")
    await ships.telegram.until(lambda: ships.telegram.visible(ADA).count("bot: Done.") == 2)
    assert ships.telegram.conflicts == 0, "two polled at once"


async def test_a_turn_of_a_worker_that_dies_is_finished_by_another(ships: Fleet) -> None:
    ships.llm.after = Reply("Never said.", delay=600)
    await ships.run("poller")
    first = await ships.run("worker")
    ships.telegram.user("Ada", ADA).say("hello")
    await ships.llm.asked(1)
    ships.llm.after = Reply("Done.")
    await _until(ships, "SELECT message_id <> '' FROM nanobot_123456.outbox", [(True,)])  # what it shows is noted
    await ships.run("worker")
    await first.kill()
    await ships.telegram.until(lambda: ships.telegram.visible(ADA) == ["Ada: hello", "bot: Done."])


async def test_a_status_of_which_only_telegram_knows_is_shown_anew_and_its_button_says_that_nothing_runs(
    ships: Fleet,
) -> None:
    """Its worker was killed before the answer of Telegram came, so nobody knows the number of the message."""
    telegram, ada = ships.telegram, ships.telegram.user("Ada", ADA)

    def look_then_think(request: LlmRequest) -> Reply:
        looked = "telegram bots" in str(request.messages)
        return Reply("Never said.", delay=600) if looked else Reply(Call("nanobot_docs", {"query": "telegram bots"}))

    ships.llm.after = look_then_think
    await ships.run("poller")
    first = await ships.run("worker")
    telegram.fail("sendMessage", Fault("hang", apply=True))
    ada.say("hello")
    await telegram.shows(ADA, "[Stop]")
    await first.kill()
    await ships.run("worker")
    await telegram.until(lambda: sum("[Stop]" in line for line in telegram.visible(ADA)) == 2)
    orphan = next(message for message in telegram.chats[ADA] if "Stop" in message.buttons)
    ada.press("Stop")
    await telegram.shows(ADA, "⏹ stopped")
    telegram.press(ada, orphan, "Stop")
    await telegram.until(lambda: not orphan.buttons)
    assert "Nothing is running." in telegram.toasts


async def test_stop_and_text_reach_the_worker_that_holds_the_turn(ships: Fleet) -> None:
    """Three workers, two turns at a time: what comes during a turn must not become work of another worker."""
    ships.people = (ADA, BOB)
    ada, bob = ships.telegram.user("Ada", ADA), ships.telegram.user("Bob", BOB)
    heard = asyncio.Event()
    ships.llm.after = Reply(Wait(heard), Call("nanobot_docs", {"query": "telegram"}))
    await asyncio.gather(ships.run("poller"), *(ships.run("worker") for _ in range(3)))
    ada.say("ada's question")
    bob.say("bob's question")
    await ships.llm.asked(2)
    ships.llm.after = Reply("Much too long.", delay=600)
    ada.say("and be brief")
    await ships.telegram.until(lambda: any("Got it" in line for line in ships.telegram.visible(ADA)))
    heard.set()
    await ships.llm.asked(4)
    steered = [request for request in ships.llm.requests[2:] if "and be brief" in str(request.body)]
    assert len(steered) == 1
    assert "ada's question" in str(steered[0].body)
    asked = time.monotonic()
    ada.say("/stop")
    await ships.telegram.until(lambda: any("Stopped" in line for line in ships.telegram.visible(ADA)))
    print(f"/stop took {time.monotonic() - asked:.2f} s")  # shown by `pytest -s`; a busy machine proves nothing
    assert not any("Stopped" in line for line in ships.telegram.visible(BOB))
    assert len(ships.llm.requests) == 4, "nobody else began the turn again"


async def test_a_worker_that_stood_still_does_not_write_over_the_answer_of_another(ships: Fleet) -> None:
    """It was in the middle of showing a message of which the rest waits in its socket; and of sending one whole, which
    Telegram has and which may be sent once more with a mark."""
    ships.people, stopped = (ADA, BOB), asyncio.Event()
    begin, more, end = "The beginning of an answer that is long enough to be shown at once.", "It grows.", "The end."
    ships.llm.after = Reply("To Bob.")
    await ships.run("poller")
    first = await ships.run("worker")
    ships.telegram.fail("sendMessage", Fault("hang", apply=True))
    ships.telegram.user("Bob", BOB).say("hi")
    await ships.telegram.until(lambda: "bot: To Bob." in ships.telegram.visible(BOB))
    ships.llm.after = Reply(Say(begin), Pause(2.0), Say(f" {more}"), Wait(stopped), Say(f" {end}"))
    ships.telegram.user("Ada", ADA).say("hello")
    await ships.telegram.until(lambda: any(more in line for line in ships.telegram.visible(ADA)))
    first.process.send_signal(signal.SIGSTOP)
    stopped.set()
    await ships.run("worker")
    whole = ["Ada: hello", f"bot: {begin} {more} {end}"]
    await ships.telegram.until(lambda: ships.telegram.visible(ADA) == whole)
    sent = ["Bob: hi", "bot: To Bob.", f"bot: {REPEAT}To Bob."]
    await ships.telegram.until(lambda: ships.telegram.visible(BOB) == sent)
    first.process.send_signal(signal.SIGCONT)
    assert await first.ended() != 0
    assert "has gone to others" in first.text
    assert (ships.telegram.visible(ADA), ships.telegram.visible(BOB)) == (whole, sent)


@pytest.mark.parametrize("hangs", [False, True], ids=["that is away", "that hangs"])
@growing(25.0, 60.0)
async def test_a_worker_that_ends_waits_for_no_database(
    limit: float, tmp_path: Path, postgres: TestServer, hangs: bool
) -> None:
    """Whom it was to answer is answered by another one."""
    async with (
        TelegramServer() as telegram,
        LlmServer(after=Reply("Never said.", delay=600)) as llm,
        Door(address := postgres.fresh()) as door,
        fleet(tmp_path, telegram, llm, door.address, [ADA]) as cut_off,
    ):
        worker = await cut_off.run("worker")
        (tmp_path / "beside").mkdir()
        async with fleet(tmp_path / "beside", telegram, llm, address, [ADA]) as beside:
            await beside.run("poller")
            telegram.user("Ada", ADA).say("hello")
            await llm.asked(1)
            if hangs:
                door.asked.clear()
            else:
                await door.shut()
            worker.process.send_signal(signal.SIGINT if hangs else signal.SIGTERM)
            await asyncio.wait_for(worker.process.wait(), limit)
            llm.after = Reply("Done.")
            await beside.run("worker")
            await telegram.until(lambda: telegram.visible(ADA) == ["Ada: hello", "bot: Done."])


async def test_the_link_of_the_owner_that_a_poller_shows_is_honoured_by_a_worker(ships: Fleet) -> None:
    ships.people = ()
    poller = await ships.run("poller")
    await ships.run("worker")
    async with asyncio.timeout(120):
        while "?start=" not in poller.text:
            await asyncio.sleep(0.05)
    code = poller.text.partition("?start=")[2].split()[0]
    ada = ships.telegram.user("Ada", ADA)
    ada.say(f"/start {code}")
    await ships.telegram.until(lambda: any("You are the owner" in line for line in ships.telegram.visible(ADA)))
    async with asyncio.timeout(120):
        while "has its owner now" not in poller.text:
            await asyncio.sleep(0.05)


async def test_a_role_without_a_shared_database_is_refused_in_a_sentence(tmp_path: Path) -> None:
    bot = {"enabled": True, "token": TOKEN}
    home = program(tmp_path, channels={"telegram": bot})
    ran = await home.run("gateway", "--role", "worker")
    assert ran.code == 2
    assert "all of them need one database" in ran.err
    assert "gateway" in ran.err


async def test_a_missing_extra_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "procrastinate.py").write_text("raise ImportError('not installed')", encoding="utf-8")
    bot = {"enabled": True, "token": TOKEN}
    agents = {"defaults": {"provider": "lookup"}}
    ledger = {"ledger": "postgresql://localhost/nano"}
    home = program(tmp_path, agents=agents, channels={"telegram": bot}, gateway=ledger)
    ran = await home.run("gateway", env={"PYTHONPATH": str(tmp_path / "without")})
    assert ran.code == 2
    assert 'pip install "nanobot[cluster]"' in ran.err
