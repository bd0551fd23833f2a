"""`nanobot usage` and the budget in the shipped program: what is told, what stops, how it goes on."""

import json
from pathlib import Path

from nanobot.messages import Usage
from tests.cli.harness import Program, modelled, program
from tests.fakes.llm_server import LlmServer, Reply

#: So that an answer costs 1 USD.
PRICES = {"custom/*": {"input": 1, "output": 0, "cached": 0.5}}
DEAR = Usage(input=1_200_000, output=20_000, cached=400_000)


def home(tmp_path: Path, server: LlmServer, **budget: object) -> Program:
    return program(tmp_path, server, prices=PRICES, budget=budget)


async def test_at_the_cap_no_question_is_sent_until_the_owner_allows_more(tmp_path: Path) -> None:
    async with LlmServer(after=Reply("fine", usage=DEAR)) as server:
        at = home(tmp_path, server, perDay=1.2)
        first, warned = await at.run("one"), await at.run("two")
        stopped = await at.run("three")
        asked = len(server.requests)
        raised = await at.run("usage", "raise", "5")
        again = await at.run("four")
    assert (first.code, first.out) == (0, "fine\n")
    assert (warned.code, warned.out) == (0, "fine\n")
    assert "83% of the budget for today are used: 1.00 of 1.20 USD" in warned.err
    assert (stopped.code, stopped.out, asked) == (75, "", 2)
    assert "The budget for today is used up: 2.00 of 1.20 USD. It goes on tomorrow at 00:00" in stopped.err
    assert "To go on now, `/usage raise 5` allows 5 USD more today" in stopped.err
    assert "5.00 USD more are allowed today" in raised.out
    assert "Today 2.00 of 6.20 USD" in raised.out
    assert (again.code, again.out) == (0, "fine\n")


async def test_usage_is_told_in_words_and_as_json_without_a_model(tmp_path: Path) -> None:
    async with LlmServer(after=Reply("fine", usage=DEAR)) as server:
        at = home(tmp_path, server)
        await at.run("one")
        await at.run("two")
    told, by_model = await at.run("usage"), await at.run("usage", "month", "by", "cause")
    as_json = json.loads((await at.run("usage", "week", "by", "model", "--json")).out)
    wrong = await at.run("usage", "by", "modl")
    assert "- Today: 2,400,000 tokens in (33% from the cache), 40,000 out, 2 requests, 2.00 USD" in told.out
    assert "- Budget: today 2.00 of 20.00 USD; this month 2.00 of 200.00 USD" in told.out
    assert "Usage, this month, by cause" in by_model.out
    assert "- chat: 2,400,000 tokens in" in by_model.out
    assert (as_json["period"], as_json["by"], as_json["total"]["cost"]) == ("week", "model", 2.0)
    assert as_json["total"]["cacheHitRate"] == 0.3333
    assert [(one["name"], one["requests"]) for one in as_json["groups"]] == [("fake", 2)]
    assert as_json["budget"] == "today 2.00 of 20.00 USD; this month 2.00 of 200.00 USD"
    assert (wrong.code, "Did you mean 'model'?" in wrong.err) == (2, True)


async def test_a_model_on_this_machine_is_free_and_no_cap_of_money_stops_it(tmp_path: Path) -> None:
    async with modelled(tmp_path, after=Reply("fine", usage=DEAR), budget={"perDay": 0, "tokensPerDay": 1}) as (at, _):
        assert [(await at.run("hi")).code for _ in range(2)] == [0, 0]
    assert "2 requests, 0.00 USD" in (await at.run("usage", "today")).out


async def test_what_is_no_model_goes_on_when_everything_is_spent(tmp_path: Path) -> None:
    async with LlmServer() as server:
        at = home(tmp_path, server, perDay=0)
        stopped = await at.run("hi")
        looked = await at.change(agents={"defaults": {"provider": "lookup"}}).run("-m", "hello")
    assert stopped.code == 75
    assert "The budget for today is used up: 0.00 of 0.00 USD." in stopped.err
    assert looked.code == 0
    assert "budget" not in looked.out + looked.err
    assert server.requests == []
