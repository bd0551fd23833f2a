"""From events to what is printed: each text once, whatever the stream did."""

import re
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.bus.events import (
    ApprovalAsked,
    ApprovalClosed,
    CommandReply,
    ContextCompacted,
    Event,
    Notice,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.terminal.live import clip, tail_lines, tokens
from nanobot.channels.terminal.look import TextLook
from nanobot.channels.terminal.render import Printer
from nanobot.channels.terminal.transcript import Transcript, remainder
from nanobot.messages import Citation, StepRetried, TextDelta, ToolCall
from nanobot.results import Source, ToolResult, error_result
from tests.tables import table

START: tuple[Event, ...] = (TurnStarted("m", datetime(2026, 1, 1, tzinfo=UTC)), StepStarted(1))
CALL = ToolCall("c", "web_search")
PLAIN = TextLook(False, False, 80)


def printed(*events: Event) -> str:
    transcript, printer = Transcript(), Printer()
    return "".join(printer(piece, PLAIN) for event in events for piece in transcript.apply(event))


def deltas(text: str, size: int = 4) -> list[TextDelta]:
    return [TextDelta(text[start : start + size]) for start in range(0, len(text), size)]


def test_an_announcement_stands_before_the_tool_and_the_answer_after_it() -> None:
    text = printed(
        *START,
        *deltas("I will look."),
        ToolStarted(CALL, 'search "x"'),
        ToolFinished(CALL, ToolResult("r"), 1.25),
        StepStarted(2),
        *deltas("Found it [1]."),
        TurnFinished("completed", "Found it [1].", sources=(Source(1, "https://a.example", "A"),)),
    )
    assert text == (
        'I will look.\n\n  ✓ search "x" (1.2 s)\n\nFound it [1].\n\nSources\n[1] A (https://a.example)\n'
    )  # fmt: skip


def test_a_change_of_a_file_is_shown_line_by_line_under_its_call_as_far_as_a_glance_goes() -> None:
    call = ToolCall("c", "write_file")
    diff = "\n".join(["@@ -1,2 +1,30 @@", " kept", "-old \x1b[31m", *(f"+new {number}" for number in range(30))])
    done = ToolFinished(call, ToolResult("r", receipt="wrote a.md (+30 −1)", diff=diff), 0.0)
    text = printed(*START, ToolStarted(call, "write a.md"), done)
    lines = ["  ✓ write a.md", "       kept", "      -old ", *(f"      +new {number}" for number in range(10))]
    assert text.splitlines() == [*lines, "      … 20 more lines"]


def test_a_notice_or_a_sent_line_never_cuts_what_is_being_written() -> None:
    transcript, printer, text = Transcript(), Printer(), ""

    def take(*events: Event) -> None:
        nonlocal text
        text += "".join(printer(piece, PLAIN) for event in events for piece in transcript.apply(event))

    take(*START, *deltas("Some **bo"))
    assert transcript.said("and\nthen?") == []
    take(Notice("Got it."))
    assert transcript.waiting == ("❯ and then?", "Got it.")
    take(*deltas("ld** words.\n\n```\n" + "code\n" * 9), Notice("Still working."))
    assert text.count("code") > 0
    take(*deltas("last\n```\n\nThe end."), TurnFinished("completed", ""))
    assert text.startswith("Some **bold** words.\n\n❯ and\n  then?\n\n  Got it.\n\n```\ncode\n")
    assert "code\nlast\n```\n\n  Still working.\n\nThe end.\n" in text


@table(
    "closed result line",
    (ApprovalClosed("ab12", "once"), ToolResult("ok"), "  ✓ Approved: ran pytest (14 s)\n"),
    (ApprovalClosed("ab12", "always"), ToolResult("ok"), "  ✓ Approved for good: ran pytest (14 s)\n"),
    (ApprovalClosed("ab12", "once"), error_result("failed", "no disk"), "  ✗ Approved: run pytest (14 s): no disk\n"),
    (
        ApprovalClosed("ab12", "no", "not \x1b[31mnow"),
        error_result("denied", "x"),
        "  ✗ Not approved: run pytest (not now)\n",
    ),
    (ApprovalClosed("ab12"), error_result("denied", "x"), "  ✗ Not approved: run pytest (no answer in time)\n"),
)
def test_one_line_stays_of_a_question_to_the_owner(closed: ApprovalClosed, result: ToolResult, line: str) -> None:
    asked = ApprovalAsked("ab12", CALL, "Run pytest?", "Runs: pytest", act="run pytest", done="ran pytest")
    events = (*START, ToolStarted(CALL, "run pytest"), asked, closed, ToolFinished(CALL, result, 14.0))
    assert printed(*events) == line


def test_lines_about_tools_break_between_words_and_never_within_an_address() -> None:
    address = f"http://a.example/{'x' * 50}"
    failed = ToolFinished(CALL, error_result("http_status", f"{address} answered 灰鹭 with status 404"), 0.0)
    transcript, printer = Transcript(), Printer()
    events = (*START, ToolStarted(CALL, "fetch a.example/x"), failed)
    text = "".join(printer(piece, TextLook(True, False, 40)) for event in events for piece in transcript.apply(event))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert lines == ["  ✗ fetch a.example/x:", f"    {address}", "    answered 灰鹭 with status 404"]


FAILED = ToolFinished(CALL, error_result("http_status", "HTTP 404"), 0.0)


@table(
    "events shown",
    ((*deltas("Wro"), StepRetried("reset"), *deltas("Right."), TurnFinished("completed", "Right.")), "Right.\n"),
    (
        (*deltas("Old.\n\nnew"), StepRetried("reset"), *deltas("New."), TurnFinished("completed", "New.")),
        "Old.\n\n  ! reset; asking again. Take no notice of the unfinished text above.\n\nNew.\n",
    ),
    ((*deltas("One.\n\nTwo."), TurnFinished("completed", "One.\n\nTwo.\n\nThree.")), "One.\n\nTwo.\n\nThree.\n"),
    ((*deltas("1st."), StepStarted(2), *deltas("2nd."), TurnFinished("completed", "1st.\n\n2nd.")), "1st.\n\n2nd.\n"),
    ((TurnFinished("completed", "All at once."),), "All at once.\n"),
    (
        (*deltas("A draft."), TurnFinished("completed", "Another text.")),
        "A draft.\n\n  The answer in its final form:\n\nAnother text.\n",
    ),
    ((TurnFinished("failed", "", error="The key was refused."),), "  ✗ The key was refused.\n"),
    (
        (TurnFinished("out_of_steps", "So far."),),
        "So far.\n\n  ! The turn ended at its limit before the work was done.\n",
    ),
    ((ToolStarted(CALL, "fetch x"), FAILED), "  ✗ fetch x: HTTP 404\n"),
)
def test_each_text_is_printed_once_and_every_failure_said_in_a_line(events: tuple[Event, ...], shown: str) -> None:
    assert printed(*START, *events) == shown


def test_what_a_source_does_not_carry_stands_under_the_answer_and_the_answer_is_not_printed_again() -> None:
    missing = "900 m: not on [2], which has 90 m"
    citations = (Citation(2, "https://b.example", "B", "It is 900 m high", missing=missing),)
    said = "It is so [1]. It is 900 m high [2?]."
    text = printed(*START, *deltas(said), TurnFinished("completed", said, citations=citations))
    assert text.count("It is so") == 1
    assert f"? {missing}" in text


def test_notices_and_compaction_are_single_lines() -> None:
    text = printed(*START, Notice("Brave failed,\nasked DuckDuckGo", "warning"), ContextCompacted(9_000, 2_000))
    assert text == (
        "  ! Brave failed, asked DuckDuckGo\n  The conversation was shortened from about 9,000 to 2,000 tokens.\n"
    )  # fmt: skip


def test_a_second_reply_to_a_command_prints_only_what_is_new() -> None:
    first, second = "**Status**\n\n- Model: m\n- Search: asking", "**Status**\n\n- Model: m\n- Search: 3 left"
    text = printed(CommandReply("status", first, "k1"), CommandReply("status", second, "k1"))
    assert (text.count("Model"), text.count("3 left")) == (1, 1)
    assert printed(CommandReply("status", first, "k1"), CommandReply("status", first, "k2")).count("Model") == 2


HOSTILE = "safe \x1b[31mred\x1b[0m \x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\ \r\n\x9b2Jend\u202e\n\nlast"


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40))
def test_escapes_are_dropped_however_they_are_cut(size: int) -> None:
    text = printed(*START, *deltas(HOSTILE, size), TurnFinished("completed", HOSTILE))
    assert not set(text) & {"\x1b", "\x9b", "\r", "\u202e", "\x07"}
    assert (text.count("safe red"), text.count("last"), text.count("evil")) == (1, 1, 0)


def test_the_remainder_ignores_blanks_and_nothing_else() -> None:
    assert remainder("a b\n\nc", "a  b") == "\n\nc"
    assert remainder("a b", "ab ") == ""
    assert remainder("a b", "a x") is None
    assert remainder("a", "a b") is None


def test_the_tail_fits_the_screen_by_display_width() -> None:
    assert tail_lines("日本語" * 10, 21, 24) == ["日本語日本語日本語日", "本語日本語日本語日本", "語日本語日本語日本語"]
    assert len(tail_lines("line\n" * 50, 80, 24)) == 6
    assert len(tail_lines("line\n" * 50, 80, 9)) == 3
    assert clip("日本語", 4) == "日…"


def test_token_counts_read_well() -> None:
    assert [tokens(count) for count in (950, 1_234, 34_000, 1_200_000)] == ["950", "1.2k", "34k", "1.2M"]


def test_a_tool_that_was_stopped_is_printed_as_that_and_is_live_no_more() -> None:
    transcript = Transcript()
    for event in (*START, TextDelta("I look."), ToolStarted(CALL, "fetch slow.example")):
        transcript.apply(event)
    assert "".join(transcript.live) == "fetch slow.example"
    pieces = transcript.apply(TurnFinished("cancelled", "I look.", error="Stopped."))
    assert [(piece.kind, piece.text) for piece in pieces if piece.kind != "text"] == [
        ("failed", "fetch slow.example: stopped"),
        ("info", "Stopped."),
    ]
    assert not transcript.live
