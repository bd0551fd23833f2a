"""The owner is told once of what keeps failing, stands still or never returns, wherever people meet it."""

import asyncio
import json
import signal
from pathlib import Path

from nanobot.agent.monitoring import watched_bus
from nanobot.bus.alarms import Alarm, Alarms
from nanobot.bus.events import Address, OutboundMessage, TurnFinished
from nanobot.channels.telegram.bot import TelegramLine
from nanobot.channels.telegram.read.intake import TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.send.outbox import LONGEST, MOST_TRIES
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.channels.telegram.show.status import Look
from nanobot.providers.scripted import Call
from nanobot.session.ledger import MOST_ATTEMPTS, Ledger
from nanobot.session.rows import Arrival
from nanobot.session.sqlite import MemoryDatabase
from nanobot.web.client import trusted_client
from tests.channels.harness import small_agent
from tests.channels.telegram.gateway import OWNER, furnished, running, serving
from tests.channels.telegram.scenarios import CHANNEL, stage
from tests.channels.telegram.test_inbox import inbox_over
from tests.cli.harness import program
from tests.fakes import stall
from tests.fakes.ledger import states
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.patience import growing
from tests.fakes.telegram_server import TOKEN, TelegramServer, black_hole, refuse, too_many
from tests.fakes.waiting import until

REFUSED = Reply(status=401, body={"error": {"message": "Incorrect API key", "code": "invalid_api_key"}})
GUEST = 77


async def test_U71_the_owner_hears_once_that_the_key_is_refused_though_another_person_asked(tmp_path: Path) -> None:
    async with furnished(tmp_path, after=REFUSED, allowFrom=[str(OWNER), "*"]) as (telegram, llm, owner, home):
        guest = telegram.user("Bob", GUEST)
        asked = 0

        def alarms() -> list[str]:
            return [line for line in telegram.visible(owner.chat) if "times in a row" in line]

        def answered() -> bool:
            return sum(line.startswith("bot: ") for line in telegram.visible(guest.chat)) == asked

        async def ask(times: int) -> None:
            nonlocal asked
            for _ in range(times):
                asked += 1
                guest.say(f"question {asked}")
                await telegram.until(answered)

        async with running(home):
            await ask(3)
            await telegram.until(lambda: len(alarms()) == 1)
            await ask(2)
        async with running(home):
            await ask(4)
            llm.after = "Fine."
            await ask(1)
            assert len(alarms()) == 1
            llm.after = REFUSED
            await ask(3)
            await telegram.until(lambda: len(alarms()) == 2)
        assert "The model fake (custom) failed 3 times in a row" in alarms()[0]
        assert "Incorrect API key" in alarms()[0]
        assert "providers.custom.apiKey" in alarms()[0]
        assert not any("times in a row" in line for line in telegram.visible(guest.chat))


async def test_U2_an_answer_that_cannot_go_out_for_a_day_is_dropped_and_the_chat_hears_of_it() -> None:
    pause = LONGEST.total_seconds() / (MOST_TRIES - 1) + 60
    async with stage(Look("off", "off"), step=300) as at:
        at.server.fail("sendMessage", *[too_many(int(pause))] * (MOST_TRIES + 1))
        await (await at.begin()).finish(TurnFinished("completed", "The answer."))
        await at.until("is dropped: Telegram did not take it for 24 hours")
        await at.settled()
        assert len(at.seen) == 1
        assert await states(at.ledger, "outbox", CHANNEL) == {"failed": 1, "sent": 1}


async def test_U71_messages_that_telegram_refuses_three_times_in_a_row_are_an_alarm_and_a_blocked_bot_is_none() -> None:
    async with stage(Look("off", "off")) as at:
        heard: list[Alarm] = []

        async def tell(alarm: Alarm) -> bool:
            heard.append(alarm)
            return True

        async def answer() -> None:
            await (await at.begin()).end(TurnFinished("completed", "The answer."))

        at.alarms.through(tell)
        async with at.alarms.running():
            at.server.blocked.add(7)
            for _ in range(3):
                await (await at.begin()).finish(TurnFinished("completed", "The answer."))
                await at.quiet(5)
            at.server.blocked.clear()
            for number in range(6):
                if number != 2:
                    at.server.fail("sendMessage", refuse(400, "Bad Request: nobody knows why"))
                await answer()
                await at.quiet(0.2)
                assert heard == [] or number == 5
            await at.quiet(1)
    assert len(heard) == 1
    assert "Telegram refused it" in heard[0].text


async def test_U71_messages_that_come_with_crashes_are_an_alarm_until_a_turn_goes_well(tmp_path: Path) -> None:
    alarms, heard = Alarms(), list[str]()

    async def tell(alarm: Alarm) -> bool:
        heard.append(alarm.text)
        return True

    async def settled() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    alarms.through(tell)
    ledger, line = Ledger(MemoryDatabase()), TelegramLine(TelegramSettings(TOKEN))
    async with small_agent([]) as agent, trusted_client() as client, alarms.running():
        intake = TelegramIntake(line, MediaFolder(tmp_path, client))
        inbox = inbox_over(ledger, line, intake, agent, OWNER, alarms=alarms)
        bus = watched_bus(alarms)
        for number in range(1, 6):
            (row,) = await ledger.accept(CHANNEL, (Arrival(str(number), "{}"),))
            for _ in range(MOST_ATTEMPTS - 1):
                await ledger.claim((row.seq,))
                await ledger.recover(CHANNEL)
            await ledger.claim((row.seq,))  # and the process dies once more
            await inbox.resume()
            await settled()
            assert heard == [] or number == 5
            if number == 2:
                await bus.publish_outbound(OutboundMessage(Address("x", "y"), TurnFinished("completed", "Fine.")))
    assert len(heard) == 1
    assert "Working on a message failed 3 times in a row" in heard[0]
    assert f"nanobot stopped {MOST_ATTEMPTS} times while it worked" in heard[0]
    await line.aclose()


async def test_a_blocked_gateway_is_ill_in_its_health_file_and_the_log_has_the_line(tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Still here.") as (telegram, _, ada, home):
        go_on = tmp_path / "go_on"
        root = Path(__file__).parents[3]
        env = {"PYTHONPATH": f"{Path(stall.__file__).parent}:{root}", "STALL_UNTIL": str(go_on)}

        def health() -> dict[str, object]:
            value: dict[str, object] = json.loads((home.home / "gateway.json").read_text(encoding="utf-8"))
            return value

        async with running(home, env=env) as gateway:
            await ada.asks("hello", lambda: "bot: Still here." in telegram.visible(ada.chat))
            gateway.process.send_signal(signal.SIGUSR1)
            await until(lambda: health()["state"] == "stalled")
            assert health()["ok"] is False
            log = (home.home / "logs" / "nanobot.log").read_text(encoding="utf-8")
            assert "the event loop has been blocked" in log
            assert "in stand_still" in log
            go_on.touch()
            await until(lambda: health()["state"] == "polling")
            assert health()["ok"] is True
            await ada.asks("are you there?", lambda: telegram.visible(ada.chat).count("bot: Still here.") == 2)


def play(request: LlmRequest) -> Reply:
    return Reply("Too late.", delay=600) if "the hard one" in request.raw.decode() else Reply("At once.")


def look_and_be_silent(request: LlmRequest) -> Reply:
    looked = "query" in str(request.messages)
    return Reply("Too late.", delay=600) if looked else Reply(Call("nanobot_docs", {"query": "query of mine"}))


@growing(3, 30, 100)
async def test_U5_a_chat_whose_model_is_silent_gets_an_honest_line_and_others_their_answers(
    tmp_path: Path, limit: float
) -> None:
    async with TelegramServer() as telegram, LlmServer(after=play) as llm:
        ada, bob = telegram.user("Ada", OWNER), telegram.user("Bob", GUEST)
        bot = {"enabled": True, "token": TOKEN, "apiBase": telegram.url, "allowFrom": [str(OWNER), "*"]}
        defaults = {"model": "fake", "provider": "custom", "maxTurnSeconds": limit}
        home = program(tmp_path, llm, channels={"telegram": bot}, agents={"defaults": defaults})
        async with running(home):
            ada.say("the hard one")
            await llm.asked(1)
            await bob.asks("hello", lambda: "bot: At once." in telegram.visible(bob.chat))
            await ada.sees("while waiting for the model fake")
            ada.say("/new")
            await ada.asks("an easy one", lambda: "bot: At once." in telegram.visible(ada.chat))
            log = (home.home / "logs" / "nanobot.log").read_text(encoding="utf-8")
        assert "hangs; it waits here" in log
        assert "Link.post" in log


async def test_U4_the_stop_button_stops_though_telegram_takes_no_answer_to_the_press(tmp_path: Path) -> None:
    async with serving(tmp_path, after=look_and_be_silent) as (telegram, _, ada, _):
        await ada.asks("go", "[Stop]")
        telegram.fail("answerCallbackQuery", black_hole())
        await ada.presses("Stop", "stopped")
