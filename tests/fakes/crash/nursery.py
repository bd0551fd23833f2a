"""Starts nanobot in a tenth of a second: a process that has imported all of it forks for every start.

    async with Nursery() as nursery:
        life = await nursery.start(home, "gateway", plan=Plan("sql", 12))
        await life.ended()

A life runs the same `main` as the command, in a process of its own, with the environment of its home and nothing else.
"""

import asyncio
import contextlib
import ctypes
import gc
import importlib
import itertools
import json
import os
import random
import selectors
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from nanobot.agent.receipts import unbacked
from nanobot.cli.main import main as run_nanobot
from nanobot.security.network import certificates
from tests.cli.harness import Program, judge_warnings
from tests.fakes.crash.points import Counts, Plan, arm, read

BOUND = 120.0
ROOT = Path(__file__).parents[3]
#: prctl(2), PR_SET_PTRACER: where only ancestors may trace a process, it can allow others.
_SET_PTRACER = 0x59616D61
#: What a gateway imports on its way; the process that forks has done it for all lives, as it has read the certificates.
_NEEDED = (
    "anyio._backends._asyncio",
    "httpcore2",
    "nanobot.agent.citations.answer",
    "nanobot.agent.scheduler",
    "nanobot.agent.tools.docs",
    "nanobot.agent.tools.files.change",
    "nanobot.agent.tools.files.find",
    "nanobot.agent.tools.files.read",
    "nanobot.agent.tools.knowledge.remember",
    "nanobot.agent.tools.mcp.servers",
    "nanobot.agent.tools.web.fetch",
    "nanobot.agent.tools.web.search",
    "nanobot.builder.live",
    "nanobot.channels.socket.server",
    "nanobot.channels.telegram.channel",
    "nanobot.channels.terminal.appointments",
    "nanobot.cli.gateway",
    "nanobot.config.changes.seeds",
    "nanobot.config.changes.taken",
    "nanobot.library.upkeep",
    "nanobot.providers.lookup.provider",
    "nanobot.providers.openai_compat",
    "nanobot.schedule.appointments",
    "nanobot.schedule.heartbeat",
    "nanobot.upkeep.nightly",
)


@dataclass(slots=True)
class Life:
    """One run of the program. `text` is what it has printed, `counts` the places that it has passed."""

    pid: int
    folder: Path
    _end: "asyncio.Future[int]"

    @property
    def text(self) -> str:
        return (self.folder / "printed").read_text(encoding="utf-8", errors="replace")

    @property
    def counts(self) -> Counts:
        return read(self.folder / "points")

    @property
    def over(self) -> bool:
        return self._end.done()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; nothing where the process has ended."""
        if self.pid and not self.over:  # without a process of its own, 0 would be everybody's
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def stop(self) -> int:
        """Ask it to end, as a supervisor does, and wait."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.ended()

    async def ended(self, seconds: float = BOUND) -> int:
        """Wait for its exit code; minus the signal that ended it."""
        async with asyncio.timeout(seconds):
            code = await asyncio.shield(self._end)
        judge_warnings(self.text)
        return code


@dataclass(slots=True)
class Nursery:
    """An async context manager. Lives that still run at its end are killed."""

    _process: asyncio.subprocess.Process | None = None
    _reader: "asyncio.Task[None] | None" = None
    _lives: dict[int, Life] = field(default_factory=dict)
    _born: dict[int, "asyncio.Future[int]"] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.fakes.crash.nursery"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._reader is not None
        await self.clear()
        self._process.stdin.close()
        async with asyncio.timeout(BOUND):
            await self._process.wait()
            await self._reader

    async def clear(self) -> None:
        """Kill every life that still runs."""
        for life in tuple(self._lives.values()):
            await life.kill()

    async def start(
        self,
        home: Program,
        *arguments: str,
        plan: Plan | None = None,
        env: Mapping[str, str] | None = None,
        stopped: bool = False,
    ) -> Life:
        """Start the program. Its files (`printed`, `points`) are in a folder beside the home.

        `stopped`: it begins when it gets SIGCONT, and whoever runs as the same user may trace it.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        number = next(self._numbers)
        folder = home.home.parent / f"life-{number}"
        folder.mkdir()
        order = {
            "number": number,
            "folder": str(folder),
            "argv": arguments,
            "env": {**home.env, **(env or {})},
            "plan": asdict(plan or Plan()),
            "stopped": stopped,
        }
        loop = asyncio.get_running_loop()
        born = self._born[number] = loop.create_future()
        life = self._lives[number] = Life(0, folder, loop.create_future())
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        await self._process.stdin.drain()
        assert self._reader is not None
        async with asyncio.timeout(BOUND):
            await asyncio.wait((born, self._reader), return_when=asyncio.FIRST_COMPLETED)
        assert born.done(), "the process that forks has ended"
        life.pid = born.result()
        return life

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            told = json.loads(line)
            number = told["number"]
            if "pid" in told:
                self._born.pop(number).set_result(told["pid"])
            else:
                self._lives.pop(number)._end.set_result(told["code"])


# In the process that forks


def _serve() -> None:
    for name in _NEEDED:
        importlib.import_module(name)
    certificates()
    unbacked("I have done it.", ())  # compiles its patterns
    gc.freeze()
    children: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    rest = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(0, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in waiting.select()}
            if woken in ready:
                os.read(woken, 4096)
                _reap(children)
            if 0 not in ready:
                continue
            if not (block := os.read(0, 65536)):
                return
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                order = json.loads(line)
                if (pid := os.fork()) == 0:
                    _live(order)
                children[pid] = order["number"]
                _tell(number=order["number"], pid=pid)


def _reap(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        _tell(number=children.pop(pid), code=os.waitstatus_to_exitcode(status))


def _tell(**values: int) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


def _live(order: dict[str, object]) -> None:
    """Become the program. Never returns."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder, env, plan, argv = Path(str(order["folder"])), order["env"], order["plan"], order["argv"]
    assert isinstance(env, dict)
    assert isinstance(plan, dict)
    assert isinstance(argv, list)
    printed = os.open(folder / "printed", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.closerange(3, 64)
    os.environ.clear()
    os.environ.update(env)
    random.seed()
    if order["stopped"]:
        ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(-1))
        os.kill(os.getpid(), signal.SIGSTOP)
    arm(Plan(**plan), folder / "points")
    code = 1
    try:
        code = run_nanobot(argv)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
