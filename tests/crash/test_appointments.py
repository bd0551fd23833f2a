"""kill -9 while a reminder and a task are served: both come, once, or again with the mark of a possible repeat."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from nanobot.schedule.job import JobKind, Once, ScheduledJob
from nanobot.schedule.store import JobStore
from nanobot.session.ledger import Ledger
from nanobot.session.sqlite import SqliteDatabase
from tests.channels.telegram.gateway import OWNER, furnished
from tests.crash.test_single_kills import settled
from tests.fakes.crash.nursery import Nursery
from tests.fakes.crash.points import Kind, Plan
from tests.fakes.telegram_server import TelegramServer
from tests.fakes.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
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
