"""What must arrive arrives once, whatever Telegram and the network do with it."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Collection
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.bus.alarms import Alarm
from nanobot.bus.events import Address, InboundMessage, Sender, TurnFinished
from nanobot.channels.telegram.bot import PLACES
from nanobot.channels.telegram.read.incoming import arrivals_of
from nanobot.channels.telegram.render.answer import MOST_PARTS, OutgoingMessage, answer_messages, outgoing_of
from nanobot.channels.telegram.render.markdown import render
from nanobot.channels.telegram.render.screen_messages import REPEAT, ScreenMessage
from nanobot.channels.telegram.send.outbox import TelegramOutbox
from nanobot.channels.telegram.show.status import Look
from nanobot.errors import StoreError
from nanobot.messages import Media, TextDelta
from nanobot.results import Source
from nanobot.session.ledger import Ledger
from nanobot.session.rows import OutboxItem, OutboxRow
from nanobot.session.sqlite import MemoryDatabase, SqliteDatabase
from nanobot.utils.translation import heard
from tests.channels.telegram.scenarios import CHANNEL, Stage, Turn, lives, stage
from tests.fakes.ledger import states
from tests.fakes.logs import log_lines
from tests.fakes.telegram_server import Fault, apply_then_drop, bad_gateway, black_hole, drop_before, refuse, too_many
from tests.tables import table

DONE = TurnFinished("completed", "The **answer**.", seconds=2)
PLAIN = Look("off", "off")


@pytest.fixture
async def at() -> AsyncIterator[Stage]:
    async with stage(PLAIN) as made:
        yield made


async def test_an_answer_is_sent_once_and_noted_with_its_message(at: Stage, turn: Turn) -> None:
    await turn.end(DONE)
    await turn.finish(DONE)  # the same key again
    await at.settled()
    await at.quiet(3)
    assert at.seen == ["bot: The answer."]
    assert await states(at.ledger, "outbox", CHANNEL) == {"sent": 1}
    assert at.server.sent("sendMessage")[0].params["link_preview_options"] == {"is_disabled": True}
    assert not at.outbox.sending.slots.shown("in-1"), "what is over is forgotten"


async def test_what_is_shown_of_a_turn_changes_no_more_once_its_final_text_exists() -> None:
    async with stage() as at:
        turn = await at.begin()
        await turn.play(TextDelta("So far. " * 20))
        await at.until("So far.")
        at.outbox.compose(turn.message, DONE)
        await turn.play(TextDelta("And more. " * 20))
        await at.quiet(30)
        assert not any("And more." in line for line in at.seen)


async def test_the_reply_to_a_command_goes_before_answers_that_wait_for_the_same_chat(at: Stage) -> None:
    asked = (InboundMessage(at.address, Sender("7"), text, id=f"in-{text}") for text in ("one", "two", "/status"))
    finished = (TurnFinished("completed", text) for text in ("First.", "Second.", "All is well."))
    for message, end in zip(asked, finished, strict=True):
        await at.ledger.put(at.outbox.compose(message, end))
    await at.ledger.put(at.outbox.compose_text(at.address, "line", "A word of the channel."))
    at.outbox.wake()
    await at.settled()
    assert at.seen == ["bot: All is well.", "bot: A word of the channel.", "bot: First.", "bot: Second."]


@pytest.mark.parametrize("look", [PLAIN, Look("off", "edit")], ids=["whole", "begun"])
async def test_a_message_that_certainly_did_not_go_out_is_sent_again_without_a_mark(look: Look) -> None:
    async with stage(look) as at:
        turn = await at.begin()
        at.server.fail("sendMessage", too_many(2), too_many(1))
        await turn.play(TextDelta("The answer, as far as it is known. " * 3))
        await at.quiet(3)
        await turn.end(DONE)
        assert at.seen == ["bot: The answer."]
        assert at.queues.queue("7").interval == pytest.approx(1.5 * 1.7**2 * 0.95), "slower, and recovering"


@pytest.mark.parametrize("fault", [apply_then_drop(), drop_before(), bad_gateway()])
async def test_a_message_that_may_have_arrived_is_repeated_with_a_mark(at: Stage, turn: Turn, fault: Fault) -> None:
    at.server.fail("sendMessage", fault)
    at.server.failing("getMe", drop_before())
    await turn.finish(DONE)
    await at.quiet(60)
    assert len(at.server.sent("sendMessage")) == 1, "nothing is repeated on a network that is down"
    at.server.failing("getMe", None)
    await at.until("↻ The answer.")
    await at.settled()
    assert at.seen.count("bot: The answer.") <= 1
    assert at.seen.count("bot: ↻ The answer.") == 1
    entity = at.server.chats[7][-1].entities[0]
    assert (entity["type"], entity["offset"], entity["length"]) == ("bold", 6, 6)


@pytest.mark.parametrize(
    "fault",
    [refuse(500, "Internal Server Error"), bad_gateway(), Fault("status", apply=True), Fault("html", True, 200)],
)
async def test_answers_of_ten_bad_minutes_are_all_there_afterwards_in_order(at: Stage, fault: Fault) -> None:
    at.server.failing("sendMessage", fault)
    for number in range(3):
        await (await at.begin()).finish(TurnFinished("completed", f"Answer {number}."))
    await at.quiet(600)
    assert len(at.server.sent("sendMessage")) <= 12, "a chat is not flooded with repeats"
    at.server.failing("sendMessage", None)
    mended = at.clock.now()
    await (await at.begin()).finish(DONE)
    await at.until("The answer.")
    assert at.clock.now() - mended < 5, "what is new in the chat does not wait for the next try, minutes away"
    await at.settled()
    answers = [line.removeprefix("bot: ").removeprefix(REPEAT) for line in at.seen]
    assert list(dict.fromkeys(answers)) == ["Answer 0.", "Answer 1.", "Answer 2.", "The answer."]
    assert all(at.seen.count(f"bot: {answer}") <= 1 for answer in answers), "a repeat without a mark"
    assert f"bot: {REPEAT}Answer 0." in at.seen


@table(
    "fault method pauses",
    (refuse(401, "Unauthorized"), "sendMessage", [1, 2, 4, 8, 16, 32, 60, 60, 60]),
    (bad_gateway(), "sendMessage", [2.5, 6.25, 15.625, 39.0625, 97.65625, 244.140625, 610.3515625]),
    (bad_gateway(), "editMessageText", [1, 2, 4, 8, 16, 32, 60, 60, 60]),
    ids=["not sent", "may be there", "may be edited twice"],
)
async def test_a_message_is_tried_ever_less_often_and_no_other_of_its_chat_before_it(
    at: Stage, fault: Fault, method: str, pauses: list[float]
) -> None:
    at.server.failing(method, fault)
    if method == "editMessageText":
        await at.ledger.draft(OutboxItem("in-1", 0, CHANNEL, "7", ""))
        await at.ledger.bind(1, "5")
    for text in ("The first.", "The second."):
        await (await at.begin()).finish(TurnFinished("completed", text))
    await at.quiet(sum(pauses) + 2 * len(pauses))
    calls = at.server.sent(method)
    assert not any("second" in str(call.params["text"]) for call in calls)
    gaps = [later.at - earlier.at for earlier, later in itertools.pairwise(calls)]
    assert len(gaps) == len(pauses)
    assert all(pause <= gap < pause + 1 for gap, pause in zip(gaps, pauses, strict=True)), gaps


@pytest.mark.parametrize("fault", [refuse(401, "Unauthorized"), bad_gateway()], ids=["not sent", "may be there"])
async def test_a_clock_that_is_put_back_holds_no_message_up(at: Stage, fault: Fault) -> None:
    at.server.failing("sendMessage", fault)
    await (await at.begin()).finish(DONE)
    await at.quiet(33)
    at.server.failing("sendMessage", None)
    at.clock.ahead -= timedelta(hours=3)
    begun = at.clock.now()
    await at.until("The answer.")
    assert at.clock.now() - begun < 35, "neither hours later nor at its old time"


async def test_what_is_new_in_a_chat_does_not_wait_for_what_an_earlier_life_of_the_program_has_to_repeat() -> None:
    async with lives() as life:
        async with life.begin(PLAIN) as at:
            at.server.failing("sendMessage", bad_gateway())
            await (await at.begin()).finish(DONE)
            await at.quiet(600)
            at.server.failing("sendMessage", None)
        async with life.begin(PLAIN) as at:
            begun = at.clock.now()
            new = OutgoingMessage("text", ScreenMessage("Something new."), last=True).to_json()
            await at.outbox.put((OutboxItem("watch-7", 0, CHANNEL, "7", new),))
            await at.until("Something new.")
            assert at.clock.now() - begun < 5
            assert at.seen == [f"bot: {REPEAT}The answer.", "bot: Something new."]


async def test_what_is_said_in_other_chats_is_no_try_of_a_message_that_waits(at: Stage) -> None:
    at.server.user("Bob", 8)
    at.server.fail("sendMessage", drop_before(), drop_before())
    await (await at.begin()).finish(DONE)
    await at.quiet(4)
    for number in range(7):
        await at.outbox.say(Address(CHANNEL, "8"), f"word {number}", f"line-{number}")
        await at.quiet(0.1)
    assert [row.attempts for row in await at.ledger.pending(CHANNEL)][:1] == [2]


async def test_a_stop_waits_for_what_is_due_and_no_longer_than_it_was_told(at: Stage) -> None:
    await at.outbox.say(at.address, "on its way", "line-1")
    await at.outbox.drain(60)
    assert at.seen == ["bot: on its way"]
    at.queues.queue("8").punish(300)
    await at.outbox.say(Address("telegram", "8"), "in five minutes", "line-3")
    await at.outbox.drain(60)
    assert at.clock.now() < 200
    at.server.fail("sendMessage", refuse(401, "Unauthorized"))
    at.server.failing("sendMessage", black_hole())
    await at.outbox.say(at.address, "never", "line-2")
    await at.server.until(lambda: len(at.server.sent("sendMessage")) == 3)
    stop = asyncio.create_task(at.outbox.drain(60))
    await at.quiet(3)
    assert stop.cancel(), "what is being sent may still arrive"
    await at.outbox.drain(0.2)
    at.clock.ahead -= timedelta(hours=3)
    await at.quiet(3)
    assert await states(at.ledger, "outbox", CHANNEL) == {"sent": 1, "new": 1, "sending": 1}
    assert len(at.seen) == 1


class Refusing(Ledger):
    """A ledger whose outbox cannot be read for a moment."""

    refused = False

    async def due(self, channel: str, *, without: Collection[str] = (), limit: int = 50) -> tuple[OutboxRow, ...]:
        if not self.refused:
            self.refused = True
            raise StoreError("The disk is full.")
        return await super().due(channel, without=without, limit=limit)


class Taken(Ledger):
    """A ledger whose rows are all being sent by another worker."""

    async def begin(self, seq: int) -> bool:
        return False


async def test_what_another_worker_sends_is_not_sent_here() -> None:
    async with stage(PLAIN, ledger=Taken(MemoryDatabase())) as at:
        await at.outbox.say(at.address, "hello", "line-1")
        await at.quiet(5)
        assert not at.seen


async def test_a_message_that_breaks_the_program_is_given_up_and_takes_no_other_with_it() -> None:
    item = OutgoingMessage("text", ScreenMessage("hello"), last=True).to_json()
    async with stage(PLAIN, ledger=Refusing(MemoryDatabase())) as at:
        with log_lines() as lines:
            await at.outbox.put((OutboxItem("in-1", 0, CHANNEL, "7", item, "no thread"),))
            await at.settled()
        assert [line[:28] for line in lines][:3] == [
            "the outbox cannot be read an",
            "message 1 cannot be sent\nTra",
            "message 1 for chat 7 is give",
        ]
        await at.outbox.say(at.address, "And on it goes.", "line-1")
        await at.settled()
        assert at.seen[-1] == "bot: And on it goes."
        assert await states(at.ledger, "outbox", CHANNEL) == {"failed": 2, "sent": 1}, "the word about it too"


async def test_the_end_of_a_command_that_said_all_it_had_to_say_is_no_message(at: Stage) -> None:
    said, nothing = TurnFinished("completed", ""), ("The model gave no answer. Ask again.",)
    command = InboundMessage(at.address, Sender("7"), "/stop", id="in-1")
    for message, finished, told in (
        (command, said, ()),
        (replace(command, content="stop"), said, ()),
        (command, TurnFinished("failed", "", error="It is late."), ("⚠️ It is late.",)),
        (replace(command, content="hello"), said, nothing),
        (
            replace(command, content="stop", media=(Media("/nowhere/a.png", "image/png", "a.png", 10),)),
            said,
            nothing,
        ),
        (replace(command, content="stop", context="what it answers"), said, nothing),
    ):
        items = at.outbox.compose(message, finished)
        assert tuple(outgoing_of(item.payload).screen.text for item in items) == told


async def test_a_crowd_of_chats_waits_for_places_of_which_a_network_that_hangs_takes_no_more(at: Stage) -> None:
    at.server.failing("sendMessage", black_hole())
    outbox = at.outbox
    lines = (outbox.compose_text(Address("telegram", str(chat)), f"t{chat}", "hello") for chat in range(1, 41))
    await at.ledger.put(tuple(itertools.chain(*lines)))
    outbox.wake()
    await at.server.until(lambda: len(at.server.sent("sendMessage")) >= PLACES)
    await at.quiet(5)
    assert len(at.server.sent("sendMessage")) == PLACES


async def test_a_call_that_waits_to_leave_stops_where_the_work_has_become_anothers(at: Stage) -> None:
    alive, calls, place = [True], at.outbox.sending.calls, at.address
    at.queues.pace.may_send = lambda: alive[0]

    async def stand_still() -> None:
        alive[0] = False

    assert await calls.show(place, ScreenMessage("late"), before=stand_still) == "not_sent"
    assert await calls.show(place, ScreenMessage("late"), 5) == "not_sent", "neither does an edit"
    assert not at.server.calls
    alive[0] = True
    assert isinstance(await calls.show(place, ScreenMessage("in time")), int)
    assert at.seen == ["bot: in time"]
    assert await calls.show(place, ScreenMessage("half a character: \ud83d")) == "refused"


async def test_one_call_sends_what_is_new_keeps_what_stands_there_and_says_what_it_cannot_mend(at: Stage) -> None:
    calls, place = at.outbox.sending.calls, at.address
    number = await calls.show(replace(place, thread="1"), ScreenMessage("new"))
    assert number == at.server.chats[7][-1].id
    (sent,) = at.server.calls
    assert not {"message_thread_id", "reply_parameters"} & sent.params.keys(), "the general topic wants no thread"
    assert await calls.show(place, ScreenMessage("new"), number) == number, "it says so already"
    anew = await calls.show(place, ScreenMessage("anew"), 999)
    assert (anew, at.seen) == (at.server.chats[7][-1].id, ["bot: new", "bot: anew"])
    at.server.fail("sendMessage", Fault("html", status=403))
    assert await calls.show(place, ScreenMessage("soon")) == "maybe_sent", "a page on the way is no blocked chat"
    at.server.failing("sendMessage", refuse(400, "Bad Request: message thread not found"))
    assert await calls.show(place, ScreenMessage("never")) == "lost_thread"
    assert len(at.server.sent("sendMessage")) == 4, "no other topic is left to try"


async def test_what_cannot_be_delivered_for_a_day_is_given_up_and_said_in_the_chat() -> None:
    async with stage(PLAIN, step=300) as at:
        at.server.failing("sendMessage", apply_then_drop())
        await (await at.begin()).finish(DONE)
        await at.until("dropped: Telegram did not take it for 24 hours")
        assert 86_400 <= at.clock.now() < 88_200
        assert (await states(at.ledger, "outbox", CHANNEL))["failed"] == 1
        answers = [line for line in at.seen if "answer." in line]
        assert set(answers) == {"bot: The answer.", "bot: ↻ The answer."}
        assert len(answers) <= 13, "ever less often"


@pytest.mark.parametrize("fault", [refuse(401, "Unauthorized"), too_many(600)], ids=["token", "flood"])
async def test_what_certainly_did_not_go_out_for_a_day_is_given_up_as_well(fault: Fault) -> None:
    async with stage(PLAIN, step=300) as at:
        at.server.failing("sendMessage", fault)
        await (await at.begin()).finish(DONE)
        await at.quiet(86_400 - 900)
        assert "failed" not in await states(at.ledger, "outbox", CHANNEL)
        await at.quiet(1800)
        assert (await states(at.ledger, "outbox", CHANNEL))["failed"] == 1


async def test_a_message_that_slept_with_its_machine_for_a_day_is_tried_more_than_ten_times() -> None:
    async with stage(PLAIN, step=60) as at:
        for tries in (10, 11):
            at.server.fail("sendMessage", *[refuse(401, "Unauthorized")] * tries)
            await (await at.begin()).finish(TurnFinished("completed", f"Try {tries}."))
            at.clock.ahead += timedelta(hours=25)
            await at.settled()
        assert [line[:15] for line in at.seen] == ["bot: Try 10.", "bot: A message "]


async def test_an_answer_points_to_what_it_answers_where_that_is_wanted_until_telegram_knows_it_no_more() -> None:
    text = "\n".join(f"line {number}" for number in range(600))
    async with stage(PLAIN) as at:
        replying = TelegramOutbox(at.outbox.sending, replies=True, alarms=at.alarms)
        one, two, three = (InboundMessage(at.address, Sender("7"), "hello", id=f"in-{number}") for number in range(3))
        end = TurnFinished("completed", text)
        for items in (replying.compose(one, end, 12), at.outbox.compose(two, end, 12), replying.compose(three, end)):
            await at.ledger.put(items)
        at.server.fail("sendMessage", refuse(400, "Bad Request: message to be replied not found"))
        at.outbox.wake()
        await at.settled()
        pointed = [str(call.params.get("reply_parameters", "")) for call in at.server.sent("sendMessage")]
        assert "12" in pointed[0]
        assert pointed[1:] == [""] * 6
        assert [line[:9] for line in at.seen] == ["bot: line"] * 6


async def test_a_shown_beginning_stays_where_telegram_refuses_the_answer_as_an_edit_and_anew() -> None:
    async with stage(Look("off", "edit")) as at:
        turn = await at.begin()
        await turn.play(TextDelta("The answer, as far as it is known. " * 3), until="as far as")
        at.server.failing("editMessageText", refuse(400, "Bad Request: STRANGE_THING_INVALID"))
        at.server.fail("sendMessage", refuse(400, "Bad Request: STRANGE_THING_INVALID"))
        await turn.end(DONE)
        assert "as far as it is known" in at.seen[0]
        assert "could not be delivered and is dropped: Telegram refused it" in at.seen[1]


async def test_what_telegram_refuses_is_said_in_the_chat_in_its_language() -> None:
    async with stage(PLAIN, group=-77) as at:
        heard("zh", at.address.key)
        at.server.fail("sendMessage", refuse(400, "Bad Request: STRANGE_THING_INVALID"))
        await (await at.begin()).end(DONE)
        await at.until("无法送达")
        heard("en", at.address.key)
        assert await states(at.ledger, "outbox", CHANNEL) == {"failed": 1, "sent": 1}


@pytest.mark.parametrize("words", ["CHAT_RESTRICTED", "MESSAGE_AUTHOR_REQUIRED", "message to edit not found"])
async def test_an_answer_whose_shown_beginning_may_not_be_edited_any_more_is_sent_in_its_place(words: str) -> None:
    async with stage(Look("off", "edit"), group=-78) as at:
        turn = await at.begin()
        await turn.play(TextDelta("The answer, as far as it is known. " * 3), until="as far as")
        if "not found" in words:
            at.server.chats[-78].clear()
        at.server.failing("editMessageText", refuse(400, f"Bad Request: {words}"))
        at.server.fail("sendMessage", apply_then_drop())
        await turn.end(DONE)
        assert at.seen == ["bot: The answer.", "bot: ↻ The answer."]


@pytest.mark.parametrize("words", ["not enough rights to send text messages to the chat", "TOPIC_CLOSED"])
async def test_answers_to_a_group_where_the_bot_may_not_write_come_when_it_may_again(words: str) -> None:
    muted = refuse(400, f"Bad Request: {words}")
    async with stage(Look("off", "edit"), group=-78, step=60) as at:
        turn = await at.begin()
        await turn.play(TextDelta("The answer, as far as it is known. " * 3), until="as far as")
        at.server.failing("editMessageText", refuse(403, "Forbidden: CHAT_WRITE_FORBIDDEN"))
        at.server.failing("sendMessage", muted)
        told: list[str] = []

        async def tell(alarm: Alarm) -> bool:
            told.append(alarm.text)
            return True

        at.alarms.through(tell)
        async with at.alarms.running():
            await turn.finish(DONE)
            await (await at.begin()).finish(TurnFinished("completed", "Another."))
            await at.quiet(6 * 3_600)
        assert [line[:15] for line in at.seen] == ["bot: The answer"], "what was shown stays until more can be"
        assert len(told) == 1
        assert "the bot may not write in the chat now" in told[0]
        at.server.failing("sendMessage", None)
        await at.settled()
        assert at.seen == ["bot: The answer.", "bot: Another."]
        at.server.fail("sendDocument", refuse(403, "Forbidden: CHAT_SEND_DOCS_FORBIDDEN"))
        note = OutgoingMessage("note", ScreenMessage("All of it."), name="all.md", content="words", last=True)
        await at.outbox.put((OutboxItem("in-9", 0, CHANNEL, "-78", note.to_json()),))
        await at.until("is dropped: the bot may not send files there")


async def test_refused_entities_fall_away_step_by_step_and_the_words_stay() -> None:
    text = "See [this](https://e.org/a) **now**."
    async with stage(PLAIN) as at:
        for refusals, kinds in ((1, ["bold"]), (2, [])):
            at.server.fail("sendMessage", *[refuse(400, "Bad Request: can't parse entities: no")] * refusals)
            await (await at.begin()).end(TurnFinished("completed", text))
            assert [one["type"] for one in at.server.chats[7][-1].entities] == kinds
        assert at.seen == ["bot: See this now."] * 2


async def test_a_lost_thread_gets_a_second_try_and_then_the_chat_itself() -> None:
    async with stage(PLAIN, group=-1001) as at:
        lost = refuse(400, "Bad Request: message thread not found")
        at.server.fail("sendMessage", lost)
        await (await at.begin("9")).end(DONE)
        at.server.fail("sendMessage", lost, lost)
        await (await at.begin("9")).end(DONE)
        at.server.fail("editMessageText", lost)
        shown = at.server.chats[-1001][-1].id
        await at.outbox.sending.calls.show(replace(at.address, thread="9"), ScreenMessage("anew"), shown)
        assert [message.thread for message in at.server.chats[-1001]] == [9, None, 9], "one that stands there as well"


async def test_what_a_blocked_bot_could_not_say_comes_when_it_is_let_in_again() -> None:
    async with stage(step=60) as at:
        turn = await at.begin()
        await turn.play(TextDelta("The answer, as far as it is known. " * 3), until="as far as")
        at.server.blocked.add(7)
        await turn.finish(DONE)
        await at.quiet(3 * 3_600)
        assert len(at.server.calls) < 12, "it is tried once an hour, and nothing else is sent"
        at.server.blocked.clear()
        await (await at.begin()).end(TurnFinished("completed", "Another."))
        assert at.seen == ["bot: The answer.", "bot: Another."]


async def test_what_a_blocked_bot_could_not_say_for_a_day_is_dropped_in_silence() -> None:
    async with stage(PLAIN, step=300) as at, at.alarms.running():
        told: list[Alarm] = []

        async def tell(alarm: Alarm) -> bool:
            told.append(alarm)
            return True

        at.alarms.through(tell)
        at.server.blocked.add(7)
        for _ in range(3):
            await (await at.begin()).finish(DONE)
        await at.settled()
        assert at.clock.now() >= 86_400
        assert (await states(at.ledger, "outbox", CHANNEL)) == {"failed": 3}
        assert not told


async def test_a_blocked_bot_stops_typing() -> None:
    async with stage() as at:
        at.server.blocked.add(7)
        turn = await at.begin()
        await at.server.until(lambda: bool(at.server.calls))
        await at.quiet(12)
        assert len(at.server.calls) == 1, "typing, or on a slow machine the status; after its refusal neither"
        await turn.finish(DONE)
        await at.quiet(12)
        assert [call.params["text"] for call in at.server.calls[1:]] == ["The answer."]


async def test_a_group_that_moved_is_followed() -> None:
    async with stage(PLAIN, group=-5) as at:
        at.server.migrated[-5] = -1005
        for _ in range(2):
            await (await at.begin()).end(DONE)
        assert at.server.visible(-1005) == ["bot: The answer."] * 2
        assert [call.params["chat_id"] for call in at.server.sent("sendMessage")].count("-5") <= 1
        at.server.failing("sendMessage", refuse(400, "Bad Request: message to edit not found"))
        assert await at.outbox.sending.calls.show(at.address, ScreenMessage("never")) == "refused"
        assert len(at.server.sent("sendMessage")) == 3 + 6, "no refusal is answered for ever"


async def test_a_row_that_nobody_can_read_is_set_aside_and_the_next_one_goes_out(at: Stage) -> None:
    await at.ledger.put((OutboxItem("odd", 0, CHANNEL, "7", "no letter"),))
    await at.ledger.put(at.outbox.compose_text(at.address, "line", "Hello **you**."))
    at.outbox.wake()
    await at.settled()
    assert [line[:15] for line in at.seen] == ["bot: Hello you.", "bot: A message "]
    assert "could not be delivered and is dropped: it cannot be read" in at.seen[1]
    assert await states(at.ledger, "outbox", CHANNEL) == {"failed": 1, "sent": 2}


def test_an_answer_of_many_parts_goes_on_in_a_file_that_holds_all_of_it() -> None:
    text = "\n\n".join(f"Paragraph {number}. " + "Words and more words. " * 20 for number in range(60))
    messages = answer_messages(TurnFinished("completed", text))
    assert [outgoing.kind for outgoing in messages] == ["text"] * MOST_PARTS + ["note"]
    assert messages[-1].content.strip() == text.strip()
    assert [outgoing.screen.silent for outgoing in messages] == [False, True, True, True, True]
    shown = "".join("".join(outgoing.screen.text.split()) for outgoing in messages[:MOST_PARTS])
    assert "".join(render(text).text.split()).startswith(shown)


async def test_half_a_character_keeps_neither_an_answer_nor_an_update_out_of_the_store(tmp_path: Path) -> None:
    broken = "word \ud83d and more. "
    arrival = {"update_id": 1, "message": {"text": broken}}
    messages = answer_messages(TurnFinished("completed", broken * 1_500))
    assert messages[-1].kind == "note"
    database = SqliteDatabase(tmp_path / "n.db")
    ledger = Ledger(database)
    (row,) = await ledger.accept(CHANNEL, arrivals_of([arrival]))
    items = tuple(OutboxItem(row.turn, part, CHANNEL, "7", one.to_json()) for part, one in enumerate(messages))
    kept = await ledger.finish((row.seq,), items)
    assert "word ? and more" in outgoing_of(kept[-1].item.payload).content
    await database.aclose()


def test_a_long_block_of_code_comes_as_a_file_as_well() -> None:
    code = "".join(f"print({number})\n" for number in range(900))
    messages = answer_messages(TurnFinished("completed", f"Here:\n\n```python\n{code}```\n"))
    assert (messages[-1].name, messages[-1].content) == ("code-1.py", code)


def test_the_sources_of_an_answer_are_titles_that_lead_to_their_pages() -> None:
    page = Source(1, "https://a.example/x_(y)", "A *new* [title]", read=True)
    sly = Source(2, "https://evil.example/x", "The page of [bank.example](https://bank.example)", read=True)
    own = Source(3, "file:/home/ann/my_lease.pdf#page=2", "Lease, Page 2", read=True)
    (outgoing,) = answer_messages(TurnFinished("completed", "So it is [1] [2] [3].", sources=(page, sly, own)))
    shown = "• [1] A *new* [title]\n• [2] The page of [bank.example](https://bank.example) (https://evil.example/x)"
    shown += "\n• [3] Lease, Page 2: /home/ann/my_lease.pdf#page=2"
    assert outgoing.screen.text.endswith(f"Sources\n\n{shown}")
    assert [one.url for one in outgoing.screen.entities if one.type == "text_link"] == ["https://a.example/x_(y)"]


def test_how_a_turn_ended_is_said() -> None:
    def said(finished: TurnFinished) -> str:
        return "|".join(outgoing.screen.text for outgoing in answer_messages(finished))

    assert said(TurnFinished("cancelled", "So far")) == "So far\n\n⏹ stopped"
    assert said(TurnFinished("cancelled", "")) == "⏹ stopped"
    assert said(TurnFinished("failed", "", error="The model is down. Ask again.")) == "⚠️ The model is down. Ask again."
    large = Media("/nowhere/film.mp4", "video/mp4", "film.mp4", 80_000_000)
    assert "film.mp4 has 80 MB" in said(TurnFinished("completed", "Done.", media=(large,)))


async def test_a_file_that_is_gone_is_named_in_the_chat(at: Stage) -> None:
    gone = Media("/nowhere/a.png", "image/png", "a.png", 10)
    await (await at.begin()).end(TurnFinished("completed", "Here.", media=(gone,)))
    assert at.seen[0] == "bot: Here."
    assert at.seen[1].startswith("bot: The file a.png cannot be sent: No such file")


async def test_a_picture_is_shown_as_one_and_comes_as_a_file_where_telegram_refuses_it(tmp_path: Path) -> None:
    (file := tmp_path / "a.png").write_bytes(b"png")
    async with stage(PLAIN) as at:
        for sent in ((1, 0), (2, 1)):
            picture = Media(str(file), "image/png", "a.png", 3)
            await (await at.begin()).end(TurnFinished("completed", "Here.", media=(picture,)))
            assert (len(at.server.sent("sendPhoto")), len(at.server.sent("sendDocument"))) == sent
            at.server.fail("sendPhoto", refuse(400, "Bad Request: PHOTO_INVALID_DIMENSIONS"))


async def test_a_file_is_repeated_with_a_mark_where_it_may_have_arrived_and_without_one_where_it_did_not() -> None:
    note = OutgoingMessage("note", ScreenMessage("All of it."), name="all.md", content="words", reply_to=12)
    async with stage(PLAIN, group=-1001) as at:
        for turn, fault in (("in-1", too_many(1)), ("in-2", bad_gateway())):
            at.server.fail("sendDocument", fault)
            await at.outbox.put((OutboxItem(turn, 0, CHANNEL, "-1001", note.to_json(), "9"),))
            await at.settled()
        params = at.server.sent("sendDocument")[-1].params
        assert (str(params["message_thread_id"]), bool(params["disable_notification"])) == ("9", True)
        assert "12" in str(params["reply_parameters"])
        captions = [call.params["caption"] for call in at.server.sent("sendDocument")]
        assert captions == ["All of it.", "All of it.", "All of it.", f"{REPEAT}All of it."]


@pytest.mark.parametrize("silent", [False, True])
async def test_the_parts_of_a_message_that_was_too_long_sound_once_and_never_where_it_is_quiet(silent: bool) -> None:
    text = "\n".join(f"line {number}" for number in range(400))
    whole = OutgoingMessage("text", ScreenMessage(text, silent=silent), last=True, reply_to=12)
    item = OutboxItem("in-1", 0, CHANNEL, "7", whole.to_json())
    async with stage(PLAIN) as at:
        too_long = refuse(400, "Bad Request: message is too long")
        at.server.fail("sendMessage", too_long, too_many(1), too_long)
        at.server.plan("sendMessage", 4, too_many(1))
        at.server.fail("editMessageText", too_long)
        await at.outbox.put((item,))
        await at.settled()
        first, *second = at.server.sent("sendMessage")[3:]
        assert "12" in str(first.params["reply_parameters"])
        assert [bool(one.params.get("disable_notification")) for one in (first, *second)] == [silent, True, True]
        assert {"\n".join(str(part.params["text"]) for part in (first, one)) for one in second} == {text}
        (row,) = await at.ledger.put((item,))
        assert (row.state, int(row.message_id)) == ("sent", at.server.chats[7][0].id), "the first part is the message"


async def test_what_the_channel_says_goes_ahead_and_what_is_sent_for_others_waits_its_turn(at: Stage) -> None:
    said, *more = at.outbox.compose_text(at.address, "watch-1", "**Tides** " + "are high. " * 800, urgent=False)
    line = at.outbox.compose_text(at.address, "line-1", "word " * 1_600)
    (empty,) = at.outbox.compose_text(at.address, "watch-2", " ", urgent=False)
    items = (said, *more, *line, empty)
    told = [outgoing_of(one.payload) for one in items]
    assert [(one.urgent, one.last) for one in told] == [
        (urgent, last) for urgent in (False, True) for last in (False, True)
    ] + [(False, True)]
    assert [one.part for one in items] == [0, 1, 0, 1, 0]
    assert told[-1].screen.text == "…"
    await at.quiet(0.5)  # between two looks at the outbox
    begun = at.clock.now()
    await at.outbox.put((said, *more))
    await at.settled()
    assert at.seen[0].startswith("bot: Tides are high.")
    assert len(at.seen) == 2
    first, second = (call.at - begun for call in at.server.sent("sendMessage"))
    assert first < 0.3 < second < 0.7, "no look is waited for, but the pace is kept"
    await at.quiet(0.5)
    begun = at.clock.now()
    await at.outbox.say(at.address, " ", "line-2")
    await at.settled()
    assert at.seen[-1] == "bot: …"
    assert at.server.sent("sendMessage")[-1].at - begun < 0.4, "no look is waited for"


def test_a_row_of_the_outbox_is_kept_under_the_keys_that_earlier_versions_wrote() -> None:
    stored = '{"kind": "text", "frame": {"text": "Hello", "silent": true}, "last": true}'
    assert outgoing_of(stored) == OutgoingMessage("text", ScreenMessage("Hello", silent=True), last=True)
    assert json.loads(outgoing_of(stored).to_json())["frame"]["text"] == "Hello"
