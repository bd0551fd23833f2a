"""Whatever stands in an update: the program lives, nothing of it waits for ever, and the others are served."""

import asyncio
import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from loguru import logger
from msgspec import Struct, field

from nanobot.channels.telegram.bot import CommandMenu, TelegramLine
from nanobot.channels.telegram.read.intake import TelegramIntake
from nanobot.channels.telegram.read.media import MediaFolder
from nanobot.channels.telegram.settings import TelegramSettings
from nanobot.command.builtin import builtin_router
from nanobot.session.ledger import Ledger
from nanobot.session.rows import INBOX, InboxRow
from nanobot.session.sqlite import MemoryDatabase
from nanobot.web.client import trusted_client
from tests.channels.harness import small_agent
from tests.channels.telegram.gateway import OWNER
from tests.channels.telegram.odd_updates import odd_updates
from tests.channels.telegram.test_inbox import CHANNEL, inbox_over, update
from tests.fakes.telegram_server import TOKEN, Json, TelegramServer

STRANGERS = tuple(range(90, 120))
KNOWN, ASKERS = (OWNER, *range(11, 60)), tuple(range(60, 65))
#: Updates of one life of the inbox; a batch of a poll has 100.
ROUND, BATCH = 500, 100


class Outcome(Struct):
    """What became of the updates: states of their rows, reasons of those set aside, and what went wrong."""

    states: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


@contextmanager
def watched(outcome: Outcome) -> Iterator[None]:
    """Errors that nobody awaits are problems. The log, which would hold every update, is kept quiet."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: outcome.problems.append(str(context)))
    logger.disable("nanobot")
    try:
        yield
    finally:
        gc.collect()
        loop.set_exception_handler(None)
        logger.enable("nanobot")


async def one_round(server: TelegramServer, updates: list[Json], folder: Path, outcome: Outcome) -> None:
    """Batches of odd updates, each with a question of the owner, which is answered."""
    ledger = Ledger(MemoryDatabase())
    first = int(str(updates[0]["update_id"]))
    questions = []
    await ledger.set_notes({f"{CHANNEL}:owner": str(OWNER), f"{CHANNEL}:group:-100": "Friends"})
    async with small_agent(["Fine."] * ROUND, store=ledger.sessions) as agent, trusted_client() as client:
        line = TelegramLine(TelegramSettings(TOKEN, base_url=f"{server.url}/bot"))
        intake = TelegramIntake(line, MediaFolder(folder, client), overheard=3)
        offer_menu = CommandMenu(line, builtin_router(), ledger).offer
        inbox = inbox_over(ledger, line, intake, agent, *KNOWN, *ASKERS, offer_menu=offer_menu)
        for start, asker in zip(range(0, len(updates), BATCH), ASKERS, strict=True):
            question = update(10**9 + first + start, asker, "a plain question")
            questions.append(str(question["update_id"]))
            await inbox.accept([*updates[start : start + BATCH], question])
        await inbox.aclose(60)
        await line.aclose()
    rows = {row.id: row for row in await ledger.database.read(lambda db: db.fetch(InboxRow, INBOX))}
    answered = {row.item.turn for row in await ledger.pending(CHANNEL)}
    outcome.problems += [f"question {one} got no answer" for one in questions if rows[one].turn not in answered]
    outcome.problems += [row.payload for row in rows.values() if row.state not in {"done", "dead"}]
    aside = [row for row in rows.values() if row.state == "dead"]
    if aside and not any(turn.startswith("aside-") for turn in answered):
        outcome.problems.append(f"the owner was not told of {len(aside)}")
    outcome.states += Counter(row.state for row in rows.values())
    outcome.reasons += Counter(row.reason for row in aside)


@pytest.mark.parametrize(
    "number", [1_500, pytest.param(100_000, marks=[pytest.mark.crash_all, pytest.mark.timeout(3_000)])]
)
async def test_no_update_whatever_is_in_it_stops_the_bot_or_waits_for_ever(number: int, tmp_path: Path) -> None:
    outcome = Outcome()
    made = odd_updates(1, (*KNOWN, *STRANGERS))
    async with TelegramServer() as server:
        with watched(outcome):
            for _ in range(0, number, ROUND):
                await one_round(server, list(islice(made, ROUND)), tmp_path, outcome)
    print(number, outcome.states, outcome.reasons)
    assert not outcome.problems, outcome.problems[:5]
    assert outcome.states["done"] > number / 3, "many are read in spite of it"
