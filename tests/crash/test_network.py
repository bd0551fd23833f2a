"""Telegram and the model fail around whole messages: cuts, lost replies, penalties, streams that end in the middle."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from nanobot.bus.events import StepStarted, ToolFinished, ToolStarted, TurnFinished
from nanobot.channels.telegram.render.screen_messages import REPEAT
from nanobot.channels.telegram.show.status import Look
from nanobot.messages import TextDelta, ToolCall
from nanobot.providers.scripted import Pause, Say
from nanobot.results import ToolResult
from tests.channels.telegram.scenarios import CHANNEL, lives, stage
from tests.channels.telegram.scenarios import Stage as Chat
from tests.crash.rounds import Outcome, each, stuck, talked
from tests.crash.stage import Stage, staged
from tests.fakes.clock import AT, JumpingClock
from tests.fakes.crash.nursery import Nursery
from tests.fakes.llm_server import Reply
from tests.fakes.telegram_server import Fault, apply_then_drop, drop_before, too_many

pytestmark = pytest.mark.asyncio(loop_scope="session")
TEXT = "The answer has a beginning that is long enough to be shown. And it has an end."
CUT_SECONDS = 600.0


async def shown(at: Chat, text: str) -> None:
    """Wait until a person sees this, or the network is cut."""
    await at.server.until(lambda: at.server.is_cut or any(text in line for line in at.seen))


async def told(at: Chat) -> None:
    """A turn with one tool call and an answer that grows."""
    turn = await at.begin()
    call = ToolCall("c1", "web_search")
    await turn.play(StepStarted(1), ToolStarted(call, 'search "x"'))
    await shown(at, 'search "x"')
    await turn.play(ToolFinished(call, ToolResult("ok"), 2.0), StepStarted(2))
    await turn.play(TextDelta(TEXT[:60]))
    await shown(at, TEXT[:40])
    await turn.play(TextDelta(TEXT[60:]))
    await turn.finish(TurnFinished("completed", TEXT))


def assert_told(at: Chat) -> None:
    whole = [line for line in at.seen if line.endswith(TEXT)]
    assert whole, at.seen
    assert sum(REPEAT not in line for line in whole) <= 1, at.seen


async def cut_at(place: int, *, applies: bool) -> bool:
    """A turn during which a call meets the cut; False where it made fewer calls."""
    async with stage() as at:
        at.server.cut(place, applies=applies)
        await told(at)
        while not at.server.is_cut and await at.ledger.pending(CHANNEL):
            await at.clock.sleep(0.01)
        met = at.server.is_cut
        await at.quiet(CUT_SECONDS if met else 0)
        at.server.mend()
        await at.settled()
        assert_told(at)
        return met


async def test_a_network_that_is_cut_for_ten_minutes_at_any_call_costs_nothing(tried: list[str]) -> None:
    cuts = [cut_at(place, applies=applies) for place in range(6) for applies in (False, True)]
    met = sum(await asyncio.gather(*cuts))
    assert met >= 6, "at least typing, the status and the answer, with and without effect"
    tried.append(f"the network cut for ten minutes at {met} calls of a turn: all told")


class Adjusted(JumpingClock):
    """The clock on the wall is put forward or back by `jump`; the one that only grows goes on."""

    jump = timedelta()

    def wall(self) -> datetime:
        return super().wall() + self.jump


@pytest.mark.parametrize("jump", [timedelta(days=-1), timedelta(days=1), timedelta(days=-400), timedelta(hours=-2)])
async def test_a_clock_that_jumps_while_an_answer_waits_keeps_it_no_longer(jump: timedelta) -> None:
    clock = Adjusted()
    async with lives(clock) as life, life.begin(Look("off", "off")) as at:
        life.server.fail("sendMessage", drop_before(), too_many(20))
        await (await at.begin()).finish(TurnFinished("completed", TEXT))
        await life.server.until(lambda: len(life.server.sent("sendMessage")) == 2)
        await at.quiet(2)
        clock.jump = jump
        start = clock.now()
        await at.until(TEXT)
        await at.settled()
        assert clock.now() - start < 60


async def test_a_clock_that_is_back_after_a_start_keeps_no_answer() -> None:
    clock = Adjusted(step=10)
    async with lives(clock) as life:
        async with life.begin(Look("off", "off")) as at:
            life.server.cut()
            await (await at.begin()).finish(TurnFinished("completed", TEXT))
            await life.server.until(lambda: life.server.is_cut)
            await at.quiet(5)
        clock.jump = AT - clock.wall() - timedelta(days=3)
        life.server.mend()
        await life.ledger.recover(CHANNEL)
        async with life.begin(Look("off", "off")) as at:
            await at.quiet(3_700)
            await at.settled()
            assert_told(at)


# Whole gateways

FAULTS: dict[str, Callable[[], Fault]] = {
    "429": lambda: too_many(1),
    "lost before": drop_before,
    "lost after": apply_then_drop,
}


async def rounds(nursery: Nursery, folder: Path, cases: dict[str, Callable[[Stage], None]]) -> Outcome:
    """A conversation with a fault for each case."""

    async def one(name: str) -> Outcome:
        async with staged(nursery, folder / name.replace(" ", "-")) as at:
            cases[name](at)
            life = await at.start()
            try:
                await talked(at, steer=True)
            except TimeoutError:
                return stuck(at, name)
            assert not life.over
            await life.kill()
            return Outcome(0, 0, 3, 1, tuple(f"{name}: {problem}" for problem in at.problems()))

    return await each(cases, one)


async def test_a_telegram_that_fails_costs_no_answer(nursery: Nursery, tmp_path: Path, tried: list[str]) -> None:
    def case(method: str, place: int, fault: Fault) -> Callable[[Stage], None]:
        return lambda at: at.telegram.plan(method, place, fault)

    cases = {
        f"{name} {method} {place}": case(method, place, made())
        for name, made in FAULTS.items()
        for method, places in (("sendMessage", 3), ("getUpdates", 1))
        for place in range(places)
    }
    outcome = await rounds(nursery, tmp_path, cases)
    tried.append(f"{len(cases)} faults of Telegram: {outcome.messages} messages")
    assert not outcome.problems, "\n".join(outcome.problems)


async def test_a_model_that_breaks_off_costs_no_answer(nursery: Nursery, tmp_path: Path, tried: list[str]) -> None:
    words = (Say("Answer to nobody. "), Pause(0.2), Say("These words are never finished and never shown as an answer."))

    def case(after: int, then: str) -> Callable[[Stage], None]:
        broken = Reply(*words, stop_after=after, then="reset" if then == "reset" else "close")
        return lambda at: at.llm.add(broken)

    cases = {f"{then} after {after}": case(after, then) for then in ("reset", "close") for after in (-1, 0, 1, 3)}
    outcome = await rounds(nursery, tmp_path, cases)
    tried.append(f"{len(cases)} streams of the model that broke: {outcome.messages} messages")
    assert not outcome.problems, "\n".join(outcome.problems)
