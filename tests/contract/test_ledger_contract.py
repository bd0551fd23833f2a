"""What every ledger promises."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from nanobot.cluster.ledger import PostgresLedger
from nanobot.errors import StoreError
from nanobot.messages import AssistantMessage, Text, ToolCall, ToolMessage, UserMessage
from nanobot.session.database import Transaction
from nanobot.session.ledger import MOST_ATTEMPTS, NOTE, SUSPECT_AFTER, Ledger
from nanobot.session.rows import Arrival, Closing, InboxRow, OutboxItem
from nanobot.session.store import EVER
from tests.contract.conftest import HandClock
from tests.fakes.ledger import states

HOME = "telegram:1"


async def accepted(ledger: Ledger, *ids: str) -> tuple[InboxRow, ...]:
    return await ledger.accept(HOME, tuple(Arrival(one, f'{{"update_id": {one}}}', "telegram:7") for one in ids))


def item(turn: str, part: int = 0, payload: str = "{}", not_before: datetime = EVER) -> OutboxItem:
    return OutboxItem(turn, part, HOME, "7", payload, not_before=not_before)


async def test_an_update_is_accepted_once_however_often_it_comes(ledger: Ledger) -> None:
    first = await accepted(ledger, "10", "11")
    assert [(row.id, row.state, row.attempts, row.key) for row in first] == [
        ("10", "new", 0, "telegram:7"),
        ("11", "new", 0, "telegram:7"),
    ]
    assert [row.id for row in await accepted(ledger, "11", "10", "12", "12")] == ["12"]
    await ledger.finish((first[0].seq,))
    assert await accepted(ledger, "10") == ()
    other = await ledger.accept("telegram:2", (Arrival("10", "{}"),))
    assert [row.id for row in other] == ["10"], "another bot counts for itself"


async def test_a_claim_whose_answer_was_lost_is_made_again(ledger: Ledger) -> None:
    first, second = await accepted(ledger, "1", "2")
    rows = (first.seq, second.seq)
    begun = await ledger.claim(rows)
    assert [row.seq for row in begun] == [*rows]
    assert await ledger.claim(rows) == begun
    await ledger.wait(rows)
    assert await ledger.claim(rows) == (), "its work has gone on since"


async def test_a_row_that_the_process_dies_of_again_and_again_is_parked_while_the_others_go_on(ledger: Ledger) -> None:
    bad, good = await accepted(ledger, "1", "2")
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert [row.seq for row in await ledger.claim((bad.seq,))] == [bad.seq]
        assert await ledger.claim((good.seq + 1, bad.seq)) == (), "in another batch nobody may begin it"
        found = await ledger.recover(HOME)  # the process died
        if attempt < MOST_ATTEMPTS:
            assert [(row.id, row.attempts) for row in found.waiting] == [("1", attempt), ("2", 0)]
            assert found.parked == ()
    assert [row.id for row in found.waiting] == ["2"]
    assert [(row.id, row.attempts) for row in found.parked] == [("1", MOST_ATTEMPTS)]
    assert [row.id for row in (await ledger.recover(HOME)).parked] == ["1"], "until it is said, it is to be parked"
    await ledger.bury((bad.seq,), "it came with crashes", (item("parked-1"),))
    assert (await ledger.recover(HOME)).parked == ()
    assert [row.item.turn for row in await ledger.pending(HOME)] == ["parked-1"]
    assert [row.seq for row in await ledger.claim((good.seq,))] == [good.seq]


async def test_a_crash_counts_against_what_was_worked_on_and_not_what_waited_for_its_turn(ledger: Ledger) -> None:
    chats = tuple(Arrival(one, "{}", f"telegram:{9 - int(one)}") for one in "123")
    works, waits, untouched = await ledger.accept(HOME, chats)
    for everybodys in (False, True):
        for row in (works, waits):
            await ledger.claim((row.seq,))
            await ledger.wait((row.seq,))
        assert await ledger.claim((waits.seq,)) == (), "what waits is begun by nobody else"
        await ledger.start((works.seq, untouched.seq))
        assert [row.state for row in await ledger.open_rows(HOME)] == ["claimed", "waiting", "new"]
        found = (await ledger.recover(HOME, everybodys=everybodys)).waiting
    assert [(row.id, row.attempts) for row in found] == [("1", 2), ("2", 0), ("3", 0)]
    await ledger.claim((waits.seq,))
    await ledger.wait((waits.seq,))
    await ledger.finish((waits.seq,))
    assert await states(ledger, "inbox", HOME) == {"new": 2, "done": 1}


async def test_a_row_is_parked_only_for_crashes_in_which_nothing_else_was_worked_on(ledger: Ledger) -> None:
    bad, good, _ = await accepted(ledger, "1", "2", "3")

    async def crash(*batches: tuple[InboxRow, ...]) -> list[int]:
        for batch in batches:
            await ledger.claim(tuple(row.seq for row in batch))
        return [row.attempts for row in (await ledger.recover(HOME)).waiting]

    for most in (1, 2, 2, 2):
        assert await crash((bad,), (good,)) == [most, most, 0], "together they are suspected and no more"
    assert await crash((bad, good)) == [3, 3, 0], "as one message they are alone"
    assert await crash((bad,)) == [4, 3, 0]
    await ledger.claim((bad.seq,))
    await ledger.wait((bad.seq,))
    assert await crash() == [2, 2, 0], "it dies without them too"
    for count in range(SUSPECT_AFTER + 1, MOST_ATTEMPTS):
        assert await crash((bad,)) == [count, 2, 0]
    await ledger.claim((bad.seq,))
    assert [row.id for row in (await ledger.recover(HOME)).parked] == ["1"]
    assert await crash((good,)) == [3, 0]
    assert [row.id for row in (await ledger.recover(HOME)).parked] == ["1"], "also beside others"


async def test_a_row_that_is_given_back_counts_as_not_tried(ledger: Ledger) -> None:
    (row,) = await accepted(ledger, "1")
    for waits in (True, False, True):
        await ledger.claim((row.seq,))
        if waits:
            await ledger.wait((row.seq,))
        await ledger.release((row.seq,))
        (again,) = await ledger.open_rows(HOME)
        assert (again.state, again.attempts) == ("new", 0)


async def test_rows_that_were_begun_together_are_known_as_one_message(ledger: Ledger) -> None:
    first, second, third = await accepted(ledger, "1", "2", "3")
    assert {row.batch for row in (first, second, third)} == {0}
    assert {row.batch for row in await ledger.claim((first.seq, second.seq))} == {first.seq}
    found = (await ledger.recover(HOME)).waiting
    assert [row.batch for row in found] == [first.seq, first.seq, 0]


async def test_done_and_buried_rows_do_not_come_back(ledger: Ledger) -> None:
    first, second, third = await accepted(ledger, "1", "2", "3")
    await ledger.claim((first.seq,))
    await ledger.finish((first.seq,))
    await ledger.bury((second.seq,), "cannot be read")
    await ledger.release((first.seq, second.seq))
    await ledger.bury((first.seq,), "too late", (item("late"),))
    assert await ledger.pending(HOME) == ()
    assert [row.seq for row in (await ledger.recover(HOME)).waiting] == [third.seq]
    assert [row.seq for row in await ledger.open_rows(HOME)] == [third.seq]
    assert await states(ledger, "inbox", HOME) == {"done": 1, "dead": 1, "new": 1}


async def test_an_answer_of_one_key_is_one_message(ledger: Ledger) -> None:
    (row,) = await accepted(ledger, "1")
    (sent,) = await ledger.finish((row.seq,), (item(row.turn, payload='"answer"'),))
    (again,) = await ledger.finish((row.seq,), (item(row.turn, payload='"another answer"'),))
    (same,) = await ledger.put((item(row.turn, payload='"a third answer"'),))
    assert sent == again == same
    assert await begun(ledger) == [("in-1", 0, "new", 0)]
    assert await ledger.due(HOME) == (), "what is being sent is not handed out twice"
    assert not await ledger.begin(sent.seq)


async def begun(ledger: Ledger) -> list[tuple[str, int, str, int]]:
    """Begin to send the first row that is due: its turn, part, state from before and how often it was put off."""
    first = (await ledger.due(HOME))[:1]
    return [(row.item.turn, row.item.part, row.state, row.attempts) for row in first if await ledger.begin(row.seq)]


async def test_delivery_is_postponed_counted_and_acknowledged(ledger: Ledger, clock: HandClock) -> None:
    await ledger.put((item("t", 0), item("t", 1), item("u", 0, not_before=clock.at + timedelta(seconds=60))))
    first, second = await ledger.due(HOME)
    assert await begun(ledger) == [("t", 0, "new", 0)]
    await ledger.ack(first.seq, "501")
    await ledger.postpone(first.seq, clock.at)
    assert [(row.state, row.message_id) for row in await ledger.put((first.item,))] == [("sent", "501")]
    assert not await ledger.begin(first.seq)
    assert await begun(ledger) == [("t", 1, "new", 0)]
    await ledger.postpone(second.seq, clock.at + timedelta(seconds=5), unsure=True)
    assert await ledger.due(HOME) == ()
    clock.forward(seconds=5)
    assert await begun(ledger) == [("t", 1, "unknown", 1)]
    await ledger.fail(second.seq, "the chat is gone")
    await ledger.postpone(second.seq, clock.at)
    clock.forward(seconds=60)
    assert await begun(ledger) == [("u", 0, "new", 0)]
    assert [row.item.turn for row in await ledger.pending(HOME)] == ["u"]
    assert await states(ledger, "outbox", HOME) == {"sent": 1, "failed": 1, "sending": 1}


async def test_only_what_was_being_sent_when_the_process_died_may_have_arrived(ledger: Ledger) -> None:
    await ledger.put((item("t", 0), item("t", 1)))
    assert len(await ledger.due(HOME)) == 2
    assert await begun(ledger) == [("t", 0, "new", 0)]
    await ledger.recover("telegram:2")
    assert await ledger.due(HOME) == (), "the start of another bot says nothing of this one"
    await ledger.recover(HOME)
    assert [(row.item.part, row.state) for row in await ledger.due(HOME)] == [(0, "unknown"), (1, "new")]


async def test_what_is_held_back_keeps_its_chat_back_also_after_a_restart(ledger: Ledger, clock: HandClock) -> None:
    elsewhere = OutboxItem("v", 0, HOME, "8", "{}")
    first, second, _third = await ledger.put((item("t"), item("u"), elsewhere))
    await ledger.begin(first.seq)
    assert [row.item.turn for row in await ledger.due(HOME)] == ["v"], "u waits for what is being sent"
    await ledger.postpone(first.seq, clock.at + timedelta(seconds=30))
    await ledger.recover(HOME)
    assert [row.item.turn for row in await ledger.due(HOME)] == ["v"], "u waits for what is held back"
    assert await ledger.due(HOME, without=["8", "9"]) == ()
    clock.forward(seconds=30)
    assert [(row.item.turn, row.state) for row in await ledger.due(HOME, limit=2)] == [("t", "new"), ("u", "new")]
    await ledger.postpone(second.seq, clock.at + timedelta(seconds=30))
    assert [row.item.turn for row in await ledger.due(HOME)] == ["t", "v"], "what came before goes out"
    await ledger.fail(second.seq, "the chat is gone")
    (last,) = await ledger.put((item("w"),))
    assert [row.item.turn for row in await ledger.due(HOME)] == ["t", "v", "w"], "what is given up holds nothing"
    assert await ledger.begin(last.seq)


async def test_a_message_waits_while_an_earlier_one_there_is_sent_or_held(ledger: Ledger, clock: HandClock) -> None:
    elsewhere = OutboxItem("v", 0, HOME, "8", "{}")
    first, second, other, third = await ledger.put((item("t"), item("u"), elsewhere, item("w")))
    await ledger.begin(first.seq)
    assert not await ledger.begin(second.seq)
    assert await ledger.begin(other.seq)
    await ledger.postpone(third.seq, clock.at + timedelta(seconds=30))
    for unsure in (True, False):
        await ledger.postpone(first.seq, clock.at + timedelta(seconds=30), unsure=unsure)
        assert not await ledger.begin(second.seq), "the first one is to go out before it"
        assert not await ledger.begin(first.seq), "it is too early"
        assert await ledger.due(HOME) == ()
        assert [row.seq for row in await ledger.pending(HOME)] == [first.seq, second.seq, other.seq, third.seq]
    clock.forward(seconds=30)
    assert await ledger.begin(second.seq), "the reply to a command may overtake what nothing holds"
    assert not await ledger.begin(third.seq)


async def test_a_draft_is_not_sent_until_its_text_is_final_and_keeps_its_message(ledger: Ledger) -> None:
    drafted = await ledger.draft(item("t", payload='"so far"'))
    assert drafted is not None
    await ledger.bind(drafted.seq, "77")
    assert await ledger.due(HOME) == ()
    again = await ledger.draft(item("t", payload='"second try"'))
    assert again is not None
    assert (again.seq, again.message_id) == (drafted.seq, "77"), "a turn that runs again finds its message"
    await ledger.finish((), (item("t", payload='"final"'),))
    (row,) = await ledger.due(HOME)
    assert (row.seq, row.state, row.message_id, row.item.payload) == (drafted.seq, "new", "77", '"final"')
    await ledger.ack(row.seq)
    final = await ledger.draft(item("t"))
    assert final is not None
    assert (final.state, final.message_id) == ("sent", "77")


async def test_nothing_new_is_shown_in_a_chat_before_what_earlier_turns_have_said(ledger: Ledger) -> None:
    shown = await ledger.draft(item("t"))
    (said,) = await ledger.put((item("u"),))
    assert await ledger.draft(item("v")) is None
    assert await ledger.draft(replace(item("v"), chat="8")) is not None, "another chat has all of its own"
    assert await ledger.draft(item("t")) == shown, "what stands in the chat grows on"
    assert await ledger.draft(item("t", 1)) is None, "but by no further message"
    assert await ledger.draft(item("u", 1)) is not None, "its own parts are no others"
    await ledger.begin(said.seq)
    assert await ledger.draft(item("w")) is None
    await ledger.postpone(said.seq, said.at, unsure=True)
    assert await ledger.draft(item("w")) is None
    await ledger.ack(said.seq, "77")
    assert await ledger.draft(item("w")) is not None


async def test_what_is_final_goes_where_its_last_word_says(ledger: Ledger, clock: HandClock) -> None:
    await ledger.draft(item("t"))
    last = OutboxItem("t", 0, HOME, "-100", '"final"', "3", clock.at + timedelta(seconds=5))
    assert [row.item for row in await ledger.put((last,))] == [last]
    assert await ledger.due(HOME) == ()
    clock.forward(seconds=5)
    assert [row.item for row in await ledger.due(HOME)] == [last]


async def test_what_belongs_to_another_bot_is_left_alone(ledger: Ledger) -> None:
    theirs, _ = await ledger.accept("telegram:2", (Arrival("1", "{}", "telegram:7"), Arrival("2", "{}")))
    await ledger.claim((theirs.seq,))
    word = OutboxItem("x", 0, "telegram:2", "7", "{}")
    sending, _ = await ledger.put((word, replace(word, part=1)))
    await ledger.begin(sending.seq)
    (mine,) = await accepted(ledger, "1")
    assert await ledger.open_rows(HOME) == (mine,)
    for attempts in (1, 2, 3):
        await ledger.claim((mine.seq,))
        assert [(row.seq, row.attempts) for row in (await ledger.recover(HOME)).waiting] == [(mine.seq, attempts)]
    (said,) = await ledger.put((item("t"),))
    assert await ledger.pending(HOME) == await ledger.due(HOME) == (said,)
    assert await ledger.begin(said.seq)
    await ledger.ack(said.seq)
    assert await ledger.draft(item("u")) is not None
    assert await states(ledger, "inbox", "telegram:2") == {"claimed": 1, "new": 1}
    assert await states(ledger, "outbox", "telegram:2") == {"sending": 1, "new": 1}
    for attempts in range(1, MOST_ATTEMPTS):
        assert (await ledger.recover("telegram:2")).waiting[0].attempts == attempts
        await ledger.claim((theirs.seq,))
    assert [row.seq for row in (await ledger.recover("telegram:2")).parked] == [theirs.seq]
    assert (await ledger.recover(HOME)).parked == ()


async def test_a_draft_without_a_message_may_have_arrived_when_its_text_becomes_final(ledger: Ledger) -> None:
    await ledger.draft(item("t", payload='"so far"'))  # and the process died while it sent this
    await ledger.recover(HOME)
    await ledger.put((item("t", payload='"final"'),))
    assert await begun(ledger) == [("t", 0, "unknown", 0)]


async def test_drafts_of_a_turn_are_known_until_they_are_final_or_forgotten(ledger: Ledger, clock: HandClock) -> None:
    for part in (2, 0, 1):
        await ledger.draft(item("t", part))
    await ledger.draft(item("u"))
    (said,) = await ledger.finish((), (item("t", 0),))
    await ledger.bind((await ledger.drafts("t"))[0].seq, "77")
    assert [(row.item.part, row.message_id) for row in await ledger.drafts("t")] == [(1, "77"), (2, "")]
    assert await ledger.ack(said.seq) == await ledger.drafts("t"), "what is to be taken away is told with the arrival"
    await ledger.fail((await ledger.drafts("t"))[0].seq, "the final text is shorter")
    assert [row.item.part for row in await ledger.drafts("t")] == [2]
    clock.forward(days=8)
    assert await ledger.purge() == 4
    assert await ledger.drafts("t") == ()


async def test_notes_are_changed_together(ledger: Ledger) -> None:
    assert await ledger.note("telegram:1:owner") is None
    await ledger.set_notes({"telegram:1:owner": "42", "telegram:1:user:7": "Ada", "other": "x"})
    await ledger.set_notes({"telegram:1:owner": "43", "telegram:1:user:7": None})
    assert await ledger.note("telegram:1:owner") == "43"
    assert await ledger.notes("telegram:1:") == {"telegram:1:owner": "43"}
    assert await ledger.noted("other", "telegram:1:user:7") == {"other": "x"}
    assert [*await ledger.notes("")] == ["other", "telegram:1:owner"]


async def test_only_what_is_settled_and_old_is_forgotten(ledger: Ledger, clock: HandClock) -> None:
    done, waiting, broken = await accepted(ledger, "1", "2", "3")
    clock.forward(days=1)
    await ledger.finish((done.seq,), (item("t"), item("u"), item("v")))
    await ledger.bury((broken.seq,), "it broke")
    clock.forward(days=1)
    first, _second, third = await ledger.due(HOME)
    await ledger.ack(first.seq, "5")
    await ledger.fail(third.seq, "the chat is gone")
    query = "SELECT reason FROM inbox UNION SELECT reason FROM outbox"
    reasons = await ledger.database.read(lambda db: db.fetch(tuple[str], query))
    assert sorted(reasons) == [("",), ("it broke",), ("the chat is gone",)]
    clock.forward(days=5)
    for forgotten in (0, 0, 2, 2):  # by a day at a time: of the inbox, and of the outbox
        assert await ledger.purge() == forgotten
        clock.forward(days=1)
    assert [row.seq for row in (await ledger.recover(HOME)).waiting] == [waiting.seq]
    assert [row.item.turn for row in await ledger.pending(HOME)] == ["u"]
    assert [row.seq > waiting.seq for row in await accepted(ledger, "1")] == [True], "numbers are never used again"


def said(text: str) -> UserMessage:
    return UserMessage((Text(text),))


async def test_the_end_of_a_turn_its_answer_and_its_row_are_kept_together_or_not_at_all(ledger: Ledger) -> None:
    (row,) = await accepted(ledger, "1")
    session = await ledger.sessions.current("telegram:7")
    await ledger.claim((row.seq,))
    answer, ends = AssistantMessage((Text("the answer"),)), list[str]()
    ledger.settled = lambda: ends.append("settled")

    async def also(db: Transaction) -> None:
        await db.change(NOTE, key="what", value="was done")

    with pytest.raises(StoreError):
        await ledger.finish((row.seq,), (item(row.turn),), Closing("no such session", (answer,), row.turn), also)
    assert await states(ledger, "inbox", HOME) == {"claimed": 1}
    assert (await ledger.pending(HOME), await ledger.note("what"), ends) == ((), None, [])
    await ledger.finish((row.seq,), (item(row.turn),), Closing(session.id, (answer,), row.turn), also)
    assert await states(ledger, "inbox", HOME) == {"done": 1}
    assert (len(await ledger.pending(HOME)), await ledger.note("what"), ends) == (1, "was done", ["settled"])
    assert await ledger.sessions.history(session.id) == (answer,)


async def test_a_turn_that_broke_off_is_found_with_its_intents_and_no_model_sees_these(ledger: Ledger) -> None:
    sessions = ledger.sessions
    session = await sessions.current("telegram:7")
    call = ToolCall("c1", "send_mail", "{}")
    await sessions.append(session.id, (said("before"),), turn="in-1")
    await sessions.append(session.id, (said("do it"), AssistantMessage((call,), "tools")), turn="in-2")
    await sessions.intend(session.id, call, turn="in-2")
    place, records = await sessions.begun("in-2")
    assert place == session.id
    assert [record.kind for record in records] == ["message", "message", "intent"]
    assert [record.seq for record in records] == [2, 3, 4]
    intent = records[-1].message
    assert (intent.role, getattr(intent, "call_id", ""), getattr(intent, "name", "")) == ("tool", "c1", "send_mail")
    assert [message.role for message in await sessions.history(session.id)] == ["user", "user", "assistant"]
    assert [message.text for message in await sessions.history(session.id, size=10**6, before=2)] == ["before"]
    assert (await sessions.current("telegram:7")).messages == 3, "an intent is no message"
    assert await sessions.begun("in-3") == ("", ())
    for number in range(12):
        await sessions.append(session.id, (said("meanwhile"), AssistantMessage((Text("yes"),))), turn=f"t{number}")
        await sessions.start("telegram:7")
    place, records = await sessions.begun("in-2")
    assert (place, [record.seq for record in records]) == (session.id, [2, 3, 4]), "nothing that came later hides it"


async def test_what_a_turn_did_for_a_message_that_it_read_on_its_way_is_found_by_that_message(ledger: Ledger) -> None:
    sessions = ledger.sessions
    session = await sessions.current("telegram:7")
    call = ToolCall("c1", "send_mail", "{}")
    steer = UserMessage((Text('and send it, as "id":"in-9" says'),), "steer", "in-3")
    await sessions.append(session.id, (said("look"), AssistantMessage((ToolCall("c0", "look", ""),))), turn="in-2")
    await sessions.append(session.id, (ToolMessage("c0", "look", (Text("seen"),)), steer), turn="in-2")
    await sessions.append(session.id, (AssistantMessage((call,), "tools"),), turn="in-2")
    await sessions.intend(session.id, call, turn="in-2")
    await sessions.append(session.id, (said("meanwhile"),), turn="t1")
    place, records = await sessions.begun("in-3")
    assert (place, [record.seq for record in records]) == (session.id, [4, 5, 6])
    await sessions.append(session.id, (ToolMessage("c1", "send_mail", (Text("unknown"),)),), turn="in-3")
    assert [record.seq for record in (await sessions.begun("in-3"))[1]] == [4, 5, 6, 8], "its own records follow"
    assert len((await sessions.begun("in-2"))[1]) == 6
    assert await sessions.begun("in-9") == ("", ()), "what a person wrote is no id"


async def test_a_session_is_held_by_one_turn_at_a_time(ledger: Ledger) -> None:
    if isinstance(ledger, PostgresLedger):
        await ledger.enroll()
    sessions = ledger.sessions
    here, elsewhere = await sessions.current("telegram:7"), await sessions.current("telegram:8")
    assert await sessions.database.hold(here.id) == ""
    assert await sessions.database.hold(here.id) != "", "who has it is said"
    assert await sessions.database.hold(elsewhere.id) == ""
    await sessions.database.drop(here.id)
    assert await sessions.database.hold(here.id) == ""


async def test_a_lease_has_one_holder_until_it_ends(ledger: Ledger, clock: HandClock) -> None:
    assert await ledger.hold("poller", "a", 10)
    assert not await ledger.hold("poller", "b", 10)
    clock.forward(seconds=6)
    assert await ledger.hold("poller", "a", 10), "renewed"
    clock.forward(seconds=6)
    assert not await ledger.hold("poller", "b", 10)
    clock.forward(seconds=4)
    assert await ledger.hold("other", "b", 9)
    assert await ledger.hold("poller", "b", 10)
    assert not await ledger.hold("poller", "a", 10)
    clock.forward(days=7, seconds=10)
    await ledger.purge()
    left = "SELECT name FROM lease WHERE name IN ('poller', 'other')"
    assert await ledger.database.read(lambda db: db.fetch(tuple[str], left)) == (("poller",),)
