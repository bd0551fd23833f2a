"""kill -9 at resumptions, SQL statements, commits and system calls of conversations and appointments."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.schedule.job import JobKind, Once, ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from tests.channels.telegram.gateway import OWNER, furnished
from tests.crash.rounds import Start, places, planned_all, survive_all
from tests.crash.stage import Stage
from tests.crash.test_single_kills import settled
from tests.fakes.crash import strace
from tests.fakes.crash.nursery import Life, Nursery
from tests.fakes.crash.points import KINDS, Kind, Plan
from tests.fakes.llm_server import Reply
from tests.fakes.telegram_server import TelegramServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
#: Of each kind of place an ordinary run takes one in so many: most of those where the most is written down.
STEPS: dict[Kind, int] = {"step": 24, "sql": 12, "commit": 4}


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.crash_all)])
async def test_kill_points_are_survived(nursery: Nursery, tmp_path: Path, tried: list[str], everywhere: bool) -> None:
    found = await places(nursery, tmp_path / "count")
    assert len(found) >= 800, "the places of a whole run"
    taken = [plan for plan in found if everywhere or plan.at % STEPS[plan.kind] == 0]
    assert {plan.kind for plan in taken} == {*KINDS}
    outcome = await survive_all(nursery, tmp_path, planned_all(nursery, taken))
    tried.append(f"{len(taken)} of {len(found)} kill points: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills >= len(taken) * 0.9, outcome


#: How often a thread makes each call while three messages are answered, at least, and the step of an ordinary run.
CALLS = {"fdatasync": (18, 6), "pwrite64": (220, 55), "sendto": (48, 12)}
needs_strace = pytest.mark.skipif(strace.STRACE is None, reason=strace.MISSING)


def killed_at(call: str, at: int) -> Start:
    async def start(stage: Stage) -> Life:
        return await strace.start(stage.nursery, stage.home, "gateway", inject=strace.killing(call, at))

    return start


@needs_strace
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.crash_all)])
async def test_kills_at_system_calls_are_survived(
    nursery: Nursery, tmp_path: Path, tried: list[str], everywhere: bool
) -> None:
    starts = {
        f"{call}-{at}": killed_at(call, at)
        for call, (most, step) in CALLS.items()
        for at in (range(1, most + 1) if everywhere else range(step, most, step))
    }
    outcome = await survive_all(nursery, tmp_path, starts)
    tried.append(f"at {len(starts)} system calls: {outcome}")
    assert not outcome.problems, "\n".join(outcome.problems)
    assert outcome.kills - outcome.second_kills >= len(starts) * 0.8, outcome


async def test_U65_a_retry_whose_gateway_is_killed_asks_the_same_question_once_more_in_one_branch(
    nursery: Nursery, tmp_path: Path
) -> None:
    never = Reply("Never told.", delay=600)
    script = ("Hello.", "A first try.", never)
    async with furnished(tmp_path, *script, after="A second try.") as (telegram, llm, ada, home):
        first = await nursery.start(home, "gateway")
        for question, answer in (("good day", "Hello."), ("plan it", "A first try.")):
            await ada.asks(question, answer)
        ada.say("/retry")
        await llm.asked(3)
        await first.kill()
        await nursery.start(home, "gateway")
        await telegram.shows(OWNER, "A second try.")
        await settled(home)
    ledger = Ledger(SqliteDatabase(home.home / "nanobot.db"))
    sessions = await ledger.sessions.list(f"telegram:{OWNER}")
    shown = await ledger.sessions.history((await ledger.sessions.current(f"telegram:{OWNER}")).id)
    await ledger.sessions.aclose()
    assert len(sessions) == 2
    assert [one.text for one in shown if one.content] == ["good day", "Hello.", "plan it", "A second try."]


async def test_U70_a_picker_whose_gateway_is_killed_is_shown_anew_and_works(nursery: Nursery, tmp_path: Path) -> None:
    async with furnished(tmp_path, after="Hello.") as (telegram, _, ada, home):
        first = await nursery.start(home, "gateway")
        await ada.asks("good day", "Hello.")
        await ada.asks("/rewind", "Go back to before which question?")
        await first.kill()
        await nursery.start(home, "gateway")
        await telegram.until(lambda: sum("Go back to" in line for line in telegram.visible(OWNER)) == 2)
        newest = [message for message in telegram.chats[OWNER] if message.buttons][-1]
        await ada.presses(newest.buttons[0], "You are back before that question")
        await settled(home)


ANSWER, REMINDER = "All quiet.", "⏰ stretch"


async def due_now(home: Path) -> None:
    """A reminder and a task that are due at the start."""
    ledger, at = Ledger(SqliteDatabase(home / "nanobot.db")), datetime.now(UTC)
    kinds: tuple[tuple[JobKind, str], ...] = (("remind", "stretch"), ("ask", "look around"))
    for kind, text in kinds:
        person = f"telegram:{OWNER}"
        job = ScheduledJob(kind=kind, text=text, when=Once(at), zone="UTC", person=person, chat=person)
        made = await JobStore(ledger).add(job, at)
        await JobStore(ledger).change((made.id,), lambda one: replace(one, due=at, at=at))
    await ledger.aclose()


@pytest.mark.parametrize(("kind", "at"), [*(("commit", at) for at in (3, 6, 9, 15)), ("sql", 40), ("sql", 100)])
async def test_U22_a_kill_at_any_moment_loses_no_appointment_and_makes_none_twice(
    nursery: Nursery, tmp_path: Path, kind: Kind, at: int
) -> None:
    async with furnished(tmp_path, after=ANSWER) as (telegram, _, ada, home):
        await due_now(home.home)
        first = await nursery.start(home, "gateway", plan=Plan(kind, at))
        await until(lambda: bool(first.over or all(came(telegram, ada.chat, one) for one in (ANSWER, REMINDER))))
        await first.kill()
        await nursery.start(home, "gateway")
        await telegram.until(lambda: all(came(telegram, ada.chat, one) for one in (ANSWER, REMINDER)))
        await settled(home)
        for text in (ANSWER, REMINDER):
            lines = [line for line in telegram.visible(ada.chat) if text in line]
            assert lines
            assert len([line for line in lines if "↻" not in line]) <= 1, lines


def came(telegram: TelegramServer, chat: int, text: str) -> bool:
    return any(text in line for line in telegram.visible(chat))
