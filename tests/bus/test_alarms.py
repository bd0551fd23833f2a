"""What keeps failing is told once: after three in a row, until it has been well again, across restarts."""

import asyncio
from collections.abc import Mapping

from nanobot.bus.alarms import IN_A_ROW, STORE, Alarm, Alarms, Trouble
from nanobot.errors import StoreError
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import MemoryDatabase
from nanobot.utils.translation import N_, Later, speaking
from tests.fakes.waiting import until

KEY = Trouble("model acme big auth", "The model big (acme)", "the key was refused", "Check providers.acme.apiKey.")
DOWN = Trouble("model acme big network", "The model big (acme)", "no route", "Check the network.")
BOUND = 120.0


class Owner:
    """Hears alarms while `there`; `refuses` that often with an error."""

    def __init__(self, *, there: bool = True) -> None:
        self.heard: list[Alarm] = []
        self.there = there
        self.refuses = 0
        self.asked = asyncio.Event()

    async def tell(self, alarm: Alarm) -> bool:
        self.asked.set()
        if self.refuses:
            self.refuses -= 1
            raise StoreError("the disk is full")
        if self.there:
            self.heard.append(alarm)
        return self.there

    async def until(self, count: int) -> None:
        await until(lambda: len(self.heard) >= count)


class Refusing(Ledger):
    """A ledger whose notes cannot be reached for the first `times`; counts the attempts."""

    def __init__(self, times: int) -> None:
        super().__init__(MemoryDatabase())
        self.times = times
        self.attempts = 0

    async def notes(self, prefix: str) -> Mapping[str, str]:
        self.attempts += 1
        if self.attempts <= self.times:
            raise StoreError("the disk is full")
        return await super().notes(prefix)


def alarms(owner: Owner, ledger: Ledger | None = None, retry: float = 0.02) -> Alarms:
    made = Alarms(retry=retry)
    made.through(owner.tell, ledger)
    return made


async def settled(made: Alarms) -> None:
    """Everything reported so far was counted: a row of another kind comes through behind it."""
    for _ in range(20):
        await asyncio.sleep(0)
    assert not made._reported


async def test_U71_three_failures_of_one_kind_are_told_once_with_cause_and_fix() -> None:
    owner = Owner()
    made = alarms(owner, Ledger(MemoryDatabase()))
    async with made.running():
        for _ in range(IN_A_ROW - 1):
            made.failed(KEY)
        made.failed(DOWN)
        await settled(made)
        assert owner.heard == []
        for _ in range(5):
            made.failed(KEY)
        await owner.until(1)
        await settled(made)
    assert len(owner.heard) == 1
    text = owner.heard[0].text
    assert "The model big (acme) failed" in text
    assert "times in a row" in text
    assert "the key was refused" in text
    assert "Check providers.acme.apiKey." in text


async def test_a_success_ends_the_row_and_a_new_row_is_told_again() -> None:
    owner = Owner()
    made = alarms(owner, Ledger(MemoryDatabase()))
    async with made.running():
        for _ in range(IN_A_ROW - 1):
            made.failed(KEY)
        made.well("model acme big")
        made.failed(KEY)
        await settled(made)
        assert owner.heard == []
        made.failed(KEY)
        made.failed(KEY)
        await owner.until(1)
        made.well("model acme big")
        for _ in range(IN_A_ROW):
            made.failed(KEY)
        await owner.until(2)
    assert owner.heard[0].key != owner.heard[1].key


async def test_a_restart_forgets_neither_the_count_nor_that_it_was_told() -> None:
    ledger, owner = Ledger(MemoryDatabase()), Owner()
    for _ in range(IN_A_ROW):  # each failure in a process of its own, as in a restart loop
        made = alarms(owner, ledger)
        async with made.running():
            made.failed(KEY)
            await settled(made)
    assert len(owner.heard) == 1
    for _ in range(4):
        made = alarms(owner, ledger)
        async with made.running():
            made.failed(KEY)
            await settled(made)
    assert len(owner.heard) == 1
    made = alarms(owner, ledger)
    async with made.running():
        made.well("model acme big")
        await settled(made)
    assert await ledger.notes("alarm:") == {}


async def test_what_cannot_be_told_now_is_told_later_under_the_same_key() -> None:
    ledger, owner = Ledger(MemoryDatabase()), Owner(there=False)
    made = alarms(owner, ledger)
    async with made.running():
        for _ in range(IN_A_ROW):
            made.failed(KEY)
        await asyncio.wait_for(owner.asked.wait(), BOUND)
    owner.there, owner.refuses = True, 2
    async with alarms(owner, ledger).running():
        await owner.until(1)
    assert [alarm.key for alarm in owner.heard] == [owner.heard[0].key]


async def test_a_store_that_is_out_of_reach_is_not_asked_again_at_once_and_nothing_is_lost() -> None:
    ledger, owner = Refusing(1_000), Owner()
    made = alarms(owner, ledger, retry=0.05)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    async with made.running():
        for _ in range(50):
            made.failed(KEY)
            await asyncio.sleep(0)
        ledger.times = ledger.attempts + 2
        await owner.until(1)
    assert ledger.times < ledger.attempts <= 2 + (loop.time() - begun) / 0.05
    assert "50 times" in owner.heard[0].text


async def test_of_a_store_that_keeps_no_note_the_owner_is_told_once_all_the_same() -> None:
    ledger, owner = Refusing(1_000_000), Owner()
    made = alarms(owner, ledger)
    async with made.running():
        for kind in (STORE, "model") * (IN_A_ROW + 1):
            made.failed(Trouble(kind, kind, "the disk is full", "Free some room."))
        await owner.until(1)
        ledger.times = ledger.attempts + 2
        await owner.until(2)
    assert [alarm.text.split()[0] for alarm in owner.heard] == [STORE, "model"]


async def test_of_several_processes_on_one_store_one_tells() -> None:
    ledger, owner = Ledger(MemoryDatabase()), Owner()
    first, second = alarms(owner, ledger), alarms(owner, ledger)
    async with first.running(), second.running():
        for made in (first, second):
            made.failed(KEY)
            await settled(made)
        for made in (first, second, first, second):
            made.failed(KEY)
            made.failed(KEY)
            await settled(made)
            await asyncio.sleep(0.01)
    assert len(owner.heard) == 1


async def test_no_secret_is_kept_or_told() -> None:
    ledger, owner = Ledger(MemoryDatabase()), Owner()
    made = alarms(owner, ledger)
    told = Trouble("model", "The model", "refused https://e.org/?key=sk-abcdefghijklmnopqrstuvwxyz0123456789", "Look.")
    async with made.running():
        for _ in range(IN_A_ROW):
            made.failed(told)
        await owner.until(1)
        await settled(made)
    assert "sk-abc" not in owner.heard[0].text
    assert "sk-abc" not in str(await ledger.notes(""))


async def test_successes_cost_nothing_where_nothing_has_failed() -> None:
    ledger, owner = Refusing(0), Owner()
    made = alarms(owner, ledger)
    async with made.running():
        made.well("model")
        await settled(made)
        for _ in range(1_000):
            made.well("model")
        assert not made._more.is_set()
    assert ledger.attempts == 1


async def test_an_alarm_is_in_the_language_of_who_is_told_whoever_has_caused_it() -> None:
    ledger, owner = Ledger(MemoryDatabase()), Owner()
    made = alarms(owner, ledger)
    with speaking("zh"):
        what = Later(N_("The model {model} ({service})"), model="big", service="x")
        key = Trouble("model big auth", what, "no", "Do.")
        for _ in range(IN_A_ROW):
            made.failed(key)
    async with made.running():
        await owner.until(1)
    assert owner.heard[0].text.startswith("The model big (x) failed 3 times in a row.")
    with speaking("zh"):
        assert owner.heard[0].text.startswith("模型 big（x）：已连续失败 3 次。")
