"""Any history becomes legal, and a legal one stays as it is."""

import statistics
import sys
from collections import Counter
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from nanobot.agent.context import estimate_all
from nanobot.agent.history import Past, flatten, forget_failures, normalize, recap, seen_by
from nanobot.agent.turn import TurnLimits
from nanobot.messages import (
    AssistantMessage,
    AssistantPart,
    Media,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
    UserPart,
)
from nanobot.providers.scripted import Call, ScriptedProvider
from nanobot.results import error_result
from nanobot.session.store import Record
from tests.agent.harness import FakeTool, agent, message
from tests.agent.legal import assert_legal

IDS = st.sampled_from(["", "a", "b", "c"])
TEXTS = st.sampled_from(["", " ", "\n", "word", "two words"]).map(Text)
ARGUMENTS = st.sampled_from(["", "{}", '{"q": "x"}', '{"q": "x', "[1]", "null", "[" * 5_000])
CALLS = st.builds(ToolCall, IDS, st.sampled_from(["", "web_search", "web_fetch"]), ARGUMENTS)
THOUGHTS = st.builds(Thinking, st.just("hm"), st.just(""), st.sampled_from(["", "chat", "messages"]))
USER_PARTS: st.SearchStrategy[UserPart] = TEXTS | st.just(Media("a.png", "image/png"))
ASSISTANT_PARTS: st.SearchStrategy[AssistantPart] = TEXTS | CALLS | THOUGHTS
MESSAGES: st.SearchStrategy[Message] = (
    st.builds(UserMessage, st.lists(USER_PARTS, max_size=3).map(tuple))
    | st.builds(AssistantMessage, st.lists(ASSISTANT_PARTS, max_size=4).map(tuple))
    | st.builds(ToolMessage, IDS, st.sampled_from(["web_search", "x"]), st.lists(USER_PARTS, max_size=2).map(tuple))
)
ASKED = UserMessage((Text("and?"),))


def turn(number: int) -> list[Message]:
    """A well-made turn: a question, two calls at once, their results, an answer."""
    one, two = f"{number}a", f"{number}b"
    return [
        UserMessage((Text(f"question {number}"),)),
        AssistantMessage((Thinking("hm", "{}", "chat"), ToolCall(one, "web_search", "{}"), ToolCall(two, "web_fetch"))),
        ToolMessage(one, "web_search", (Text("found"),)),
        ToolMessage(two, "web_fetch", (Text("read"),)),
        AssistantMessage((Text(f"answer {number}"),)),
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, max_size=14))
def test_U03_any_history_becomes_legal(history: list[Message]) -> None:
    assert_legal(normalize([*history, ASKED]))


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGES, max_size=14))
def test_a_legal_history_stays_as_it_is(history: list[Message]) -> None:
    once = normalize([*history, ASKED])
    assert normalize(once) == once


@settings(max_examples=150, deadline=None)
@given(st.lists(MESSAGES, max_size=14))
def test_a_told_history_has_neither_calls_nor_results(history: list[Message]) -> None:
    told = flatten([*history, ASKED])
    assert_legal(told)
    assert not [item for item in told if isinstance(item, ToolMessage) or (item.role == "assistant" and item.calls)]


def records(messages: list[Message]) -> list[Record]:
    return [Record(seq, "message", one, "", datetime.now(UTC)) for seq, one in enumerate(messages, 1)]


@settings(max_examples=300, deadline=None)
@given(st.lists(MESSAGES, max_size=14), st.integers(0, 14))
def test_what_was_said_before_is_legal_and_the_same_whether_it_came_at_once_or_later(
    history: list[Message], place: int
) -> None:
    everything = records([UserMessage((Text("first"),)), *history])
    whole, later = Past("s", "user"), Past("s", "user")
    whole.add(everything)
    assert_legal((*whole.messages, *normalize([*whole.rest, ASKED])))
    later.add(everything[:place])
    if later.goes_on_with(everything[place:]):
        later.add(everything[place:])
        assert (later.messages, later.rest, later.tokens) == (whole.messages, whole.rest, whole.tokens)


def test_what_goes_on_with_an_earlier_turn_is_told_from_a_new_one() -> None:
    question, asked, first, _, answer = turn(0)
    past = Past()
    past.add(records([question, asked, first]))
    assert past.goes_on_with(records(turn(1)))
    assert not past.goes_on_with(records([answer]))
    assert not past.goes_on_with([Record(4, "compaction", question, "", datetime.now(UTC))])


def test_what_was_said_before_grows_at_its_end_and_goes_in_jumps() -> None:
    past, jumps = Past(), 0
    before: tuple[Message, ...] = ()
    for number in range(60):
        past.add(records(list(turn(number))))
        past.fit(600)
        jumps += past.messages[: len(before)] != before
        before = past.messages
        assert past.tokens == estimate_all(before) <= 600
    assert 1 < jumps < 20


async def test_a_turn_of_a_long_chat_does_no_more_than_one_of_a_short_chat() -> None:
    provider = ScriptedProvider(after=lambda _: "That is so.")
    costs = []
    async with agent(provider) as box:
        for _ in range(100):
            made = Counter[str]()
            sys.setprofile(lambda _frame, event, _value: made.update([event]))  # noqa: B023 - ends with this turn
            await box.loop.process(message("what?"))
            sys.setprofile(None)
            costs.append(made["call"] + made["c_call"])
    assert len(provider.requests[-1].messages) == 199
    assert statistics.median(costs[80:]) < 1.1 * statistics.median(costs[10:30])


def test_U03_a_history_that_was_cut_after_any_record_is_legal() -> None:
    whole = [message for number in range(3) for message in turn(number)]
    assert normalize([*whole, ASKED]) == (*whole, ASKED)
    for length in range(1, len(whole) + 1):
        for start in range(length):
            assert_legal(normalize([*whole[start:length], ASKED]))
        assert_legal(normalize(whole[:length]))


def test_an_open_call_is_answered_as_interrupted() -> None:
    question, asked, first, *_ = turn(0)
    made = normalize([question, asked, first, ASKED])
    assert made[:3] == (question, asked, first)
    second = made[3]
    assert isinstance(second, ToolMessage)
    assert (second.call_id, second.error) == ("0b", "cancelled")
    assert "interrupted" in second.text


def test_results_are_put_in_the_order_of_the_calls_and_strays_are_left_out() -> None:
    question, asked, first, second, answer = turn(0)
    stray = ToolMessage("zz", "web_search", (Text("stray"),))
    assert normalize([question, asked, second, stray, first, first, answer, stray, ASKED]) == (
        question,
        asked,
        first,
        second,
        answer,
        ASKED,
    )


def test_failures_that_pass_are_forgotten_and_everything_else_is_kept() -> None:
    def step(name: str, error: str, number: int) -> tuple[AssistantMessage, ToolMessage]:
        call = ToolCall(f"c{number}", name, "{}")
        return AssistantMessage((call,), "tools"), ToolMessage(call.id, name, (Text(f"{name} {error}"),), error)

    passing = [step(*row) for row in (("web_search", "network", 1), ("FetchURL", "rate_limited", 2))]
    lasting = [step(*row) for row in (("web_fetch", "http_status", 3), ("exec", "timeout", 4), ("web_search", "", 5))]
    both = AssistantMessage((Thinking("hm", "sig"), Text("Both."), ToolCall("a", "web_search"), ToolCall("b", "exec")))
    answers = (ToolMessage("a", "web_search", (Text("x"),), "timeout"), ToolMessage("b", "exec", (Text("ok"),)))
    history = [UserMessage((Text("go"),)), *(item for pair in (*passing, *lasting) for item in pair), both, *answers]
    kept = forget_failures(history)
    assert [item.text for item in kept if isinstance(item, ToolMessage)] == [
        "web_fetch http_status",
        "exec timeout",
        "web_search ",
        "ok",
    ]
    assert kept[-2] == AssistantMessage((Text("Both."), ToolCall("b", "exec")))
    assert normalize(kept) == kept


async def test_after_twenty_failed_searches_the_next_turn_knows_of_none() -> None:
    calls = [Call("web_search", {"query": f"cats {number}"}) for number in range(20)]
    provider = ScriptedProvider([*calls, "No luck.", "Fine."])
    tool = FakeTool(answer=lambda _args: error_result("network", "the engine is down"))
    async with agent(provider, tool, limits=TurnLimits(max_steps=30)) as box:
        await box.ask("cats?")
        await box.ask("and dogs?")
        stored = await box.history()
    shown = str(provider.requests[-1].messages)
    assert "engine is down" not in shown
    assert "web_search" not in shown
    assert "No luck." in shown
    assert "engine is down" in str(stored), "the record is whole"


def test_U65_the_end_of_a_conversation_is_told_short_without_links_and_without_what_others_may_not_read() -> None:
    done = AssistantMessage(
        (Text("See [this](https://evil.example/?q=1) and a.example/x. " + "long " * 400),),
        receipts=tuple(f"wrote {n}.md" for n in range(9)),
        unbacked=("Nothing was sent.",),
    )
    old: list[Message] = [UserMessage((Text("old"),)), AssistantMessage((Text("older"),))]
    mine: list[Message] = [UserMessage((Text("ask *me*"),), speaker="user"), AssistantMessage((Text("yours"),))]
    told = recap([*old, UserMessage((Text("do it"),)), done, *mine])
    assert told.startswith("**You:** do it\n\nSee \\[this\\](`https://evil.example/?q=1)` and `a.example/x.` long long")
    assert "☑ wrote 8.md\\\n❓ Nothing was sent.\n\n**You:** ask \\*me\\*\n\nyours" in told
    assert len(told) < 1_500
    assert recap(seen_by("user", [*old, *mine], shared=False)) == "**You:** ask \\*me\\*\n\nyours"
    assert recap([]) == ""
