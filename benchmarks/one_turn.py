"""What does one question cost on the command line, from `exec` to exit?

    python -m benchmarks.one_turn [--peer PATH]

Runs `nanobot agent -m …` as a process of its own against a model server on loopback that answers at once, with a home
that holds nothing but a configuration naming that server: once for a plain answer, and once for one that reads a page
of 40 kB on loopback and cites it. CPU time and peak memory are what the kernel reports of that process, and of those
that it has begun, when it ends. Beside each turn runs the floor, a process that only imports httpx and pydantic, so
that a slow machine judges alike.
With `--peer`, the program of another agent in an environment of its own (`pip install nanobot-ai==0.3.5`, then
`ENVIRONMENT/bin/nanobot`) is asked the plain question as well.
The last line is the summary. Exit code 0: a plain turn takes at most 1.8 times the CPU of the floor and 48 MB of memory
(highest run), one that reads and cites at most 1.3 times the CPU of a plain one, and the peer, where it is named, at
least 5 times (medians). 1: more.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests/fakes, also when this runs as a file

from nanobot.providers.scripted import Call
from tests.fakes.llm_server import LlmServer, Reply
from tests.fakes.website import Answer, Website

ROOT = Path(__file__).resolve().parent.parent
FLOOR = "import httpx, pydantic"
FLOOR_BAR = 1.8  # times the CPU of the floor
MEMORY_BAR = 48.0
FETCH_BAR = 1.3  # times the CPU of a plain turn
PEER_BAR = 5.0  # times that of ours
QUESTION = "Say that the turn is whole."
ANSWER = "Loopback answers: the turn is whole."
CITED = "The tide is high at twelve, and the ferry waits for it on Mondays and Thursdays [1]."
PROSE = "The tide at the harbour is high at twelve, and the ferry waits for it on Mondays and Thursdays. "
MB = 1024 if sys.platform != "darwin" else 1024 * 1024
"""What `ru_maxrss` counts per MB: kB on Linux, bytes on macOS."""


@dataclass(frozen=True, slots=True)
class Cost:
    """`cpu` in seconds, `memory` in MB."""

    cpu: float
    memory: float


def one_turn(home: Path, answer: str = ANSWER, program: Sequence[str] = (sys.executable, "-m", "nanobot")) -> Cost:
    """Ask one question. Raises `RuntimeError` where the `answer` is not the model's."""
    command = (*program, "agent", "-m", QUESTION)
    kept = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "LC_ALL", "VIRTUAL_ENV"}}
    env = {**kept, "HOME": str(home), "NANOBOT_HOME": str(home / ".nanobot"), "COLUMNS": "120"}
    env |= {"PYTHONPATH": str(ROOT)} if program[0] == sys.executable else {}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env, cwd=home)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said = " ".join(out.read().decode().split())
        if process.returncode or answer not in said:
            raise RuntimeError(f"exit code {process.returncode}: {said}{err.read().decode()}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss / MB)


def write_config(home: Path, url: str) -> None:
    """A new home in `home` that knows nothing but the model server at `url`, and may read pages of this machine."""
    config = {
        "agents": {"defaults": {"provider": "custom", "model": "loopback"}},
        "providers": {"custom": {"apiBase": url, "apiKey": "none"}},
        "tools": {"ssrfWhitelist": ["127.0.0.1/32"]},
    }
    path = home / ".nanobot" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(config), encoding="utf-8")
    path.chmod(0o600)


def page() -> str:
    """An article of 40 kB with headings, links, a list and a table."""
    part = "".join(f"<p>{PROSE * 4}<a href='/p{number}'>more of it</a></p>" for number in range(8))
    table = "<table>" + "<tr><td>high</td><td>12:04</td></tr>" * 10 + "</table>"
    parts = "".join(f"<h2>Week {number}</h2>{part}<ul><li>{PROSE}</li></ul>{table}" for number in range(10))
    links = "".join(f"<li><a href='/{number}'>Page {number}</a></li>" for number in range(20))
    body = f"<nav><ul>{links}</ul></nav><main><h1>Tides</h1>{parts}</main><footer>About us</footer>"
    return f"<html><head><title>Tides</title></head><body>{body}</body></html>"


def floor() -> float:
    """The CPU time of the floor in seconds."""
    process = subprocess.Popen((sys.executable, "-c", FLOOR))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True)
class Round:
    """What each of them has cost beside the others."""

    plain: Cost
    cited: Cost
    floor: float
    peer: float | None


async def measure(runs: int, peer: str) -> list[Round]:
    """So many rounds; the first ones, which write compiled files and make homes, do not count."""
    async with LlmServer(after=ANSWER) as server, Website({"/tides": Answer(page())}) as site:
        with tempfile.TemporaryDirectory(prefix="nanobot-turn-") as ours, tempfile.TemporaryDirectory() as theirs:
            for home in map(Path, (ours, theirs)):
                write_config(home, f"{server.url}/v1")
            fetch = Reply(Call("web_fetch", {"url": f"{site.server.url}/tides"}))

            async def one() -> Round:
                plain = await asyncio.to_thread(one_turn, Path(ours))
                server.add(fetch, Reply(CITED))
                cited = await asyncio.to_thread(one_turn, Path(ours), CITED)
                least = await asyncio.to_thread(floor)
                other = await asyncio.to_thread(one_turn, Path(theirs), ANSWER, (peer,)) if peer else None
                return Round(plain, cited, least, other.cpu if other is not None else None)

            return [await one() for _ in range(runs + 1)][1:]


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU and memory of a one-shot turn")
    parser.add_argument("--runs", type=int, default=9, help="turns that count (default: 9)")
    parser.add_argument("--peer", default="", help="the program of another agent, which is asked the same")
    arguments = parser.parse_args()
    rounds = asyncio.run(measure(max(3, arguments.runs), arguments.peer))
    cpu = statistics.median(one.plain.cpu for one in rounds)
    least = statistics.median(one.floor for one in rounds)
    cited = statistics.median(one.cited.cpu for one in rounds)
    memory = max(one.plain.memory for one in rounds)
    good = cpu <= FLOOR_BAR * least and memory <= MEMORY_BAR and cited <= FETCH_BAR * cpu
    beside = ""
    if others := [one.peer for one in rounds if one.peer is not None]:
        peer = statistics.median(others)
        good = good and peer >= PEER_BAR * cpu
        beside = f"; the peer {peer:.3f} s, {peer / cpu:.2f} times ours (bar {PEER_BAR:g})"
    print(
        f"one turn: {cpu:.3f} s of CPU (median of {len(rounds)}), {cpu / least:.2f} times the floor of {least:.3f} s, "
        f"{memory:.1f} MB at the highest; bars {FLOOR_BAR} times and {MEMORY_BAR:g} MB; with a page read and cited "
        f"{cited:.3f} s, {cited / cpu:.2f} times (bar {FETCH_BAR}){beside}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
