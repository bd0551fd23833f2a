"""The budget in the shipped gateway: who is stopped, what each is told, and how the owner lets them go on."""

import json
import re
from pathlib import Path

import pytest

from nanobot.providers.scripted import Call
from tests.channels.telegram.gateway import OWNER, configured, furnished, running
from tests.channels.telegram.test_rights_live import House, Model
from tests.fakes.llm_server import LlmRequest, LlmServer, Reply
from tests.fakes.telegram_server import TelegramServer

#: So that each request, which takes 100 tokens, costs 0.60 USD.
MONEY = {"prices": {"custom/*": {"input": 6_000}}, "budget": {"perDay": 2.4, "perPerson": {"perDay": 0.5}}}


def priced(home: Path, **budget: object) -> None:
    path = home / "config.json"
    money = {**MONEY, "budget": budget or MONEY["budget"]}
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **money}), encoding="utf-8")


async def test_a_person_stops_at_their_cap_and_goes_on_when_the_owner_gives_them_more(tmp_path: Path) -> None:
    async with furnished(tmp_path) as (telegram, llm, ada, home):
        llm.after = model = Model()
        priced(home.home)
        eve = telegram.user("Eve")
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            link = await at.command(ada, "/invite")
            code = re.findall(r"start=([\w-]+)", link)[0]
            await at.command(eve, f"/start {code}")
            await at.ask(eve)
            at.say(eve, "again word-0x")
            stopped = await at.until(eve.chat, lambda line: "budget" in line)
            assert "Your budget for today is used up: 0.60 of 0.50 USD. It goes on tomorrow at 00:00" in stopped
            assert not model.about("word-0x"), "the model was not asked"
            assert "cap: today 0.60 of 0.50 USD" in await at.command(ada, "/people")
            assert "cap of their own: today 0.60 of 2.00 USD" in await at.command(ada, f"/people {eve.chat} cap 2")
            await at.ask(eve)
            whole, own = await at.command(ada, "/usage today by person"), await at.command(eve, "/usage")
            assert f"telegram:{eve.chat}: 200 tokens in" in whole
            assert "Today: 200 tokens in, 20 out, 2 requests, 1.20 USD" in own
            assert "Cap of their own: today 1.20 of 2.00 USD" in own
            assert "Only the owner may allow more." in await at.command(eve, "/usage raise 5")


async def test_the_owner_hears_once_that_others_are_stopped_at_the_cap_of_all(tmp_path: Path) -> None:
    async with furnished(tmp_path) as (telegram, llm, ada, home):
        llm.after = model = Model()
        priced(home.home, perDay=1.0, perPerson={"perDay": None})
        eve = telegram.user("Eve")
        async with running(home) as gateway:
            at = House(telegram, gateway, model)
            code = re.findall(r"start=([\w-]+)", await at.command(ada, "/invite"))[0]
            await at.command(eve, f"/start {code}")
            for _ in range(2):
                await at.ask(eve)
            for number in range(3):
                before = len(telegram.visible(eve.chat))
                at.say(eve, f"again word-{number}z")
                await at.until(eve.chat, lambda line: "budget of this nanobot" in line)
                await telegram.until(lambda: len(telegram.visible(eve.chat)) >= before + 2)  # noqa: B023
            told = await at.until(ada.chat, lambda line: "others than you failed 3 times" in line)
            assert "The budget for today is used up: 1.20 of 1.00 USD. It goes on tomorrow at 00:00" in told
            assert "/usage raise 5" in told
            assert "USD" not in " ".join(telegram.visible(eve.chat)), "others learn no figures of all"


async def test_a_turn_over_the_cap_tells_what_it_has_done_and_goes_on_after_a_raise(tmp_path: Path) -> None:
    async with TelegramServer() as telegram, LlmServer() as llm:

        def docs_for_ever(request: LlmRequest) -> Reply:
            messages = request.messages
            return Reply(Call("nanobot_docs", {"query": f"page {len(messages)}"}))

        llm.after = docs_for_ever
        home = configured(tmp_path, telegram, llm)
        priced(home.home)
        ada = telegram.user("Ada", OWNER)
        async with running(home) as gateway:
            at = House(telegram, gateway, Model())
            at.say(ada, "read everything")
            ended = await at.until(ada.chat, lambda line: "I stopped here: the budget is used up" in line)
            assert 'docs "page' in ended
            told = "\n".join(telegram.visible(ada.chat))
            assert "2.40 of 2.40 USD" in told
            assert "To go on now, /usage raise 5" in told.replace("`", "")
            assert len(llm.requests) == 4
            assert "Today 2.40 of 7.40 USD" in await at.command(ada, "/usage raise 5")
            llm.after = "here it is"
            at.say(ada, "go on")
            assert await at.until(ada.chat, lambda line: "here it is" in line)
            assert "read everything" in json.dumps(llm.requests[-1].body)


@pytest.mark.parametrize("background", [False, True])
async def test_helpers_that_never_end_stop_at_the_cap_of_all_and_the_person_is_told(
    tmp_path: Path, background: bool
) -> None:
    asked: list[str] = []

    def for_ever(request: LlmRequest) -> Reply:
        messages = request.messages
        asked.append(str(messages[0]["content"])[:300])
        if "You are a helper" in str(messages[0]["content"]):
            return Reply(Call("nanobot_docs", {"query": f"budget {len(messages)}"}))
        if messages[-1]["role"] == "tool":
            return Reply("They are at work.")
        tasks = [Call("spawn", {"task": f"Dig {number}.", "background": background}) for number in range(3)]
        return Reply(*tasks)

    async with furnished(tmp_path, after=for_ever) as (_, _, ada, home):
        priced(home.home, perDay=6.0, perPerson={"perDay": None})
        async with running(home):
            await ada.asks("dig for ever", "budget")
            await ada.sees("I stopped here: the budget")
    assert 6.0 / 0.6 <= len(asked) <= 6.0 / 0.6 + 4, "about one more for each that ran when the cap was met"
