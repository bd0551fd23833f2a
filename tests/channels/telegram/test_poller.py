"""Fetching updates: nothing lost, nobody hammered, and the reason said aloud."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import pytest

from nanobot.channels.telegram.bot import POLL_SECONDS, TelegramLine
from nanobot.channels.telegram.receive.poller import (
    ILL_SECONDS,
    IN_USE,
    MOST_SECONDS,
    RENEWED_AFTER,
    UNREACHED,
    Health,
    Poller,
    Update,
    reached,
)
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.errors import ChannelError, StoreError
from tests.fakes.http_server import Request, Responder
from tests.fakes.telegram_server import TOKEN, Fault, TelegramServer, User, black_hole, drop_before, refuse, too_many


@pytest.fixture
async def server() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as made:
        yield made


@pytest.fixture
def ada(server: TelegramServer) -> User:
    return server.user("Ada")


ELSEWHERE = "Conflict: terminated by other getUpdates request"


class Renewed(TelegramLine):
    """A client that counts how often it is made anew."""

    renewed = 0

    async def renew(self) -> None:
        self.renewed += 1
        await super().renew()


@dataclass
class Rig:
    """A poller against the server, with a clock that moves only when the poller waits."""

    server: TelegramServer
    hold: int = 1
    now: float = 0.0
    waits: list[float] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    broken_disk: int = 0
    keeps_name: bool = False
    on_wait: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        settings = TelegramSettings(TOKEN, base_url=f"{self.server.url}/bot")
        self.line = TelegramLine(settings)
        self.client = Renewed(settings)
        self.client.hold = self.hold
        self.health = Health(clock=lambda: self.now)
        self.poller = Poller(self.client, self.accept, self.health, begin=self.begin, sleep=self.sleep)

    async def begin(self) -> None:
        await reached(self.identify, self.health, UNREACHED, self.sleep)

    async def identify(self) -> None:
        await self.line.identify()
        if self.keeps_name:
            self.keep()

    def keep(self) -> None:
        if self.broken_disk:
            self.broken_disk -= 1
            raise StoreError("no space left")

    async def accept(self, updates: list[Update]) -> None:
        self.keep()
        for update in updates:
            number = update["update_id"]
            assert isinstance(number, int)
            self.taken.append(number)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        self.on_wait()
        await asyncio.sleep(0)

    async def aclose(self) -> None:
        await self.client.aclose()
        await self.line.aclose()


@contextlib.asynccontextmanager
async def polling(rig: Rig) -> AsyncIterator[Rig]:
    task = asyncio.create_task(rig.poller.run())
    try:
        yield rig
    finally:
        task.cancel()
        await asyncio.wait({task})
        await rig.aclose()


async def test_an_update_is_confirmed_only_after_it_was_kept(server: TelegramServer, ada: User) -> None:
    rig = Rig(server, broken_disk=2)
    ada.say("one")
    async with polling(rig):
        await server.until(lambda: server.confirmed == [500])
        assert rig.taken == [500]
        assert len(rig.waits) == 2, "a full disk is tried again after a pause"
        await ada.asks("two", lambda: server.confirmed == [500, 501])
    offsets = [call.params.get("offset") for call in server.sent("getUpdates")]
    assert offsets[:3] == [None, None, None], "nothing was confirmed while the disk refused"
    assert not any("drop_pending_updates" in call.params for call in server.calls)


async def test_what_is_waited_for_is_said_once_for_each_cause_and_its_end(server: TelegramServer) -> None:
    ada, told = server.user("Ada"), list[str]()
    rig = Rig(server)
    rig.health.say, rig.health.address = told.append, "https://api.example"
    server.fail("getUpdates", *[drop_before()] * 40, *[refuse(409, ELSEWHERE)] * 20, *[too_many(9), too_many(7)])
    ada.say("there?")
    async with polling(rig):
        await server.until(lambda: server.confirmed == [500])
    assert all(line.startswith("https://api.example: ") for line in told)
    causes = ("Telegram cannot be reached", IN_USE, "Telegram asks us to wait 9 s", "messages arrive again.")
    assert [cause in line for cause, line in zip(causes, told, strict=True)] == [True] * 4, told
    assert re.search(r"Next try in \d+ s\.$", told[0])


async def test_a_thousand_broken_connections_make_no_conflict_and_lose_nothing() -> None:
    async with TelegramServer() as server:
        ada = server.user("Ada")
        rig = Rig(server)
        server.fail("getUpdates", *[drop_before()] * 1000)
        sent = [ada.say(f"message {number}")["update_id"] for number in range(50)]
        async with polling(rig):
            await server.until(lambda: len(server.confirmed) == 50)
        assert rig.taken == sent
        assert server.conflicts == 0
        assert rig.client.renewed == 1000 // RENEWED_AFTER
        assert all(0.5 <= wait <= 30 for wait in rig.waits)


async def test_ten_minutes_without_a_network_are_told_and_end_with_a_fresh_client() -> None:
    async with TelegramServer() as server:
        ada = server.user("Ada")
        rig = Rig(server)
        well: list[bool] = []
        seen: list[str] = []

        def outage() -> None:
            seen.append(rig.health.line())
            well.append(rig.health.well)
            if rig.now < 600:
                server.fail("getUpdates", drop_before())

        rig.on_wait = outage
        async with polling(rig):
            await server.until(lambda: rig.health.polls > 0)
            server.fail("getUpdates", drop_before())
            await server.until(lambda: rig.now >= 600)
            await ada.asks("are you there?", lambda: len(server.confirmed) == 1)
        assert "cannot be reached" in seen[-1]
        assert re.search(r"last poll (9|10) min \d+ s ago", " ".join(seen))
        assert not well[-1]
        assert rig.health.well
        assert rig.client.renewed > 0
        assert len(rig.waits) < 60, "no hammering"


async def test_a_server_that_accepts_and_never_answers_is_left_for_a_new_connection() -> None:
    async with TelegramServer() as server:
        ada = server.user("Ada")
        rig = Rig(server)
        rig.poller.deadline = 0.3
        server.fail("getUpdates", *[black_hole()] * 4)
        ada.say("hello")
        async with polling(rig):
            await server.until(lambda: len(server.confirmed) == 1)
        assert rig.taken == [500]
        assert rig.client.renewed == 1
        assert POLL_SECONDS + max(rig.waits) < 120
        assert POLL_SECONDS < ILL_SECONDS


#: What Telegram answers to polls, and the least and the most that is waited after each, in seconds.
WAITS = [
    ([drop_before()] * 9, [(most / 2, most) for most in (1, 2, 4, 8, 16, 30, 30, 30, 30)]),
    ([too_many(17)], [(17, 17)]),
    ([refuse(409, ELSEWHERE)] * 3, [(most / 2, most) for most in (1, 2, 4)]),
]


@pytest.mark.parametrize(("faults", "bounds"), WAITS)
async def test_waits_grow_with_each_failure_to_a_bound_and_a_wait_that_telegram_asks_for_is_kept(
    server: TelegramServer, faults: list[Fault], bounds: list[tuple[float, float]]
) -> None:
    rig, lines = Rig(server), list[str]()
    rig.on_wait = lambda: lines.append(rig.health.line())
    server.fail("getUpdates", *faults)
    async with polling(rig):
        await server.until(lambda: rig.health.polls > 1)
    assert all(least <= wait <= most for wait, (least, most) in zip(rig.waits, bounds, strict=True))
    assert all((IN_USE in line) == (faults[0].status == 409) for line in lines)
    assert IN_USE not in rig.health.line()


#: What another program may answer in the place of Telegram, or Telegram in a form of its own.
STRANGE = [
    (429, b'{"ok": false, "description": "Too many", "parameters": {"retry_after": %s}}' % wait)
    for wait in (b"0", b"-5", b"0.001", b'"7"', b"[1]", b"1e300", b"Infinity", b"99999999")
] + [
    (400, b'{"ok": false, "description": 5, "parameters": [1]}'),
    *((status, body) for status in (200, 502) for body in (b"null", b"[]", b'"no"', b"{}", b"<html>", b"[" * 9999)),
    (200, b'{"ok": false, "description": "no"}'),
    (200, b'{"ok": true}'),
    (200, b'{"ok": true, "result": {}}'),
    (200, b'{"ok": true, "result": [1, null]}'),
    *((status, body) for status in (401, 403, 404, 409) for body in (b"<html>" * 999, b'{"message": "no route"}')),
]


async def test_an_answer_that_is_none_of_telegrams_is_asked_for_again_ever_less_often() -> None:
    nameless = [(200, b'{"ok": true, "result": %s}' % result) for result in (b"null", b'"no"', b'{"username": 5}')]
    left = {"getme": [*STRANGE, *nameless], "getupdates": [*STRANGE]}

    async def serve(request: Request, respond: Responder) -> None:
        if answers := left.get(request.path.rpartition("/")[2].lower()):
            status, body = answers.pop()
            await respond.send(status, body)
        else:
            await telegram._serve(request, respond)

    async with TelegramServer() as telegram:
        telegram.server.handler = serve
        rig, lines = Rig(telegram), list[str]()
        rig.on_wait = lambda: lines.append(rig.health.line())
        async with polling(rig):
            await telegram.until(lambda: rig.health.polls > 0)
    assert max(map(len, lines)) < 200, "nobody is shown the page of another program"
    assert not any(IN_USE in line for line in lines)
    assert len(rig.waits) == len(STRANGE) * 2 + len(nameless)
    for waits in (rig.waits[: len(STRANGE)], rig.waits[-len(STRANGE) :]):
        assert min(waits[5:]) >= MOST_SECONDS / 2


async def test_the_newer_of_two_pollers_goes_on_while_the_older_backs_off(server: TelegramServer, ada: User) -> None:
    gate = asyncio.Event()
    older, newer = Rig(server, hold=20), Rig(server, hold=20)
    older.on_wait = gate.set
    async with polling(older):
        await server.until(lambda: len(server.sent("getUpdates")) == 1)
        older.waits.clear()
        async with polling(newer):
            await asyncio.wait_for(gate.wait(), 120)
            await ada.asks("for one of you", lambda: 500 in server.confirmed)
    assert len(older.taken) + len(newer.taken) >= 1


async def test_a_webhook_that_somebody_set_is_removed_without_dropping_what_waits(server: TelegramServer) -> None:
    rig = Rig(server)
    words = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook first"
    server.fail("getUpdates", refuse(409, words))
    async with polling(rig):
        await server.until(lambda: rig.health.polls > 1)
    (call,) = server.sent("deleteWebhook")
    assert call.params.get("drop_pending_updates") in {None, False, "false"}


async def test_a_disk_that_does_not_keep_the_bots_name_is_tried_again(server: TelegramServer) -> None:
    ada, rig = server.user("Ada"), Rig(server, broken_disk=2, keeps_name=True)
    ada.say("one")
    async with polling(rig):
        await server.until(lambda: server.confirmed == [500])
        assert len(rig.waits) == 2
        assert rig.taken == [500]


@pytest.mark.parametrize("polls", [0, 2])
async def test_a_token_that_is_refused_at_once_or_later_ends_the_poller_with_what_to_do(polls: int) -> None:
    async with TelegramServer() as server:
        rig = Rig(server)
        task = asyncio.create_task(rig.poller.run())
        await server.until(lambda: rig.health.polls >= polls)
        server.token = "999999:the-owner-has-asked-for-a-new-one-0000"
        with pytest.raises(ChannelError, match=r"revoked.*@BotFather.*channels\.telegram\.token"):
            await asyncio.wait_for(task, 120)
        assert TOKEN not in rig.health.line()
        assert rig.health.state == "stopped"
        await rig.aclose()
