"""What the gateway costs while it waits, while one message passes, and how it answers many chats at once.

    python benchmarks/gateway.py [--idle 20] [--chats 200] [--python PATH]

Runs `nanobot gateway` as a process of its own against a Bot API server and a model server on loopback. Idle memory and
CPU are what the kernel says of that process; `--python` names the Python of another environment for it, such as one
with nothing but `pip install .`, since packages beside those may be loaded as well. The overhead of a message is the
CPU from its update to its first model request, taken over many chats whose model does not answer yet. The crowd is one
message from every chat at once with a model that takes 200 ms. The lag is how late a timer of the gateway's own loop
fires meanwhile (99th percentile, every 5 ms). Beside it stands the floor, `_floor.py` in the place of the gateway: real
sockets, a durable commit for what is accepted and one for each answer. The last line is the summary; exit code 1 where
a bar is missed.
"""

import argparse
import asyncio
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fakes.llm_server import LlmServer, Reply  # noqa: E402 - found by the line above when run as a file
from tests.fakes.telegram_server import TOKEN, TelegramServer  # noqa: E402

MEMORY_BAR = 60.0  # MB
IDLE_BAR = 0.01  # share of one core
MESSAGE_BAR = 4.0  # ms of CPU
CROWD_BAR = 1.5  # seconds
LAG_BAR = 50.0  # ms
MODEL_SECONDS = 0.2
#: The gateway with a watch over its event loop, which writes how late its timer fired.
WATCHED = """
import asyncio, os, sys, time
from nanobot.cli.main import main
run = asyncio.run
async def watch(late):
    while True:
        start = time.monotonic()
        await asyncio.sleep(0.005)
        late.append(time.monotonic() - start - 0.005)
async def both(work, late):
    task = asyncio.create_task(watch(late))
    try:
        return await work
    finally:
        task.cancel()
def watched(work, **options):
    late = []
    try:
        return run(both(work, late), **options)
    finally:
        late.sort()
        with open(os.environ["LAG_FILE"], "w") as file:
            file.write(str(late[int(0.99 * len(late))] if late else 0))
asyncio.run = watched
sys.exit(main(["gateway"]))
"""
#: The least that could be done with the same servers.
FLOOR = Path(__file__).with_name("_floor.py").read_text(encoding="utf-8")
FIRST_USER = 5_000
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running gateway: its process, and the two servers it talks to. `started` is seconds to its first request."""

    process: asyncio.subprocess.Process
    telegram: TelegramServer
    model: LlmServer
    started: float

    @property
    def cpu(self) -> float:
        """Seconds of user and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def precise(self) -> float:
        """Seconds of CPU of the threads that live, to the microsecond, where `cpu` counts in hundredths."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(float(one.read_text(encoding="utf-8").split()[0]) for one in tasks) / 1e9

    @property
    def memory(self) -> float:
        """Resident set in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


def place(store: Path, home: Path) -> None:
    """A copy of a store in a home, on the disk before anything is measured."""
    with store.open("rb") as source, (home / "nanobot.db").open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())


@asynccontextmanager
async def running(
    users: int,
    lag_file: Path | None = None,
    store: Path | None = None,
    settings: dict[str, object] | None = None,
    program: str = WATCHED,
    python: str = sys.executable,
) -> AsyncIterator[Gateway]:
    """A gateway in a home of its own, with a copy of `store` where one is named, and further `settings`.

    With a `lag_file` it is run by `program`, which writes there what it has seen.
    """
    own = TOKEN.replace("123456", str(os.getpid()))  # one gateway of this machine answers a bot
    async with TelegramServer(own) as telegram, LlmServer(after=Reply("Done.")) as model:
        with tempfile.TemporaryDirectory() as home:
            if store is not None:
                place(store, Path(home))
            config = {
                **(settings or {}),
                "agents": {"defaults": {"provider": "bench", "model": "bench"}},
                "providers": {"bench": {"apiKey": "sk-bench-000000", "apiBase": f"{model.url}/v1"}},
                "channels": {
                    "telegram": {
                        "enabled": True,
                        "token": telegram.token,
                        "apiBase": telegram.url,
                        "allowFrom": [FIRST_USER + number for number in range(users)],
                        "joinSeconds": 0,
                    }
                },
            }
            path = Path(home) / "config.json"
            path.write_text(json.dumps(config), encoding="utf-8")
            path.chmod(0o600)
            env = {"PATH": os.environ["PATH"], "HOME": home, "NANOBOT_HOME": home, "PYTHONPATH": str(ROOT)}
            command = ["-m", "nanobot", "gateway"]
            if lag_file is not None:
                env["LAG_FILE"], command = str(lag_file), ["-c", program]
            begun = time.perf_counter()
            process = await asyncio.create_subprocess_exec(python, *command, env=env, stdout=asyncio.subprocess.DEVNULL)
            try:
                await telegram.until(lambda: bool(telegram.sent("getUpdates")), timeout=30)
                yield Gateway(process, telegram, model, time.perf_counter() - begun)
            finally:
                with suppress(ProcessLookupError):
                    process.terminate()
                await asyncio.wait_for(process.wait(), 20)


async def idle(seconds: float, store: Path | None = None, python: str = sys.executable) -> tuple[float, float]:
    """Memory in MB and share of a core while nothing happens."""
    async with running(1, store=store, python=python) as gateway:
        await asyncio.sleep(2)
        before, start = gateway.cpu, time.monotonic()
        await asyncio.sleep(seconds)
        return gateway.memory, (gateway.cpu - before) / (time.monotonic() - start)


async def overhead(chats: int, program: str = "") -> float:
    """CPU in ms from an update to its first model request; of another `program` in the place of the gateway."""
    async with running(chats + 1, Path(os.devnull) if program else None, program=program) as gateway:
        gateway.telegram.user("Warm", FIRST_USER + chats).say("warm up")
        await gateway.model.asked(1, timeout=20)
        gateway.model.after = Reply("Late.", delay=30)
        await asyncio.sleep(2)
        before = gateway.precise
        for number in range(chats):
            gateway.telegram.user(f"U{number}", FIRST_USER + number).say(f"question {number}")
        await gateway.model.asked(1 + chats, timeout=30)
        return (gateway.precise - before) / chats * 1000


async def crowd(chats: int, lag_file: Path, program: str = WATCHED) -> tuple[float, float, int]:
    """Latency in seconds of one message alone, p95 of `chats` at once, and how many were answered."""
    async with running(chats + 1, lag_file, program=program) as gateway:
        gateway.model.after = Reply("Done.", delay=MODEL_SECONDS)
        telegram = gateway.telegram

        def answered(chat: int) -> bool:
            return any(line.startswith("bot: ") and "Done." in line for line in telegram.visible(chat))

        single = telegram.user("One", FIRST_USER + chats)
        latencies = []
        for _ in range(3):
            telegram.chats[single.chat].clear()
            start = time.monotonic()
            single.say("alone")
            await telegram.until(lambda: answered(single.chat), timeout=30)
            latencies.append(time.monotonic() - start)
        people = [telegram.user(f"U{number}", FIRST_USER + number) for number in range(chats)]
        ends: dict[str, float] = {}
        read = len(telegram.calls)
        start = time.monotonic()
        for person in people:
            person.say("all at once")

        def note() -> bool:
            nonlocal read
            for call in telegram.calls[read:]:
                if "Done." in str(call.params.get("text", "")):
                    ends.setdefault(str(call.params.get("chat_id")), call.at - start)
            read = len(telegram.calls)
            return len(ends) == chats

        with suppress(TimeoutError):
            await telegram.until(note, timeout=120)
        times = sorted(ends.values())
        p95 = times[min(len(times) - 1, math.ceil(0.95 * chats) - 1)] if times else math.inf
        return statistics.median(latencies), p95, len(ends)


async def measure(arguments: argparse.Namespace) -> int:
    memory, share = await idle(arguments.idle, python=arguments.python)
    print(f"idle: {memory:.1f} MB, {share:.2%} of one core")
    least, cost = await overhead(arguments.messages, FLOOR), await overhead(arguments.messages)
    print(f"message: {cost:.1f} ms of CPU from the update to its model request, {cost / least:.0f} times the floor")
    with tempfile.TemporaryDirectory() as folder:
        lag_file = Path(folder) / "lag"
        alone, p95, answered = await crowd(arguments.chats, lag_file)
        lag = float(lag_file.read_text(encoding="utf-8")) * 1000
    print(f"crowd: {answered} of {arguments.chats} answered, p95 {p95:.2f} s, alone {alone:.2f} s, lag {lag:.0f} ms")
    floor_alone, floor_p95, _answered = await crowd(arguments.chats, Path(os.devnull), FLOOR)
    print(f"floor: {least:.2f} ms of CPU for a message, p95 {floor_p95:.2f} s, alone {floor_alone:.2f} s")
    good = memory <= MEMORY_BAR and share <= IDLE_BAR and cost <= MESSAGE_BAR and lag <= LAG_BAR
    good = good and answered == arguments.chats and p95 <= CROWD_BAR
    print(
        f"gateway {'ok' if good else 'MISSED'}: idle {memory:.1f} MB and {share:.2%}, {cost:.1f} ms per message, "
        f"p95 {p95:.2f} s of {arguments.chats} chats (bar {CROWD_BAR} s), lag {lag:.0f} ms"
    )
    return 0 if good else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=float, default=20, help="seconds of waiting that are measured")
    parser.add_argument("--messages", type=int, default=24, help="messages over which the overhead is taken")
    parser.add_argument("--chats", type=int, default=200, help="chats that ask at once")
    parser.add_argument("--python", default=sys.executable, help="the Python that runs the idle gateway")
    return asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
