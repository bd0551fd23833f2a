"""What does one question cost on the command line, from `exec` to exit?

    python -m benchmarks.one_turn

Runs `nanobot agent -m …` as a process of its own against a model server on loopback that answers at once, with a home
that holds nothing but a configuration naming that server. CPU time and peak memory are what the kernel reports of that
process when it ends. Beside each turn runs the floor, a process that only imports httpx and pydantic, so that a slow
machine judges alike.
The last line is the summary. Exit code 0: at most 1.8 times the CPU of the floor (medians) and 48 MB of memory (highest
run). 1: more.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from tests.fakes.llm_server import LlmServer

ROOT = Path(__file__).resolve().parent.parent
FLOOR = "import httpx, pydantic"
FLOOR_BAR = 1.8  # times the CPU of the floor
MEMORY_BAR = 48.0
ANSWER = "Loopback answers: the turn is whole."
MB = 1024 if sys.platform != "darwin" else 1024 * 1024
"""What `ru_maxrss` counts per MB: kB on Linux, bytes on macOS."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`cpu` in seconds, `memory` in MB."""

    cpu: float
    memory: float


def one_turn(home: Path) -> Cost:
    """Ask one question. Raises `RuntimeError` where the answer is not the model's."""
    command = (sys.executable, "-m", "nanobot", "agent", "-m", "Say that the turn is whole.")
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "VIRTUAL_ENV"}}
    env = {**kept, "HOME": str(home), "NANOBOT_HOME": str(home / "nanobot"), "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=home)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        answer = out.read().decode()
        if process.returncode or ANSWER not in answer:
            raise RuntimeError(f"exit code {process.returncode}: {answer}{err.read().decode()}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / MB)


def write_config(home: Path, url: str) -> None:
    """A new home under `home` that knows nothing but the model server at `url`."""
    config = {
        "agents": {"defaults": {"provider": "custom", "model": "loopback"}},
        "providers": {"custom": {"apiBase": url, "apiKey": "none"}},
    }
    path = home / "nanobot" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(config), encoding="utf-8")
    path.chmod(0o600)


def floor() -> float:
    """The CPU time of the floor in seconds."""
    process = subprocess.Popen((sys.executable, "-c", FLOOR))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


async def measure(runs: int) -> list[tuple[Cost, float]]:
    """Of each run what the turn cost, and the CPU of the floor beside it."""
    async with LlmServer(after=ANSWER) as server:
        with tempfile.TemporaryDirectory(prefix="nanobot-turn-") as folder:
            home = Path(folder)
            write_config(home, f"{server.url}/v1")
            await asyncio.to_thread(one_turn, home)
            return [(await asyncio.to_thread(one_turn, home), await asyncio.to_thread(floor)) for _ in range(runs)]


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU and memory of a one-shot turn")
    parser.add_argument("--runs", type=int, default=9, help="turns that count (default: 9)")
    costs = asyncio.run(measure(max(3, parser.parse_args().runs)))
    cpu = statistics.median(cost.cpu for cost, _ in costs)
    least = statistics.median(one for _, one in costs)
    memory = max(cost.memory for cost, _ in costs)
    print(
        f"one turn: {cpu:.3f} s of CPU (median of {len(costs)}), {cpu / least:.2f} times the floor of {least:.3f} s, "
        f"{memory:.1f} MB at the highest; bars {FLOOR_BAR} times and {MEMORY_BAR:g} MB"
    )
    return 0 if cpu <= FLOOR_BAR * least and memory <= MEMORY_BAR else 1


if __name__ == "__main__":
    sys.exit(main())
