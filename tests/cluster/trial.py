"""Many messages in many chats while gateways are killed; the fake Bot API server judges what reached the people."""

import asyncio
import random
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from nanobot.providers.scripted import Call
from nanobot.session.ledger_dbos import WORKER_SECONDS
from tests.channels.telegram.gateway import Gateway
from tests.cluster.fleet import Fleet, fleet
from tests.fakes.llm_server import JsonObject, LlmRequest, LlmServer, Reply
from tests.fakes.telegram_server import TelegramServer

#: A question: `q7-look` needs a look into the documentation first, `q8` is answered at once.
QUESTION = re.compile(r"\bq\d+(?:-look)?\b")
#: What is said where something went wrong.
_BROKEN = re.compile(r"⚠️|broke|aside|cannot|away|failed")
#: The mark of an answer that may be a repeat.
REPEAT = "↻ "
FIRST_PERSON = 7_000
#: Seconds after which a process that was just started works, also on a busy machine.
_STARTED = 8.0


@dataclass(frozen=True, slots=True)
class Plan:
    """`rate` is in messages a second, `model` the seconds of an answer. `kills` are spread over the messages; every
    `poller_every`-th hits the poller, the others a worker. What was killed starts again after up to `pause` seconds.
    `cuts` of all connections to the database come in between, and so many `freezes`: a worker stands still for so long
    that the others take over, goes on, and has to end by itself.
    """

    messages: int
    chats: int
    workers: int
    kills: int
    rate: float
    model: float = 0.2
    poller_every: int = 4
    pause: float = 2.0
    cuts: int = 0
    freezes: int = 0
    seed: int = 1


@dataclass(slots=True)
class Trial:
    """What came of a plan. `problems` are empty where every promise held."""

    plan: Plan
    kills: Counter[str] = field(default_factory=Counter)
    repeats: int = 0
    seconds: float = 0.0
    requests: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        plan = self.plan
        killed = ", ".join(f"{count} of {role}s" for role, count in sorted(self.kills.items()))
        return (
            f"{plan.messages} messages in {plan.chats} chats, {plan.workers} workers, kills: {killed}; "
            f"{self.seconds:.0f} s, {self.requests} model requests, {self.repeats} marked repeats, "
            f"{len(self.problems)} problems"
        )


@dataclass(slots=True)
class Brain:
    """A model that names in its answer every question that no answer has named yet."""

    seconds: float
    requests: int = 0

    def __call__(self, request: LlmRequest) -> Reply:
        self.requests += 1
        said = request.body["messages"]
        assert isinstance(said, list)
        messages = [one for one in said if isinstance(one, dict) and one.get("role") != "system"]
        asked = list(dict.fromkeys(QUESTION.findall(" ".join(_text(one) for one in messages if one["role"] == "user"))))
        answers = [_text(one) for one in messages if one["role"] == "assistant" and not one.get("tool_calls")]
        done = set(QUESTION.findall(" ".join(answers)))
        open_now = [one for one in asked if one not in done] or asked[-1:]
        looked = {str(one.get("tool_call_id")) for one in messages if one["role"] == "tool"}
        for one in open_now:
            if one.endswith("look") and f"call-{one}" not in looked:
                return Reply(Call("nanobot_docs", {"query": "telegram"}, id=f"call-{one}"), delay=self.seconds)
        return Reply(f"Answer to {', '.join(open_now)}.", delay=self.seconds)


async def run(plan: Plan, folder: Path, address: str, bound: float) -> Trial:
    """Carry a plan out; `bound` seconds for all answers after the last message."""
    brain = Brain(plan.model)
    people = [FIRST_PERSON + number for number in range(plan.chats)]
    trial, start = Trial(plan), time.monotonic()
    async with (
        TelegramServer() as telegram,
        LlmServer(after=brain) as llm,
        fleet(folder, telegram, llm, address, people, concurrency=16) as ships,
    ):
        sea = _Sea(plan, ships, trial)
        await sea.set_out()
        async with asyncio.TaskGroup() as group:
            supervisor = group.create_task(sea.supervise())
            storms = [group.create_task(one) for one in (sea.storm(), sea.cut(), sea.freeze())]
            asked = await _talk(plan, telegram)
            await asyncio.wait(storms)
            try:
                await telegram.until(lambda: _all_answered(telegram, asked), timeout=bound)
            except TimeoutError:
                trial.problems.append(f"not all was answered within {bound:.0f} s")
            await asyncio.sleep(2)  # what is sent twice would come now
            supervisor.cancel()
        trial.requests = brain.requests
        for chat, questions in asked.items():
            _judge(telegram, chat, questions, trial)
    trial.seconds = time.monotonic() - start
    return trial


class _Sea:
    """The processes, and who kills them."""

    def __init__(self, plan: Plan, ships: Fleet, trial: Trial) -> None:
        self._plan = plan
        self._ships = ships
        self._trial = trial
        self._dice = random.Random(plan.seed)
        self._alive: dict[str, Gateway] = {}

    async def set_out(self) -> None:
        names = ["poller-0", *(f"worker-{number}" for number in range(self._plan.workers))]
        for name in names:
            await self._start(name)
        await self._ships.telegram.until(lambda: bool(self._ships.telegram.sent("getUpdates")))

    async def storm(self) -> None:
        every = self._span / (self._plan.kills + 1)
        async with asyncio.TaskGroup() as group:
            for number in range(1, self._plan.kills + 1):
                await asyncio.sleep(every * self._dice.uniform(0.6, 1.4))
                group.create_task(self._kill("poller" if number % self._plan.poller_every == 0 else "worker"))

    async def cut(self) -> None:
        """Break every connection to the database, several times."""
        for _ in range(self._plan.cuts):
            await asyncio.sleep(self._span / (self._plan.cuts + 1))
            await asyncio.to_thread(_cut, self._ships.address)
            self._trial.kills["connection"] += 1

    async def freeze(self) -> None:
        for _ in range(self._plan.freezes):
            await asyncio.sleep(self._span / (self._plan.freezes + 1))
            if name := self._one("worker"):
                await self._stand_still(name, self._alive.pop(name))

    async def _stand_still(self, name: str, frozen: Gateway) -> None:
        await asyncio.sleep(_STARTED)  # one that has not joined yet has nothing to lose
        frozen.process.send_signal(signal.SIGSTOP)
        self._trial.kills["frozen worker"] += 1
        await asyncio.sleep(WORKER_SECONDS + 5)
        frozen.process.send_signal(signal.SIGCONT)
        try:
            async with asyncio.timeout(90):
                code = await frozen.process.wait()
            if code == 0 or "has gone to others" not in frozen.text:
                self._trial.problems.append(f"{name} ended with {code} after a freeze: {frozen.text[-500:]}")
        except TimeoutError:
            self._trial.problems.append(f"{name} goes on after a freeze")
            await frozen.kill()
        await self._start(name)

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

    @property
    def _span(self) -> float:
        return self._plan.messages / self._plan.rate

    async def supervise(self) -> None:
        """Start again what ended by itself, which a worker may do only where it cannot reach the database."""
        while True:
            await asyncio.sleep(0.5)
            for name, one in list(self._alive.items()):
                if one.process.returncode is not None:
                    self._trial.kills["given up worker"] += 1
                    if "has gone to others" not in one.text:
                        self._trial.problems.append(f"{name} ended with {one.process.returncode}: {one.text[-500:]}")
                    await self._start(name)

    async def _start(self, name: str) -> None:
        self._alive[name] = await self._ships.run(name.partition("-")[0], name)


def _cut(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


async def _talk(plan: Plan, telegram: TelegramServer) -> dict[int, list[str]]:
    """Say everything at its time; the questions by chat, in order."""
    dice = random.Random(plan.seed)
    asked: dict[int, list[str]] = {}
    users = {FIRST_PERSON + number: telegram.user(f"P{number}", FIRST_PERSON + number) for number in range(plan.chats)}
    begin = time.monotonic()
    for number in range(plan.messages):
        await asyncio.sleep(max(0.0, begin + number / plan.rate - time.monotonic()))
        chat = FIRST_PERSON + (number if number < plan.chats else dice.randrange(plan.chats))
        question = f"q{number}-look" if number % 5 == 0 else f"q{number}"
        asked.setdefault(chat, []).append(question)
        users[chat].say(f"What about {question}?")
    return asked


def _answers(telegram: TelegramServer, chat: int) -> list[str]:
    return [
        one.text for one in telegram.chats[chat] if one.sender == "bot" and one.text.lstrip(REPEAT).startswith("An")
    ]


def _all_answered(telegram: TelegramServer, asked: dict[int, list[str]]) -> bool:
    return all(
        set(questions) <= set(QUESTION.findall(" ".join(_answers(telegram, chat)))) for chat, questions in asked.items()
    )


def _judge(telegram: TelegramServer, chat: int, questions: list[str], trial: Trial) -> None:
    answers = _answers(telegram, chat)
    trial.repeats += sum(text.startswith(REPEAT) for text in answers)
    unmarked = Counter(one for text in answers if not text.startswith(REPEAT) for one in QUESTION.findall(text))
    order = list(dict.fromkeys(one for text in answers for one in QUESTION.findall(text)))
    trial.problems += [f"chat {chat}: {one} was never answered" for one in questions if one not in order]
    trial.problems += [f"chat {chat}: {one} was answered {count} times" for one, count in unmarked.items() if count > 1]
    if order != [one for one in questions if one in order]:
        trial.problems.append(f"chat {chat}: asked {questions}, answered in the order {order}")
    said = (one.text for one in telegram.chats[chat] if one.sender == "bot")
    trial.problems += [f"chat {chat}: said {text!r}" for text in said if _BROKEN.search(text)]


def _text(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")
