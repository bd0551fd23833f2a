"""The machine loses power: what the ledger has called safe is there again, whatever the disk had not written yet."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from nanobot.messages import AssistantMessage, Text, ToolCall, UserMessage
from nanobot.session.ledger import Ledger
from nanobot.session.rows import Arrival, Closing, OutboxItem
from nanobot.session.sqlite import SqliteDatabase
from tests.crash.power import Losses, judge, record, traced

CHANNEL = "telegram:1"


async def busy_day(path: Path, turns: int) -> list[str]:
    """What the ledger and the sessions do for some turns, as statements."""
    with traced() as statements:
        database = SqliteDatabase(path)
        ledger = Ledger(database)
        for number in range(turns):
            await turn(ledger, number)
        await ledger.set_notes({"owner": "4242"})
        await ledger.purge()
        await database.aclose()
    return statements


async def turn(ledger: Ledger, number: int) -> None:
    """One message from its arrival to the delivery of its answer."""
    (row,) = await ledger.accept(CHANNEL, (Arrival(f"u{number}", '{"text": "' + "word " * 200 + '"}'),))
    await ledger.claim((row.seq,))
    session = await ledger.sessions.current(f"chat-{number % 3}")
    call = ToolCall("c1", "note", "{}")
    await ledger.sessions.append(session.id, (UserMessage((Text("question " * 50),)),), turn=row.turn)
    await ledger.sessions.append(session.id, (AssistantMessage((call,)),), turn=row.turn)
    await ledger.sessions.intend(session.id, call, turn=row.turn)
    item = OutboxItem(row.turn, 0, CHANNEL, "7", "{}" + "answer " * 80)
    answer = AssistantMessage((Text("answer " * 80),))
    (out,) = await ledger.finish((row.seq,), (item,), Closing(session.id, (answer,), row.turn))
    await ledger.begin(out.seq)
    await ledger.ack(out.seq, "99")


def losses(statements: Sequence[str], tmp_path: Path, *, step: int, weak: bool = False) -> Losses:
    folder, images = tmp_path / "disk", tmp_path / "images"
    folder.mkdir()
    images.mkdir()
    recording = record(statements, folder / "nanobot.db", weak=weak)
    assert sum(one.durable for one in recording.commits) >= 10, "commits that were promised to be safe"
    return judge(recording, images, step=step)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize(("turns", "step"), [(4, 8), pytest.param(16, 1, marks=pytest.mark.crash_all)])
async def test_a_power_loss_costs_no_promised_commit(tmp_path: Path, tried: list[str], turns: int, step: int) -> None:
    found = losses(await busy_day(tmp_path / "traced.db", turns), tmp_path, step=step)
    tried.append(f"{found.images} images after a loss of power: {found.lost} with losses, {len(found.damaged)} damaged")
    assert not found.damaged, found.damaged[:5]
    assert not found.lost
    assert found.images >= 200


async def test_the_same_images_show_losses_where_the_log_is_not_synced(tmp_path: Path, tried: list[str]) -> None:
    found = losses(await busy_day(tmp_path / "traced.db", 4), tmp_path, step=16, weak=True)
    tried.append(f"with synchronous=NORMAL {found.lost} of {found.images} images have lost a promised commit")
    assert found.lost > found.images / 10
