"""The terminal: how soon its prompt stands, what a streamed answer costs, and what is left in the scrollback.

    python -m benchmarks.terminal [--rounds 9] [--llm PATH]

The real program runs on a pseudo-terminal of 80 columns and 24 rows, with a model on loopback. Measured in one run:

- CPU until the prompt is visible, in multiples of that of `import httpx, pydantic` in the same Python;
- CPU and bytes to the terminal of an answer of 1,300 chunks, above those of a conversation in which nothing is said;
- in tmux, after three resizes while such an answer comes: every block once, and all of it in the scrollback.

The chunks come four milliseconds apart, as those of a fast model do.

`--llm` names the program `llm` (pip), whose chat is measured beside, from its start to its prompt. CPU is that of the
finished process, user and system; of several rounds the least counts, for other work on the machine only adds. The last
line is the summary, the exit code is 1 above a bar.
"""

import argparse
import asyncio
import os
import re
import resource
import shlex
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path

from nanobot.providers.scripted import Pause, Say
from tests.channels.pseudo_terminal import PseudoTerminal
from tests.cli.harness import Program, program
from tests.fakes.llm_server import LlmServer, Reply

PROMPT_BAR, CPU_BAR, BYTES_BAR = 2.5, 0.6, 50_000
CHUNKS = 1_300
SECTIONS = 40
#: 40 blocks in 1,300 chunks of seven characters.
PART = "## Part {0}\n\nMARK-{0:02d} " + "some **bold** words and more of them, " * 5 + "\n\n"
TEXT = "".join(PART.format(number) for number in range(SECTIONS)) + "- last line\n" * 60
ANSWER = TEXT[: CHUNKS * 7 - 13] + "\n\nTHE-END.\n\n"
CHUNK_SECONDS = 0.004
FLOOR = [sys.executable, "-c", "import httpx, pydantic"]
Leave = Callable[[PseudoTerminal], Coroutine[object, object, None]]


async def cpu_of(
    command: list[str], env: dict[str, str], cwd: Path, leave: Leave | None
) -> tuple[float, PseudoTerminal]:
    """CPU seconds of a program on a terminal, which `leave` brings to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with PseudoTerminal(command, env=env, cwd=cwd, cold=True) as terminal:
        if leave is not None:
            await leave(terminal)
        code = await terminal.wait()
        if code:
            raise SystemExit(f"{command[0]} ended with {code}:\n{terminal.text()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, terminal


async def silent(terminal: PseudoTerminal) -> None:
    await terminal.until(re.compile(r"❯\n.*fake", re.MULTILINE))
    terminal.press("\x04")


async def one_answer(terminal: PseudoTerminal) -> None:
    await terminal.until("❯")
    terminal.press("go\r")
    await terminal.until("THE-END.")
    await terminal.until(re.compile(r"❯\n.* in, .* out", re.MULTILINE))
    terminal.press("\x04")


def answer() -> Reply:
    pieces = (ANSWER[place : place + 7] for place in range(0, len(ANSWER), 7))
    return Reply(*(action for piece in pieces for action in (Say(piece), Pause(CHUNK_SECONDS))))


async def resized(home: Program) -> str:
    """The scrollback of tmux after an answer during which its window was resized three times."""
    tmux = ["tmux", "-L", f"nanobot-bench-{os.getpid()}"]

    async def run(*words: str) -> str:
        process = await asyncio.create_subprocess_exec(*tmux, *words, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0].decode()

    async def until(text: str) -> str:
        async with asyncio.timeout(120):
            while text not in (shown := await run("capture-pane", "-p", "-J", "-S", "-20000", "-t", "=talk:")):
                await asyncio.sleep(0.05)
            return shown

    words = shlex.join(["env", *(f"{name}={value}" for name, value in home.env.items()), *home.command("agent")])
    await run("new-session", "-d", "-s", "talk", "-x", "80", "-y", "24", words)
    try:
        await until("❯")
        await run("send-keys", "-t", "=talk:", "go", "Enter")
        for mark, columns, rows in (("MARK-05", "100", "30"), ("MARK-12", "60", "18"), ("MARK-20", "80", "24")):
            await until(mark)
            await run("resize-window", "-t", "=talk:", "-x", columns, "-y", rows)
        await until("THE-END.")
        return await until(" in, ")
    finally:
        await run("kill-server")


async def llm_prompt(terminal: PseudoTerminal) -> None:
    await terminal.until(re.compile(r"^> *$", re.MULTILINE))
    terminal.press("exit\r")


def told(name: str, value: float, bar: float, unit: str = "") -> str:
    return f"{name} {value:.2f}{unit} (bar {bar:g}{unit})"


async def measure(rounds: int, llm: str) -> int:
    with tempfile.TemporaryDirectory(prefix="nanobot-bench-") as folder:
        async with LlmServer(after=answer()) as server:
            home = program(Path(folder), server)
            command, env = home.command("agent", "--alone"), home.env
            floor = prompt = said = beside = 1e9
            for _ in range(rounds):
                floor = min(floor, (await cpu_of(FLOOR, env, home.home, None))[0])
                prompt = min(prompt, (await cpu_of(command, env, home.home, silent))[0])
                used, terminal = await cpu_of(command, env, home.home, one_answer)
                said = min(said, used)
                if llm:
                    talk, known = [llm, "chat", "-m", "fake"], llm_env(home, server)
                    beside = min(beside, (await cpu_of(talk, known, home.home, llm_prompt))[0])
            size = len(terminal.raw.encode())
            last = await resized(home)
    counts = [last.count(f"MARK-{n:02d}") for n in range(SECTIONS)]
    order = re.findall(r"MARK-\d\d", last)
    once = counts == [1] * SECTIONS and order == sorted(order)
    ratio, above = prompt / floor, said - prompt
    if llm:
        print(f"`llm chat` of pip to its prompt: {beside / floor:.2f} x the floor, {beside * 1000:.0f} ms of CPU")
    print(
        f"terminal: {told('prompt', ratio, PROMPT_BAR, ' x the floor')} ({prompt * 1000:.0f} ms against "
        f"{floor * 1000:.0f} ms of CPU); {CHUNKS:,} chunks: {told('CPU', above, CPU_BAR, ' s')}, {size:,} bytes (bar "
        f"{BYTES_BAR:,}); after three resizes every block {'once and in order' if once else f'NOT once: {counts}'}"
    )
    return 0 if ratio <= PROMPT_BAR and above <= CPU_BAR and size <= BYTES_BAR and once else 1


def llm_env(home: Program, server: LlmServer) -> dict[str, str]:
    """`llm` with a model of its own on loopback."""
    place = home.home.parent / "llm"
    place.mkdir(exist_ok=True)
    (place / "extra-openai-models.yaml").write_text(
        f'- model_id: fake\n  model_name: fake\n  api_base: "{server.url}/v1"\n', encoding="utf-8"
    )
    return {**home.env, "LLM_USER_PATH": str(place), "OPENAI_API_KEY": "k", "PATH": os.environ.get("PATH", "")}


def main() -> int:
    parser = argparse.ArgumentParser(description="prompt, streaming and scrollback of the terminal")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--llm", default="", help="the program llm of pip, to be measured beside")
    args = parser.parse_args()
    return asyncio.run(measure(max(1, args.rounds), args.llm))


if __name__ == "__main__":
    sys.exit(main())
