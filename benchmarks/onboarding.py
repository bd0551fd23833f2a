"""How many questions and seconds lie between a wheel and the first answer on Telegram?

    python -m benchmarks.onboarding

Builds a wheel of the checkout, has pip install it (beside the packages of this Python, which are there already), and
answers `nanobot onboard` in a pseudo-terminal as a person would who types at once, against a model, a search engine and
Telegram on loopback, in a home that holds nothing. The seconds are those of the program alone, and judge nothing.
The last line is the summary. Exit code 0: three questions. 1: more.
"""

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # tests, also when this runs as a file

from tests.cli.newcomer import KEY, Services, answered, claimed, installed, newcomer
from tests.fakes.telegram_server import TOKEN

ROOT = Path(__file__).resolve().parent.parent
QUESTIONS = 3
_PROMPT = re.compile(r"(?m)^(?:\[[^\]]*\] )?>(?: |$)")


async def one_start(command: list[str], home: Path) -> dict[str, float]:
    """Seconds from the start to each step, and the questions."""
    async with Services() as services:
        began = time.perf_counter()
        found: dict[str, float] = {}
        with newcomer([*command, "onboard", *services.options], services.env(home)) as terminal:
            for step, keys in (("1 of 3", KEY), ("2 of 3", TOKEN), ("3 of 3", "")):
                await answered(terminal, step, keys)
                found[f"question {step[0]}"] = time.perf_counter() - began
            await terminal.until("I am nanobot. Ask me anything.")
            found["first answer"] = time.perf_counter() - began
            await terminal.until("?start=")
            found["link to the bot"] = time.perf_counter() - began
            await claimed(terminal, services.telegram.user("Ada"))
            found["answer on Telegram"] = time.perf_counter() - began
            found["questions"] = len(_PROMPT.findall(terminal.text()))
            terminal.press("\x03")
            await terminal.wait()
    return found


def wheel(folder: Path) -> Path:
    """A wheel of the checkout."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return next(folder.glob("*.whl"))


def main() -> int:
    """Print what was counted; the exit code."""
    parser = argparse.ArgumentParser(description="Questions and seconds from a wheel to an answer on Telegram.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    found = []
    with tempfile.TemporaryDirectory() as folder:
        built = wheel(Path(folder))
        began = time.perf_counter()
        command = installed(built, Path(folder))
        pip = time.perf_counter() - began
        for number in range(rounds):
            home = Path(folder, f"home{number}")
            home.mkdir()
            found.append(asyncio.run(one_start(command, home)))
    print(f"pip install of the wheel: {pip:.1f} s")
    for step in found[0]:
        if step != "questions":
            print(f"{step}: {statistics.median(one[step] for one in found):.1f} s")
    questions = max(one["questions"] for one in found)
    whole = statistics.median(one["answer on Telegram"] for one in found) + pip
    print(json.dumps({"questions": int(questions), "seconds": round(whole, 1), "rounds": rounds}))
    return 0 if questions <= QUESTIONS else 1


if __name__ == "__main__":
    sys.exit(main())
