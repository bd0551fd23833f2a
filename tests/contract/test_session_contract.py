"""What every session store promises."""

import sqlite3
from datetime import timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Media, Message, Text, Thinking, ToolCall, ToolMessage, Usage, UserMessage
from nanobot.session.ledger import Ledger
from nanobot.session.listing import SessionHolder, entries_of, entry_of
from nanobot.session.removal import helper_name, remove_session, unmentioned
from nanobot.session.store import SessionStore
from tests.contract.conftest import HandClock

CONVERSATION: tuple[Message, ...] = (
    UserMessage((Text("look at this"), Media("media/a.png", "image/png", "a.png", 12)), kind="steer"),
    AssistantMessage(
        (Thinking("hm", '{"signature": "x"}', "messages"), ToolCall("1", "web_search", '{"query": "ä"}', replay="{}")),
        "tools",
        "model-x",
        Usage(input=10, output=2, cached=5, cost=0.25, requests=1),
    ),
    ToolMessage("1", "web_search", (Text("nothing"),), "no_content", untrusted=True),
    AssistantMessage((Text("Nothing there."),)),
)


@pytest.fixture
def store(ledger: Ledger, clock: HandClock) -> SessionStore:
    clock.step = timedelta(microseconds=1)
    return ledger.sessions


async def test_messages_come_back_as_they_were_appended(store: SessionStore) -> None:
    session = await store.current("terminal:me")
    await store.append(session.id, CONVERSATION[:2], turn="t1")
    await store.append(session.id, CONVERSATION[2:], turn="t1")
    assert await store.history(session.id) == CONVERSATION
    records = await store.transcript(session.id)
    assert [record.seq for record in records] == [1, 2, 3, 4]
    assert await store.transcript(session.id, after=1, limit=2) == records[1:3]
    assert {(record.kind, record.turn) for record in records} == {("message", "t1")}
    assert all(record.at.utcoffset() is not None for record in records)


async def test_a_key_keeps_its_session_until_a_new_one_starts(store: SessionStore) -> None:
    first = await store.current("a")
    assert (await store.current("a")).id == first.id
    assert (await store.current("b")).id != first.id
    await store.append(first.id, CONVERSATION)
    fresh = await store.start("a", "second")
    assert (await store.current("a")).id == fresh.id
    assert (fresh.title, fresh.messages) == ("second", 0)
    assert await store.history(first.id) == CONVERSATION
    assert (await store.resume("a", first.id)).messages == 4
    assert (await store.current("a")).id == first.id


async def test_a_session_is_found_by_an_unambiguous_prefix_only(store: SessionStore) -> None:
    made = [await store.start("a") for _ in range(17)]  # hexadecimal: two of them begin alike
    firsts = [session.id[0] for session in made]
    shared = next(first for first in firsts if firsts.count(first) > 1)
    with pytest.raises(StoreError, match=f"fits {firsts.count(shared)} sessions"):
        await store.resume("a", shared)
    with pytest.raises(StoreError, match="no session 'zzz'"):
        await store.resume("a", "zzz")
    with pytest.raises(StoreError, match="no session ''"):
        await store.resume("a", "")
    assert (await store.resume("a", made[1].id[:-1])).id == made[1].id


async def compacted(store: SessionStore, session_id: str, summary: Message) -> None:
    """Write a compaction as another version of nanobot does; the format has it, this version only reads it."""
    await store.database.run(lambda db: store.add(db, session_id, "compaction", (summary,), "t2"))


async def test_U65_a_branch_copies_what_is_shown_up_to_a_record_once_for_a_request_and_costs_nothing(
    store: SessionStore,
) -> None:
    parent = await store.start("terminal:me", "boats")
    paid = AssistantMessage((Text("Noted."),), usage=Usage(input=10, output=5, cost=1.0, requests=1))
    for number in range(3):
        await store.append(
            parent.id, (UserMessage((Text(f"Fact {number}"),), id=f"m{number}"), paid), turn=f"t{number}"
        )
    spent, (first, *_) = await store.spent(), await store.transcript(parent.id)
    made = await store.branch(parent, "winter", before=5, request="telegram:5")
    again = await store.branch(made.info, "other", request="telegram:5")
    assert [one.text for one in await store.history(made.info.id)] == ["Fact 0", "Noted.", "Fact 1", "Noted."]
    assert (again.info.id, again.parent, again.before, again.fresh) == (made.info.id, parent.id, 5, False)
    assert (await store.current("terminal:me")).id == made.info.id
    assert (await store.current("terminal:me")).messages == 4
    assert await store.spent() == spent
    assert (await store.transcript(made.info.id))[0].at == first.at
    assert (await store.begun("t0"))[0] == (await store.begun("m0"))[0] == parent.id, "a turn is found where it was"
    assert len(await store.history(parent.id)) == 6


async def test_U65_a_branch_from_before_a_question_that_a_later_summary_has_kept_begins_with_the_summary(
    store: SessionStore,
) -> None:
    parent = await store.start("terminal:me", "boats")
    for number in range(3):
        fact = UserMessage((Text(f"Fact {number}"),))
        await store.append(parent.id, (fact, AssistantMessage((Text("Noted."),))), turn=f"t{number}")
    await store.compact(parent.id, UserMessage((Text("Fact 0, in short."),), kind="notice"), 3)
    made = await store.branch(parent, "winter", before=5)
    shown = [one.text for one in await store.history(made.info.id)]
    assert shown == ["Fact 0, in short.", "Fact 1", "Noted."]


async def test_a_compaction_hides_what_came_before_and_deletes_nothing(store: SessionStore) -> None:
    session = await store.current("a")
    await store.append(session.id, CONVERSATION)
    summary = UserMessage((Text("Before: they looked at a picture."),), kind="notice")
    await compacted(store, session.id, summary)
    later = UserMessage((Text("and now?"),))
    await store.append(session.id, (later,))
    assert await store.history(session.id) == (summary, later)
    records = await store.transcript(session.id)
    assert [record.kind for record in records] == ["message"] * 4 + ["compaction", "message"]
    assert (await store.current("a")).messages == 5


async def test_sessions_are_listed_newest_first_and_named_by_first_words_until_renamed(store: SessionStore) -> None:
    old, other, new = await store.start("a"), await store.start("b"), await store.start("a")
    assert [item.id for item in await store.list("a")] == [new.id, old.id]
    assert {item.id for item in await store.list()} == {old.id, other.id, new.id}
    for title in ("what is it?", "and that?"):
        await store.append(old.id, CONVERSATION, title=title)
        assert [(item.id, item.title) for item in await store.list("a", limit=1)] == [(old.id, "what is it?")]
    await store.rename(old.id, "the picture")
    assert (await store.list("a"))[0].title == "the picture"


async def test_an_unknown_session_is_refused_and_nothing_is_made(store: SessionStore) -> None:
    for attempt in (store.history("nope"), store.transcript("nope"), store.append("nope", CONVERSATION)):
        with pytest.raises(StoreError, match="no session 'nope'"):
            await attempt
    with pytest.raises(StoreError):
        await store.rename("nope", "x")
    assert await store.list() == ()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text())
async def test_any_text_survives(store: SessionStore, text: str) -> None:
    session = await store.start("a")
    message = AssistantMessage((Text(text), ToolCall("1", text, text)))
    await store.append(session.id, (message,))
    assert await store.history(session.id) == (message,)


async def test_what_was_spent_is_counted_by_quarter_hour_key_and_session(store: SessionStore, clock: HandClock) -> None:
    begin = clock.at
    assert await store.spent(begin) == Usage()
    for key in ("a", "a", "b"):
        session = await store.start(key)
        await store.append(session.id, CONVERSATION)
    assert await store.spent(begin) == Usage(input=30, output=6, cached=15, cost=0.75, requests=3)
    assert await store.spent(begin, key="a") == Usage(input=20, output=4, cached=10, cost=0.5, requests=2)
    assert await store.spent(session=session.id) == Usage(input=10, output=2, cached=5, cost=0.25, requests=1)
    assert (await store.spent(begin + timedelta(minutes=7))).requests == 3, "from the begin of its quarter of an hour"
    clock.at += timedelta(minutes=8)
    assert await store.spent(clock.at) == Usage()
    await store.append(session.id, CONVERSATION)
    assert (await store.spent(clock.at)).requests == 1
    elsewhere = begin.astimezone(timezone(timedelta(hours=-9)))
    assert (await store.spent(elsewhere, key="b")).requests == 2
    assert (await store.spent(session=session.id)).requests == 2


async def test_U35_what_was_spent_is_told_apart_by_model_chat_person_and_cause(
    store: SessionStore, clock: HandClock
) -> None:
    begin = clock.at
    for key, model, person, cause, cost in (
        ("telegram:1", "large", "telegram:1", "chat", 0.5),
        ("telegram:1", "large", "telegram:1", "chat", 0.25),
        ("telegram:1", "small", "telegram:1", "helper", 0.125),
        ("telegram:-9", "small", "telegram:2", "schedule", 0.0),
    ):
        usage = Usage(input=10, output=2, cost=cost, requests=1, unpriced=0 if cost else 12)
        one = AssistantMessage((Text("so"),), model=model, usage=usage, person=person, cause=cause)
        await store.append((await store.current(key)).id, (one,))
    large = Usage(input=20, output=4, cost=0.75, requests=2)
    small, last = Usage(input=10, output=2, cost=0.125, requests=1), Usage(input=10, output=2, requests=1, unpriced=12)
    assert await store.spending("model", begin) == (("large", large), ("small", small + last))
    assert await store.spending("chat", begin) == (("telegram:1", large + small), ("telegram:-9", last))
    assert await store.spending("person", begin) == (("telegram:1", large + small), ("telegram:2", last))
    assert await store.spending("cause", begin) == (("chat", large), ("helper", small), ("schedule", last))
    assert await store.spending("model", begin, person="telegram:2") == (("small", last),)
    assert await store.spent(begin, person="telegram:1") == large + small
    assert await store.spending("cause", begin, begin) == (), "until is left out"
    clock.forward(minutes=20)
    assert await store.spending("cause", clock.at) == ()
    assert await store.spent(begin, clock.at) == large + small + last


async def test_U67_a_deleted_session_is_gone_with_its_helpers_and_what_it_cost_is_still_counted(
    store: SessionStore, clock: HandClock
) -> None:
    call = ToolCall("1", "spawn", '{"task": "look after it"}')
    ask = (UserMessage((Text("look"),)), AssistantMessage((call,), "tools", "model-x", Usage(cost=0.5, requests=1)))
    session, other = await store.start("terminal:me"), await store.start("terminal:me", once=True)
    helper = await store.current(f"helper:{helper_name('t1', call, 'look after it')}")
    await store.append(session.id, ask, turn="t1")
    await store.append(helper.id, (UserMessage((Text("a part of it"),)),), turn="h1")
    await store.append(other.id, (UserMessage((Text("another one"),)),))
    await store.database.hold(session.id)
    with pytest.raises(StoreError, match="A turn runs in this session"):
        await remove_session(store, session.id, clock())
    await store.database.drop(session.id)
    (listed,) = await entries_of(store, SessionHolder(""))
    assert (listed.info.id, listed.cost, listed.first) == (session.id, 0.5, "look")
    assert (await entry_of(store, SessionHolder(""), other.id[:9])).info.id == other.id
    gone = await remove_session(store, session.id, clock())
    assert gone.sessions == (session.id, helper.id)
    assert "look after it" in gone.text
    assert await unmentioned(store, ["another one", "look after it"]) == ("look after it",)
    for name in gone.sessions:
        with pytest.raises(StoreError, match="There is no session"):
            await store.history(name)
    assert (await store.spent()).cost == 0.5
    assert (await store.spent(key="terminal:me")).cost == 0.5
    assert await entries_of(store, SessionHolder("")) == ()
    assert [one.info.id for one in await entries_of(store, SessionHolder(""), everything=True)] == [other.id]
    with pytest.raises((StoreError, sqlite3.IntegrityError), match="append-only"):
        await store.database.run(lambda db: db.change("DELETE FROM record"))
    await remove_session(store, other.id, clock())
    assert (await store.current("terminal:me")).messages == 0
