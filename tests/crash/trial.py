"""Many messages of many people while gateways are killed and Telegram fails; what reached the people is judged.

The gateways are the program as it is started, one alone or several on one database.
"""

import asyncio
import contextlib
import json
import random
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from nanobot.cluster.worker import WORKER_SECONDS
from tests.channels.telegram.gateway import OWNER, Gateway
from tests.cluster.fleet import Fleet, fleet
from tests.crash.brain import Brain
from tests.crash.judge import ADD, Judge, Marks
from tests.fakes.llm_server import LlmServer
from tests.fakes.mcp_server import McpServer
from tests.fakes.telegram_server import (
    Fault,
    TelegramServer,
    User,
    apply_then_drop,
    bad_gateway,
    black_hole,
    drop_before,
    refuse,
    too_many,
)

#: What is said where something went wrong that nobody broke here.
_BROKEN = re.compile(r"⚠️(?! nanobot stopped while)|broke|cannot|could not be")
FIRST_PERSON, FIRST_GROUP = 7_000, -9_000
#: Seconds that a storm may take at all.
_LONG = 7_200
#: Seconds that a worker stands still beyond those after which others take its work: they have to look for it first.
_TAKEN_OVER = 15.0
#: Seconds of a nap, which nobody notices.
_NAP = 6.0
#: What Telegram does wrong, and in which of its methods, as often as it stands here.
FAULTS: tuple[Callable[[], Fault], ...] = (
    lambda: too_many(1),
    lambda: refuse(500, "Internal Server Error"),
    bad_gateway,
    lambda: Fault("status", apply=True, status=500, description="Internal Server Error"),
    lambda: Fault("html", apply=True, status=502),
    drop_before,
    apply_then_drop,
)
METHODS = ("sendMessage", "sendMessage", "sendMessage", "editMessageText", "getUpdates", "answerCallbackQuery")
#: Calls that people see something of.
_SEEN = frozenset({"sendmessage", "editmessagetext", "senddocument", "deletemessage", "sendchataction"})
_LEFT = """
SELECT (SELECT count(*) FROM {0}inbox WHERE state NOT IN ('done', 'dead'))
     + (SELECT count(*) FROM {0}outbox WHERE state IN ('new', 'sending', 'unknown'))
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """`rate` is in messages a second at most: never are more of them open than there are `chats`. `model` are the
    seconds of an answer. `kills` are spread over the messages; of several gateways every `poller_every`-th hits the
    poller, the others a worker. What was killed starts again after up to `pause` seconds. Without `workers` one gateway
    does it all, and every third kill may come while it starts.

    `faults` of Telegram come in between, so do `cuts` of all connections to the database, and so many `freezes`: a
    worker stands still for so long that the others take over, goes on, and has to end by itself if they did. After each
    of `naps`, which are shorter, it has to go on. For `away` seconds there is no database, once; the workers wait for
    it. `rests` are kills in the end, so many seconds after the last answer. Where workers freeze, all start cold.
    """

    messages: int
    chats: int
    kills: int
    rate: float
    workers: int = 0
    model: float = 0.2
    poller_every: int = 4
    pause: float = 2.0
    faults: int = 0
    cuts: int = 0
    freezes: int = 0
    naps: int = 0
    away: float = 0.0
    rests: tuple[float, ...] = ()
    seed: int = 1


@dataclass(slots=True)
class Trial:
    """What came of a plan. `problems` are empty where every promise held."""

    plan: Plan
    kills: Counter[str] = field(default_factory=Counter)
    faults: int = 0
    marks: Marks = field(default_factory=Marks)
    set_aside: int = 0
    effects: int = 0
    seconds: float = 0.0
    requests: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        plan = self.plan
        killed = ", ".join(f"{count} of {role}s" for role, count in sorted(self.kills.items()))
        return (
            f"{plan.messages} messages in {plan.chats} chats, {plan.workers or 'no'} workers, kills: {killed}; "
            f"{self.faults} faults of Telegram, {self.effects} effects, {self.set_aside} messages set aside aloud, "
            f"{self.marks.all} marked repeats (of {self.marks.arrived} the chat had an earlier one, of "
            f"{self.marks.unknowable} Telegram had failed one), {self.requests} model requests, "
            f"{self.seconds:.0f} s, {len(self.problems)} problems"
        )


async def run(plan: Plan, folder: Path, address: str, bound: float, restart: Callable[[], None] | None = None) -> Trial:
    """Carry a plan out; `bound` seconds for all answers after the last message. `restart` is done to the database."""
    brain, trial, start = Brain(plan.model), Trial(plan), time.monotonic()
    async with (
        TelegramServer() as telegram,
        LlmServer(after=brain) as llm,
        McpServer((ADD,), delay=plan.model) as notes,
        fleet(folder, telegram, llm, address, [OWNER, "*"], 16, notes.url, cold=bool(plan.freezes)) as ships,
    ):
        storm = _Storm(plan, ships, trial, Judge(telegram, notes))
        people = await storm.set_out()
        async with asyncio.TaskGroup() as group:
            supervisor = group.create_task(storm.supervise())
            works = (storm.kill(), storm.fail(), storm.cut(), storm.freeze(), storm.nap(), storm.without(restart))
            troubles = [group.create_task(one) for one in works]
            await storm.talk(people)
            await asyncio.wait(troubles)
            telegram.calm()
            try:
                await telegram.until(lambda: not storm.judge.open, timeout=bound)
                await storm.settled(bound)
            except TimeoutError:
                trial.problems.append(f"not all was settled within {bound:.0f} s: {storm.judge.open[:20]}")
            supervisor.cancel()
        for number, delay in enumerate(plan.rests if not trial.problems else ()):
            await storm.rest(number, delay, brain)
        storm.conclude(brain)
    trial.seconds = time.monotonic() - start
    return trial


class _Storm:
    """The processes, and what befalls them."""

    def __init__(self, plan: Plan, ships: Fleet, trial: Trial, judge: Judge) -> None:
        self.judge = judge
        self._plan = plan
        self._ships = ships
        self._telegram = ships.telegram
        self._trial = trial
        self._dice = random.Random(plan.seed)
        self._alive: dict[str, Gateway] = {}
        self._polls = 0  # calls before the newest start
        self._said = 0
        self._owner = self._telegram.user("Ada", OWNER)

    async def set_out(self) -> list[list[User]]:
        """Start, and let the owner switch the groups on; the people by chat.

        Every second chat is a group of the owner and two others; the first one is that of the owner alone.
        """
        plan, telegram = self._plan, self._telegram
        self._owner.agrees("Once")
        names = ["poller-0", *(f"worker-{number}" for number in range(plan.workers))]
        for name in names:
            await self._start(name)
        people = [[self._owner]]
        for number in range(1, plan.chats):
            ids = (OWNER, FIRST_PERSON + 2 * number, FIRST_PERSON + 2 * number + 1)
            if number % 2:
                group = FIRST_GROUP - number
                people.append([telegram.member(f"P{one}", group, user_id=one) for one in ids])
                people[-1][0].say("/group@nano_test_bot on")
            else:
                people.append([telegram.user(f"P{ids[1]}", ids[1])])
        await telegram.until(lambda: all(telegram.visible(one[0].chat)[1:] for one in people if len(one) > 1))
        return people

    async def talk(self, people: Sequence[Sequence[User]]) -> None:
        """Say everything, in every chat at least once. What has an effect is asked by the owner."""
        dice = random.Random(self._plan.seed)
        for number in range(self._plan.messages):
            await asyncio.sleep(1 / self._plan.rate)
            await self._telegram.until(lambda: len(self.judge.open) <= self._plan.chats, _LONG)
            self._said = number
            chat = people[number] if number < len(people) else dice.choice(people)
            person = chat[0] if dice.random() < 0.5 else dice.choice(chat)
            kinds = ("note", "note", "plain", "slow") if person.id == OWNER else ("plain", "plain", "plain", "slow")
            self.judge.ask(person, f"{dice.choice(kinds)}-{number}")

    async def _reached(self, share: float) -> None:
        """Wait until this share of the messages is said. What goes wrong comes by it and not by a clock, so that a slow
        machine is tried as a quick one is."""
        most = self._plan.messages - 1
        await self._telegram.until(lambda: self._said >= min(most, share * most), _LONG)

    async def _more_calls(self, number: int) -> None:
        """Wait for so many calls of Telegram, or until nothing happens."""
        wanted = len(self._telegram.calls) + number
        with contextlib.suppress(TimeoutError):
            await self._telegram.until(lambda: len(self._telegram.calls) >= wanted, 5)

    async def kill(self) -> None:
        plan = self._plan
        async with asyncio.TaskGroup() as group:
            for number in range(1, plan.kills + 1):
                await self._reached((number - self._dice.random()) / plan.kills)
                if not plan.workers and number % 3:
                    await self._working()
                await self._more_calls(self._dice.randrange(20))
                await asyncio.sleep(self._dice.uniform(0, 0.1))
                role = "worker" if plan.workers and number % plan.poller_every else "poller"
                again = group.create_task(self._kill(role))
                if not plan.workers:
                    await again

    async def fail(self) -> None:
        """Let calls of Telegram fail, one or three in a row; while kills go on a poll may be silent for ever."""
        plan, dice, planned = self._plan, self._dice, 0
        while planned < plan.faults:
            await self._reached(0.9 * planned / plan.faults)
            await self._more_calls(dice.randrange(10))
            method, number = dice.choice(METHODS), dice.choice((1, 1, 3))
            silent = method == "getUpdates" and plan.kills and planned < plan.faults / 2
            fault = black_hole if silent and dice.random() < 0.3 else dice.choice(FAULTS)
            self._telegram.fail(method, *(fault() for _ in range(number)))
            planned += number

    async def cut(self) -> None:
        """Break every connection to the database, several times."""
        for number in range(self._plan.cuts):
            await self._reached((number + 1) / (self._plan.cuts + 1))
            await asyncio.to_thread(_cut, self._ships.address)
            self._trial.kills["connection"] += 1

    async def freeze(self) -> None:
        for number in range(self._plan.freezes):
            await self._reached((number + 1) / (self._plan.freezes + 1))
            if name := self._one("worker"):
                await self._stand_still(name, self._alive.pop(name))

    async def nap(self) -> None:
        for number in range(self._plan.naps):
            await self._reached((number + 0.5) / self._plan.naps)
            if name := self._one("worker"):
                process = self._alive[name].process
                process.send_signal(signal.SIGSTOP)
                self._trial.kills["napping worker"] += 1
                await asyncio.sleep(_NAP)
                with contextlib.suppress(ProcessLookupError):  # it may have been killed meanwhile
                    process.send_signal(signal.SIGCONT)

    async def without(self, restart: Callable[[], None] | None) -> None:
        """Restart the database server; take the database away for a while. Nobody who lives may end of that."""
        if restart is not None:
            await self._reached(0.35)
            await asyncio.to_thread(restart)
            self._trial.kills["database"] += 1
        if self._plan.away:
            await self._reached(0.6)
            waiting = [one for name, one in self._alive.items() if self._works(name, one)]
            await asyncio.to_thread(_allow, self._ships.address, False)
            await asyncio.sleep(self._plan.away)
            await asyncio.to_thread(_allow, self._ships.address, True)
            self._trial.kills["database"] += 1
            await asyncio.sleep(2 * WORKER_SECONDS)
            ended = [one.text[-500:] for one in waiting if one.process.returncode not in {None, -signal.SIGKILL}]
            self._trial.problems += [f"a gateway ended while the database was away: {text}" for text in ended]

    async def rest(self, number: int, delay: float, brain: Brain) -> None:
        """A turn is stopped; everything is killed `delay` seconds later. The next start has nothing to do but the new
        message of somebody else."""
        telegram, stranger, before = self._telegram, self._telegram.user("Eve", 6_000), brain.requests
        self._owner.say(f"Please do slow-{100_000 + number}.")
        await telegram.until(lambda: bool(brain.requests > before and telegram.calls))
        self._owner.say("/stop")
        await self.settled(60)
        await asyncio.sleep(delay)
        for name in list(self._alive):
            await self._alive.pop(name).kill()
            self._trial.kills["resting one"] += 1
        calls, before = len(telegram.calls), brain.requests
        for name in sorted(self._ships.homes):
            await self._start(name)
        job = f"plain-{100_000 + number}"
        self.judge.ask(stranger, job)
        await telegram.until(lambda: self.judge.settled(job, stranger.chat))
        await self.settled(60)
        for call in telegram.calls[calls:]:
            if call.method in _SEEN and call.params.get("chat_id") not in (stranger.chat, str(stranger.chat)):
                self._trial.problems.append(f"{delay:.0f} s after rest: {call.method} {call.params}")
        if brain.requests != before + 1:
            self._trial.problems.append(f"{delay:.0f} s after rest the model was asked {brain.requests - before} times")

    async def settled(self, bound: float) -> None:
        """Wait until the ledger has nothing left to do."""
        async with asyncio.timeout(bound):
            while await asyncio.to_thread(self._left):
                await asyncio.sleep(0.1)

    def conclude(self, brain: Brain) -> None:
        trial, judge = self._trial, self.judge
        trial.requests, trial.faults, trial.marks = brain.requests, self._telegram.broken, judge.marks
        trial.effects = len(judge.effects)
        jobs = ((chat, job) for (chat, _), asked in judge.asked.items() for job in asked)
        trial.set_aside = sum(bool(judge.set_aside(job, chat)) for chat, job in jobs)
        trial.problems += [f"the model was sent what is not whole: {one}" for one in brain.refused]
        trial.problems += judge.problems()
        for chat, messages in self._telegram.chats.items():
            said = [one.text for one in messages if one.sender == "bot"]
            trial.problems += [f"chat {chat}: said {text!r}" for text in said if _BROKEN.search(text)]

    async def supervise(self) -> None:
        """Start again what ended by itself, which a worker may do only where it cannot reach the database."""
        while True:
            await asyncio.sleep(0.5)
            for name, one in list(self._alive.items()):
                if one.process.returncode is not None:
                    self._trial.kills["given up worker"] += 1
                    if not any(why in one.text for why in ("has gone to others", "cannot be reached")):
                        self._trial.problems.append(f"{name} ended with {one.process.returncode}: {one.text[-500:]}")
                    await self._start(name)

    async def _stand_still(self, name: str, frozen: Gateway) -> None:
        await self._joined(name, frozen)
        frozen.process.send_signal(signal.SIGSTOP)
        self._trial.kills["frozen worker"] += 1
        await asyncio.sleep(WORKER_SECONDS + _TAKEN_OVER)
        frozen.process.send_signal(signal.SIGCONT)
        try:
            code = await asyncio.wait_for(frozen.process.wait(), _TAKEN_OVER)
        except TimeoutError:  # those who could have missed it were killed, too: all it had is its own, and it goes on
            self._trial.kills["frozen worker that nobody missed"] += 1
            self._alive[name] = frozen
            return
        if code == 0 or "has gone to others" not in frozen.text:
            self._trial.problems.append(f"{name} ended with {code} after a freeze: {frozen.text[-500:]}")
        await self._start(name)

    async def _joined(self, name: str, worker: Gateway) -> None:
        """Wait until a worker works; one that has not joined the others yet has nothing to lose."""
        async with asyncio.timeout(120):
            while not await asyncio.to_thread(self._works, name, worker):
                await asyncio.sleep(0.2)

    def _works(self, name: str, gateway: Gateway) -> bool:
        """Whether a gateway says so itself."""
        try:
            health = json.loads((self._ships.homes[name].home / "gateway.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return False
        return health["pid"] == gateway.process.pid and health["state"] in {"working", "polling"}

    async def _kill(self, role: str) -> None:
        name = self._one(role)
        if not name:
            return
        self._trial.kills[role] += 1
        await self._alive.pop(name).kill()
        await asyncio.sleep(self._dice.uniform(0, self._plan.pause))
        await self._start(name)

    def _one(self, role: str) -> str:
        """One that runs, by chance; empty where none does."""
        names = [name for name, one in self._alive.items() if name.startswith(role) and one.process.returncode is None]
        return self._dice.choice(sorted(names)) if names else ""

    async def _working(self) -> None:
        """Wait until what was started last asks Telegram for messages."""
        telegram = self._telegram
        await telegram.until(lambda: any(one.method == "getupdates" for one in telegram.calls[self._polls :]))

    async def _start(self, name: str) -> None:
        self._polls = len(self._telegram.calls)
        self._alive[name] = await self._ships.run(name.partition("-")[0], name)

    def _left(self) -> int:
        if address := self._ships.address:
            with psycopg.connect(address) as postgres:
                row = postgres.execute(_LEFT.format("nanobot_123456.").encode()).fetchone()
        else:
            (home,) = self._ships.homes.values()
            with closing(sqlite3.connect(home.home / "nanobot.db", timeout=60)) as db:
                row = db.execute(_LEFT.format("")).fetchone()
        return int(row[0]) if row else 0


def _cut(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


def _allow(address: str, allowed: bool) -> None:
    """Let nobody reach the database, or everybody again."""
    name = urlsplit(address).path.strip("/")
    with psycopg.connect(urlunsplit(urlsplit(address)._replace(path="/postgres")), autocommit=True) as db:
        db.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS {str(allowed).lower()}'.encode())
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
