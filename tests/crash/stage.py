"""Three messages in two chats, one of which has an effect; what must hold is judged by the fakes around the bot."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.harness import Program, known_tools, program
from tests.crash.brain import Brain
from tests.crash.judge import ADD, Judge
from tests.fakes.crash.nursery import Life, Nursery
from tests.fakes.crash.points import Plan
from tests.fakes.llm_server import LlmServer
from tests.fakes.mcp_server import McpServer
from tests.fakes.telegram_server import TOKEN, TelegramServer, User
from tests.fakes.waiting import until

#: Seconds after which what is not finished is taken for stuck.
STUCK = 120.0
#: Of this machine, those that the tests may use.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
#: Seconds between the effect of the tool and its answer: time for a message that steers the turn, and for a kill.
_TOOL_SECONDS = 0.3
OWNER, GUEST = 4242, 4343
_SECRETS = (TOKEN, "k-for-tests")


@dataclass(slots=True)
class Stage:
    """One home between its fakes. Ada owns the bot and agrees to whatever it asks; Bob is a guest."""

    nursery: Nursery
    telegram: TelegramServer
    llm: LlmServer
    brain: Brain
    judge: Judge
    home: Program
    ada: User
    bob: User
    lives: list[Life] = field(default_factory=list)

    async def start(self, plan: Plan | None = None, env: dict[str, str] | None = None) -> Life:
        life = await self.nursery.start(self.home, "gateway", plan=plan, env=env)
        self.lives.append(life)
        return life

    def refusals(self, chat: int) -> list[str]:
        """What the bot has said of a disk that it cannot write to, instead of an answer."""
        return [line for line in self.telegram.visible(chat) if line.startswith("bot: ") and "cannot be used" in line]

    def closed(self, job: str, chat: int) -> bool:
        """Whether a job was answered, or refused aloud; at the time there is one job in a chat."""
        return self.judge.answered(job, chat) or bool(self.refusals(chat))

    @property
    def settled(self) -> bool:
        """Whether the ledger has nothing left to do."""
        with closing(sqlite3.connect(self.home.home / "nanobot.db", timeout=1)) as db:
            return tuple(db.execute(_LEFT).fetchone()) == (0, 0)

    async def talk(self, *, steer: bool) -> None:
        """Two messages at once; the third while the first is worked on (`steer`), or after it."""
        judge, chat = self.judge, self.ada.chat
        judge.ask(self.ada, "note-a1")
        judge.ask(self.bob, "slow-b1")
        await self.until(lambda: (steer and bool(judge.effects)) or judge.answered("note-a1", chat))
        judge.ask(self.ada, "plain-a2")

    async def finish(self) -> None:
        """Wait until every message is answered and nothing is left to do."""
        await self.until(lambda: not self.judge.open)
        await until(self._at_rest, STUCK)

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
        return found + self.judge.problems() + self._wrong_store(sent) + self._leaks()

    def _wrong_store(self, sent: int) -> list[str]:
        with closing(sqlite3.connect(self.home.home / "nanobot.db")) as db:
            state = str(db.execute("PRAGMA integrity_check").fetchone()[0])
            left = db.execute(_LEFT).fetchone()
            kept = db.execute(KEPT.format("inbox")).fetchone()
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


#: The messages that are done, not the buttons that were pressed.
KEPT = "SELECT count(*), count(DISTINCT id) FROM {} WHERE state = 'done' AND payload NOT LIKE '%\"callback_query\"%'"
_LEFT = """
SELECT (SELECT count(*) FROM inbox WHERE state != 'done'),
       (SELECT count(*) FROM outbox WHERE state IN ('new', 'sending', 'unknown', 'failed'))
"""


@contextlib.asynccontextmanager
async def staged(nursery: Nursery, folder: Path) -> AsyncIterator[Stage]:
    """A fresh home and fresh fakes. Lives that still run at the end are killed."""
    folder.mkdir(parents=True)
    brain = Brain()
    async with AsyncExitStack() as stack:
        telegram = await stack.enter_async_context(TelegramServer())
        llm = await stack.enter_async_context(LlmServer(after=brain))
        notes = await stack.enter_async_context(McpServer((ADD,), delay=_TOOL_SECONDS))
        bot = {
            "enabled": True,
            "token": TOKEN,
            "apiBase": telegram.url,
            "allowFrom": [str(OWNER), "*"],
            "joinSeconds": 0.1,
        }
        servers = {"notes": {"url": notes.url}}
        home = program(folder, llm, channels={"telegram": bot}, tools={"mcpServers": servers})
        await known_tools(home)
        ada, bob = telegram.user("Ada", OWNER), telegram.user("Bob", GUEST)
        ada.agrees("Once")
        stage = Stage(nursery, telegram, llm, brain, Judge(telegram, notes), home, ada, bob)
        try:
            yield stage
        finally:
            for life in stage.lives:
                await life.kill()
