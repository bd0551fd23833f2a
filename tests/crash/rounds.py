"""Rounds of the crash suite: a life that is killed at one place, and a clean one after it."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tests.crash.stage import CORES, STUCK, Stage, staged
from tests.fakes.crash.nursery import Life, Nursery
from tests.fakes.crash.points import KINDS, Plan

T = TypeVar("T")
#: Every so many rounds the life that recovers is killed as well.
SECOND_KILL = 3
#: Rounds that run at the same time: most of a round is waiting.
AT_ONCE = 4 * CORES
#: What a clean start passes until it has taken up what was left, about.
_RECOVERY = {"step": 400, "sql": 120, "commit": 12}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What rounds came to: lives that were killed at their place, messages that were sent, and what did not hold."""

    kills: int = 0
    second_kills: int = 0
    messages: int = 0
    rounds: int = 0
    problems: tuple[str, ...] = ()

    def __add__(self, other: "Outcome") -> "Outcome":
        return Outcome(
            self.kills + other.kills,
            self.second_kills + other.second_kills,
            self.messages + other.messages,
            self.rounds + other.rounds,
            self.problems + other.problems,
        )

    def __str__(self) -> str:
        twice = f" ({self.second_kills} of them during recovery)" if self.second_kills else ""
        return f"{self.kills} kills{twice} in {self.rounds} rounds, {self.messages} messages"


class Start(Protocol):
    """Begins the life that is to be killed."""

    async def __call__(self, stage: Stage) -> Life: ...


def planned(nursery: Nursery, plan: Plan) -> Start:
    async def start(stage: Stage) -> Life:
        return await nursery.start(stage.home, "gateway", plan=plan)

    return start


def recovery(number: int) -> Plan:
    """A place in the life that recovers; another one in every round."""
    kind = KINDS[number % len(KINDS)]
    return Plan(kind, 1 + number * 37 % _RECOVERY[kind])


async def survive(nursery: Nursery, folder: Path, number: int, start: Start, what: str) -> Outcome:
    """One round. `number` decides whether the third message steers, and whether there is a second kill."""
    async with staged(nursery, folder) as stage:
        talking = asyncio.create_task(talked(stage, steer=number % 2 == 0))
        try:
            first = await start(stage)
            stage.lives.append(first)
            kills, second_kills = int(await killed(first, talking)), 0
            if kills and number % SECOND_KILL == 0:
                second = await stage.start(recovery(number))
                second_kills = int(await killed(second, talking))
            if not talking.done():
                await stage.start()
            await talking
        except TimeoutError:
            talking.cancel()
            return stuck(stage, what)
        for life in stage.lives:
            await life.kill()
        problems = tuple(f"{what}: {problem}" for problem in stage.problems())
        return Outcome(kills + second_kills, second_kills, 3, 1, problems)


async def talked(stage: Stage, *, steer: bool) -> None:
    await stage.talk(steer=steer)
    await stage.finish()


async def killed(life: Life, talking: "asyncio.Task[None]") -> bool:
    """Wait until the life has died or there is nothing left to do; a life that missed its place is ended here."""
    ending = asyncio.ensure_future(life.ended(2 * STUCK))
    await asyncio.wait({ending, talking}, return_when=asyncio.FIRST_COMPLETED)
    died = ending.done() and ending.result() == -signal.SIGKILL
    await life.kill()
    await ending
    return died


def stuck(stage: Stage, what: str) -> Outcome:
    seen = [stage.telegram.visible(one.chat) for one in (stage.ada, stage.bob)]
    gone = [life.text[-300:] for life in stage.lives if life.over]
    return Outcome(rounds=1, problems=(f"{what}: it is stuck: {seen}; these ended: {gone}",))


async def each(cases: Iterable[T], one: Callable[[T], Awaitable[Outcome]], at_once: int = AT_ONCE) -> Outcome:
    """What all cases come to, several at the same time."""
    slots = asyncio.Semaphore(at_once)

    async def in_turn(case: T) -> Outcome:
        async with slots:
            return await one(case)

    return sum(await asyncio.gather(*map(in_turn, cases)), Outcome())


async def survive_all(nursery: Nursery, folder: Path, starts: Mapping[str, Start]) -> Outcome:
    """A round for each way to begin."""
    return await each(
        enumerate(starts), lambda case: survive(nursery, folder / case[1], case[0], starts[case[1]], case[1])
    )


def planned_all(nursery: Nursery, plans: Iterable[Plan]) -> dict[str, Start]:
    return {f"{plan.kind}-{plan.at}": planned(nursery, plan) for plan in plans}


async def places(nursery: Nursery, folder: Path) -> tuple[Plan, ...]:
    """Every place of a run that nobody kills."""
    async with staged(nursery, folder) as stage:
        life = await stage.start()
        await talked(stage, steer=True)
        await life.kill()
        assert not stage.problems(), stage.problems()
        counts = life.counts.places
    return tuple(Plan(kind, at) for kind in KINDS for at in range(1, counts[kind] + 1))


class Trouble(Protocol):
    """Says the first two messages and lets the disk fail around them."""

    async def __call__(self, stage: Stage, life: Life) -> None: ...


async def endure(nursery: Nursery, folder: Path, start: Start, trouble: Trouble, what: str) -> Outcome:
    """A round in which the disk fails for a while under one life, which must live on and be of use afterwards.

    A message that came meanwhile is answered, or refused aloud; nothing waits for a restart.
    """
    async with staged(nursery, folder) as stage:
        life = await start(stage)
        stage.lives.append(life)
        try:
            await stage.until(lambda: bool(stage.telegram.sent("getUpdates")))
            await trouble(stage, life)
            await stage.until(
                lambda: stage.closed("note-a1", stage.ada.chat) and stage.closed("slow-b1", stage.bob.chat)
            )
            stage.judge.forget()
            stage.judge.ask(stage.ada, "plain-a2")
            await stage.finish()
        except TimeoutError:
            return stuck(stage, what)
        problems = [] if not life.over else ["the gateway ended"]
        await life.kill()
        problems += stage.problems(sent=3)
        return Outcome(0, 0, 3, 1, tuple(f"{what}: {one}" for one in problems))
