"""Watches as somebody reads them who knows Chinese alone."""

from datetime import UTC, datetime

import pytest

from nanobot.agent.work.watches import watches_of
from nanobot.bus.events import Address, InboundMessage, Sender
from nanobot.errors import UsageError
from nanobot.schedule.appointments import Appointments
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.watch import words
from nanobot.watch.compare import Difference, WatchChange
from nanobot.watch.items import NewsItem
from nanobot.watch.target import read_target
from tests.fakes.chinese import english_left

pytestmark = pytest.mark.usefixtures("chinese")

NOW = datetime(2026, 11, 22, 14, tzinfo=UTC)
CHAT, OWNER = Address("telegram", "42"), Sender("42", role="owner")
SAID = [
    *(
        " | https://shop.test/a every hour | https://shop.test/a every hour | search: 潮汐 | file: notes.md § 价格 | "
        "list | history | history 9 | pause 1 | resume 1 | run 1 | remove 1 | remove 9 | pause | what is this | "
        "search: 潮汐 § part | add"
    ).split(" | "),
    "x" * 1_100 + ".test",
]


async def test_everything_that_is_answered_about_watches_is_in_chinese() -> None:
    ledger = Ledger(MemoryDatabase())
    appointments = Appointments(JobStore(ledger), ledger, "UTC", clock=lambda: NOW)
    watches = watches_of(appointments, ledger.database)
    answers = []
    for said in SAID:
        try:
            answers.append(await watches.say(InboundMessage(CHAT, OWNER, said), said))
        except UsageError as error:
            answers.append(str(error))
    assert [left for answer in answers for left in english_left(answer, "what is this")] == []
    assert answers[1] == "开始监视 1：https://shop.test/a，每小时。有变化时我会告诉你。"


@pytest.mark.parametrize(
    "what", ["https://shop.test/a", "https://shop.test/a § price", "search: 潮汐", "file: a.md § 第一章"]
)
def test_what_a_watch_tells_of_a_change_is_in_chinese(what: str) -> None:
    target, items = read_target(what), [NewsItem("新", "https://shop.test/b", NOW)] * 20
    gone = tuple(Difference(f"旧 {number}", f"新 {number}", "") for number in range(30))
    told = [words.changed(target, WatchChange(gone, back), NOW) for back in (False, True)]
    told += [words.moved(target, "1 €", "2 €", NOW, back=back) for back in (False, True)]
    told += [words.listed(target, some, NOW) for some in (items, items[:1])]
    told += [words.troubled(target, "404", 3), words.recovered(target, NOW)]
    assert [left for one in told for left in english_left(one)] == []
    assert "2026-11-22 14:00" in told[0]
    assert "……还有 48 行" in told[0]
