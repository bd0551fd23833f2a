"""Bad days: penalties, lost replies, floods, restarts and random faults around whole turns."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest

from nanobot.bus.events import Address, StepStarted, ToolFinished, ToolStarted, TurnFinished, TurnStarted
from nanobot.channels.telegram.render.answer import answer_text
from nanobot.channels.telegram.render.markdown import render
from nanobot.channels.telegram.render.screen_messages import REPEAT
from nanobot.channels.telegram.show.status import Look
from nanobot.messages import TextDelta, ToolCall
from nanobot.results import ToolResult
from nanobot.session.rows import OutboxItem
from tests.channels.telegram.scenarios import CHANNEL, Lives, Stage, Turn, lives, one_turn, stage
from tests.fakes.clock import AT
from tests.fakes.ledger import states
from tests.fakes.telegram_server import Fault, apply_then_drop, bad_gateway, drop_before, too_many

SAYING = "This is the beginning of an answer that is long enough to be shown. "


@pytest.fixture
async def life() -> AsyncIterator[Lives]:
    async with lives() as made:
        yield made


async def worked(turn: Turn, at: Stage, text: str, *, pause: float = 0.4, piece: int = 40) -> None:
    """One tool call and then the text, written piece by piece."""
    call = ToolCall("c1", "web_search")
    await turn.play(StepStarted(1), ToolStarted(call, 'search "x"'))
    await at.quiet(2)
    await turn.play(ToolFinished(call, ToolResult("ok"), 2.0), StepStarted(2))
    for start in range(0, len(text), piece):
        await turn.play(TextDelta(text[start : start + piece]))
        await at.quiet(pause)


async def test_a_penalty_of_five_minutes_in_mid_answer_is_kept_and_then_the_answer_comes() -> None:
    async with one_turn() as (at, turn):
        await turn.play(TextDelta(SAYING), until="beginning")
        at.server.fail("editMessageText", too_many(300))
        await turn.play(TextDelta("More. "))
        await at.server.until(lambda: len(at.server.sent("editMessageText")) == 1)
        hit, count = at.clock.now(), len(at.server.calls)
        for number in range(20):
            await turn.play(TextDelta(f"word{number} "))
            await at.quiet(1)
        text = SAYING + "More. " + "".join(f"word{number} " for number in range(20))
        await turn.finish(TurnFinished("completed", text + "The end."))
        await at.until("The end.")
        await at.settled()
        assert at.clock.now() - hit >= 300
        assert at.seen == [f"bot: {text}The end."]
        assert [one.method for one in at.server.calls[count:]] == ["editmessagetext"]
        assert await states(at.ledger, "outbox", CHANNEL) == {"sent": 1}


@pytest.mark.parametrize("seconds", [1, 600])
async def test_the_status_of_a_turn_that_ended_without_network_folds_up_when_there_is_one(seconds: float) -> None:
    async with one_turn() as (at, turn):
        call = ToolCall("c1", "web_search")
        await turn.play(StepStarted(1), ToolStarted(call, 'search "x"'), until="[Stop]")
        at.server.cut()
        await turn.play(ToolFinished(call, ToolResult("ok"), 2.0), StepStarted(2), TextDelta(SAYING))
        await at.quiet(5)
        await turn.finish(TurnFinished("completed", SAYING, seconds=14))
        await at.quiet(seconds)
        at.server.mend()
        await at.settled(seconds)
        await at.until("1 step")
        assert [line[:11] for line in at.seen] == ["bot: 1 step", "bot: ↻ This"]
        assert not any("[Stop]" in line for line in at.seen)


async def test_an_answer_of_20_000_characters_arrives_whole_and_never_hammers() -> None:
    text = "\n\n".join(f"Paragraph {number} says **this**. " + "Words and more words. " * 18 for number in range(47))
    assert len(text) > 20_000
    async with stage() as at:
        at.server.flood.enabled = True
        turn = await at.begin()
        await worked(turn, at, text, pause=0.3, piece=400)
        finished = TurnFinished("completed", text, seconds=20)
        await turn.finish(finished)
        await at.until("goes on in this file")
        await at.settled()
        assert at.server.flood.violations == 0
        parts = [line.removeprefix("bot: ") for line in at.seen if "Paragraph" in line]
        shown, whole = "".join("".join(parts).split()), "".join(render(answer_text(finished)).text.split())
        assert len(parts) == 4
        assert whole.startswith(shown)
        assert at.server.sent("sendDocument")[-1].params["document_size"] == str(len(f"{text.strip()}\n".encode()))


async def test_a_lost_confirmation_of_any_send_of_a_turn_leaves_no_repeat_without_a_mark() -> None:
    methods = ("sendChatAction", "sendMessage", "editMessageText")
    for method in methods:
        for place in range(3):
            async with one_turn() as (at, turn):
                at.server.plan(method, place, apply_then_drop())
                await worked(turn, at, SAYING * 3, pause=1.0)
                await turn.end(TurnFinished("completed", SAYING * 3, seconds=9))
                await at.quiet(4)
                assert_told_once(at, (SAYING * 3).strip())


def assert_told_once(at: Stage, text: str, seed: int = 0) -> None:
    """The whole answer stands there once without a mark at most, and at least once at all."""
    case = (seed, at.seen)
    whole = [line for line in at.seen if text in line]
    plain = [line for line in whole if not line.startswith(f"bot: {REPEAT}")]
    assert whole, case
    assert len(plain) <= 1, case
    begun = [line for line in at.seen if line.startswith(f"bot: {text[:30]}")]
    assert len(begun) <= 1, case
    status = [line for line in at.seen if 'search "x"' in line]
    assert len(status) <= 1, case


async def test_an_answer_that_was_begun_before_a_kill_is_finished_in_the_same_message(life: Lives) -> None:
    async with life.begin() as at:
        turn = await at.begin()
        await turn.play(TextDelta(SAYING), until="beginning")
        await at.quiet(2)
    async with life.begin() as at:
        again = Turn(at, "t9", turn.message)  # the row of the inbox begins again
        await again.play(
            TurnStarted("m", AT, turn.message.id), TextDelta("Another beginning, told by the second try. ")
        )
        await at.until("second try")
        await again.end(TurnFinished("completed", "The whole answer."))
    assert life.server.visible(7) == ["bot: The whole answer."]


async def test_parts_that_were_shown_before_a_kill_go_where_the_final_text_is_shorter(life: Lives) -> None:
    async with life.begin() as at:
        turn = await at.begin()
        await turn.play(TextDelta("A first try goes on and on. " * 250))
        await at.quiet(30)
        assert len(at.seen) == 2, at.seen
        await life.ledger.draft(OutboxItem(turn.message.id, 2, CHANNEL, "7", "cut off before it was sent"))
    async with life.begin() as at:
        again = Turn(at, "t9", turn.message)
        await again.play(TurnStarted("m", AT, turn.message.id), TextDelta("Short."))
        await at.quiet(2)
        await again.end(TurnFinished("completed", "Short."))
        await at.quiet(5)
        assert "draft" not in await states(at.ledger, "outbox", CHANNEL)
    assert life.server.visible(7) == ["bot: Short."]


async def test_after_a_kill_between_sending_and_noting_the_answer_bears_the_mark_of_a_repeat(life: Lives) -> None:
    async with life.begin() as at:
        turn = await at.begin()
        await life.ledger.draft(OutboxItem(turn.message.id, 0, CHANNEL, "7", "of a process that is gone"))
    async with life.begin() as at:
        again = Turn(at, "t9", turn.message)
        await again.play(TurnStarted("m", AT, turn.message.id), TextDelta(SAYING))
        await at.quiet(4)
        await again.end(TurnFinished("completed", SAYING))
    assert life.server.visible(7) == [f"bot: {REPEAT}{SAYING.strip()}"]


async def test_a_beginning_whose_sending_a_kill_cut_off_is_known_to_the_next_life_that_shows_none(life: Lives) -> None:
    life.server.fail("sendMessage", Fault("hang", apply=True))
    async with life.begin(Look("off", "edit")) as at:
        turn = await at.begin()
        await turn.play(TextDelta(SAYING), until="beginning")
    for _ in range(2):  # the next life is killed too, before it sends what it has written down
        async with life.begin(Look("off", "off")) as at:
            await life.ledger.recover(CHANNEL)
            await life.ledger.put(at.outbox.compose(turn.message, TurnFinished("completed", SAYING)))
    async with life.begin(Look("off", "off")) as at:
        await life.ledger.recover(CHANNEL)
        await at.settled()
    assert [line.startswith(f"bot: {REPEAT}") for line in life.server.visible(7)] == [False, True]


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_final_text_that_was_written_down_before_a_kill_is_delivered_by_the_next_life(leaves: bool) -> None:
    async with lives() as life:
        async with life.begin() as at:
            turn = await at.begin()
            await turn.play(TextDelta(SAYING), until="beginning")
            await at.quiet(2)
            (row,) = await life.ledger.put(
                at.outbox.compose(turn.message, TurnFinished("completed", "The whole answer."))
            )
            assert not leaves or await life.ledger.begin(row.seq)
        async with life.begin() as at:
            await life.ledger.recover(CHANNEL)
            at.outbox.wake()
            await at.settled()
        assert life.server.visible(7) == ["bot: The whole answer."]


@pytest.mark.parametrize("goes_on", [True, False])
async def test_the_status_message_of_a_life_that_was_killed_is_taken_over_or_taken_away(goes_on: bool) -> None:
    call = ToolCall("c1", "web_search")
    working = (StepStarted(1), ToolStarted(call, 'search "x"'))
    async with lives() as life:
        async with life.begin() as at:
            await (await at.begin()).play(*working, until="[Stop]")
            await at.quiet(1)
        async with life.begin() as at:
            await life.ledger.recover(CHANNEL)
            turn = await at.begin()  # the same one
            if goes_on:
                edits = len(life.server.sent("editMessageText"))
                await turn.play(*working)
                await life.server.until(lambda: len(life.server.sent("editMessageText")) > edits)
                assert len(life.server.visible(7)) == 1
            await turn.end(TurnFinished("completed", "The answer.", seconds=3))
            await at.quiet(3)
        assert not any("[Stop]" in line for line in life.server.visible(7)), life.server.visible(7)
        assert len(life.server.visible(7)) == 1 + goes_on, life.server.visible(7)


@pytest.mark.parametrize("seconds", [0, 1, 20, 120])
async def test_a_life_after_one_that_ended_at_rest_sends_nothing(life: Lives, seconds: float) -> None:
    async with life.begin() as at:
        turn = await at.begin()
        await worked(turn, at, SAYING)
        await turn.end(TurnFinished("completed", SAYING, seconds=3))
        await at.quiet(seconds)
    before = len(life.server.sent("sendMessage"))
    async with life.begin() as at:
        await life.ledger.recover(CHANNEL)
        await at.quiet(120)
    assert len(life.server.sent("sendMessage")) == before


async def test_topics_of_one_chat_do_not_mix() -> None:
    async with stage(group=-1001) as at:
        turns = [await at.begin(thread) for thread in ("11", "12", "13")]
        for number, turn in enumerate(turns):
            await turn.play(TextDelta(f"{SAYING} In topic {number}."))
        await at.quiet(4)
        for number, turn in enumerate(turns):
            await turn.end(TurnFinished("completed", f"Answer {number}."))
        assert [at.server.visible(-1001, thread=thread) for thread in (11, 12, 13)] == [
            [f"bot: Answer {number}."] for number in range(3)
        ]
        assert turns[0].message.address == Address("telegram", "-1001", "11")


FAULTS = (apply_then_drop(), drop_before(), bad_gateway(), too_many(1))


async def one_random_run(seed: int) -> None:
    """A turn with three faults at random calls."""
    dice = random.Random(seed)
    async with one_turn() as (at, turn):
        for _ in range(3):
            method = dice.choice(("sendMessage", "sendMessage", "editMessageText", "sendChatAction", "deleteMessage"))
            at.server.plan(method, dice.randrange(4), dice.choice(FAULTS))
        text = "".join(f"{SAYING}{dice.random()} " for _ in range(dice.randrange(1, 4)))
        await worked(turn, at, text, pause=dice.choice((0.2, 1.0)))
        await turn.end(TurnFinished("completed", text, seconds=3))
        over = len(at.server.sent("sendChatAction"))
        await at.quiet(6)
        assert_told_once(at, text.strip(), seed)
        assert len(at.server.sent("sendChatAction")) == over, seed


@pytest.mark.parametrize("turns", [150, pytest.param(500, marks=pytest.mark.crash_all)])
async def test_turns_with_random_faults_say_everything_once(turns: int) -> None:
    seeds = iter(range(turns))

    async def some() -> None:
        for seed in seeds:
            await one_random_run(seed)

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(some())
