"""The fold from events to a picture."""

from datetime import UTC, datetime

import pytest

from nanobot.bus.events import (
    ApprovalAsked,
    ApprovalClosed,
    Event,
    Notice,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from nanobot.channels.base import answer_text
from nanobot.channels.citations import NOT_OURS, source_line, sources_block, sources_list, with_sources
from nanobot.channels.view import HintLine, TurnView, fold_hints, hint_text
from nanobot.messages import Citation, StepRetried, TextDelta, ToolCall
from nanobot.results import Source, ToolResult, error_result
from nanobot.utils.translation import speaking

AT = datetime(2026, 1, 1, tzinfo=UTC)


def fold(*events: Event) -> TurnView:
    view = TurnView()
    for event in events:
        view = view.apply(event)
    return view


def lines(view: TurnView) -> tuple[str, ...]:
    return tuple(hint_text(line) for line in fold_hints(view.hints))


def tool(number: int, hint: str, seconds: float = 1.0, result: ToolResult | None = None) -> tuple[Event, Event]:
    call = ToolCall(f"c{number}", "web_fetch")
    return ToolStarted(call, hint), ToolFinished(call, result or ToolResult("ok"), seconds)


def test_a_retried_step_takes_back_its_own_text_and_nothing_else() -> None:
    first = (TurnStarted("m", AT), StepStarted(1), TextDelta("I will look."), StepStarted(2))
    view = fold(*first, TextDelta("The ans"), StepRetried("broken pipe"))
    assert (view.text, view.earlier, view.phase) == ("", ("I will look.",), "retrying")
    view = view.apply(TextDelta("The answer"))
    assert (view.earlier, view.text) == (("I will look.",), "The answer")


def test_N46_repeats_are_folded() -> None:
    view = fold(*(event for number in range(3) for event in tool(number, "fetch example.com", number)))
    assert lines(view) == ("fetch example.com × 3 (2 s)",)


def test_a_running_tool_shows_its_progress_and_a_failed_one_its_reason() -> None:
    call = ToolCall("c1", "web_search")
    view = fold(ToolStarted(call, 'search "x"'), ToolProgress("c1", "asking Brave"))
    assert (lines(view), view.phase) == (('search "x": asking Brave',), "tools")
    view = view.apply(ToolFinished(call, error_result("http_status", "HTTP 404"), 0.5))
    assert (lines(view), view.phase) == (('search "x" (0.5 s): HTTP 404',), "waiting")


def test_the_end_brings_the_whole_answer_and_a_new_turn_starts_empty() -> None:
    view = fold(TurnStarted("m", AT), TextDelta("Hal"), Notice("n"), TurnFinished("completed", "Hallo", model="m2"))
    assert (view.text, view.outcome, view.model, view.running) == ("Hallo", "completed", "m2", False)
    assert view.apply(TurnStarted("m", AT)).notices == ()


def test_a_call_that_succeeded_in_part_tells_so() -> None:
    call = ToolCall("c", "web_fetch")
    result = ToolResult("text", "Read 2 of 3 pages", partial=True)
    assert lines(fold(ToolStarted(call, "fetch a.example + 2 more"), ToolFinished(call, result, 0.0))) == (
        "fetch a.example + 2 more: Read 2 of 3 pages",
    )


PAGES = (
    Source(1, "https://a.example", "A"),
    Source(2, "https://b.example", "B", read=True),
    Source(3, "https://c.example"),
)


def ended(text: str, sources: tuple[Source, ...] = PAGES, *missing: str) -> TurnFinished:
    citations = tuple(Citation(1, "https://a.example", missing=one) for one in missing)
    return TurnFinished("completed", text, sources=sources, citations=citations)


def test_G11_cited_sources_are_listed_by_first_use_and_then_what_was_read_besides() -> None:
    assert sources_block(ended("So it is [3], and so [1] and [3].")) == (
        "Sources\n[3] Untitled (https://c.example)\n[1] A (https://a.example)\nAlso read\n[2] B (https://b.example)"
    )
    listed = sources_list(ended("So it is [3], and so [1?]."))
    assert ([item.number for item in listed.cited], [item.number for item in listed.also_read]) == ([3, 1], [2])
    assert sources_block(ended("No marks.")) == "Sources\n[2] B (https://b.example)"
    assert with_sources(ended("No marks.")) == "No marks.\n\nSources\n\n- [2] B (https://b.example)"
    assert sources_block(ended("Nothing was read.", PAGES[:1])) == ""


def test_a_link_to_a_page_that_was_read_counts_as_its_mark() -> None:
    listed = sources_list(ended("So it is ([B](https://b.example))."))
    assert ([item.number for item in listed.cited], listed.also_read) == ([2], ())


def test_what_is_missing_is_said_once_for_each_mark_above_the_sources() -> None:
    block = sources_block(
        ended("5 m [1?], 6 m [1?], 5 m [1?].", PAGES[:1], "5 m: not on [1]", "6 m: not on [1]", "5 m: not on [1]")
    )
    assert block == "? 5 m: not on [1]\n? 6 m: not on [1]\nSources\n[1] A (https://a.example)"


def test_G12_a_source_without_title_or_address_says_so() -> None:
    assert source_line(Source(4, "")) == "[4] Untitled (Unknown URI)"
    assert source_line(Source(4, "https://a.example", " \n")) == "[4] Untitled (https://a.example)"


def test_an_answer_that_lists_its_sources_rightly_gets_no_second_list() -> None:
    text = "So it is [2].\n\n**Sources:**\n\n- [2] B https://b.example\n- [A](https://a.example)\n"
    assert with_sources(ended(text)) == text


@pytest.mark.parametrize(
    "entry", ["[2] B https://evil.example", "[7] Nobody https://b.example", "[1] A https://b.example"]
)
def test_a_list_that_the_model_made_up_is_told_from_that_of_the_program(entry: str) -> None:
    text = f"So it is [2].\n\nSources\n{entry}\n"
    assert sources_block(ended(text)).splitlines()[:2] == [f"? {NOT_OURS}", "Sources"]
    assert sources_block(ended(text, ())) == f"? {NOT_OURS}"
    assert NOT_OURS not in sources_block(ended("# Sources\n\nEnergy sources are many. And so on."))


def test_a_title_from_the_web_cannot_break_out_of_its_line() -> None:
    block = sources_block(ended("x", (Source(1, "https://a.example", "evil\x1b[2J\n\nline", read=True),)))
    assert block == "Sources\n[1] evil line (https://a.example)"


def test_a_call_that_waited_for_the_owner_when_the_turn_ended_was_not_run() -> None:
    first, second = ToolCall("c1", "exec"), ToolCall("c2", "exec")
    asked = [ApprovalAsked(f"q{call.id}", call, "Run?", "") for call in (first, second)]
    started = [ToolStarted(first, "run one"), ToolStarted(second, "run two")]
    view = fold(TurnStarted("m", AT), *started, *asked, ApprovalClosed("qc1", "once"))
    assert view.phase == "approval"
    view = view.apply(TurnFinished("cancelled", ""))
    assert lines(view) == ("run one: stopped", "run two: not run")


def test_a_call_that_changed_a_file_tells_how_many_lines_in_its_line() -> None:
    call, done = ToolCall("c", "edit_file"), ToolResult("Wrote a.md.", changed="+12 −3")
    events = (ToolStarted(call, "edit a.md"), ToolFinished(call, done, 2.0)) * 2
    assert lines(fold(TurnStarted("m", AT), *events)) == ("edit a.md (+12 −3, 2 s)",) * 2


def test_the_line_of_a_tool_has_the_signs_of_the_language_of_who_reads_it() -> None:
    line = HintLine("搜索“x {0}”", "done", 1, 2.0, "断了 {y}", "+1 −0")
    with speaking("zh"):
        assert hint_text(line) == "搜索“x {0}”（+1 −0、2 秒）：断了 {y}"
    assert hint_text(line) == "搜索“x {0}” (+1 −0, 2 s): 断了 {y}"


def test_the_end_of_a_turn_as_one_text_has_its_doubts_the_sources_that_it_cites_and_what_was_done() -> None:
    pages = (Source(1, "https://a.example/", "Tower", read=True), Source(2, "https://b.example/", "Unused"))
    doubt = Citation(1, "https://a.example/", missing="12 m: not on [1]")
    end = TurnFinished("completed", "12 m [1?].", sources=pages, citations=(doubt,), receipts=("wrote a.md",))
    assert answer_text(end) == (
        "12 m [1?].\n\n- ? 12 m: not on [1]\n\nSources\n\n- [1] Tower (https://a.example/)\n\n✓ wrote a.md"
    )
