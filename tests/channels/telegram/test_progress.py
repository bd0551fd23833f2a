"""What a person sees of a turn while it runs."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator

import pytest

from nanobot.bus.events import (
    CommandReply,
    InboundMessage,
    Notice,
    OutboundMessage,
    Sender,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
)
from nanobot.channels.telegram.show.status import Look
from nanobot.messages import StepRetried, TextDelta, ThinkingDelta, ToolCall
from nanobot.results import ToolResult, error_result
from tests.channels.telegram.scenarios import CHANNEL, Stage, Turn, lives, one_turn, stage
from tests.fakes.clock import JumpingClock
from tests.fakes.ledger import states
from tests.fakes.telegram_server import apply_then_drop, bad_gateway, refuse, too_many

SAYING = "This is the beginning of an answer that is long enough to be shown. "


@pytest.fixture
async def at() -> AsyncIterator[Stage]:
    async with stage() as made:
        yield made


def call(number: int, hint: str, seconds: float = 1.0, *, fails: bool = False) -> tuple[ToolStarted, ToolFinished]:
    of = ToolCall(f"c{number}", "web_fetch")
    result = error_result("http_status", "HTTP 404") if fails else ToolResult("ok")
    return ToolStarted(of, hint), ToolFinished(of, result, seconds)


async def spoken(turn: Turn, at: Stage, words: int = 30) -> str:
    """Stream `words` words over some seconds and return them."""
    text = SAYING
    await turn.play(TextDelta(text))
    for number in range(words):
        piece = f"word{number} "
        text += piece
        await turn.play(TextDelta(piece))
        await at.quiet(0.3)
    return text


async def test_N46_the_status_message_shows_the_last_hints_and_folds_up_at_the_end(at: Stage, turn: Turn) -> None:
    for number in range(11):
        await turn.play(*call(number, f"fetch example.com/{number}", 0.0))
    await turn.play(*call(20, "fetch twice.example"), *call(21, "fetch twice.example", 2.0))
    await turn.play(*call(22, "fetch gone.example", fails=True), call(23, 'search "x"')[0], until="search")
    (shown,) = at.seen
    lines = shown.removeprefix("bot: ").removesuffix(" [Stop]").split("\n")
    assert shown.endswith(" [Stop]")
    assert lines[0] == "+6 earlier"
    assert lines[-3:] == [
        "✓ fetch twice.example × 2 (2 s)",
        "✗ fetch gone.example (1 s): HTTP 404",
        '▸ search "x"',
    ]
    assert len(lines) == 9
    message = at.server.chats[7][0]
    assert (message.silent, message.data) == (True, [f"stop:{turn.id}"])
    await turn.finish(TurnFinished("completed", "Yes.", seconds=14))
    await at.until("15 steps · 14 s")
    assert at.seen[1] == "bot: Yes."
    assert not message.buttons
    assert [one["type"] for one in message.entities] == ["expandable_blockquote"]
    assert not at.server.chats[7][1].silent


async def test_text_that_comes_is_acknowledged_silently_and_the_status_says_why_the_model_is_asked_again() -> None:
    async with one_turn() as (at, turn):
        await turn.play(Notice("Got it. I will read this at the next step."), until="· Got it.")
        assert at.server.chats[7][0].silent
        await turn.play(StepRetried("your server: HTTP 529: over\x1bloaded.", 4.0))
        await at.until("your server: HTTP 529: overloaded; asking again in 4 s.")
        await turn.end(TurnFinished("completed", "Yes."))


async def test_a_short_answer_is_one_message_and_nothing_but_typing_before_it(at: Stage, turn: Turn) -> None:
    await turn.play(TextDelta("Yes."), *call(1, "fetch example.com"))
    await at.quiet(1)
    await turn.end(TurnFinished("completed", "Yes."))
    await at.quiet(6)
    assert at.seen == ["bot: Yes."]
    assert [one.method for one in at.server.calls] == ["sendchataction", "sendmessage"]


class _Counted(JumpingClock):
    waits = 0

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        self.waits += 1
        await super().wait(event, seconds)


async def test_words_that_come_before_anything_but_typing_may_be_shown_wake_nobody() -> None:
    clock = _Counted()
    async with lives(clock) as life, life.begin() as at:
        turn = await at.begin()
        for _ in range(150):  # in which time stands still, because something is at work
            await turn.play(TextDelta("a "))
            await asyncio.sleep(0)
        assert clock.waits < 10
        await at.until("a a a")


async def test_typing_is_shown_at_once_refreshed_and_ends_with_the_turn(at: Stage) -> None:
    turn = await at.begin("3")
    await at.server.until(lambda: len(at.server.sent("sendChatAction")) >= 3)
    times = [one.at for one in at.server.sent("sendChatAction")]
    assert all(later - earlier >= 4.4 for earlier, later in itertools.pairwise(times)), times
    assert at.server.sent("sendChatAction")[0].params["message_thread_id"] == "3"
    await turn.end(TurnFinished("completed", "Done."))
    before = len(at.server.sent("sendChatAction"))
    await at.quiet(10)
    assert len(at.server.sent("sendChatAction")) == before


async def test_an_answer_grows_by_edits_of_one_message_and_no_text_is_sent_twice(at: Stage, turn: Turn) -> None:
    await turn.play(StepStarted(1))
    text = await spoken(turn, at)
    await turn.end(TurnFinished("completed", text, seconds=9))
    await at.quiet(3)
    assert at.seen == [f"bot: {text.strip()}"]
    # A message is what is seen: where the text is sent again, it has got its Stop button meanwhile.
    screens = [
        (one.params["text"], str(one.params.get("reply_markup"))) for one in at.server.calls if "text" in one.params
    ]
    assert len(screens) == len(set(screens)) >= 4
    assert all(one.params["link_preview_options"] for one in at.server.sent("editMessageText"))
    edits = [one.at for one in at.server.sent("editMessageText")]
    assert all(later - earlier >= 0.9 for earlier, later in itertools.pairwise(edits[:-1])), edits


async def test_a_final_text_whose_edit_broke_is_edited_in_again(at: Stage) -> None:
    turn, text = await at.begin(), "A whole answer was shown. " * 5
    await turn.play(StepStarted(1), TextDelta(text))
    await at.until("shown.")
    at.server.fail("editMessageText", bad_gateway())
    await turn.end(TurnFinished("completed", f"{text}And more."))
    assert at.seen == [f"bot: {text}And more."]


async def test_what_a_failed_try_has_said_stays_until_another_stands_in_its_place(at: Stage, turn: Turn) -> None:
    await turn.play(StepStarted(1), TextDelta(SAYING), until="beginning")
    for again in (StepRetried("connection lost"), ThinkingDelta("Hm."), StepStarted(1)):
        await turn.play(again)
        await at.quiet(5)
        assert at.seen == [f"bot: {SAYING.strip()} [Stop]"]
    await turn.play(TextDelta("Another answer, which is the one that counts for the person."), until="counts")
    await turn.end(TurnFinished("completed", "Another answer, and the whole of it."))
    assert at.seen == ["bot: Another answer, and the whole of it."]


async def test_an_announcement_becomes_part_of_the_status_and_the_answer_stands_last(at: Stage, turn: Turn) -> None:
    await turn.play(StepStarted(1), TextDelta("I will look for that on the web, which takes a moment."))
    await at.until("I will look")
    started, finished = call(1, "fetch example.com")
    await turn.play(started, until="▸ fetch example.com")
    assert len(at.seen) == 1
    await turn.play(finished, StepStarted(2), TextDelta(SAYING), until="beginning")
    await turn.end(TurnFinished("completed", SAYING, seconds=3))
    await at.quiet(3)
    assert [line[:12] for line in at.seen] == ["bot: 1 step ", "bot: This is"]


async def test_long_answers_roll_over_into_silent_messages_and_surplus_goes_at_the_end(at: Stage, turn: Turn) -> None:
    text = "\n\n".join(f"Paragraph {number}. " + "Words and more words. " * 20 for number in range(20))
    await turn.play(StepStarted(1), TextDelta(text))
    await at.server.until(lambda: len(at.seen) == 3)
    assert [message.silent for message in at.server.chats[7]] == [False, True, True]
    await turn.end(TurnFinished("completed", "It comes to this."))
    await at.quiet(2)
    assert at.seen == ["bot: It comes to this."]


async def test_a_turn_can_be_stopped_from_two_seconds_after_its_start_to_its_end() -> None:
    """Also while the model only thinks, in a group that was just written to, and without hints and streaming."""

    async def scene(look: Look, group: int) -> None:
        async with stage(look, group=group) as at:
            await (await at.begin()).end(TurnFinished("completed", "An answer just before."))
            turn = await at.begin()
            begin = at.clock.now()
            await turn.play(StepStarted(1), ThinkingDelta("Hm."), until="bot: thinking … [Stop]")
            assert at.clock.now() - begin <= 2
            await turn.play(TextDelta(SAYING))
            await at.quiet(6)
            await turn.play(*call(1, "fetch a.example")[:1])
            await at.quiet(6)
            assert at.seen[-1].endswith("[Stop]")
            assert [line.endswith("[Stop]") for line in at.seen].count(True) == 1
            assert ("fetch" in at.seen[-1]) == (look.hints != "off")
            await turn.end(TurnFinished("completed", "Done."))
            await at.quiet(8)
            assert "[Stop]" not in "".join(at.seen)
            assert at.seen[-1] == "bot: Done."
            assert len(at.seen) == (2 if look.hints == "off" else 3), at.seen

    await asyncio.gather(scene(Look(), 0), scene(Look(), -1001), scene(Look("off", "off"), 0))


async def test_no_status_appears_below_an_answer_and_its_time_never_runs_back(at: Stage, turn: Turn) -> None:
    await turn.play(*call(1, "fetch a.example"), StepStarted(2), TextDelta(SAYING), until="beginning")
    await at.quiet(8)
    assert at.seen == [f"bot: {SAYING.strip()} [Stop]"], "the steps were over before anything was shown"
    await turn.play(ToolStarted(ToolCall("c2", "web_search"), 'search "x"'), until="search")
    await at.quiet(2)
    await turn.play(StepStarted(3), TextDelta("It comes to this, which is said in a few more words than that."))
    await at.until("2 steps · ")
    first = at.seen[0]
    await turn.play(StepStarted(4), *call(3, "fetch b.example"), until="fetch b.example")
    await turn.end(TurnFinished("cancelled", "It comes to this.", seconds=0.5))
    await at.until("3 steps · ")
    seconds = [re.findall(r"steps · ([\d.]+) s", line)[0] for line in (first, at.seen[0])]
    assert float(seconds[0]) <= float(seconds[1])


async def test_hints_can_be_kept() -> None:
    async with one_turn(Look("keep", "off")) as (at, turn):
        await turn.play(*call(1, "fetch a.example"), until="fetch a.example")
        await turn.finish(TurnFinished("completed", "Yes.", seconds=2))
        await at.until("1 step")
        assert at.server.chats[7][0].entities == []


async def test_a_draft_shows_the_answer_until_the_message_comes_and_is_kept_alive() -> None:
    async with one_turn(Look("live", "draft")) as (at, turn):
        await turn.play(TextDelta(f"**Now:** {SAYING}"))
        await at.quiet(24)
        drafts = at.server.sent("sendMessageDraft")
        assert [one.params["text"] for one in drafts] == [f"Now: {SAYING.strip()}"] * 2
        assert "bold" in str(drafts[0].params["entities"])
        assert drafts[0].params["can_stop"] is True
        assert len({one.params["draft_id"] for one in drafts}) == 1
        await turn.end(TurnFinished("completed", SAYING))
        assert at.seen == [f"bot: {SAYING.strip()}"]
        assert not at.server.sent("editMessageText")
    async with stage(Look("live", "draft"), group=-1001) as at:
        await (await at.begin()).play(TextDelta(SAYING), until="beginning")
        assert not at.server.sent("sendMessageDraft"), "groups have none"


async def test_a_stopped_turn_keeps_its_text_with_a_mark_and_its_status_says_so(at: Stage, turn: Turn) -> None:
    await turn.play(call(1, "read a very slow page")[0], until="[Stop]")
    await turn.play(StepStarted(2), TextDelta(SAYING), until="beginning")
    await turn.finish(TurnFinished("cancelled", SAYING, seconds=5))
    await at.until("⏹ stopped · 1 step · 5 s")
    await at.settled()
    assert at.seen[1] == f"bot: {SAYING.strip()}\n\n⏹ stopped"
    assert "✗ read a very slow page" in at.seen[0]
    assert "[Stop]" not in "".join(at.seen)


async def test_a_status_that_may_have_arrived_is_not_sent_a_second_time(at: Stage, turn: Turn) -> None:
    at.server.fail("sendMessage", apply_then_drop())
    await turn.play(*call(1, "fetch a.example"))
    await at.quiet(8)
    await turn.play(*call(2, "fetch b.example"))
    await at.quiet(8)
    assert len(at.seen) == 1
    await turn.end(TurnFinished("completed", "Yes."))
    assert at.seen[1:] == ["bot: Yes."]


async def test_an_edit_that_failed_is_made_again_and_one_of_a_deleted_message_sends_it_anew() -> None:
    async with one_turn() as (at, turn):
        text = SAYING
        await turn.play(TextDelta(text), until="beginning")
        at.server.fail(
            "editMessageText", apply_then_drop(), too_many(1), refuse(400, "Bad Request: message to edit not found")
        )
        text += await spoken(turn, at)
        at.server.chats[7] = at.server.chats[7][-1:]
        await turn.end(TurnFinished("completed", text))
        await at.quiet(2)
        assert at.seen == [f"bot: {text.strip()}"]


async def test_the_last_reply_of_a_slow_command_replaces_its_first_and_a_quick_one_is_sent_once() -> None:
    for slow in (True, False):
        async with stage() as at:
            message = InboundMessage(at.address, Sender("7", role="owner"), "/status", id="in-9")
            await at.progress.show(OutboundMessage(at.address, CommandReply("status", "**first**", "k", "in-9")))
            if slow:
                await at.until("bot: first")
            await at.ledger.put(at.outbox.compose(message, TurnFinished("completed", "**last**")))
            at.outbox.wake()
            await at.settled()
            await at.quiet(3)
            assert at.seen == ["bot: last"]
            assert len(at.server.calls) == (2 if slow else 1)
            assert await states(at.ledger, "outbox", CHANNEL) == {"sent": 1}


async def test_an_answer_does_not_begin_in_the_chat_before_an_earlier_one_has_arrived(at: Stage) -> None:
    """Else a person sees the second answer above the first one, where the first is sent again after a while."""
    first = await at.begin()
    at.server.fail("sendMessage", refuse(500, "Internal Server Error"))
    await first.finish(TurnFinished("completed", "The first answer."))
    await at.server.until(lambda: at.server.broken > 0)
    second = await at.begin()
    await spoken(second, at, words=40)
    await second.end(TurnFinished("completed", "The second answer."))
    assert "The first answer." in next(line for line in at.seen if "answer" in line)
    assert "The second answer." in at.seen[-1]
