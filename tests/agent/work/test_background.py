"""Helpers in the background, as the schedule keeps and runs them."""

import pytest
from msgspec.structs import replace

from nanobot.agent.history import foreign_in
from nanobot.agent.work.background import MOST_OPEN, BackgroundHelpers
from nanobot.bus.events import Errand, Sender
from nanobot.errors import UsageError
from nanobot.schedule.appointments import Appointments, Who
from nanobot.security.trust import unwrap
from tests.agent.harness import message
from tests.agent.test_scheduler import ADA, Office

ERRAND = Errand("e1", "Who makes bots?", ("web_search",), role="owner")
CHAT = "telegram:1"


def desk(office: Office) -> BackgroundHelpers:
    return BackgroundHelpers(office.jobs, office.ledger.sessions, clock=lambda: office.at)


async def test_a_call_that_is_made_again_begins_no_second_helper_and_the_answer_is_told_once() -> None:
    office = Office()
    helpers = desk(office)
    asked = replace(message("go"), address=replace(message("go").address, channel="telegram", chat="1"))
    for _ in range(2):
        result = await helpers.start(asked, ERRAND)
        assert "Helper h1 works in the background" in result.text
    appointments = Appointments(office.jobs, office.ledger, "UTC", clock=lambda: office.at)
    assert "Nothing is scheduled" in await appointments.listed(Who(ADA, CHAT, "owner", True)), "it is no appointment"
    assert await helpers.take_answers(asked) == (), "nothing has been answered"
    await office.passes(seconds=5)
    (served,) = office.asked
    assert (served.cause, served.content, served.errand, served.key) == ("helper", ERRAND.task, ERRAND, "helper:h1")
    rows = await office.ledger.pending("telegram:1")
    assert [row.item.payload for row in rows] == ["**Helper h1**: Who makes bots?\n\nthe answer"]
    (told,) = await helpers.take_answers(asked)
    assert told.kind == "notice"
    assert "Helper h1, “Who makes bots?”, answered" in told.text
    assert await helpers.take_answers(asked) == ()
    assert [one[: one.index(", begun")] for one in await helpers.listed(CHAT)] == ["- `h1` Who makes bots?: answered"]
    for number in range(7):
        await helpers.start(asked, replace(ERRAND, name=f"more{number}"))
        await office.passes(seconds=5)
        assert len(await helpers.take_answers(asked)) == 1
    kept = [one.id for one in await helpers.of(CHAT)]
    assert kept == [4, 5, 6, 7, 8], "the last few stay with their end"
    await office.passes(days=9)
    assert await helpers.of(CHAT) == ()


async def test_helpers_in_the_background_are_bounded_until_some_have_ended() -> None:
    office = Office()
    helpers = desk(office)
    asked = replace(message("go"), address=replace(message("go").address, channel="telegram", chat="1"))
    told = [(await helpers.start(asked, replace(ERRAND, name=f"e{n}"))).error for n in range(MOST_OPEN + 1)]
    assert told == [None] * MOST_OPEN + ["denied"]
    assert (await helpers.start(asked, replace(ERRAND, name="e0"))).error is None, "the same one again is that one"
    await office.passes(seconds=5)
    assert (await helpers.start(asked, replace(ERRAND, name="more"))).error is None


async def test_a_helper_in_the_background_may_do_no_more_than_those_who_spoke_where_it_was_asked_for() -> None:
    office = Office()
    helpers = desk(office)
    asked = replace(message("go"), address=replace(message("go").address, channel="telegram", chat="1"))
    await helpers.start(asked, replace(ERRAND, name="e2", role="user", granted=("files",)))
    refused = await helpers.start(asked, replace(ERRAND, name="e3", role="guest"))
    assert refused.error == "denied"
    office.reports.people[ADA] = Sender("1", role="owner", granted=("exec",))
    await office.passes(seconds=5)
    (served,) = office.asked
    assert (served.sender.role, served.sender.granted) == ("user", ())


async def test_what_a_tainted_helper_has_answered_is_told_as_content_from_outside() -> None:
    office = Office()
    helpers = desk(office)
    asked = replace(message("go"), address=replace(message("go").address, channel="telegram", chat="1"))
    await helpers.start(asked, replace(ERRAND, foreign=("page evil.test",)))
    await office.passes(seconds=5)
    (told,) = await helpers.take_answers(asked)
    assert told.untrusted
    assert unwrap(told.text.partition("\n\n")[2]) is not None
    assert list(foreign_in((told,), "owner")) == ["what a helper has answered"]


async def test_one_that_waits_is_taken_back_and_another_chat_does_not_see_it() -> None:
    office = Office()
    helpers = desk(office)
    asked = replace(message("go"), address=replace(message("go").address, channel="telegram", chat="1"))
    await helpers.start(asked, ERRAND)

    async def cancel(_: str) -> str:
        return "stopped."

    with pytest.raises(UsageError, match="This chat has no helper h1"):
        await helpers.shown("telegram:2", 1, cancel)
    assert await helpers.shown(CHAT, 1, cancel) == "Helper h1 is taken back before it began."
    await office.passes(seconds=5)
    assert office.asked == []
