"""One queue per chat: who goes first, how fast, and what a penalty does."""

import asyncio
import itertools
from datetime import timedelta

import httpx
import pytest
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    EndPointNotFound,
    Forbidden,
    InvalidToken,
    NetworkError,
    RetryAfter,
    TelegramError,
    TimedOut,
)

from nanobot.channels.telegram.send.errors import Trouble, classify, penalty_of
from nanobot.channels.telegram.send.pacing import CALLS_PER_SECOND, RESERVE, ChatQueue, ChatQueues, Urgency
from tests.fakes.clock import JumpingClock
from tests.tables import table


async def call(
    queue: ChatQueue, urgency: Urgency, log: list[tuple[str, float]], clock: JumpingClock, *, use: bool = True
) -> None:
    async with queue.permit(urgency) as permit:
        if use:
            permit.used()
            log.append((urgency, clock.now()))


def gaps(log: list[tuple[str, float]]) -> list[float]:
    return [round(later[1] - earlier[1], 2) for earlier, later in itertools.pairwise(log)]


async def test_what_a_person_waits_for_goes_before_what_only_shows_progress() -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queue = ChatQueues(clock).queue("7")
    async with asyncio.TaskGroup() as group, queue.permit("partial") as holder:
        holder.used()
        wanted: tuple[Urgency, ...] = ("typing", "partial", "status", "final", "command")
        for urgency in wanted:
            group.create_task(call(queue, urgency, log, clock))
        await asyncio.sleep(0)
    assert [urgency for urgency, _ in log] == ["command", "final", "status", "partial", "typing"]


@pytest.mark.parametrize(("chat", "expected"), [("7", [1.0, 1.0, 1.5, 1.5, 1.5]), ("-100", [3.5, 3.5, 3.5, 3.5, 3.5])])
async def test_messages_keep_the_pace_of_their_kind_of_chat(chat: str, expected: list[float]) -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queue = ChatQueues(clock).queue(chat)
    for _ in range(6):
        await call(queue, "partial", log, clock)
    assert gaps(log) == expected
    await clock.sleep(11)
    for _ in range(6):
        await call(queue, "partial", log, clock)
    assert gaps(log[6:]) == expected, "after a rest as at first"


async def test_a_permit_that_is_not_used_costs_nothing() -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queue = ChatQueues(clock).queue("7")
    for _ in range(30):
        await call(queue, "partial", log, clock, use=False)
    await call(queue, "partial", log, clock)
    assert log == [("partial", 100.0)]


async def test_after_a_penalty_nothing_goes_out_before_its_end_and_then_less_often() -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queues = ChatQueues(clock)
    queue = queues.queue("7")
    for _ in range(4):
        await call(queue, "partial", log, clock)
    queue.punish(300)
    await call(queues.queue("8"), "final", log, clock)
    assert log[-1] == ("final", log[-2][1]), "another chat does not wait"
    assert queue.penalty == pytest.approx(300.5)
    assert queue.interval == pytest.approx(1.5 * 1.7)
    began = clock.now()
    await call(queue, "typing", log, clock)
    assert clock.now() - began >= 300
    for _ in range(9):
        queue.punish(0)
    assert queue.interval == 8.0
    for _ in range(100):
        queue.succeeded()
    assert queue.interval <= 1.5


@table(
    "urgency objected processes seconds",
    ("partial", False, 0, 2.0),
    ("command", True, 1, 2.0),
    ("final", True, 1, 2.0),
    ("typing", False, 1, 4.0),
    ("partial", False, 5, 14.0),
    ("partial", False, 30, 74.0),
)
async def test_chats_keep_below_the_limit(urgency: Urgency, *, objected: bool, processes: int, seconds: float) -> None:
    """Answers too, once Telegram objected; of several processes each keeps to its part."""
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queues = ChatQueues(clock)
    queues.pace.share(processes)
    if objected:
        queues.queue("x").punish(1)
    for chat in range(3 * CALLS_PER_SECOND):
        await call(queues.queue(str(chat)), urgency, log, clock)
    times = [at for _, at in log]
    assert all(sum(start <= at < start + 1 for at in times) <= CALLS_PER_SECOND for start in times)
    assert clock.now() - 100 == pytest.approx(seconds)


async def test_many_chats_that_type_keep_their_pace_and_none_looks_more_than_once_in_a_second() -> None:
    class Counting(JumpingClock):
        waits = 0

        async def wait(self, event: asyncio.Event, seconds: float) -> None:
            self.waits += 1
            await super().wait(event, seconds)

    clock, log = Counting(100), list[tuple[str, float]]()
    queues = ChatQueues(clock)
    for chat in range(15):
        await call(queues.queue(str(chat)), "typing", log, clock)
        await clock.sleep(1 / 20)
    clock.waits = 0
    async with asyncio.TaskGroup() as group:
        for chat in range(15, 60):
            group.create_task(call(queues.queue(str(chat)), "typing", log, clock))
    times = [at for _, at in log]
    assert all(sum(start <= at < start + 1 for at in times) <= 15 for start in times)
    assert clock.waits == 45 + 30 + 15


async def test_after_a_rest_many_chats_are_answered_at_once_and_then_the_pace_holds() -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queues = ChatQueues(clock)
    for chat in range(RESERVE + 2 * CALLS_PER_SECOND):
        await call(queues.queue(str(chat)), "command" if chat % 2 else "final", log, clock)
    assert sum(at == 100.0 for _, at in log) == RESERVE
    assert clock.now() == 102.0
    queues.queue("x").punish(0)
    await call(queues.queue("y"), "partial", log, clock)
    await clock.sleep(61)  # what is left of a strict minute, and two seconds to fill
    rested = clock.now()
    for chat in range(60):
        await call(queues.queue(f"late {chat}"), "final", log, clock)
    assert sum(at == rested for _, at in log) == 50


async def test_nothing_goes_out_while_the_work_may_be_anothers_and_each_process_has_its_part_of_the_reserve() -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queues, closed = ChatQueues(clock), [True] * 3
    queues.pace.share(5)
    queues.pace.may_send = lambda: not (closed and closed.pop())
    for chat in range(60):
        await call(queues.queue(str(chat)), "final", log, clock)
    assert [at for _, at in log] == [101.5] * 50 + [102.5] * 5 + [103.5] * 5


async def test_a_cancelled_caller_leaves_the_queue_to_the_next() -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queue = ChatQueues(clock).queue("7")
    async with asyncio.TaskGroup() as group, queue.permit("partial"):
        waiting = group.create_task(call(queue, "command", log, clock))
        await asyncio.sleep(0)
        waiting.cancel()
        group.create_task(call(queue, "final", log, clock))
        await asyncio.sleep(0)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(call(queue, "command", log, clock))
        group.create_task(call(queue, "status", log, clock))
        await asyncio.sleep(0)  # the first of them waits for the pace of the chat
        waiting.cancel()
    assert [urgency for urgency, _ in log] == ["final", "status"]


@table("urgency gap", ("command", 0.33), ("final", 0.33), ("first", 0.33), ("status", 1.0), ("typing", 0.0))
async def test_what_a_person_waits_for_follows_sooner_and_typing_at_once(urgency: Urgency, gap: float) -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queue = ChatQueues(clock).queue("7")
    await call(queue, "partial", log, clock)
    await call(queue, urgency, log, clock)
    assert gaps(log) == [gap]


async def test_equals_go_in_the_order_in_which_they_came_also_before_who_asks_again_at_once() -> None:
    clock, log = JumpingClock(100), list[tuple[str, float]]()
    queue, order = ChatQueues(clock).queue("7"), list[str]()

    async def go(name: str, times: int = 1) -> None:
        for _ in range(times):
            await call(queue, "final", log, clock)
            order.append(name)

    async with asyncio.TaskGroup() as group, queue.permit("partial"):
        for name, times in (("eager", 2), ("second", 1), ("third", 1)):
            group.create_task(go(name, times))
        await asyncio.sleep(0)
    assert order == ["eager", "second", "third", "eager"]


async def test_the_queues_of_a_thousand_quiet_chats_go_and_a_penalty_stays() -> None:
    queues = ChatQueues(JumpingClock(100))
    queues.queue("7").punish(300)
    quiet, busy = queues.queue("8"), queues.queue("9")
    assert queues.queue("8") is quiet
    async with busy.permit("final"):
        for chat in range(100, 1_200):
            queues.queue(str(chat))
    assert queues.queue("9") is busy
    assert queues.queue("7").penalty > 300
    assert queues.queue("8") is not quiet


async def test_a_chat_that_moved_shares_the_queue_of_its_new_id() -> None:
    queues = ChatQueues(JumpingClock(100))
    queues.move("-1", "-1001")
    assert queues.queue("-1") is queues.queue("-1001")
    assert queues.now_at("-1") == "-1001"


def caused(error: TelegramError, cause: Exception) -> TelegramError:
    error.__cause__ = cause
    return error


@table(
    "error trouble",
    (caused(NetworkError("x"), httpx.ConnectError("x")), "not_sent"),
    (caused(TimedOut(), httpx.ConnectTimeout("x")), "not_sent"),
    (caused(TimedOut(), httpx.PoolTimeout("x")), "not_sent"),
    (caused(TimedOut(), httpx.ReadTimeout("x")), "maybe_sent"),
    (caused(NetworkError("x"), httpx.ReadError("x")), "maybe_sent"),
    (caused(NetworkError("x"), httpx.RemoteProtocolError("x")), "maybe_sent"),
    (caused(NetworkError("x"), httpx.ProxyError("x")), "not_sent"),
    (caused(NetworkError("x"), httpx.UnsupportedProtocol("x")), "not_sent"),
    (caused(NetworkError("x"), UnicodeEncodeError("utf-8", "x", 0, 1, "surrogates")), "refused"),
    (NetworkError("Request Entity Too Large"), "refused"),
    (Conflict("x"), "refused"),
    (NetworkError("Bad Gateway"), "maybe_sent"),
    (TimeoutError(), "maybe_sent"),
    (RetryAfter(7), "flood"),
    (BadRequest("Message is not modified: specified new message content is the same"), "same"),
    (BadRequest("Message_not_modified"), "same"),
    (BadRequest("Can't parse entities: unexpected end"), "format"),
    (BadRequest("Wrong http url"), "format"),
    (BadRequest("Unsupported url protocol"), "format"),
    (BadRequest("Entity_bounds_invalid"), "format"),
    (BadRequest("Message to edit not found"), "lost_target"),
    (BadRequest("Message_id_invalid"), "lost_target"),
    (BadRequest("Message can't be edited"), "lost_target"),
    (BadRequest("Message to delete not found"), "lost_target"),
    (BadRequest("Message to be replied not found"), "lost_reply"),
    (BadRequest("Replied message not found"), "lost_reply"),
    (BadRequest("Reply_message_id_invalid"), "lost_reply"),
    (BadRequest("Message thread not found"), "lost_thread"),
    (BadRequest("TOPIC_CLOSED"), "lost_thread"),
    (BadRequest("TOPIC_DELETED"), "lost_thread"),
    (BadRequest("Message is too long"), "too_long"),
    (BadRequest("Text is too long"), "too_long"),
    (BadRequest("MESSAGE_TOO_LONG"), "too_long"),
    (BadRequest("Chat not found"), "dead_chat"),
    (BadRequest("Not enough rights to send text messages to the chat"), "no_rights"),
    (BadRequest("Have no rights to send a message"), "no_rights"),
    (BadRequest("CHAT_RESTRICTED"), "no_rights"),
    (BadRequest("CHAT_ADMIN_REQUIRED"), "no_rights"),
    (Forbidden("CHAT_WRITE_FORBIDDEN"), "no_rights"),
    (Forbidden("CHAT_SEND_PLAIN_FORBIDDEN"), "no_rights"),
    (BadRequest("Something new"), "refused"),
    (Forbidden("bot was blocked by the user"), "dead_chat"),
    (ChatMigrated(-1001), "moved"),
    (InvalidToken("x"), "token"),
    (EndPointNotFound("x"), "token"),
)
def test_every_error_has_one_meaning(error: TelegramError | TimeoutError, trouble: Trouble) -> None:
    assert classify(error) == trouble


def test_a_penalty_is_read_in_seconds() -> None:
    assert penalty_of(RetryAfter(300)) == penalty_of(RetryAfter(timedelta(minutes=5))) == 300.0
