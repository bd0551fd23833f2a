"""The schedule of gateways that share a database: one of them keeps it, and another where that one dies."""

from tests.cluster.fleet import ADA, Fleet
from tests.fakes.llm_server import Reply


async def test_U22_the_gateway_that_keeps_the_schedule_reads_heartbeat_of_its_home(ships: Fleet) -> None:
    telegram = ships.telegram
    ships.llm.after = Reply("The parcel has come.")
    ada = telegram.user("Ada", ADA)
    workspace = ships.home("first").home / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "HEARTBEAT.md").write_text("- [ ] every 2 hours: has the parcel come?\n", encoding="utf-8")
    gateway = await ships.run("all", "first")
    ada.say("/schedule")
    await telegram.shows(ADA, "has the parcel come?")
    ada.say("/schedule run all")
    await telegram.shows(ADA, "The parcel has come.")
    assert await gateway.stop() == 0


async def test_U22_of_two_gateways_one_serves_each_due_time_and_the_other_takes_over(ships: Fleet) -> None:
    ada, telegram = ships.telegram.user("Ada", ADA), ships.telegram
    ships.llm.after = Reply("Never said.", delay=600)
    first = await ships.run("all")
    await telegram.until(lambda: bool(telegram.sent("getUpdates")))
    ada.say("/schedule in 1 second stretch")
    await telegram.shows(ADA, "⏰ stretch")
    second = await ships.run("all")
    ada.say("/schedule do in 1 second: look around")
    await ships.llm.asked(1)
    ships.llm.after = Reply("All quiet.")
    await first.kill()
    await telegram.shows(ADA, "All quiet.")
    ada.say("/schedule")
    await telegram.shows(ADA, "answered")
    seen = telegram.visible(ADA)
    assert [sum(text in line for line in seen if "“" not in line) for text in ("⏰ stretch", "All quiet.")] == [1, 1]
    assert await second.stop() == 0
