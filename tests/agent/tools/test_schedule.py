"""The tool `schedule`: its own person's entries alone, with a receipt of what was set."""

from datetime import UTC, datetime

from msgspec.structs import replace

from nanobot.agent.tools.base import ToolContext
from nanobot.agent.tools.work.schedule import ScheduleTool
from nanobot.bus.events import Address, Sender
from nanobot.schedule.appointments import Appointments
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase

NOW = datetime(2026, 11, 22, 14, tzinfo=UTC)


def context(person: str = "1") -> ToolContext:
    return ToolContext(address=Address("telegram", person), sender=Sender(person), role="owner", direct=True)


def made() -> ScheduleTool:
    ledger = Ledger(MemoryDatabase())
    return ScheduleTool(Appointments(JobStore(ledger), ledger, "Europe/Berlin", clock=lambda: NOW))


async def test_U65_what_was_set_is_told_with_its_next_time_and_its_zone() -> None:
    tool = made()
    result = await tool.call({"when": "every weekday at 8", "text": "stand-up"}, context())
    assert result.receipt == "scheduled 1: “stand-up”, every weekday at 08:00; next 2026-11-23 08:00 Europe/Berlin"
    again = await tool.call({"cron": "every weekday at 8", "message": "stand-up", "action": "add"}, context())
    assert again.receipt == "scheduled already as 1: next 2026-11-23 08:00 Europe/Berlin"
    task = await tool.call({"when": "0 9 * * 1", "text": "look", "do": "task"}, context())
    assert "scheduled 2: “look”, every Monday at 09:00" in task.receipt
    assert "task: “look”" in (await tool.call({"do": "list"}, context())).text


async def test_what_runs_by_itself_sets_nothing_that_goes_on_by_itself() -> None:
    tool = made()
    alone = replace(context(), scheduled=True)
    for arguments in ({"when": "every weekday at 8"}, {"when": "tomorrow at 9", "do": "task"}):
        assert (await tool.call({**arguments, "text": "x"}, alone)).error == "denied"
    assert (await tool.call({"when": "tomorrow at 9", "text": "the dentist"}, alone)).receipt
    assert "x" not in (await tool.call({"do": "list"}, context())).text.partition("dentist")[0]


async def test_nobody_sees_or_changes_what_is_anothers() -> None:
    tool = made()
    user = ToolContext(address=Address("telegram", "2"), sender=Sender("2"), role="user", direct=True)
    await tool.call({"when": "tomorrow at 9", "text": "secret"}, context())
    assert "Nothing is scheduled." in (await tool.call({"do": "list"}, user)).text
    refused = await tool.call({"do": "remove", "id": 1}, user)
    assert (refused.error, "You have no job 1" in refused.text) == ("invalid_input", True)
    assert (await tool.call({"do": "remove", "id": 1}, context())).receipt == "removed job 1"
    assert (await tool.call({"do": "resume", "id": 1}, context())).error == "invalid_input"


async def test_a_time_that_is_not_understood_is_told_with_how_to_write_it() -> None:
    result = await made().call({"when": "whenever", "text": "x"}, context())
    assert result.error == "invalid_input"
    assert 'Write it such as "every weekday at 8"' in result.text
    assert (await made().call({"when": "tomorrow"}, context())).error == "invalid_input"


async def test_all_that_sets_or_changes_something_is_judged_as_an_appointment() -> None:
    tool = made()
    for arguments in ({"when": "hourly", "text": "x"}, {"do": "remove", "id": 1}, {"do": "resume", "id": 1}):
        assert [one.kind for one in tool.effects(arguments, context())] == ["appointment"]
    assert [one.kind for one in tool.effects({"do": "list"}, context())] == ["send"]
