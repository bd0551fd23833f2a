"""Three messages in two chats, one of which has an effect; what must hold is judged by the fakes around the bot."""

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.harness import Program, program
from tests.crash.brain import JOB, Brain
from tests.fakes.crash.nursery import Life, Nursery
from tests.fakes.crash.points import Plan
from tests.fakes.llm_server import LlmServer
from tests.fakes.mcp_server import McpServer, ServedTool, text
from tests.fakes.telegram_server import TOKEN, TelegramServer, User

#: Seconds after which what is not finished is taken for stuck.
STUCK = 60.0
#: Seconds between the effect of the tool and its answer: time for a message that steers the turn, and for a kill.
_TOOL_SECONDS = 0.3
REPEAT = "↻"
OWNER, GUEST = 4242, 4343
# It is declared read-only, so that nobody is asked, and not to be repeated, so that it counts as an effect.
_ADD = ServedTool(
    "add",
    {"line": {"type": "string"}},
    ("line",),
    answer=lambda arguments: text(f"noted {arguments['line']}"),
    reads=True,
    once=True,
)
_SECRETS = (TOKEN, "k-for-tests")


@dataclass(slots=True)
class Stage:
    """One home between its fakes. `jobs` are the messages that were sent, by chat."""

    nursery: Nursery
    telegram: TelegramServer
    llm: LlmServer
    brain: Brain
    notes: McpServer
    home: Program
    ada: User
    bob: User
    jobs: dict[int, list[str]] = field(default_factory=dict)
    lives: list[Life] = field(default_factory=list)

    async def start(self, plan: Plan | None = None, env: dict[str, str] | None = None) -> Life:
        life = await self.nursery.start(self.home, "gateway", plan=plan, env=env)
        self.lives.append(life)
        return life

    def say(self, person: User, job: str) -> None:
        self.jobs.setdefault(person.chat, []).append(job)
        person.say(f"Please do {job}.")

    @property
    def effects(self) -> list[str]:
        """The lines that the tool noted, in order."""
        lines = []
        for call in self.notes.calls:
            arguments = call.get("arguments")
            assert isinstance(arguments, dict)
            lines.append(str(arguments["line"]))
        return lines

    def answers(self, chat: int) -> list[str]:
        """What the bot has said of jobs in a chat, in order, whole or not."""
        return [line for line in self.telegram.visible(chat) if line.startswith("bot: ") and "Answer to " in line]

    def answered(self, job: str, chat: int) -> bool:
        return any(job in line and "The end." in line for line in self.answers(chat))

    def refusals(self, chat: int) -> list[str]:
        """What the bot has said of a disk that it cannot write to, instead of an answer."""
        return [line for line in self.telegram.visible(chat) if line.startswith("bot: ") and "cannot be used" in line]

    def closed(self, job: str, chat: int) -> bool:
        """Whether a job was answered, or refused aloud; at the time there is one job in a chat."""
        return self.answered(job, chat) or bool(self.refusals(chat))

    @property
    def all_answered(self) -> bool:
        return all(self.answered(job, chat) for chat, jobs in self.jobs.items() for job in jobs)

    @property
    def settled(self) -> bool:
        """Whether the ledger has nothing left to do."""
        with closing(sqlite3.connect(self.home.home / "nanobot.db", timeout=1)) as db:
            return tuple(db.execute(_LEFT).fetchone()) == (0, 0)

    async def talk(self, *, steer: bool) -> None:
        """Two messages at once; the third while the first is worked on (`steer`), or after it."""
        self.say(self.ada, "note-a1")
        self.say(self.bob, "slow-b1")
        if steer:
            await self.until(lambda: bool(self.effects) or self.answered("note-a1", self.ada.chat))
        else:
            await self.until(lambda: self.answered("note-a1", self.ada.chat))
        self.say(self.ada, "plain-a2")

    async def finish(self) -> None:
        """Wait until every message is answered and nothing is left to do."""
        await self.until(lambda: self.all_answered)
        async with asyncio.timeout(STUCK):
            while not self._at_rest():
                await asyncio.sleep(0.03)

    def _at_rest(self) -> bool:
        with contextlib.suppress(sqlite3.OperationalError):  # the file is locked or still being made
            return self.settled
        return False

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(STUCK):
            while not condition():
                with contextlib.suppress(TimeoutError):
                    await self.telegram.until(condition, 0.05)

    def problems(self, sent: int = 3) -> list[str]:
        """What does not hold, in words, after `sent` messages. Called when nobody works on the home."""
        found = [f"the model was sent what is not whole: {one}" for one in self.brain.refused]
        for chat, jobs in self.jobs.items():
            found += self._wrong_answers(chat, jobs)
        found += [
            f"the effect of {job} happened {count} times"
            for job, count in ((job, self.effects.count(job)) for job in set(self.effects))
            if count > 1
        ]
        found += self._wrong_notes()
        return found + self._wrong_store(sent) + self._leaks()

    def _wrong_answers(self, chat: int, jobs: list[str]) -> list[str]:
        answers, found = self.answers(chat), []
        for job in jobs:
            about = [line for line in answers if job in JOB.findall(line)]
            plain = [line for line in about if REPEAT not in line]
            if not any("The end." in line for line in about):
                found.append(f"{job} was not answered: {self.telegram.visible(chat)}")
            if len(plain) > 1:
                found.append(f"{job} was answered twice without a mark: {plain}")
        firsts = list(dict.fromkeys(itertools.chain.from_iterable(JOB.findall(line) for line in answers)))
        if [job for job in firsts if job in jobs] != [job for job in jobs if job in firsts]:
            found.append(f"{jobs} were answered in the order {firsts}")
        return found

    def _wrong_notes(self) -> list[str]:
        """An answer says that a line was noted, or that this is not known."""
        found = []
        for chat, jobs in self.jobs.items():
            for job in (job for job in jobs if job.startswith("note")):
                told = " ".join(line for line in self.answers(chat) if job in line)
                if f"{job} (noted)" in told and job not in self.effects:
                    found.append(f"{job} is said to be noted, and is not")
                if job in self.effects and f"{job} (noted)" not in told and "unknown" not in told:
                    found.append(f"{job} was noted, and nobody is told that it may have been: {told}")
        return found

    def _wrong_store(self, sent: int) -> list[str]:
        with closing(sqlite3.connect(self.home.home / "nanobot.db")) as db:
            state = str(db.execute("PRAGMA integrity_check").fetchone()[0])
            left = db.execute(_LEFT).fetchone()
            kept = db.execute("SELECT count(*), count(DISTINCT id) FROM inbox WHERE state = 'done'").fetchone()
        found = [] if state == "ok" else [f"the store is damaged: {state}"]
        if left != (0, 0):
            found.append(f"rows of the inbox and the outbox are stuck: {left}")
        return found if kept == (sent, sent) else [*found, f"{sent} messages came, {kept} are done"]

    def _leaks(self) -> list[str]:
        """Files of the home that hold a secret; the configuration is where they live."""
        found = []
        for path in sorted(self.home.home.rglob("*")):
            if path.is_file() and path.name != "config.json":
                data = path.read_bytes()
                found += [f"{path.name} holds a secret" for secret in _SECRETS if secret.encode() in data]
        return found


_LEFT = """
SELECT (SELECT count(*) FROM inbox WHERE state != 'done'),
       (SELECT count(*) FROM outbox WHERE state IN ('new', 'sending', 'unknown', 'failed')
                                       AND reason != 'the final text is shorter')
"""


@contextlib.asynccontextmanager
async def staged(nursery: Nursery, folder: Path) -> AsyncIterator[Stage]:
    """A fresh home and fresh fakes. Lives that still run at the end are killed."""
    folder.mkdir(parents=True)
    brain = Brain()
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(TelegramServer())
        llm = await stack.enter_async_context(LlmServer(after=brain))
        notes = await stack.enter_async_context(McpServer((_ADD,), delay=_TOOL_SECONDS))
        bot = {
            "enabled": True,
            "token": TOKEN,
            "apiBase": telegram.url,
            "allowFrom": [str(OWNER), str(GUEST)],
            "joinSeconds": 0.1,
        }
        servers = {"notes": {"url": notes.url}}
        home = program(folder, llm, channels={"telegram": bot}, tools={"mcpServers": servers})
        stage = Stage(
            nursery, telegram, llm, brain, notes, home, telegram.user("Ada", OWNER), telegram.user("Bob", GUEST)
        )
        try:
            yield stage
        finally:
            for life in stage.lives:
                await life.kill()
